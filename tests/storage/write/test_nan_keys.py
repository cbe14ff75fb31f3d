"""NaN in keys and partitions: one value, whatever its bits are, as a processor makes others than programs."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from click.testing import CliRunner

import interbed
from interbed.cli import main

DOUBLES = np.array([0x7FF8000000000000, 0xFFF8000000000000, 0x7FF8000000000001], np.uint64).view(np.float64)
FLOATS = np.array([0x7FC00000, 0xFFC00000, 0x7FC00001], np.uint32).view(np.float32)


def table_of(path: Path, kind: pa.DataType, keys: list[str], **arguments: Any) -> interbed.Table:
    catalog = interbed.load_catalog(warehouse=str(path))
    catalog.create_database("d")
    schema = pa.schema([("k", kind), ("n", pa.int32())])
    return catalog.create_table("d.t", schema, primary_keys=keys, **arguments)


@pytest.mark.parametrize("values", [DOUBLES, FLOATS], ids=["DOUBLE", "FLOAT"])
def test_a_key_of_nan_is_in_one_bucket(tmp_path: Path, values: npt.NDArray[Any]) -> None:
    kind = pa.from_numpy_dtype(values.dtype)
    table = table_of(tmp_path, kind, ["k"], options={"bucket": "16"})
    for number, value in enumerate(values):
        table.upsert(pa.table({"k": pa.array(np.array([value])), "n": pa.array([number], pa.int32())}))
    [row] = table.scan().to_arrow().to_pylist()
    assert math.isnan(row["k"])
    assert row["n"] == len(values) - 1
    assert table.get_many(pa.array(values), columns=["n"])["n"].to_pylist() == [row["n"]] * len(values)
    assert table.get(float("nan"), columns=["n"]) == {"n": row["n"]}
    table.delete("k = 'NaN'")
    assert table.count() == 0


@pytest.mark.parametrize("options", [{}, {"deletion-vectors.enabled": "true"}], ids=["merged", "vectors"])
def test_rows_of_another_nan_are_deleted_and_updated_in_their_buckets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, str]
) -> None:
    table = table_of(tmp_path, pa.float64(), ["k"], options={"bucket": "16", **options})
    with monkeypatch.context() as other_writer:
        other_writer.setattr("interbed.storage.write.row_converter.one_nan", lambda values: values)
        for number, value in enumerate([DOUBLES[1], DOUBLES[2]]):
            table.upsert(pa.table({"k": pa.array(np.array([value])), "n": pa.array([number], pa.int32())}))
    assert numbers(table) == [0, 1]
    for statement in ("UPDATE d.t SET n = n + 10 WHERE k = 'NaN'", "DELETE FROM d.t WHERE n = 10"):
        result = CliRunner().invoke(main, ["-o", f"warehouse={tmp_path}", "sql", statement])
        assert result.exit_code == 0, result.output
    assert numbers(table) == [11]
    table.delete("k = 'NaN'")
    assert table.count() == 0


@pytest.mark.parametrize("options", [{}, {"bucket": "16", "bucket-key": "n"}], ids=["unaware", "by another column"])
def test_a_partition_of_nan_is_one(tmp_path: Path, options: dict[str, str]) -> None:
    table = table_of(tmp_path, pa.float64(), [], partition_keys=["k"], options=options)
    for number, value in enumerate([*DOUBLES, 0.5]):
        table.append(pa.table({"k": pa.array(np.array([value])), "n": pa.array([number], pa.int32())}))
    table.append(pa.table({"k": pa.array([None], pa.float64()), "n": pa.array([9], pa.int32())}))
    assert len({entry["partition"] for entry in partitions(table)}) == 3
    assert numbers(table, "k = 'NaN'") == [0, 1, 2]
    table.overwrite(pa.table({"k": pa.array(DOUBLES[1:2]), "n": pa.array([7], pa.int32())}))
    assert numbers(table) == [3, 7, 9]


def numbers(table: interbed.Table, condition: str | None = None) -> list[int]:
    found: list[Any] = table.scan(["n"], condition).to_arrow()["n"].to_pylist()
    return sorted(found)


def partitions(table: interbed.Table) -> list[dict[str, Any]]:
    catalog = interbed.load_catalog(warehouse=str(Path(table.location.removeprefix("file:")).parents[1]))
    shown: Any = catalog.get_table("d.t$partitions")
    rows: list[dict[str, Any]] = shown.scan().to_arrow().to_pylist()
    return rows
