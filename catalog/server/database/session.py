"""The metastore's database as its callers see it: transactions with all repositories, and changes since a generation.

A transaction is a unit of work on the database. Connections are engine.py's.

Every change of metadata appends to the notification log in its own transaction, with ids that become visible in order
(see events.py), so that the last id is the generation of all metadata. Caches ask for it with every request, as cheaply
as the database allows: by a prepared statement on a connection of its own, bypassing SQLAlchemy, which would cost more
than the answer.

On SQLite the answer is available at once. On PostgreSQL it takes a round trip, during which the caller may wait for its
other sockets as well: `ask`, then `answer` when `fileno` is readable.
"""

import logging
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from sqlalchemy import Connection
from sqlalchemy.engine import URL

from interbed.catalog.server.database.client_keys import (
    SqlAccessTokens,
    SqlConsoleSessions,
    SqlDelegationTokens,
    SqlIdempotencyKeys,
    SqlTokenStore,
)
from interbed.catalog.server.database.databases import (
    SqlCatalogs,
    SqlDatabases,
    SqlFunctions,
    SqlLocationIndex,
    SqlMoves,
    SqlProperties,
)
from interbed.catalog.server.database.documents import name_from
from interbed.catalog.server.database.dropped import SqlDroppedObjects
from interbed.catalog.server.database.engine import SqlUnits, open_engine, postgres_conninfo
from interbed.catalog.server.database.events import SqlEvents, SqlHistory
from interbed.catalog.server.database.grants import SqlAccess
from interbed.catalog.server.database.locks import SqlLocks
from interbed.catalog.server.database.partitions import SqlPartitions
from interbed.catalog.server.database.policies import SqlPolicies
from interbed.catalog.server.database.statistics import SqlQueries, SqlRunStatistics, SqlStatistics
from interbed.catalog.server.database.tables import SqlConstraints, SqlTables
from interbed.catalog.server.service.history.entries import HistoryPolicy

_SQLITE_FILES = ("", "-wal", "-shm", "-journal")

logger = logging.getLogger(__name__)

TOUCHED_MAX = 1000
"""Events that are applied one by one; after more of them a cache is emptied."""

_STATEMENT = (
    'SELECT s.value, e.id, e.type, e.catalog, e.database, e."table", e.previous FROM sequences s '
    "LEFT JOIN events e ON e.id > {} WHERE s.name = 'event' ORDER BY e.id LIMIT "
    f"{TOUCHED_MAX + 1}"
)

_SQLITE_STATEMENT = _STATEMENT.format("?")
_CURRENT = "SELECT value FROM sequences WHERE name = 'event'"


class SqlTransaction:
    """One unit of work on an open connection; the repositories share it."""

    __slots__ = (
        "access",
        "access_tokens",
        "catalogs",
        "console_sessions",
        "constraints",
        "databases",
        "delegation_tokens",
        "dropped",
        "events",
        "functions",
        "history",
        "idempotency",
        "locks",
        "moves",
        "partitions",
        "places",
        "policies",
        "properties",
        "queries",
        "run_statistics",
        "statistics",
        "tables",
        "token_store",
    )

    def __init__(self, connection: Connection, history: HistoryPolicy | None = None) -> None:
        self.access = SqlAccess(connection)
        self.access_tokens = SqlAccessTokens(connection)
        self.console_sessions = SqlConsoleSessions(connection)
        self.delegation_tokens = SqlDelegationTokens(connection)
        self.token_store = SqlTokenStore(connection)
        self.policies = SqlPolicies(connection)
        self.catalogs = SqlCatalogs(connection)
        self.databases = SqlDatabases(connection)
        self.tables = SqlTables(connection)
        self.partitions = SqlPartitions(connection)
        self.functions = SqlFunctions(connection)
        self.locks = SqlLocks(connection)
        self.history = SqlHistory(connection, history or HistoryPolicy())
        self.events = SqlEvents(connection, self.history.record_packed)
        self.constraints = SqlConstraints(connection)
        self.moves = SqlMoves(connection)
        self.places = SqlLocationIndex(connection)
        self.dropped = SqlDroppedObjects(connection)
        self.idempotency = SqlIdempotencyKeys(connection)
        self.properties = SqlProperties(connection)
        self.queries = SqlQueries(connection)
        self.run_statistics = SqlRunStatistics(connection)
        self.statistics = SqlStatistics(connection)


class SqlRepository(SqlUnits[SqlTransaction]):
    """The metastore's repository in a SQL database, for many concurrent threads.

    `url` is `sqlite:///path/to/file.db` or `postgresql://user:password@host:port/database`. The database's tables must
    exist (see schema.upgrade). Errors of the database are raised as DatabaseError. `history` has the origin of changes.
    """

    def __init__(self, url: str, *, history: HistoryPolicy | None = None) -> None:
        transaction = partial(SqlTransaction, history=history)
        super().__init__(open_engine(url), transaction, called="the metastore's database")

    @property
    def files(self) -> list[str]:
        """Return the files of SQLite; for PostgreSQL there are none."""
        path = self.engine.url.database if self.engine.dialect.name == "sqlite" else None
        return [path + suffix for suffix in _SQLITE_FILES] if path else []

    def close(self) -> None:
        """Close the connections of the database."""
        super().close()
        self.engine.dispose()


class GenerationError(Exception):
    """The database did not answer. The caller runs the request itself, which reports the error to its client."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedObject:
    """The object that one event changed. `previous` is the former name of a renamed table."""

    type: str
    catalog: str | None
    database: str | None
    table: str | None
    previous: tuple[str, str, str] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationChanges:
    """The present generation, and the objects changed since the one that was asked about; None if any may
    have changed.
    """

    generation: int
    touched: Sequence[ChangedObject] | None


class GenerationReader(Protocol):
    """Reads generations for one thread, one question at a time."""

    def fileno(self) -> int | None:
        """Return the socket that becomes readable with the answer; None if the answer is available at once."""
        ...

    def ask(self, last: int) -> None:
        """Ask for the changes after a generation. GenerationError."""
        ...

    def answer(self) -> GenerationChanges | None:
        """Return the answer; None if it is incomplete so far. GenerationError."""
        ...

    def close(self) -> None: ...


class SqliteGenerationReader:
    """Reads the generation of a SQLite file, which takes a few microseconds: the last pages of the log are
    in memory.
    """

    def __init__(self, url: URL) -> None:
        self._connection = sqlite3.connect(
            url.database or "", check_same_thread=False, isolation_level=None, timeout=1.0
        )
        self._last = 0

    def fileno(self) -> int | None:
        """Return None: the answer is available at once."""
        return None

    def ask(self, last: int) -> None:
        """Remember the generation that is asked about."""
        self._last = last

    def answer(self) -> GenerationChanges | None:
        """Read the answer from the file."""
        try:
            # Mostly nothing has changed, which a lookup of one row shows.
            if self._connection.execute(_CURRENT).fetchone() == (self._last,):
                return GenerationChanges(generation=self._last, touched=())
            rows = self._connection.execute(_SQLITE_STATEMENT, (self._last,)).fetchall()
        except sqlite3.Error as error:
            raise GenerationError(str(error)) from error
        return _changes(self._last, rows)

    def close(self) -> None:
        self._connection.close()


class PostgresGenerationReader:
    """Reads the generation of a PostgreSQL database by libpq itself, with a statement that is prepared once and a
    socket.
    """

    def __init__(self, url: URL) -> None:
        # Only servers on PostgreSQL need its driver.
        import psycopg
        from psycopg import pq

        self._pq = pq
        self._errors = psycopg.Error
        self._last = 0
        try:
            self._connection: Any = psycopg.connect(postgres_conninfo(url, "interbed cache"), autocommit=True)
            self._link = self._connection.pgconn
            self._link.prepare(b"generation", _STATEMENT.format("$1::bigint").encode())
            self._link.nonblocking = 1
            # Read once: a lost connection has no socket any more, and callers that wait for the socket have to stop.
            self._number: int = self._link.socket
        except self._errors as error:
            raise GenerationError(str(error)) from error

    def fileno(self) -> int | None:
        """Return the connection's socket."""
        return self._number

    def ask(self, last: int) -> None:
        """Send the question. It is so short that the socket accepts it whole."""
        self._last = last
        try:
            self._link.send_query_prepared(b"generation", [str(last).encode()])
            self._link.flush()
        except self._errors as error:
            raise GenerationError(str(error)) from error

    def answer(self) -> GenerationChanges | None:
        """Read what has arrived; return the answer if it is complete."""
        try:
            self._link.consume_input()
            if self._link.is_busy():
                return None
            result = self._link.get_result()
            while self._link.get_result() is not None:
                pass
        except self._errors as error:
            raise GenerationError(str(error)) from error
        if result is None or result.status != self._pq.ExecStatus.TUPLES_OK:
            raise GenerationError("the database did not answer" if result is None else result.error_message.decode())
        rows = [
            tuple(_text(result.get_value(row, column)) for column in range(result.nfields))
            for row in range(result.ntuples)
        ]
        return _changes(self._last, rows)

    def close(self) -> None:
        self._connection.close()


def open_generation_reader(url: URL) -> GenerationReader:
    """Open a reader for a database url with the driver's name as in engine.parse_database_url. GenerationError."""
    if url.get_backend_name() == "sqlite":
        return SqliteGenerationReader(url)
    return PostgresGenerationReader(url)


def _changes(last: int, rows: Sequence[Sequence[Any]]) -> GenerationChanges:
    if not rows:
        raise GenerationError("the database has no notification log")
    generation = int(rows[0][0])
    if generation == last:
        return GenerationChanges(generation=generation, touched=())
    # Events are dense. If some are missing they have expired, or exceed the limit.
    numbers = [int(row[1]) for row in rows if row[1] is not None]
    if numbers != list(range(last + 1, generation + 1)):
        return GenerationChanges(generation=generation, touched=None)
    touched = [
        ChangedObject(type=kind, catalog=catalog, database=database, table=table, previous=name_from(previous))
        for _, _, kind, catalog, database, table, previous in rows
    ]
    return GenerationChanges(generation=generation, touched=touched)


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()
