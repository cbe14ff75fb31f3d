"""Read builders, splits and streams of pypaimon."""

import asyncio
import itertools
import pickle
from typing import Any

import pyarrow as pa
import pytest

import interbed
from interbed import pypaimon as pp
from interbed.storage.base.errors import (
    InvalidInputError,
)
from tests.pypaimon.tables import PLACES, bought, numbers, written


@pytest.mark.parametrize("count", [1, 2, 4, 7, 20])
def test_shards_of_an_append_table_have_equal_sizes_and_together_all_rows(lines: interbed.Table, count: int) -> None:
    builder = lines.new_read_builder()
    parts = []
    for index in range(count):
        scan = builder.new_scan()
        scan.with_shard(index, count)
        parts.append(numbers(builder.new_read(), scan.plan().splits()))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    assert list(itertools.chain(*parts)) == list(range(15))


def test_shards_of_a_primary_key_table_have_whole_buckets(orders: interbed.Table) -> None:
    written(orders, bought(*((i, "x", 1.0) for i in range(40))))
    written(orders, bought(*((i, "y", 2.0) for i in range(40))))
    builder = orders.new_read_builder()
    seen = []
    for index in range(3):
        splits = builder.new_scan().with_shard(index, 3).plan().splits()
        assert {split.bucket % 3 for split in splits} == {index}
        seen += builder.new_read().to_arrow(splits).to_pylist()
    assert sorted(row["id"] for row in seen) == list(range(40))
    assert {row["name"] for row in seen} == {"y"}


def test_a_slice_has_the_rows_from_one_position_to_another(lines: interbed.Table) -> None:
    builder = lines.new_read_builder()
    splits = builder.new_scan().with_slice(8, 12).plan().splits()
    assert numbers(builder.new_read(), splits) == [8, 9, 10, 11]
    assert sum(split.row_count for split in splits) == 4
    assert numbers(builder.new_read(), [pp.Split.from_bytes(split.to_bytes()) for split in splits]) == [8, 9, 10, 11]
    assert builder.new_scan().with_slice(20, 30).plan().splits() == []


def test_a_slice_omits_deleted_and_filtered_rows(catalog: interbed.Catalog) -> None:
    options = {"deletion-vectors.enabled": "true", "file-index.bitmap.columns": "n"}
    table = catalog.create_table("shop.marked", pa.schema([("n", pa.int64())]), options=options)
    table.append(pa.table({"n": range(10)}))
    table.delete("n in (2, 5)")
    builder = table.new_read_builder()
    assert numbers(builder.new_read(), builder.new_scan().with_slice(1, 7).plan().splits()) == [1, 3, 4, 6]
    predicate = builder.new_predicate_builder().is_in("n", [0, 1, 4, 5, 9])
    builder.with_filter(predicate)
    assert numbers(builder.new_read(), builder.new_scan().with_slice(1, 7).plan().splits()) == [1, 4]


def test_impossible_shards_and_slices_are_refused(lines: interbed.Table, orders: interbed.Table) -> None:
    scan = lines.new_read_builder().new_scan()
    for wrong in ((3, 3), (-1, 2)):
        with pytest.raises(ValueError, match="Not a shard"):
            scan.with_shard(*wrong)
    for wrong in ((5, 5), (-1, 2), (7, 3)):
        with pytest.raises(ValueError, match="Not a slice"):
            scan.with_slice(*wrong)
    with pytest.raises(ValueError, match="not both"):
        scan.with_shard(0, 2).with_slice(0, 1)
    with pytest.raises(ValueError, match="not both"):
        lines.new_read_builder().new_scan().with_slice(0, 1).with_shard(0, 2)
    with pytest.raises(NotImplementedError, match="with_shard"):
        orders.new_read_builder().new_scan().with_slice(0, 1)
    changes = lines.copy({"incremental-between": "1,2"}).new_read_builder().new_scan()
    with pytest.raises(ValueError, match="not of changes"):
        changes.with_slice(0, 1).plan()


def test_fields_inside_of_rows_are_columns_named_by_their_path(catalog: interbed.Catalog) -> None:
    table = catalog.create_table("shop.places", PLACES)
    table.append(
        pa.Table.from_pylist([{"id": 1, "at": {"city": "Ulm", "no": 7}}, {"id": 2, "at": None}], schema=PLACES)
    )
    builder = table.new_read_builder().with_projection(["at.no", "id", "at.city"])
    read, splits = builder.new_read(), builder.new_scan().plan().splits()
    assert read.to_arrow(splits).to_pylist() == [
        {"at_no": 7, "id": 1, "at_city": "Ulm"},
        {"at_no": None, "id": 2, "at_city": None},
    ]
    assert [f"{f.name} {f.type}" for f in builder.read_type()] == ["at_no INT", "id BIGINT", "at_city STRING"]
    assert [tuple(row) for row in read.to_iterator(splits)] == [(7, 1, "Ulm"), (None, 2, None)]
    assert pickle.loads(pickle.dumps(read)).to_arrow(splits, parallelism=2).num_rows == 2
    filtered = builder.with_filter(builder.new_predicate_builder().equal("id", 1))
    assert filtered.new_read().to_arrow(splits)["at_city"].to_pylist() == ["Ulm"]
    for wrong, words in (("at.none", "'none', but city, no"), ("id.x", "it is no ROW"), ("none.x", "'none'")):
        with pytest.raises(InvalidInputError, match=words):
            builder.with_projection([wrong])


def test_a_column_with_a_dot_in_its_name_precedes_a_path(catalog: interbed.Catalog) -> None:
    row = pa.struct([("b", pa.int32())])
    schema = pa.schema([("a", row), ("a.b", pa.int32()), ("a_b", pa.int32())])
    table = catalog.create_table("shop.dots", schema)
    table.append(pa.Table.from_pylist([{"a": {"b": 1}, "a.b": 2, "a_b": 3}], schema=schema))
    builder = table.new_read_builder().with_projection(["a.b"])
    assert builder.new_read().to_arrow(builder.new_scan().plan().splits()).to_pylist() == [{"a.b": 2}]


def test_parallel_reads_keep_the_order_of_the_splits(catalog: interbed.Catalog) -> None:
    options = {"source.split.target-size": "1 b", "source.split.open-file-cost": "1 b"}
    table = catalog.create_table("shop.parts", pa.schema([("n", pa.int64())]), options=options)
    for start in range(0, 50, 10):
        table.append(pa.table({"n": range(start, start + 10)}))
    builder = table.new_read_builder()
    splits = builder.new_scan().plan().splits()
    assert len(splits) == 5
    read = builder.new_read()
    for parallelism in (1, 3, 100):
        assert read.to_arrow(splits, parallelism=parallelism)["n"].to_pylist() == list(range(50))
    assert read.to_pandas(splits, parallelism=2)["n"].tolist() == list(range(50))
    assert read.to_arrow([], parallelism=4).num_rows == 0
    assert builder.with_limit(7).new_read().to_arrow(splits, parallelism=4).num_rows == 7
    with pytest.raises(ValueError, match="parallelism of a read is at least 1, not 0"):
        read.to_arrow(splits, parallelism=0)


def test_a_partition_filter_accepts_only_partition_columns(catalog: interbed.Catalog) -> None:
    schema = pa.schema((("n", pa.int64()), ("dt", pa.string())))
    table = catalog.create_table("shop.days", schema, partition_keys=["dt"])
    table.append(pa.table({"n": [1, 2, 3], "dt": ["a", "a", "b"]}))
    builder = table.new_read_builder()
    predicates = builder.new_predicate_builder()
    builder.with_partition_filter(predicates.equal("dt", "a")).with_filter(predicates.greater_than("n", 1))
    assert numbers(builder.new_read(), builder.new_scan().plan().splits()) == [2]
    builder.with_filter(None).with_partition_filter(None).with_projection(None).with_limit(None)
    assert builder.new_read().to_arrow(builder.new_scan().plan().splits()).num_rows == 3
    with pytest.raises(InvalidInputError, match=r"'n', which is no partition column; there are dt"):
        builder.with_partition_filter(predicates.equal("n", 1))


def test_a_read_is_explained_with_pypaimons_figures(orders: interbed.Table) -> None:
    written(orders, bought(*((i, "x", 1.0) for i in range(20))))
    builder = orders.new_read_builder()
    builder.with_filter(builder.new_predicate_builder().equal("id", 3)).with_projection(["id"])
    found = builder.explain(verbose=True)
    assert (found.table_identifier, found.snapshot_id, found.is_primary_key_table) == ("shop.orders", 1, True)
    assert (found.file_count, found.split_count, found.projection) == (1, 1, ["id"])
    assert found.bucket_pruning == pp.PruningStat(4, 1)
    assert found.bucket_pruning.pruned == 3
    assert found.partition_pruning is None
    assert found.splits is not None
    assert found.splits[0].bucket == builder.new_scan().plan().splits()[0].bucket
    assert "shop.orders at snapshot 1" in str(found)
    assert orders.new_read_builder().explain().splits is None


def test_tables_reads_and_splits_can_be_pickled(orders: interbed.Table, lines: interbed.Table) -> None:
    written(orders, bought((1, "x", 1.0)))
    written(orders, bought((1, "y", 2.0)))
    for table in (orders, lines):
        builder = table.new_read_builder()
        builder, read, splits, again = pickle.loads(
            pickle.dumps((builder, builder.new_read(), builder.new_scan().plan().splits(), table))
        )
        assert read.to_arrow(splits) == again.scan().to_arrow() == table.scan().to_arrow()
        assert builder.new_scan().plan().splits() == splits
    again.append(pa.table({"n": [15]}))
    assert lines.scan().to_arrow().num_rows == 16


def test_a_catalog_can_be_pickled(catalog: interbed.Catalog, lines: interbed.Table) -> None:
    assert pickle.loads(pickle.dumps(catalog)).get_table("shop.lines").scan().to_arrow().num_rows == 15


def test_system_tables_have_pypaimons_builders(catalog: interbed.Catalog, lines: interbed.Table) -> None:
    table = catalog.get_table("shop.lines$snapshots")
    builder = table.new_read_builder()
    predicate = builder.new_predicate_builder().equal("snapshot_id", 2)
    builder.with_filter(predicate).with_projection(["commit_kind", "snapshot_id"]).with_limit(5)
    read, splits = builder.new_read(), builder.new_scan().plan().splits()
    assert [split.row_count for split in splits] == [1]
    built: list[Any] = list(read.to_iterator(splits))
    assert built == [{"commit_kind": "APPEND", "snapshot_id": 2}]
    assert read.to_arrow(splits).schema.names == [f.name for f in builder.read_type()] == ["commit_kind", "snapshot_id"]
    assert read.to_arrow([]).num_rows == 0
    assert read.to_pandas(splits)["snapshot_id"].tolist() == [2]
    assert table.row_type().names[0] == "snapshot_id"  # type: ignore[attr-defined]
    for refused in (table.new_batch_write_builder, table.new_stream_write_builder, table.new_stream_read_builder):
        with pytest.raises(NotImplementedError, match=r"shop.lines\$snapshots"):
            refused()


def test_a_stream_builder_reads_the_rows_and_then_the_changes(orders: interbed.Table) -> None:
    written(orders, bought((1, "x", 1.0)))
    builder = orders.new_stream_read_builder().with_include_row_kind().with_poll_interval_ms(0)
    scan, read = builder.new_streaming_scan(), builder.new_read()
    plans = scan.stream_sync()
    first = read.to_arrow(next(plans).splits()).to_pylist()
    assert first == [{"_row_kind": "+I", "id": 1, "name": "x", "amount": 1.0}]
    assert scan.next_snapshot_id == 2
    written(orders, bought((2, "y", 2.0)))
    assert [row["id"] for row in read.to_arrow(next(plans).splits()).to_pylist()] == [2]
    assert scan.plan() is None


def test_an_asynchronous_stream_has_the_same_plans(lines: interbed.Table) -> None:
    builder = lines.new_stream_read_builder().with_projection(["n"])
    builder.with_filter(builder.new_predicate_builder().greater_than("n", 12)).with_poll_interval_ms(0)

    async def first_plan() -> list[int]:
        async for plan in builder.new_streaming_scan().stream():
            return numbers(builder.new_read(), plan.splits())
        return []

    assert sorted(asyncio.run(first_plan())) == [13, 14]


def test_streams_of_some_buckets_and_with_a_consumer(orders: interbed.Table) -> None:
    written(orders, bought(*((i, "x", 1.0) for i in range(40))))
    builder = orders.new_stream_read_builder().with_buckets([1, 3])
    plan = builder.new_streaming_scan().plan()
    assert plan is not None
    assert {split.bucket for split in plan.splits()} == {1, 3}
    scan = orders.new_stream_read_builder().with_consumer_id("me").new_streaming_scan()
    assert scan.plan() is not None
    assert scan.plan() is None
    assert orders.consumer_manager().consumers() == {"me": 2}
    written(orders, bought((50, "z", 1.0)))
    scan.next_snapshot_id = 2
    again = scan.plan()
    assert again is not None
    assert again.snapshot_id == 2
