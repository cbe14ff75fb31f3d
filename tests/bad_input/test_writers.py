"""Tables that are dropped under writers and readers, and writers used wrongly."""

from pathlib import Path

import pyarrow as pa
import pytest

import interbed
from interbed.catalog.client.errors import (
    TableExistsError,
)
from interbed.storage.base.errors import (
    CommitError,
    InterbedError,
    InvalidInputError,
    SchemaMismatchError,
)
from tests.bad_input.tables import GOOD, SCHEMA, files_of, unchanged


def test_a_table_dropped_under_a_writer_is_not_recreated(catalog: interbed.Catalog, orders: interbed.Table) -> None:
    write = orders.new_write("late")
    write.write_arrow(GOOD)
    messages = write.prepare_commit()
    catalog.drop_table("shop.orders")
    with pytest.raises(CommitError, match="dropped"):
        orders.new_commit("late").commit(messages)
    with pytest.raises(InterbedError, match=r"dropped|no table"):
        orders.upsert(GOOD)
    assert files_of(orders.location) == {}
    assert catalog.list_tables("shop") == []
    # A new table of that name does not accept commits of the old one's writers.
    again = catalog.create_table("shop.orders", SCHEMA, primary_keys=["id"], options={"bucket": "2"})
    with unchanged(again), pytest.raises(CommitError, match="dropped"):
        orders.new_commit("late").commit(messages)
    with unchanged(again), pytest.raises(CommitError, match="dropped"):
        orders.upsert(GOOD)
    assert again.scan().to_arrow().num_rows == 0
    again.upsert(GOOD)
    assert again.scan().count() == 3


def test_a_table_dropped_under_a_reader_is_named(catalog: interbed.Catalog, orders: interbed.Table) -> None:
    query = orders.scan()
    assert query.plan.splits
    catalog.drop_table("shop.orders")
    with pytest.raises(InterbedError, match=r"\.parquet"):
        query.to_arrow()


def test_leftover_files_of_a_table_prevent_a_new_one(catalog: interbed.Catalog, orders: interbed.Table) -> None:
    (Path(orders.location) / "schema" / "schema-0").unlink()
    with pytest.raises(TableExistsError, match=r"orders.* holds snapshot-2 of an incompletely dropped table"):
        catalog.create_table("shop.orders", SCHEMA)
    assert not catalog.table_exists("shop.orders")


def test_a_closed_or_used_writer_refuses_rows(orders: interbed.Table) -> None:
    with unchanged(orders):
        write = orders.new_write("u")
        write.write_arrow(GOOD)
        write.close()
        write.close()
        for call in (lambda: write.write_arrow(GOOD), write.prepare_commit):
            with pytest.raises(InvalidInputError, match="closed"):
                call()
    builder = orders.new_batch_write_builder()
    batch, commit = builder.new_write(), builder.new_commit()
    batch.write_arrow(GOOD)
    messages = batch.prepare_commit()
    with pytest.raises(InvalidInputError, match="once"):
        batch.prepare_commit()
    commit.commit(messages)
    with unchanged(orders), pytest.raises(InvalidInputError, match="once"):
        commit.commit(messages)
    batch.close()
    assert [s.id for s in orders.snapshots()] == [1, 2, 3]


def test_a_failed_writer_refuses_rows(orders: interbed.Table) -> None:
    write = orders.new_write("u")
    with unchanged(orders):
        with pytest.raises(SchemaMismatchError, match="'id'"):
            write.write_arrow(pa.table({"id": [None]}, schema=pa.schema([("id", pa.int64())])))
        write.close()


def test_a_stream_writer_refuses_a_negative_identifier(orders: interbed.Table) -> None:
    write = orders.new_stream_write_builder().new_write()
    with unchanged(orders), pytest.raises(InvalidInputError, match="-1"):
        write.prepare_commit(-1)
    write.close()
