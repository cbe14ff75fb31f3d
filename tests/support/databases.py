"""Migrated databases of a metastore: those on SQLite are copies of one, as a migration takes longer than most tests.
`migrated_database` in `tests/support/servers/metastore.py` copies those in PostgreSQL.
"""

import os
import sqlite3
import time
from collections.abc import Callable
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
        renumber(connection.execute)


def renumber(execute: Callable[[str], object]) -> None:
    """Number the history of a copied database as its migration does: the numbers are greater than those of a database
    that was deleted before.
    """
    execute(f"UPDATE sequences SET value = {int(time.time() * 1000)} WHERE name = 'history'")


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
