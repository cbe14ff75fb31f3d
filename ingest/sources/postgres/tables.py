"""The publication and its tables, and lookups of types and keys in the catalog of the database.

A publication is created for the existing tables, not FOR ALL TABLES: PostgreSQL refuses UPDATE and DELETE of a
published table whose rows have no replica identity. With FOR ALL TABLES, statements of other users would fail as soon
as a table is published by accident.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from interbed.ingest.flow.changes import SourceTable
from interbed.ingest.flow.source_identity import CatalogIdentity
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

    def publishable(self, connection: Any) -> dict[SourceTable, bool]:
        """The tables that it can be made for, and whether their rows have an identity."""
        found = self._connections.rows(connection, _PUBLISHABLE)
        return {SourceTable(schema, name): bool(has_identity) for schema, name, has_identity in found}

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

    def adding(self, tables: Sequence[SourceTable]) -> str:
        """The statement that adds tables to it."""
        names = ", ".join(f"{quoted(each.database)}.{quoted(each.name)}" for each in tables)
        return f"ALTER PUBLICATION {quoted(self.name)} ADD TABLE {names};"

    def tables(self, connection: Any) -> list[SourceTable]:
        """Its tables, sorted."""
        query = "SELECT schemaname, tablename FROM pg_publication_tables WHERE pubname = %s ORDER BY 1, 2"
        return [SourceTable(*row) for row in self._connections.rows(connection, query, [self.name])]

    def identities(self, connection: Any) -> dict[SourceTable, CatalogIdentity]:
        """Its tables in the catalog of the database, as the transaction of the connection sees it."""
        by_schema = _PUBLISHED_BY_SCHEMA if connection.info.server_version >= 150000 else ""
        with self._connections.errors("The publication can't be looked at"):
            found = connection.execute(_IDENTITIES.replace("BY_SCHEMA", by_schema).encode(), [self.name]).fetchall()
        return {
            SourceTable(schema, name): CatalogIdentity(
                relation=relation, published=tuple(sorted(published)), attached=attached or ""
            )
            for schema, name, relation, published, attached in found
        }

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
            columns = columns_of(self._connections, connection, number, identity)
        return PublishedTable(
            id=number,
            source=table,
            identity=identity,
            is_partitioned=kind == "p",
            columns=[column for column in columns if names is None or column.name in names],
            condition=condition,
        )


def columns_of(connections: Connections, connection: Any, relation: int, identity: str) -> list[PublishedColumn]:
    """The columns of a table, by its number and the kind of its replica identity."""
    return [
        PublishedColumn(name=name, oid=oid, modifier=modifier, is_identity=identity == "f" or bool(is_identity))
        for name, oid, modifier, is_identity in connections.rows(connection, _COLUMNS, [relation])
    ]


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
        )
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
"""A partition that was created as one has the same transaction in its columns and as an heir; the columns of the system
never change. The version of a publication is the last transaction that changed what it publishes.
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
    """Types below domains and arrays, and primary keys. Types do not change below their number; so they are kept."""

    def __init__(self, connections: Connections, connection: Callable[[], Any]) -> None:
        self._connections = connections
        self._connection = connection
        self._types: dict[int, tuple[str, int, int, int, str]] = {}

    def base_type(self, oid: int, modifier: int) -> tuple[int, int, str | None]:
        """The type below domains and arrays, with its modifier (-1 for none), and what is between the elements where it
        is an array of that.
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
        """The columns of the primary key of a table, in its order; empty where it has none, or is gone."""
        return tuple(name for (name,) in self._connections.rows(self._connection(), _PRIMARY_KEY, [relation]))

    def _of(self, oid: int) -> tuple[str, int, int, int, str]:
        if oid not in self._types:
            found = self._connections.rows(self._connection(), _TYPE, [oid])
            # One that was dropped since is a text, which every type is in a message.
            self._types[oid] = found[0] if found else ("b", 0, -1, 0, ",")
        return self._types[oid]


_TYPE = """
    SELECT t.typtype::text, t.typbasetype::int8, t.typtypmod,
    CASE WHEN e.typarray = t.oid THEN t.typelem::int8 ELSE 0 END, COALESCE(e.typdelim::text, ',')
    FROM pg_type t LEFT JOIN pg_type e ON e.oid = t.typelem
    WHERE t.oid = %s
"""
"""Vectors of the system and points have elements as well, and are no arrays: theirs has another type for those."""
_PRIMARY_KEY = """
    SELECT a.attname
    FROM pg_index i
    CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY AS k(attnum, place)
    JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
    WHERE i.indrelid = %s AND i.indisprimary AND i.indimmediate
    ORDER BY k.place
"""
"""A DEFERRABLE key is not used: see checks.py."""
