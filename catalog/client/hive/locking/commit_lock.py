"""The lock of one commit: the metastore's, or the operating system's of the table's directory (`lock.enabled` = auto).

    flock(<table>, LOCK_EX)

Whether a snapshot is created is decided by its exclusive creation, with or without a lock. The lock keeps a commit and
a change of the table apart: between its last look at the metastore's entry and its update of that entry, the table
must not be dropped, renamed or altered. A change holds both locks, and a commit holds one of them. A commit never waits
for one while it holds the other, so that the two can't wait for each other.

The operating system releases its lock when the process ends. Where it has no such lock for the directory (as on NFS),
or another process holds it for long, the commit takes the metastore's lock.
"""

import logging
from types import TracebackType
from typing import Self

from interbed.catalog.client.errors import LockError
from interbed.catalog.client.hive.locking.lock import HiveCatalogLock
from interbed.storage.base.fileio.file_lock import DirectoryLock

_log = logging.getLogger(__name__)

DIRECTORY_WAIT_SECONDS = 10.0
"""A commit holds the lock of a directory for milliseconds. One that waits longer takes the metastore's lock, which a
change of the table holds as well.
"""


class CommitLock:
    """The lock of one commit, for one thread. Without a `directory` it is the metastore's."""

    def __init__(
        self,
        metastore_lock: HiveCatalogLock,
        directory: DirectoryLock | None = None,
        *,
        directory_wait_seconds: float = DIRECTORY_WAIT_SECONDS,
    ) -> None:
        self._metastore_lock = metastore_lock
        self._directory = directory
        self._directory_wait_seconds = directory_wait_seconds

    @property
    def is_held(self) -> bool:
        """Whether the lock is held, as far as is known."""
        return self._metastore_lock.is_held or (self._directory is not None and self._directory.is_held)

    def acquire(self) -> None:
        """Take the lock of the directory, or else the metastore's. LockError."""
        if not self._take_directory():
            self._metastore_lock.acquire()

    def ensure_held(self) -> None:
        """LockError if the lock is not held, or if the metastore dropped it meanwhile."""
        if self._directory is None or not self._directory.is_held:
            self._metastore_lock.ensure_held()

    def release(self) -> None:
        """Release the lock. Never raises for a metastore that cannot be reached: the lease will end its lock."""
        if self._directory is not None:
            self._directory.release()
        self._metastore_lock.release()

    def _take_directory(self) -> bool:
        if self._directory is None:
            return False
        try:
            return self._directory.take(self._directory_wait_seconds)
        except OSError as error:
            _log.debug("No lock of the directory, so the metastore's is taken: %s", error)
            return False


class ChangeLock:
    """The lock of the directory of a table that is changed, for a `with` block; see the module.

    LockError if a commit holds it for longer than the timeout. No lock where the file system has none: commits take the
    metastore's there.
    """

    def __init__(self, directory: str, *, acquire_timeout_seconds: float) -> None:
        self._path = directory
        self._lock = DirectoryLock(directory)
        self._acquire_timeout_seconds = acquire_timeout_seconds

    def __enter__(self) -> Self:
        try:
            taken = self._lock.take(self._acquire_timeout_seconds)
        except OSError as error:
            _log.debug("No lock of the directory: %s", error)
            return self
        if not taken and self._lock.is_possible:
            raise LockError(
                f"could not lock the directory {self._path} within {self._acquire_timeout_seconds:g} s: a process of "
                "this machine that commits to the table holds its lock, or the directory was replaced meanwhile; end "
                "that process, or try again"
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._lock.release()
