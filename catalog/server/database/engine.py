"""Connections, units of work and statements, on SQLite for one machine and on PostgreSQL for several servers.

SQLite runs in WAL mode with `synchronous=FULL`: a commit is on the disk before it is acknowledged, and readers never
wait for the writer. Writers take the write lock at their beginning (`BEGIN IMMEDIATE`): a transaction that read first
and then failed to upgrade would have to be retried. sqlite.py shares the file between threads. PostgreSQL runs READ
COMMITTED with explicit row locks, named at the calls that take them. All connections to PostgreSQL are made from the
database's url, by the rules of its driver.

A `Statement` is run on SQLite by the driver itself. SQLAlchemy's execution takes several times as long as SQLite takes
for a row by its key, and these statements have no values that it would have to convert (text, whole numbers, bytes). On
PostgreSQL the round trip outweighs both, and SQLAlchemy also notices there when a connection is lost.

An insert of a taken name is no error: an error would end PostgreSQL's transaction, and a query before the insert would
leave a gap for another server.
"""

import logging
import os
import re
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, Generic, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.orm import DeclarativeBase
from sqlalchemy.pool import NullPool, QueuePool
from sqlalchemy.sql import Executable

from interbed.catalog.server.database.sqlite import FILE, MANAGED, DatabaseFile, QueueTimeoutError, ReaderPool, Writer
from interbed.catalog.server.service.errors import MetastoreError, OutcomeUnknownError, UnstorableTextError
from interbed.storage.base.backoff import ExponentialBackoff
from interbed.storage.base.errors import load_extra
from interbed.storage.base.shown_text import without_credentials

CONNECT_SECONDS_MAX = 10

logger = logging.getLogger(__name__)

T = TypeVar("T")
S = TypeVar("S")

BUSY_TIMEOUT_MS = 30_000
"""Time that a writer on SQLite waits for the lock. Longer than any write takes, shorter than clients' 600 s."""

BACKOFF = ExponentialBackoff(first_seconds=0.1, jitter=(0.2, 1.0), retries=4)
"""Retries of a unit of work when the database asks for one (busy, deadlock, serialization, a lost connection)."""

POOL_SIZE = 16
"""Connections kept open. More threads than this wait for one another, which is cheaper than more connections."""

POOL_TIMEOUT_SECONDS = 60

# PostgreSQL's classes of errors after which the same transaction may succeed: serialization failure, deadlock, cannot
# connect now.
_RETRYABLE_SQLSTATES = ("40001", "40P01", "57P01", "57P03", "08")

_SQLITE = sqlite.dialect(paramstyle="named")


def postgres_conninfo(url: URL, application: str) -> str:
    """Return libpq's connection string, read from the url as the engine of the other connections reads it: what is
    after the `?` wins, and hosts may be several. psycopg.ProgrammingError for an option that libpq does not know.
    """
    # Only servers on PostgreSQL need its driver.
    from psycopg.conninfo import make_conninfo

    _, options = url.get_dialect()().create_connect_args(url)
    return make_conninfo("", **postgres_defaults(url, application), **options)


def postgres_defaults(url: URL, application: str) -> dict[str, Any]:
    """Return the defaults of connections, without those that the url sets."""
    defaults: dict[str, Any] = {"connect_timeout": CONNECT_SECONDS_MAX, "application_name": application}
    return {name: value for name, value in defaults.items() if name not in url.query}


class DatabaseError(MetastoreError):
    """The metastore's own database could not be reached or refused the work; no acknowledged change was made."""


class DatabaseCommitError(DatabaseError, OutcomeUnknownError):
    """The database was lost during the commit: the change may have been made, or not."""


class SqlUnits(Generic[S]):
    """Units of work on a database that open_engine has opened, for many concurrent threads.

    Each unit gets the result of `transaction` for its connection. Errors of the database are raised as DatabaseError,
    whose message names it as it is `called`.
    """

    def __init__(self, engine: Engine, transaction: Callable[[Connection], S], *, called: str) -> None:
        self._engine = engine
        self._transaction = transaction
        self._called = called
        self._readers: ReaderPool[S] | None = None
        self._writer: Writer[S] | None = None
        if engine.dialect.name == "sqlite":
            self._readers = ReaderPool(engine, transaction, POOL_SIZE)
            self._writer = Writer(engine, transaction)

    @property
    def engine(self) -> Engine:
        """The engine, for migrations."""
        return self._engine

    @property
    def pool(self) -> tuple[int, int]:
        """Connections in use and idle."""
        if self._readers is not None:
            return self._readers.in_use, self._readers.idle
        pool = self._engine.pool
        assert isinstance(pool, QueuePool)
        return pool.checkedout(), pool.checkedin()

    def read(self, work: Callable[[S], T]) -> T:
        """Run the function on one consistent state of the database."""
        return self._run(self._pooled if self._readers is None else self._readers.run, work)

    def write(self, work: Callable[[S], T]) -> T:
        """Run the function and commit; the change is durable on return."""
        return self._run(self._pooled if self._writer is None else self._writer.run, work)

    def close(self) -> None:
        """Close the connections kept here; those in the engine's pool belong to its owner."""
        if self._readers is not None and self._writer is not None:
            self._readers.close()
            self._writer.close()

    def _pooled(self, work: Callable[[S], T]) -> T:
        with self._engine.connect() as connection:
            with connection.begin() as transaction:
                result = work(self._transaction(connection))
                try:
                    transaction.commit()
                except DBAPIError as error:
                    if error.connection_invalidated:
                        # The outcome of the commit is unknown: a retry could apply it twice.
                        raise DatabaseCommitError(
                            f"the database went away within the commit: {_summary(error)}"
                        ) from error
                    raise
            return result

    def _run(self, run: Callable[[Callable[[S], T]], T], work: Callable[[S], T]) -> T:
        retries = BACKOFF.start(f"a unit of work in {self._called}", logger, logging.WARNING)
        while True:
            try:
                return run(work)
            except (SQLAlchemyError, sqlite3.Error, QueueTimeoutError) as error:
                if (field := _field_with_nul(error)) is not None:
                    raise UnstorableTextError(f"{field} cannot contain NUL, which PostgreSQL does not keep") from error
                if not _is_retryable(error) or not retries.pause(_summary(error)):
                    raise DatabaseError(f"{self._called} failed: {_summary(error)}") from error


def open_engine(url: str) -> Engine:
    """Return a pooled engine for a database url; DatabaseError for a url of a database that interbed cannot use."""
    parsed = parse_database_url(url)
    if parsed.get_backend_name() == "sqlite":
        engine = create_engine(
            parsed,
            # The reader pool and the writer keep their connections; any other connection is used once.
            poolclass=NullPool,
            connect_args={"check_same_thread": False, "timeout": BUSY_TIMEOUT_MS / 1000},
        )
        _watch_file(engine, parsed)
        event.listen(engine, "connect", _configure_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
        return engine
    # A dead connection in the pool shows at its first statement, which is then run again on another: testing each
    # connection before use would be one more round trip for every request.
    return create_engine(
        parsed,
        pool_size=POOL_SIZE,
        max_overflow=0,
        pool_timeout=POOL_TIMEOUT_SECONDS,
        isolation_level="READ COMMITTED",
        connect_args=postgres_defaults(parsed, "interbed"),
    )


def parse_database_url(url: str) -> URL:
    """Return the url with the driver that interbed uses; DatabaseError says what is wrong with any other.

    Raises MissingExtraError when the driver is not installed.
    """
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        shown = without_credentials(url)
        raise DatabaseError(
            f"{shown!r} is not a database url; use sqlite:///file.db or postgresql://user@host/database"
        ) from error
    backend = parsed.get_backend_name()
    if backend == "sqlite":
        if parsed.database in (None, "", ":memory:"):
            raise DatabaseError("the metastore needs a file: sqlite:///path/to/file.db")
        return parsed.set(drivername="sqlite")
    if backend in ("postgresql", "postgres"):
        load_extra("psycopg", needed_by="A PostgreSQL database")
        return parsed.set(drivername="postgresql+psycopg")
    raise DatabaseError(f"{backend} is not supported as the metastore's database; use sqlite:///… or postgresql://…")


def check_exists(url: str) -> None:
    """Raise DatabaseError for a file of SQLite that does not exist; opening it would create it."""
    parsed = parse_database_url(url)
    if parsed.get_backend_name() == "sqlite" and not os.path.exists(parsed.database or ""):
        raise DatabaseError(f"there is no database {parsed.database}")


class Statement:
    """A statement for both kinds of database, with its text and constants for SQLite's driver.

    `for_sqlite` is the same where the two differ. Parameters are named; lists of them cannot be bound.
    """

    __slots__ = ("_constants", "_core", "_text")

    def __init__(self, core: Executable, *, for_sqlite: Executable | None = None) -> None:
        self._core = core
        compiled = (core if for_sqlite is None else for_sqlite).compile(dialect=_SQLITE)  # type: ignore[attr-defined]
        self._text = str(compiled)
        self._constants = dict(compiled.params)

    @property
    def text(self) -> str:
        """Its text for SQLite."""
        return self._text

    def rows(self, connection: Connection, values: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
        """Return all rows of the result."""
        if connection.dialect.name != "sqlite":
            return connection.execute(self._core, values).all()
        return self._on_sqlite(connection, values).fetchall()

    def row(self, connection: Connection, values: Mapping[str, Any]) -> Sequence[Any] | None:
        """Return the only row of the result, or None."""
        rows = self.rows(connection, values)
        assert len(rows) <= 1
        return rows[0] if rows else None

    def change(self, connection: Connection, values: Mapping[str, Any]) -> int:
        """Execute it and return the number of changed rows."""
        if connection.dialect.name != "sqlite":
            return connection.execute(self._core, values).rowcount
        return self._on_sqlite(connection, values).rowcount

    def change_many(self, connection: Connection, values: Sequence[Mapping[str, Any]]) -> None:
        """Execute it once for each of these."""
        if connection.dialect.name != "sqlite":
            connection.execute(self._core, values)
            return
        for each in values:
            self._on_sqlite(connection, each)

    def _on_sqlite(self, connection: Connection, values: Mapping[str, Any]) -> sqlite3.Cursor:
        driver = connection.connection.driver_connection
        assert isinstance(driver, sqlite3.Connection)
        try:
            return driver.execute(self._text, {**self._constants, **values})
        except sqlite3.Error as error:
            # Wrapped as SQLAlchemy would: the type decides whether the unit of work is retried.
            raise DBAPIError.instance(self._text, None, error, sqlite3.Error) from error


def insert_unless_taken(connection: Connection, model: type[DeclarativeBase], *returning: Any) -> Any:
    """Return an insert into the model's table that does nothing if a unique key is taken; it returns the given columns
    of stored rows.
    """
    return _statement(connection.dialect.name, model, returning)


def insert_statement(model: type[DeclarativeBase], values: Mapping[str, Any], *returning: Any) -> Statement:
    """Return the same insert with the columns that it fills, for repeated use."""
    return Statement(
        _statement("postgresql", model, returning).values(values),
        for_sqlite=_statement("sqlite", model, returning).values(values),
    )


@lru_cache(maxsize=100)
def _statement(dialect_name: str, model: type[DeclarativeBase], returning: tuple[Any, ...]) -> Any:
    # Statements are built once: compiling one takes as long as running it.
    dialect = postgresql if dialect_name == "postgresql" else sqlite
    return dialect.insert(model).on_conflict_do_nothing().returning(*returning)


def insert_or_replace(connection: Connection, model: type[DeclarativeBase]) -> Any:
    """Return an insert of whole rows into the model's table that replaces those with the same primary key.

    It returns the keys: so SQLAlchemy stores a list of rows by statements of many rows, and not each by its own. A list
    must have no key twice.
    """
    return _replacement(connection.dialect.name, model)


def _configure_sqlite(connection: sqlite3.Connection, _record: object) -> None:
    # The driver's own transaction handling begins late and only for some statements; transactions here are explicit.
    connection.isolation_level = None
    for pragma in (
        f"busy_timeout={BUSY_TIMEOUT_MS}",
        "journal_mode=WAL",
        "synchronous=FULL",
        "foreign_keys=ON",
        "cache_size=-8192",
        "temp_store=MEMORY",
    ):
        connection.execute(f"PRAGMA {pragma}").close()


def _watch_file(engine: Engine, url: URL) -> None:
    """Create the file with access for its owner alone, and have readers and writer check that it is not replaced."""
    if not url.database or "uri" in url.query:
        # The url sets how it is opened, perhaps read-only.
        return
    file = DatabaseFile(url.database)
    engine.update_execution_options(**{FILE: file})

    def opening(*_arguments: object) -> None:
        # SQLite itself reports an invalid path.
        with suppress(OSError):
            file.open()

    event.listen(engine, "do_connect", opening)


def _begin_sqlite(connection: Connection) -> None:
    options = connection.get_execution_options()
    if not options.get(MANAGED, False):
        connection.exec_driver_sql("BEGIN IMMEDIATE" if options.get("interbed_write", False) else "BEGIN")


def _is_retryable(error: Exception) -> bool:
    if isinstance(error, DBAPIError):
        if error.connection_invalidated:
            return True
        original: object = error.orig
    else:
        original = error
    state = getattr(original, "sqlstate", None)
    if state is not None:
        return str(state).startswith(_RETRYABLE_SQLSTATES)
    # SQLite's error when another process writes.
    return isinstance(original, sqlite3.OperationalError) and ("locked" in str(original) or "busy" in str(original))


def _field_with_nul(error: Exception) -> str | None:
    """Return the column of a text with a NUL, if PostgreSQL's driver has refused the statement for it."""
    if not isinstance(error, DBAPIError) or "NUL (0x00)" not in str(error.orig):
        return None
    given = error.params if isinstance(error.params, Sequence) else [error.params]
    for parameters in given:
        for name, value in parameters.items() if isinstance(parameters, Mapping) else ():
            texts = value if isinstance(value, list | tuple) else [value]
            if any(isinstance(text, str) and "\0" in text for text in texts):
                # Parameters are numbered where a column has several.
                return re.sub(r"(_\d+)+$", "", str(name))
    return "a text"


def _summary(error: Exception) -> str:
    original = getattr(error, "orig", None)
    lines = str(original if original is not None else error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


@lru_cache(maxsize=100)
def _replacement(dialect_name: str, model: type[DeclarativeBase]) -> Any:
    insert: Any = (postgresql if dialect_name == "postgresql" else sqlite).insert(model)
    columns = list(model.__table__.columns)
    keys = [column for column in columns if column.primary_key]
    values = {column.name: insert.excluded[column.name] for column in columns if not column.primary_key}
    return insert.on_conflict_do_update(index_elements=keys, set_=values).returning(*keys)
