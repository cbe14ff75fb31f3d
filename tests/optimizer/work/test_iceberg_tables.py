"""Iceberg tables of a metastore are optimized as interbed's own are, each process exactly once."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog as load_pyiceberg

import interbed
import interbed.testing
from interbed.catalog.client.hive.catalog import HiveCatalog
from interbed.iceberg.optimize.expire import named_files
from interbed.iceberg.table import IcebergTable
from interbed.optimizer.flow.process import (
    CleanupMode,
    Process,
    ProcessState,
    TableSummary,
    TaskAssignment,
    TaskRef,
    WorkKind,
    WorkNeed,
)
from interbed.optimizer.journal.api import MemoryJournal
from interbed.optimizer.views.explanation import dry_run
from interbed.optimizer.watch import HiveWatch
from interbed.optimizer.work.lake_tables import LakeTables, carry_out, delete_result
from interbed.storage.base.clock import now_millis
from interbed.storage.base.errors import CommitConflictError
from tests.iceberg.python_tables import delete_by_key
from tests.optimizer.lake_at_work import work

NAME = "shop.theirs"


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[HiveCatalog]:
    """Catalog with an Iceberg table of fifteen small files."""
    with interbed.testing.metastore(warehouse=f"file:{tmp_path}/lake") as uri:
        made = interbed.load_catalog("lake", metastore="hive", uri=uri)
        assert isinstance(made, HiveCatalog)
        made.create_database("shop")
        with load_pyiceberg("ice", type="hive", uri=uri, warehouse=f"file:{tmp_path}/lake") as theirs:
            rows = pa.table({"id": range(10), "v": ["x"] * 10})
            table = theirs.create_table(NAME, rows.schema)
            for start in range(0, 150, 10):
                table.append(pa.table({"id": range(start, start + 10), "v": ["x"] * 10}))
        with made:
            yield made


def opened(catalog: HiveCatalog) -> IcebergTable:
    """Open the current version of the table."""
    table: Any = catalog.get_table(NAME)
    assert isinstance(table, IcebergTable)
    return table


def ids(catalog: HiveCatalog) -> list[int]:
    """Return the keys of its rows, in order."""
    found: list[Any] = opened(catalog).scan(columns=["id"]).to_arrow()["id"].to_pylist()
    return sorted(found)


def data_files(catalog: HiveCatalog) -> set[str]:
    """Return the files in its data directory."""
    root = Path(opened(catalog).location.removeprefix("file:"))
    return {str(path) for path in (root / "data").rglob("*.parquet")}


def unnamed(catalog: HiveCatalog) -> set[str]:
    """Return the data files that no snapshot names."""
    named = {path.removeprefix("file:").replace("//", "/") for path in named_files(opened(catalog).metadata)}
    return {path for path in data_files(catalog) if path not in named}


def process_of(kind: WorkKind, name: str = "p1", cleanup: CleanupMode | None = None) -> Process:
    """Return a process as the scheduler starts it."""
    return Process(
        id=name,
        table=NAME,
        kind=kind,
        group="default",
        reason="test",
        state=ProcessState.RUNNING,
        created_millis=0,
        before=TableSummary(snapshot_id=None, score=0, read_amplification=1.0, pending_bytes=0),
        cleanup=cleanup,
    )


def test_small_files_and_delete_files_are_detected_and_rewritten(catalog: HiveCatalog) -> None:
    delete_by_key(opened(catalog), "id", range(0, 150, 5))
    before = ids(catalog)
    found = LakeTables(catalog).measure(NAME)
    (bucket,) = found.health.by_bucket
    assert (bucket.files, bucket.small_files, bucket.rows, bucket.delete_rows) == (15, 16, 150, 30)
    need = WorkNeed(kind=WorkKind.MINOR, reason="test", due_millis=0)
    (shown,) = dry_run(catalog, NAME, [need])
    assert [(task.kind, task.files) for task in shown.tasks] == [("rewrite", 15)]

    journal = MemoryJournal()
    work(catalog, journal, watch=lambda sweep: HiveWatch(catalog.client, sweep, now_millis))
    assert ids(catalog) == before
    assert opened(catalog).explain().files == 1
    assert opened(catalog).explain().delete_file_reads == 0
    assert unnamed(catalog) == set()
    # Nothing is due any more.
    last = opened(catalog).snapshots()[-1].snapshot_id
    work(catalog, journal, watch=lambda sweep: HiveWatch(catalog.client, sweep, now_millis))
    assert opened(catalog).snapshots()[-1].snapshot_id == last


def test_a_table_published_from_another_one_is_not_optimized(catalog: HiveCatalog) -> None:
    options = {
        "metadata.iceberg.storage": "hive-catalog",
        "metadata.iceberg.uri": catalog.options.raw["uri"],
        "metadata.iceberg.database": "ice",
        "write-only": "true",
    }
    table = catalog.create_table("shop.ours", pa.schema([("id", pa.int64())]), options=options)
    for number in range(15):
        table.append(pa.table({"id": [number]}))
    published: Any = catalog.get_table("ice.ours")
    assert isinstance(published, IcebergTable)
    assert published.count() == 15
    assert not LakeTables(catalog).measure("ice.ours").optimizing.enabled
    assert LakeTables(catalog).measure("shop.ours").optimizing.enabled


def test_a_process_is_committed_once_despite_retries(catalog: HiveCatalog) -> None:
    before = ids(catalog)
    tables, process = LakeTables(catalog), process_of(WorkKind.MINOR)
    plan = tables.plan(process, WorkNeed(kind=WorkKind.MINOR, reason="test", due_millis=0), 2)
    assignments = [
        TaskAssignment(
            ref=TaskRef(process=process.id, number=number, attempt=1),
            table=NAME,
            kind=process.kind,
            payload=task.payload,
            lease_millis=1000,
        )
        for number, task in enumerate(plan.tasks)
    ]
    lost = [carry_out(catalog, assignment) for assignment in assignments]
    outcomes = [carry_out(catalog, assignment) for assignment in assignments]
    assert len(unnamed(catalog)) == 2 * len(assignments)
    delete_result(catalog, assignments[0], lost[0])
    results = [outcome.result for outcome in outcomes]
    made = tables.commit(process, results)
    assert made is not None
    assert LakeTables(catalog).commit(process, results) == made
    tables.end(process_of(WorkKind.MINOR, cleanup=CleanupMode.SWEEP), results)
    assert unnamed(catalog) == set()
    assert ids(catalog) == before
    assert sum(outcome.figures.files_in for outcome in outcomes) == 15


@pytest.mark.long
def test_a_late_process_gives_way_and_leaves_no_files(catalog: HiveCatalog) -> None:
    tables, process = LakeTables(catalog), process_of(WorkKind.FULL)
    plan = tables.plan(process, WorkNeed(kind=WorkKind.FULL, reason="test", due_millis=0), 1)
    ref = TaskRef(process=process.id, number=0, attempt=1)
    (task,) = plan.tasks
    outcome = carry_out(
        catalog, TaskAssignment(ref=ref, table=NAME, kind=process.kind, payload=task.payload, lease_millis=1000)
    )
    opened(catalog).compact()
    before = ids(catalog)
    with pytest.raises(CommitConflictError):
        tables.commit(process, [outcome.result])
    tables.end(process_of(WorkKind.FULL, cleanup=CleanupMode.DISCARD), [outcome.result])
    assert unnamed(catalog) == set()
    assert ids(catalog) == before
