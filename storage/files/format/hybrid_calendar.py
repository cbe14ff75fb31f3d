"""Timestamps of Parquet and ORC files of other programs: those of the hybrid calendar, and those of INT96.

Days and times of Parquet and ORC files of Spark 2 and Hive count by the hybrid calendar. The hybrid calendar is Julian
up to 1582-10-04 and Gregorian from 1582-10-15 on. Parquet, Arrow and Paimon count by the Gregorian calendar alone, so
that an older day of such a file is read as another day, up to twelve days off. Timestamps of a time zone differ up to
1900, because the hybrid calendar of Java takes other offsets for its local mean times. Parquet files name their writer
in the key-value metadata of the footer:

    org.apache.spark.version        hybrid before 3.0, for INT96 before 3.1
    org.apache.spark.legacyDateTime Spark 3 and newer, on request (spark.sql.parquet.datetimeRebaseModeInWrite = LEGACY)
    org.apache.spark.legacyINT96    the same for INT96 (spark.sql.parquet.int96RebaseModeInWrite)
    org.apache.spark.timeZone       the zone of the timestamps of both
    writer.date.proleptic           false: Hive, days

Sources: Spark, DataSourceUtils and RebaseDateTime (SPARK-31404, SPARK-33160); Hive, DataWritableWriter (HIVE-22589).

Java's ORC writer counts days by the hybrid calendar by default, as Hive and all versions of Spark do. The tail of the
file says so, or nothing; other writers count by the Gregorian calendar. Arrow reads the numbers as they are. Paimon's
own data files have Gregorian days whatever their footer says, so that they are not checked.

    end of the file   footer | postscript | one byte: the length of the postscript
    postscript        1 length of the footer, 2 compression
    footer            9 writer (0 or none: Java), 11 calendar (1 or none: hybrid, 2: Gregorian)

Both are messages of Protocol Buffers. Sources: ORC specification v1, file tail and compression; orc_proto.proto.

Spark and Hive write timestamps in Parquet files as INT96 by default. A value has 64 bits for the nanoseconds of the
day, which Java has below zero before 1970, and 32 bits for the Julian day. Arrow converts it to nanoseconds, which 64
bits hold from 1677 to 2262 only, and returns other days for values beyond them without an error. Only the stored values
show whether there are any. So they are read as bytes (pages/footer.py) and compared. Source: parquet-format,
LogicalTypes (INT96); Paimon, ParquetRowDataWriter.
"""

import os
import re
import sys
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import numpy as np
import pyarrow as pa

from interbed.storage.base.arrow_values import to_numpy
from interbed.storage.base.checksums import footer_of, metadata_of
from interbed.storage.base.errors import CorruptFileError, NotSupportedError
from interbed.storage.base.types.nested import leaves_of
from interbed.storage.files.format.pages.footer import INT96_BYTES, footer_with_bytes, int96_columns

if TYPE_CHECKING:
    import pyarrow.parquet as pq

_FIRST_DAY = -141_427
"""1582-10-15, the first day that both calendars count alike, in days since 1970-01-01."""
_SECONDS_OF_A_DAY = 86_400
_FIRST_SECOND = _FIRST_DAY * _SECONDS_OF_A_DAY
_FIRST_SECOND_OF_ZONES = -2_208_988_800
"""1900-01-01 in UTC, from which on the offsets of all zones are alike."""
_PER_SECOND: Final[Mapping[str, int]] = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_UTC = frozenset({"UTC", "GMT", "Z", "Etc/UTC", "Etc/GMT"})

_VERSION = b"org.apache.spark.version"
_ZONE = b"org.apache.spark.timeZone"


@dataclass(frozen=True, slots=True, kw_only=True)
class HybridCalendar:
    """Parts of a file that count by the hybrid calendar, and the first second at which its timestamps agree."""

    days: bool
    timestamps: bool
    int96: frozenset[str]
    first_second: int
    way_out: str = (
        "Write the file again by Spark 3 or newer, with spark.sql.parquet.datetimeRebaseModeInWrite and "
        "spark.sql.parquet.int96RebaseModeInWrite = CORRECTED."
    )

    @staticmethod
    def of_days(way_out: str) -> "HybridCalendar":
        """Return the calendar of a file in which days alone are of the hybrid calendar."""
        return HybridCalendar(
            days=True, timestamps=False, int96=frozenset(), first_second=_FIRST_SECOND, way_out=way_out
        )

    def check(self, batch: pa.RecordBatch, path: str) -> None:
        """Raise NotSupportedError for a value that is another day or time in Paimon's calendar."""
        for name in batch.schema.names:
            for _, values in leaves_of(name, batch.column(name)):
                if self._differs(name, values):
                    kind, first = ("days", "1582-10-15") if pa.types.is_date(values.type) else self._bound()
                    raise NotSupportedError(
                        f"The column {name!r} of the file {path} has {kind} before {first}, and its writer counted "
                        "them by the hybrid calendar of Spark 2 and Hive: here they would be other ones. "
                        f"{self.way_out}"
                    )

    def _bound(self) -> tuple[str, str]:
        return "timestamps", "1582-10-15" if self.first_second == _FIRST_SECOND else "1900-01-01"

    def _differs(self, column: str, values: "pa.Array[Any]") -> bool:
        kind: Any = values.type
        if pa.types.is_date32(kind):
            return self.days and _least(values, pa.int32()) < _FIRST_DAY
        if not pa.types.is_timestamp(kind):
            return False
        # Spark writes a TIMESTAMP_NTZ unchanged in every mode.
        is_hybrid = self.timestamps if kind.tz is not None else column in self.int96
        return is_hybrid and _least(values, pa.int64()) < self.first_second * _PER_SECOND[kind.unit]


def hybrid_calendar(file: "pq.ParquetFile") -> HybridCalendar | None:
    """Return the parts of a file that count by the hybrid calendar; None for a file without any."""
    known: Mapping[bytes, bytes] = file.metadata.metadata or {}
    version = _version(known.get(_VERSION))
    of_spark = version is not None and (version < (3, 0) or b"org.apache.spark.legacyDateTime" in known)
    of_int96 = version is not None and (version < (3, 1) or b"org.apache.spark.legacyINT96" in known)
    found = HybridCalendar(
        days=of_spark or known.get(b"writer.date.proleptic", b"").lower() == b"false",
        timestamps=of_spark,
        int96=int96_columns(file.metadata, file.schema_arrow) if of_int96 else frozenset(),
        first_second=_FIRST_SECOND
        if known.get(_ZONE, b"").decode(errors="replace") in _UTC
        else _FIRST_SECOND_OF_ZONES,
    )
    return found if found.days or found.timestamps or found.int96 else None


def _version(text: bytes | None) -> tuple[int, int] | None:
    found = re.match(rb"(\d+)\.(\d+)", text or b"")
    return (int(found[1]), int(found[2])) if found is not None else None


def _least(values: "pa.Array[Any]", numbers: pa.DataType) -> int:
    # By use: readers of INT96 load this module, and most of them need no least value.
    import pyarrow.compute as pc

    least = pc.min(values.drop_null().view(numbers)).as_py()
    return 0 if least is None else int(least)


if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_FOOTER_LENGTH, _COMPRESSION = 1, 2
_WRITER, _CALENDAR = 9, 11
_GREGORIAN = 2
_NONE, _ZLIB, _SNAPPY, _LZ4, _ZSTD = 0, 1, 2, 4, 5
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED = {_FIXED64: 8, _FIXED32: 4}


def orc_calendar(path: str) -> HybridCalendar | None:
    """Return the parts of a local ORC file that count by the hybrid calendar; None for a file without any.

    Raises CorruptFileError for a tail that can't be read.
    """
    try:
        footer = dict(_numbers(_footer(path)))
    except (ValueError, IndexError, KeyError, zlib.error, zstd.ZstdError, pa.ArrowException) as error:
        raise CorruptFileError(f"The ORC file {path} has no readable footer: {error!r}.") from error
    if footer.get(_WRITER, 0) or footer.get(_CALENDAR) == _GREGORIAN:
        return None
    return HybridCalendar.of_days("Write the file again as Parquet by Spark 3 or newer.")


def _footer(path: str) -> bytes:
    with open(path, "rb") as file:
        end = file.seek(0, os.SEEK_END) - 1
        length = _read(file, end, 1)[0]
        postscript = dict(_numbers(_read(file, end - length, length)))
        size = postscript[_FOOTER_LENGTH]
        footer = _read(file, end - length - size, size)
    kind = postscript.get(_COMPRESSION, _NONE)
    return footer if kind == _NONE else b"".join(_blocks(footer, kind))


def _read(file: BinaryIO, start: int, length: int) -> bytes:
    if start < 0:
        raise ValueError("it is too short")
    file.seek(start)
    return file.read(length)


def _blocks(content: bytes, kind: int) -> Iterator[bytes]:
    """Decompress the blocks; each begins with its length in three bytes, the lowest bit of which marks plain bytes."""
    at = 0
    while at < len(content):
        head = int.from_bytes(content[at : at + 3], "little")
        block = content[at + 3 : at + 3 + (head >> 1)]
        at += 3 + len(block)
        if head & 1:
            yield block
        elif kind == _ZLIB:
            yield zlib.decompress(block, -zlib.MAX_WBITS)
        elif kind == _ZSTD:
            yield zstd.decompress(block)
        elif kind == _SNAPPY:
            size, _ = _varint(block, 0)
            yield pa.decompress(block, size, "snappy").to_pybytes()
        elif kind == _LZ4:
            yield pa.decompress(block, _lz4_size(block), "lz4_raw").to_pybytes()
        else:
            raise ValueError(f"compression {kind} is unknown")


def _lz4_size(block: bytes) -> int:
    """Return the number of bytes that an LZ4 block decompresses to: its literals and its matches."""
    size = at = 0
    while at < len(block):
        token = block[at]
        literals, at = _lz4_length(block, at + 1, token >> 4)
        size += literals
        at += literals
        if at < len(block):
            matched, at = _lz4_length(block, at + 2, token & 15)
            size += matched + 4
    return size


def _lz4_length(block: bytes, at: int, length: int) -> tuple[int, int]:
    """Return a length of which four bits are known, and the position after its further bytes."""
    more = 255 if length == 15 else 0
    while more == 255:
        more = block[at]
        length += more
        at += 1
    return length, at


def _numbers(message: bytes) -> Iterator[tuple[int, int]]:
    """Yield the fields of a message that are numbers, by their own number."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        number, kind = key >> 3, key & 7
        if kind == _VARINT:
            value, at = _varint(message, at)
            yield number, value
        elif kind == _BYTES:
            size, at = _varint(message, at)
            at += size
        else:
            at += _FIXED[kind]


def _varint(content: bytes, at: int) -> tuple[int, int]:
    """Return a number of variable length, and the position after it."""
    value = shift = 0
    while True:
        byte = content[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


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
