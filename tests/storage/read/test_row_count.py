"""Rows are counted before they are read where that is cheap, with the same result as a scan."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from interbed import load_catalog
from interbed.storage.read.pushdown import quick_count
from interbed.storage.table.table import Table

MANY = 1 << 30
KEYS: dict[str, pa.DataType] = {
    "int64": pa.int64(),
    "int16": pa.int16(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "text": pa.string(),
}
Create = Callable[..., Table]


@pytest.fixture
def create(tmp_path: Path) -> Create:
    """Creates a table with columns `id` (of the given type) and `value`, one bucket and the given options."""
    catalog = load_catalog(warehouse=str(tmp_path))
    catalog.create_database("db")

    def made(key: str = "int64", options: dict[str, str] | None = None) -> Table:
        schema = pa.schema((pa.field("id", KEYS[key], nullable=False), pa.field("value", pa.int64())))
        given = {"bucket": "1", "write-only": "true", **(options or {})}
        return catalog.create_table("db.t", schema, primary_keys=["id"], options=given)

    return made


def _rows(table: Table, ids: range) -> pa.Table:
    key = table.arrow_schema.field("id").type
    # Days are cast only from integers of the same width.
    numbers = pa.array(ids, pa.int32() if key == pa.date32() else pa.int64())
    return pa.table({"id": numbers.cast(key), "value": pa.array(ids)})


def _quick(table: Table, records: int = MANY) -> int | None:
    return quick_count(table.store, table.access.plan().splits, records)


@pytest.mark.parametrize("key", ["int64", "int16", "date", "timestamp"])
def test_keys_that_were_upserted_and_deleted_are_counted(create: Create, key: str) -> None:
    table = create(key)
    table.upsert(_rows(table, range(100)))
    table.upsert(_rows(table, range(50, 150)))
    table.delete("value >= 10 and value < 60")
    table.upsert(_rows(table, range(20, 30)))
    assert _quick(table) == 110 == table.scan().to_arrow().num_rows


def test_a_compacted_table_is_counted_from_its_metadata(create: Create) -> None:
    table = create("text")
    table.upsert(_rows(table, range(100)))
    table.compact(full=True)
    assert _quick(table, records=0) == 100


def test_rows_marked_by_deletion_vectors_are_not_counted(create: Create) -> None:
    table = create(options={"deletion-vectors.enabled": "true", "write-only": "false"})
    table.upsert(_rows(table, range(100)))
    table.compact(full=True)
    table.delete("value < 40")
    assert _quick(table) in (60, None)
    assert table.count() == 60


@pytest.mark.parametrize(
    "given",
    [
        {"key": "text"},
        {"options": {"merge-engine": "partial-update"}},
        {"options": {"ignore-delete": "true"}},
        {"options": {"sequence.field": "value"}},
        {"options": {"file.format": "avro"}},
    ],
    ids=str,
)
def test_tables_that_need_more_than_the_keys_are_counted_by_a_scan(create: Create, given: dict[str, Any]) -> None:
    table = create(**given)
    table.upsert(_rows(table, range(100)))
    table.upsert(_rows(table, range(50, 150)))
    assert _quick(table) is None
    assert table.count() == 150


def test_many_records_and_sparse_keys_are_counted_by_a_scan(create: Create) -> None:
    table = create()
    table.upsert(_rows(table, range(100)))
    table.upsert(_rows(table, range(50, 150)))
    assert _quick(table, records=200) is None
    table.upsert(_rows(table, range(0, 100_000_000, 10_000_000)))
    assert _quick(table) is None
    assert table.count() == 159
