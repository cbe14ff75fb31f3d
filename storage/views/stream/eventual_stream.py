"""A stream of a table's changes from an eventual log: rows as they are written, put right at each snapshot.

A record of such a log says what became of a key, if its writer commits. The stream keeps of each key what it has handed
out since the last snapshot that it looked at, its base, and makes changes of it: the row before comes from there, or
from the base. At each new snapshot the file store is the truth: the keys of records from before the snapshot (its
`logOffsets`) and the keys that the snapshots since the base have changed are looked up, and differences are handed out
as changes. So a writer that never commits is corrected, and one that knows of no log, as Java Paimon, is told as well.
"""

import logging
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from interbed.storage.base.errors import (
    InterbedError,
    LogUnavailableError,
    NotSupportedError,
    SnapshotNotFoundError,
)
from interbed.storage.base.row.kind import RowKind
from interbed.storage.log.identity import error_of_another_table, identity_of
from interbed.storage.log.kafka_written import KafkaWrittenReader
from interbed.storage.log.records import LogRecords, RecordCodec
from interbed.storage.log.settings import LogSettings
from interbed.storage.log.touched_keys import TouchedKeys
from interbed.storage.log.written import WrittenReader, WrittenRow
from interbed.storage.meta.options.stream import IncrementalScanMode
from interbed.storage.meta.schema.evolution import map_fields
from interbed.storage.meta.snapshot.log_position import LogPosition
from interbed.storage.meta.snapshot.snapshot import FIRST_SNAPSHOT_ID, CommitKind, Snapshot
from interbed.storage.meta.store import TableStore
from interbed.storage.read.columns import ReadColumns
from interbed.storage.read.point.lookup import PointLookup
from interbed.storage.read.table_read import TableRead
from interbed.storage.scan.plan import Plan
from interbed.storage.scan.scan import TableScan
from interbed.storage.views.change_query import ChangeQuery
from interbed.storage.views.stream.log_rows import LogRead, LogRowDecoder
from interbed.storage.views.stream.log_stream import check_log_stream
from interbed.storage.views.stream.table_stream import StreamedChanges, TableStream

_log = logging.getLogger(__name__)

KEYS_AT_ONCE = 10_000
"""Keys that are looked up together, and whose changes are handed out together."""

CATCH_UP_SECONDS = 10.0
"""How long a log that gives nothing is waited for before a snapshot is looked at."""

_SHORTEST_WAIT = 0.05
_LONGEST_WAIT = 0.25

Values = Mapping[bytes, bytes | None]
"""By key the value of its record, None for a key without a row."""


@dataclass(frozen=True, kw_only=True)
class EventualLogStream(TableStream):
    """What `Table.stream(log=True)` returns for a table with an eventual log.

    It looks for snapshots every `poll_seconds`. Of several records of a key that come together the last one is told.
    With `log.scan.remove-normalize` the records of the log are handed out as they are, and no snapshot is looked at
    after the first. `store` is the table as streams see it, `columns` are those handed out, `connect` makes the reader
    of the log.
    """

    store: TableStore
    columns: ReadColumns
    connect: Callable[[LogSettings], WrittenReader] = KafkaWrittenReader

    def __post_init__(self) -> None:
        check_log_stream(self.store)
        if self.store.options.consumer_id is not None:
            raise NotSupportedError(
                "A stream of an eventual log does not know 'consumer-id'; remove it, and keep the checkpoint yourself."
            )

    def __iter__(self) -> Generator[StreamedChanges]:
        side = _EventualSide(self)
        try:
            yield from side.beginning()
            last_news = self.now()
            while True:
                for changes in side.put_right():
                    yield changes
                    last_news = self.now()
                until = self.now() + self.poll_seconds
                if self.idle_seconds is not None:
                    until = min(until, max(last_news + self.idle_seconds, self.now() + _SHORTEST_WAIT))
                for changes in side.written(until):
                    yield changes
                    last_news = self.now()
                is_idle = self.idle_seconds is not None and self.now() >= last_news + self.idle_seconds
                if is_idle and side.is_at_end and not side.is_behind():
                    return
        finally:
            side.close()


class _EventualSide:
    """The log as a stream reads it, and the snapshot on which what it tells is based."""

    def __init__(self, stream: EventualLogStream) -> None:
        self._stream = stream
        self._store = stream.store
        self._settings = LogSettings.of(stream.store.options)
        self._codec = RecordCodec(self._store.schema)
        self._decoder = LogRowDecoder(self._store.schema, stream.columns, stream.read.schema, self._settings.place)
        self._is_raw = stream.store.options.reads_raw_log
        self._touched = TouchedKeys()
        self._base: Snapshot | None = None
        self._covered: dict[int, int] = {}
        self._next: dict[int, int] = {}
        self._reader: WrittenReader | None = None
        self._is_open = False
        self._has_failed = False
        self._goes_on = stream.scan.checkpoint() is not None
        self._told_before: Mapping[int, int] | None = None
        """The end of the log when the stream began, before which is what an earlier stream may have told."""

    @cached_property
    def _table(self) -> int:
        return identity_of(self._store)

    @property
    def is_at_end(self) -> bool:
        """Whether all was read that the log has, or it can't be read."""
        return self._reader is None or not self._is_open or self._reader.is_at_end

    def is_behind(self) -> bool:
        """Whether there is a snapshot that was not looked at."""
        return not self._is_raw and (self._store.snapshots.latest_id() or 0) > self._base_id

    @property
    def _base_id(self) -> int:
        return 0 if self._base is None else self._base.id

    @property
    def _checkpoint(self) -> int:
        return self._base_id + 1

    def beginning(self) -> Iterator[StreamedChanges]:
        """The rows of the snapshot with which the stream begins, if it begins with rows; it is the base then."""
        scan = self._stream.scan
        upcoming, rows_of = scan.checkpoint(), None
        if upcoming is None and (start := scan.starting_point()) is not None:
            upcoming, rows_of = start.next_snapshot, start.full
        if upcoming is not None and upcoming > FIRST_SNAPSHOT_ID:
            self._stand_on(self._snapshot(upcoming - 1))
        if rows_of is not None:
            scan.restore(rows_of, full=True)
            plan = scan.plan()
            if plan is not None:
                yield from self._stream.parts(plan)

    def put_right(self) -> Iterator[StreamedChanges]:
        """What the newest snapshot has otherwise than it was told; it is the base then."""
        if self._is_raw:
            return
        newest = self._store.snapshots.latest()
        if self._base is not None and (newest is None or not self._is_in_line(newest)):
            raise SnapshotNotFoundError(
                f"The table at {self._store.location} was taken back to before snapshot {self._base.id}, which the "
                "stream has come to. Start the stream anew."
            )
        if newest is None or newest.id == self._base_id:
            return
        covered = self._with(LogPosition.offsets_of(newest.log_offsets))
        yield from self._up_to(covered)
        for keys in self._keys_changed(newest):
            self._touched.judge(keys)
        self._touched.judge_before(covered)
        held: StreamedChanges | None = None
        for keys, told in self._touched.judged(KEYS_AT_ONCE):
            before = {**self._rows_of(self._base, [k for k in keys if k not in told]), **told}
            found = self._changes(keys, before, self._rows_of(newest, keys), newest.id)
            if found is not None:
                if held is not None:
                    yield held
                held = found
        self._touched.settle()
        self._base, self._covered = newest, covered
        if self._told_before is not None and all(covered.get(p, 0) >= end for p, end in self._told_before.items()):
            self._goes_on = False
        if held is not None:
            # All is told now up to this snapshot.
            yield StreamedChanges(plan=held.plan, checkpoint=self._checkpoint, read=held.read)

    def _up_to(self, offsets: Mapping[int, int]) -> Iterator[StreamedChanges]:
        """What comes to the log before the offsets: a stream that goes on from a checkpoint may have told it before, so
        that it has to be told again to be put right. What the log lacks, or does not give, is passed over.
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
        """What comes to the log until a time."""
        stream = self._stream
        try:
            if not self._opened():
                # The topic is made when something is written first.
                stream.wait(max(0.0, min(_LONGEST_WAIT, until - stream.now())))
                return
            while True:
                assert self._reader is not None
                rows = self._reader.poll(max(0.0, until - stream.now()))
                changes = self._told(rows)
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
        """Let go of connections, and of what is kept of keys."""
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
            if self._told_before is None:
                self._told_before = ends
            if self._is_raw and any(offset > wanted.get(p, offset) for p, offset in begins.items()):
                _log.warning("Records of the %s are gone before they were read.", self._settings.place)
        return self._is_open

    def _close_reader(self) -> None:
        if self._reader is not None:
            self._reader.close()
        self._reader = None
        self._is_open = False

    def _told(self, rows: Sequence[WrittenRow]) -> StreamedChanges | None:
        """What records change; None when they change nothing."""
        newest: dict[bytes, WrittenRow] = {}
        for row in rows:
            self._next[row.partition] = row.offset + 1
            # What is before the base's offsets was looked up in it.
            if row.offset >= self._covered.get(row.partition, 0) or self._is_raw:
                newest[row.key] = row
        if any(row.by.table != self._table for row in newest.values()):
            raise error_of_another_table(self._settings, self._store)
        if self._is_raw:
            return self._as_written([row for row in rows if row.key in newest])
        if not newest:
            return None
        news = self._in_columns_of_today(list(newest.values()))
        keys = [row.key for row in news]
        told = self._touched.find(keys)
        before = {**self._rows_of(self._base, [key for key in keys if key not in told]), **told}
        changes = self._changes(keys, before, {row.key: row.value for row in news}, self._base_id)
        self._touched.put(news)
        return changes

    def _as_written(self, rows: Sequence[WrittenRow]) -> StreamedChanges | None:
        """The records one by one: a row that is new, or a key that went with nothing but the key."""
        if not rows:
            return None
        rows = self._in_columns_of_today(rows)
        values = [_with_key_alone(row.key) if row.value is None else row.value for row in rows]
        kinds = [RowKind.DELETE if row.value is None else RowKind.UPDATE_AFTER for row in rows]
        return self._handed_out(values, kinds, self._base_id)

    def _in_columns_of_today(self, rows: Sequence[WrittenRow]) -> Sequence[WrittenRow]:
        """The records with the columns that the stream has, whatever schema they were written by."""
        others = {row.by.schema_id for row in rows if row.by.schema_id != self._store.schema.id}
        changed = list(rows)
        for schema_id in others:
            written = self._store.schema_of(schema_id)
            codec, mapping = RecordCodec(written), map_fields(self._store.schema.fields, written.fields)
            places = [i for i, row in enumerate(rows) if row.by.schema_id == schema_id and row.value is not None]
            values = [rows[i].value for i in places]
            records = LogRecords(keys=[None] * len(values), values=values, kinds=np.full(len(values), -1, np.int8))
            batch, _ = codec.decoded(records, place=self._settings.place)
            again = self._codec.upserts(mapping.apply(batch), None)
            for i, value in zip(places, again.values, strict=True):
                changed[i] = rows[i]._replace(value=value)
        return changed

    # -- snapshots --------------------------------------------------------------------------------------------------

    def _snapshot(self, snapshot_id: int) -> Snapshot:
        try:
            return self._store.snapshots.read(snapshot_id)
        except SnapshotNotFoundError as error:
            raise self._expired(snapshot_id) from error

    def _expired(self, snapshot_id: int) -> SnapshotNotFoundError:
        return SnapshotNotFoundError(
            f"The stream of the log of {self._store.location} needs the rows of snapshot {snapshot_id}, which is not "
            "there. Start it anew; to keep snapshots longer, set 'snapshot.time-retained', or look for new ones more "
            "often ('continuous.discovery-interval')."
        )

    def _stand_on(self, snapshot: Snapshot) -> None:
        self._base = snapshot
        self._covered = self._with(LogPosition.offsets_of(snapshot.log_offsets))

    def _with(self, offsets: Mapping[int, int]) -> dict[int, int]:
        """The offsets before which the log was looked up, with more of them; they never go back."""
        known = self._covered
        return {p: max(known.get(p, 0), offsets.get(p, 0)) for p in known.keys() | offsets.keys()}

    def _is_in_line(self, newest: Snapshot) -> bool:
        """Whether the base is one of the table's snapshots still, as far as anybody can tell."""
        base = self._base
        if base is None or newest.id < base.id:
            return base is None
        try:
            found = newest if newest.id == base.id else self._store.snapshots.read(base.id)
        except SnapshotNotFoundError:
            return True
        return None in (found.uuid, base.uuid) or found.uuid == base.uuid

    def _keys_changed(self, newest: Snapshot) -> Iterator[Iterable[bytes]]:
        """The keys that the snapshots after the base may have changed."""
        names = self._store.schema.primary_keys
        if self._base is None:
            splits = TableScan(self._store, snapshot_id=newest.id).plan().splits
            reader = TableRead(self._store, names).to_reader(splits)
        else:
            mode = IncrementalScanMode.DELTA
            try:
                between = [self._store.snapshots.read(i) for i in range(self._base.id + 1, newest.id + 1)]
            except SnapshotNotFoundError:
                between = []
            if not between or any(s.commit_kind is CommitKind.OVERWRITE for s in between):
                mode = IncrementalScanMode.DIFF
            self._snapshot(self._base.id)
            query = ChangeQuery(self._store, self._base.id + 1, newest.id, names, None, mode)
            reader = query.to_arrow_batch_reader()
        for batch in reader:
            yield (key for key in self._codec.keys(batch.select(list(names))) if key is not None)

    def _rows_of(self, snapshot: Snapshot | None, keys: Sequence[bytes]) -> Values:
        """The values of the keys in a snapshot."""
        values: dict[bytes, bytes | None] = dict.fromkeys(keys)
        if snapshot is None or not keys:
            return values
        asked = self._codec.key_rows(keys, place=self._settings.place)
        try:
            rows = PointLookup(self._store).rows_at(snapshot, asked)
        except (InterbedError, OSError) as error:
            if self._store.snapshots.exists(snapshot.id):
                raise
            raise self._expired(snapshot.id) from error
        for batch in rows.to_batches():
            records = self._codec.upserts(batch, None)
            values.update((key, value) for key, value in zip(records.keys, records.values, strict=True) if key)
        return values

    # -- changes ----------------------------------------------------------------------------------------------------

    def _changes(
        self, keys: Sequence[bytes], before: Values, after: Values, snapshot_id: int
    ) -> StreamedChanges | None:
        """What changes keys from one value to another; None when nothing does.

        A stream that goes on from a checkpoint tells also what stays: it may be news after what an earlier one told.
        """
        values: list[bytes] = []
        kinds: list[RowKind] = []
        for key in keys:
            old, new = before[key], after[key]
            if old == new and not self._goes_on:
                continue
            if old is None and new is None:
                # An earlier stream may have told of a row; only its key is known.
                values.append(_with_key_alone(key))
                kinds.append(RowKind.DELETE)
            if old is not None:
                values.append(old)
                kinds.append(RowKind.DELETE if new is None else RowKind.UPDATE_BEFORE)
            if new is not None:
                values.append(new)
                kinds.append(RowKind.INSERT if old is None else RowKind.UPDATE_AFTER)
        return self._handed_out(values, kinds, snapshot_id) if values else None

    def _handed_out(self, values: Sequence[bytes], kinds: Sequence[RowKind], snapshot_id: int) -> StreamedChanges:
        records = LogRecords(keys=[None] * len(values), values=values, kinds=np.array(kinds, np.int8))
        plan = Plan(snapshot_id=snapshot_id or None, splits=(), schema_id=self._store.schema.id)
        return StreamedChanges(plan=plan, checkpoint=self._checkpoint, read=LogRead([records], self._decoder))


def _with_key_alone(key: bytes) -> bytes:
    """The value of a row that has nothing but its key, whose text is that of a row with these columns."""
    return b'{"before":null,"after":%b,"op":"c"}' % key
