"""A stream of a table's changes from an eventual log: rows as they are written, corrected at each snapshot.

A record of such a log is the new value of a key, if its writer commits. The stream remembers the values of each key
that it has emitted since the last snapshot it has processed, the base, and derives changes from them: the row before is
the emitted value or the row of the base. At each new snapshot the file store decides: the stream looks up the keys of
records before the snapshot (its `logOffsets`) and the keys that the snapshots since the base have changed, and emits
the differences as changes. So rows of a writer that never commits are corrected, and the changes of a writer that does
not write to the log, such as Java Paimon, are emitted as well.
"""

import logging
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from interbed.storage.base.errors import LogUnavailableError
from interbed.storage.base.row.kind import RowKind
from interbed.storage.log.api import LogRecords
from interbed.storage.log.kafka import LogSettings, error_of_another_table, identity_of
from interbed.storage.log.kafka_eventual import KafkaWrittenReader
from interbed.storage.log.written import TouchedKeys, WrittenReader, WrittenRow
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.snapshot.snapshot import FIRST_SNAPSHOT_ID, Snapshot
from interbed.storage.read.columns import ReadColumns
from interbed.storage.scan.split import Plan
from interbed.storage.views.stream.eventual_rows import (
    KEYS_AT_ONCE,
    EventualRows,
    Values,
    as_records,
    check_eventual_stream,
    covered_by,
    differences,
    key_only_value,
)
from interbed.storage.views.stream.log_stream import LogRead, LogRowDecoder
from interbed.storage.views.stream.position import StreamCheckpoint
from interbed.storage.views.stream.stream_scan import StreamedChanges, TableStream

_log = logging.getLogger(__name__)

CATCH_UP_SECONDS = 10.0
"""The time to wait for a silent log before a snapshot is processed."""

_SHORTEST_WAIT = 0.05
_LONGEST_WAIT = 0.25


@dataclass(frozen=True, kw_only=True)
class EventualLogStream(TableStream):
    """The result of `Table.stream(log=True)` for a table with an eventual log.

    It polls snapshots every `poll_seconds`. Of several records of a key in one poll only the last one is emitted. With
    `log.scan.remove-normalize` the records of the log are emitted unchanged, and no snapshot is processed after the
    first. `store` is the table as streams read it, `columns` are the columns of the result, `connect` opens the reader
    of the log.
    """

    store: FileStore
    columns: ReadColumns
    connect: Callable[[LogSettings], WrittenReader] = KafkaWrittenReader

    def __post_init__(self) -> None:
        check_eventual_stream(self.store)

    def __iter__(self) -> Generator[StreamedChanges]:
        reading = _EventualReading(self)
        try:
            yield from reading.beginning()
            last_change = self.now()
            while True:
                for changes in reading.correct():
                    yield changes
                    last_change = self.now()
                until = self.now() + self.poll_seconds
                if self.idle_seconds is not None:
                    until = min(until, max(last_change + self.idle_seconds, self.now() + _SHORTEST_WAIT))
                for changes in reading.written(until):
                    yield changes
                    last_change = self.now()
                is_idle = self.idle_seconds is not None and self.now() >= last_change + self.idle_seconds
                if is_idle and reading.is_at_end and not reading.is_behind():
                    return
        finally:
            reading.close()


class _EventualReading:
    """The state of a stream: its position in the log, its base, and the emitted values since."""

    def __init__(self, stream: EventualLogStream) -> None:
        self._stream = stream
        self._store = stream.store
        self._settings = LogSettings.of(stream.store.options)
        self._rows = EventualRows(self._store)
        self._decoder = LogRowDecoder(self._store.schema, stream.columns, stream.read.schema, self._settings.place)
        self._is_raw = stream.store.options.reads_raw_log
        self._touched = TouchedKeys()
        self._base: Snapshot | None = None
        self._covered: dict[int, int] = {}
        self._next: dict[int, int] = {}
        self._reader: WrittenReader | None = None
        self._is_open = False
        self._has_failed = False
        self._is_resumed = stream.scan.checkpoint() is not None
        self._resumed_ends: Mapping[int, int] | None = None
        """The ends of the log when the stream began. An earlier stream may have emitted records before them."""

    @cached_property
    def _table(self) -> int:
        return identity_of(self._store)

    @property
    def is_at_end(self) -> bool:
        """Whether the log was read to its end, or is unreachable."""
        return self._reader is None or not self._is_open or self._reader.is_at_end

    def is_behind(self) -> bool:
        """Return whether there is an unprocessed snapshot."""
        return not self._is_raw and (self._store.snapshots.latest_id() or 0) > self._base_id

    @property
    def _base_id(self) -> int:
        return 0 if self._base is None else self._base.id

    @property
    def _checkpoint(self) -> StreamCheckpoint:
        return StreamCheckpoint(FIRST_SNAPSHOT_ID) if self._base is None else StreamCheckpoint.after(self._base)

    def beginning(self) -> Iterator[StreamedChanges]:
        """Yield the rows of the snapshot with which the stream begins, if it begins with rows, and set the base."""
        scan = self._stream.scan
        upcoming, rows_of = scan.checkpoint(), None
        if upcoming is None and (start := scan.starting_point()) is not None:
            upcoming, rows_of = StreamCheckpoint(start.next_snapshot, start.passed), start.full
        if upcoming is not None and upcoming > FIRST_SNAPSHOT_ID:
            newest = None if upcoming.passed is None else self._store.snapshots.latest()
            base = self._rows.snapshot(upcoming - 1)
            if newest is not None:
                base = self._rows.reached_snapshot(upcoming - 1, upcoming.passed, newest) or base
            self._set_base(base)
        if rows_of is not None:
            scan.restore(rows_of, full=True)
            plan = scan.plan()
            if plan is not None:
                yield from self._stream.parts(plan)

    def correct(self) -> Iterator[StreamedChanges]:
        """Yield the differences of the newest snapshot to the emitted values, and make it the base."""
        if self._is_raw:
            return
        newest = self._store.snapshots.latest()
        self._rows.check_in_history(self._base, newest)
        if newest is None or newest.id == self._base_id:
            return
        covered = covered_by(newest, self._covered)
        yield from self._up_to(covered)
        for keys in self._rows.keys_in(self._rows.splits_changed(self._base, newest)):
            self._touched.judge(keys)
        self._touched.judge_before(covered)
        held: StreamedChanges | None = None
        for keys, emitted in self._touched.judged(KEYS_AT_ONCE):
            before = {**self._rows.at(self._base, [k for k in keys if k not in emitted]), **emitted}
            found = self._changes(keys, before, self._rows.at(newest, keys), newest.id)
            if found is not None:
                if held is not None:
                    yield held
                held = found
        self._touched.settle()
        self._base, self._covered = newest, covered
        if self._resumed_ends is not None and all(covered.get(p, 0) >= end for p, end in self._resumed_ends.items()):
            self._is_resumed = False
        if held is not None:
            # All changes up to this snapshot are emitted now.
            yield StreamedChanges(plan=held.plan, checkpoint=self._checkpoint, read=held.read)

    def _up_to(self, offsets: Mapping[int, int]) -> Iterator[StreamedChanges]:
        """Yield the changes of the log before the offsets.

        A stream that resumes from a checkpoint may have emitted them before, so that they must be emitted again to be
        corrected. Missing records are skipped.
        """
        stream = self._stream
        give_up = stream.now() + CATCH_UP_SECONDS
        while any(self._next.get(p, 0) < offset for p, offset in offsets.items()):
            before = dict(self._next)
            yield from self.written(stream.now() + _SHORTEST_WAIT)
            if self._next != before:
                give_up = stream.now() + CATCH_UP_SECONDS
            elif self.is_at_end or stream.now() >= give_up:
                return

    def written(self, until: float) -> Iterator[StreamedChanges]:
        """Yield the changes of the log until a time."""
        stream = self._stream
        try:
            if not self._opened():
                # The topic is created by the first write.
                stream.wait(max(0.0, min(_LONGEST_WAIT, until - stream.now())))
                return
            while True:
                assert self._reader is not None
                rows = self._reader.poll(max(0.0, until - stream.now()))
                changes = self._emitted(rows)
                if changes is not None:
                    yield changes
                if stream.now() >= until:
                    return
        except LogUnavailableError as error:
            if not self._has_failed:
                _log.warning("Changes of %s come from its snapshots: %s", self._store.location, error)
            self._has_failed = True
            self._close_reader()
            stream.wait(max(0.0, until - stream.now()))

    def close(self) -> None:
        """Close the connections, and drop the emitted values."""
        self._close_reader()
        self._touched.close()

    # -- the log ----------------------------------------------------------------------------------------------------

    def _opened(self) -> bool:
        if not self._is_open:
            if self._reader is None:
                self._reader = self._stream.connect(self._settings)
            wanted = {**self._covered, **self._next}
            found = self._reader.open(wanted)
            self._is_open = found is not None
            self._has_failed = self._has_failed and not self._is_open
            begins, ends = found or ({}, {})
            self._next |= begins
            if self._resumed_ends is None:
                self._resumed_ends = ends
            if self._is_raw and any(offset > wanted.get(p, offset) for p, offset in begins.items()):
                _log.warning("Records of the %s were deleted before they were read.", self._settings.place)
        return self._is_open

    def _close_reader(self) -> None:
        if self._reader is not None:
            self._reader.close()
        self._reader = None
        self._is_open = False

    def _emitted(self, rows: Sequence[WrittenRow]) -> StreamedChanges | None:
        """Return the changes of records; None without changes."""
        newest: dict[bytes, WrittenRow] = {}
        for row in rows:
            self._next[row.partition] = row.offset + 1
            # The base decides about records before its offsets.
            if row.offset >= self._covered.get(row.partition, 0) or self._is_raw:
                newest[row.key] = row
        if any(row.by.table != self._table for row in newest.values()):
            raise error_of_another_table(self._settings, self._store)
        if self._is_raw:
            return self._as_written([row for row in rows if row.key in newest])
        if not newest:
            return None
        current = self._rows.with_current_columns(list(newest.values()))
        keys = [row.key for row in current]
        emitted = self._touched.find(keys)
        before = {**self._rows.at(self._base, [key for key in keys if key not in emitted]), **emitted}
        changes = self._changes(keys, before, {row.key: row.value for row in current}, self._base_id)
        self._touched.put(current)
        return changes

    def _as_written(self, rows: Sequence[WrittenRow]) -> StreamedChanges | None:
        """Return the records as changes: each is a new row, or the deletion of a row with its key only."""
        if not rows:
            return None
        rows = self._rows.with_current_columns(rows)
        values = [key_only_value(row.key) if row.value is None else row.value for row in rows]
        kinds = [RowKind.DELETE if row.value is None else RowKind.UPDATE_AFTER for row in rows]
        return self._as_changes(as_records(values, kinds), self._base_id)

    def _set_base(self, snapshot: Snapshot) -> None:
        self._base = snapshot
        self._covered = covered_by(snapshot, self._covered)

    def _changes(
        self, keys: Sequence[bytes], before: Values, after: Values, snapshot_id: int
    ) -> StreamedChanges | None:
        """Return the changes of keys from one value to another; None without changes.

        A resumed stream emits unchanged keys, too, because the earlier stream may have emitted other values.
        """
        records = differences(keys, before, after, emit_unchanged=self._is_resumed)
        return None if records is None else self._as_changes(records, snapshot_id)

    def _as_changes(self, records: LogRecords, snapshot_id: int) -> StreamedChanges:
        plan = Plan(snapshot_id=snapshot_id or None, splits=(), schema_id=self._store.schema.id)
        return StreamedChanges(plan=plan, checkpoint=self._checkpoint, read=LogRead([records], self._decoder))
