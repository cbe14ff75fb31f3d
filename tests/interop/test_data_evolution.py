"""Java Paimon and interbed take turns at a table whose columns are in files of their own; both read the same rows."""

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from interbed.storage.base.errors import InvalidInputError
from interbed.storage.lsm.column_groups import row_range_groups
from interbed.storage.table.table import Table
from tests.support.peers.interbed import interbed_table
from tests.support.peers.java import JavaPaimon
from tests.support.peers.pypaimon import PyPaimon

STEPS = 12
COLUMNS: "list[pa.Field[Any]]" = [pa.field("id", pa.int32()), pa.field("v", pa.string()), pa.field("n", pa.int64())]
SCHEMA = pa.schema(COLUMNS)
HIDDEN = ["_ROW_ID", "_SEQUENCE_NUMBER"]
OPTIONS = {"row-tracking.enabled": "true", "data-evolution.enabled": "true", "compaction.min.file-num": "2"}


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_rows_and_ids_are_the_same_after_each_change_of_both(
    java_paimon: JavaPaimon, tmp_path: Path, file_format: str
) -> None:
    of_java = java_paimon.table(tmp_path, "d.t")
    of_java.create([("id", "INT"), ("v", "STRING"), ("n", "BIGINT")], options={**OPTIONS, "file.format": file_format})
    view = java_paimon.table(tmp_path, "d.t$row_tracking")
    chance = random.Random(f"data evolution {file_format}")
    model: dict[Any, list[Any]] = {}
    for step in range(STEPS):
        table = _opened(tmp_path)
        column = chance.choice(["v", "n"])
        value: Any = f"s{step}" if column == "v" else step
        place = SCHEMA.names.index(column)
        kind = chance.choice(
            [
                "append",
                "java append",
                "java columns",
                "java columns",
                "update",
                "update",
                "keys",
                "compact",
                "java compact",
            ]
        )
        if not model or "append" in kind:
            new = [[i, f"v{i}", i * 10] for i in range(len(model), len(model) + chance.randint(1, 5))]
            if kind.startswith("java"):
                of_java.write(new)
            else:
                table.append([dict(zip(SCHEMA.names, row, strict=True)) for row in new])
            model.update({row[0]: row for row in new})
        elif kind == "java columns":
            first, count = chance.choice(_groups(table))
            of_java.write_columns([column], [[value]] * count, first_row_id=first)
            for i in range(first, first + count):
                model[i][place] = value
        elif kind == "update":
            low = chance.choice(sorted(model))
            table.update({column: value}, f"id >= {low} and id < {low + 3}")
            for i in range(low, min(low + 3, len(model))):
                model[i][place] = value
        elif kind == "keys":
            chosen = chance.sample(sorted(model), min(2, len(model)))
            table.update([{"_ROW_ID": i, column: value} for i in chosen], by="_ROW_ID")
            for i in chosen:
                model[i][place] = value
        elif kind == "compact":
            table.compact()
        else:
            of_java.compact()
        table = _opened(tmp_path)
        ours = [list(row.values()) for row in table.scan([*SCHEMA.names, *HIDDEN]).to_arrow().to_pylist()]
        theirs = [[row[0], row[1], *map(int, row[2:])] for row in view.read_table().rows]
        assert sorted(ours) == sorted(theirs), (step, kind)
        assert sorted(row[:4] for row in ours) == [[*row, row[0]] for row in model.values()], (step, kind)
        _, v, n = chance.choice(list(model.values()))
        found = table.scan(["id"], filter=f"v = '{v}' and n = {n}").to_arrow().sort_by("id")["id"].to_pylist()
        assert found == [row[0] for row in model.values() if row[1:] == [v, n]], (step, kind)
        # Java leaves out files by a filter, not single rows.
        assert {row[0] for row in of_java.read(filter=_is("v", v)).rows}.issuperset(found), (step, kind)
        assert table.maintenance.fsck().is_sound


def test_pypaimon_and_rust_read_columns_of_interbed_and_interbed_reads_theirs(
    pypaimon: PyPaimon, tmp_path: Path
) -> None:
    of_python = pypaimon.table(tmp_path, "d.t")
    of_rust = pypaimon.table(tmp_path, "d.t", engine="rust")
    of_python.create([("id", "INT"), ("v", "STRING"), ("n", "BIGINT")], options=OPTIONS)
    model = {i: [i, f"v{i}", i * 10] for i in range(8)}
    of_python.write([model[i] for i in range(5)])
    _opened(tmp_path).append([dict(zip(SCHEMA.names, model[i], strict=True)) for i in range(5, 8)])

    def check() -> None:
        expected = list(model.values())
        columns = [*SCHEMA.names, "_ROW_ID"]
        found = _opened(tmp_path).scan(columns).to_arrow().sort_by("id").to_pylist()
        assert [list(row.values()) for row in found] == [[*row, row[0]] for row in expected]
        assert _opened(tmp_path).maintenance.fsck().is_sound
        for peer in (of_python, of_rust):
            assert sorted(peer.read().rows) == expected

    check()
    _opened(tmp_path).update({"v": "ours"}, "id >= 3 and id < 6")
    for i in (3, 4, 5):
        model[i][1] = "ours"
    check()
    of_python.update(pa.table({"_ROW_ID": pa.array([4, 6], pa.int64()), "n": pa.array([-4, -6], pa.int64())}))
    model[4][2], model[6][2] = -4, -6
    check()
    _opened(tmp_path).update([{"id": 6, "v": "six", "n": 6}], by="id")
    model[6] = [6, "six", 6]
    check()
    _opened(tmp_path).compact()
    check()


def test_rows_that_pypaimon_deletes_are_left_out_and_stay_deleted(pypaimon: PyPaimon, tmp_path: Path) -> None:
    of_python = pypaimon.table(tmp_path, "d.t")
    options = {**OPTIONS, "deletion-vectors.enabled": "true"}
    of_python.create([("id", "INT"), ("v", "STRING"), ("n", "BIGINT")], options=options)
    of_python.write([[i, f"v{i}", i * 10] for i in range(5)])
    of_python.write([[i, f"v{i}", i * 10] for i in range(5, 8)])
    of_python.update(pa.table({"_ROW_ID": pa.array([1, 2], pa.int64()), "v": ["one", "two"]}))
    of_python.delete_ids([0, 2, 6])
    kept = [[1, "one"], [3, "v3"], [4, "v4"], [5, "v5"], [7, "v7"]]

    def rows(condition: str | None = None) -> list[list[Any]]:
        found = _opened(tmp_path).scan(["id", "v"], filter=condition).to_arrow().sort_by("id").to_pylist()
        return [list(row.values()) for row in found]

    assert rows() == kept == sorted(row[:2] for row in of_python.read().rows)
    assert _opened(tmp_path).scan([]).count() == len(kept)
    assert rows("v = 'two' and n = 20") == []
    assert rows("v = 'one' and n = 10") == [[1, "one"]]
    table = _opened(tmp_path)
    assert table.update({"n": 0}, "id <= 2") is not None
    assert table.update({"n": 1}, "id = 2") is None
    with pytest.raises(InvalidInputError, match="_ROW_ID = 6"):
        table.update([{"_ROW_ID": 6, "v": "x"}], by="_ROW_ID")
    table.compact()
    assert rows() == kept == sorted(row[:2] for row in of_python.read().rows)
    assert table.scan(["id"], filter="n = 0").to_arrow()["id"].to_pylist() == [1]
    assert table.delete("v = 'v4' or _ROW_ID = 1") is not None
    assert table.delete("id = 6") is None
    kept = [each for each in kept if each[0] not in (1, 4)]
    assert rows() == kept == sorted(row[:2] for row in of_python.read().rows)
    _opened(tmp_path).update({"v": "last"})
    kept = [[each[0], "last"] for each in kept]
    assert rows() == kept == sorted(row[:2] for row in of_python.read().rows)
    assert _opened(tmp_path).maintenance.fsck().is_sound


def _is(field: str, value: Any) -> dict[str, Any]:
    return {"op": "=", "field": field, "value": value}


def _opened(warehouse: Path) -> Table:
    return interbed_table(warehouse, "d.t").load()


def _groups(table: Table) -> list[tuple[int, int]]:
    """Return the first row id and the number of rows of each row range group."""
    files = [entry.file for entry in table.new_scan().entries()]
    return [(group.first_row_id, group.row_count) for group in row_range_groups(files)]
