"""Tables that switch deletion vectors on and off: no read misses a row, or returns an old one."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from interbed import load_catalog
from interbed.catalog.client.api import Catalog
from interbed.storage.base.errors import InvalidOptionError
from interbed.storage.meta.schema.change import RemoveOption, SetOption
from interbed.storage.table.table import Table

VECTORS = "deletion-vectors.enabled"
OPTIONS = [
    {"bucket": "2"},
    {"bucket": "-1"},
    {"bucket": "1", "file.format": "avro"},
    {"bucket": "-2"},
]


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    made = load_catalog(warehouse=str(tmp_path))
    made.create_database("d")
    return made


def rows_of(table: Table, snapshot_id: int | None = None) -> dict[int, str]:
    rows = table.scan(snapshot_id=snapshot_id).to_arrow()
    assert rows.num_rows == len(set(rows["id"].to_pylist()))
    return {row["id"]: row["v"] for row in sorted(rows.to_pylist(), key=lambda row: row["id"])}


def made(catalog: Catalog, **options: str) -> Table:
    columns: list[Any] = [("id", pa.int64()), ("v", pa.string())]
    schema = pa.schema(columns)
    given = {"deletion-vectors.modifiable": "true", **options}
    return catalog.create_table("d.t", schema, primary_keys=["id"], options=given)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_switching_an_uncompacted_table_is_refused(catalog: Catalog, options: dict[str, str]) -> None:
    table = made(catalog, **options)
    table.upsert(pa.table({"id": [1, 2], "v": ["a", "b"]}))
    table.compact()
    table.upsert(pa.table({"id": [2, 3], "v": ["x", "c"]}))
    expected = {1: "a", 2: "x", 3: "c"}
    with pytest.raises(InvalidOptionError, match=r"can't be switched on yet: \d of \d buckets .*compact --full"):
        catalog.alter_table("d.t", [SetOption(VECTORS, "true")])
    table.compact(full=True)
    before = [s.id for s in table.snapshots()]
    known = {id_: rows_of(table, id_) for id_ in before}
    catalog.alter_table("d.t", [SetOption(VECTORS, "true")])
    table = catalog.get_table("d.t")
    assert rows_of(table) == expected
    table.upsert(pa.table({"id": [1], "v": ["z"]}))
    table.delete("id = 3")
    table.compact()
    assert rows_of(table) == {1: "z", 2: "x"}
    # Snapshots before the switch are read as they were written.
    assert {id_: rows_of(table, id_) for id_ in before} == known
    catalog.alter_table("d.t", [RemoveOption(VECTORS)])
    table = catalog.get_table("d.t")
    assert rows_of(table) == {1: "z", 2: "x"}
    table.upsert(pa.table({"id": [4], "v": ["d"]}))
    assert rows_of(table) == {1: "z", 2: "x", 4: "d"}
    table.compact(full=True)
    assert rows_of(table) == {1: "z", 2: "x", 4: "d"}
    assert {id_: rows_of(table, id_) for id_ in before} == known


def test_switching_by_a_dynamic_option_is_refused(catalog: Catalog) -> None:
    table = made(catalog, bucket="1")
    table.upsert(pa.table({"id": [1], "v": ["a"]}))
    with pytest.raises(InvalidOptionError, match="is part of the table's layout and can't be set dynamically"):
        table.copy({VECTORS: "true"})
    catalog.drop_table("d.t")
    table = made(catalog, bucket="1", **{VECTORS: "true"})
    for value in ("false", None):
        with pytest.raises(InvalidOptionError, match="is part of the table's layout"):
            table.copy({VECTORS: value})


def test_an_empty_table_can_switch(catalog: Catalog) -> None:
    made(catalog, bucket="1")
    catalog.alter_table("d.t", [SetOption(VECTORS, "true")])
    table = catalog.get_table("d.t")
    table.upsert(pa.table({"id": [1], "v": ["a"]}))
    assert rows_of(table) == {1: "a"}
