"""Checks before a run reads or creates anything: tables that cannot become tables of a lake, and missing rights.

PostgreSQL sends no generated columns (documentation: Logical Replication, Restrictions; version 18 has an option). A
DEFERRABLE key may belong to two rows within a transaction, and a deletion does not say which of them it deletes. Rights
that PostgreSQL refuses later are named by connection.py.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from interbed.ingest.flow.changes import SourceTable
from interbed.ingest.formats.postgres_types import TypeLookup, column_type
from interbed.ingest.sources.postgres.connection import PostgresConnections, quoted
from interbed.storage.base.errors import InvalidInputError
from interbed.storage.meta.schema.table_schema import Schema


@dataclass(frozen=True, slots=True)
class TableCheck:
    """The tables that cannot be tables of a lake, with reasons, and the generated columns that the others lack in the
    lake.
    """

    refused: dict[SourceTable, str] = field(default_factory=dict)
    generated: dict[SourceTable, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Column:
    """A row of _COLUMNS; `dimensions` are those of a declared array, 0 for other types."""

    name: str
    oid: int
    modifier: int
    dimensions: int
    shown_type: str
    is_key: bool
    is_generated: bool
    is_of_deferrable_key: bool


def check_tables(
    connections: PostgresConnections,
    connection: Any,
    publication: str,
    tables: Iterable[SourceTable],
    is_wanted: Callable[[SourceTable], bool],
    lookup: TypeLookup,
) -> TableCheck:
    """Check the wanted tables. With a column list in the publication, only its columns count."""
    check = TableCheck()
    wanted: list[SourceTable] = []
    for table in tables:
        try:
            if is_wanted(table):
                wanted.append(table)
        except InvalidInputError as error:
            # No table of a lake can have this name.
            check.refused[table] = str(error)
    if not wanted:
        return check
    # Publications choose columns since version 15.
    chosen = "pt.attnames::text[]" if connection.info.server_version >= 150000 else "NULL::text[]"
    with connections.errors("The tables can't be examined"):
        found = connection.execute(
            _COLUMNS.replace("CHOSEN", chosen).encode(),
            [publication, [t.database for t in wanted], [t.name for t in wanted]],
        ).fetchall()
    columns: Mapping[SourceTable, list[_Column]] = {table: [] for table in wanted}
    for schema, name, *column in found:
        columns[SourceTable(schema, name)].append(_Column(*column))
    for table, of_table in columns.items():
        if (why := _reason(of_table, lookup)) is not None:
            check.refused[table] = why
        elif generated := [column.name for column in of_table if column.is_generated]:
            check.generated[table] = generated
    return check


def _reason(columns: Sequence[_Column], lookup: TypeLookup) -> str | None:
    """Return why no table of a lake can have these columns; None if it can."""
    fields = []
    keys = []
    lower: dict[str, str] = {}
    for column in columns:
        name = column.name
        if column.is_of_deferrable_key:
            return (
                f"its primary key ({name!r}) is DEFERRABLE: two rows may have one key within a transaction, and "
                "changes don't say which of them they are of. Make the key NOT DEFERRABLE"
            )
        if column.is_generated:
            if column.is_key:
                return f"its key has the generated column {name!r}, which PostgreSQL does not send"
            continue
        if column.dimensions > 1:
            return (
                f"its column {name!r} is a {column.shown_type}, an array of {column.dimensions} dimensions, which "
                "becomes no column"
            )
        if (other := lower.setdefault(name.lower(), name)) != name:
            return (
                f"its columns {other!r} and {name!r} differ by case alone, which metastores and SQL don't distinguish"
            )
        fields.append(pa.field(name, column_type(column.oid, column.modifier, lookup).type, nullable=not column.is_key))
        keys += [name] if column.is_key else []
    try:
        Schema.from_pyarrow_schema(pa.schema(fields), primary_keys=keys).to_table_schema()
    except InvalidInputError as error:
        return str(error)
    return None


_COLUMNS = """
    SELECT n.nspname, c.relname, a.attname, a.atttypid::int8, a.atttypmod, GREATEST(a.attndims, t.typndims),
    format_type(a.atttypid, a.atttypmod) || CASE WHEN a.attndims > 1 THEN repeat('[]', a.attndims - 1) ELSE '' END,
    COALESCE(key.is_there, false), a.attgenerated <> '', COALESCE(NOT key.is_immediate, false)
    FROM pg_class c
    JOIN pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    JOIN pg_type t ON t.oid = a.atttypid
    LEFT JOIN LATERAL (
        SELECT true AS is_there, i.indimmediate AS is_immediate
        FROM pg_index i WHERE i.indrelid = c.oid AND a.attnum = ANY (i.indkey::int2[])
        AND CASE c.relreplident WHEN 'i' THEN i.indisreplident ELSE i.indisprimary END
    ) key ON true
    LEFT JOIN pg_publication_tables pt ON pt.pubname = %s AND pt.schemaname = n.nspname AND pt.tablename = c.relname
    WHERE (n.nspname, c.relname) IN (SELECT * FROM unnest(%s::text[], %s::text[]))
    AND (CHOSEN IS NULL OR a.attname = ANY (CHOSEN) OR a.attgenerated <> '')
    ORDER BY 1, 2, a.attnum
"""


def check_rights(
    connections: PostgresConnections,
    connection: Any,
    *,
    publication: str | None,
    to_read: Collection[SourceTable],
    makes_slot: bool,
) -> None:
    """Raise InvalidInputError naming all missing rights, and the statements that grant them.

    `publication` is one that will be created for the tables; None if it exists.
    """
    missing: list[str] = []
    grants: list[str] = []
    [(user, database, replicates, creates)] = connections.rows(connection, _OF_USER)
    role = quoted(user)
    if makes_slot and not replicates:
        missing.append("the attribute REPLICATION, to read the changes")
        grants.append(f"ALTER ROLE {role} REPLICATION;")
    tables = sorted(to_read, key=str)
    found = connections.rows(connection, _OF_TABLES, [[t.database for t in tables], [t.name for t in tables]])
    schemas = sorted({schema for schema, _, may_use, _, _ in found if not may_use})
    if schemas:
        missing.append(f"USAGE of the schema {', '.join(schemas)}")
        grants.append(f"GRANT USAGE ON SCHEMA {', '.join(map(quoted, schemas))} TO {role};")
    unread = [f"{quoted(schema)}.{quoted(name)}" for schema, name, _, may_read, _ in found if not may_read]
    if unread:
        missing.append(f"SELECT from {_some(unread)}")
        grants.append(f"GRANT SELECT ON {', '.join(unread)} TO {role};")
    if publication is not None:
        others = [f"{quoted(schema)}.{quoted(name)}" for schema, name, _, _, is_owner in found if not is_owner]
        if not creates or others:
            if not creates:
                missing.append(f"CREATE on the database {database}, to create the publication {publication!r}")
            if others:
                missing.append(f"the ownership of {_some(others)}, to publish it")
            if others:
                # If the owner of the tables creates the publication, the user need not own anything.
                every = ", ".join(f"{quoted(schema)}.{quoted(name)}" for schema, name, *_ in found)
                root = "" if connection.info.server_version < 130000 else " WITH (publish_via_partition_root = true)"
                grants.append(f"CREATE PUBLICATION {quoted(publication)} FOR TABLE {every}{root};")
            else:
                grants.append(f"GRANT CREATE ON DATABASE {quoted(database)} TO {role};")
    if missing:
        raise InvalidInputError(
            f"The user {user} lacks rights in {connections.name}: {'; '.join(missing)}. Let the owner of the tables or "
            f"a superuser run: {' '.join(grants)} Nothing was created or read."
        )


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


_OF_USER = """
    SELECT current_user::text, current_database()::text,
    r.rolsuper OR r.rolreplication OR EXISTS (
        SELECT FROM pg_roles m WHERE m.rolname IN ('rds_replication', 'azure_pg_admin', 'cloudsqlsuperuser')
        AND pg_has_role(current_user, m.oid, 'MEMBER')
    ),
    has_database_privilege(current_database(), 'CREATE')
    FROM pg_roles r WHERE r.rolname = current_user
"""
"""Cloud services grant replication by a role of their own."""
_OF_TABLES = """
    SELECT n.nspname::text, c.relname::text, has_schema_privilege(n.oid, 'USAGE'),
    has_table_privilege(c.oid, 'SELECT') OR has_any_column_privilege(c.oid, 'SELECT'),
    pg_has_role(current_user, c.relowner, 'USAGE')
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE (n.nspname, c.relname) IN (SELECT * FROM unnest(%s::text[], %s::text[]))
    ORDER BY 1, 2
"""
