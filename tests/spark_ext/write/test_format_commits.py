"""Commits of Spark's writes to format tables: repeated, killed between two steps, and aborted; without a JVM."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from interbed.spark_ext.handle.format_tables import open_format, partition_to_json
from interbed.spark_ext.handle.table_handle import TableHandle
from interbed.spark_ext.write import format_writer
from interbed.spark_ext.write.format_writer import (
    FormatTaskWriter,
    abort_format,
    commit_format,
    plan_format_write,
)
from interbed.spark_ext.write.writer import CommitToken
from interbed.storage.table.format_table.format_table import FormatTable
from interbed.storage.table.format_table.writing import commit
from interbed.thrift_idl.planner.ttypes import WriteMode, WriteRequest
from tests.support.format_tables import arrow_schema, data_files, format_table, rows_of

SCHEMA = arrow_schema([("id", pa.int64()), ("dt", pa.string())])


@pytest.fixture
def table(tmp_path: Path) -> FormatTable:
    """A partitioned table with a row in each of two partitions."""
    made = format_table(tmp_path / "t", SCHEMA, "csv", partition_keys=["dt"])
    made.append([{"id": 1, "dt": "a"}, {"id": 2, "dt": "b"}])
    return made


def _handle(table: FormatTable) -> TableHandle:
    return TableHandle(
        catalog="lake",
        catalog_options={},
        database="d",
        table="t",
        location=table.location,
        schema_json=table.schema.to_json(),
        snapshot_id=None,
        is_format=True,
    )


def _written(table: FormatTable, mode: int, *rows: tuple[int, str]) -> tuple[CommitToken, list[bytes]]:
    """Return the token of a write, and the messages of a task for each row."""
    request = WriteRequest(mode=mode, filters=[], schemaJson="", queryId="q", options={})
    plan: Any = plan_format_write(_handle(table), table, request)
    token = CommitToken.from_bytes(plan.token)
    messages = []
    for number, day in rows:
        writer = FormatTaskWriter(CommitToken.from_bytes(plan.task))
        writer.write(pa.RecordBatch.from_pydict({"id": [number], "dt": [day]}, SCHEMA))
        messages.append(writer.finish())
    return token, messages


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        (WriteMode.APPEND, [(1, "a"), (2, "b"), (3, "a"), (4, "c")]),
        (WriteMode.OVERWRITE, [(3, "a"), (4, "c")]),
        (WriteMode.OVERWRITE_DYNAMIC, [(2, "b"), (3, "a"), (4, "c")]),
    ],
)
def test_a_repeated_commit_changes_nothing_more(table: FormatTable, mode: int, expected: list[Any]) -> None:
    token, messages = _written(table, mode, (3, "a"), (4, "c"))
    assert rows_of(table) == [(1, "a"), (2, "b")]
    for _ in range(2):
        commit_format(token, table, messages)
        assert rows_of(table) == expected
    assert all("_temporary" not in name for name in data_files(table))


@pytest.mark.parametrize("mode", [WriteMode.APPEND, WriteMode.OVERWRITE, WriteMode.OVERWRITE_DYNAMIC])
def test_a_commit_that_was_killed_between_two_names_is_completed(
    table: FormatTable, mode: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    token, messages = _written(table, mode, (3, "a"), (4, "c"))

    def killed(directories: Any, files: Any, **_: Any) -> None:
        commit(directories, files[:1])
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(format_writer, "commit", killed)
        with pytest.raises(KeyboardInterrupt):
            commit_format(token, table, messages)
    assert rows_of(table) == [(1, "a"), (2, "b"), (3, "a")]
    commit_format(token, table, messages)
    kept = {WriteMode.APPEND: [(1, "a"), (2, "b")], WriteMode.OVERWRITE_DYNAMIC: [(2, "b")]}.get(mode, [])
    assert rows_of(table) == sorted([*kept, (3, "a"), (4, "c")])


def test_an_aborted_write_leaves_no_file(table: FormatTable) -> None:
    before = data_files(table)
    token, messages = _written(table, WriteMode.APPEND, (3, "a"))
    assert len(data_files(table)) == len(before) + 1
    abort_format(token, messages)
    assert data_files(table) == before
    writer = FormatTaskWriter(token)
    writer.write(pa.RecordBatch.from_pydict({"id": [5], "dt": ["z"]}, SCHEMA))
    writer.finish()
    writer.abort()
    assert data_files(table) == before


def test_rows_of_a_partition_elsewhere_stay_there(table: FormatTable, tmp_path: Path) -> None:
    """A metastore may register a partition in any directory, which a worker gets from the driver."""
    handle = _handle(table)
    elsewhere = tmp_path / "far"
    (partition,) = [each for each in table.directories.partitions() if each.spec == {"dt": "a"}]
    named = json.dumps(partition_to_json(replace(partition, location=str(elsewhere))))
    moved = replace(handle, partitions_elsewhere=(named,))
    again = TableHandle.from_bytes(moved.to_bytes())
    assert again == moved
    token = CommitToken(handle=again, commit_user="", mode=WriteMode.APPEND)
    writer = FormatTaskWriter(token)
    writer.write(pa.RecordBatch.from_pydict({"id": [5, 6], "dt": ["a", "n"]}, SCHEMA))
    commit_format(token, open_format(again), [writer.finish()])
    assert len(list(elsewhere.glob("*.csv"))) == 1
    assert (6, "n") in rows_of(table)
    assert (5, "a") not in rows_of(table)
