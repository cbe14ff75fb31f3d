"""A specification names one partition: of two zeros the one of its sign, of a FLOAT the nearest value."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import interbed


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32()])
@pytest.mark.parametrize("spec", [-0.0, 0.0, "-0.0", "0.0", 0])
def test_the_zeros_are_two_partitions(tmp_path: Path, kind: pa.DataType, spec: Any) -> None:
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
