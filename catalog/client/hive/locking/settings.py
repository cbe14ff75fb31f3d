"""What the options of a catalog say of its locks (`lock.enabled`, `lock-acquire-timeout`, `lock-check-max-sleep`)."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from interbed.catalog.client.hive.client import HiveMetastoreClient
from interbed.catalog.client.hive.locking.commit_lock import DIRECTORY_WAIT_SECONDS, ChangeLock, CommitLock
from interbed.catalog.client.hive.locking.lock import HiveCatalogLock
from interbed.catalog.client.identifier import Identifier
from interbed.catalog.client.options import LockMode
from interbed.storage.base.fileio.api import FileIO
from interbed.storage.base.fileio.file_lock import DirectoryLock
from interbed.storage.base.fileio.resolve import locks_directories


@dataclass(frozen=True, slots=True, kw_only=True)
class LockSettings:
    """Which lock commits and changes of tables take, and how long they wait for it."""

    mode: LockMode
    acquire_timeout_seconds: float
    check_max_sleep_seconds: float

    @property
    def enabled(self) -> bool:
        """Whether there are locks at all."""
        return self.mode is not LockMode.FALSE

    def hold(
        self, client: HiveMetastoreClient, identifier: Identifier
    ) -> AbstractContextManager[HiveCatalogLock | None]:
        """The table's lock in the metastore as a context, which raises LockError; nothing where locks are off."""
        return self._of(client, identifier) if self.enabled else nullcontext()

    def of_commit(
        self, client: HiveMetastoreClient, identifier: Identifier, file_io: FileIO, directory: str
    ) -> CommitLock | None:
        """The lock of one commit to the table in a directory, which is not taken yet; None where locks are off."""
        if not self.enabled:
            return None
        local = self.mode is LockMode.AUTO and locks_directories(file_io) and file_io.exclusive_create
        return CommitLock(
            self._of(client, identifier),
            DirectoryLock(directory) if local else None,
            directory_wait_seconds=min(DIRECTORY_WAIT_SECONDS, self.acquire_timeout_seconds),
        )

    def of_directory(self, directory: str) -> ChangeLock:
        """The lock of the directory of a table that is changed, for a context; it may raise LockError."""
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
