"""Timestamps of INT96 in Parquet files of other programs are returned as they are stored, or refused."""

import struct
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from interbed.storage.base.errors import NotSupportedError
from interbed.storage.files.format.hybrid_calendar import open_foreign

EPOCH = datetime(1970, 1, 1)
DAYS = (1, 1600, 1677, 1678, 1969, 1970, 2024, 2262, 2263, 9999)
TIMES = [datetime(year, 3, 4, 5, 6, 7, micros) for year in DAYS for micros in (0, 1, 999_999)]


def micros(time: datetime | None) -> int | None:
    return None if time is None else (time - EPOCH) // timedelta(microseconds=1)


def written(path: Path, times: list[datetime | None], nested: bool = False) -> None:
    values: list[Any] = [micros(time) for time in times]
    kind: pa.DataType = pa.timestamp("us")
    column = pa.array([[value, None] for value in values], pa.list_(kind)) if nested else pa.array(values, kind)
    rows = pa.table({"n": range(len(values)), "t": column})
    pq.write_table(rows, path, use_deprecated_int96_timestamps=True, row_group_size=2)


def read(path: Path) -> tuple[str, list[Any]]:
    """Return the unit of the column, and its values in microseconds."""
    with open_foreign(str(path)) as file:
        column: Any = file.read().column("t")
    if pa.types.is_list(column.type):
        column = pa.chunked_array([chunk.flatten().drop_null() for chunk in column.chunks])
    values = column.cast(pa.timestamp("us")).cast(pa.int64()).to_pylist()
    return column.type.unit, values


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("time", TIMES)
def test_every_day_is_read_as_it_is_stored(tmp_path: Path, time: datetime, nested: bool) -> None:
    path = tmp_path / "f.parquet"
    written(path, [datetime(2024, 1, 1), None, datetime(1999, 1, 1), time], nested)
    is_near = datetime(1678, 1, 1) <= time < datetime(2262, 1, 1)
    unit, values = read(path)
    expected = [micros(datetime(2024, 1, 1)), None, micros(datetime(1999, 1, 1)), micros(time)]
    assert values == [value for value in expected if value is not None or not nested]
    if is_near:
        assert unit == "ns"


def test_nanoseconds_are_kept_unless_a_day_is_out_of_their_range(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    fine = pa.array([1_234_567_891_234_567_891, -1], pa.timestamp("ns"))
    pq.write_table(pa.table({"t": fine}), path, use_deprecated_int96_timestamps=True)
    with open_foreign(str(path)) as file:
        assert file.read().column("t").cast(pa.int64()).to_pylist() == [1_234_567_891_234_567_891, -1]
    far = pa.array([micros(datetime(9999, 12, 31)), 0], pa.timestamp("us"))
    pq.write_table(pa.table({"t": fine, "far": far}), path, use_deprecated_int96_timestamps=True)
    with pytest.raises(NotSupportedError, match=r"f\.parquet has timestamps of INT96 in the column 't'"):
        read(path)


def test_nanoseconds_of_the_day_below_zero_are_read_or_refused(tmp_path: Path) -> None:
    """Java writes them before 1970; Arrow's microseconds of such a value are of another day."""
    path = tmp_path / "f.parquet"
    time, day = datetime(1969, 12, 31, 23, 59, 59, 999_999), 2_440_588
    for times in ([time], [time, datetime(9999, 12, 31)]):
        table = pa.table({"t": pa.array([micros(each) for each in times], pa.timestamp("us"))})
        pq.write_table(
            table, path, use_deprecated_int96_timestamps=True, use_dictionary=False, compression="none", version="1.0"
        )
        stored = struct.pack("<qi", 86_400_000_000_000 - 1000, day - 1)
        assert path.read_bytes().count(stored) == 1
        path.write_bytes(path.read_bytes().replace(stored, struct.pack("<qi", -1000, day)))
        if len(times) == 1:
            assert read(path) == ("ns", [-1])
        else:
            with pytest.raises(NotSupportedError, match="INT96"):
                read(path)


def test_columns_with_dots_and_bytes_of_the_same_length_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    far = pa.array([micros(datetime(9999, 12, 31)), None], pa.timestamp("us"))
    kind = pa.struct([("t", pa.timestamp("us")), ("b", pa.binary(12))])
    rows = pa.array([{"t": datetime(2024, 1, 1), "b": b"x" * 12}, None], kind)
    pq.write_table(
        pa.table({"a": rows, "a.t": far, "b": pa.array([b"y" * 12, None], pa.binary(12))}),
        path,
        use_deprecated_int96_timestamps=True,
    )
    with open_foreign(str(path)) as file:
        found = file.read()
    assert found.column("a.t").cast(pa.int64()).to_pylist() == [micros(datetime(9999, 12, 31)), None]
    assert found.column("a").to_pylist() == [{"t": datetime(2024, 1, 1), "b": b"x" * 12}, None]
    assert found.column("b").to_pylist() == [b"y" * 12, None]
