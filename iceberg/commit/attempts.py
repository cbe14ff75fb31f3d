"""Committing by optimistic concurrency: each attempt takes the newest metadata and writes beside the table what its
update names; the update is the commit.

An attempt that lost leaves nothing behind. Where the state is unknown (an answer was lost, and the table can't be
asked) nothing is deleted.
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
class Attempt:
    """An update of a table as it was loaded, and the files that it names and that were written for it.

    `happened` tells by the metadata that are there later whether it was carried out; `snapshot_id` is of the snapshot
    that it makes, if it does.
    """

    table: Metadata
    updates: tuple[TableUpdate, ...]
    written: tuple[str, ...]
    happened: Callable[[TableMetadata], bool]
    snapshot_id: int | None = None

    @property
    def requirements(self) -> tuple[TableRequirement, ...]:
        """What has to be true for the update: the branches and tags are as they were."""
        metadata = self.table.metadata
        refs = {MAIN_BRANCH: metadata.current_snapshot_id}
        refs.update((name, ref.snapshot_id) for name, ref in metadata.refs.items())
        return (
            AssertTableUUID(uuid=metadata.table_uuid),
            *(AssertRefSnapshotId.model_validate({"ref": name, "snapshot-id": at}) for name, at in refs.items()),
        )


def snapshot_attempt(table: Metadata, snapshot: Snapshot, written: Iterable[str]) -> Attempt:
    """The attempt to make a snapshot the newest one of the main branch."""
    main: dict[str, object] = {
        "ref-name": MAIN_BRANCH,
        "type": SnapshotRefType.BRANCH,
        "snapshot-id": snapshot.snapshot_id,
    }
    before = table.metadata.refs.get(MAIN_BRANCH)
    if before is not None:
        # How long snapshots are kept is said of the branch.
        main |= {
            "max-ref-age-ms": before.max_ref_age_ms,
            "max-snapshot-age-ms": before.max_snapshot_age_ms,
            "min-snapshots-to-keep": before.min_snapshots_to_keep,
        }
    return Attempt(
        table=table,
        updates=(AddSnapshotUpdate(snapshot=snapshot), SetSnapshotRefUpdate.model_validate(main)),
        written=tuple(written),
        happened=lambda metadata: metadata.snapshot_by_id(snapshot.snapshot_id) is not None,
        snapshot_id=snapshot.snapshot_id,
    )


def commit_retried(
    home: TableHome, attempt: Callable[[Metadata], Attempt | None], sleep: Callable[[float], None] = time.sleep
) -> Attempt | None:
    """Try until an attempt succeeds, which is returned, or there is nothing to do.

    Raises CommitFailedError when other commits came first again and again, CommitConflictError for a table that is
    gone, NotSupportedError for a catalog that takes no such commit: nothing was changed then. CommitStateUnknownError
    when it is not known whether it was.
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
    """Delete files of a table that nothing names; failures are logged."""
    TableFiles.of(table.metadata, table.io.properties).delete_quietly(paths)


def sync_files(table: Metadata, paths: Iterable[str]) -> None:
    """Make files durable before something names them; raises SyncFailedError."""
    files = TableFiles.of(table.metadata, table.io.properties)
    opened = [files.open(path) for path in paths]
    if opened:
        opened[0][0].sync([place for _, place in opened])


def _happened(home: TableHome, made: Attempt) -> bool:
    """Whether the update was carried out; not where the table can't be asked."""
    try:
        return made.happened(home.load().metadata)
    except Exception as error:  # noqa: BLE001 - the state stays unknown, whatever the reason
        _log.warning("Can't ask %s what became of a commit: %s", made.table.location(), error)
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
