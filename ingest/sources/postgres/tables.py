"""The publication and its tables: lookups of types and keys in the catalog of the database, and checks before a run.

A publication is created for the existing tables, not FOR ALL TABLES: PostgreSQL refuses UPDATE and DELETE of a
published table whose rows have no replica identity. With FOR ALL TABLES, statements of other users would fail as soon
as a table is published by accident.

Before a run reads or creates anything, tables that cannot become tables of a lake are refused, and missing rights.
PostgreSQL sends no generated columns (documentation: Logical Replication, Restrictions; version 18 has an option). A
DEFERRABLE key may belong to two rows within a transaction, and a deletion does not say which of them it deletes. Rights
that PostgreSQL refuses later are named by connection.py.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from interbed.ingest.flow.changes import CatalogIdentity, SourceTable
from interbed.ingest.formats.postgres_types import TypeLookup, column_type
from interbed.ingest.sources.postgres.connection import PostgresConnections, quoted
from interbed.storage.base.errors import InvalidInputError
from interbed.storage.meta.schema.table_schema import Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedColumn:
    """A column, the OID of its type, its modifier, and whether it is part of the replica identity."""

    name: str
    oid: int
    modifier: int
    is_identity: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedTable:
    """A table with the columns and the row filter by which it is published."""

    id: int
    source: SourceTable
    identity: str
    is_partitioned: bool
    columns: Sequence[PublishedColumn]
    condition: str | None

    @property
    def name(self) -> str:
        """The name in SQL."""
        return f"{quoted(self.source.database)}.{quoted(self.source.name)}"


class PostgresPublication:
    """A publication of a database, by its name."""

    def __init__(self, connections: PostgresConnections, name: str) -> None:
        self._connections = connections
        self.name = name

    def exists(self, connection: Any) -> bool:
        """Return whether the publication exists."""
        query = "SELECT 1 FROM pg_publication WHERE pubname = %s"
        return bool(self._connections.rows(connection, query, [self.name]))

    def publishable(self, connection: Any) -> dict[SourceTable, str | None]:
        """Return the tables that it can be created for, with the reason why their rows have no replica identity."""
        found = self._connections.rows(connection, _PUBLISHABLE)
        return {
            SourceTable(schema, name): None if has_identity else _NO_IDENTITY[kind]
            for schema, name, has_identity, kind in found
        }

    def create(self, connection: Any, is_wanted: Callable[[SourceTable], bool]) -> None:
        """Create the publication for the wanted tables.

        Raises InvalidInputError if there is none, or one has no replica identity.
        """
        found = {table: why for table, why in self.publishable(connection).items() if is_wanted(table)}
        if not found:
            raise InvalidInputError(
                f"The database {self._connections.name} has no wanted table, and no publication {self.name!r}. "
                "Create the tables first, or the publication."
            )
        for table, why in found.items():
            if why is not None:
                raise InvalidInputError(
                    f"The table {table} {why}: {UNCHANGEABLE}. "
                    "Give it a primary key and REPLICA IDENTITY DEFAULT, or ALTER TABLE … REPLICA IDENTITY FULL; leave "
                    f"it out by --excluding-tables; or create the publication {quoted(self.name)} yourself."
                )
        tables = ", ".join(f"{quoted(each.database)}.{quoted(each.name)}" for each in found)
        root = "" if connection.info.server_version < 130000 else " WITH (publish_via_partition_root = true)"
        with self._connections.errors(f"The publication {self.name!r} can't be created"):
            connection.execute(f"CREATE PUBLICATION {quoted(self.name)} FOR TABLE {tables}{root}".encode())

    def adding(self, tables: Sequence[SourceTable]) -> str:
        """Return the statement that adds tables to it."""
        names = ", ".join(f"{quoted(each.database)}.{quoted(each.name)}" for each in tables)
        return f"ALTER PUBLICATION {quoted(self.name)} ADD TABLE {names};"

    def tables(self, connection: Any) -> list[SourceTable]:
        """Return its tables, sorted."""
        query = "SELECT schemaname, tablename FROM pg_publication_tables WHERE pubname = %s ORDER BY 1, 2"
        return [SourceTable(*row) for row in self._connections.rows(connection, query, [self.name])]

    def unsent(self, connection: Any) -> list[str]:
        """Return the statements that change or delete rows and whose changes it does not send."""
        query = "SELECT pubupdate, pubdelete, pubtruncate FROM pg_publication WHERE pubname = %s"
        return [
            name
            for row in self._connections.rows(connection, query, [self.name])
            for name, is_sent in zip(("UPDATE", "DELETE", "TRUNCATE"), row, strict=True)
            if not is_sent
        ]

    def identities(self, connection: Any) -> dict[SourceTable, CatalogIdentity]:
        """Return its tables in the catalog of the database, as the transaction of the connection sees it."""
        by_schema = _PUBLISHED_BY_SCHEMA if connection.info.server_version >= 150000 else ""
        with self._connections.errors("The publication can't be examined"):
            found = connection.execute(_IDENTITIES.replace("BY_SCHEMA", by_schema).encode(), [self.name]).fetchall()
        return {
            SourceTable(schema, name): CatalogIdentity(
                relation=relation, published=tuple(sorted(published)), attached=attached or "", named=named or ""
            )
            for schema, name, relation, published, attached, named in found
        }

    def described(self, connection: Any, table: SourceTable) -> PublishedTable | None:
        """Return one of its tables; None if that does not exist any more."""
        # Publications choose columns and rows since version 15.
        chosen = "pt.attnames::text[], pt.rowfilter" if connection.info.server_version >= 150000 else "NULL, NULL"
        with self._connections.errors(f"The table {table} can't be examined"):
            found = connection.execute(
                _DESCRIBED.replace("CHOSEN", chosen).encode(), [self.name, table.database, table.name]
            ).fetchone()
            if found is None:
                return None
            number, identity, kind, names, condition = found
            columns = columns_of(self._connections, connection, number, identity)
        return PublishedTable(
            id=number,
            source=table,
            identity=identity,
            is_partitioned=kind == "p",
            columns=[column for column in columns if names is None or column.name in names],
            condition=condition,
        )


def columns_of(
    connections: PostgresConnections, connection: Any, relation: int, identity: str
) -> list[PublishedColumn]:
    """Return the columns of a table, by its OID and the kind of its replica identity."""
    return [
        PublishedColumn(name=name, oid=oid, modifier=modifier, is_identity=identity == "f" or bool(is_identity))
        for name, oid, modifier, is_identity in connections.rows(connection, _COLUMNS, [relation])
    ]


_NO_IDENTITY = {
    "d": "has no primary key",
    "n": "has REPLICA IDENTITY NOTHING",
    "i": "has a REPLICA IDENTITY whose index was dropped",
}
"""Reasons, by pg_class.relreplident, why rows have no replica identity."""
UNCHANGEABLE = "once it is published, PostgreSQL refuses to UPDATE or DELETE its rows"
"""What a missing replica identity means for a table."""
_PUBLISHABLE = """
    SELECT n.nspname, c.relname, c.relreplident = 'f' OR EXISTS (
        SELECT FROM pg_index i WHERE i.indrelid = c.oid
        AND CASE c.relreplident WHEN 'd' THEN i.indisprimary WHEN 'i' THEN i.indisreplident END
    ), c.relreplident::text
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p') AND c.relpersistence = 'p' AND NOT c.relispartition
    AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND c.oid >= 16384
    ORDER BY 1, 2
"""
_DESCRIBED = """
    SELECT c.oid::int8, c.relreplident::text, c.relkind::text, CHOSEN
    FROM pg_publication_tables pt
    JOIN pg_namespace n ON n.nspname = pt.schemaname
    JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = pt.tablename
    WHERE pt.pubname = %s AND pt.schemaname = %s AND pt.tablename = %s
"""
_IDENTITIES = """
    SELECT pt.schemaname, pt.tablename, c.oid::text,
        ARRAY(
            SELECT 'table:' || r.oid || options.version FROM pg_publication_rel r
            WHERE r.prpubid = p.oid AND r.prrelid = ANY (parents.ids)
            BY_SCHEMA
            UNION ALL SELECT 'all:' || p.oid || options.version WHERE p.puballtables
        ),
        (
            SELECT t.relid::regclass::text || '@' || i.xmin::text
            FROM pg_partition_tree(c.oid) t
            JOIN pg_inherits i ON i.inhrelid = t.relid
            JOIN pg_attribute a ON a.attrelid = t.relid AND a.attname = 'tableoid'
            WHERE c.relkind = 'p' AND i.xmin <> a.xmin
            ORDER BY age(i.xmin), t.relid DESC LIMIT 1
        ),
        (SELECT t.xmin::text FROM pg_type t WHERE t.typrelid = c.oid)
    FROM pg_publication_tables pt
    JOIN pg_publication p ON p.pubname = pt.pubname
    JOIN pg_namespace n ON n.nspname = pt.schemaname
    JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = pt.tablename
    CROSS JOIN LATERAL (SELECT '@' || p.xmin::text AS version) options
    CROSS JOIN LATERAL (
        SELECT array_append(ARRAY(SELECT relid::oid FROM pg_partition_ancestors(c.oid)), c.oid) AS ids
    ) parents
    WHERE pt.pubname = %s
"""
"""A partition that was created as one has the same transaction in its columns and in its inheritance; system columns
never change. The version of a publication is the last transaction that changed its options. The row type of a table
bears its name and its schema, so that its version is the last transaction that changed one of them, or the owner.
"""
_PUBLISHED_BY_SCHEMA = """
            UNION ALL SELECT 'schema:' || s.oid || options.version FROM pg_publication_namespace s
            JOIN pg_class k ON k.relnamespace = s.pnnspid
            WHERE s.pnpubid = p.oid AND k.oid = ANY (parents.ids)
"""
_COLUMNS = """
    SELECT a.attname, a.atttypid::int8, a.atttypmod, EXISTS (
        SELECT FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
        WHERE i.indrelid = a.attrelid AND a.attnum = ANY (i.indkey::int2[])
        AND CASE c.relreplident WHEN 'd' THEN i.indisprimary WHEN 'i' THEN i.indisreplident END
    )
    FROM pg_attribute a
    WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
    ORDER BY a.attnum
"""


class DatabaseCatalog:
    """Types below domains and arrays, and primary keys. The type of an OID never changes, so types are cached."""

    def __init__(self, connections: PostgresConnections, connection: Callable[[], Any]) -> None:
        self._connections = connections
        self._connection = connection
        self._types: dict[int, tuple[str, int, int, int, str]] = {}

    def base_type(self, oid: int, modifier: int) -> tuple[int, int, str | None]:
        """Return the type below domains and arrays, its modifier (-1 for none), and the delimiter of elements if the
        type is an array.
        """
        between: str | None = None
        while True:
            kind, base, base_modifier, element, delimiter = self._of(oid)
            if kind == "d":
                oid, modifier = base, base_modifier
            elif element and between is None:
                oid, between = element, delimiter
            else:
                return oid, modifier, between

    def primary_key(self, relation: int) -> tuple[str, ...]:
        """Return the columns of the primary key of a table, in its order; empty if it has none, or is dropped."""
        return tuple(name for (name,) in self._connections.rows(self._connection(), _PRIMARY_KEY, [relation]))

    def _of(self, oid: int) -> tuple[str, int, int, int, str]:
        if oid not in self._types:
            found = self._connections.rows(self._connection(), _TYPE, [oid])
            # A dropped type is read as text, which values of every type are in messages.
            self._types[oid] = found[0] if found else ("b", 0, -1, 0, ",")
        return self._types[oid]


_TYPE = """
    SELECT t.typtype::text, t.typbasetype::int8, t.typtypmod,
    CASE WHEN e.typarray = t.oid THEN t.typelem::int8 ELSE 0 END, COALESCE(e.typdelim::text, ',')
    FROM pg_type t LEFT JOIN pg_type e ON e.oid = t.typelem
    WHERE t.oid = %s
"""
"""Vectors of the system and points have elements as well, but are no arrays: their element type has another array type.
"""
_PRIMARY_KEY = """
    SELECT a.attname
    FROM pg_index i
    CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY AS k(attnum, place)
    JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
    WHERE i.indrelid = %s AND i.indisprimary AND i.indimmediate
    ORDER BY k.place
"""
"""A DEFERRABLE key does not count: see checks.py."""


@dataclass(frozen=True, slots=True)
class TableCheck:
    """The tables that cannot be tables of a lake, with reasons, and the generated columns that the others lack in the
    lake.
    """

    refused: dict[SourceTable, str] = field(default_factory=dict)
    generated: dict[SourceTable, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Column:
    """A row of _CHECKED_COLUMNS; `dimensions` are those of a declared array, 0 for other types."""

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
            _CHECKED_COLUMNS.replace("CHOSEN", chosen).encode(),
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


_CHECKED_COLUMNS = """
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
