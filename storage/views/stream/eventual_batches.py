"""A stream from an eventual log as micro-batches, which can be planned and read again with the same outcome.

A batch is the difference of the table's views at two positions (`LogBatchPosition`), bucket by bucket. It looks at the
keys that were emitted before or are in the log now, and at those that the snapshots between the positions may have
changed. So no state is kept between batches. A batch reads one `LogStep` of each bucket: the planner makes it, and a
task carries it out (`LogStepRead`).

The rows of the snapshot with which a stream begins are read from its files, by positions of `micro_batches`.
"""

import json
import logging
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from interbed.storage.base.arrow_values import from_numpy, to_numpy
from interbed.storage.base.errors import InvalidInputError, LogUnavailableError, NotSupportedError
from interbed.storage.log.kafka import LogSettings, error_of_another_table, identity_of
from interbed.storage.log.kafka_eventual import KafkaWrittenRanges, bounds_of
from interbed.storage.log.written import TouchedKeys, WrittenRange, WrittenRanges
from interbed.storage.lsm.merge_function.api import is_retract
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.options.log import LogConsistency
from interbed.storage.meta.snapshot.snapshot import FIRST_SNAPSHOT_ID, Snapshot
from interbed.storage.read.change_read import ROW_KIND, ChangeRead
from interbed.storage.read.columns import ReadColumns
from interbed.storage.scan.split import Split
from interbed.storage.views.stream.eventual_rows import (
    KEYS_AT_ONCE,
    EventualRows,
    check_emitted,
    check_eventual_stream,
    covered_by,
    differences,
)
from interbed.storage.views.stream.log_stream import LogRowDecoder, check_log_stream
from interbed.storage.views.stream.micro_batches import BatchLimits, MicroBatches, check_columns
from interbed.storage.views.stream.position import NOTHING_READ, LogBatchPosition, Offsets, StreamPosition
from interbed.storage.views.stream.stream_scan import streamed

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogStep:
    """The part of a batch in one bucket, which is a partition of the log.

    `emitted` are the offsets of the records on top of the snapshot `before`, `written` those on top of the snapshot
    `after`; `splits` have the keys that the snapshots between them may have changed.
    """

    bucket: int
    before: int
    emitted: tuple[int, int]
    after: int
    written: tuple[int, int]
    splits: Sequence[Split]

    @property
    def record_count(self) -> int:
        """The maximum number of records to read."""
        return sum(end - begin for begin, end in (self.emitted, self.written))

    def to_bytes(self) -> bytes:
        """Serialize the step for the task that reads it."""
        value = {
            "bucket": self.bucket,
            "before": self.before,
            "told": self.emitted,
            "after": self.after,
            "written": self.written,
            "splits": [b64encode(split.to_bytes()).decode() for split in self.splits],
        }
        return json.dumps(value).encode()

    @staticmethod
    def from_bytes(content: bytes) -> "LogStep":
        """Deserialize a step; raises InvalidInputError for other bytes."""
        try:
            value = json.loads(content)
            return LogStep(
                bucket=value["bucket"],
                before=value["before"],
                emitted=(value["told"][0], value["told"][1]),
                after=value["after"],
                written=(value["written"][0], value["written"][1]),
                splits=tuple(Split.from_bytes(b64decode(split)) for split in value["splits"]),
            )
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise InvalidInputError(f"Not a step of a stream of a log: {error}") from error


class EventualBatches:
    """Plans the batches of a stream of a table with an eventual log, without state. Raises what MicroBatches raises.

    `bounds` returns the first and last offsets of a log.
    """

    def __init__(self, store: FileStore, *, bounds: Callable[[LogSettings], WrittenRange | None] = bounds_of) -> None:
        """Raise NotSupportedError for a table without such a log, and for options that it does not support."""
        check_eventual_stream(store)
        if store.options.reads_raw_log:
            raise NotSupportedError(
                "Micro-batches of an eventual log are corrected at snapshots; 'log.scan.remove-normalize' is for "
                "Table.stream(log=True)."
            )
        store = streamed(store)
        self._store = store
        self._rows = EventualRows(store)
        self._files = MicroBatches(store)
        self._settings = LogSettings.of(store.options)
        self._bounds = bounds

    def start(self) -> str:
        """Return the position where the stream begins now, by `scan.mode` and related options."""
        start = self._files.start()
        if start.full:
            return start.to_json()
        before = None
        if self.newest() is not None and start.snapshot_id > FIRST_SNAPSHOT_ID:
            before = self._rows.snapshot(start.snapshot_id - 1)
        return self._after(before).to_json()

    def newest(self) -> int | None:
        """Return the newest snapshot now, for a stream that ends there."""
        return self._files.newest()

    def advance(self, after: str, limits: BatchLimits | None = None, *, last_snapshot: int | None = None) -> str | None:
        """Return the end of the batch after a position; None if there is nothing, or not enough, to read.

        `limits` apply to the rows of the first snapshot; of the log `rows` and `min_rows` count records. With
        `last_snapshot` the batch ends at that snapshot, and later records are not read.
        """
        limits = limits or BatchLimits()
        position = LogBatchPosition.from_json(after)
        if isinstance(position, StreamPosition) and not position.is_complete:
            end = self._files.advance(position, limits, last_snapshot=position.snapshot_id)
            if end is not None:
                return end.to_json()
        # Read once, so that the base is compared with the snapshot at which the batch ends.
        latest = self._store.snapshots.latest()
        if isinstance(position, StreamPosition):
            base = self._rows.reached_snapshot(position.snapshot_id, _commit_of(position), latest)
            position = self._after(base)
        else:
            base = self._rows.reached_snapshot(position.snapshot_id, position.uuid, latest)
        newest = latest
        if last_snapshot is not None and (latest is None or last_snapshot != latest.id):
            newest = self._rows.snapshot(last_snapshot)
        if last_snapshot is not None and base is not None and base.id >= last_snapshot:
            return None
        if newest is not None:
            check_columns(self._store, newest.id, newest.schema_id)
        covered = position.covered if newest is None else covered_by(newest, position.covered)
        reached = {p: max(covered.get(p, 0), position.log.get(p, 0)) for p in covered.keys() | position.log.keys()}
        if last_snapshot is None:
            reached = _limited(reached, self._ends(position), limits.rows)
        new = sum(offset - position.log.get(p, 0) for p, offset in reached.items())
        if limits.min_rows is not None and new < limits.min_rows:
            return None
        end_position = _view(newest, covered, reached)
        return None if end_position == position else end_position.to_json()

    def splits(self, after: str, end: str) -> Sequence[Split] | None:
        """Return the splits of a batch of the snapshot with which the stream begins; None for a batch of the log."""
        first, last = LogBatchPosition.from_json(after), LogBatchPosition.from_json(end)
        if isinstance(first, StreamPosition) and isinstance(last, StreamPosition):
            return self._files.splits(first, last)
        return None

    def steps(self, after: str, end: str) -> list[LogStep]:
        """Return the steps of a batch between two positions; raises SnapshotNotFoundError for a missing snapshot."""
        first, last = LogBatchPosition.from_json(after), LogBatchPosition.from_json(end)
        if isinstance(last, StreamPosition):
            raise InvalidInputError(f"A stream of a log does not go from {after} to {end}.")
        latest = self._store.snapshots.latest()
        if isinstance(first, StreamPosition):
            first = self._after(self._rows.reached_snapshot(first.snapshot_id, _commit_of(first), latest))
        base, newest = (self._rows.reached_snapshot(p.snapshot_id, p.uuid, latest) for p in (first, last))
        is_corrected = first.snapshot_id != last.snapshot_id
        by_bucket: dict[int, list[Split]] = {}
        if newest is not None and is_corrected:
            for split in self._rows.splits_changed(base, newest):
                by_bucket.setdefault(split.bucket, []).append(split)
        found = []
        for bucket in sorted({*last.log, *first.log, *by_bucket}):
            emitted = first.covered.get(bucket, 0), first.log.get(bucket, 0)
            begin = last.covered.get(bucket, 0) if is_corrected else emitted[1]
            step = LogStep(
                bucket=bucket,
                before=first.snapshot_id,
                emitted=(emitted[0], max(emitted)),
                after=last.snapshot_id,
                written=(begin, max(begin, last.log.get(bucket, 0))),
                splits=tuple(by_bucket.get(bucket, ())),
            )
            # Emitted records stay valid if no new snapshot decides about them and nothing was written since.
            if step.written[0] < step.written[1] or (is_corrected and step.record_count) or step.splits:
                found.append(step)
        return found

    def _after(self, snapshot: Snapshot | None) -> LogBatchPosition:
        """Return the view right after a snapshot."""
        covered = {} if snapshot is None else covered_by(snapshot, {})
        return _view(snapshot, covered, covered)

    def _ends(self, position: LogBatchPosition) -> Offsets:
        """Return the ends of the log now; empty if it is unreachable, so that only the files are read."""
        try:
            bounds = self._bounds(self._settings)
        except LogUnavailableError as error:
            _log.warning("Changes of %s come from its snapshots: %s", self._store.location, error)
            return {}
        if bounds is None:
            return {}
        for partition in bounds.begins:
            emitted = position.covered.get(partition, 0), position.log.get(partition, 0)
            check_emitted(emitted, bounds, partition, self._settings)
        return bounds.ends


def has_eventual_log(store: FileStore) -> bool:
    """Return whether the table's log has rows before they are committed; raises NotSupportedError without a log."""
    check_log_stream(store)
    return store.log_consistency is LogConsistency.EVENTUAL


def _commit_of(position: StreamPosition) -> str | None:
    """Return the commit of the position's snapshot; None if nothing of it was read."""
    return None if position.index == NOTHING_READ else position.commit


def _view(snapshot: Snapshot | None, covered: Offsets, log: Offsets) -> LogBatchPosition:
    if snapshot is None:
        return LogBatchPosition(snapshot_id=0, covered=covered, log=log)
    return LogBatchPosition(snapshot_id=snapshot.id, uuid=snapshot.uuid, covered=covered, log=log)


def _limited(reached: Offsets, ends: Offsets, most: int | None) -> dict[int, int]:
    """Return the offsets to read the log to: its ends, or at most this many records after the reached offsets."""
    found = dict(reached)
    left = most
    for partition, end in sorted(ends.items()):
        begin = found.get(partition, 0)
        more = max(0, end - begin)
        if left is not None:
            more = min(more, left)
            left -= more
        if more:
            found[partition] = begin + more
    return found


class LogStepRead:
    """Reads steps as changes: the requested columns, and ROW_KIND. Raises InvalidInputError for an unknown column."""

    def __init__(
        self,
        store: FileStore,
        columns: Sequence[str] | None = None,
        *,
        connect: Callable[[LogSettings], WrittenRanges] = KafkaWrittenRanges,
    ) -> None:
        store = streamed(store)
        self._store = store
        self._rows = EventualRows(store)
        self._settings = LogSettings.of(store.options)
        read = ReadColumns.of(store.schema, columns, None)
        self._names = read.names
        self._decoder = LogRowDecoder(store.schema, read, ChangeRead(store, columns).schema, self._settings.place)
        self._connect = connect

    def to_batches(self, step: LogStep) -> Iterator[pa.RecordBatch]:
        """Yield the changes of a step. Raises SnapshotNotFoundError, LogUnavailableError and InvalidOptionError."""
        before, after = (self._rows.snapshot(i) if i else None for i in (step.before, step.after))
        emitted, written = TouchedKeys(), TouchedKeys()
        log = self._connect(self._settings)
        try:
            self._gather(log, step, emitted, written)
            if step.before != step.after:
                # Emitted values that the newer snapshot does not have, or has otherwise, are corrected.
                for keys in self._rows.keys_in(step.splits):
                    written.judge(keys)
                written.judge(emitted.keys())
            written.judge_all()
            for keys, newest in written.judged(KEYS_AT_ONCE):
                known = emitted.find(keys)
                old = {**self._rows.at(before, [key for key in keys if key not in known]), **known}
                new = {**self._rows.at(after, [key for key in keys if key not in newest]), **newest}
                records = differences(keys, old, new)
                if records is not None:
                    yield from self._decoder.batches(records)
        finally:
            log.close()
            emitted.close()
            written.close()

    def added(self, step: LogStep) -> Iterator[pa.RecordBatch]:
        """Yield the rows that the changes of a step add, as ChangeRead.added does for a split."""
        for batch in self.to_batches(step):
            kept = from_numpy(~is_retract(to_numpy(batch.column(ROW_KIND))))
            yield batch.filter(kept).select(list(self._names))

    def _gather(self, log: WrittenRanges, step: LogStep, emitted: TouchedKeys, written: TouchedKeys) -> None:
        """Collect the last record of each key in both ranges."""
        if not step.record_count:
            return
        bounds = log.bounds() or WrittenRange({}, {})
        check_emitted(step.emitted, bounds, step.bucket, self._settings)
        low = bounds.begins.get(step.bucket, 0)
        high = bounds.ends.get(step.bucket, 0)
        for (begin, end), keys in ((step.emitted, emitted), (step.written, written)):
            if begin < low and end > begin:
                # Committed records are in the files, and a later snapshot corrects the others.
                _log.warning("Records of the %s were deleted before they were read.", self._settings.place)
            for rows in log.between(step.bucket, max(begin, low), min(end, high)):
                if any(row.by.table != self._table for row in rows):
                    raise error_of_another_table(self._settings, self._store)
                newest = {row.key: row for row in rows}
                keys.put(self._rows.with_current_columns(list(newest.values())))

    @cached_property
    def _table(self) -> int:
        return identity_of(self._store)
