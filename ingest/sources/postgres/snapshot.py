"""The initial snapshot of tables, at a position in the WAL after which all changes are sent; and rows for comparison.

A temporary slot exports a snapshot (CREATE_REPLICATION_SLOT … EXPORT_SNAPSHOT) and names the position in the WAL.
Another connection reads the tables under that snapshot. If ALTER TABLE or TRUNCATE rewrote a table in between, the
table has no rows under the snapshot; its file has another number then, and it is not read. While a table is read, a
lock prevents that.

`PostgresTable` reads one table for a comparison. It creates nothing in the database, and SELECT is the only right that
it needs.
"""

import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa

from interbed.ingest.flow.changes import CatalogIdentity, RowChanges, SourceTable
from interbed.ingest.flow.messages import BadMessageError, Messages, Positions, SourceUnavailableError
from interbed.ingest.formats.pgoutput import PgOutput, copied_message, relation_message
from interbed.ingest.sources.postgres.connection import PostgresConnections, lsn_of, quoted
from interbed.ingest.sources.postgres.tables import DatabaseCatalog, PostgresPublication, PublishedTable, columns_of
from interbed.storage.base.errors import InvalidInputError

ROWS_AT_ONCE = 20_000
BYTES_AT_ONCE = 16 * 1024 * 1024


class TableCopy:
    """The rows of one table as COPY sends them, in the transaction of a connection."""

    def __init__(
        self, connections: PostgresConnections, connection: Any, table: PublishedTable, topic: str = ""
    ) -> None:
        self._connections = connections
        self._connection = connection
        self._table = table
        self._topic = topic

    def messages(self) -> Iterator[Messages]:
        """Yield the description of the table, and its rows in blocks; the offset of a row is its number."""
        table = self._table
        columns = [(c.name, c.is_identity, c.oid, c.modifier) for c in table.columns]
        yield self._block(0, [relation_message(table.id, table.source, table.identity.encode(), columns)])
        if not columns:
            return
        count, size, block = 0, 0, list[bytes]()
        with (
            self._connections.errors(f"The table {table.source} can't be read"),
            self._connection.cursor() as cursor,
            cursor.copy(self._statement().encode()) as copy,
        ):
            # One piece is one row: PostgreSQL sends each row by itself.
            for line in copy:
                block.append(copied_message(table.id, line))
                size += len(line)
                if len(block) >= ROWS_AT_ONCE or size >= BYTES_AT_ONCE:
                    yield self._block(count, block)
                    count, size, block = count + len(block), 0, []
        if block:
            yield self._block(count, block)

    def _statement(self) -> str:
        table = self._table
        names = ", ".join(quoted(c.name) for c in table.columns)
        # Child tables are published by themselves.
        only = "" if table.is_partitioned else "ONLY "
        where = "" if table.condition is None else f" WHERE {table.condition}"
        return f"COPY (SELECT {names} FROM {only}{table.name}{where}) TO STDOUT (FORMAT csv)"

    def _block(self, first: int, values: Sequence[bytes]) -> Messages:
        return Messages(
            topic=f"{self._topic}, first state of {self._table.source}",
            partitions=np.zeros(len(values), np.int32),
            offsets=np.arange(first, first + len(values), dtype=np.int64),
            keys=pa.nulls(len(values), pa.binary()),
            values=pa.array(values, pa.binary()),
        )


class PostgresSnapshot:
    """The initial rows of one table; see the module."""

    def __init__(self, source: SourceTable, copy: TableCopy, positions: Positions, identity: CatalogIdentity) -> None:
        self.source = source
        """The source table of the rows."""
        self.positions = positions
        """The position of the first changes after the snapshot."""
        self.identity = identity
        """The table in the catalog of the database."""
        self._copy = copy

    def messages(self) -> Iterator[Messages]:
        """Yield the description of the table, and its rows in blocks; the offset of a row is its number."""
        return self._copy.messages()


@contextmanager
def snapshot_of(
    connections: PostgresConnections, publication: PostgresPublication, tables: Sequence[SourceTable], topic: str
) -> Iterator[Iterator[PostgresSnapshot]]:
    """Yield the initial snapshots of tables, all of one time. Each must be read before the next one."""
    exporting = connections.open(replication=True)
    try:
        slot = f"interbed_{os.getpid()}_{secrets.token_hex(4)}"
        made = connections.replied(
            exporting, f"CREATE_REPLICATION_SLOT {slot} TEMPORARY LOGICAL pgoutput EXPORT_SNAPSHOT"
        )
        positions = Positions({topic: {0: lsn_of(made["consistent_point"] or "")}})
        reading = connections.open()
        try:
            with connections.errors("The tables can't be read"):
                reading.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
                reading.execute(f"SET TRANSACTION SNAPSHOT '{made['snapshot_name']}'".encode())
            yield _each(connections, reading, publication, tables, topic, positions)
        finally:
            reading.close()
    finally:
        # The slot ends with its connection.
        exporting.close()


def _each(
    connections: PostgresConnections,
    connection: Any,
    publication: PostgresPublication,
    tables: Sequence[SourceTable],
    topic: str,
    positions: Positions,
) -> Iterator[PostgresSnapshot]:
    identities = publication.identities(connection)
    for source in tables:
        table = publication.described(connection, source)
        identity = identities.get(source)
        if table is None or identity is None:
            raise SourceUnavailableError(
                f"The table {source} does not exist in PostgreSQL any more. The tables are looked up again."
            )
        with connections.errors(f"The table {source} can't be locked"):
            connection.execute(
                f"LOCK TABLE {'' if table.is_partitioned else 'ONLY '}{table.name} IN ACCESS SHARE MODE".encode()
            )
        if connections.rows(connection, _REWRITTEN, [table.id]):
            raise SourceUnavailableError(
                f"The table {source} was rewritten by ALTER TABLE, TRUNCATE or VACUUM FULL before it could "
                "be read. It is read again."
            )
        yield PostgresSnapshot(source, TableCopy(connections, connection, table, topic), positions, identity)


_REWRITTEN = """
    WITH RECURSIVE parts(id) AS (
        SELECT %s::oid UNION ALL
        SELECT h.inhrelid FROM pg_inherits h JOIN parts ON parts.id = h.inhparent
        JOIN pg_class c ON c.oid = h.inhrelid AND c.relispartition
    )
    SELECT 1 FROM parts LEFT JOIN pg_class c ON c.oid = parts.id
    WHERE c.relfilenode IS DISTINCT FROM COALESCE(pg_relation_filenode(parts.id), 0)
"""
"""pg_class is read under the snapshot; the function returns the present file."""


class PostgresTable:
    """A table of a database, by its url."""

    def __init__(self, url: str, source: SourceTable, *, condition: str | None = None) -> None:
        """Open no connection yet. `condition` selects rows, as a WHERE of SQL does."""
        self._connections = PostgresConnections(url)
        self.source = source
        self._condition = condition

    @property
    def name(self) -> str:
        """The table and its database, for people."""
        return f"{self.source} of {self._connections.name}"

    def changes(self) -> Iterator[RowChanges]:
        """Yield its rows as insertions, in blocks, all as of the time of the first block.

        Raises InvalidInputError if there is no such table, BadMessageError for a value that no table can have, and
        SourceUnavailableError.
        """
        with self._reading() as connection:
            decoder = PgOutput(DatabaseCatalog(self._connections, lambda: connection))
            for messages in TableCopy(self._connections, connection, self._described(connection)).messages():
                decoded = decoder.decode(messages)
                if decoded.bad:
                    raise BadMessageError.at(self.name, decoded.bad[0].reason, has_topics=False)
                yield from decoded.changes

    @contextmanager
    def _reading(self) -> Iterator[Any]:
        connection = self._connections.open()
        try:
            with self._connections.errors(f"The table {self.source} can't be read"):
                connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            yield connection
        finally:
            connection.close()

    def _described(self, connection: Any) -> PublishedTable:
        found = self._connections.rows(connection, _TABLE, [self.source.database, self.source.name])
        if not found:
            raise InvalidInputError(
                f"There is no table {self.source} in {self._connections.name}. Name it as SCHEMA.TABLE, in the case in "
                "which PostgreSQL has it."
            )
        [(number, identity, kind)] = found
        return PublishedTable(
            id=number,
            source=self.source,
            identity=identity,
            is_partitioned=kind == "p",
            columns=columns_of(self._connections, connection, number, identity),
            condition=self._condition,
        )


_TABLE = """
    SELECT c.oid::int8, c.relreplident::text, c.relkind::text
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = %s AND c.relname = %s AND c.relkind IN ('r', 'p')
"""
