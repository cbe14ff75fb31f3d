"""Where a stream starts (option `scan.mode` and what belongs to it), and warnings of snapshots that it passes over.

A stream begins either with the rows of one snapshot and goes on with the changes after it, or with the changes of some
snapshot. Source: documentation page `maintenance/configurations` and the starting scanners of paimon-core.

Paimon commits an overwrite without a changelog (OverwriteChangesProvider), and streams pass over it unless
`streaming-read-overwrite` is set. Where compactions write the changelog that option is refused (SchemaValidation), and
the compaction after an overwrite has at most the new rows, as insertions. Rows that were written while the table had
another changelog producer have no changelog, either.
"""

import logging
from dataclasses import dataclass, replace
from functools import lru_cache

from interbed.storage.base.errors import InvalidOptionError, SnapshotNotFoundError
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.options.lsm import ChangelogProducer
from interbed.storage.meta.options.stream import SCAN_MODE, SCAN_SNAPSHOT_ID, StartupMode
from interbed.storage.meta.snapshot.manager import ChangelogManager
from interbed.storage.meta.snapshot.snapshot import FIRST_SNAPSHOT_ID, CommitKind, Snapshot
from interbed.storage.scan.starting_point import (
    compacted_snapshot,
    earliest_changes,
    files_since,
    first_since_creation,
    oldest_with_changes,
)
from interbed.storage.views.stream.position import commit_of


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamStart:
    """`full` is the snapshot whose rows come first, None for none; `next_snapshot` the first whose changes follow.

    Of those rows only those of files come that were made since `files_since`, in milliseconds since the epoch. `passed`
    is the commit that has to be before the next snapshot, None for any.
    """

    next_snapshot: int
    full: int | None = None
    files_since: int | None = None
    passed: str | None = None

    @staticmethod
    def with_rows_of(snapshot_id: int) -> "StreamStart":
        """A stream that begins with the rows of a snapshot."""
        return StreamStart(next_snapshot=snapshot_id + 1, full=snapshot_id)


def stream_start(store: FileStore, *, was_empty: bool) -> StreamStart | None:
    """Where a stream with the table's options starts now; None while the table has no snapshot.

    `was_empty` says that the table had no snapshot when the stream was asked before. Raises InvalidOptionError for
    modes that are for batch reads only, SnapshotNotFoundError.
    """
    mode = store.options.startup_mode
    start = _START.get(mode)
    if start is None:
        raise InvalidOptionError(f"'{SCAN_MODE}' = '{mode}' is for batch reads; a stream can't start there.")
    if store.snapshots.latest_id() is None:
        return None
    return start(store, was_empty)


def start_at(store: FileStore, snapshot_id: int, *, passed: str | None = None) -> StreamStart | None:
    """A stream of the changes from that snapshot on, or from the oldest there is; None while there is none."""
    oldest = earliest_changes(store)
    if oldest is None:
        return None
    return StreamStart(next_snapshot=max(snapshot_id, oldest), passed=passed if snapshot_id >= oldest else None)


def _newest_rows(store: FileStore, was_empty: bool) -> StreamStart | None:
    newest = store.snapshots.latest_id()
    return None if newest is None else StreamStart.with_rows_of(newest)


def _compacted_rows(store: FileStore, was_empty: bool) -> StreamStart | None:
    compacted = compacted_snapshot(store)
    return None if compacted is None else StreamStart.with_rows_of(compacted.id)


def _new_changes(store: FileStore, was_empty: bool) -> StreamStart | None:
    newest = store.snapshots.latest()
    if newest is None:
        return None
    # What came while the stream was waiting for the first snapshot is new to it.
    if was_empty:
        return StreamStart(next_snapshot=FIRST_SNAPSHOT_ID)
    return StreamStart(next_snapshot=newest.id + 1, passed=commit_of(newest))


def _changes_from_snapshot(store: FileStore, was_empty: bool) -> StreamStart | None:
    snapshot_id = store.options.scan_snapshot_id
    if snapshot_id is None:
        raise InvalidOptionError(
            f"A stream starts at a snapshot by '{SCAN_SNAPSHOT_ID}' only, not at a tag, a version or a watermark."
        )
    return start_at(store, snapshot_id)


def _rows_of_snapshot(store: FileStore, was_empty: bool) -> StreamStart | None:
    asked, oldest = store.options.scan_snapshot_id, store.snapshots.earliest_id()
    return None if asked is None or oldest is None else StreamStart.with_rows_of(max(asked, oldest))


def _changes_since(store: FileStore, was_empty: bool) -> StreamStart | None:
    millis, oldest = store.options.scan_time_millis, store.snapshots.earliest_id()
    if millis is None or oldest is None:
        return None
    try:
        return StreamStart(next_snapshot=store.snapshots.by_time_millis(millis - 1).id + 1)
    except SnapshotNotFoundError:
        since = [c.id for c in ChangelogManager(store.file_io, store.paths).all() if c.time_millis >= millis]
        return StreamStart(next_snapshot=min([oldest_with_changes(store, oldest), *since]))


def _rows_of_new_files(store: FileStore, was_empty: bool) -> StreamStart | None:
    first, newest = first_since_creation(store), store.snapshots.latest_id()
    if first is not None:
        return StreamStart(next_snapshot=first)
    return None if newest is None else replace(StreamStart.with_rows_of(newest), files_since=files_since(store))


_START = {
    StartupMode.LATEST_FULL: _newest_rows,
    StartupMode.COMPACTED_FULL: _compacted_rows,
    StartupMode.LATEST: _new_changes,
    StartupMode.FROM_SNAPSHOT: _changes_from_snapshot,
    StartupMode.FROM_SNAPSHOT_FULL: _rows_of_snapshot,
    StartupMode.FROM_TIMESTAMP: _changes_since,
    StartupMode.FROM_FILE_CREATION_TIME: _rows_of_new_files,
    StartupMode.FROM_CREATION_TIMESTAMP: _rows_of_new_files,
}


_log = logging.getLogger(__name__)
_REMEMBERED = 1_000


def warn_of_overlooked(location: str, snapshot: Snapshot, producer: ChangelogProducer) -> None:
    """Log, once for each commit, that a stream of a table with a primary key passes over the snapshot's changes."""
    rows_before = snapshot.total_record_count - snapshot.delta_record_count
    if snapshot.commit_kind is CommitKind.OVERWRITE and rows_before > 0:
        said = f"replaced files, and the stream does not tell which rows went: {advice(producer, snapshot.id)}"
        _warn(location, snapshot.id, commit_of(snapshot), said)
    is_new_rows = snapshot.commit_kind is CommitKind.APPEND and snapshot.delta_record_count > 0
    if producer is ChangelogProducer.INPUT and is_new_rows and snapshot.changelog_manifest_list is None:
        said = (
            "was written without a changelog, by another 'changelog-producer' than the table has now, and the stream "
            f"does not tell its changes. {_by_comparison(snapshot.id)}"
        )
        _warn(location, snapshot.id, commit_of(snapshot), said)


def advice(producer: ChangelogProducer, snapshot_id: int) -> str:
    """How to get the changes of an overwrite in a table with a primary key."""
    if producer in (ChangelogProducer.NONE, ChangelogProducer.INPUT):
        return "set 'streaming-read-overwrite'"
    return f"'changelog-producer' = '{producer}' has nothing of them. {_by_comparison(snapshot_id)}"


def _by_comparison(snapshot_id: int) -> str:
    return f"Read table.changes({snapshot_id}, {snapshot_id}, mode='diff'), or start the stream anew"


@lru_cache(maxsize=_REMEMBERED)
def _warn(location: str, snapshot_id: int, commit: str, said: str) -> None:
    """Log the warning; the cache remembers the last commits, so that each is logged once."""
    del commit
    _log.warning("Snapshot %d of %s %s.", snapshot_id, location, said)
