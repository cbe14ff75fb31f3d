"""Record-level expiry of a primary-key table: `record-level.expire-time`.

Only compactions drop expired rows, so that readers see them until then. Expired rows are left out before the merge, and
only if no older level is below the output, because otherwise an older row of the key would reappear. Java Paimon, whose
full compactions do the same, drops rows in any compaction.

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
"""A BIGINT of at least this value is in milliseconds since the epoch, a smaller one in seconds."""
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordExpiry:
    """The rule by which rows expire: their `time` was more than `seconds` ago. Rows without a time never expire.

    Times are compared in whole seconds. Those without a time zone are in UTC, as in Java Paimon.
    """

    store: FileStore
    time: DataField
    seconds: int
    clock: Clock
    """The current time, in milliseconds since the epoch."""

    @staticmethod
    def of(store: FileStore, clock: Clock) -> "RecordExpiry | None":
        """Return the rule of the table's options; None if rows never expire."""
        millis, name = store.options.record_expire_millis, store.options.record_time_field
        if millis is None or name is None:
            return None
        return RecordExpiry(store=store, time=store.schema.by_name[name], seconds=millis // 1000, clock=clock)

    def has_expired_rows(self, file: DataFileMeta) -> bool:
        """Return whether the file has expired rows according to its statistics."""
        written = self.store.schema_of(file.schema_id)
        names = file.stats_names(written.names)
        then = next((f for f in written.fields if f.id == self.time.id), None)
        if then is None or then.name not in names or len(file.value_stats.null_counts) != len(names):
            return False
        if not is_widening(then.type, self.time.type):
            # The cast of its smallest value is unknown. A rewrite gives the file the current type.
            return True
        types = [written.by_name[n].type for n in names]
        oldest = decode_rows([file.value_stats.min_values], types)[list(names).index(then.name)]
        return bool(self._is_expired(oldest)[0])

    def kept(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows without the expired ones."""
        old = self._is_expired(rows.column(self.time.name))
        return rows.filter(from_numpy(~old)) if old.any() else rows

    def _is_expired(self, times: "pa.Array[Any]") -> Mask:
        now = self.clock() // 1000
        known = to_numpy(times.is_valid())
        old: Mask = known & (_seconds(times) < now - self.seconds)
        return old


class ExpiringRows:
    """A RowSource that leaves out expired rows."""

    def __init__(self, expiry: RecordExpiry) -> None:
        self._expiry = expiry
        self._files: RowSource = FileRead(expiry.store, expiry.store.schema.fields)

    def batches(self, file: DataFileMeta, path: str, options: ReadOptions) -> Iterator[pa.RecordBatch]:
        for batch in self._files.batches(file, path, options):
            yield self._expiry.kept(batch)


def _seconds(times: "pa.Array[Any]") -> Seconds:
    """Return times as seconds since the epoch; arbitrary values for nulls."""
    counted = times if pa.types.is_integer(times.type) else times.cast(pa.int64())
    values = to_numpy(counted.cast(pa.int64()).fill_null(0))
    if pa.types.is_timestamp(times.type):
        found: Seconds = values // _PER_SECOND[times.type.unit]
        return found
    return np.where(values >= _MILLIS_FROM, values // 1000, values)
