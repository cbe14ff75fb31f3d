"""What the user of a run may not do in the database, with the statements that allow it.

They are looked for before anything is made in PostgreSQL; what it refuses later, connection.py names.
"""

from collections.abc import Collection, Sequence
from typing import Any

from interbed.ingest.flow.changes import SourceTable
from interbed.ingest.sources.postgres.connection import Connections, quoted
from interbed.storage.base.errors import InvalidInputError


def check_rights(
    connections: Connections,
    connection: Any,
    *,
    publication: str | None,
    to_read: Collection[SourceTable],
    makes_slot: bool,
) -> None:
    """Raise InvalidInputError naming all rights that are missing, and the statements that grant them.

    `publication` is one that is to be made for the tables, None where it is there.
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
                missing.append(f"CREATE on the database {database}, to make the publication {publication!r}")
            if others:
                missing.append(f"the ownership of {_some(others)}, to publish it")
            if others:
                # Their owner makes the publication, and the user need not own anything.
                every = ", ".join(f"{quoted(schema)}.{quoted(name)}" for schema, name, *_ in found)
                root = "" if connection.info.server_version < 130000 else " WITH (publish_via_partition_root = true)"
                grants.append(f"CREATE PUBLICATION {quoted(publication)} FOR TABLE {every}{root};")
            else:
                grants.append(f"GRANT CREATE ON DATABASE {quoted(database)} TO {role};")
    if missing:
        raise InvalidInputError(
            f"The user {user} lacks rights in {connections.name}: {'; '.join(missing)}. Let the owner of the tables or "
            f"a superuser run: {' '.join(grants)} Nothing was made or read."
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
"""Services give the right to replicate by a role of theirs."""
_OF_TABLES = """
    SELECT n.nspname::text, c.relname::text, has_schema_privilege(n.oid, 'USAGE'),
    has_table_privilege(c.oid, 'SELECT') OR has_any_column_privilege(c.oid, 'SELECT'),
    pg_has_role(current_user, c.relowner, 'USAGE')
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE (n.nspname, c.relname) IN (SELECT * FROM unnest(%s::text[], %s::text[]))
    ORDER BY 1, 2
"""
