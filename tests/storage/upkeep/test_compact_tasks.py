"""Costs of the tasks of a compaction, and their serialization."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import interbed
from interbed.storage.commit.file_store_commit import FileStoreCommit
from interbed.storage.io.faults import FaultyFileIO
from interbed.storage.io.local import LocalFileIO
from interbed.storage.table.opening import open_store
from interbed.storage.table.table import Table
from interbed.storage.upkeep.compact_tasks import CompactionTask, plan_sort_tasks, plan_tasks, run_task
from interbed.storage.write.sort.key import SortOrder


def _keyed(tmp_path: Path, **options: str) -> Table:
    catalog = interbed.load_catalog(warehouse=str(tmp_path))
    catalog.create_database("db")
    columns: list[Any] = [pa.field("id", pa.int64(), nullable=False), ("v", pa.int64())]
    given = {"bucket": "1", "write-only": "true", **options}
    return catalog.create_table("db.t", pa.schema(columns), primary_keys=["id"], options=given)


def _upsert(table: Table, first: int, rows: int) -> None:
    table.upsert(pa.table({"id": range(first, first + rows), "v": range(rows)}))


def test_a_task_costs_the_files_that_it_reads_not_those_that_stay(tmp_path: Path) -> None:
    table = _keyed(tmp_path, **{"num-sorted-run.compaction-trigger": "3"}).copy({"write-only": "false"})
    writing = table.copy({"write-only": "true"})
    _upsert(writing, 0, 200_000)
    table.compact()
    for turn in range(3):
        _upsert(writing, turn, 100)

    (minor,) = plan_tasks(table.store, full=False)
    (full,) = plan_tasks(table.store)

    assert {f.file_name for f in minor.files} == {f.file_name for f in full.files}
    assert full.cost == sum(f.file_size for f in full.files)
    assert minor.cost == full.cost - max(f.file_size for f in full.files)
    assert CompactionTask.from_bytes(minor.to_bytes()) == minor
    (message,) = run_task(table.store, minor, "c")
    assert sum(f.file_size for f in message.compaction.before) == minor.cost


def test_each_range_of_a_sort_costs_all_rows_of_its_partition(tmp_path: Path) -> None:
    catalog = interbed.load_catalog(warehouse=str(tmp_path))
    catalog.create_database("db")
    table = catalog.create_table("db.t", pa.schema([("id", pa.int64())]), options={"bucket": "-1"})
    table.append(pa.table({"id": range(1000)}))
    order = SortOrder.of(table.schema, "order", "id")
    assert order is not None

    (task,) = plan_sort_tasks(table.store, order, parallelism=2)

    assert task.needs_ranges
    assert task.cost == sum(f.file_size for f in task.files) > 0


FILES = 16
ROWS = 10


def _marked(tmp_path: Path, *, deletes: int, **options: str) -> Table:
    """An append table of FILES files; each of `deletes` deletions marks one row of every `deletes`-th file."""
    catalog = interbed.load_catalog(warehouse=str(tmp_path))
    catalog.create_database("db")
    own = {"deletion-vectors.enabled": "true", "bucket": "-1", **options}
    table = catalog.create_table("db.t", pa.schema([("id", pa.int64())]), options=own)
    for number in range(FILES):
        table.append(pa.table({"id": range(ROWS * number, ROWS * number + ROWS)}))
    for turn in range(deletes):
        table.delete(" or ".join(f"id = {ROWS * n + 3}" for n in range(turn, FILES, deletes)))
    return table


def _reads(file_io: FaultyFileIO) -> list[str]:
    return [path for operation, path in file_io.calls if operation == "read_bytes" and "/index/index-" in path]


def _ids(table: Table) -> list[int]:
    ids: Any = table.scan().to_arrow()["id"].to_pylist()
    return sorted(ids)


@pytest.mark.parametrize("full", [True, False])
def test_files_that_share_an_index_file_are_in_one_task_that_reads_it_once(tmp_path: Path, full: bool) -> None:
    # A task takes two files of the target size, except for files that share an index file.
    table = _marked(tmp_path, deletes=4, **{"target-file-size": "1 b", "compaction.delete-ratio-threshold": "0.05"})
    before = _ids(table)
    file_io = FaultyFileIO(LocalFileIO())
    store = open_store(table.location, file_io)

    tasks = plan_tasks(store, full=full)

    assert _reads(file_io) == []
    assert [(len(task.files), len(task.index_files)) for task in tasks] == [(4, 1)] * 4
    messages = []
    for task in tasks:
        file_io.calls.clear()
        messages += run_task(store, CompactionTask.from_bytes(task.to_bytes()), "c")
        assert len(_reads(file_io)) == 1
    assert FileStoreCommit(store, "c").commit(messages)
    assert _ids(table) == before
    assert not any(split.deletion_files for split in table.new_scan().plan().splits)


def test_deletion_vectors_of_files_that_are_not_due_are_kept(tmp_path: Path) -> None:
    options = {"target-file-size": "1 b", "compaction.delete-ratio-threshold": "0.15"}
    table = _marked(tmp_path, deletes=2, **options)
    # Every fourth file has lost two of its ten rows, and has its deletion vector in an index file of its own.
    table.delete(" or ".join(f"id = {ROWS * n + 5}" for n in range(0, FILES, 4)))
    before = _ids(table)

    tasks = plan_tasks(table.store, full=False)

    assert [len(task.files) for task in tasks] == [4]
    assert FileStoreCommit(table.store, "c").commit(run_task(table.store, tasks[0], "c"))
    assert _ids(table) == before
    marked = {name for split in table.new_scan().plan().splits for name in split.deletion_files}
    assert len(marked) == FILES - 4


@pytest.mark.parametrize("bucket", ["-1", "1"])
def test_a_compaction_of_the_table_reads_an_index_file_once(tmp_path: Path, bucket: str) -> None:
    keys = {} if bucket == "-1" else {"bucket-key": "id"}
    table = _marked(tmp_path, deletes=1, bucket=bucket, **keys)
    before = _ids(table)
    file_io = FaultyFileIO(LocalFileIO())
    watched = Table("db.t", open_store(table.location, file_io))

    assert watched.maintenance.plan_compaction()
    assert _reads(file_io) == []
    (task,) = plan_tasks(watched.store)
    assert (len(task.files), len(task.index_files)) == (FILES, 1)
    watched.compact()

    assert len(_reads(file_io)) == 1
    assert _ids(table) == before


def test_a_bucket_with_a_primary_key_reads_its_deletion_vectors_once(tmp_path: Path) -> None:
    table = _keyed(tmp_path, **{"deletion-vectors.enabled": "true", "write-only": "false"})
    _upsert(table, 0, 100_000)
    table.compact()
    _upsert(table, 100, 100)
    _upsert(table.copy({"write-only": "true"}), 99_950, 100)
    file_io = FaultyFileIO(LocalFileIO())
    store = open_store(table.location, file_io, dynamic_options={"write-only": "false"})

    (task,) = plan_tasks(store)

    assert task.index_files
    assert _reads(file_io) == []
    assert FileStoreCommit(store, "c").commit(run_task(store, task, "c"))
    assert len(_reads(file_io)) == 1
    assert _ids(table) == list(range(100_050))
