"""The first state of tables, at a place in the WAL after which all changes are told.

A temporary slot of its own exports a snapshot (CREATE_REPLICATION_SLOT … EXPORT_SNAPSHOT) and says where in the WAL
that is; tables are read under it in another connection. A table that was written anew in between, by ALTER TABLE or
TRUNCATE, has no rows for the snapshot, and is not read: its file has another number by then. While one is read it is
locked against that.
"""

import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa

from interbed.ingest.errors import SourceUnavailableError
from interbed.ingest.flow.changes import SourceTable
from interbed.ingest.flow.messages import Messages, Positions
from interbed.ingest.flow.pgoutput_messages import copied_message, relation_message
from interbed.ingest.flow.source_identity import CatalogIdentity
from interbed.ingest.sources.postgres.connection import Connections, lsn_of, quoted
from interbed.ingest.sources.postgres.tables import PostgresPublication, PublishedTable

ROWS_AT_ONCE = 20_000
BYTES_AT_ONCE = 16 * 1024 * 1024


class TableCopy:
    """The rows of one table as COPY sends them, in the transaction of a connection."""

    def __init__(self, connections: Connections, connection: Any, table: PublishedTable, topic: str = "") -> None:
        self._connections = connections
        self._connection = connection
        self._table = table
        self._topic = topic

    def messages(self) -> Iterator[Messages]:
        """The description of the table, and its rows in blocks; a row's offset is its number."""
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
            # One piece is one row: PostgreSQL sends each by itself.
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
        # Tables that inherit are published by themselves.
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
    """The rows of one table; see the module."""

    def __init__(self, source: SourceTable, copy: TableCopy, positions: Positions, identity: CatalogIdentity) -> None:
        self.source = source
        """Which table it is of."""
        self.positions = positions
        """Where the changes after the snapshot begin."""
        self.identity = identity
        """The table in the catalog of the database."""
        self._copy = copy

    def messages(self) -> Iterator[Messages]:
        """The description of the table, and its rows in blocks; a row's offset is its number."""
        return self._copy.messages()


@contextmanager
def snapshot_of(
    connections: Connections, publication: PostgresPublication, tables: Sequence[SourceTable], topic: str
) -> Iterator[Iterator[PostgresSnapshot]]:
    """The first states of tables, all at one time, each to be read before the next one."""
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
    connections: Connections,
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
            raise SourceUnavailableError(f"The table {source} is gone from PostgreSQL. Tables are looked for again.")
        with connections.errors(f"The table {source} can't be locked"):
            connection.execute(
                f"LOCK TABLE {'' if table.is_partitioned else 'ONLY '}{table.name} IN ACCESS SHARE MODE".encode()
            )
        if connections.rows(connection, _REWRITTEN, [table.id]):
            raise SourceUnavailableError(
                f"The table {source} was written anew by ALTER TABLE, TRUNCATE or VACUUM FULL, while it was about to "
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
"""pg_class is read under the snapshot, and the function looks at what is there now."""
