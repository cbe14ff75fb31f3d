"""Statements that are built once: on SQLite run by the driver itself, and inserts that do nothing if a name is taken.

SQLAlchemy's execution takes several times as long as SQLite takes for a row by its key, and these statements have no
values that it would have to convert (text, whole numbers, bytes). On PostgreSQL the round trip outweighs both, and
SQLAlchemy also notices there when a connection is lost.

An insert of a taken name is no error: an error would end PostgreSQL's transaction, and a query before the insert would
leave a gap for another server.
"""

import sqlite3
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import DeclarativeBase
from sqlalchemy.sql import Executable

_SQLITE = sqlite.dialect(paramstyle="named")


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


@lru_cache(maxsize=100)
def _replacement(dialect_name: str, model: type[DeclarativeBase]) -> Any:
    insert: Any = (postgresql if dialect_name == "postgresql" else sqlite).insert(model)
    columns = list(model.__table__.columns)
    keys = [column for column in columns if column.primary_key]
    values = {column.name: insert.excluded[column.name] for column in columns if not column.primary_key}
    return insert.on_conflict_do_update(index_elements=keys, set_=values).returning(*keys)
