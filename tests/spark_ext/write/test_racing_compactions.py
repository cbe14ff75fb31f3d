"""Concurrent writes of Spark to one bucket of a table whose rows are visible after compaction only.

Two jobs compact the bucket at the same time, and one of the compactions is discarded. Yet the rows of each job are
visible when its commit has returned.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from interbed import load_catalog
from interbed.spark_ext.handle.table_handle import TableHandle
from interbed.spark_ext.write.sink import EpochToken, plan_epoch
from interbed.spark_ext.write.writer import CommitToken, TaskWriter, decode_messages, plan_write
from interbed.storage.table.table import Table
from interbed.storage.write.commit_message import CommitMessage
from interbed.thrift_idl.planner.ttypes import WriteMode

SCHEMA = pa.schema([pa.field("id", pa.int32(), nullable=False), pa.field("v", pa.int32())])
OPTIONS = [{"deletion-vectors.enabled": "true"}, {"merge-engine": "first-row"}]


@dataclass(frozen=True)
class Request:
    """The fields of planner.thrift's WriteRequest that are used."""

    queryId: str = ""  # noqa: N815 - Thrift's name.
    mode: int = WriteMode.APPEND
    filters: list[str] = field(default_factory=list)
    options: dict[str, str] = field(default_factory=dict)
    followsFromSnapshot: bool = False  # noqa: N815 - Thrift's name.
    scanned: list[str] | None = None
    distinctKeys: bool = False  # noqa: N815 - Thrift's name.
    assigned: list[str] | None = None
    scannedColumns: list[str] | None = None  # noqa: N815 - Thrift's name.
    schemaJson: str = (  # noqa: N815 - Thrift's name.
        '{"type":"struct","fields":['
        '{"name":"id","type":"integer","nullable":false,"metadata":{}},'
        '{"name":"v","type":"integer","nullable":true,"metadata":{}}]}'
    )


@pytest.fixture(params=OPTIONS, ids=["vectors", "first-row"])
def table(tmp_path: Path, request: pytest.FixtureRequest) -> Table:
    """A table with rows 1 and 2 at the highest level."""
    catalog = load_catalog(warehouse=str(tmp_path))
    catalog.create_database("db")
    new = catalog.create_table("db.t", SCHEMA, primary_keys=["id"], options={"bucket": "1", **request.param})
    new.upsert(rows(1, 2))
    new.compact(full=True)
    return new


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids), "v": list(ids)}, schema=SCHEMA)


def handle(table: Table) -> TableHandle:
    return TableHandle(
        catalog="lake",
        catalog_options={},
        database="db",
        table="t",
        location=table.location,
        schema_json=table.schema.to_json(),
        snapshot_id=None,
    )


def written(task: bytes, *ids: int) -> list[CommitMessage]:
    writer = TaskWriter(task)
    writer.write(rows(*ids).to_batches()[0])
    messages = decode_messages([writer.finish()])
    assert all(m.compaction for m in messages)
    return messages


def ids_of(table: Table) -> list[int]:
    return sorted(row["id"] for row in table.scan(["id"]).to_arrow().to_pylist())


def test_rows_of_a_statement_are_visible_once_when_its_commit_has_returned(table: Table) -> None:
    plans: list[Any] = [plan_write(handle(table), Request()) for _ in range(2)]
    first, second = written(plans[0].task, 1, 9), written(plans[1].task, 2, 9, 10)

    CommitToken.from_bytes(plans[0].token).commit(table, first)
    assert ids_of(table) == [1, 2, 9]
    CommitToken.from_bytes(plans[1].token).commit(table, second)
    assert ids_of(table) == [1, 2, 9, 10]


def test_rows_of_a_stream_are_visible_once_when_its_epoch_has_returned(table: Table) -> None:
    plans: list[Any] = [plan_epoch(handle(table), Request(queryId=name)) for name in ("one", "other")]
    first, second = written(plans[0].task, 1, 9), written(plans[1].task, 2, 9, 10)

    EpochToken.from_bytes(plans[0].token).commit(table, 0, first)
    assert ids_of(table) == [1, 2, 9]
    EpochToken.from_bytes(plans[1].token).commit(table, 0, second)
    assert ids_of(table) == [1, 2, 9, 10]


def test_messages_list_the_input_files_of_their_compaction(table: Table) -> None:
    plan: Any = plan_write(handle(table), Request())
    (message,) = written(plan.task, 9)
    assert message.compaction.looked_up is not None
    assert len(message.compaction.looked_up) == 1
    assert CommitMessage.from_bytes(message.to_bytes()) == message
