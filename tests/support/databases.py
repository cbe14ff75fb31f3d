"""Migrated databases of a metastore: those on SQLite are copies of one, as a migration takes longer than most tests."""

import os
import sqlite3
import time
from contextlib import closing
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from interbed.catalog.server.database import schema
from interbed.catalog.server.database.session import SqlRepository

_SQLITE = "sqlite:///"


def open_migrated(url: str) -> SqlRepository:
    """Open a database with the current schema."""
    prepare(url)
    opened = SqlRepository(url)
    schema.upgrade(opened.engine)
    return opened


def prepare(url: str) -> None:
    """Create the file of a database on SQLite with the current schema, unless it exists or its directory does not. A
    server migrates databases of other kinds.
    """
    path = Path(url.removeprefix(_SQLITE))
    if not url.startswith(_SQLITE) or "?" in url or path.exists() or not path.parent.is_dir():
        return
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(_migrated())
    with closing(sqlite3.connect(path)) as connection, connection:
        # As in the migration: numbers of a new database are greater than those of one that was deleted before.
        connection.execute("UPDATE sequences SET value = ? WHERE name = 'history'", (int(time.time() * 1000),))


@cache
def _migrated() -> bytes:
    with TemporaryDirectory(prefix="interbed-migrated-") as directory:
        path = Path(directory) / "metastore.db"
        opened = SqlRepository(f"{_SQLITE}{path}")
        schema.upgrade(opened.engine)
        opened.close()
        # Closing the last connection moves the log into the file.
        assert [file.name for file in path.parent.iterdir()] == [path.name]
        return path.read_bytes()
