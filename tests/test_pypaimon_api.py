"""pypaimon's names on interbed: what a program written for pypaimon calls, and what is refused."""

import asyncio
import itertools
import pickle
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import interbed
from interbed import pypaimon as pp
from interbed.storage.base.errors import (
    BranchNotFoundError,
    CommitError,
    CorruptFileError,
    FilterError,
    InvalidInputError,
    NotSupportedError,
    SnapshotNotFoundError,
    TagNotFoundError,
    UsedTwiceError,
)
from tests.support.pages import Page

ORDERS = pa.schema(
    (pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string()), pa.field("amount", pa.float64()))
)
PLACES = pa.schema([("id", pa.int64()), ("at", pa.struct([("city", pa.string()), ("no", pa.int32())]))])


@pytest.fixture
def catalog(tmp_path: Path) -> interbed.Catalog:
    opened = interbed.CatalogFactory.create({"warehouse": str(tmp_path / "lake")})
    opened.create_database("shop", False)
    return opened


@pytest.fixture
def orders(catalog: interbed.Catalog) -> interbed.Table:
    """A table with a primary key and four buckets."""
    schema = interbed.Schema.from_pyarrow_schema(ORDERS, primary_keys=["id"], options={"bucket": "4"})
    catalog.create_table("shop.orders", schema, False)
    return catalog.get_table("shop.orders")


@pytest.fixture
def lines(catalog: interbed.Catalog) -> interbed.Table:
    """An append table of two files: the numbers 0 to 9, and 10 to 14."""
    table = catalog.create_table(
        "shop.lines", interbed.Schema.from_pyarrow_schema(pa.schema([("n", pa.int64())])), False
    )
    table.append(pa.table({"n": range(10)}))
    table.append(pa.table({"n": range(10, 15)}))
    return table


def bought(*rows: tuple[int, str | None, float | None]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(ORDERS.names, row, strict=True)) for row in rows], schema=ORDERS)


def written(table: interbed.Table, data: pa.Table, *callbacks: pp.CommitCallback) -> None:
    builder = table.new_batch_write_builder()
    with builder.new_write() as write, builder.new_commit() as commit:
        for callback in callbacks:
            commit.add_commit_callback(callback)
        write.write_arrow(data)
        commit.commit(write.prepare_commit())


def numbers(read: pp.TableRead, splits: Any) -> list[int]:
    column: Any = read.to_arrow(splits)["n"]
    found: list[int] = column.to_pylist()
    return found


def test_the_python_of_the_page_does_what_it_says(tmp_path: Path) -> None:
    assert Page("pypaimon.md").run_python(warehouse=str(tmp_path / "lake")) > 15


# -- types -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("INT", "INT"),
        ("integer", "INT"),
        ("STRING", "STRING"),
        ("VARCHAR(10) NOT NULL", "VARCHAR(10) NOT NULL"),
        ("DECIMAL(10,2)", "DECIMAL(10, 2)"),
        ("TIMESTAMP(3) WITH LOCAL TIME ZONE", "TIMESTAMP(3) WITH LOCAL TIME ZONE"),
    ],
)
def test_an_atomic_type_is_made_of_its_text(text: str, shown: str) -> None:
    made = pp.AtomicType(text)
    assert str(made) == shown
    assert made.type == shown.removesuffix(" NOT NULL")
    assert pp.DataTypeParser.parse_data_type(made.to_dict()) == made


def test_an_atomic_type_takes_nullability_second() -> None:
    assert str(pp.AtomicType("BIGINT", False)) == "BIGINT NOT NULL"
    assert pp.AtomicType("BIGINT", nullable=False) == pp.AtomicType("BIGINT NOT NULL") != pp.AtomicType("BIGINT")


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("INTT", InvalidInputError, "Unknown data type 'INTT'"),
        ("", InvalidInputError, "Unknown data type"),
        ("DECIMAL(50, 2)", InvalidInputError, "precision from 1 to 38"),
        ("VARCHAR(0)", InvalidInputError, "length from 1"),
        ("BLOB", NotSupportedError, "BLOB"),
    ],
)
def test_text_that_is_no_type_of_interbeds_is_refused(text: str, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        pp.AtomicType(text)


def test_nested_types_take_nullability_first_or_by_name() -> None:
    number, text = pp.AtomicType("INT"), pp.AtomicType("STRING", False)
    assert pp.ArrayType(False, number) == pp.ArrayType(number, nullable=False)
    assert pp.ArrayType(nullable=True, element_type=number) == pp.ArrayType(element=number)
    assert pp.MapType(True, text, number) == pp.MapType(text, number) == pp.MapType(key=text, value=number)
    assert pp.MultisetType(True, text) == pp.MultisetType(text)
    fields = [pp.DataField(0, "a", number, "first"), pp.DataField(1, "b", pp.ArrayType(True, text))]
    row = pp.RowType(False, fields)
    assert row == pp.RowType(tuple(fields), nullable=False)
    assert str(row) == "ROW<a INT, b ARRAY<STRING NOT NULL>> NOT NULL"
    assert pp.DataType.from_dict(row.to_dict()) == row
    with pytest.raises(TypeError, match="MapType takes key, value and nullable"):
        pp.MapType(True, text)  # type: ignore[call-overload]


def test_a_field_has_the_form_of_a_schema_file() -> None:
    field = pp.DataField.from_dict({"id": 3, "name": "x", "type": "DATE NOT NULL", "description": "when"})
    assert field == pp.DataField(3, "x", pp.AtomicType("DATE", False), "when")
    assert field.to_dict() == {"id": 3, "name": "x", "type": "DATE NOT NULL", "description": "when"}
    with pytest.raises(CorruptFileError, match="DATEE"):
        pp.DataField.from_dict({"id": 3, "name": "x", "type": "DATEE"})


def test_a_schema_of_fields_numbers_those_anew_that_share_an_id(catalog: interbed.Catalog) -> None:
    inside = pp.RowType(True, [pp.DataField(0, "x", pp.AtomicType("INT")), pp.DataField(1, "y", pp.AtomicType("INT"))])
    fields = [pp.DataField(0, "id", pp.AtomicType("BIGINT")), pp.DataField(1, "at", inside)]
    options: dict[str, Any] = {"bucket": 2}
    schema = pp.Schema(fields, [], ["id"], options, "places")
    made = catalog.create_table("shop.places", schema, False)
    assert [f.id for f in made.fields] == [0, 1]
    nested = made.fields[1].type
    assert isinstance(nested, pp.RowType)
    assert [f.id for f in nested.fields] == [2, 3]
    assert (made.comment(), made.table_schema.highest_field_id, made.total_buckets) == ("places", 3, 2)
    assert pp.Schema(fields[:1]).fields == tuple(fields[:1])


# -- names -------------------------------------------------------------------------------------------------------------


def test_an_identifier_has_a_database_a_table_a_branch_and_a_system_table() -> None:
    whole = pp.Identifier.from_string("shop.orders$branch_b$files")
    assert whole == pp.Identifier("shop", "orders", branch="b", system_table="files")
    assert (whole.get_database_name(), whole.get_table_name(), whole.get_branch_name()) == ("shop", "orders", "b")
    assert (whole.get_system_table_name(), whole.is_system_table()) == ("files", True)
    assert whole.get_object_name() == whole.object == "orders$branch_b$files"
    assert whole.get_full_name() == str(whole) == "shop.orders$branch_b$files"
    plain = pp.Identifier.create("shop", "orders", branch="main")
    assert plain == pp.Identifier("shop", "orders")
    assert (plain.branch, plain.get_branch_name_or_default(), plain.is_system_table()) == (None, "main", False)
    assert pp.Identifier("unknown", "t").get_full_name() == "t"


def test_an_identifier_is_parsed_with_dots_between_backquotes() -> None:
    assert pp.Identifier.from_string("`a.b`.`c.d`") == pp.Identifier("a.b", "c.d")
    assert pp.Identifier.from_string("a.b.c") == pp.Identifier("a", "b.c")
    for wrong in ("", "  ", "orders", "`a.b", "`a`b`.c", "a.b`c"):
        with pytest.raises(ValueError, match="table name"):
            pp.Identifier.from_string(wrong)
    with pytest.raises(ValueError, match="files"):
        pp.Identifier("shop", "orders$files$more").get_table_name()


def test_a_catalog_takes_identifiers_with_branches_and_system_tables(
    catalog: interbed.Catalog, orders: interbed.Table
) -> None:
    written(orders, bought((1, "x", 1.0)))
    orders.create_tag("first")
    catalog.create_branch("shop.orders", "b", "first")
    branch = catalog.get_table(pp.Identifier("shop", "orders", branch="b"))
    assert (branch.current_branch(), orders.current_branch()) == ("b", "main")
    assert branch.scan().to_arrow().num_rows == 1
    snapshots = catalog.get_table(pp.Identifier("shop", "orders", system_table="snapshots"))
    assert snapshots.scan().to_arrow().num_rows == 1


def test_options_have_pypaimons_names(orders: interbed.Table) -> None:
    written(orders, bought((1, "x", 1.0)))
    written(orders, bought((2, "y", 2.0)))
    assert pp.CoreOptions.SCAN_SNAPSHOT_ID.key() == "scan.snapshot-id"
    older = orders.copy({pp.CoreOptions.SCAN_SNAPSHOT_ID: "1"})
    assert older.scan().to_arrow().num_rows == 1
    assert "BUCKET_KEY" in dir(pp.CoreOptions)
    with pytest.raises(AttributeError, match=r"'SCAN_SNAPSHOT'.*give its key as text"):
        _ = pp.CoreOptions.SCAN_SNAPSHOT
    options = pp.Options({"bucket": "4"})
    assert options.contains(pp.CoreOptions.BUCKET)
    assert not options.contains("path")
    assert options.to_map() == {"bucket": "4"}


def test_errors_are_caught_by_pypaimons_names_and_by_built_in_types(
    catalog: interbed.Catalog, orders: interbed.Table
) -> None:
    with pytest.raises(pp.DatabaseNotExistException):
        catalog.get_database("none")
    with pytest.raises(pp.DatabaseAlreadyExistException):
        catalog.create_database("shop", False)
    with pytest.raises(pp.TableNotExistException):
        catalog.get_table("shop.none")
    with pytest.raises(pp.TableAlreadyExistException):
        catalog.create_table("shop.orders", interbed.Schema.from_pyarrow_schema(ORDERS), False)
    with pytest.raises(pp.TagNotExistException):
        orders.get_tag("none")
    with pytest.raises(pp.BranchNotExistException):
        orders.branch("none")
    for error in (SnapshotNotFoundError, TagNotFoundError, BranchNotFoundError, FilterError):
        assert issubclass(error, ValueError)
    assert issubclass(CommitError, RuntimeError)
    assert issubclass(NotSupportedError, NotImplementedError)


def test_every_name_of_the_module_is_there_and_no_other() -> None:
    assert pp.__all__ == sorted(set(pp.__all__), key=lambda name: (not name.isupper(), name))
    for name in pp.__all__:
        assert getattr(pp, name) is not None


# -- reading -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 4, 7, 20])
def test_shards_of_an_append_table_have_equally_many_rows_and_all_together(lines: interbed.Table, count: int) -> None:
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


def test_a_slice_is_of_the_rows_from_one_position_to_another(lines: interbed.Table) -> None:
    builder = lines.new_read_builder()
    splits = builder.new_scan().with_slice(8, 12).plan().splits()
    assert numbers(builder.new_read(), splits) == [8, 9, 10, 11]
    assert sum(split.row_count for split in splits) == 4
    assert numbers(builder.new_read(), [pp.Split.from_bytes(split.to_bytes()) for split in splits]) == [8, 9, 10, 11]
    assert builder.new_scan().with_slice(20, 30).plan().splits() == []


def test_a_slice_leaves_deleted_rows_and_those_that_a_filter_rules_out_away(catalog: interbed.Catalog) -> None:
    options = {"deletion-vectors.enabled": "true", "file-index.bitmap.columns": "n"}
    table = catalog.create_table("shop.marked", pa.schema([("n", pa.int64())]), options=options)
    table.append(pa.table({"n": range(10)}))
    table.delete("n in (2, 5)")
    builder = table.new_read_builder()
    assert numbers(builder.new_read(), builder.new_scan().with_slice(1, 7).plan().splits()) == [1, 3, 4, 6]
    predicate = builder.new_predicate_builder().is_in("n", [0, 1, 4, 5, 9])
    builder.with_filter(predicate)
    assert numbers(builder.new_read(), builder.new_scan().with_slice(1, 7).plan().splits()) == [1, 4]


def test_shards_and_slices_that_can_not_be_are_refused(lines: interbed.Table, orders: interbed.Table) -> None:
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


def test_a_column_whose_name_has_a_dot_comes_before_a_path(catalog: interbed.Catalog) -> None:
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


def test_a_partition_filter_is_of_partition_columns_alone(catalog: interbed.Catalog) -> None:
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


def test_a_read_explains_itself_in_pypaimons_figures(orders: interbed.Table) -> None:
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


# -- streams -----------------------------------------------------------------------------------------------------------


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


def test_a_stream_of_some_buckets_and_one_with_a_consumer(orders: interbed.Table) -> None:
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


# -- writing -----------------------------------------------------------------------------------------------------------


def test_callbacks_hear_of_every_snapshot_with_its_files(orders: interbed.Table) -> None:
    class Heard(pp.CommitCallback):
        def __init__(self) -> None:
            self.contexts: list[pp.CommitCallbackContext] = []
            self.closed = False

        def call(self, context: pp.CommitCallbackContext) -> None:
            self.contexts.append(context)

        def close(self) -> None:
            self.closed = True

    heard = Heard()
    written(orders, bought((1, "x", 1.0)), heard)
    assert [(c.snapshot.id, len(c.commit_entries), c.identifier) for c in heard.contexts] == [
        (1, 1, pp.BATCH_COMMIT_IDENTIFIER)
    ]
    assert heard.closed
    builder = orders.new_stream_write_builder()
    with builder.new_write() as write, builder.new_commit() as commit:
        commit.add_commit_callback(heard)
        for identifier in (7, 8, 8):
            write.write_arrow(bought((2, "y", float(identifier))))
            commit.commit(write.prepare_commit(identifier), identifier)
    assert [c.identifier for c in heard.contexts[1:]] == [7, 8]
    with pytest.raises(NotImplementedError, match="CommitCallback has no method 'call'"):
        pp.CommitCallback().call(heard.contexts[0])


def test_rows_are_written_one_by_one_between_batches(lines: interbed.Table, orders: interbed.Table) -> None:
    builder = orders.new_batch_write_builder()
    with builder.new_write() as write, builder.new_commit() as commit:
        write.write_row((1, "x", 1.0))
        write.write_arrow_batch(bought((1, "z", 3.0), (2, "y", 2.0)).to_batches()[0])
        write.write_row({"name": "w", "amount": None, "id": 2})
        for wrong in ((1, "x"), {"id": 1}, (1, "x", 1.0, 2.0)):
            with pytest.raises(InvalidInputError, match="id, name, amount"):
                write.write_row(wrong)
        commit.commit(write.prepare_commit())
    assert orders.scan().to_arrow().sort_by("id").to_pylist() == bought((1, "z", 3.0), (2, "w", None)).to_pylist()


def test_a_stream_overwrites_too(lines: interbed.Table) -> None:
    builder = lines.new_stream_write_builder().overwrite()
    with builder.new_write() as write, builder.new_commit() as commit:
        write.write_arrow(pa.table({"n": [99]}))
        commit.commit(write.prepare_commit(1), 1)
    assert lines.scan().to_arrow()["n"].to_pylist() == [99]


def test_what_is_made_for_one_batch_is_not_used_twice(orders: interbed.Table) -> None:
    builder = orders.new_batch_write_builder()
    with builder.new_write() as write, builder.new_commit() as commit:
        assert write.table_pyarrow_schema == orders.arrow_schema
        commit.commit(write.prepare_commit())
        for again in (write.prepare_commit, lambda: commit.commit([]), commit.truncate_table):
            with pytest.raises(UsedTwiceError, match="once") as caught:
                again()
            assert isinstance(caught.value, RuntimeError)


def test_what_interbed_has_not_is_refused_by_name(orders: interbed.Table) -> None:
    reads, writes = orders.new_read_builder(), orders.new_batch_write_builder()
    scan, read, write = reads.new_scan(), reads.new_read(), writes.new_write()
    refusals: list[tuple[Callable[[], object], str]] = [
        (lambda: read.to_ray([]), "ray.data.from_arrow"),
        (lambda: read.to_torch([]), "PyTorch"),
        (lambda: write.write_ray(None), "write_arrow"),
        (lambda: write.with_write_type(["id"]), "all columns"),
        (lambda: writes.new_update(), "UPDATE and MERGE"),
        (lambda: scan.with_row_ranges([]), "with_slice"),
        (lambda: scan.with_chunk_shuffle(1, 2), "with_slice"),
        (lambda: scan.with_global_index_result(None), "with_filter"),
        (lambda: orders.new_postpone_fixed_bucket_write_builder(), "Table.compact"),
    ]
    for refused, words in refusals:
        with pytest.raises(NotSupportedError, match=words):
            refused()
    write.close()


# -- versions ----------------------------------------------------------------------------------------------------------


def test_managers_answer_none_for_what_is_not_there(orders: interbed.Table) -> None:
    snapshots = orders.snapshot_manager()
    assert (snapshots.get_latest_snapshot(), snapshots.try_get_earliest_snapshot()) == (None, None)
    written(orders, bought((1, "x", 1.0)))
    written(orders, bought((2, "y", 2.0)))
    first, second = snapshots.list_snapshots()
    assert (snapshots.get_latest_snapshot(), snapshots.try_get_earliest_snapshot()) == (second, first)
    assert snapshots.get_snapshots_batch([1, 9]) == {1: first, 9: None}
    assert snapshots.earlier_or_equal_time_mills(first.time_millis - 1) is None
    assert snapshots.earlier_or_equal_time_mills(second.time_millis) == second
    assert snapshots.later_or_equal_watermark(0) is None
    assert orders.file_io.exists(snapshots.get_snapshot_path(1))
    tags = orders.tag_manager()
    orders.create_tag("a", 1, True, "1 d")
    orders.create_tag("a", 1, True)
    assert (tags.list_tags(), orders.list_tags(), tags.tag_exists("a"), tags.get("b")) == (["a"], ["a"], True, None)
    tag = tags.get_or_throw("a")
    assert (tag.id, tag.trim_to_snapshot(), tag.tag_time_retained) == (1, first, timedelta(days=1))
    assert tag.tag_create_time is not None
    with pytest.raises(ValueError, match="'b'"):
        tags.get_or_throw("b")
    consumers = orders.consumer_manager()
    assert (consumers.list_all_ids(), consumers.min_next_snapshot()) == ([], None)
    orders.reset_consumer("me", 2)
    assert (consumers.list_all_ids(), consumers.min_next_snapshot()) == (["me"], 2)
    consumers.delete_consumer("me")
    assert consumers.consumers() == {}


def test_a_catalog_changes_tags_and_branches_by_the_tables_name(
    catalog: interbed.Catalog, orders: interbed.Table
) -> None:
    assert catalog.load_snapshot("shop.orders") is None
    written(orders, bought((1, "x", 1.0)))
    for name in ("c", "a", "b", "x"):
        catalog.create_tag("shop.orders", name)
    catalog.create_tag("shop.orders", "a", ignore_if_exists=True)
    assert catalog.get_tag("shop.orders", "a").snapshot == catalog.load_snapshot("shop.orders")
    catalog.delete_tag("shop.orders", "x")
    page = catalog.list_tags_paged("shop.orders", 2)
    assert (page.elements, page.next_page_token) == (["a", "b"], "b")
    rest = catalog.list_tags_paged("shop.orders", 2, page.next_page_token)
    assert (rest.elements, rest.next_page_token) == (["c"], None)
    assert catalog.list_tags_paged("shop.orders", tag_name_prefix="b").elements == ["b"]
    with pytest.raises(InvalidInputError, match="at least one tag"):
        catalog.list_tags_paged("shop.orders", 0)
    catalog.create_branch("shop.orders", "dev", "a")
    catalog.rename_branch("shop.orders", "dev", "next")
    assert catalog.list_branches("shop.orders") == ["next"]
    written(orders.branch("next"), bought((2, "y", 2.0)))
    catalog.fast_forward("shop.orders", "next")
    assert catalog.get_table("shop.orders").scan().to_arrow().num_rows == 2
    catalog.drop_branch("shop.orders", "next")
    assert catalog.list_branches("shop.orders") == []
    assert catalog.rollback_to("shop.orders", "a").id == 1


def test_a_snapshot_that_was_taken_back_is_not_there(orders: interbed.Table) -> None:
    written(orders, bought((1, "x", 1.0)))
    written(orders, bought((2, "y", 2.0)))
    snapshots = orders.snapshot_manager()
    assert snapshots.get_snapshot_by_id(2) is not None
    orders.rollback_to(1)
    assert snapshots.get_snapshot_by_id(2) is None


def test_a_branch_manager_changes_branches(orders: interbed.Table) -> None:
    written(orders, bought((1, "x", 1.0)))
    orders.create_tag("first")
    branches = orders.branch_manager()
    branches.create_branch("dev", "first")
    branches.create_branch("dev", "first", ignore_if_exists=True)
    branches.rename_branch("dev", "next")
    assert (branches.branches(), branches.branch_exists("dev")) == (["next"], False)
    written(orders.branch("next"), bought((2, "y", 2.0)))
    branches.fast_forward("next")
    assert orders.scan().to_arrow().num_rows == 2
    branches.drop_branch("next")
    assert not branches.branch_exists("next")


def test_arrow_schemas_are_parsed_to_fields_and_back() -> None:
    fields = pp.PyarrowFieldParser.to_paimon_schema(PLACES)
    assert [f.id for f in fields] == [0, 1]
    assert pp.PyarrowFieldParser.from_paimon_schema(fields) == PLACES
    assert pp.PyarrowFieldParser.to_paimon_type(pa.int32(), nullable=False) == pp.AtomicType("INT", False)
    assert pp.PyarrowFieldParser.from_paimon_type(pp.AtomicType("INT")) == pa.int32()
    assert pp.DataTypeParser.parse_data_field(fields[1].to_dict()) == fields[1]


def test_a_table_says_what_it_is_by_pypaimons_names(catalog: interbed.Catalog, orders: interbed.Table) -> None:
    assert orders.table_path == orders.location
    assert orders.table_schema == orders.schema
    assert orders.schema_manager.latest() == orders.table_schema
    assert (orders.is_primary_key_table, orders.cross_partition_update) == (True, False)
    assert orders.bucket_mode() is pp.BucketMode.FIXED
    assert orders.trimmed_primary_keys == ["id"]
    assert list(orders.field_dict) == orders.field_names
    assert ([f.name for f in orders.primary_keys_fields], orders.partition_keys_fields) == (["id"], [])
    assert orders.comment() is None
