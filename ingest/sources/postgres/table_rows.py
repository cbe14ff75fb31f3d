"""The rows of one table of PostgreSQL as they are at one time, for a comparison with a table that was filled from it.

Nothing is made in the database, and no right but SELECT is needed.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from interbed.ingest.errors import BadMessageError
from interbed.ingest.flow.changes import RowChanges, SourceTable
from interbed.ingest.formats.pgoutput import PgOutput
from interbed.ingest.sources.postgres.catalog import DatabaseCatalog
from interbed.ingest.sources.postgres.connection import Connections
from interbed.ingest.sources.postgres.snapshot import TableCopy
from interbed.ingest.sources.postgres.tables import PublishedTable, columns_of
from interbed.storage.base.errors import InvalidInputError


class PostgresTable:
    """A table of a database by its url."""

    def __init__(self, url: str, source: SourceTable, *, condition: str | None = None) -> None:
        """Nothing is connected to yet. `condition` chooses rows, as a WHERE of SQL does."""
        self._connections = Connections(url)
        self.source = source
        self._condition = condition

    @property
    def name(self) -> str:
        """Which table of which database it is, for people."""
        return f"{self.source} of {self._connections.name}"

    def changes(self) -> Iterator[RowChanges]:
        """Its rows as insertions, in blocks, all as they are at the time of the first one.

        Raises InvalidInputError when there is no such table, BadMessageError for a value that no table can have, and
        SourceUnavailableError.
        """
        with self._reading() as connection:
            decoder = PgOutput(DatabaseCatalog(self._connections, lambda: connection))
            for messages in TableCopy(self._connections, connection, self._described(connection)).messages():
                decoded = decoder.decode(messages)
                if decoded.bad:
                    raise BadMessageError.at(self.name, decoded.bad[0].reason)
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
