"""Timestamps of Parquet's INT96 that are too far away for nanoseconds, which 64 bits hold from 1677 to 2262 only.

Arrow makes nanoseconds of INT96, and other days of those that are further away, without a word. Whether there are any
only the values as they are tell: 64 bits for the nanoseconds of the day, which Java has below zero before 1970, and 32
for the Julian day. So those of files of other writers are read once more, as bytes (pages/int96.py). Files of ours hold
none that is too far away. Source: parquet-format, LogicalTypes (INT96); Paimon, ParquetRowDataWriter.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from interbed.storage.base.arrow_values import to_numpy
from interbed.storage.base.errors import NotSupportedError
from interbed.storage.files.format.encoding import leaves
from interbed.storage.files.format.pages.int96 import INT96_BYTES

_EPOCH = 2_440_588
"""The Julian day of 1970-01-01."""
_MOST_DAYS = 106_752
"""So many days before and after it nanoseconds begin and end."""
_MICROS_OF_A_DAY = 86_400_000_000


def check_near(batch: pa.RecordBatch, raw: pa.RecordBatch, path: str) -> None:
    """Raise NotSupportedError for timestamps that are not those of the file, whose columns `raw` has as bytes."""
    for name in raw.schema.names:
        found = zip(leaves("", raw.column(name)), leaves("", batch.column(name)), strict=True)
        for (_, values), (_, nanos) in found:
            # Beside INT96 there may be timestamps of 64 bits, and bytes that are none.
            if values.type != pa.binary(INT96_BYTES) or not isinstance(nanos.type, pa.TimestampType):
                continue
            if not _is_near(values.drop_null(), to_numpy(nanos.drop_null().view(pa.int64()))):
                raise NotSupportedError(
                    f"The data file {path} has timestamps in the column {name!r} before 1678 or after 2261, which are "
                    "not read from columns with more than 6 fractional digits; read the others, or have such days "
                    "stored in a TIMESTAMP(6)."
                )


def _is_near(stored: Any, nanos: Any) -> bool:
    if not len(stored):
        return True
    places = np.dtype([("nanos", "<i8"), ("day", "<i4")])
    values = np.frombuffer(stored.buffers()[1], places, len(stored), stored.offset * INT96_BYTES)
    days = values["day"].astype(np.int64) - _EPOCH
    if (np.abs(days) > _MOST_DAYS).any():
        return False
    return bool((days * _MICROS_OF_A_DAY + values["nanos"] // 1000 == nanos // 1000).all())


class RowsInStep:
    """Rows of batches, as many at a time as are asked for."""

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        self._batches = iter(batches)
        self._left: pa.RecordBatch | None = None

    def take(self, count: int) -> pa.RecordBatch:
        """The next rows; ValueError when there are fewer."""
        parts: list[pa.RecordBatch] = []
        while count:
            left = self._left if self._left is not None and self._left.num_rows else next(self._batches, None)
            if left is None:
                raise ValueError("its columns have different numbers of rows")
            parts.append(left.slice(0, count))
            self._left = left.slice(count)
            count -= parts[-1].num_rows
        if len(parts) == 1:
            return parts[0]
        joined: pa.RecordBatch = pa.concat_batches(parts)  # type: ignore[attr-defined]  # The stubs lack it.
        return joined
