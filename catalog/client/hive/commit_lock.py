"""The lock of one commit: the metastore's, or the operating system's of the table's directory (`lock.enabled` = auto).

    flock(<table>, LOCK_EX)

The exclusive creation of a snapshot decides whether a commit succeeds, with or without a lock. The lock separates a
commit from a change of the table: between its last look at the metastore's entry and its update of that entry, the
table must not be dropped, renamed or altered. A change holds both locks, and a commit holds one of them. A commit never
waits for one while it holds the other, so that there are no deadlocks.

The operating system releases its lock when the process ends. If it has no such lock for the directory (as on NFS), or
another process holds it for long, the commit takes the metastore's lock.

`LockSettings` chooses the locks by the options of the catalog (`lock.enabled`, `lock-acquire-timeout`,
`lock-check-max-sleep`).
"""

import logging
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from interbed.catalog.client.errors import LockError
from interbed.catalog.client.hive.client import HiveMetastoreClient
from interbed.catalog.client.hive.lock import HiveCatalogLock
from interbed.catalog.client.identifier import Identifier
from interbed.catalog.client.options import LockMode
from interbed.storage.io.api import FileIO
from interbed.storage.io.file_lock import DirectoryLock

_log = logging.getLogger(__name__)

DIRECTORY_WAIT_SECONDS = 10.0
"""A commit holds the lock of a directory for milliseconds.

After this time it takes the metastore's lock instead, which a change of the table holds as well.
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
        """Take the lock of the directory, or the metastore's if there is none. LockError."""
        if not self._take_directory():
            self._metastore_lock.acquire()

    def ensure_held(self) -> None:
        """Raise LockError if the lock is not held, or if the metastore dropped it meanwhile."""
        if self._directory is None or not self._directory.is_held:
            self._metastore_lock.ensure_held()

    def release(self) -> None:
        """Release the lock; never raise for a metastore that cannot be reached, because the lease will expire."""
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
    """The lock of the directory of a table that is changed, for a `with` block.

    LockError if a commit holds it for longer than the timeout. There is no lock if the file system has none: commits
    take the metastore's lock there.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class LockSettings:
    """The locks that commits and changes of tables take, and how long they wait for them."""

    mode: LockMode
    acquire_timeout_seconds: float
    check_max_sleep_seconds: float

    @property
    def enabled(self) -> bool:
        """Whether tables are locked at all."""
        return self.mode is not LockMode.FALSE

    def hold(
        self, client: HiveMetastoreClient, identifier: Identifier
    ) -> AbstractContextManager[HiveCatalogLock | None]:
        """Return the table's lock in the metastore as a context, which raises LockError; no lock if locks are off."""
        return self._of(client, identifier) if self.enabled else nullcontext()

    def of_commit(
        self, client: HiveMetastoreClient, identifier: Identifier, file_io: FileIO, directory: str
    ) -> CommitLock | None:
        """Return the lock of one commit to the table in a directory, not taken yet; None if locks are off."""
        if not self.enabled:
            return None
        local = self.mode is LockMode.AUTO and file_io.capabilities.file_locks and file_io.exclusive_create
        return CommitLock(
            self._of(client, identifier),
            DirectoryLock(directory) if local else None,
            directory_wait_seconds=min(DIRECTORY_WAIT_SECONDS, self.acquire_timeout_seconds),
        )

    def of_directory(self, directory: str) -> ChangeLock:
        """Return the lock of the directory of a table that is changed, as a context, which may raise LockError."""
        return ChangeLock(directory, acquire_timeout_seconds=self.acquire_timeout_seconds)

    def _of(self, client: HiveMetastoreClient, identifier: Identifier) -> HiveCatalogLock:
        return HiveCatalogLock(
            client,
            # Metastores fold the names of tables; not all of them fold those of locks.
            identifier.database.lower(),
            identifier.table.lower(),
            acquire_timeout_seconds=self.acquire_timeout_seconds,
            check_max_sleep_seconds=self.check_max_sleep_seconds,
        )
