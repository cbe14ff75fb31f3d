"""Changes of keys that move between buckets and partitions: applied in their order they result in the table."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import interbed
from interbed.storage.table.table import Table
from interbed.storage.views.stream.micro_batches import BatchLimits, MicroBatches
from interbed.storage.views.stream.position import StreamPosition

SCHEMA = pa.schema(
    (pa.field("id", pa.int64(), nullable=False), pa.field("p", pa.string(), nullable=False), pa.field("v", pa.int64()))
)

Rows = Sequence[dict[str, Any]]


def create(
    warehouse: Path, options: dict[str, str], *, keys: Sequence[str] = ("id",), partitions: Sequence[str] = ()
) -> Table:
    catalog = interbed.load_catalog("test", warehouse=f"file:{warehouse}")
    catalog.create_database("db", ignore_if_exists=True)
    return catalog.create_table("db.t", SCHEMA, primary_keys=keys, partition_keys=partitions, options=options)


def rows(ids: Iterable[int], p: str, v: int) -> Rows:
    return [{"id": i, "p": p, "v": v + i} for i in ids]


def state(table: Table) -> dict[int, dict[str, Any]]:
    return {row["id"]: row for row in table.to_arrow().to_pylist()}


def applied(changes: Rows, kind: str = "_row_kind", before: Rows = ()) -> dict[int, dict[str, Any]]:
    """Return the rows by key after the changes, one after the other."""
    copy = {row["id"]: row for row in before}
    for change in changes:
        row = dict(change)
        if row.pop(kind) in (1, 3, "-U", "-D"):
            copy.pop(row["id"], None)
        else:
            copy[row["id"]] = row
    return copy


def streamed(table: Table) -> Rows:
    stream = table.stream(from_snapshot=1, idle_seconds=0)
    return [row for changes in stream for row in changes.to_arrow().to_pylist()]


SMALL_BUCKETS = {"bucket": "-1", "dynamic-bucket.target-row-num": "2"}


@pytest.mark.parametrize("option", ["deletion-vectors.enabled", "data-file.thin-mode"])
@pytest.mark.parametrize("by", ["overwrite", "truncate"])
def test_a_comparison_has_each_key_once_though_its_bucket_is_another(tmp_path: Path, by: str, option: str) -> None:
    table = create(tmp_path, {**SMALL_BUCKETS, option: "true"})
    table.upsert(rows([1, 2, 3, 4, 5], "x", 10))
    table.upsert(rows([2], "x", 20))
    table.versions.create_tag("before")
    before, first = list(state(table).values()), table.snapshots()[-1].id
    after = [*rows([5, 4], "x", 10), *rows([3, 7], "x", 30)]
    if by == "overwrite":
        table.overwrite(after)
    else:
        table.truncate()
        table.upsert(after)
    table.versions.create_tag("after")
    last = table.snapshots()[-1].id
    changes = table.changes(first + 1, last, mode="diff").to_arrow().to_pylist()
    assert sorted((row["id"], row["_row_kind"]) for row in changes) == [(1, 3), (2, 3), (3, 0), (7, 0)]
    assert applied(changes, before=before) == state(table)
    compared = table.copy({"incremental-between": "before,after"})
    assert sorted(row["id"] for row in compared.scan(["id"]).to_arrow().to_pylist()) == [3, 7]
    assert compared.count() == 2
    audited = compared.audit_log().scan().to_arrow().to_pylist()
    assert applied(audited, "rowkind", before) == state(table)
    assert len(audited) == 4


@pytest.mark.parametrize(("options", "by"), [(SMALL_BUCKETS, "overwrite"), ({"bucket": "3"}, "rescale")])
def test_a_stream_of_overwrites_deletes_rows_before_it_adds_them_in_other_buckets(
    tmp_path: Path, options: dict[str, str], by: str
) -> None:
    table = create(tmp_path, {**options, "streaming-read-overwrite": "true"})
    table.upsert(rows(range(9), "x", 10))
    if by == "rescale":
        table.maintenance.rescale(1)
    else:
        table.overwrite(rows([8, 7, 6, 5, 1], "x", 20))
    assert applied(streamed(table)) == state(table)


@pytest.mark.parametrize("producer", ["none", "lookup", "full-compaction", "input"])
def test_a_key_that_moves_to_another_partition_is_deleted_before_it_is_added(tmp_path: Path, producer: str) -> None:
    table = create(tmp_path, {"bucket": "-1", "changelog-producer": producer}, partitions=["p"])
    table.upsert([*rows([1, 2], "x", 10), *rows([3], "y", 10), *rows([4], "z", 10)])
    first, before = table.snapshots()[-1].id, list(state(table).values())
    table.upsert([*rows([1, 4], "y", 20), *rows([3], "x", 20), *rows([2], "x", 20)])
    table.upsert([*rows([1], "x", 30), *rows([3], "z", 30)])
    table.delete("id = 4")
    last = table.snapshots()[-1].id
    assert applied(table.changes().to_arrow().to_pylist()) == state(table)
    assert applied(streamed(table)) == state(table)
    compared = table.changes(first + 1, last, mode="diff").to_arrow().to_pylist()
    assert applied(compared, before=before) == state(table)
    between = table.copy({"incremental-between": f"0,{last}"})
    assert applied(between.audit_log().scan().to_arrow().to_pylist(), "rowkind") == state(table)
    packed: dict[int, dict[str, Any]] = {}
    for row in between.binlog().scan().to_arrow().to_pylist():
        packed.pop(row["id"][-1], None)
        if row["rowkind"] != "-D":
            packed[row["id"][-1]] = {name: row[name][-1] for name in SCHEMA.names}
    assert packed == state(table)


def test_filtered_changes_of_a_moved_key_keep_its_deletion(tmp_path: Path) -> None:
    table = create(tmp_path, {"bucket": "-1", "changelog-producer": "lookup"}, partitions=["p"])
    table.upsert(rows([1], "y", 10))
    table.upsert(rows([1], "x", 10))
    left = table.changes(filter="p = 'y'").to_arrow().to_pylist()
    assert [(row["id"], row["_row_kind"]) for row in left] == [(1, 0), (1, 3)]


@pytest.mark.parametrize("limits", [{"max_splits": 1}, {"max_files": 1}])
@pytest.mark.parametrize("options", [{"bucket": "-1"}, {"bucket": "-1", "changelog-producer": "lookup"}])
def test_the_parts_of_a_stream_delete_keys_that_move_before_they_add_them(
    tmp_path: Path, options: dict[str, str], limits: dict[str, Any]
) -> None:
    table = create(tmp_path, options, partitions=["p"])
    table.upsert([*rows([1, 2], "x", 10), *rows([3], "y", 10), *rows([4], "z", 10)])
    table.upsert([*rows([1, 4], "y", 20), *rows([3], "x", 20)])
    table.upsert([*rows([1], "x", 30), *rows([3], "z", 30)])
    parts = [part.to_arrow().to_pylist() for part in table.stream(from_snapshot=1, idle_seconds=0, **limits)]
    assert applied([row for part in parts for row in part]) == state(table)


@pytest.mark.parametrize("limits", [{"max_splits": 1}, {"max_files": 1}])
def test_the_parts_of_an_overwrite_delete_rows_first(tmp_path: Path, limits: dict[str, Any]) -> None:
    table = create(tmp_path, {**SMALL_BUCKETS, "streaming-read-overwrite": "true"})
    table.upsert(rows(range(9), "x", 10))
    table.overwrite(rows([8, 7, 6, 5, 1], "x", 20))
    parts = [part.to_arrow().to_pylist() for part in table.stream(from_snapshot=1, idle_seconds=0, **limits)]
    assert len(parts) > 4
    assert applied([row for part in parts for row in part]) == state(table)


def test_a_micro_batch_has_both_places_of_a_key_that_moves(tmp_path: Path) -> None:
    table = create(tmp_path, {"bucket": "-1", "changelog-producer": "lookup"}, partitions=["p"])
    for where in (("x", "y"), ("y", "x"), ("z", "x"), ("x", "z")):
        table.upsert([*rows([1], where[0], 10), *rows([2], where[1], 10)])
    batches, after = MicroBatches(table.store), StreamPosition(snapshot_id=1)
    copy: dict[int, dict[str, Any]] = {}
    steps = 0
    while (end := batches.advance(after, BatchLimits(files=1))) is not None:
        read = table.new_change_read().to_reader(batches.splits(after, end)).read_all().to_pylist()
        copy = applied(read, before=list(copy.values()))
        after, steps = end, steps + 1
        assert end.is_complete
    assert copy == state(table)
    assert steps == 4
