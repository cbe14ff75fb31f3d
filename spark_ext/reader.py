"""Scans: planned on the driver, read by workers in Arrow batches of exactly the schema that Spark expects."""

import json
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from interbed.spark_ext.handle import TableHandle
from interbed.spark_ext.native import NativeFiles
from interbed.spark_ext.predicates import conjunction_of
from interbed.spark_ext.spark_types import arrow_schema_for_spark, batch_for_spark
from interbed.storage.errors import InvalidInputError, InvalidOptionError
from interbed.storage.scan.split import Split
from interbed.thrift_idl.planner.ttypes import ScanPlan, ScanSplit

SNAPSHOT_ID = "scan.snapshot-id"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTask:
    """What all splits of a scan have in common."""

    handle: TableHandle
    columns: tuple[str, ...]
    filters: tuple[str, ...]

    def to_bytes(self) -> bytes:
        """The task for the workers."""
        return json.dumps(
            {
                "handle": b64encode(self.handle.to_bytes()).decode(),
                "columns": self.columns,
                "filters": self.filters,
            }
        ).encode()

    @staticmethod
    def from_bytes(content: bytes) -> "ReadTask":
        """The task of bytes made by to_bytes; raises InvalidInputError for anything else."""
        try:
            value = json.loads(content)
            return ReadTask(
                handle=TableHandle.from_bytes(b64decode(value["handle"])),
                columns=tuple(value["columns"]),
                filters=tuple(value["filters"]),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidInputError(f"Not a read task: {error}") from error


def plan_scan(handle: TableHandle, request: Any) -> ScanPlan:
    """The plan for planner.thrift's ScanRequest: splits of the handle's snapshot, pruned by filters and limit."""
    handle = replace(
        handle,
        dynamic_options={**handle.dynamic_options, **request.options},
        snapshot_id=_snapshot_id(handle, request.options),
    )
    schema = handle.schema
    predicate = conjunction_of(request.filters, schema.fields)
    task = ReadTask(handle=handle, columns=tuple(request.columns), filters=tuple(request.filters))
    if handle.snapshot_id is None:
        nothing = _description(None, [], task.columns, request.limit)
        return ScanPlan(task=task.to_bytes(), splits=[], rowCount=0, byteSize=0, description=nothing)
    table = handle.open()
    plan = table.new_scan(predicate=predicate, limit=request.limit, snapshot_id=handle.snapshot_id).plan()
    native = NativeFiles(table.schema, task.columns, lambda schema_id: table.store.schemas.schema(schema_id).fields)
    splits = [_split_for_spark(split, native) for split in plan.splits]
    return ScanPlan(
        task=task.to_bytes(),
        splits=splits,
        rowCount=sum(split.row_count for split in plan.splits),
        byteSize=sum(split.byte_size for split in plan.splits),
        description=_description(handle.snapshot_id, splits, task.columns, request.limit),
    )


def _snapshot_id(handle: TableHandle, options: Mapping[str, str]) -> int | None:
    given = options.get(SNAPSHOT_ID)
    if given is None:
        return handle.snapshot_id
    if not given.isdecimal():
        raise InvalidOptionError(f"Option '{SNAPSHOT_ID}' takes the id of a snapshot, not '{given}'.")
    return int(given)


def _split_for_spark(split: Split, native: NativeFiles) -> ScanSplit:
    return ScanSplit(
        payload=split.to_bytes(),
        rowCount=split.row_count,
        byteSize=split.byte_size,
        nativeFiles=native.of(split),
        preferredHosts=[],
    )


def _description(
    snapshot_id: int | None, splits: Sequence[ScanSplit], columns: Sequence[str], limit: int | None
) -> str:
    """What EXPLAIN shows; `native` counts the splits that Spark's own reader reads."""
    facts = {
        "snapshot": "none" if snapshot_id is None else str(snapshot_id),
        "splits": str(len(splits)),
        "native": str(sum(1 for split in splits if split.nativeFiles)),
        "columns": f"[{', '.join(columns)}]",
    }
    if limit is not None:
        facts["limit"] = str(limit)
    return f"({', '.join(f'{name}={value}' for name, value in facts.items())})"


def read_split(task: bytes, split: bytes) -> Iterator[pa.RecordBatch]:
    """The rows of a split in batches of the schema that Spark expects, columns in the task's order."""
    read_task = ReadTask.from_bytes(task)
    handle = read_task.handle
    schema = handle.schema
    fields = schema.fields_named(read_task.columns)
    arrow = arrow_schema_for_spark(fields)
    read = handle.open().new_read(read_task.columns, conjunction_of(read_task.filters, schema.fields))
    for batch in read.to_batches(Split.from_bytes(split)):
        if batch.num_rows:
            yield batch_for_spark(batch, arrow)
