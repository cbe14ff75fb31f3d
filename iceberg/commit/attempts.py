"""Commits by optimistic concurrency. Each attempt loads the newest metadata and writes new files beside the table; the
update of the metadata, which names these files, is the commit.

An attempt that lost to another commit deletes its files. If the state is unknown (an answer was lost, and the table
cannot be loaded) nothing is deleted.
"""

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, WaitingForLockException
from pyiceberg.table import Table as Metadata
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    AssertRefSnapshotId,
    AssertTableUUID,
    SetSnapshotRefUpdate,
    TableRequirement,
    TableUpdate,
)

from interbed.iceberg.commit.home import TableHome
from interbed.iceberg.meta.table_metadata import whole_number
from interbed.iceberg.read.files import TableFiles
from interbed.storage.base.backoff import ExponentialBackoff, RetryLoop
from interbed.storage.base.errors import (
    CommitConflictError,
    CommitFailedError,
    CommitStateUnknownError,
    NotSupportedError,
    StorageAccessError,
)

_log = logging.getLogger(__name__)

_RETRIES = "commit.retry.num-retries"
_LEAST_WAIT = "commit.retry.min-wait-ms"
_MOST_WAIT = "commit.retry.max-wait-ms"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitAttempt:
    """An update of a table as it was loaded, and the files that were written for it and that it names.

    `happened` returns, for later metadata, whether the update was committed; `snapshot_id` is the id of the new
    snapshot, if there is one.
    """

    table: Metadata
    updates: tuple[TableUpdate, ...]
    written: tuple[str, ...]
    happened: Callable[[TableMetadata], bool]
    snapshot_id: int | None = None

    @property
    def requirements(self) -> tuple[TableRequirement, ...]:
        """The requirements of the update: branches and tags are unchanged."""
        metadata = self.table.metadata
        refs = {MAIN_BRANCH: metadata.current_snapshot_id}
        refs.update((name, ref.snapshot_id) for name, ref in metadata.refs.items())
        return (
            AssertTableUUID(uuid=metadata.table_uuid),
            *(AssertRefSnapshotId.model_validate({"ref": name, "snapshot-id": at}) for name, at in refs.items()),
        )


def snapshot_attempt(table: Metadata, snapshot: Snapshot, written: Iterable[str]) -> CommitAttempt:
    """Return the attempt that makes a snapshot the newest one of the main branch."""
    main: dict[str, object] = {
        "ref-name": MAIN_BRANCH,
        "type": SnapshotRefType.BRANCH,
        "snapshot-id": snapshot.snapshot_id,
    }
    before = table.metadata.refs.get(MAIN_BRANCH)
    if before is not None:
        # The retention of snapshots is a property of the branch.
        main |= {
            "max-ref-age-ms": before.max_ref_age_ms,
            "max-snapshot-age-ms": before.max_snapshot_age_ms,
            "min-snapshots-to-keep": before.min_snapshots_to_keep,
        }
    return CommitAttempt(
        table=table,
        updates=(AddSnapshotUpdate(snapshot=snapshot), SetSnapshotRefUpdate.model_validate(main)),
        written=tuple(written),
        happened=lambda metadata: metadata.snapshot_by_id(snapshot.snapshot_id) is not None,
        snapshot_id=snapshot.snapshot_id,
    )


def commit_retried(
    home: TableHome, attempt: Callable[[Metadata], CommitAttempt | None], sleep: Callable[[float], None] = time.sleep
) -> CommitAttempt | None:
    """Retry until an attempt succeeds, which is returned, or there is nothing to do.

    Raises CommitFailedError after repeated conflicts, CommitConflictError for a table that does not exist any more,
    NotSupportedError for a catalog that takes no such commit: nothing was changed then. Raises CommitStateUnknownError
    if it is not known whether the commit was made.
    """
    retries: RetryLoop | None = None
    while True:
        table = home.load()
        made = attempt(table)
        if made is None:
            return None
        backoff = _backoff(table.metadata, sleep)
        if retries is None:
            retries = backoff.start(f"the commit to {table.location()}", _log)
        # Another commit may have changed the settings.
        retries.backoff = backoff
        try:
            sync_files(table, made.written)
        except StorageAccessError:
            delete_files(table, made.written)
            raise
        try:
            home.commit(table, made.requirements, made.updates)
        except (CommitFailedException, WaitingForLockException) as error:
            delete_files(table, made.written)
            if not retries.pause(f"another commit came first: {error}"):
                raise CommitFailedError(
                    f"Other commits to {table.location()} came first {retries.count + 1} times; the same work may be "
                    f"retried: {error}"
                ) from error
            continue
        except NoSuchTableError as error:
            delete_files(table, made.written)
            raise CommitConflictError(f"The table at {table.location()} is gone: {error}") from error
        except NotSupportedError:
            # Refused before anything was written.
            delete_files(table, made.written)
            raise
        except NotImplementedError as error:
            delete_files(table, made.written)
            raise NotSupportedError(
                f"The catalog of {table.location()} does not take this commit: {error}. Open the table by interbed's "
                "catalog over the same metastore, or by a REST catalog."
            ) from error
        except Exception as error:
            # A catalog's client raises whatever its library does.
            if not _happened(home, made):
                raise CommitStateUnknownError(
                    f"It is not known whether the commit to {table.location()} was carried out; nothing was cleaned "
                    f"up: {error}"
                ) from error
        return made


def delete_files(table: Metadata, paths: Iterable[str]) -> None:
    """Delete files of a table that nothing names. Failures are logged."""
    TableFiles.of(table.metadata, table.io.properties).delete_quietly(paths)


def sync_files(table: Metadata, paths: Iterable[str]) -> None:
    """Make files durable before a commit names them. Raises SyncFailedError."""
    files = TableFiles.of(table.metadata, table.io.properties)
    opened = [files.open(path) for path in paths]
    if opened:
        opened[0][0].sync([place for _, place in opened])


def _happened(home: TableHome, made: CommitAttempt) -> bool:
    """Return whether the update was committed; false if the table cannot be loaded."""
    try:
        return made.happened(home.load().metadata)
    except Exception as error:  # noqa: BLE001 - the state stays unknown, whatever the reason
        _log.warning("Can't load %s to find out whether a commit was made: %s", made.table.location(), error)
        return False


def _backoff(metadata: TableMetadata, sleep: Callable[[float], None]) -> ExponentialBackoff:
    """The retries that a table's properties ask for."""
    properties = metadata.properties
    return ExponentialBackoff(
        first_seconds=whole_number(properties, _LEAST_WAIT, 100) / 1000,
        longest_seconds=whole_number(properties, _MOST_WAIT, 60_000) / 1000,
        jitter=(0.5, 1.5),
        retries=whole_number(properties, _RETRIES, 4),
        sleep=sleep,
    )
