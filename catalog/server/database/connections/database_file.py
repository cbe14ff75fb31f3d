"""The file of a SQLite database: made for its owner alone, and looked at before each transaction ends.

A process goes on reading and writing a file that was deleted or replaced, and what it acknowledges is lost with its
last connection. SQLite gives -wal and -shm the mode of the file.
"""

import os
import sqlite3
import stat
from contextlib import suppress

MODE = 0o600
"""Metadata may name what not everybody is to know, and parameters of tables may hold secrets."""


class LostFileError(sqlite3.Error):
    """The file that was opened is no longer there under its name. Nothing was committed."""


class DatabaseFile:
    """The file at a path, with its identity since it was first opened by this process. Safe for many threads."""

    def __init__(self, path: str) -> None:
        self._path = os.path.abspath(path)
        self._identity: tuple[int, int] | None = None

    def open(self) -> None:
        """Make the file if there is none, the first time; later it has to be the same. LostFileError, OSError."""
        if self._identity is not None:
            self.check()
            return
        os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, MODE))
        self._identity = _identity(self._path)

    def check(self) -> None:
        """LostFileError if the file that was opened was deleted or replaced, or its log was deleted."""
        try:
            is_same = _identity(self._path) == self._identity
        except FileNotFoundError as error:
            raise self._lost("was deleted") from error
        if not is_same:
            raise self._lost("was replaced by another file")

    def check_log(self) -> None:
        """LostFileError if the log beside the file, which holds the latest commits, was deleted."""
        if not os.path.exists(f"{self._path}-wal"):
            raise self._lost("has lost its -wal, which was deleted")

    def _lost(self, what: str) -> LostFileError:
        return LostFileError(
            f"{self._path} {what} while it was open: nothing more is read or written; put it back and restart"
        )


def readable_by_others(path: str) -> str | None:
    """A warning if users other than the owner may read the database, its log or its index; None if none may.

    The files keep the mode that they have: an administrator may mean it.
    """
    for file in (path, f"{path}-wal", f"{path}-shm"):
        with suppress(OSError):
            mode = stat.S_IMODE(os.stat(file).st_mode)
            if mode & (stat.S_IRGRP | stat.S_IROTH):
                return (
                    f"other users of this machine may read {file} (mode {mode:04o}), which holds all metadata, secrets "
                    f"in parameters included: chmod 600 {path}*, unless that is meant"
                )
    return None


def _identity(path: str) -> tuple[int, int]:
    found = os.stat(path)
    return found.st_dev, found.st_ino
