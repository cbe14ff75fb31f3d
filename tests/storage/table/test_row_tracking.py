"""Tables that track rows: each row keeps its id through all rewrites, and has the number of its last change."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import interbed
from interbed.catalog.client.api import Catalog
from interbed.storage.base.errors import (
    CorruptFileError,
    FilterError,
    InvalidInputError,
    InvalidOptionError,
    NotSupportedError,
)
from interbed.storage.table.table import Table
from interbed.storage.upkeep.changed_rows import SnapshotRows
from tests.support.pages import Page

COLUMNS: "list[pa.Field[Any]]" = [pa.field("id", pa.int32()), pa.field("v", pa.string())]
SCHEMA = pa.schema(COLUMNS)
TRACKED = {"row-tracking.enabled": "true", "compaction.min.file-num": "2"}
NUMBERED = ["id", "v", "_ROW_ID", "_SEQUENCE_NUMBER"]
Numbered = tuple[int, str, int, int]


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    with interbed.load_catalog("lake", warehouse=f"file:{tmp_path}") as catalog:
        catalog.create_database("db")
        yield catalog


def create(catalog: Catalog, **options: str) -> Table:
    """Create the table; `a__b_c` is the option `a-b.c`."""
    given = {name.replace("__", "-").replace("_", "."): value for name, value in options.items()}
    return catalog.create_table("db.t", SCHEMA, options={**TRACKED, **given})


def rows(*ids: int, v: str = "a") -> pa.Table:
    return pa.table([pa.array(ids, pa.int32()), pa.array([v] * len(ids), pa.string())], schema=SCHEMA)


def numbered(table: Any, **arguments: Any) -> list[Numbered]:
    """Return the rows with their ids and numbers, ordered by the ids."""
    found = table.scan(NUMBERED, **arguments).to_arrow().sort_by("_ROW_ID")
    return [tuple(row.values()) for row in found.to_pylist()]


def update(table: Table, condition: Any, v: str) -> None:
    """Set the column v of the rows for which the function of a batch is true."""
    changed = SnapshotRows(table.store, "user")

    def updated() -> Iterator[pa.RecordBatch]:
        for batch in changed.batches():
            chosen = batch.filter(condition(batch))
            if chosen.num_rows:
                yield chosen.set_column(1, "v", pa.array([v] * chosen.num_rows, pa.string()))

    changed.commit(updated=updated(), inserted=[])


def has_id(*ids: int) -> Any:
    return lambda batch: pc.is_in(batch.column("id"), pa.array(ids, pa.int32()))


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_new_rows_get_ids_in_their_order_and_the_number_of_their_snapshot(catalog: Catalog, file_format: str) -> None:
    table = create(catalog, file_format=file_format)
    table.append(rows(1, 2))
    table.append(rows(3))
    assert numbered(table) == [(1, "a", 0, 1), (2, "a", 1, 1), (3, "a", 2, 2)]
    assert [s.next_row_id for s in table.snapshots()] == [2, 3]


def test_the_hidden_columns_are_read_only_by_their_names(catalog: Catalog) -> None:
    table = create(catalog)
    table.append(rows(1))
    assert table.scan().to_arrow().column_names == ["id", "v"]
    found = table.scan(["_SEQUENCE_NUMBER", "_ROW_ID"]).to_arrow()
    assert found.schema == pa.schema(
        [pa.field("_SEQUENCE_NUMBER", pa.int64(), nullable=False), pa.field("_ROW_ID", pa.int64(), nullable=False)]
    )
    assert table.scan(["_ROW_ID"], limit=1).to_arrow().to_pylist() == [{"_ROW_ID": 0}]
    builder = table.new_read_builder()
    assert [f.name for f in builder.read_type()] == ["id", "v"]
    builder = builder.with_projection(["_ROW_ID", "id"])
    splits = builder.new_scan().plan().splits()
    assert builder.new_read().to_arrow(splits).to_pylist() == [{"_ROW_ID": 0, "id": 1}]


@pytest.mark.parametrize("engine", ["polars", "duckdb"])
def test_engines_filter_by_the_hidden_columns(catalog: Catalog, engine: str) -> None:
    table = create(catalog)
    table.append(rows(1, 2))
    table.append(rows(3))
    scan = table.scan(NUMBERED)
    if engine == "polars":
        import polars as pl

        found = scan.to_polars(lazy=True).filter(pl.col("_ROW_ID") >= 1).select("id").collect()["id"].to_list()
    else:
        found = [row[0] for row in scan.to_duckdb().filter("_ROW_ID >= 1").select("id").fetchall()]
    assert sorted(found) == [2, 3]


@pytest.mark.parametrize("compacted", [False, True])
def test_a_filter_by_ids_reads_only_the_files_and_rows_that_it_needs(catalog: Catalog, compacted: bool) -> None:
    table = create(catalog, compaction_delete__ratio__threshold="1.0")
    for start in range(0, 40, 10):
        table.append(rows(*range(start, start + 10)))
    if compacted:
        table.compact(full=True)
    assert [row[0] for row in numbered(table, filter="_ROW_ID = 25")] == [25]
    assert [row[0] for row in numbered(table, filter="_ROW_ID in (3, 31, 99)")] == [3, 31]
    assert [row[0] for row in numbered(table, filter="_ROW_ID > 37 or _SEQUENCE_NUMBER < 2 and id = 4")] == [4, 38, 39]
    assert numbered(table, filter="_ROW_ID is null or not _ROW_ID >= 0") == []
    assert table.scan([], filter="_SEQUENCE_NUMBER = 2").count() == 10
    assert table.scan(["id"], filter="_ROW_ID between 8 and 11").count() == 4
    if not compacted:
        assert table.explain(filter="_ROW_ID between 8 and 11").statistics.files_planned == 2
        assert table.explain(filter="_SEQUENCE_NUMBER = 2").statistics.files_planned == 1
    assert table.explain(filter="_ROW_ID = 40").statistics.files_planned == 0


def test_the_examples_of_the_page_are_true(catalog: Catalog) -> None:
    assert Page("row-tracking.md").run_python(catalog=catalog) > 5


def test_the_columns_are_unknown_in_a_table_that_does_not_track_rows(catalog: Catalog) -> None:
    table = catalog.create_table("db.t", SCHEMA)
    table.append(rows(1))
    with pytest.raises(InvalidInputError, match="no column '_ROW_ID'"):
        table.scan(["_ROW_ID"])
    with pytest.raises(FilterError, match="_ROW_ID"):
        table.scan(filter="_ROW_ID = 0")
    assert table.snapshots()[0].next_row_id is None
    with pytest.raises(NotSupportedError, match=r"'row-tracking\.enabled' = 'true'"):
        catalog.get_table("db.t$row_tracking")


def test_the_view_row_tracking_has_all_columns_and_is_read_only(catalog: Catalog) -> None:
    table = create(catalog)
    table.append(rows(1))
    table.append(rows(2))
    view = catalog.get_table("db.t$row_tracking")
    assert view.field_names == view.to_arrow().column_names == NUMBERED
    assert view.arrow_schema == view.to_arrow().schema
    assert view.scan(snapshot_id=1).to_arrow().to_pylist() == [{"id": 1, "v": "a", "_ROW_ID": 0, "_SEQUENCE_NUMBER": 1}]
    assert view.scan(["id"], filter="_ROW_ID = 1").to_arrow().to_pylist() == [{"id": 2}]
    builder = view.new_read_builder()
    assert builder.new_read().to_arrow(builder.new_scan().plan().splits()).column_names == NUMBERED
    assert view.copy({"scan.snapshot-id": "1"}).scan().count() == 1
    for change in (lambda: view.append(rows(3)), lambda: view.delete("id = 1"), view.compact):
        with pytest.raises(NotSupportedError, match="read only"):
            change()
    with pytest.raises(InvalidInputError, match="row_tracking"):
        catalog.get_table("db.t$nothing")


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("vectors", ["false", "true"])
def test_rows_keep_their_ids_through_every_rewrite(catalog: Catalog, file_format: str, vectors: str) -> None:
    table = create(catalog, file_format=file_format, deletion__vectors_enabled=vectors)
    table.append(rows(1, 2, 3))
    table.append(rows(4, 5))
    table.compact()
    first = [(1, "a", 0, 1), (2, "a", 1, 1), (3, "a", 2, 1), (4, "a", 3, 2), (5, "a", 4, 2)]
    assert numbered(table) == first
    table.append(rows(6))
    table.delete("id = 2 or _ROW_ID = 3")
    assert numbered(table) == [*first[:1], first[2], first[4], (6, "a", 5, 4)]
    update(table, has_id(3, 6), "b")
    now = [(1, "a", 0, 1), (3, "b", 2, 6), (5, "a", 4, 2), (6, "b", 5, 6)]
    assert numbered(table) == now
    table.compact(full=True)
    assert numbered(table) == now
    newest = table.append(rows(0))
    table.compact(order_strategy="order", order_by="id")
    assert table.scan(["id"]).to_arrow().column("id").to_pylist() == [0, 1, 3, 5, 6]
    assert numbered(table) == [*now, (0, "a", 6, newest)]


def test_an_update_repeated_on_stored_ids_takes_the_newest_number(catalog: Catalog) -> None:
    table = create(catalog)
    table.append(rows(1, 2, 3))
    for n in range(2, 5):
        update(table, has_id(2), f"v{n}")
        assert numbered(table) == [(1, "a", 0, 1), (2, f"v{n}", 1, n), (3, "a", 2, 1)]
    assert table.snapshots()[-1].next_row_id == 3
    assert table.maintenance.fsck().is_sound


def test_overwritten_and_deleted_rows_leave_their_ids_unused(catalog: Catalog) -> None:
    table = create(catalog)
    table.append(rows(1, 2))
    table.overwrite(rows(3))
    assert numbered(table) == [(3, "a", 2, 2)]
    table.truncate()
    table.append(rows(4))
    assert numbered(table) == [(4, "a", 3, 4)]


def test_a_commit_gives_each_partition_ids_without_gaps(catalog: Catalog) -> None:
    schema = pa.schema([("p", pa.int32()), ("id", pa.int32())])
    table = catalog.create_table("db.t", schema, partition_keys=["p"], options=TRACKED)
    table.append(pa.table([pa.array([1, 2, 1, 2], pa.int32()), pa.array([1, 2, 3, 4], pa.int32())], schema=schema))
    found = table.scan(["p", "_ROW_ID"]).to_arrow().to_pylist()
    by_partition = {p: sorted(row["_ROW_ID"] for row in found if row["p"] == p) for p in (1, 2)}
    assert sorted(by_partition.values()) == [[0, 1], [2, 3]]
    table.overwrite(
        pa.table([pa.array([1], pa.int32()), pa.array([9], pa.int32())], schema=schema), partitions=[{"p": "1"}]
    )
    assert {row["_ROW_ID"] for row in table.scan(["_ROW_ID"], filter="p = 1").to_arrow().to_pylist()} == {4}


def test_a_commit_that_lost_a_race_gets_ids_after_those_of_the_winner(catalog: Catalog) -> None:
    table = create(catalog)
    with table.new_write("slow") as write:
        write.write_arrow(rows(10, 11))
        messages = write.prepare_commit()
    table.append(rows(1))
    table.new_commit("slow").commit(messages)
    assert numbered(table) == [(1, "a", 0, 1), (10, "a", 1, 2), (11, "a", 2, 2)]


def test_versions_have_the_ids_of_their_time(catalog: Catalog) -> None:
    table = create(catalog)
    table.append(rows(1))
    table.versions.create_tag("first")
    table.append(rows(2))
    update(table, has_id(1), "b")
    assert numbered(table, snapshot_id=1) == numbered(table.copy({"scan.tag-name": "first"})) == [(1, "a", 0, 1)]
    table.versions.create_branch("b", tag="first")
    branch = table.branch("b")
    branch.append(rows(7))
    assert numbered(branch) == [(1, "a", 0, 1), (7, "a", 1, 2)]
    assert numbered(table) == [(1, "b", 0, 3), (2, "a", 1, 2)]
    table.versions.rollback_to(2)
    table.append(rows(3))
    assert numbered(table) == [(1, "a", 0, 1), (2, "a", 1, 2), (3, "a", 2, 3)]


def test_files_of_an_older_schema_have_ids(catalog: Catalog) -> None:
    table = create(catalog)
    table.append(rows(1, 2))
    with table.update_schema() as change:
        change.add_column("w", pa.int32())
    table.append(pa.table([[3], ["a"], [7]], schema=table.arrow_schema))
    table.delete("id = 1")
    table.compact(full=True)
    found = table.scan(["id", "w", "_ROW_ID", "_SEQUENCE_NUMBER"]).to_arrow().sort_by("id").to_pylist()
    assert [tuple(row.values()) for row in found] == [(2, None, 1, 1), (3, 7, 2, 2)]


@pytest.mark.parametrize(
    ("keys", "options", "message"),
    [
        (["id"], {}, "is for tables without a primary key"),
        ([], {"bucket": "2", "bucket-key": "id"}, "needs 'bucket' = '-1'"),
    ],
)
def test_a_table_that_can_not_track_rows_is_refused(
    catalog: Catalog, keys: list[str], options: dict[str, str], message: str
) -> None:
    schema = SCHEMA.set(0, pa.field("id", pa.int32(), nullable=not keys))
    with pytest.raises((InvalidOptionError, NotSupportedError), match=message):
        catalog.create_table("db.t", schema, primary_keys=keys, options={**TRACKED, **options})


def test_a_table_with_rows_can_not_begin_to_track_them(catalog: Catalog) -> None:
    table = catalog.create_table("db.t", SCHEMA)
    table.append(rows(1))
    with pytest.raises(InvalidOptionError, match="can't be changed"):
        table.update_schema().set_option("row-tracking.enabled", "true").commit()
    with pytest.raises(InvalidOptionError, match="part of the table's layout"):
        table.copy({"row-tracking.enabled": "true"})


def test_fsck_reports_ids_that_two_files_have_and_ids_that_new_rows_would_get_again(catalog: Catalog) -> None:
    table = create(catalog)
    table.append(rows(1, 2))
    table.append(rows(3))
    assert table.maintenance.fsck().is_sound
    first = Path(table.location) / "snapshot" / "snapshot-1"
    second = Path(table.location) / "snapshot" / "snapshot-2"
    second.write_text(second.read_text().replace('"nextRowId": 3', '"nextRowId": 1'))
    assert "nextRowId" in first.read_text()
    table.append(rows(4))
    problems = [finding.problem for finding in catalog.get_table("db.t").maintenance.fsck().findings]
    assert any("has the row id 2, and rows that are yet to come begin with 1" in problem for problem in problems)
    assert any("have the same row ids, from 1 on" in problem for problem in problems)


def test_a_row_without_an_id_is_reported_instead_of_made_up(catalog: Catalog) -> None:
    table = catalog.create_table("db.t", SCHEMA)
    table.append(rows(1))
    path = Path(table.location) / "schema" / "schema-0"
    path.write_text(json.dumps({**json.loads(path.read_text()), "options": {"row-tracking.enabled": "true"}}))
    table = catalog.get_table("db.t")
    assert table.scan().count() == 1
    with pytest.raises(CorruptFileError, match="rows without ids"):
        table.scan(["_ROW_ID"]).to_arrow()
