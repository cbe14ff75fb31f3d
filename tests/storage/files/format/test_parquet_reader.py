"""Parquet files are read by column names and in bounded batches, and row groups are skipped by their statistics."""

import datetime as dt
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from interbed.storage.base.errors import CorruptFileError, NotSupportedError, StorageAccessError
from interbed.storage.base.predicate.expr import Predicate
from interbed.storage.base.predicate.grammar import parse_filter
from interbed.storage.base.types.data_type import ArrayType, DataField, RowType, parse_atomic
from interbed.storage.files.format.parquet import ParquetReader
from interbed.storage.io.local import LocalFileIO


class _BufferedFileIO(LocalFileIO):
    """Local files as an object store returns them: without a memory map."""

    def open_input(self, path: str) -> pa.NativeFile:
        return pa.OSFile(path, "r")


def _field(name: str, kind: str) -> DataField:
    return DataField(id=0, name=name, type=parse_atomic(kind))


def _read(
    path: Path, fields: list[DataField], *, predicate: Predicate | None = None, batch_rows: int = 100, io: Any = None
) -> list[pa.RecordBatch]:
    found = ParquetReader().positioned(
        str(path), fields, file_io=io or LocalFileIO(), batch_rows=batch_rows, predicate=predicate
    )
    return [batch for _, batch in found]


@pytest.mark.parametrize("io", [LocalFileIO(), _BufferedFileIO()], ids=["mapped", "buffered"])
def test_columns_are_returned_in_the_requested_order_without_missing_ones(tmp_path: Path, io: LocalFileIO) -> None:
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table({"a": [1, 2], "a.b": [3, 4], "c": ["x", "y"]}), path)
    batches = _read(path, [_field("c", "STRING"), _field("none", "INT"), _field("a", "BIGINT")], io=io)
    assert [b.to_pydict() for b in batches] == [{"c": ["x", "y"], "a": [1, 2]}]
    assert [b.num_rows for b in _read(path, [_field("none", "INT")], io=io)] == [2]


def test_batches_are_not_larger_than_requested(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table({"a": range(25)}), path, row_group_size=10)
    batches = _read(path, [_field("a", "BIGINT")], batch_rows=7)
    assert max(b.num_rows for b in batches) == 7
    assert pa.Table.from_batches(batches).column("a").to_pylist() == list(range(25))


@pytest.mark.parametrize(
    ("kind", "values", "condition", "kept"),
    [
        ("BIGINT", list(range(30)), "v >= 20", range(20, 30)),
        ("BIGINT", list(range(30)), "v = 15 or v < 3", range(20)),
        ("BIGINT", list(range(30)), "v > 99", range(0)),
        ("STRING", [f"{i:02d}" for i in range(30)], "v in ('03', '29')", [*range(10), *range(20, 30)]),
        ("DATE", [dt.date(2024, 1, 1 + i) for i in range(30)], "v < DATE '2024-01-05'", range(10)),
        ("DECIMAL(10, 2)", [Decimal(i) for i in range(30)], "v = 5", range(10)),
        ("TIMESTAMP(6)", [dt.datetime(2024, 1, 1 + i) for i in range(30)], "v > TIMESTAMP '2024-01-25 00:00:00'",
         range(20, 30)),
    ],
)  # fmt: skip
def test_row_groups_that_cannot_match_are_skipped(
    tmp_path: Path, kind: str, values: list[Any], condition: str, kept: Any
) -> None:
    path = tmp_path / "f.parquet"
    field = _field("v", kind)
    pq.write_table(pa.table({"v": values, "n": list(range(30))}), path, row_group_size=10)
    batches = _read(path, [_field("n", "BIGINT")], predicate=parse_filter(condition, [field]))
    assert [n for b in batches for n in b.column("n").to_pylist()] == list(kept)


def test_int96_timestamps_are_read_and_not_used_for_pruning(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    times = pa.array([0, 1_709_210_096_123_456_789], pa.timestamp("ns"))
    pq.write_table(pa.table({"v": times}), path, use_deprecated_int96_timestamps=True)
    field = _field("v", "TIMESTAMP(9)")
    batches = _read(path, [field], predicate=parse_filter("v > TIMESTAMP '2030-01-01 00:00:00'", [field]))
    assert pa.Table.from_batches(batches).column("v").cast(pa.int64()).to_pylist() == [0, 1_709_210_096_123_456_789]


def test_int96_is_distinguished_from_other_timestamps_in_the_same_file(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    near, number = dt.datetime(2024, 1, 1), pa.timestamp("us")
    kind = pa.struct([("b", pa.int64()), ("a", number), ("c", pa.binary(12))])
    rows = pa.table(
        {"v": pa.array([{"b": 1, "a": near, "c": b"x" * 12}, None, {"b": None, "a": None, "c": None}], kind)}
    )
    pq.write_table(rows, path, use_deprecated_int96_timestamps=True)
    fields = (
        DataField(id=1, name="b", type=parse_atomic("BIGINT")),
        DataField(id=2, name="a", type=parse_atomic("TIMESTAMP(9)")),
        DataField(id=3, name="c", type=parse_atomic("BINARY(12)")),
    )
    found = pa.Table.from_batches(_read(path, [DataField(id=0, name="v", type=RowType(fields))]))
    assert [value and value["c"] for value in found.column("v").to_pylist()] == [b"x" * 12, None, None]


def test_a_system_error_is_not_reported_as_damage(tmp_path: Path) -> None:
    with pytest.raises(StorageAccessError, match=str(tmp_path)):
        _read(tmp_path, [_field("v", "INT")])


def test_dictionary_encoded_strings_of_java_are_read_as_strings(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    values = [None if n % 7 == 3 else "äbc"[: n % 4] * (n // 40) for n in range(250)]
    rows = pa.table({"t": values, "n": range(250), "y": [value and value.encode() for value in values]})
    # The names of encodings of Parquet version 1, which Java writes.
    pq.write_table(rows, path, row_group_size=60, version="1.0")
    assert "PLAIN_DICTIONARY" in pq.read_metadata(path).row_group(0).column(0).encodings
    batches = _read(path, [_field("t", "STRING"), _field("n", "BIGINT"), _field("y", "BYTES")])
    assert pa.Table.from_batches(batches).equals(rows)
    assert max(batch.num_rows for batch in batches) <= 100


def test_a_dictionary_code_out_of_range_is_reported_as_damage(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    texts = ["a", "b", *["c"] * 6, *["c"] * 5000]
    pq.write_table(pa.table({"t": texts}), path, version="1.0", compression="none")
    content = path.read_bytes()
    run = b"\x90\x4e\x02"  # 5,000 times the code 2
    assert content.count(run) == 1
    path.write_bytes(content.replace(run, b"\x90\x4e\x03"))
    with pytest.raises(CorruptFileError, match=r"f\.parquet"):
        _read(path, [_field("t", "STRING")], batch_rows=10_000)


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize(
    "far", [dt.datetime(9999, 12, 31), dt.datetime(2300, 1, 1), dt.datetime(1600, 1, 1), dt.datetime(1, 1, 1)]
)
def test_int96_timestamps_out_of_the_range_of_nanoseconds_are_refused(
    tmp_path: Path, nested: bool, far: dt.datetime
) -> None:
    path = tmp_path / "f.parquet"
    near = [dt.datetime(2024, 1, 1), None, dt.datetime(1915, 11, 3, 11, 25, 3, 876543), dt.datetime(2262, 4, 11)] * 70
    number, times = _field("n", "BIGINT"), _field("v", "TIMESTAMP(9)")
    if nested:
        times = replace(times, type=ArrayType(element=times.type))

    def written(values: list[dt.datetime | None]) -> list[Any]:
        held = [[value, None] for value in values] if nested else values
        kind = pa.list_(pa.timestamp("us")) if nested else pa.timestamp("us")
        rows = pa.table({"n": range(280), "v": pa.array(held, kind)})
        pq.write_table(rows, path, use_deprecated_int96_timestamps=True, row_group_size=150)
        return held

    held = written(near)
    found = pa.Table.from_batches(_read(path, [number, times]))
    kind: pa.DataType = pa.list_(pa.timestamp("us")) if nested else pa.timestamp("us")
    assert found.cast(pa.schema([("n", pa.int64()), ("v", kind)])).to_pydict()["v"] == held
    written([*near[:-1], far])
    with pytest.raises(NotSupportedError, match=rf"{path} has timestamps in the column 'v' before 1678 or after 2261"):
        _read(path, [number, times])
    assert pa.Table.from_batches(_read(path, [number])).num_rows == 280
