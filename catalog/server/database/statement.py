"""Statements of hot paths: built once, and on SQLite run by the driver itself.

SQLAlchemy's way to a cursor takes several times as long as SQLite takes for a row by its key, and there is nothing in
these statements (text, whole numbers, bytes) that it would have to convert. On PostgreSQL the round trip outweighs
both, and SQLAlchemy also notices there when a connection is lost.
"""

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.dialects import sqlite
from sqlalchemy.exc import DBAPIError
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
        """All rows of the result."""
        if connection.dialect.name != "sqlite":
            return connection.execute(self._core, values).all()
        return self._on_sqlite(connection, values).fetchall()

    def row(self, connection: Connection, values: Mapping[str, Any]) -> Sequence[Any] | None:
        """The only row of the result, or None."""
        rows = self.rows(connection, values)
        assert len(rows) <= 1
        return rows[0] if rows else None

    def change(self, connection: Connection, values: Mapping[str, Any]) -> int:
        """How many rows were changed."""
        if connection.dialect.name != "sqlite":
            return connection.execute(self._core, values).rowcount
        return self._on_sqlite(connection, values).rowcount

    def change_many(self, connection: Connection, values: Sequence[Mapping[str, Any]]) -> None:
        """Run it once for each of these."""
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
            # As it would come through SQLAlchemy: the store knows by it what may be tried again.
            raise DBAPIError.instance(self._text, None, error, sqlite3.Error) from error
