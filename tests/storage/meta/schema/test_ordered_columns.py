"""Columns by which rows are compared: their types keep the order of values, and options follow new names."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import interbed
from interbed.storage.base.errors import InvalidInputError

OPTIONS: dict[str, dict[str, str]] = {
    "sequence.field": {"sequence.field": "s"},
    "fields.s.sequence-group": {"merge-engine": "partial-update", "fields.s.sequence-group": "v"},
    "fields.s.aggregate-function": {"merge-engine": "aggregation", "fields.s.aggregate-function": "max"},
}


@pytest.mark.parametrize("option", OPTIONS)
def test_a_type_with_another_order_is_refused(option: str, tmp_path: Path) -> None:
    catalog = interbed.load_catalog("lake", warehouse=str(tmp_path))
    catalog.create_database("d")
    values = [pa.field("v", pa.int64()), pa.field("s", pa.int32())]
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False), *values])
    table = catalog.create_table("d.t", schema, primary_keys=["k"], options={"bucket": "1", **OPTIONS[option]})
    rows: list[dict[str, Any]] = [{"k": 1, "v": 10, "s": 10}, {"k": 1, "v": 9, "s": 9}]
    for row in rows:
        table.upsert([row])
    for kind in ("STRING", "SMALLINT"):
        refused = pytest.raises(InvalidInputError, match=rf"'s' can't be changed from INT to {kind}.*'{option}'")
        with refused, table.update_schema() as update:
            update.update_column_type("s", kind)
    with table.update_schema() as update:
        update.update_column_type("s", "BIGINT")
        update.update_column_type("v", "STRING")
    assert [row["s"] for row in catalog.get_table("d.t").to_arrow().to_pylist()] == [10]


def test_the_key_of_nested_rows_follows_their_names(tmp_path: Path) -> None:
    catalog = interbed.load_catalog("lake", warehouse=str(tmp_path))
    catalog.create_database("d")
    element = pa.struct([("id", pa.int32()), ("v", pa.string())])
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("o", pa.list_(element))])
    options = {
        "bucket": "1",
        "write-only": "true",
        "merge-engine": "aggregation",
        "fields.o.aggregate-function": "nested_update",
        "fields.o.nested-key": "id",
    }
    table = catalog.create_table("d.t", schema, primary_keys=["k"], options=options)
    table.append(pa.Table.from_pylist([{"k": 1, "o": [{"id": 1, "v": "a"}, {"id": 2, "v": "b"}]}], schema))
    table.append(pa.Table.from_pylist([{"k": 1, "o": [{"id": 1, "v": "b"}]}], schema))
    with table.update_schema() as update:
        for old, new in (("id", "t"), ("v", "id"), ("t", "v")):
            update.rename_column(["o", "element", old], new)
    assert table.schema.options["fields.o.nested-key"] == "v"
    (row,) = table.to_arrow().to_pylist()
    assert sorted((each["v"], each["id"]) for each in row["o"]) == [(1, "b"), (2, "b")]
