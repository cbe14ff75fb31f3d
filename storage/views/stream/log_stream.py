"""A stream of a table's changes that reads them from the table's log as soon as they are published.

The log only makes the stream faster. If the log is truncated, has gaps or is unreachable, the same changes are read
from the table's files, which are polled every `poll_seconds` anyway. Both the log and the files identify changes by the
ids of snapshots, so that no change is duplicated or lost, and checkpoints are valid for both.
"""

import logging
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from interbed.storage.base.arrow_values import from_numpy
from interbed.storage.base.errors import (
    LogUnavailableError,
    NotSupportedError,
    SnapshotNotFoundError,
)
from interbed.storage.log.api import LogGroup, LogReader, LogRecords, RecordCodec
from interbed.storage.log.kafka import LogSettings, error_of_another_table, identity_of
from interbed.storage.log.kafka_log import KafkaLogReader
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.options.log import LOG_SYSTEM
from interbed.storage.meta.options.stream import StartupMode
from interbed.storage.meta.schema.evolution import map_fields
from interbed.storage.meta.schema.table_schema import TableSchema
from interbed.storage.meta.snapshot.progress import LogPosition, LogPositions
from interbed.storage.meta.snapshot.snapshot import FIRST_SNAPSHOT_ID
from interbed.storage.read.change_read import ROW_KIND
from interbed.storage.read.columns import ReadColumns
from interbed.storage.scan.change_plan import SnapshotChangeRules, advice
from interbed.storage.scan.split import Plan, Split
from interbed.storage.views.stream.position import StreamCheckpoint
from interbed.storage.views.stream.stream_scan import StreamedChanges, TableStream

_log = logging.getLogger(__name__)

_SHORTEST_WAIT = 0.05
_LONGEST_WAIT = 0.25


@dataclass(frozen=True, kw_only=True)
class TableLogStream(TableStream):
    """The result of `Table.stream(log=True)`: a TableStream that waits for the log instead of polling snapshots.

    `store` is the table as streams read it, `columns` are the columns of the result. `connect` opens the reader of the
    log.
    """

    store: FileStore
    columns: ReadColumns
    connect: Callable[[LogSettings], LogReader] = KafkaLogReader

    def __post_init__(self) -> None:
        check_log_stream(self.store)

    def __iter__(self) -> Generator[StreamedChanges]:
        log = _LogReading(self)
        last_change = self.now()
        try:
            while True:
                for changes in self._next(log, last_change):
                    yield changes
                    last_change = self.now()
                if self.idle_seconds is not None and self.now() >= last_change + self.idle_seconds:
                    log.raise_missing()
                    return
        finally:
            log.close()

    def _next(self, log: "_LogReading", last_change: float) -> Iterator[StreamedChanges]:
        """Yield the changes in the files now, then those of the log until the files are polled again."""
        while (plan := self._plan(log)) is not None:
            yield from self.parts(plan)
            last_change = self.now()
            log.store_progress()
        if self.scan.checkpoint() is None and self.store.options.startup_mode in _FROM_FIRST:
            # The table is empty, so its first snapshot is new.
            self.scan.restore(FIRST_SNAPSHOT_ID)
        until = self.now() + self.poll_seconds
        if self.idle_seconds is not None:
            until = min(until, last_change + self.idle_seconds)
        for changes in log.changes(until):
            yield changes
            log.store_progress()
        log.store_progress()

    def _plan(self, log: "_LogReading") -> Plan | None:
        """Return the next plan of the files; None if it must come from the log, which may have expired snapshots."""
        try:
            return self.scan.plan()
        except SnapshotNotFoundError as error:
            if log.is_missing(self.scan.checkpoint()):
                raise
            log.missing = error
            return None


_FROM_FIRST = (StartupMode.LATEST_FULL, StartupMode.LATEST)


def check_log_stream(store: FileStore) -> None:
    """Raise NotSupportedError for a table without a log, and for options that the log does not support."""
    if store.log_consistency is None:
        what = f"the branch '{store.paths.branch}' of a table" if store.options.log_system != "none" else "the table"
        raise NotSupportedError(
            f"There is no log of {what} at {store.location}: '{LOG_SYSTEM}' is '{store.options.log_system}', and "
            "branches have none. Read it as a stream of its files."
        )
    for key in ("streaming.read.snapshot.delay", "scan.bounded.watermark"):
        if key in store.options.raw:
            raise NotSupportedError(f"A stream of a log does not support '{key}'; remove it, or read without the log.")


class _LogReading:
    """The state of reading the log of a stream, from the next snapshot of its scan on."""

    def __init__(self, stream: TableLogStream) -> None:
        self._stream = stream
        self._store = stream.store
        self._settings = LogSettings.of(stream.store.options)
        self._reader: LogReader | None = None
        self._is_open = False
        self._groups: deque[LogGroup] = deque()
        self._history: int | None = None
        self._decoders: dict[int, LogRowDecoder] = {}
        self._has_failed = False
        self._stored: int | None = None
        self._not_in_log: int | None = None
        self.missing: SnapshotNotFoundError | None = None
        """The error of the files for the next snapshot, if they do not have it."""

    @cached_property
    def _table(self) -> int:
        return identity_of(self._store)

    def changes(self, until: float) -> Iterator[StreamedChanges]:
        """Yield the changes of the log until a time, or until the files are needed for the next ones."""
        before = self._stream.scan.checkpoint()
        yield from self._changes(until)
        after = self._stream.scan.checkpoint()
        if after == before:
            self._not_in_log = after
        else:
            self.missing = None

    def _changes(self, until: float) -> Iterator[StreamedChanges]:
        stream = self._stream
        try:
            if not self._opened():
                # The topic is created by the first publication.
                stream.wait(max(0.0, min(_LONGEST_WAIT, until - stream.now())))
                return
            while True:
                while self._groups:
                    needs_files = self._needs_files(self._groups[0])
                    if needs_files is None:
                        self._groups.popleft()
                        continue
                    if needs_files:
                        stream.wait(min(_SHORTEST_WAIT, stream.poll_seconds))
                        return
                    group = self._groups.popleft()
                    stream.scan.restore(StreamCheckpoint(group.marker.last + 1, group.marker.uuid))
                    self._warn_of_replaced(group)
                    if group.records:
                        yield self._as_changes(group)
                left = until - stream.now()
                if left <= 0:
                    return
                assert self._reader is not None
                self._groups.extend(self._reader.poll(left))
        except LogUnavailableError as error:
            if not self._has_failed:
                _log.warning("Changes of %s come from its files: %s", self._store.location, error)
            self._has_failed = True
            self.close()
            stream.wait(max(0.0, until - stream.now()))

    def is_missing(self, snapshot_id: int | None) -> bool:
        """Return whether the log was searched for a snapshot and does not have it."""
        return snapshot_id is None or snapshot_id == self._not_in_log

    def raise_missing(self) -> None:
        """Raise the error of the files for a snapshot that the log does not have either."""
        if self.missing is not None and self.is_missing(self._stream.scan.checkpoint()):
            raise self.missing

    def store_progress(self) -> None:
        """Store the progress of the stream in the table, if it has a `consumer-id`."""
        upcoming = self._stream.scan.checkpoint()
        if upcoming != self._stored:
            self._stored = upcoming
            self._stream.scan.notify_checkpoint_complete(upcoming)

    def close(self) -> None:
        """Close the connections to the log."""
        if self._reader is not None:
            self._reader.close()
        self._reader = None
        self._is_open = False
        self._groups.clear()

    def _opened(self) -> bool:
        upcoming = self._stream.scan.checkpoint()
        if upcoming is None:
            return False
        if not self._is_open:
            if self._reader is None:
                self._reader = self._stream.connect(self._settings)
            self._is_open = self._reader.open(self._offsets_before(upcoming))
            self._has_failed = self._has_failed and not self._is_open
        return self._is_open

    def _offsets_before(self, snapshot_id: int) -> Mapping[int, int]:
        """Return offsets at or shortly before the first record of the snapshot."""
        stored = LogPositions(self._store.file_io, self._store.paths).read()
        if stored is not None and stored.snapshot < snapshot_id:
            if stored.snapshot == snapshot_id - 1:
                self._history = stored.line
            return stored.offsets
        for known in (snapshot_id, snapshot_id - 1):
            try:
                return LogPosition.offsets_of(self._store.snapshots.snapshot(known).log_offsets)
            except SnapshotNotFoundError:
                continue
        return {}

    def _needs_files(self, group: LogGroup) -> bool | None:
        """Return whether the next changes must be read from the files; None for changes that were read already."""
        upcoming, marker = self._stream.scan.checkpoint() or FIRST_SNAPSHOT_ID, group.marker
        if marker.table != self._table:
            raise error_of_another_table(self._settings, self._store)
        if self._history is not None and marker.line != self._history:
            raise SnapshotNotFoundError(
                f"The table at {self._store.location} was rolled back to before snapshot {upcoming}, which the stream "
                "has reached. Start a new stream."
            )
        if marker.last < upcoming:
            return None
        if self._history is None:
            if self._is_of_another_history(group):
                return None
            self._history = marker.line
        if marker.told and marker.first < upcoming:
            # Only the first snapshot of the group has changes.
            self._stream.scan.restore(StreamCheckpoint(marker.last + 1, marker.uuid))
            return None
        return marker.first > upcoming or not group.is_whole

    def _is_of_another_history(self, group: LogGroup) -> bool:
        """Return whether a rollback has removed the group from the history of the table."""
        try:
            found = self._store.snapshots.read(group.marker.last)
        except SnapshotNotFoundError:
            return False
        return None not in (found.uuid, group.marker.uuid) and found.uuid != group.marker.uuid

    def _warn_of_replaced(self, group: LogGroup) -> None:
        if group.marker.replaces:
            first = group.marker.first
            _log.warning(
                "Snapshot %d of %s replaced rows, and streams of the table do not report which: %s.",
                first,
                self._store.location,
                advice(SnapshotChangeRules.of_stream(self._store), first),
            )

    def _as_changes(self, group: LogGroup) -> StreamedChanges:
        marker = group.marker
        decoder = self._decoders.get(marker.schema_id)
        if decoder is None:
            schema = self._store.schema_of(marker.schema_id)
            decoder = LogRowDecoder(schema, self._stream.columns, self._stream.read.schema, self._settings.place)
            self._decoders[marker.schema_id] = decoder
        plan = Plan(snapshot_id=marker.first, splits=(), schema_id=marker.schema_id)
        records = [records for _, records in sorted(group.records.items())]
        return StreamedChanges(plan=plan, checkpoint=self._stream.scan.checkpoint(), read=LogRead(records, decoder))


_ROWS_AT_ONCE = 50_000


@dataclass(frozen=True, slots=True)
class LogRowDecoder:
    """Decodes records of one schema of the table into rows with the columns of the stream."""

    written: TableSchema
    columns: ReadColumns
    schema: pa.Schema
    place: str

    def batches(self, records: LogRecords) -> Iterator[pa.RecordBatch]:
        """Yield the rows with their kinds, filtered; raises CorruptFileError."""
        codec = RecordCodec(self.written)
        mapping = map_fields(self.columns.fields, self.written.fields)
        for start in range(0, len(records), _ROWS_AT_ONCE):
            end = start + _ROWS_AT_ONCE
            some = LogRecords(
                keys=records.keys[start:end], values=records.values[start:end], kinds=records.kinds[start:end]
            )
            rows, kinds = codec.decoded(some, place=self.place)
            mapped = mapping.apply(rows)
            changes = pa.RecordBatch.from_arrays(
                [*mapped.columns, from_numpy(kinds.astype(np.int8))], names=[*mapped.schema.names, ROW_KIND]
            )
            kept = self.columns.kept(changes)
            if kept.num_rows:
                yield pa.RecordBatch.from_arrays([kept.column(n) for n in self.schema.names], schema=self.schema)


@dataclass(frozen=True, slots=True)
class LogRead:
    """A SplitsRead of log records, without splits."""

    parts: Sequence[LogRecords]
    decoder: LogRowDecoder

    @property
    def schema(self) -> pa.Schema:
        return self.decoder.schema

    def to_reader(self, splits: Sequence[Split]) -> pa.RecordBatchReader:
        batches = (batch for records in self.parts for batch in self.decoder.batches(records))
        return pa.RecordBatchReader.from_batches(self.schema, batches)
