"""Changes of columns by Spark's tasks, without Spark: conflicts with other writers, and files of ended tasks."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from interbed import load_catalog
from interbed.catalog.client.api import Catalog
from interbed.spark_ext.handle.table_handle import TableHandle
from interbed.spark_ext.write.writer import CommitToken, TaskWriter, decode_messages, plan_write
from interbed.storage.base.errors import CommitConflictError, CommitFailedError, InvalidInputError
from interbed.storage.base.row.kind import RowKind
from interbed.storage.table.table import Table
from interbed.thrift_idl.planner.ttypes import WriteMode, WriteRequest
from tests.storage.table.evolving_tables import all_of, create, rows

Concurrent = Callable[[Table], Any]
SOURCE = ["id", "__paimon_file_path", "__paimon_row_index"]


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """A table with a row range group of three rows, and one of two rows."""
    catalog: Catalog = load_catalog(warehouse=str(tmp_path))
    catalog.create_database("db")
    table = create(catalog)
    table.append(rows(0, 1, 2))
    table.append(rows(3, 4))
    return table


def _handle(table: Table) -> TableHandle:
    newest = table.snapshots()[-1]
    return TableHandle(
        catalog="lake",
        catalog_options={"warehouse": str(Path(table.location.removeprefix("file:")).parents[1])},
        database="db",
        table="t",
        location=table.location,
        schema_json=table.schema.to_json(),
        snapshot_id=newest.id,
        snapshot_identity=newest.identity,
    )


def _plan(table: Table, columns: list[str] | None, filters: list[str] | None) -> Any:
    request = WriteRequest(
        mode=WriteMode.CHANGES,
        filters=[],
        schemaJson="{}",
        queryId="q",
        options={},
        followsFromSnapshot=True,
        scanned=filters,
        assigned=["v"],
        scannedColumns=columns,
    )
    return plan_write(_handle(table), request)


def _changes(table: Table, updated: dict[int, str], inserted: tuple[int, ...] = ()) -> pa.RecordBatch:
    """Return the batch of a task that sets `v` of the rows at some positions of the first group, and inserts rows."""
    entries = table.new_scan().entries()
    (oldest,) = [e.file for e in entries if e.file.first_row_id == 0 and e.file.write_cols is None]
    path = f"{table.location.removeprefix('file:')}/bucket-0/{oldest.file_name}"
    count, new = len(updated), len(inserted)
    return pa.RecordBatch.from_pydict(
        {
            "id": pa.array([None] * count + list(inserted), pa.int32()),
            "v": pa.array([*updated.values(), *(f"v{i}" for i in inserted)], pa.string()),
            "n": pa.array([None] * count + [i * 10 for i in inserted], pa.int64()),
            "_row_kind": pa.array([RowKind.UPDATE_AFTER] * count + [RowKind.INSERT] * new, pa.int8()),
            "__paimon_file_path": pa.array([path] * count + [None] * new, pa.string()),
            "__paimon_row_index": pa.array([*updated] + [None] * new, pa.int64()),
        }
    )


def _finished(plan: Any, batch: pa.RecordBatch) -> bytes:
    writer = TaskWriter(plan.task)
    writer.write(batch)
    return writer.finish()


def _files(table: Table) -> list[Path]:
    return sorted(Path(table.location.removeprefix("file:")).rglob("bucket-*/*"))


NO_CONFLICT: dict[str, Concurrent] = {
    "another column": lambda t: t.update({"n": 0}),
    "another group": lambda t: t.update({"v": "w"}, "id = 4"),
    "new rows": lambda t: t.append(rows(9)),
}
CONFLICT: dict[str, Concurrent] = {
    "the same column": lambda t: t.update({"v": "w"}, "id = 0"),
    "a column that was read": lambda t: t.update({"id": 8}, "id = 0"),
    "a compaction": lambda t: t.compact(full=True),
    "an overwrite": lambda t: t.overwrite(rows(7)),
    "a rollback": lambda t: t.versions.rollback_to(1),
}


@pytest.mark.parametrize("other", NO_CONFLICT)
def test_a_change_of_other_columns_or_rows_is_no_conflict(table: Table, other: str) -> None:
    plan = _plan(table, SOURCE, [])
    content = _finished(plan, _changes(table, {1: "one"}))
    NO_CONFLICT[other](table)
    CommitToken.from_bytes(plan.token).commit(table, decode_messages([content]))
    assert [row[1] for row in all_of(table)][:3] == ["v0", "one", "v2"]
    assert table.maintenance.fsck().is_sound


@pytest.mark.parametrize("other", CONFLICT)
def test_a_change_of_the_same_columns_of_a_group_is_a_conflict(table: Table, other: str) -> None:
    plan = _plan(table, SOURCE, [])
    content = _finished(plan, _changes(table, {1: "one"}))
    CONFLICT[other](table)
    after = all_of(table)
    with pytest.raises(CommitConflictError):
        CommitToken.from_bytes(plan.token).commit(table, decode_messages([content]))
    assert all_of(table) == after


def test_the_columns_of_pushed_filters_count_as_read(table: Table) -> None:
    condition = json.dumps({"op": ">", "args": [{"column": ["n"]}, {"type": "long", "value": 0}]})
    plan = _plan(table, ["__paimon_file_path", "__paimon_row_index"], [condition])
    assert CommitToken.from_bytes(plan.token).columns == ("__paimon_file_path", "__paimon_row_index", "n")


@pytest.mark.parametrize(("columns", "inserted"), [(None, ()), (SOURCE, (7,))], ids=["other rows read", "new rows"])
def test_changes_that_depend_on_other_rows_conflict_with_new_rows(
    table: Table, columns: list[str] | None, inserted: tuple[int, ...]
) -> None:
    plan = _plan(table, columns, [])
    content = _finished(plan, _changes(table, {1: "one"}, inserted))
    table.append(rows(7))
    with pytest.raises(CommitConflictError):
        CommitToken.from_bytes(plan.token).commit(table, decode_messages([content]))
    assert len(all_of(table)) == 6


def test_updated_and_new_rows_are_one_snapshot(table: Table) -> None:
    plan = _plan(table, SOURCE, [])
    content = _finished(plan, _changes(table, {0: "zero", 2: "two"}, (7, 8)))
    token = CommitToken.from_bytes(plan.token)
    assert token.commit(table, decode_messages([content])).snapshotId == 3
    # A repeated commit is found.
    token.commit(table, decode_messages([content]))
    assert [row[:4] for row in all_of(table)] == [
        (0, "zero", 0, 0),
        (1, "v1", 10, 1),
        (2, "two", 20, 2),
        (3, "v3", 30, 3),
        (4, "v4", 40, 4),
        (7, "v7", 70, 5),
        (8, "v8", 80, 6),
    ]


def test_two_files_for_the_same_rows_are_refused(table: Table) -> None:
    plan = _plan(table, SOURCE, [])
    contents = [_finished(plan, _changes(table, {position: "x"})) for position in (0, 1)]
    with pytest.raises(CommitFailedError, match="Several tasks"):
        CommitToken.from_bytes(plan.token).commit(table, decode_messages(contents))
    assert [row[1] for row in all_of(table)][:2] == ["v0", "v1"]


@pytest.mark.parametrize("positions", [(1, 1), (2, 1)])
def test_a_row_that_is_changed_twice_is_refused(table: Table, positions: tuple[int, int]) -> None:
    writer = TaskWriter(_plan(table, SOURCE, []).task)
    first, second = positions
    writer.write(_changes(table, {first: "x"}))
    with pytest.raises(InvalidInputError, match="twice"):
        writer.write(_changes(table, {second: "x"}))
    writer.abort()


def test_ended_tasks_leave_no_file(table: Table) -> None:
    before = _files(table)
    plan = _plan(table, SOURCE, [])
    token = CommitToken.from_bytes(plan.token)
    for late in (False, True):
        writer = TaskWriter(plan.task)
        writer.write(_changes(table, {0: "zero"}, (7,)))
        if late:
            writer.finish()
            assert len(_files(table)) > len(before)
        writer.abort()
        assert _files(table) == before
    writer = TaskWriter(plan.task)
    writer.write(_changes(table, {0: "zero"}))
    token.abort(table, [])
    with pytest.raises(CommitFailedError, match="has ended without it"):
        writer.finish()
    assert _files(table) == before
