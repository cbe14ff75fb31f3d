"""Abort of a stream's micro-batch, without Spark."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from interbed import load_catalog
from interbed.spark_ext.handle.table_handle import TableHandle
from interbed.spark_ext.write.sink import EpochToken, plan_epoch
from interbed.spark_ext.write.writer import TaskWriter, decode_messages
from interbed.thrift_idl.planner.ttypes import WriteMode


@dataclass(frozen=True)
class Request:
    """The fields of planner.thrift's WriteRequest that are used."""

    queryId: str = "query"  # noqa: N815 - Thrift's name.
    mode: int = WriteMode.APPEND
    filters: list[str] = field(default_factory=list)
    options: dict[str, str] = field(default_factory=dict)
    schemaJson: str = '{"type":"struct","fields":[{"name":"id","type":"integer","nullable":true,"metadata":{}}]}'  # noqa: N815


def test_an_aborted_batch_leaves_neither_data_nor_changelog_files(tmp_path: Path) -> None:
    catalog = load_catalog(warehouse=str(tmp_path))
    catalog.create_database("db")
    columns = pa.schema([pa.field("id", pa.int32(), nullable=False)])
    options = {"bucket": "1", "changelog-producer": "input"}
    table = catalog.create_table("db.t", columns, primary_keys=["id"], options=options)
    handle = TableHandle(
        catalog="lake",
        catalog_options={},
        database="db",
        table="t",
        location=table.location,
        schema_json=table.schema.to_json(),
        snapshot_id=None,
    )
    files = Path(table.location, "bucket-0")
    written = {}
    for epoch in (0, 1):
        # The fields of the generated class are set from outside, which type checkers do not see.
        plan: Any = plan_epoch(handle, Request())
        writer = TaskWriter(plan.task)
        writer.write(pa.RecordBatch.from_pydict({"id": [epoch]}, schema=columns))
        messages = decode_messages([writer.finish()])
        written[epoch] = {f.name for f in files.iterdir()}
        if epoch == 0:
            EpochToken.from_bytes(plan.token).commit(table, epoch, messages)
        else:
            EpochToken.from_bytes(plan.token).abort(table, epoch)

    assert {name.split("-")[0] for name in written[1] - written[0]} == {"data", "changelog"}
    assert {f.name for f in files.iterdir()} == written[0]
