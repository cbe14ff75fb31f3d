"""Tables whose columns are in files of their own: rows are put together by their ids, and compactions join them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import interbed
from interbed.catalog.client.api import Catalog
from interbed.storage.base.errors import (
    CommitConflictError,
    CorruptFileError,
    InvalidInputError,
    InvalidOptionError,
    NotSupportedError,
)
from interbed.storage.commit.file_store_commit import FileStoreCommit
from interbed.storage.lsm.column_groups import row_range_groups
from interbed.storage.meta.manifest.entry import DataFileMeta
from interbed.storage.upkeep.compact_tasks import plan_tasks, run_task
from interbed.storage.upkeep.rewrite_indexes import rewrite_file_indexes
from interbed.storage.version.orphans import remove_orphan_files
from interbed.storage.views.builder.read import shard_of
from interbed.storage.views.stream.micro_batches import BatchLimits, MicroBatches
from tests.storage.table.evolving_tables import COLUMNS, EVOLVES, SCHEMA, all_of, create, files_of, opened, rows
from tests.support.pages import Page

LATER = 4_102_444_800
"""A time when all files are old, in seconds since the epoch."""


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    with interbed.load_catalog("lake", warehouse=f"file:{tmp_path}") as catalog:
        catalog.create_database("db")
        yield catalog


def test_a_scan_opens_only_the_files_with_the_values_of_its_columns(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = create(catalog)
    table.append(rows(1, 2, 3))
    table.update({"v": "x"}, "id = 2")
    table.update({"n": 7}, "id = 3")
    by_columns = {f.write_cols: f.file_name for f in files_of(table)}
    whole, v, n = by_columns[None], by_columns[("v",)], by_columns[("n",)]
    assert opened(table, ["v"], None, monkeypatch) == {v}
    assert opened(table, ["id", "n"], None, monkeypatch) == {whole, n}
    assert opened(table, ["_ROW_ID", "_SEQUENCE_NUMBER"], None, monkeypatch) == set()
    assert opened(table, ["id"], "v = 'x'", monkeypatch) == {whole, v}
    # No row matches, which the file of the filter shows.
    assert opened(table, ["id", "n"], "v = 'w'", monkeypatch) <= {v}
    assert table.scan([]).count() == 3
    assert opened(table, [], None, monkeypatch) == set()


def test_filters_leave_out_groups_by_the_statistics_of_the_values_that_count(catalog: Catalog) -> None:
    table = create(catalog)
    table.append(rows(1, 2))
    table.append(rows(3, 4))
    table.update({"n": 15}, "id = 1")
    assert table.explain(filter="n = 15").statistics.files_planned == 2
    # 10 is in the statistics of the old file alone.
    assert table.explain(filter="n = 10").statistics.files_planned == 0
    assert table.explain(filter="n = 30 and v = 'v4'").statistics.files_planned == 1
    assert table.explain(filter="_ROW_ID = 3").statistics.files_planned == 1
    assert table.explain(filter="_SEQUENCE_NUMBER = 3").statistics.files_planned == 2
    with table.update_schema() as change:
        change.add_column("w", pa.int32())
    assert table.explain(filter="w = 1").statistics.files_planned == 0
    assert table.scan(["id"], filter="w is null and n > 20").to_arrow()["id"].to_pylist() == [3, 4]


@pytest.mark.parametrize("engine", ["polars", "duckdb"])
def test_engines_read_columns_and_filters(catalog: Catalog, engine: str) -> None:
    table = create(catalog)
    table.append(rows(1, 2, 3))
    table.update({"v": "x"}, "id >= 2")
    if engine == "polars":
        import polars as pl

        lazy = table.scan().to_polars(lazy=True).filter((pl.col("v") == "x") & (pl.col("n") > 20)).select("id")
        assert lazy.collect()["id"].to_list() == [3]
    else:
        assert table.scan().to_duckdb().filter("v = 'x' and n > 20").select("id").fetchall() == [(3,)]


def test_a_limit_time_travel_branches_and_tags_see_the_columns_of_their_time(catalog: Catalog) -> None:
    table = create(catalog)
    table.append(rows(1, 2, 3))
    table.versions.create_tag("before", 1)
    table.update({"v": "x"})
    table.versions.create_branch("work", "before")
    assert table.scan(["v"], snapshot_id=1, limit=2).to_arrow()["v"].to_pylist() == ["v1", "v2"]
    assert table.scan(["v"], limit=2).to_arrow()["v"].to_pylist() == ["x", "x"]
    branch = table.branch("work")
    branch.update({"n": 0}, "id = 1")
    assert [row[1:3] for row in all_of(branch)] == [("v1", 0), ("v2", 20), ("v3", 30)]
    table.versions.rollback_to("before")
    assert [row[:3] for row in all_of(catalog.get_table("db.t"))] == [(i, f"v{i}", i * 10) for i in (1, 2, 3)]
    with pytest.raises(NotSupportedError, match="row"):
        table.versions.merge_branch("work")


def test_changes_and_streams_have_new_rows_alone(catalog: Catalog) -> None:
    table = create(catalog)
    table.append(rows(1))
    table.update({"v": "x"})
    table.append(rows(2))
    changes = table.changes(1, 3).to_arrow().to_pylist()
    assert [(row["id"], row["v"]) for row in changes] == [(1, "v1"), (2, "v2")]
    table.maintenance.expire_snapshots(retain_max=2, retain_min=2)
    assert [s.id for s in table.snapshots()] == [2, 3]
    assert [row["id"] for row in table.changes(2, 3).to_arrow().to_pylist()] == [2]


def test_a_step_of_a_stream_has_all_columns_of_its_rows(catalog: Catalog) -> None:
    table = create(catalog)
    table.append(rows(1, 2))
    table.append(rows(3))
    table.update({"v": "x"})
    batches = MicroBatches(table.store)
    after, limits = batches.start(), BatchLimits(files=1)
    found: list[tuple[Any, ...]] = []
    while (end := batches.advance(after, limits, last_snapshot=3)) is not None:
        step = table.new_read().to_reader(batches.splits(after, end)).read_all().to_pylist()
        found += [tuple(row.values()) for row in step]
        after = end
    assert found == [(i, "x", i * 10) for i in (1, 2, 3)]


def test_partitions_and_shards_are_read_and_updated(catalog: Catalog) -> None:
    schema = pa.schema([pa.field("p", pa.int32()), *COLUMNS])
    table = create(catalog, schema, keys=["p"])
    both = pa.concat_tables([rows(1, 2).add_column(0, "p", [[0, 0]]), rows(3, 4).add_column(0, "p", [[1, 1]])])
    table.append(both.cast(schema))
    table.update({"v": "x"}, "p = 1 and n = 30")
    table.update({"n": 1}, "p = 0")
    assert sorted(row[:3] for row in all_of(table)) == [(1, "v1", 1), (2, "v2", 1), (3, "x", 30), (4, "v4", 40)]
    plan = table.scan().plan
    shards = [shard_of(plan, i, 3, keyed=False) for i in range(3)]
    assert sum(len(shard.splits) for shard in shards) == len(plan.splits) == 2
    with pytest.raises(InvalidInputError, match=r"'p'.*can't be updated"):
        table.update({"p": 3})
    table.overwrite(rows(9).add_column(0, "p", [[1]]).cast(schema), {"p": 1})
    table.delete_partitions({"p": 0})
    assert [row[:3] for row in all_of(table)] == [(9, "v9", 90)]
    assert table.maintenance.fsck().is_sound


def test_a_compaction_joins_columns_and_adjacent_rows(catalog: Catalog) -> None:
    table = create(catalog)
    table.append(rows(1, 2))
    table.append(rows(3))
    table.update({"v": "x"}, "id = 2")
    before = all_of(table)
    (plan,) = table.maintenance.plan_compaction()
    assert plan.files_rewritten == 3
    assert "columns of the same rows" in plan.detail
    table.compact()
    (file,) = files_of(table)
    assert (file.first_row_id, file.row_count, file.write_cols) == (0, 3, None)
    assert [row[:4] for row in all_of(table)] == [row[:4] for row in before]
    assert {row[4] for row in all_of(table)} == {3}
    assert table.compact().snapshot_id is None
    table.maintenance.expire_snapshots(retain_max=1, retain_min=1)
    remove_orphan_files(table.store, older_than_millis=(LATER - 1) * 1000, clock=lambda: LATER)
    assert [row[:4] for row in all_of(table)] == [row[:4] for row in before]
    assert len(list(Path(table.location).glob("bucket-*/*"))) == 1


def test_a_task_of_a_compaction_has_all_columns_of_its_rows(catalog: Catalog) -> None:
    table = create(catalog, target__file__size="1 kb")
    table.append(rows(*range(900)))
    table.update({"n": 5})
    table.update({"v": lambda batch: [f"{i * 7919}" for i in batch["id"].to_pylist()]}, reads=["id"])
    before = all_of(table)
    tasks = plan_tasks(table.store)
    assert [len(task.files) for task in tasks] == [len(group.files) for group in row_range_groups(files_of(table))]
    messages = [message for task in tasks for message in run_task(table.store, task, "user")]
    FileStoreCommit(table.store, "user").commit(messages)
    assert all(f.write_cols is None for f in files_of(table))
    assert [row[:4] for row in all_of(table)] == [row[:4] for row in before]
    assert table.maintenance.fsck().is_sound


def test_rows_of_other_ids_between_are_not_joined(catalog: Catalog) -> None:
    schema = pa.schema([pa.field("p", pa.int32()), *COLUMNS])
    table = create(catalog, schema, keys=["p"])
    for number in range(4):
        table.append(rows(number).add_column(0, "p", [[number % 2]]).cast(schema))
    assert table.compact().snapshot_id is None
    table.update({"v": "x"}, "id = 2")
    table.compact()
    assert {(f.first_row_id, f.row_count) for f in files_of(table)} == {(i, 1) for i in range(4)}


def test_a_compaction_is_a_conflict_if_columns_of_its_rows_came_meanwhile(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = create(catalog)
    table.append(rows(1, 2))
    table.append(rows(3))
    original = FileStoreCommit.commit

    def interrupted(this: Any, *args: Any, **kwargs: Any) -> Any:
        monkeypatch.setattr(FileStoreCommit, "commit", original)
        catalog.get_table("db.t").update({"v": "x"})
        return original(this, *args, **kwargs)

    monkeypatch.setattr(FileStoreCommit, "commit", interrupted)
    with pytest.raises(CommitConflictError, match="joined with others"):
        table.compact()
    assert {row[1] for row in all_of(table)} == {"x"}


def test_what_needs_whole_rows_is_refused_by_name(catalog: Catalog) -> None:
    table = create(catalog)
    table.append(rows(1))
    for change in (
        lambda: table.delete("id = 1"),
        lambda: table.compact(order_strategy="order", order_by="v"),
        lambda: rewrite_file_indexes(table.store),
    ):
        with pytest.raises(NotSupportedError, match=r"'data-evolution\.enabled' = 'true'"):
            change()
    plain = catalog.create_table("db.plain", SCHEMA)
    with pytest.raises(NotSupportedError, match=r"'db\.plain' can't be updated by column"):
        plain.update({"v": "x"})
    for view in ("db.t$row_tracking", "db.t$ro"):
        with pytest.raises(NotSupportedError, match="read only"):
            catalog.get_table(view).update({"v": "x"})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"row-tracking.enabled": "false"}, "needs 'row-tracking.enabled'"),
        ({"deletion-vectors.enabled": "true"}, "contradict each other"),
        ({"clustering.incremental": "true"}, "contradict each other"),
        ({"metadata.iceberg.storage": "table-location"}, "contradict each other"),
    ],
)
def test_options_that_contradict_it_are_refused(catalog: Catalog, options: dict[str, str], message: str) -> None:
    with pytest.raises((InvalidOptionError, NotSupportedError), match=message):
        catalog.create_table("db.t", SCHEMA, options={**EVOLVES, **options})


def _file(name: str, first: int | None, count: int) -> DataFileMeta:
    return DataFileMeta(
        file_name=name,
        file_size=1,
        row_count=count,
        min_sequence_number=1,
        max_sequence_number=1,
        schema_id=0,
        level=0,
        creation_time_millis=0,
        first_row_id=first,
    )


def test_files_that_share_some_of_their_ids_are_damaged() -> None:
    with pytest.raises(CorruptFileError, match=r"a\.parquet and b\.parquet share some"):
        row_range_groups([_file("a.parquet", 0, 5), _file("b.parquet", 3, 5)])
    with pytest.raises(CorruptFileError, match="no first row id"):
        row_range_groups([_file("a.parquet", None, 5)])
    with pytest.raises(NotSupportedError, match="BLOB"):
        row_range_groups([_file("a.parquet", 0, 5), _file("b.blob", 0, 5)])


def test_files_of_different_length_are_damaged(catalog: Catalog) -> None:
    table = create(catalog)
    table.append(rows(*range(10)))
    table.update({"v": "x"})
    paths = {f.write_cols: next(Path(table.location).glob(f"bucket-*/{f.file_name}")) for f in files_of(table)}
    pq.write_table(pa.table({"v": ["x"] * 9}), paths[("v",)])
    with pytest.raises(CorruptFileError):
        table.scan().to_arrow()


def test_wide_rows_are_put_together_in_blocks(catalog: Catalog) -> None:
    columns: list[pa.Field[Any]] = [pa.field("id", pa.int64()), pa.field("a", pa.string()), pa.field("b", pa.string())]
    schema = pa.schema(columns)
    table = create(catalog, schema)
    count = 40_000
    text = np.random.default_rng(1).bytes(count * 300).hex()
    values = [text[i * 600 : (i + 1) * 600] for i in range(count)]
    data: list[Any] = [pa.array(range(count), pa.int64()), values, values]
    table.append(pa.table(data, schema=schema))
    table.update({"b": lambda batch: pc.utf8_reverse(batch["b"])}, reads=["b"])
    lengths = []
    for batch in table.scan(["a", "b"], threads=1).to_arrow_batch_reader():
        lengths.append(batch.num_rows)
        assert pc.all(pc.equal(pc.utf8_reverse(batch["a"]), batch["b"])).as_py()
    assert sum(lengths) == count
    assert max(lengths) < count


def test_the_examples_of_the_page_are_true(catalog: Catalog) -> None:
    assert Page("data-evolution.md").run_python(catalog=catalog) > 5
