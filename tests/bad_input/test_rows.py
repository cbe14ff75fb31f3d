"""Rows that do not fit the schema are refused by name, and nothing is written."""

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import interbed
from interbed.storage.base.errors import (
    CommitError,
    InvalidInputError,
    SchemaMismatchError,
)
from interbed.storage.meta.schema.change import SetOption
from tests.bad_input.tables import GOOD, unchanged


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"id": [1, None]}, "'id'.*null"),
        ({"name": ["x"]}, "lacks the column 'id'"),
        ({"id": [1], "colour": ["red"]}, "unknown column 'colour'.*id, small, name"),
        ({"id": ["1"]}, "'id'.*int64.*string"),
        ({"id": [1.5]}, "'id'.*int64.*double"),
        ({"id": [1], "small": [128]}, "'small'.*int8.*128"),
        ({"id": [1], "small": [True]}, "'small'.*int8.*bool"),
        ({"id": [1], "name": [7]}, "'name'.*string.*int64"),
        ({"id": [1], "price": [Decimal("1234.56")]}, "'price'.*decimal128\\(5, 2\\)"),
        ({"id": [1], "price": [Decimal("1.234")]}, "'price'.*decimal128\\(5, 2\\)"),
        ({"id": [1], "price": ["1.20"]}, "'price'.*decimal128\\(5, 2\\).*string"),
        ({"id": [1], "due": ["2026-01-01"]}, "'due'.*date32.*string"),
        ({"id": [1], "due": [1]}, "'due'.*date32.*int64"),
        ({"id": [1], "flag": [1]}, "'flag'.*bool.*int64"),
        ({"id": [1], "name": [["nested"]]}, "'name'.*string.*list"),
    ],
)
def test_rows_that_do_not_fit_the_schema_are_refused(
    orders: interbed.Table, rows: dict[str, Any], message: str
) -> None:
    data = pa.table(rows)
    for write in (orders.upsert, orders.append, orders.overwrite):
        with unchanged(orders), pytest.raises(SchemaMismatchError, match=message):
            write(data)


def test_a_duplicate_column_is_refused(orders: interbed.Table) -> None:
    data = pa.Table.from_arrays([pa.array([1]), pa.array(["x"]), pa.array(["y"])], names=["id", "name", "name"])
    with unchanged(orders), pytest.raises(SchemaMismatchError, match="'name' twice"):
        orders.upsert(data)


def test_the_rows_before_a_bad_batch_are_not_written_either(orders: interbed.Table) -> None:
    schema = pa.schema([("id", pa.int64())])
    batches = [pa.record_batch([pa.array(ids, pa.int64())], schema=schema) for ids in ([7, 8], [9, None])]
    with unchanged(orders), pytest.raises(SchemaMismatchError, match="'id'"):
        orders.upsert(pa.RecordBatchReader.from_batches(schema, iter(batches)))
    ids: Any = orders.scan().to_arrow()["id"]
    assert sorted(ids.to_pylist()) == [1, 2, 3]


@pytest.mark.parametrize("data", [{"id": [1]}, [1], None, "id", 7, object()])
def test_data_other_than_arrow_is_refused(orders: interbed.Table, data: Any) -> None:
    with unchanged(orders), pytest.raises(InvalidInputError, match=r"Rows for .* are Arrow data"):
        orders.upsert(data)


@pytest.mark.parametrize(
    ("kinds", "message"),
    [
        ([4], "0 to 3"),
        ([-1], "0 to 3"),
        (pa.array([2**64 - 1], pa.uint64()), "0 to 3"),
        ([None], "null"),
        (["I"], r"\+I, -U"),
        ([1.0], "double"),
    ],
)
def test_invalid_row_kinds_are_refused(orders: interbed.Table, kinds: Any, message: str) -> None:
    data = pa.table({"id": [1], "_row_kind": kinds})
    with unchanged(orders), pytest.raises(InvalidInputError, match=message):
        orders.write_changes(data)
    with unchanged(orders), pytest.raises(InvalidInputError, match="_row_kind"):
        orders.write_changes(pa.table({"id": [1]}))


def test_writing_with_another_number_of_buckets_needs_a_rescale(
    catalog: interbed.Catalog, orders: interbed.Table
) -> None:
    early = orders.new_write("early")
    early.write_arrow(GOOD)
    catalog.alter_table("shop.orders", SetOption("bucket", "4"))
    altered = catalog.get_table("shop.orders")
    with unchanged(orders), pytest.raises(InvalidInputError, match=r"'bucket' is 4.*2 buckets.*OVERWRITE"):
        altered.upsert(GOOD)
    assert altered.scan().count() == 3
    # A writer for the old number of buckets may still commit before the rescale, but not after it.
    messages = early.prepare_commit()
    altered.overwrite(GOOD.slice(0, 2))
    ids: Any = altered.scan().to_arrow()["id"]
    assert sorted(ids.to_pylist()) == [1, 2]
    snapshots = [s.id for s in altered.snapshots()]
    with pytest.raises(CommitError, match="bucket"):
        orders.new_commit("early").commit(messages)
    assert [s.id for s in altered.snapshots()] == snapshots
    altered.upsert(GOOD)
    assert altered.scan().count() == 3
