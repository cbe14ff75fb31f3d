"""Tables whose columns are in files of their own: rows are put together by their ids, and updates write columns."""

import random
from collections.abc import Iterator, Mapping
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
    SchemaMismatchError,
)
from interbed.storage.commit.file_store_commit import FileStoreCommit
from interbed.storage.lsm.column_groups import row_range_groups
from interbed.storage.lsm.file_read import FileRead
from interbed.storage.meta.manifest.entry import DataFileMeta
from interbed.storage.table.table import Table
from interbed.storage.upkeep.column_update import column_change, update_columns
from interbed.storage.upkeep.compact_tasks import plan_tasks, run_task
from interbed.storage.upkeep.rewrite_indexes import rewrite_file_indexes
from interbed.storage.version.orphans import remove_orphan_files
from interbed.storage.views.builder.read import shard_of
from interbed.storage.views.stream.micro_batches import BatchLimits, MicroBatches
from tests.support.pages import Page

LATER = 4_102_444_800
"""A time when all files are old, in seconds since the epoch."""

COLUMNS: "list[pa.Field[Any]]" = [pa.field("id", pa.int32()), pa.field("v", pa.string()), pa.field("n", pa.int64())]
SCHEMA = pa.schema(COLUMNS)
EVOLVES = {"row-tracking.enabled": "true", "data-evolution.enabled": "true", "compaction.min.file-num": "2"}
NUMBERED = ["id", "v", "n", "_ROW_ID", "_SEQUENCE_NUMBER"]


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    with interbed.load_catalog("lake", warehouse=f"file:{tmp_path}") as catalog:
        catalog.create_database("db")
        yield catalog


def create(catalog: Catalog, schema: pa.Schema = SCHEMA, *, keys: Any = (), **options: str) -> Table:
    """Create the table; `a__b_c` is the option `a-b.c`."""
    given = {name.replace("__", "-").replace("_", "."): value for name, value in options.items()}
    return catalog.create_table("db.t", schema, partition_keys=list(keys), options={**EVOLVES, **given})


def rows(*ids: int) -> pa.Table:
    columns: list[Any] = [pa.array(ids, pa.int32()), [f"v{i}" for i in ids], [i * 10 for i in ids]]
    return pa.table(columns, schema=SCHEMA)


def all_of(table: Table, **arguments: Any) -> list[tuple[Any, ...]]:
    """Return the rows with their ids and numbers, ordered by the ids."""
    return [tuple(row.values()) for row in table.scan(NUMBERED, **arguments).to_arrow().sort_by("_ROW_ID").to_pylist()]


def files_of(table: Table) -> list[DataFileMeta]:
    return [entry.file for entry in table.new_scan().entries()]


def opened(table: Table, columns: list[str] | None, condition: str | None, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Return the names of the data files that a scan opens."""
    seen: set[str] = set()
    original = FileRead.opened

    def recording(self: Any, file: DataFileMeta, *args: Any, **kwargs: Any) -> Any:
        seen.add(file.file_name)
        return original(self, file, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(FileRead, "opened", recording)
        table.scan(columns, filter=condition).to_arrow()
    return seen


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_an_update_writes_the_changed_columns_and_rows_keep_their_ids(catalog: Catalog, file_format: str) -> None:
    table = create(catalog, file_format=file_format)
    table.append(rows(1, 2))
    table.append(rows(3))
    assert table.update({"v": "x"}, "id >= 2") == 3
    assert all_of(table) == [(1, "v1", 10, 0, 3), (2, "x", 20, 1, 3), (3, "x", 30, 2, 3)]
    written = [f for f in files_of(table) if f.write_cols is not None]
    assert {(f.write_cols, f.first_row_id, f.row_count) for f in written} == {(("v",), 0, 2), (("v",), 2, 1)}
    assert [s.next_row_id for s in table.snapshots()] == [2, 3, 3]
    assert table.update({"v": "y"}, "id = 3") == 4
    # A group without a changed row gets no file.
    assert len(files_of(table)) == 5
    assert table.update({"v": "z"}, "id = 99") is None
    assert table.maintenance.fsck().is_sound


def test_functions_compute_new_values_from_the_columns_that_they_read(catalog: Catalog) -> None:
    table = create(catalog)
    table.append(rows(1, 2, 3))
    seen: list[list[str]] = []

    def doubled(batch: pa.RecordBatch) -> Any:
        seen.append(batch.schema.names)
        return pc.multiply(batch["n"], 2)

    table.update({"n": doubled, "v": None}, "id <> 2", reads=["n"])
    assert [row[:3] for row in all_of(table)] == [(1, None, 20), (2, "v2", 20), (3, None, 60)]
    assert seen == [["n"]]
    table.update({"n": lambda batch: batch["id"]})
    assert [row[2] for row in all_of(table)] == [1, 2, 3]


@pytest.mark.parametrize("by", ["_ROW_ID", "id"])
def test_given_rows_change_the_rows_of_their_ids_or_keys(catalog: Catalog, by: str) -> None:
    table = create(catalog)
    table.append(rows(0, 1, 2))
    table.append(rows(3, 4))
    table.update([{by: 4, "v": "four"}, {by: 1, "v": "one"}], by=by)
    assert [row[1] for row in all_of(table)] == ["v0", "one", "v2", "v3", "four"]
    with pytest.raises(InvalidInputError, match=f"1 of 2 rows of the update are not in the table.*{by} = 9"):
        table.update([{by: 0, "v": "lost"}, {by: 9, "v": "x"}], by=by)
    with pytest.raises(InvalidInputError, match=f"Two rows of the update have {by} = 1"):
        table.update([{by: 1, "v": "a"}, {by: 1, "v": "b"}], by=by)
    assert [row[1] for row in all_of(table)] == ["v0", "one", "v2", "v3", "four"]
    assert len(table.snapshots()) == 3


def test_given_rows_are_found_by_several_columns_and_by_null(catalog: Catalog) -> None:
    table = create(catalog)
    table.append([{"id": 1, "v": "a", "n": 1}, {"id": 1, "v": "b", "n": 2}, {"id": None, "v": "a", "n": 3}])
    table.update([{"id": 1, "v": "b", "n": 20}, {"id": None, "v": "a", "n": 30}], by=["id", "v"])
    assert [row[2] for row in all_of(table)] == [1, 20, 30]
    table.update([{"id": None, "n": 300}], by="id")
    assert [row[2] for row in all_of(table)] == [1, 20, 300]


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


def test_a_new_column_is_filled_without_reading_the_others(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table = create(catalog)
    table.append(rows(1, 2))
    table.append(rows(3))
    with table.update_schema() as change:
        change.add_column("w", pa.int32())
        change.rename_column("v", "name")
    table.update({"w": lambda batch: pc.add(batch["n"], 1)}, reads=["n"])
    table.append([{"id": 4, "name": "v4", "n": 40, "w": 0}])
    found = table.scan(["name", "w"]).to_arrow().sort_by("name")
    assert found.to_pylist() == [{"name": f"v{i}", "w": w} for i, w in ((1, 11), (2, 21), (3, 31), (4, 0))]
    table.update({"name": "x"}, "w = 11")
    assert table.scan(["name"]).to_arrow().sort_by("name")["name"].to_pylist() == ["v2", "v3", "v4", "x"]
    assert table.scan(["id"], filter="name = 'v1'").to_arrow().num_rows == 0


def test_a_table_that_was_opened_before_a_column_was_added_is_updated(catalog: Catalog) -> None:
    table = create(catalog)
    table.append(rows(1))
    with catalog.get_table("db.t").update_schema() as change:
        change.add_column("w", pa.int32())
    catalog.get_table("db.t").update({"w": 5})
    table.update({"v": "x"}, "n = 10")
    assert catalog.get_table("db.t").scan().to_arrow().to_pylist() == [{"id": 1, "v": "x", "n": 10, "w": 5}]


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_random_updates_agree_with_a_model(catalog: Catalog, file_format: str) -> None:
    chance = random.Random(file_format)
    table = create(catalog, file_format=file_format, file__index_bloom__filter_columns="v", read_batch__size="16")
    model: dict[int, dict[str, Any]] = {}
    for step in range(14):
        kind = chance.choice(["append", "update", "update", "keys", "compact", "full"])
        if kind == "append" or not model:
            ids = range(len(model), len(model) + chance.randint(1, 400))
            table.append(rows(*ids))
            model.update({i: {"id": i, "v": f"v{i}", "n": i * 10} for i in ids})
        elif kind == "update":
            low, column = chance.randrange(len(model)), chance.choice(["v", "n"])
            value: Any = f"s{step}" if column == "v" else step
            table.update({column: value}, f"id >= {low} and id < {low + 50} and v is not null")
            for i in range(low, min(low + 50, len(model))):
                model[i][column] = value
        elif kind == "keys":
            chosen = chance.sample(sorted(model), min(20, len(model)))
            table.update([{"id": i, "n": -i} for i in chosen], by="id")
            for i in chosen:
                model[i]["n"] = -i
        else:
            table.compact(full=kind == "full")
        found = table.scan(["id", "v", "n", "_ROW_ID"]).to_arrow().sort_by("id").to_pylist()
        assert found == [{**row, "_ROW_ID": row["id"]} for row in model.values()], step
        value = chance.choice(list(model.values()))["v"]
        hits = table.scan(["id"], filter=f"v = '{value}' and n > 5").to_arrow().sort_by("id")["id"].to_pylist()
        assert hits == [r["id"] for r in model.values() if r["v"] == value and r["n"] > 5]
        assert table.maintenance.fsck().is_sound


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


class RacingUpdate:
    """An update of a table that stops before its commit, while another writer changes the table."""

    def __init__(self, table: Table, values: Mapping[str, Any], chosen: str | None, **more: Any) -> None:
        self._table = table
        self._change = column_change(table.store, table.name, values, chosen, by=None, reads=more.get("reads", []))

    def beside(self, other: Any, monkeypatch: pytest.MonkeyPatch) -> int | None:
        """Update, with the other change between reading and committing."""
        original = FileStoreCommit.commit

        def interrupted(this: Any, *args: Any, **kwargs: Any) -> Any:
            monkeypatch.setattr(FileStoreCommit, "commit", original)
            other()
            return original(this, *args, **kwargs)

        monkeypatch.setattr(FileStoreCommit, "commit", interrupted)
        return update_columns(self._table.store, self._change, "user")


@pytest.mark.parametrize(
    ("values", "chosen", "other", "conflicts"),
    [
        ({"v": "a"}, None, lambda t: t.append(rows(9)), False),
        ({"v": "a"}, None, lambda t: t.update({"n": 0}), False),
        ({"v": "a"}, "n = 10", lambda t: t.update({"n": 0}), True),
        ({"v": "a"}, "id = 1", lambda t: t.update({"v": "b"}, "id = 2"), True),
        ({"v": "a"}, "id = 1", lambda t: t.update({"v": "b"}, "id = 3"), False),
        ({"v": "a"}, None, lambda t: t.compact(), True),
        ({"v": "a"}, None, lambda t: t.overwrite(rows(7), {}), True),
        ({"v": "a"}, "id = 1", lambda t: t.versions.rollback_to(1), True),
    ],
)
def test_an_update_is_a_conflict_if_its_columns_or_rows_changed_meanwhile(
    catalog: Catalog,
    monkeypatch: pytest.MonkeyPatch,
    values: dict[str, Any],
    chosen: str | None,
    other: Any,
    conflicts: bool,
) -> None:
    table = create(catalog)
    table.append(rows(1, 2))
    table.append(rows(3))
    race = RacingUpdate(table, values, chosen)
    again = catalog.get_table("db.t")
    if conflicts:
        with pytest.raises(CommitConflictError):
            race.beside(lambda: other(again), monkeypatch)
    else:
        race.beside(lambda: other(again), monkeypatch)
        assert table.scan(["v"], filter="id = 1").to_arrow()["v"].to_pylist() == ["a"]
    assert catalog.get_table("db.t").maintenance.fsck().is_sound


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


def test_an_update_is_computed_again_after_a_conflict(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table = create(catalog)
    table.append(rows(1, 2))
    original = FileStoreCommit.commit

    def interrupted(this: Any, *args: Any, **kwargs: Any) -> Any:
        monkeypatch.setattr(FileStoreCommit, "commit", original)
        catalog.get_table("db.t").update({"n": 5}, "id = 1")
        return original(this, *args, **kwargs)

    monkeypatch.setattr(FileStoreCommit, "commit", interrupted)
    table.update({"n": lambda batch: pc.add(batch["n"], 1)}, reads=["n"])
    assert [row[2] for row in all_of(table)] == [6, 21]
    assert len(list(Path(table.location).glob("bucket-*/*"))) == 3


def test_values_that_do_not_fit_change_nothing(catalog: Catalog) -> None:
    schema = pa.schema([pa.field("id", pa.int32(), nullable=False), *COLUMNS[1:]])
    table = create(catalog, schema)
    table.append(rows(1, 2).cast(schema))
    wrong: list[tuple[Any, str]] = [
        ({"n": 1.5}, "'n'"),
        ({"n": lambda batch: pa.array(["x"] * batch.num_rows)}, "'n'"),
        ({"id": None}, "'id'"),
    ]
    for values, message in wrong:
        with pytest.raises(SchemaMismatchError, match=message):
            table.update(values)
    with pytest.raises(InvalidInputError, match="returned 1 values for 2 rows"):
        table.update({"n": lambda batch: [1]})
    with pytest.raises(InvalidInputError, match="no column 'q' to update"):
        table.update({"q": 1})
    with pytest.raises(InvalidInputError, match="names no column"):
        table.update({})
    with pytest.raises(InvalidInputError, match="rows with `by`"):
        table.update([{"n": 1}])
    assert len(table.snapshots()) == 1
    assert len(list(Path(table.location).glob("bucket-*/*"))) == 1


def test_null_stays_null_in_a_column_with_a_default(catalog: Catalog) -> None:
    table = create(catalog)
    with table.update_schema() as change:
        change.update_column_default_value("v", "d")
    table.append([{"id": 1}])
    assert all_of(table)[0][1] == "d"
    table.update({"v": None})
    assert all_of(table)[0][1] is None


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
