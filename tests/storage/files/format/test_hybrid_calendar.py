"""Days and times of the hybrid calendar in Parquet files of Spark 2 and Hive."""

from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from interbed.storage.base.errors import NotSupportedError
from interbed.storage.files.format.hybrid_calendar import hybrid_calendar

SPARK_2 = {"org.apache.spark.version": "2.4.8"}
SPARK_3_0 = {"org.apache.spark.version": "3.0.3"}
DAYS_OF_SPARK_4 = {"org.apache.spark.version": "4.1.4", "org.apache.spark.legacyDateTime": ""}
INT96_OF_SPARK_4 = {"org.apache.spark.version": "4.1.4", "org.apache.spark.legacyINT96": ""}
UTC = {**DAYS_OF_SPARK_4, "org.apache.spark.timeZone": "UTC"}
SHANGHAI = {**DAYS_OF_SPARK_4, "org.apache.spark.timeZone": "Asia/Shanghai"}
HIVE = {"writer.model.name": "3.1.3", "writer.date.proleptic": "false"}

DAY, MICROS, MILLIS, NANOS = pa.date32(), pa.timestamp("us", "UTC"), pa.timestamp("ms", "UTC"), pa.timestamp("ns")
OF_1582, OF_1900 = datetime(1582, 10, 15), datetime(1900, 1, 1)

HYBRID: dict[str, tuple[dict[str, str], pa.DataType, Any]] = {
    "days of Spark 2": (SPARK_2, DAY, OF_1582.date()),
    "days of Spark 4": (DAYS_OF_SPARK_4, DAY, OF_1582.date()),
    "days of Hive": (HIVE, DAY, OF_1582.date()),
    "timestamps of Spark 2": (SPARK_2, MICROS, OF_1900),
    "milliseconds of Spark 2": (SPARK_2, MILLIS, OF_1900),
    "timestamps of a zone": (SHANGHAI, MICROS, OF_1900),
    "timestamps of UTC": (UTC, MICROS, OF_1582),
    "INT96 of Spark 2": (SPARK_2, NANOS, OF_1900),
    "INT96 of Spark 3.0": (SPARK_3_0, NANOS, OF_1900),
    "INT96 of Spark 4": (INT96_OF_SPARK_4, NANOS, OF_1900),
}
GREGORIAN: dict[str, tuple[dict[str, str], pa.DataType, Any]] = {
    "days of Spark 3.0": (SPARK_3_0, DAY, date(1500, 3, 1)),
    "days beside INT96": (INT96_OF_SPARK_4, DAY, date(1500, 3, 1)),
    "days of newer Hive": ({"writer.date.proleptic": "true"}, DAY, date(1500, 3, 1)),
    "days of an unknown writer": ({}, DAY, date(1500, 3, 1)),
    "a version without numbers": ({"org.apache.spark.version": "new"}, DAY, date(1500, 3, 1)),
    "timestamps of Hive": (HIVE, MICROS, datetime(1500, 3, 1)),
    "timestamps without a zone": (SPARK_2, pa.timestamp("us"), datetime(1500, 3, 1)),
    "INT96 of Spark 3.1": ({"org.apache.spark.version": "3.1.0"}, NANOS, datetime(1800, 3, 1)),
    "INT96 beside days": (DAYS_OF_SPARK_4, NANOS, datetime(1800, 3, 1)),
}


def check(path: Path, values: list[Any], kind: pa.DataType, writer: dict[str, str], nested: bool = False) -> None:
    """Check a file that a program wrote, with the values as they are or in rows within lists."""
    column: Any = pa.array(values, kind)
    if nested:
        rows = pa.StructArray.from_arrays([column], names=["a"])
        column = pa.ListArray.from_arrays([0, *[len(values)] * len(values)], rows)
    rows_of_file = pa.table({"n": pa.array(range(len(values)), pa.int32()), "x.y": column})
    # Spark keeps its timestamps in INT96 by default.
    is_int96 = kind == NANOS
    pq.write_table(rows_of_file.replace_schema_metadata(writer), path, use_deprecated_int96_timestamps=is_int96)
    with pq.ParquetFile(path) as file:
        calendar = hybrid_calendar(file)
        for batch in file.iter_batches():
            if calendar is not None:
                calendar.check(batch, "f.parquet")


@pytest.mark.parametrize("found", HYBRID)
@pytest.mark.parametrize("nested", [False, True], ids=["plain", "nested"])
def test_values_before_the_calendars_agree_are_refused(tmp_path: Path, found: str, nested: bool) -> None:
    writer, kind, first = HYBRID[found]
    step = timedelta(days=1) if kind == DAY else timedelta(milliseconds=1)
    check(tmp_path / "f", [first, None, first + step], kind, writer, nested)
    with pytest.raises(NotSupportedError, match=f"'x.y' of the file f.parquet has .* before {first:%Y-%m-%d}, and"):
        check(tmp_path / "f", [None, first, first - step], kind, writer, nested)


@pytest.mark.parametrize("found", GREGORIAN)
def test_old_values_of_the_gregorian_calendar_are_read(tmp_path: Path, found: str) -> None:
    writer, kind, old = GREGORIAN[found]
    check(tmp_path / "f", [old, None], kind, writer)
