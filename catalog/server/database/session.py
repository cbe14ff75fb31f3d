"""The metastore's transactions: a unit of work on its database, with all repositories. Connections are engine.py's."""

from functools import partial

from sqlalchemy import Connection

from interbed.catalog.server.database.client_keys import (
    SqlAccessTokens,
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
from interbed.catalog.server.database.dropped import SqlDroppedObjects
from interbed.catalog.server.database.engine import SqlUnits, open_engine
from interbed.catalog.server.database.events import SqlEvents, SqlHistory
from interbed.catalog.server.database.grants import SqlAccess
from interbed.catalog.server.database.locks import SqlLocks
from interbed.catalog.server.database.partitions import SqlPartitions
from interbed.catalog.server.database.policies import SqlPolicies
from interbed.catalog.server.database.statistics import SqlQueries, SqlRunStatistics, SqlStatistics
from interbed.catalog.server.database.tables import SqlConstraints, SqlTables
from interbed.catalog.server.service.history.entries import HistoryPolicy

_SQLITE_FILES = ("", "-wal", "-shm", "-journal")


class SqlTransaction:
    """One unit of work on an open connection; the repositories share it."""

    __slots__ = (
        "access",
        "access_tokens",
        "catalogs",
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
