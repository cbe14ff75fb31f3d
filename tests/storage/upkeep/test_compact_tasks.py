"""What a compaction's tasks cost, and that they come back from bytes."""

from pathlib import Path
from typing import Any

import pyarrow as pa

import interbed
from interbed.storage.table.table import Table
from interbed.storage.upkeep.compact_tasks import CompactionTask, plan_sort_tasks, plan_tasks, run_task
from interbed.storage.write.sort.order import SortOrder


def _keyed(tmp_path: Path, **options: str) -> Table:
    catalog = interbed.load_catalog(warehouse=str(tmp_path))
    catalog.create_database("db")
    columns: list[Any] = [pa.field("id", pa.int64(), nullable=False), ("v", pa.int64())]
    given = {"bucket": "1", "write-only": "true", **options}
    return catalog.create_table("db.t", pa.schema(columns), primary_keys=["id"], options=given)


def _upsert(table: Table, first: int, rows: int) -> None:
    table.upsert(pa.table({"id": range(first, first + rows), "v": range(rows)}))


def test_a_task_costs_the_files_that_it_reads_and_not_those_that_stay(tmp_path: Path) -> None:
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
