"""Overwriting with rows that were computed from the table: concurrent changes are not lost unnoticed."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import interbed
from interbed.storage.base.errors import CommitConflictError, SnapshotNotFoundError
from interbed.storage.base.predicate.conditions import bound_filter
from interbed.storage.table.table import Table
from interbed.storage.upkeep.changed_rows import SnapshotRows

SCHEMA = pa.schema(
    (pa.field("p", pa.int32(), nullable=False), pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.int64()))
)
KINDS: dict[str, dict[str, Any]] = {
    "append": {"options": {"bucket": "-1"}},
    "key": {"primary_keys": ["p", "id"], "options": {"bucket": "1"}},
    "vectors": {"primary_keys": ["p", "id"], "options": {"bucket": "1", "deletion-vectors.enabled": "true"}},
    "dynamic buckets": {"primary_keys": ["p", "id"], "options": {"bucket": "-1"}},
}


@pytest.fixture(params=KINDS)
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    catalog = interbed.load_catalog("lake", warehouse=str(tmp_path))
    catalog.create_database("d")
    made = catalog.create_table("d.t", SCHEMA, partition_keys=["p"], **KINDS[request.param])
    made.append(batch((1, 1, 1), (2, 2, 2)))
    return made


def batch(*rows: tuple[int, int, int]) -> pa.Table:
    return pa.table([list(column) for column in zip(*rows, strict=True)], schema=SCHEMA)


def rows_of(table: Table) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in table.to_arrow().to_pylist())


def newest(table: Table) -> int:
    latest = table.latest_snapshot()
    assert latest is not None
    return latest.id


@pytest.mark.parametrize("partitions", [None, {}, {"p": 1}])
def test_rows_committed_after_the_read_are_a_conflict(table: Table, partitions: dict[str, int] | None) -> None:
    read_at = newest(table)
    table.append(batch((1, 3, 3)))
    before = rows_of(table)
    files = sorted(Path(table.location).rglob("data-*"))
    with pytest.raises(CommitConflictError, match=rf"Snapshot {read_at + 1} changed rows meanwhile"):
        table.overwrite(batch((1, 1, 9)), partitions, read_at=read_at)
    assert (rows_of(table), sorted(Path(table.location).rglob("data-*"))) == (before, files)
    table.overwrite(batch((1, 1, 9), (1, 3, 9)), {"p": 1}, read_at=newest(table))
    assert rows_of(table) == [(1, 1, 9), (1, 3, 9), (2, 2, 2)]


def test_rows_of_other_partitions_and_compactions_are_no_conflict(table: Table) -> None:
    read_at = newest(table)
    table.append(batch((2, 3, 3)))
    table.compact(full=True)
    table.overwrite(batch((1, 1, 9)), {"p": 1}, read_at=read_at)
    assert rows_of(table) == [(1, 1, 9), (2, 2, 2), (2, 3, 3)]


def test_a_future_snapshot_is_refused_as_the_one_that_was_read(table: Table) -> None:
    with pytest.raises(SnapshotNotFoundError, match="no snapshot 99"):
        table.overwrite(batch((1, 1, 9)), read_at=99)
    assert rows_of(table) == [(1, 1, 1), (2, 2, 2)]


UNSEEN: dict[str, dict[str, str]] = {
    "vectors": {"bucket": "1", "deletion-vectors.enabled": "true"},
    "first-row": {"bucket": "1", "merge-engine": "first-row"},
    "first-row in dynamic buckets": {"bucket": "-1", "merge-engine": "first-row"},
    "no bucket yet": {"bucket": "-2", "postpone.batch-write-fixed-bucket": "false"},
}


@pytest.mark.parametrize("partitions", [None, {}, {"p": 1}])
@pytest.mark.parametrize("kind", UNSEEN)
def test_rows_that_no_scan_returns_yet_are_not_overwritten(
    kind: str, partitions: dict[str, int] | None, tmp_path: Path
) -> None:
    catalog = interbed.load_catalog("lake", warehouse=str(tmp_path))
    catalog.create_database("d")
    table = catalog.create_table("d.t", SCHEMA, partition_keys=["p"], primary_keys=["p", "id"], options=UNSEEN[kind])
    table.append(batch((1, 1, 1), (2, 2, 2)))
    table.compact(full=True)
    table.copy({"write-only": "true"}).append(batch((1, 3, 3)))
    assert rows_of(table) == [(1, 1, 1), (2, 2, 2)]
    files = sorted(Path(table.location).rglob("data-*"))
    for data in (batch((1, 1, 9)), batch((1, 1, 9)).slice(1)):
        if partitions is not None or data.num_rows:
            with pytest.raises(CommitConflictError, match="has 1 rows to be replaced that a scan returns only after"):
                table.overwrite(data, partitions, read_at=newest(table))
    assert sorted(Path(table.location).rglob("data-*")) == files
    table.overwrite(batch((2, 2, 9)), {"p": 2}, read_at=newest(table))
    table.compact(full=True)
    assert (1, 3, 3) in rows_of(table)
    table.overwrite(batch((1, 1, 9)), {"p": 1}, read_at=newest(table))
    table.compact(full=True)
    assert rows_of(table)[0] == (1, 1, 9)


def test_a_snapshot_that_was_rolled_back_is_a_conflict_also_if_another_commit_has_its_id(table: Table) -> None:
    start = newest(table)
    table.append(batch((1, 3, 3)))
    read_at = table.latest_snapshot()
    assert read_at is not None
    computed = batch((1, 1, 9), (1, 3, 9))
    table.versions.rollback_to(start)
    with pytest.raises(CommitConflictError, match="rolled back"):
        table.overwrite(computed, {"p": 1}, read_at=read_at)
    while newest(table) < read_at.id:
        table.append(batch((1, 30, 30)))
    before = rows_of(table)
    with pytest.raises(CommitConflictError, match=f"Snapshot {read_at.id}.*was rolled back"):
        table.overwrite(computed, {"p": 1}, read_at=read_at)
    assert rows_of(table) == before == [(1, 1, 1), (1, 30, 30), (2, 2, 2)]
    table.overwrite(computed, {"p": 1}, read_at=table.latest_snapshot())
    assert rows_of(table) == [(1, 1, 9), (1, 3, 9), (2, 2, 2)]


def test_changes_worked_out_from_a_snapshot_that_was_rolled_back_are_a_conflict(table: Table) -> None:
    start = newest(table)
    table.append(batch((1, 3, 3)))
    read = SnapshotRows(table.store, "u")
    [found] = [b for b in read.batches(bound_filter("id = 3", table.store.schema.fields)) if b.num_rows]
    changed = found.set_column(2, "v", pa.array([9], pa.int64()))
    table.versions.rollback_to(start)
    with pytest.raises(CommitConflictError, match="rolled back"):
        read.commit(updated=[changed])
    while newest(table) < read.snapshot_id:
        table.append(batch((1, 30, 30)))
    with pytest.raises(CommitConflictError, match="rolled back"):
        read.commit(updated=[changed])
    assert rows_of(table) == [(1, 1, 1), (1, 30, 30), (2, 2, 2)]


def test_keys_that_were_looked_up_before_a_rollback_are_a_conflict(tmp_path: Path) -> None:
    catalog = interbed.load_catalog("lake", warehouse=str(tmp_path))
    catalog.create_database("d")
    moving = catalog.create_table("d.t", SCHEMA, partition_keys=["p"], primary_keys=["id"], options={"bucket": "-1"})
    moving.upsert(batch((1, 1, 1)))
    moving.upsert(batch((2, 1, 2)))
    write = moving.new_write("u", batch=True)
    write.write_arrow(batch((3, 1, 3)).to_batches()[0])
    messages = write.prepare_commit()
    write.close()
    moving.versions.rollback_to(1)
    with pytest.raises(CommitConflictError, match="rolled back"):
        moving.new_commit("u").commit(messages)
    assert rows_of(moving) == [(1, 1, 1)]


def test_keys_are_not_taken_from_a_snapshot_whose_id_another_commit_has(tmp_path: Path) -> None:
    catalog = interbed.load_catalog("lake", warehouse=str(tmp_path))
    catalog.create_database("d")
    moving = catalog.create_table("d.t", SCHEMA, partition_keys=["p"], primary_keys=["id"], options={"bucket": "-1"})
    moving.upsert(batch((1, 1, 1)))
    write = moving.new_write("u")
    commit = moving.new_commit("u")
    write.write_arrow(batch((2, 1, 2)).to_batches()[0])
    commit.commit(write.prepare_commit(), identifier=1)
    write.write_arrow(batch((3, 1, 3)).to_batches()[0])
    late = write.prepare_commit()
    moving.versions.rollback_to(1)
    catalog.get_table("d.t").upsert(batch((4, 1, 4)))
    with pytest.raises(CommitConflictError, match="rolled back"):
        commit.commit(late, identifier=2)
    # The writer looks the keys up again.
    write.write_arrow(batch((5, 1, 5)).to_batches()[0])
    commit.commit(write.prepare_commit(), identifier=3)
    write.close()
    assert rows_of(moving) == [(5, 1, 5)]
