"""Rows that leave a table with a primary key because they are old: `record-level.expire-time`.

They go in compactions only, so that readers see them until one comes. What is too old is left out before rows are
merged, and only where nothing older lies below the output: an older row of the key would be seen again. Java Paimon,
whose full compactions do the same, lets rows go in any compaction.

Source: paimon-core `io.RecordLevelExpire`; documentation page `primary-key-table/compaction`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from interbed.storage.base.arrays import Mask
from interbed.storage.base.arrow_values import from_numpy, to_numpy
from interbed.storage.base.clock import Clock
from interbed.storage.base.row.binary_row import decode_rows
from interbed.storage.base.types.data_type import DataField
from interbed.storage.lsm.file_read import FileRead, ReadOptions
from interbed.storage.lsm.merge_read import RowSource
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.manifest.entry import DataFileMeta
from interbed.storage.meta.schema.evolution import is_widening

Seconds = npt.NDArray[np.int64]

_MILLIS_FROM = 1_000_000_000_000
"""A BIGINT from here on counts milliseconds since the epoch, a smaller one seconds."""
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordExpiry:
    """Which rows of a table are too old: those whose `time` was more than `seconds` ago. No time, no end.

    A time counts in whole seconds; those without a zone are taken for UTC, as Java Paimon takes them.
    """

    store: FileStore
    time: DataField
    seconds: int
    clock: Clock
    """Milliseconds since the epoch."""

    @staticmethod
    def of(store: FileStore, clock: Clock) -> "RecordExpiry | None":
        """What the table's options ask for; None when rows stay for ever."""
        millis, name = store.options.record_expire_millis, store.options.record_time_field
        if millis is None or name is None:
            return None
        return RecordExpiry(store=store, time=store.schema.by_name[name], seconds=millis // 1000, clock=clock)

    def is_due(self, file: DataFileMeta) -> bool:
        """Whether the file holds a row that is too old, as far as its statistics show."""
        written = self.store.schema_of(file.schema_id)
        names = written.names if file.value_stats_cols is None else file.value_stats_cols
        then = next((f for f in written.fields if f.id == self.time.id), None)
        if then is None or then.name not in names or len(file.value_stats.null_counts) != len(names):
            return False
        if not is_widening(then.type, self.time.type):
            # What its least value was cast to is not known; rewritten, the file has the type of today.
            return True
        types = [written.by_name[n].type for n in names]
        oldest = decode_rows([file.value_stats.min_values], types)[list(names).index(then.name)]
        return bool(self._is_old(oldest)[0])

    def kept(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows without those that are too old."""
        old = self._is_old(rows.column(self.time.name))
        return rows.filter(from_numpy(~old)) if old.any() else rows

    def _is_old(self, times: "pa.Array[Any]") -> Mask:
        now = self.clock() // 1000
        known = to_numpy(times.is_valid())
        old: Mask = known & (_seconds(times) < now - self.seconds)
        return old


class ExpiringRows:
    """A RowSource that leaves rows out which are too old."""

    def __init__(self, expiry: RecordExpiry) -> None:
        self._expiry = expiry
        self._files: RowSource = FileRead(expiry.store, expiry.store.schema.fields)

    def batches(self, file: DataFileMeta, path: str, options: ReadOptions) -> Iterator[pa.RecordBatch]:
        """See RowSource."""
        for batch in self._files.batches(file, path, options):
            yield self._expiry.kept(batch)


def _seconds(times: "pa.Array[Any]") -> Seconds:
    """Times as seconds since the epoch; whatever where they are null."""
    counted = times if pa.types.is_integer(times.type) else times.cast(pa.int64())
    values = to_numpy(counted.cast(pa.int64()).fill_null(0))
    if pa.types.is_timestamp(times.type):
        found: Seconds = values // _PER_SECOND[times.type.unit]
        return found
    return np.where(values >= _MILLIS_FROM, values // 1000, values)
