"""A step of a stream of an eventual log: what a micro-batch reads of one bucket.

The planner makes a `LogStep`, and a task reads it (`LogStepRead`): the changes from what was handed out before to what
is in the log now.
"""

import json
import logging
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from interbed.storage.base.arrow_values import from_numpy, to_numpy
from interbed.storage.base.errors import InvalidInputError
from interbed.storage.log.kafka_written import KafkaWrittenRanges
from interbed.storage.log.settings import LogSettings, error_of_another_table, identity_of
from interbed.storage.log.written import TouchedKeys, WrittenRange, WrittenRanges
from interbed.storage.lsm.merge_function.deduplicate import is_retract
from interbed.storage.meta.file_store import FileStore
from interbed.storage.read.change_read import ROW_KIND, ChangeRead
from interbed.storage.read.columns import ReadColumns
from interbed.storage.scan.split import Split
from interbed.storage.views.stream.eventual_rows import KEYS_AT_ONCE, EventualRows, check_told, differences
from interbed.storage.views.stream.log_stream import LogRowDecoder
from interbed.storage.views.stream.stream_scan import streamed


@dataclass(frozen=True, slots=True, kw_only=True)
class LogStep:
    """What a batch reads of one bucket, which is a partition of the log.

    `told` are the offsets whose records lie over the snapshot `before`, `written` those over the snapshot `after`;
    `splits` have the keys that the snapshots between them may have changed.
    """

    bucket: int
    before: int
    told: tuple[int, int]
    after: int
    written: tuple[int, int]
    splits: Sequence[Split]

    @property
    def record_count(self) -> int:
        """At most so many records are read."""
        return sum(end - begin for begin, end in (self.told, self.written))

    def to_bytes(self) -> bytes:
        """The step for whoever reads it."""
        value = {
            "bucket": self.bucket,
            "before": self.before,
            "told": self.told,
            "after": self.after,
            "written": self.written,
            "splits": [b64encode(split.to_bytes()).decode() for split in self.splits],
        }
        return json.dumps(value).encode()

    @staticmethod
    def from_bytes(content: bytes) -> "LogStep":
        """The step of bytes made by to_bytes; raises InvalidInputError for anything else."""
        try:
            value = json.loads(content)
            return LogStep(
                bucket=value["bucket"],
                before=value["before"],
                told=(value["told"][0], value["told"][1]),
                after=value["after"],
                written=(value["written"][0], value["written"][1]),
                splits=tuple(Split.from_bytes(b64decode(split)) for split in value["splits"]),
            )
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise InvalidInputError(f"Not a step of a stream of a log: {error}") from error


_log = logging.getLogger(__name__)


class LogStepRead:
    """Reads steps as changes: the columns asked for, and ROW_KIND. Raises InvalidInputError for an unknown column."""

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
        """The changes of a step. Raises SnapshotNotFoundError, LogUnavailableError and InvalidOptionError."""
        before, after = (self._rows.snapshot(i) if i else None for i in (step.before, step.after))
        told, written = TouchedKeys(), TouchedKeys()
        log = self._connect(self._settings)
        try:
            self._gather(log, step, told, written)
            if step.before != step.after:
                # What was told and is not in the newer snapshot, or otherwise, is put right.
                for keys in self._rows.keys_in(step.splits):
                    written.judge(keys)
                written.judge(told.keys())
            written.judge_all()
            for keys, newest in written.judged(KEYS_AT_ONCE):
                known = told.find(keys)
                old = {**self._rows.at(before, [key for key in keys if key not in known]), **known}
                new = {**self._rows.at(after, [key for key in keys if key not in newest]), **newest}
                records = differences(keys, old, new)
                if records is not None:
                    yield from self._decoder.batches(records)
        finally:
            log.close()
            told.close()
            written.close()

    def added(self, step: LogStep) -> Iterator[pa.RecordBatch]:
        """The rows that the changes of a step add, as ChangeRead.added has those of a split."""
        for batch in self.to_batches(step):
            kept = from_numpy(~is_retract(to_numpy(batch.column(ROW_KIND))))
            yield batch.filter(kept).select(list(self._names))

    def _gather(self, log: WrittenRanges, step: LogStep, told: TouchedKeys, written: TouchedKeys) -> None:
        """The last record of each key in both ranges."""
        if not step.record_count:
            return
        bounds = log.bounds() or WrittenRange({}, {})
        check_told(step.told, bounds, step.bucket, self._settings)
        low = bounds.begins.get(step.bucket, 0)
        high = bounds.ends.get(step.bucket, 0)
        for (begin, end), keys in ((step.told, told), (step.written, written)):
            if begin < low and end > begin:
                # What is committed is in the files, and the rest is put right at a snapshot.
                _log.warning("Records of the %s are gone before they were read.", self._settings.place)
            for rows in log.between(step.bucket, max(begin, low), min(end, high)):
                if any(row.by.table != self._table for row in rows):
                    raise error_of_another_table(self._settings, self._store)
                newest = {row.key: row for row in rows}
                keys.put(self._rows.with_columns_of_today(list(newest.values())))

    @cached_property
    def _table(self) -> int:
        return identity_of(self._store)
