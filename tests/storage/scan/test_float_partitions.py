"""A specification of a partition of FLOAT or DOUBLE names one partition: 0.0 is not -0.0, 0.1 is what was written."""

from pathlib import Path

import pyarrow as pa
import pytest

import interbed

VALUES = (0.0, -0.0, 0.1, -1.5, float("inf"), float("nan"))


def table_of(path: Path, kind: pa.DataType) -> interbed.Table:
    lake = interbed.load_catalog(warehouse=path)
    lake.create_database("d")
    schema = pa.schema([("id", pa.int64()), ("p", kind)])
    table = lake.create_table("d.t", schema, partition_keys=["p"])
    table.append(pa.table([pa.array(range(len(VALUES)), pa.int64()), pa.array(VALUES, kind)], schema=schema))
    return table


def ids(table: interbed.Table) -> list[int]:
    found: list[int] = table.scan().to_arrow().column("id").to_pylist()  # type: ignore[assignment]
    return sorted(found)


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()], ids=str)
@pytest.mark.parametrize("number", range(len(VALUES)), ids=lambda number: str(VALUES[number]))
@pytest.mark.parametrize("form", ["value", "text"])
def test_a_specification_names_one_partition(tmp_path: Path, kind: pa.DataType, number: int, form: str) -> None:
    value: object = VALUES[number]
    if form == "text":
        value = {"inf": "Infinity", "nan": "NaN"}.get(str(value), str(value))
    table = table_of(tmp_path, kind)
    others = [each for each in range(len(VALUES)) if each != number]
    new = pa.table([pa.array([100], pa.int64()), pa.array([VALUES[number]], kind)], names=["id", "p"])
    table.overwrite(new, {"p": value})
    assert ids(table) == [*others, 100]
    table.delete_partitions({"p": value})
    assert ids(table) == others
    table.truncate(partitions=[{"p": VALUES[each]} for each in others[1:]])
    assert ids(table) == others[:1]


def test_a_filter_finds_both_zeros(tmp_path: Path) -> None:
    table = table_of(tmp_path, pa.float64())
    assert table.scan(filter="p = 0").count() == 2
