"""Days and times of Parquet files of other programs that count by the hybrid calendar, as Spark 2 and Hive do.

The hybrid calendar is Julian up to 1582-10-04 and Gregorian from 1582-10-15 on. Parquet, Arrow and Paimon count by the
Gregorian calendar alone, so that an older day of such a file is read as another day, up to twelve days off. Timestamps
of a time zone differ up to 1900, because the hybrid calendar of Java takes other offsets for its local mean times.
Files name their writer in the key-value metadata of the footer:

    org.apache.spark.version        hybrid before 3.0, for INT96 before 3.1
    org.apache.spark.legacyDateTime Spark 3 and newer, on request (spark.sql.parquet.datetimeRebaseModeInWrite = LEGACY)
    org.apache.spark.legacyINT96    the same for INT96 (spark.sql.parquet.int96RebaseModeInWrite)
    org.apache.spark.timeZone       the zone of the timestamps of both
    writer.date.proleptic           false: Hive, days

Sources: Spark, DataSourceUtils and RebaseDateTime (SPARK-31404, SPARK-33160); Hive, DataWritableWriter (HIVE-22589).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from interbed.storage.base.errors import NotSupportedError
from interbed.storage.base.types.nested import leaves_of
from interbed.storage.files.format.pages.footer import int96_columns

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
    least = pc.min(values.drop_null().view(numbers)).as_py()
    return 0 if least is None else int(least)
