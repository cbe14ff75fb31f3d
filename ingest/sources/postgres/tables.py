"""The tables that a publication tells of, and the publication itself.

A publication is made for tables that are there, and not for all: PostgreSQL refuses UPDATE and DELETE of a published
table whose rows nothing tells apart, so that others' statements fail as soon as one is published without being meant.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from interbed.ingest.flow.changes import SourceTable
from interbed.ingest.sources.postgres.connection import Connections, quoted
from interbed.storage.base.errors import InvalidInputError


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedColumn:
    """A column, the number of its type, its modifier, and whether it is part of the replica identity."""

    name: str
    oid: int
    modifier: int
    is_identity: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedTable:
    """A table with the columns and the condition of rows by which it is published."""

    id: int
    source: SourceTable
    identity: str
    is_partitioned: bool
    columns: Sequence[PublishedColumn]
    condition: str | None

    @property
    def name(self) -> str:
        """Its name in SQL."""
        return f"{quoted(self.source.database)}.{quoted(self.source.name)}"


class PostgresPublication:
    """A publication of a database by its name."""

    def __init__(self, connections: Connections, name: str) -> None:
        self._connections = connections
        self.name = name

    def exists(self, connection: Any) -> bool:
        """Whether it is there."""
        query = "SELECT 1 FROM pg_publication WHERE pubname = %s"
        return bool(self._connections.rows(connection, query, [self.name]))

    def create(self, connection: Any, is_wanted: Callable[[SourceTable], bool]) -> None:
        """Make it for the tables that are wanted.

        Raises InvalidInputError when there is none, or one has nothing that tells its rows apart.
        """
        found = [row for row in self._connections.rows(connection, _PUBLISHABLE) if is_wanted(SourceTable(*row[:2]))]
        if not found:
            raise InvalidInputError(
                f"The database {self._connections.name} has no table that is wanted, and no publication {self.name!r}. "
                "Create the tables first, or the publication."
            )
        lacking = [f"{schema}.{name}" for schema, name, has_identity in found if not has_identity]
        if lacking:
            raise InvalidInputError(
                f"The table {lacking[0]} has no primary key: once it is published, PostgreSQL refuses to UPDATE or "
                "DELETE its rows. Give it one, or ALTER TABLE … REPLICA IDENTITY FULL; leave it out by "
                f"--excluding-tables; or create the publication {quoted(self.name)} yourself."
            )
        tables = ", ".join(f"{quoted(schema)}.{quoted(name)}" for schema, name, _ in found)
        root = "" if connection.info.server_version < 130000 else " WITH (publish_via_partition_root = true)"
        with self._connections.errors(f"The publication {self.name!r} can't be created"):
            connection.execute(f"CREATE PUBLICATION {quoted(self.name)} FOR TABLE {tables}{root}".encode())

    def tables(self, connection: Any) -> list[SourceTable]:
        """Its tables, sorted."""
        query = "SELECT schemaname, tablename FROM pg_publication_tables WHERE pubname = %s ORDER BY 1, 2"
        return [SourceTable(*row) for row in self._connections.rows(connection, query, [self.name])]

    def described(self, connection: Any, table: SourceTable) -> PublishedTable | None:
        """One of its tables, None when that is gone."""
        # Publications choose columns and rows since version 15.
        chosen = "pt.attnames::text[], pt.rowfilter" if connection.info.server_version >= 150000 else "NULL, NULL"
        with self._connections.errors(f"The table {table} can't be looked at"):
            found = connection.execute(
                _DESCRIBED.replace("CHOSEN", chosen).encode(), [self.name, table.database, table.name]
            ).fetchone()
            if found is None:
                return None
            number, identity, kind, names, condition = found
            columns = connection.execute(_COLUMNS, [number]).fetchall()
        return PublishedTable(
            id=number,
            source=table,
            identity=identity,
            is_partitioned=kind == "p",
            columns=[
                PublishedColumn(name=name, oid=oid, modifier=modifier, is_identity=identity == "f" or bool(is_identity))
                for name, oid, modifier, is_identity in columns
                if names is None or name in names
            ],
            condition=condition,
        )


_PUBLISHABLE = """
    SELECT n.nspname, c.relname, c.relreplident = 'f' OR EXISTS (
        SELECT FROM pg_index i WHERE i.indrelid = c.oid
        AND CASE c.relreplident WHEN 'd' THEN i.indisprimary WHEN 'i' THEN i.indisreplident END
    )
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
