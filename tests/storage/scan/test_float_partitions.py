"""A specification of a FLOAT or DOUBLE partition names exactly one partition: 0.0 is not -0.0, 0.1 is the written
value.
"""

from pathlib import Path
from typing import Any

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
def test_a_specification_names_exactly_one_partition(tmp_path: Path, kind: pa.DataType, number: int, form: str) -> None:
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


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32()])
@pytest.mark.parametrize("spec", [-0.0, 0.0, "-0.0", "0.0", 0])
def test_zeros_of_both_signs_are_two_partitions(tmp_path: Path, kind: pa.DataType, spec: Any) -> None:
    catalog = interbed.load_catalog("lake", warehouse=str(tmp_path))
    catalog.create_database("d")
    fields: list[pa.Field[Any]] = [pa.field("p", kind), pa.field("id", pa.int64())]
    table = catalog.create_table("d.t", pa.schema(fields), partition_keys=["p"])
    negative = str(spec).startswith("-")

    def rows() -> list[tuple[str, int]]:
        return sorted((str(row["p"]), row["id"]) for row in table.scan().to_arrow().to_pylist())

    table.append([{"p": 0.0, "id": 1}, {"p": -0.0, "id": 2}, {"p": 0.1, "id": 3}])
    before = rows()
    table.overwrite([{"p": float(spec), "id": 9}], {"p": spec})
    gone, name = (2, "-0.0") if negative else (1, "0.0")
    assert rows() == sorted([*(row for row in before if row[1] != gone), (name, 9)])
    table.delete_partitions({"p": spec})
    assert rows() == [row for row in before if row[1] != gone]
    table.delete_partitions({"p": 0.1})
    assert [number for _, number in rows()] == [1 if negative else 2]
