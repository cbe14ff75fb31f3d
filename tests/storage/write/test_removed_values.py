"""A -D row that removes its row: the next partial row does not inherit deleted values, compacted or not."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from interbed import load_catalog
from interbed.storage.table.table import Table

FIELDS: list[Any] = [
    pa.field("id", pa.int64()),
    pa.field("seq", pa.int64()),
    pa.field("a", pa.string()),
    pa.field("b", pa.string()),
    pa.field("n", pa.int64(), nullable=False),
]
SCHEMA = pa.schema(FIELDS)
PARTIAL = {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"}
AGGREGATE = {
    "merge-engine": "aggregation",
    "aggregation.remove-record-on-delete": "true",
    "fields.a.aggregate-function": "last_non_null_value",
    "fields.b.aggregate-function": "max",
    "fields.n.aggregate-function": "last_value",
    "fields.seq.aggregate-function": "last_value",
}


def rows(*given: tuple[object, ...]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in given], schema=SCHEMA)


def made(path: Path, **options: str) -> Table:
    catalog = load_catalog(warehouse=str(path))
    catalog.create_database("d")
    given = {"bucket": "1", "num-sorted-run.compaction-trigger": "100", **options}
    return catalog.create_table("d.t", SCHEMA, primary_keys=["id"], options=given)


@pytest.mark.parametrize("compacted", list(itertools.product([False, True], repeat=3)), ids=str)
@pytest.mark.parametrize("options", [PARTIAL, {**PARTIAL, "sequence.field": "seq"}, AGGREGATE], ids=["p", "s", "a"])
def test_a_read_does_not_depend_on_compactions(
    tmp_path: Path, options: dict[str, str], compacted: tuple[bool, ...]
) -> None:
    table = made(tmp_path, **options)
    steps: list[Callable[[], object]] = [
        lambda: table.upsert(rows((1, 1, "old", "old", 5), (2, 1, "kept", "kept", 5))),
        lambda: table.delete("id = 1"),
        lambda: table.upsert(rows((1, 2, None, "new", 6))),
    ]
    for step, compact in zip(steps, compacted, strict=True):
        step()
        if compact:
            table.compact()
    assert sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["id"]) == [
        {"id": 1, "seq": 2, "a": None, "b": "new", "n": 6},
        {"id": 2, "seq": 1, "a": "kept", "b": "kept", "n": 5},
    ]


def test_an_input_changelog_has_the_values_of_the_deleted_row(tmp_path: Path) -> None:
    table = made(tmp_path, **PARTIAL, **{"changelog-producer": "input"})
    table.upsert(rows((1, 1, "old", "old", 5)))
    table.delete("id = 1")
    changes = table.changes(1).to_arrow().to_pylist()
    assert [row["a"] for row in changes] == ["old", "old"]
