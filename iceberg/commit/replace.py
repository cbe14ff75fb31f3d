"""Committing what a job made of a table's files, by optimistic concurrency.

Each attempt takes the newest metadata, checks that what was replaced is still there, and writes manifests beside the
table; the new metadata are the commit. An attempt that lost leaves nothing behind. Where the state is unknown (an
answer was lost, and the table can't be asked) nothing is deleted.
"""

import logging
import random
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial

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
from interbed.iceberg.commit.replacement import Place, Replacement, files_to_remove
from interbed.iceberg.commit.snapshot import ManifestReader, SnapshotWriter
from interbed.iceberg.meta.live_file import Content
from interbed.iceberg.plan.plan import is_unpartitioned
from interbed.iceberg.read.files import TableFiles
from interbed.storage.base.errors import (
    CommitConflictError,
    CommitFailedError,
    CommitStateUnknownError,
    InvalidOptionError,
    NotSupportedError,
    StorageAccessError,
)

_log = logging.getLogger(__name__)

_RETRIES = "commit.retry.num-retries"
_LEAST_WAIT = "commit.retry.min-wait-ms"
_MOST_WAIT = "commit.retry.max-wait-ms"

Requirements = tuple[TableRequirement, ...]
Updates = tuple[TableUpdate, ...]


def commit_replacement(
    home: TableHome,
    replacement: Replacement,
    properties: Mapping[str, str],
    *,
    sleep: Callable[[float], None] = time.sleep,
) -> int | None:
    """Commit what a job made; the new snapshot, None where the table would be as it was.

    `properties` go into the summary. Raises CommitConflictError when files that were read were changed meanwhile,
    CommitFailedError when other commits came first again and again: what the job wrote is the caller's to delete then.
    CommitStateUnknownError: nothing may be deleted.
    """
    reader: ManifestReader | None = None

    def attempt(table: Metadata) -> "_Attempt | None":
        nonlocal reader
        if reader is None:
            reader = ManifestReader(table.io)
        return _attempt(table, replacement, reader, properties)

    return _retried(home, attempt, sleep)


class _Attempt:
    """A snapshot that is written, and not committed yet."""

    def __init__(self, table: Metadata, snapshot: Snapshot, written: Iterable[str]) -> None:
        self.table = table
        self.snapshot = snapshot
        self.written = tuple(written)

    @property
    def requirements(self) -> Requirements:
        metadata = self.table.metadata
        main = {"ref": MAIN_BRANCH, "snapshot-id": metadata.current_snapshot_id}
        return AssertTableUUID(uuid=metadata.table_uuid), AssertRefSnapshotId.model_validate(main)

    @property
    def updates(self) -> Updates:
        main: dict[str, object] = {
            "ref-name": MAIN_BRANCH,
            "type": SnapshotRefType.BRANCH,
            "snapshot-id": self.snapshot.snapshot_id,
        }
        before = self.table.metadata.refs.get(MAIN_BRANCH)
        if before is not None:
            # How long snapshots are kept is said of the branch.
            main |= {
                "max-ref-age-ms": before.max_ref_age_ms,
                "max-snapshot-age-ms": before.max_snapshot_age_ms,
                "min-snapshots-to-keep": before.min_snapshots_to_keep,
            }
        return AddSnapshotUpdate(snapshot=self.snapshot), SetSnapshotRefUpdate.model_validate(main)

    def discard(self) -> None:
        """Delete what it wrote."""
        delete_files(self.table, self.written)


def _retried(
    home: TableHome, attempt: Callable[[Metadata], _Attempt | None], sleep: Callable[[float], None]
) -> int | None:
    tries = 0
    while True:
        table = home.load()
        made = attempt(table)
        if made is None:
            return None
        retries, least, most = _retry_settings(table.metadata)
        try:
            sync_files(table, made.written)
        except StorageAccessError:
            made.discard()
            raise
        try:
            home.commit(table, made.requirements, made.updates)
        except (CommitFailedException, WaitingForLockException) as error:
            made.discard()
            tries += 1
            if tries > retries:
                raise CommitFailedError(
                    f"Other commits to {table.location()} came first {tries} times; the same work may be retried: "
                    f"{error}"
                ) from error
            _log.info("Another commit to %s came first; trying again: %s", table.location(), error)
            sleep(min(least * 2 ** (tries - 1), most) / 1000 * random.uniform(0.5, 1.5))
            continue
        except NoSuchTableError as error:
            made.discard()
            raise CommitConflictError(f"The table at {table.location()} is gone: {error}") from error
        except NotSupportedError:
            # Refused before anything was written.
            made.discard()
            raise
        except NotImplementedError as error:
            made.discard()
            raise NotSupportedError(
                f"The catalog of {table.location()} does not take this commit: {error}. Open the table by interbed's "
                "catalog over the same metastore, or by a REST catalog."
            ) from error
        except Exception as error:
            # A catalog's client raises whatever its library does.
            if not _was_committed(home, made):
                raise CommitStateUnknownError(
                    f"It is not known whether snapshot {made.snapshot.snapshot_id} of {table.location()} was "
                    f"committed; nothing was cleaned up: {error}"
                ) from error
        return made.snapshot.snapshot_id


def _attempt(
    table: Metadata, replacement: Replacement, reader: ManifestReader, properties: Mapping[str, str]
) -> _Attempt | None:
    metadata = table.metadata
    parent = metadata.current_snapshot()
    if parent is None or not _descends(metadata, parent, replacement.snapshot_id):
        raise CommitConflictError(
            f"Snapshot {replacement.snapshot_id} of {table.location()}, which was optimized, is not among those before "
            "the newest one any more; plan it again."
        )
    manifests = reader.of(parent)
    live = [each.file for _, entries in manifests for each in entries]
    removed: frozenset[Place] = files_to_remove(
        replacement,
        [file for file in live if file.content is Content.DATA],
        [file for file in live if file.content is not Content.DATA],
        partial(is_unpartitioned, metadata.specs()),
        metadata.next_sequence_number(),
    )
    if not removed and not replacement.added:
        return None
    writer = SnapshotWriter(table)
    try:
        snapshot = writer.write(parent, manifests, removed, replacement.added, properties)
    except OSError as error:
        delete_files(table, writer.written)
        raise StorageAccessError(f"Can't write metadata of {table.location()}: {error}") from error
    except BaseException:
        delete_files(table, writer.written)
        raise
    return _Attempt(table, snapshot, writer.written)


def delete_files(table: Metadata, paths: Iterable[str]) -> None:
    """Delete files of a table that nothing names; failures are logged."""
    files = TableFiles.of(table.metadata, table.io.properties)
    for path in paths:
        file_io, place = files.open(path)
        file_io.delete_quietly([place])


def sync_files(table: Metadata, paths: Iterable[str]) -> None:
    """Make files durable before something names them; raises SyncFailedError."""
    files = TableFiles.of(table.metadata, table.io.properties)
    opened = [files.open(path) for path in paths]
    if opened:
        opened[0][0].sync([place for _, place in opened])


def _descends(metadata: TableMetadata, snapshot: Snapshot, ancestor: int) -> bool:
    """Whether a snapshot came from another one, as far as is known."""
    found: Snapshot | None = snapshot
    while found is not None:
        if found.snapshot_id == ancestor:
            return True
        parent = found.parent_snapshot_id
        found = None if parent is None else metadata.snapshot_by_id(parent)
    return False


def _was_committed(home: TableHome, made: _Attempt) -> bool:
    """Whether the table has the snapshot; not where it can't be asked."""
    try:
        return home.load().metadata.snapshot_by_id(made.snapshot.snapshot_id) is not None
    except Exception as error:  # noqa: BLE001 - the state stays unknown, whatever the reason
        _log.warning("Can't ask %s for its snapshots: %s", made.table.location(), error)
        return False


def _retry_settings(metadata: TableMetadata) -> tuple[int, float, float]:
    def number(name: str, default: int) -> int:
        try:
            return int(metadata.properties.get(name, default))
        except ValueError as error:
            raise InvalidOptionError(f"The table property '{name}' is no number: {error}") from error

    return number(_RETRIES, 4), number(_LEAST_WAIT, 100), number(_MOST_WAIT, 60_000)
