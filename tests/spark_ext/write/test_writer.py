"""A write without Spark: tasks create files, and the token commits them once or deletes them."""

import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest

from interbed import load_catalog
from interbed.spark_ext.handle.table_handle import TableHandle
from interbed.spark_ext.write.writer import CommitToken, TaskWriter, decode_messages, plan_write
from interbed.storage.base.errors import CommitFailedError, InvalidInputError, NotSupportedError
from interbed.storage.table.table import Table
from interbed.storage.version.orphans import named_files, remove_orphan_files
from interbed.thrift_idl.planner.ttypes import WriteMode

SCHEMA = pa.schema((("id", pa.int64()), ("p", pa.string())))


@dataclass(frozen=True)
class Request:
    """The fields of planner.thrift's WriteRequest that are used."""

    mode: int = WriteMode.APPEND
    filters: list[str] = field(default_factory=list)
    options: dict[str, str] = field(default_factory=dict)
    followsFromSnapshot: bool = False  # noqa: N815 - Thrift's name.
    scanned: list[str] | None = None
    distinctKeys: bool = False  # noqa: N815 - Thrift's name.
    assigned: list[str] | None = None
    scannedColumns: list[str] | None = None  # noqa: N815 - Thrift's name.


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """An append table partitioned by p."""
    catalog = load_catalog(warehouse=str(tmp_path))
    catalog.create_database("db")
    return catalog.create_table("db.t", SCHEMA, partition_keys=["p"])


def _handle(table: Table) -> TableHandle:
    return TableHandle(
        catalog="lake",
        catalog_options={"warehouse": str(Path(table.location).parents[1])},
        database="db",
        table="t",
        location=table.location,
        schema_json=table.schema.to_json(),
        snapshot_id=None,
    )


def _rows(*ids: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"id": list(ids), "p": ["a"] * len(ids)}, schema=SCHEMA)


def _files(table: Table) -> list[Path]:
    return sorted(Path(table.location).rglob("bucket-*/*"))


def _written(task: bytes, *ids: int) -> bytes:
    writer = TaskWriter(task)
    writer.write(_rows(*ids))
    return writer.finish()


def test_two_tasks_are_one_snapshot_however_often_the_commit_is_sent(table: Table) -> None:
    plan = plan_write(_handle(table), Request())
    messages = decode_messages([_written(plan.task, 1), _written(plan.task, 2, 3)])
    token = CommitToken.from_bytes(plan.token)

    assert token.commit(table, messages).snapshotId == 1
    token.commit(table, messages)

    assert len(table.snapshots()) == 1
    assert table.scan().count() == 3


def test_an_abort_of_the_job_deletes_the_files_of_its_tasks(table: Table) -> None:
    plan = plan_write(_handle(table), Request())
    message = _written(plan.task, 1)
    assert _files(table)

    CommitToken.from_bytes(plan.token).abort(table, decode_messages([message]))

    assert _files(table) == []
    assert table.snapshots() == []


def test_an_aborted_task_leaves_no_file_even_after_it_finished(table: Table) -> None:
    plan = plan_write(_handle(table), Request())
    for finished in (False, True):
        writer = TaskWriter(plan.task)
        writer.write(_rows(1))
        if finished:
            writer.finish()
        writer.abort()
        assert _files(table) == []


def test_an_abort_deletes_the_files_of_tasks_whose_messages_were_lost(table: Table) -> None:
    plan = plan_write(_handle(table), Request())
    _written(plan.task, 1)
    other = plan_write(_handle(table), Request())
    kept = decode_messages([_written(other.task, 2)])

    CommitToken.from_bytes(plan.token).abort(table, [])

    assert [f.name for f in _files(table)] == [f.file_name for m in kept for f in m.data.new_files]
    assert CommitToken.from_bytes(other.token).commit(table, kept).snapshotId == 1


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"index-file-in-data-file-dir": "true"},
        {"bucket": "-2", "postpone.batch-write-fixed-bucket": "false"},
        {"data-file.path-directory": "data"},
    ],
)
def test_an_abort_deletes_the_index_files_of_dynamic_buckets_and_postponed_rows(
    tmp_path: Path, options: dict[str, str]
) -> None:
    catalog = load_catalog(warehouse=str(tmp_path))
    catalog.create_database("db")
    table = catalog.create_table("db.t", SCHEMA, primary_keys=["id"], options=options)
    plan = plan_write(_handle(table), Request())
    _written(plan.task, 1)
    assert any(f.is_file() for f in Path(table.location).rglob("index-*")) is (options.get("bucket") != "-2")

    CommitToken.from_bytes(plan.token).abort(table, [])

    assert [f.name for f in Path(table.location).rglob("*") if f.is_file()] == ["schema-0"]


def test_a_task_that_ends_after_the_abort_of_its_job_deletes_its_files(table: Table) -> None:
    plan = plan_write(_handle(table), Request())
    late = TaskWriter(plan.task)
    late.write(_rows(1))
    CommitToken.from_bytes(plan.token).abort(table, [])

    with pytest.raises(CommitFailedError, match="ended without it"):
        late.finish()

    assert _files(table) == []


def test_one_of_several_task_attempts_is_committed_and_at_most_one_becomes_an_orphan(table: Table) -> None:
    plan = plan_write(_handle(table), Request())
    message = _written(plan.task, 1, 2)
    # A second attempt is killed after its files are written, a third is still running when the job is finished.
    _written(plan.task, 1, 2)
    late = TaskWriter(plan.task)
    late.write(_rows(1, 2))

    CommitToken.from_bytes(plan.token).commit(table, decode_messages([message]))
    with pytest.raises(CommitFailedError, match="ended without it"):
        late.finish()

    assert table.scan().count() == 2
    tomorrow = time.time() + 2 * 86_400
    assert len(remove_orphan_files(table.store, clock=lambda: tomorrow).files) == 1
    assert {str(file) for file in _files(table)} <= set(named_files(table.store))
    assert table.scan().count() == 2


def test_a_late_abort_leaves_a_committed_job_alone(table: Table) -> None:
    plan = plan_write(_handle(table), Request())
    token = CommitToken.from_bytes(plan.token)
    messages = decode_messages([_written(plan.task, 1)])
    token.commit(table, messages)

    token.abort(table, messages)

    assert table.scan().count() == 1
    assert not list(Path(table.location, "snapshot").glob(".write-*"))


def test_a_task_without_rows_has_nothing_to_commit(table: Table) -> None:
    plan = plan_write(_handle(table), Request())
    message = TaskWriter(plan.task).finish()

    assert decode_messages([message]) == []
    assert CommitToken.from_bytes(plan.token).commit(table, []).snapshotId is None


def test_an_overwrite_by_other_columns_than_partitions_is_refused_at_planning(table: Table) -> None:
    by_id = '{"op": "=", "args": [{"column": ["id"]}, {"type": "long", "value": 1}]}'

    with pytest.raises(NotSupportedError, match=r"\(p\)"):
        plan_write(_handle(table), Request(mode=WriteMode.OVERWRITE, filters=[by_id]))


def test_tokens_and_handles_survive_a_round_trip_through_bytes(table: Table) -> None:
    handle = _handle(table)
    token = CommitToken(handle=handle, commit_user=str(uuid.uuid4()), mode=WriteMode.APPEND, filters=("x",))

    assert TableHandle.from_bytes(handle.to_bytes()) == handle
    assert CommitToken.from_bytes(token.to_bytes()) == token
    for decode in (TableHandle.from_bytes, CommitToken.from_bytes):
        with pytest.raises(InvalidInputError):
            decode(b"{}")
