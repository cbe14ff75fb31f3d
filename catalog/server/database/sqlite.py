"""Units of work on SQLite: sharing of one file between threads, and the checks of that file.

Readers have connections of their own, each with a snapshot of the database. Writers share one connection (group
commit): units that arrive while another one is written join a queue, and the next transaction runs all of them, each
within a savepoint, so that they share the wait for the disk. Success is reported only when the commit is on the disk,
and a unit that fails rolls back its own changes only.

Transactions begin and end outside SQLAlchemy, whose own accounting of them would take longer than the statements of
most requests.

The file is created with access for its owner alone. A process continues to read and write a file that was deleted or
replaced, and its commits are lost with its last connection, so that the file is checked before each transaction ends.
SQLite gives -wal and -shm the mode of the file.
"""

import contextvars
import os
import sqlite3
import stat
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Generic, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

MODE = 0o600
"""Access for the owner alone: names in the metadata may be confidential, and parameters of tables may hold secrets."""

MANAGED = "interbed_managed"
"""Execution option of connections whose transactions are begun and ended here."""

FILE = "interbed_file"
"""Execution option of an engine that holds the DatabaseFile of its database."""

UNITS_MAX = 64
"""Units of work in one transaction: a bound on the work that waiting clients lose in a crash."""

WAIT_SECONDS = 60.0

T = TypeVar("T")
S = TypeVar("S")


class LostFileError(sqlite3.Error):
    """The opened file is no longer at its path. Nothing was committed."""


class DatabaseFile:
    """The file at a path, with its inode when this process first opened it. Safe for many threads."""

    def __init__(self, path: str) -> None:
        self._path = os.path.abspath(path)
        self._identity: tuple[int, int] | None = None

    def open(self) -> None:
        """Create the file if it is missing, the first time; later it must be the same. LostFileError, OSError."""
        if self._identity is not None:
            self.check()
            return
        os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, MODE))
        self._identity = _identity(self._path)

    def check(self) -> None:
        """Raise LostFileError if the opened file was deleted or replaced, or its log was deleted."""
        try:
            is_same = _identity(self._path) == self._identity
        except FileNotFoundError as error:
            raise self._lost("was deleted") from error
        if not is_same:
            raise self._lost("was replaced by another file")

    def check_log(self) -> None:
        """Raise LostFileError if the log next to the file, which holds the latest commits, was deleted."""
        if not os.path.exists(f"{self._path}-wal"):
            raise self._lost("has lost its -wal, which was deleted")

    def _lost(self, what: str) -> LostFileError:
        return LostFileError(
            f"{self._path} {what} while it was open: nothing more is read or written; put it back and restart"
        )


def readable_by_others(path: str) -> str | None:
    """Return a warning if users other than the owner may read the database, its log or its index; None if none may.

    The files keep their mode: an administrator may have set it on purpose.
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


class QueueTimeoutError(Exception):
    """A unit of work has waited too long in the queue and was not begun."""


class DatabaseSession(Generic[S]):
    """An open connection with its transaction object."""

    __slots__ = ("_connection", "raw", "transaction")

    def __init__(self, engine: Engine, transaction: Callable[[Connection], S]) -> None:
        connection = engine.connect().execution_options(**{MANAGED: True})
        # For SQLAlchemy this is one transaction without end.
        connection.begin()
        raw = connection.connection.driver_connection
        assert isinstance(raw, sqlite3.Connection)
        self._connection = connection
        self.raw = raw
        self.transaction = transaction(connection)

    def close(self) -> None:
        """Close the connection that writes."""
        self._connection.close()


class ReaderPool(Generic[S]):
    """Pool of connections for reading, for at most `count_max` concurrent threads; others wait."""

    def __init__(self, engine: Engine, transaction: Callable[[Connection], S], count_max: int) -> None:
        self._engine = engine
        self._transaction = transaction
        self._count_max = count_max
        self._file = _file_of(engine)
        self._slots = threading.BoundedSemaphore(count_max)
        self._idle: list[DatabaseSession[S]] = []
        self._in_use = 0

    @property
    def idle(self) -> int:
        """Number of idle connections."""
        return len(self._idle)

    @property
    def in_use(self) -> int:
        """Number of connections in use."""
        return self._in_use

    def run(self, work: Callable[[S], T]) -> T:
        """Run the function on one consistent state. Errors of the database are raised unchanged; QueueTimeoutError."""
        if not self._slots.acquire(timeout=WAIT_SECONDS):
            raise QueueTimeoutError(
                f"all {self._count_max} connections to the database were in use for {WAIT_SECONDS:.0f} s"
            )
        self._in_use += 1
        try:
            try:
                session = self._idle.pop()
            except IndexError:
                session = DatabaseSession(self._engine, self._transaction)
            try:
                if self._file is not None:
                    self._file.check()
                session.raw.execute("BEGIN")
                return work(session.transaction)
            finally:
                if _rolled_back(session.raw):
                    self._idle.append(session)
                else:
                    session.close()
        finally:
            self._in_use -= 1
            self._slots.release()

    def close(self) -> None:
        """Close the idle connections of the pool."""
        while self._idle:
            self._idle.pop().close()


class _Unit:
    """A queued function, then its result."""

    __slots__ = ("context", "error", "is_done", "result", "wake", "work")

    def __init__(self, work: Callable[[Any], Any]) -> None:
        self.work = work
        # Its log lines belong to its own request, whichever thread runs it.
        self.context = contextvars.copy_context()
        self.is_done = False
        self.result: Any = None
        self.error: BaseException | None = None
        self.wake = threading.Lock()
        self.wake.acquire()

    def outcome(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.result


class Writer(Generic[S]):
    """The one connection that writes, and the queue for it."""

    def __init__(self, engine: Engine, transaction: Callable[[Connection], S]) -> None:
        self._engine = engine
        self._transaction = transaction
        self._file = _file_of(engine)
        self._session: DatabaseSession[S] | None = None
        self._guard = threading.Lock()
        self._queue: deque[_Unit] = deque()
        self._is_writing = False

    def run(self, work: Callable[[S], T]) -> T:
        """Run the function and commit; on return its changes are on the disk, on an error none of them is kept.

        Errors of the function and of the database are raised unchanged; QueueTimeoutError.
        """
        unit = _Unit(work)
        with self._guard:
            self._queue.append(unit)
            leads = not self._is_writing
            self._is_writing = True
        while not leads:
            if unit.wake.acquire(timeout=WAIT_SECONDS):
                if unit.is_done:
                    result: T = unit.outcome()
                    return result
                leads = True
            else:
                self._leave(unit)
        led: T = self._lead(unit)
        return led

    def close(self) -> None:
        """Close the connection that writes."""
        with self._guard:
            if self._session is not None:
                self._session.close()
                self._session = None

    def _leave(self, unit: _Unit) -> None:
        with self._guard:
            if unit in self._queue:
                self._queue.remove(unit)
                raise QueueTimeoutError(f"other writers kept the database for more than {WAIT_SECONDS:.0f} s")

    def _lead(self, unit: _Unit) -> Any:
        with self._guard:
            # The leader is first.
            units = [self._queue.popleft() for _ in range(min(len(self._queue), UNITS_MAX))]
        try:
            if len(units) == 1 or not self._run_together(units):
                for each in units:
                    self._run_alone(each)
        finally:
            with self._guard:
                following = self._queue[0] if self._queue else None
                self._is_writing = following is not None
            for each in units:
                each.is_done = True
                if each is not unit:
                    each.wake.release()
            if following is not None:
                following.wake.release()
        return unit.outcome()

    def _run_alone(self, unit: _Unit) -> None:
        raw: sqlite3.Connection | None = None
        try:
            session = self._open()
            raw = session.raw
            raw.execute("BEGIN IMMEDIATE")
            unit.result = unit.context.run(unit.work, session.transaction)
            self._check_file()
            raw.execute("COMMIT")
        except BaseException as error:  # noqa: BLE001 - It is raised again, on the thread that the unit came from.
            unit.error = error
            if raw is None or not _rolled_back(raw):
                self.close()

    def _run_together(self, units: list[_Unit]) -> bool:
        """Run the units in one transaction and commit it. Returns True if each unit is in that commit or has failed by
        itself; False if nothing was committed.
        """
        try:
            session = self._open()
            raw = session.raw
            raw.execute("BEGIN IMMEDIATE")
        except (sqlite3.Error, SQLAlchemyError) as error:
            # Most likely another process writes. Waiting for it once is enough.
            for unit in units:
                unit.error = error
            return True
        try:
            for unit in units:
                raw.execute("SAVEPOINT unit")
                try:
                    unit.result, unit.error = unit.context.run(unit.work, session.transaction), None
                except BaseException as error:  # noqa: BLE001 - It is raised again, on the thread that the unit came from.
                    # Not only errors end a unit (service/moves.py has a way of its own). None of them may leave the
                    # transaction open and the others without their commit.
                    unit.error = error
                    # Some errors, of the disk for instance, have ended the whole transaction: then this statement
                    # fails.
                    raw.execute("ROLLBACK TO unit")
                raw.execute("RELEASE unit")
            self._check_file()
            raw.execute("COMMIT")
        except sqlite3.Error:
            if not _rolled_back(raw):
                self.close()
            return False
        return True

    def _check_file(self) -> None:
        """Raise LostFileError before a commit into a deleted file, which would be acknowledged and lost."""
        if self._file is not None:
            self._file.check()
            self._file.check_log()

    def _open(self) -> DatabaseSession[S]:
        if self._session is None:
            self._session = DatabaseSession(self._engine, self._transaction)
        return self._session


def _file_of(engine: Engine) -> DatabaseFile | None:
    found = engine.get_execution_options().get(FILE)
    return found if isinstance(found, DatabaseFile) else None


def _rolled_back(raw: sqlite3.Connection) -> bool:
    """Roll back a transaction; return whether the connection can be used again."""
    try:
        if raw.in_transaction:
            raw.execute("ROLLBACK")
    except sqlite3.Error:
        return False
    return True
