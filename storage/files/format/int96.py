"""Timestamps of INT96 in Parquet files of other programs, as Spark and Hive write them by default.

A value has 64 bits for the nanoseconds of the day, which Java has below zero before 1970, and 32 bits for the Julian
day. Arrow converts it to nanoseconds, which 64 bits hold from 1677 to 2262 only, and returns other days for values
beyond them without an error. Only the stored values show whether there are any. So they are read as bytes
(pages/footer.py) and compared. Source: parquet-format, LogicalTypes (INT96); Paimon, ParquetRowDataWriter.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from interbed.storage.base.arrow_values import to_numpy
from interbed.storage.base.checksums import footer_of, metadata_of
from interbed.storage.base.errors import NotSupportedError
from interbed.storage.base.types.nested import leaves_of
from interbed.storage.files.format.pages.footer import INT96_BYTES, footer_with_bytes, int96_columns

if TYPE_CHECKING:
    import pyarrow.parquet as pq

_EPOCH = 2_440_588
"""The Julian day of 1970-01-01."""
_MICROS_OF_A_DAY = 86_400_000_000
_MOST_DAYS = (1 << 63) // _MICROS_OF_A_DAY - 1
"""Days before and after the epoch that 64 bits of microseconds hold, in which timestamps are compared."""


class TimeUnit(StrEnum):
    """Unit to which INT96 is converted, by Arrow's name."""

    NANOS = "ns"
    MICROS = "us"

    @property
    def nanos(self) -> int:
        """Nanoseconds of one unit."""
        return 1 if self is TimeUnit.NANOS else 1000


def check_nanosecond_range(batch: pa.RecordBatch, raw: pa.RecordBatch, path: str) -> None:
    """Raise NotSupportedError for timestamps that differ from the stored ones, which `raw` has as bytes."""
    for name in raw.schema.names:
        if not _are_stored(batch.column(name), raw.column(name), TimeUnit.NANOS):
            raise NotSupportedError(
                f"The data file {path} has timestamps in the column {name!r} before 1678 or after 2261, which are "
                "not read from columns with more than 6 fractional digits; read the others, or have such days "
                "stored in a TIMESTAMP(6)."
            )


@contextmanager
def open_foreign(path: str, unit: TimeUnit | None = None) -> Iterator["pq.ParquetFile"]:
    """Open a local Parquet file of another program, with the unit of its INT96 columns, by default of `unit_of`."""
    import pyarrow.parquet as pq

    unit = unit_of(path) if unit is None else unit
    with pq.ParquetFile(path, coerce_int96_timestamp_unit=unit) as file:
        yield file


def unit_of(path: str) -> TimeUnit:
    """Return the unit that holds all values of the INT96 columns of a local Parquet file, by a look at all of them.

    It is nanoseconds, or microseconds if a day is out of their range. Raises NotSupportedError if neither holds all
    values, and Arrow's errors for a file that is no Parquet.
    """
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        names = sorted(int96_columns(file.metadata, file.schema_arrow))
    if not names:
        return TimeUnit.NANOS
    fitting = set(TimeUnit)
    with (
        pa.OSFile(path, "rb") as source,
        pq.ParquetFile(source, metadata=metadata_of(footer_with_bytes(footer_of(source)))) as raw,
        pq.ParquetFile(path, coerce_int96_timestamp_unit=TimeUnit.NANOS) as nanos,
        pq.ParquetFile(path, coerce_int96_timestamp_unit=TimeUnit.MICROS) as micros,
    ):
        for group in range(raw.num_row_groups):
            for name in names:
                stored = _column(raw, group, name)
                for unit, file in ((TimeUnit.NANOS, nanos), (TimeUnit.MICROS, micros)):
                    if unit in fitting and not _are_stored(_column(file, group, name), stored, unit):
                        fitting.remove(unit)
                if not fitting:
                    raise NotSupportedError(
                        f"The file {path} has timestamps of INT96 in the column {name!r} or before it that have both "
                        "more than 6 fractional digits and days before 1678 or after 2261; store them as INT64."
                    )
    return TimeUnit.NANOS if TimeUnit.NANOS in fitting else TimeUnit.MICROS


def _column(file: "pq.ParquetFile", group: int, name: str) -> "pa.Array[Any]":
    # A name with a dot also selects columns that begin with the part before the dot.
    column: Any = file.read_row_group(group, columns=[name]).column(name).combine_chunks()
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _are_stored(column: "pa.Array[Any]", raw: "pa.Array[Any]", unit: TimeUnit) -> bool:
    """Return whether the timestamps of a column are the stored ones, which `raw` has as bytes."""
    for (_, values), (_, times) in zip(leaves_of("", raw), leaves_of("", column), strict=True):
        # The column may also have timestamps of 64 bits, and bytes that are no timestamps.
        if values.type != pa.binary(INT96_BYTES) or not isinstance(times.type, pa.TimestampType):
            continue
        if not _is_near(values.drop_null(), to_numpy(times.drop_null().view(pa.int64())), unit):
            return False
    return True


def _is_near(stored: Any, times: Any, unit: TimeUnit) -> bool:
    if not len(stored):
        return True
    places = np.dtype([("nanos", "<i8"), ("day", "<i4")])
    values = np.frombuffer(stored.buffers()[1], places, len(stored), stored.offset * INT96_BYTES)
    days = values["day"].astype(np.int64) - _EPOCH
    if (np.abs(days) > _MOST_DAYS).any() or (values["nanos"] % unit.nanos).any():
        return False
    found = times // (TimeUnit.MICROS.nanos // unit.nanos)
    return bool((days * _MICROS_OF_A_DAY + values["nanos"] // TimeUnit.MICROS.nanos == found).all())
