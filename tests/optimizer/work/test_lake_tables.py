"""Tables of a catalog behind the scheduler's interface: measuring, planning, committing and cleaning up."""

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from interbed.catalog.client.api import Catalog
from interbed.catalog.client.errors import TableNotFoundError
from interbed.catalog.client.factory import open_catalog
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
from interbed.optimizer.flow.tables import PlannedTask
from interbed.optimizer.work.lake_tables import LakeTables, carry_out, delete_result
from interbed.storage.base.errors import CommitConflictError, CommitFailedError
from interbed.storage.meta.schema.table_schema import Schema
from interbed.storage.table.table import Table
from interbed.storage.version.orphans import named_files

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("value", pa.int64())])
NUMBERS = itertools.count()


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    with open_catalog("lake", {"warehouse": str(tmp_path / "lake")}) as opened:
        opened.create_database("shop")
        yield opened


@pytest.fixture
def tables(catalog: Catalog) -> LakeTables:
    return LakeTables(catalog)


def keyed(catalog: Catalog, options: Mapping[str, str] | None = None, *, commits: int = 8) -> Table:
    """Create a table with a primary key and two buckets, with one sorted run for each commit."""
    given = {"bucket": "2", "write-only": "true", **(options or {})}
    catalog.create_table("shop.orders", Schema.from_pyarrow_schema(SCHEMA, primary_keys=["id"], options=given), False)
    table = catalog.get_table("shop.orders")
    for number in range(commits):
        table.upsert(rows(number))
    return table


def plain(catalog: Catalog, options: Mapping[str, str] | None = None, *, commits: int = 14) -> Table:
    """Create a table without a key, of small files."""
    given = {"write-only": "true", **(options or {})}
    catalog.create_table("shop.orders", Schema.from_pyarrow_schema(SCHEMA, options=given), False)
    table = catalog.get_table("shop.orders")
    for number in range(commits):
        table.append(rows(number))
    return table


def rows(number: int) -> pa.Table:
    return pa.table({"id": range(number, number + 50), "value": [number] * 50}, schema=SCHEMA)


def process(kind: WorkKind, options: Mapping[str, str] | None = None) -> Process:
    """Return a process that has not started."""
    return Process(
        id=f"process-{next(NUMBERS)}",
        table="shop.orders",
        kind=kind,
        group="default",
        reason="a test",
        state=ProcessState.RUNNING,
        created_millis=0,
        before=TableSummary(snapshot_id=1, score=50, read_amplification=5.0, pending_bytes=1000),
        options=options or {},
    )


def planned(tables: LakeTables, begun: Process, slots: int = 1) -> list[PlannedTask]:
    need = WorkNeed(kind=begun.kind, reason=begun.reason, due_millis=0, options=begun.options)
    return list(tables.plan(begun, need, slots).tasks)


def attempts(begun: Process, tasks: list[PlannedTask], attempt: int = 1) -> list[TaskAssignment]:
    return [
        TaskAssignment(
            ref=TaskRef(process=begun.id, number=number, attempt=attempt),
            table=begun.table,
            kind=begun.kind,
            payload=task.payload,
            lease_millis=60_000,
        )
        for number, task in enumerate(tasks)
    ]


def done(catalog: Catalog, tables: LakeTables, begun: Process, slots: int = 1) -> list[bytes]:
    """Plan the process and carry out its tasks."""
    found = [carry_out(catalog, a) for a in attempts(begun, planned(tables, begun, slots))]
    return [outcome.result for outcome in found]


def content(table: Table) -> list[dict[str, object]]:
    return sorted(table.scan().to_arrow().to_pylist(), key=lambda row: (row["id"], row["value"]))


def left_over(table: Table) -> set[str]:
    """Return marks, and files of data and indexes that no snapshot names."""
    root = Path(table.location)
    known = {Path(path).name for path in named_files(table.store)}
    files = {f.name for pattern in ("bucket-*/*", "index/*") for f in root.glob(pattern)} - known
    return files | {f.name for f in (root / "snapshot").glob(".write-*")}


def ended(begun: Process, cleanup: CleanupMode) -> Process:
    return replace(begun, state=ProcessState.ENDING, ending=ProcessState.SUCCEEDED, cleanup=cleanup)


def test_a_minor_compaction_leaves_as_many_runs_as_are_allowed(catalog: Catalog, tables: LakeTables) -> None:
    table = keyed(catalog)
    before, begun = content(table), process(WorkKind.MINOR, {"num-sorted-run.compaction-trigger": "3"})
    results = done(catalog, tables, begun, slots=2)
    assert len(results) == 2
    snapshot = tables.commit(begun, results)
    tables.end(ended(begun, CleanupMode.SWEEP), results)
    assert snapshot == 9
    assert content(table) == before
    assert not left_over(table)
    assert tables.measure("shop.orders").health.runs_max <= 3


def test_a_major_compaction_rewrites_buckets_with_many_deleted_rows(catalog: Catalog, tables: LakeTables) -> None:
    table = keyed(catalog, commits=1)
    table.compact()
    table.delete(filter="id < 40")
    before, begun = content(table), process(WorkKind.MAJOR)
    results = done(catalog, tables, begun)
    assert tables.commit(begun, results) is not None
    assert content(table) == before
    assert tables.measure("shop.orders").health.delete_rows == 0
    assert not planned(tables, process(WorkKind.MAJOR))


def test_a_full_compaction_sorts_a_table_that_asks_for_it(catalog: Catalog, tables: LakeTables) -> None:
    table = plain(catalog, {"self-optimizing.order-by": "value,id", "bucket": "-1"}, commits=5)
    begun = process(WorkKind.FULL)
    results = done(catalog, tables, begun)
    assert tables.commit(begun, results) is not None
    found = table.scan().to_arrow().to_pylist()
    assert found == sorted(found, key=lambda row: (row["value"], row["id"]))


def test_a_plan_without_tasks_leaves_no_mark(catalog: Catalog, tables: LakeTables) -> None:
    table = keyed(catalog, commits=1)
    table.compact()
    assert not planned(tables, process(WorkKind.MINOR))
    assert not left_over(table)


def test_a_repeated_commit_is_made_once(catalog: Catalog, tables: LakeTables) -> None:
    table = keyed(catalog)
    begun = process(WorkKind.MINOR)
    results = done(catalog, tables, begun)
    first = tables.commit(begun, results)
    assert tables.commit(begun, results) == first
    assert LakeTables(catalog).commit(begun, results) == first
    newest = table.latest_snapshot()
    assert newest is not None
    assert newest.id == first


def test_a_compaction_gives_way_to_an_earlier_commit(catalog: Catalog, tables: LakeTables) -> None:
    table = keyed(catalog)
    begun = process(WorkKind.FULL)
    results = done(catalog, tables, begun)
    table.compact()
    before = content(table)
    with pytest.raises(CommitConflictError):
        tables.commit(begun, results)
    assert left_over(table)
    tables.end(ended(begun, CleanupMode.DISCARD), results)
    assert not left_over(table)
    assert content(table) == before


def test_files_of_a_process_with_an_unknown_outcome_are_kept(catalog: Catalog, tables: LakeTables) -> None:
    table = keyed(catalog)
    begun = process(WorkKind.FULL)
    results = done(catalog, tables, begun)
    files = left_over(table)
    tables.end(ended(begun, CleanupMode.LEAVE), results)
    assert left_over(table) == {name for name in files if not name.startswith(".write-")}


def test_files_of_a_superseded_attempt_are_deleted(catalog: Catalog, tables: LakeTables) -> None:
    table = keyed(catalog)
    begun = process(WorkKind.FULL)
    tasks = planned(tables, begun)
    lost = [carry_out(catalog, a) for a in attempts(begun, tasks)]
    results = [carry_out(catalog, a).result for a in attempts(begun, tasks, 2)]
    tables.commit(begun, results)
    assert len(left_over(table)) > 1
    tables.end(ended(begun, CleanupMode.SWEEP), results)
    assert not left_over(table)
    # A late attempt cleans up files that are already deleted.
    for assignment, outcome in zip(attempts(begun, tasks), lost, strict=True):
        delete_result(catalog, assignment, outcome)
    assert len(content(table)) == 57


@pytest.mark.parametrize("beside_data", ["false", "true"])
@pytest.mark.parametrize("make", [keyed, plain])
def test_deletion_vectors_of_a_superseded_attempt_are_deleted(
    catalog: Catalog, tables: LakeTables, make: Callable[..., Table], beside_data: str
) -> None:
    table = make(catalog, {"deletion-vectors.enabled": "true", "index-file-in-data-file-dir": beside_data}, commits=3)
    if table.schema.has_primary_key:
        # Two levels, so that deletion vectors mark rows of the lower one.
        table.compact()
        table.upsert(rows(3))
    else:
        table.delete("id = 20")
    before, begun = content(table), process(WorkKind.MINOR, {"compaction.min.file-num": "2"})
    tasks = planned(tables, begun)
    for assignment in attempts(begun, tasks):
        carry_out(catalog, assignment)
    assert left_over(table)
    results = [carry_out(catalog, a).result for a in attempts(begun, tasks, 2)]
    tables.commit(begun, results)
    tables.end(ended(begun, CleanupMode.SWEEP), results)
    assert not left_over(table)
    assert table.schema.has_primary_key or content(table) == before
    assert table.maintenance.fsck().is_sound


def test_a_task_of_an_ended_process_leaves_no_files(catalog: Catalog, tables: LakeTables) -> None:
    table = keyed(catalog)
    begun = process(WorkKind.FULL)
    tasks = planned(tables, begun)
    tables.end(ended(begun, CleanupMode.DISCARD), [])
    with pytest.raises(CommitFailedError, match="has ended without it"):
        carry_out(catalog, attempts(begun, tasks)[0])
    assert not left_over(table)


def test_a_dropped_table_is_reported(catalog: Catalog, tables: LakeTables) -> None:
    keyed(catalog)
    begun = process(WorkKind.FULL)
    results = done(catalog, tables, begun)
    catalog.drop_table("shop.orders")
    for ask in (lambda: tables.measure("shop.orders"), lambda: tables.commit(begun, results)):
        with pytest.raises(TableNotFoundError):
            ask()


UPKEEP = {"snapshot.num-retained.min": "2", "snapshot.num-retained.max": "3"}


def test_snapshots_of_write_only_tables_expire(catalog: Catalog, tables: LakeTables) -> None:
    table = keyed(catalog, UPKEEP)
    assert tables.measure("shop.orders").health.snapshots_due == 5
    results = done(catalog, tables, process(WorkKind.EXPIRE))
    assert tables.commit(process(WorkKind.EXPIRE), results) is None
    assert [s.id for s in table.snapshots()] == [6, 7, 8]


@pytest.mark.parametrize("kind", [WorkKind.ANALYZE, WorkKind.RESCALE])
def test_maintenance_returns_the_snapshot_that_it_committed(
    kind: WorkKind, catalog: Catalog, tables: LakeTables
) -> None:
    keyed(catalog, commits=2)
    table = catalog.get_table("shop.orders")
    before = content(table)
    if kind is WorkKind.RESCALE:
        with table.update_schema() as change:
            change.set_option("bucket", "3")
    begun = process(kind)
    results = done(catalog, tables, begun)
    newest = table.latest_snapshot()
    assert newest is not None
    assert tables.commit(begun, results) == newest.id == 3
    assert content(catalog.get_table("shop.orders")) == before


@pytest.mark.parametrize("kind", [WorkKind.ORPHANS, WorkKind.MANIFESTS])
def test_other_maintenance_does_not_change_rows(kind: WorkKind, catalog: Catalog, tables: LakeTables) -> None:
    table = keyed(catalog)
    before = content(table)
    begun = process(kind)
    results = done(catalog, tables, begun)
    tables.commit(begun, results)
    tables.end(ended(begun, CleanupMode.SWEEP), results)
    assert content(table) == before
    assert not left_over(table)
