"""The positions of a stream: its start (option `scan.mode`), its checkpoints, and the positions of micro-batches.

The id of a snapshot is reused after a rollback or a fast-forward. A checkpoint therefore names the commit of the last
snapshot that the stream has passed, so that a stream that resumes can verify that the table still has it. As text it is
`5@<commit>`. A plain number has the id only, and nothing is verified.

A position of micro-batches is JSON in Paimon's form for Spark:

    {"snapshotId": 5, "index": 2, "scanSnapshot": false, "totalSplits": 7, "commit": "…"}

Units 0 to `index` of the snapshot are read, -1 means none of them. With `scanSnapshot` they are the rows of the
snapshot as a whole, not its changes. `commit` is interbed's own: the commit of the snapshot or, while nothing of it is
read, of the one before it, so that a rollback is noticed. Source: paimon-spark's PaimonSourceOffset.

A position in an eventual log is a view of the table: a snapshot, overlaid by the records written since:

    {"snapshotId": 7, "uuid": "…", "covered": {"0": 120}, "log": {"0": 150}}

The `uuid` distinguishes the snapshot from another one with the same id after a rollback. The snapshot decides about all
records before `covered`. Records from there to `log` were emitted before it was known whether they are committed.

A stream begins either with the rows of one snapshot, followed by the changes after it, or with the changes of a
snapshot. Source: documentation page `maintenance/configurations` and the starting scanners of paimon-core.

Paimon commits an overwrite without a changelog (OverwriteChangesProvider), and streams skip it unless
`streaming-read-overwrite` is set; a warning is logged. Where compactions write the changelog that option is refused
(SchemaValidation), and the compaction after an overwrite emits at most the new rows, as insertions. Rows that were
written while the table had another changelog producer have no changelog, either.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

from interbed.storage.base.errors import InvalidInputError, InvalidOptionError, SnapshotNotFoundError
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.options.stream import SCAN_MODE, SCAN_SNAPSHOT_ID, StartupMode
from interbed.storage.meta.snapshot.manager import ChangelogManager
from interbed.storage.meta.snapshot.snapshot import FIRST_SNAPSHOT_ID, Snapshot
from interbed.storage.scan.starting_point import (
    compacted_snapshot,
    earliest_changes,
    files_since,
    first_since_creation,
    oldest_with_changes,
)


class StreamCheckpoint(int):
    """The id of the next snapshot to read; `passed` is the commit of the snapshot before, None if unknown."""

    passed: str | None

    def __new__(cls, next_snapshot: int, passed: str | None = None) -> "StreamCheckpoint":
        checkpoint = super().__new__(cls, next_snapshot)
        checkpoint.passed = passed
        return checkpoint

    @staticmethod
    def after(snapshot: Snapshot) -> "StreamCheckpoint":
        """Return the checkpoint of a stream that has read the snapshot."""
        return StreamCheckpoint(snapshot.id + 1, commit_of(snapshot))

    @staticmethod
    def of(given: int | str) -> "StreamCheckpoint":
        """Return the checkpoint of a number or of the text of `to_text`; raises InvalidInputError for other texts."""
        if isinstance(given, StreamCheckpoint):
            return given
        if isinstance(given, int):
            return StreamCheckpoint(given)
        number, _, passed = given.partition("@")
        if not (number.isascii() and number.isdigit()):
            raise InvalidInputError(f"Not a checkpoint of a stream: {given!r}. It is a snapshot's id, or '5@<commit>'.")
        return StreamCheckpoint(int(number), passed or None)

    def to_text(self) -> str:
        """Return the checkpoint as text, with the commit, to be stored outside of the process."""
        return str(int(self)) if self.passed is None else f"{int(self)}@{self.passed}"


def commit_of(snapshot: Snapshot) -> str:
    """Return the name of the commit of a snapshot: its uuid, or its delta manifest list if it has no uuid."""
    return snapshot.uuid or snapshot.delta_manifest_list


def is_commit(snapshot: Snapshot, commit: str) -> bool:
    """Return whether the name is that of the snapshot's commit (see commit_of)."""
    return commit in (snapshot.uuid, snapshot.delta_manifest_list)


NOTHING_READ = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamPosition:
    """A position of micro-batches: units up to `index` of a snapshot are read, of `total` (None if unknown).

    `commit` is the commit of the snapshot, at `NOTHING_READ` of the one before it; None if unknown.
    """

    snapshot_id: int
    index: int = NOTHING_READ
    full: bool = False
    total: int | None = None
    commit: str | None = None

    @property
    def is_complete(self) -> bool:
        """Whether the snapshot is read completely."""
        return self.total is not None and self.index == self.total - 1

    @property
    def order(self) -> tuple[int, int]:
        """A key that orders the positions of one stream."""
        return self.snapshot_id, self.index

    def to_json(self) -> str:
        """Return the position as JSON."""
        value: dict[str, object] = {
            "snapshotId": self.snapshot_id,
            "index": self.index,
            "scanSnapshot": self.full,
        }
        if self.total is not None:
            value["totalSplits"] = self.total
        if self.commit is not None:
            value["commit"] = self.commit
        return json.dumps(value, separators=(",", ":"))

    @staticmethod
    def from_json(text: str) -> "StreamPosition":
        """Parse a position from JSON; raises InvalidInputError for any other text."""
        try:
            value = json.loads(text)
            total, commit = value.get("totalSplits"), value.get("commit")
            return StreamPosition(
                snapshot_id=int(value["snapshotId"]),
                index=int(value["index"]),
                full=bool(value["scanSnapshot"]),
                total=None if total is None else int(total),
                commit=None if commit is None else str(commit),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InvalidInputError(f"Not a position in a stream: {text!r}.") from error


Offsets = Mapping[int, int]
"""Offsets by partition of the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogBatchPosition:
    """A position in an eventual log: a view of the table. Snapshot 0 is a table without snapshots."""

    snapshot_id: int
    uuid: str | None = None
    covered: Offsets
    log: Offsets

    def to_json(self) -> str:
        """Return the position as JSON."""
        value = {
            "snapshotId": self.snapshot_id,
            "uuid": self.uuid,
            "covered": _texts(self.covered),
            "log": _texts(self.log),
        }
        return json.dumps(value, separators=(",", ":"))

    @staticmethod
    def from_json(text: str) -> "LogBatchPosition | StreamPosition":
        """Parse a position in a log, or in the rows of a snapshot; raises InvalidInputError for any other text."""
        try:
            value = json.loads(text)
            if "log" not in value:
                return StreamPosition.from_json(text)
            return LogBatchPosition(
                snapshot_id=int(value["snapshotId"]),
                uuid=value["uuid"],
                covered=_numbers(value["covered"]),
                log=_numbers(value["log"]),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InvalidInputError(f"Not a position in a stream of a log: {text!r}.") from error


def _texts(offsets: Offsets) -> dict[str, int]:
    return {str(partition): offset for partition, offset in sorted(offsets.items())}


def _numbers(value: Mapping[str, int]) -> dict[int, int]:
    return {int(partition): int(offset) for partition, offset in value.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamStart:
    """The start of a stream: the rows of the snapshot `full` (None: no rows), then changes from `next_snapshot` on.

    With `files_since` (milliseconds since the epoch) only rows of files that were created since then are read.
    `passed` is the commit that must precede the next snapshot, None for any.
    """

    next_snapshot: int
    full: int | None = None
    files_since: int | None = None
    passed: str | None = None

    @staticmethod
    def with_rows_of(snapshot_id: int) -> "StreamStart":
        """Return the start of a stream that begins with the rows of a snapshot."""
        return StreamStart(next_snapshot=snapshot_id + 1, full=snapshot_id)


def stream_start(store: FileStore, *, was_empty: bool) -> StreamStart | None:
    """Return the start of a stream with the table's options now; None while the table has no snapshot.

    `was_empty` is whether the table had no snapshot at an earlier call for this stream. Raises InvalidOptionError for
    modes of batch reads only, SnapshotNotFoundError.
    """
    mode = store.options.startup_mode
    start = _START.get(mode)
    if start is None:
        raise InvalidOptionError(f"'{SCAN_MODE}' = '{mode}' is for batch reads; a stream can't start there.")
    if store.snapshots.latest_id() is None:
        return None
    return start(store, was_empty)


def start_at(store: FileStore, snapshot_id: int, *, passed: str | None = None) -> StreamStart | None:
    """Return the start of a stream of changes from a snapshot on, or from the oldest one; None without snapshots."""
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
    # Snapshots that were committed while the stream waited for the first one are new to it.
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
