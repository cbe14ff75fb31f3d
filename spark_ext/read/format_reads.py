"""Reads of format tables: the planner lists the files of the chosen partitions, and workers read them.

A split has files of any partitions, whose rows a worker filters and gives the values of their partition.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

import pyarrow as pa

from interbed.spark_ext.handle.format_tables import open_format, partition_from_json, partition_to_json, refuse_format
from interbed.spark_ext.handle.session_options import TRAVEL_KEYS
from interbed.spark_ext.handle.table_handle import TableHandle
from interbed.spark_ext.read.task import ReadTask, task_of
from interbed.spark_ext.values.predicates import conjunction_of
from interbed.storage.base.predicate.expr import Predicate
from interbed.storage.io.api import FileStatus
from interbed.storage.table.format_table.format_table import FormatTable
from interbed.storage.table.format_table.query import FormatSplit
from interbed.thrift_idl.planner.ttypes import ScanPlan, ScanSplit

SPLIT_BYTES = 128 << 20
_FILE_BYTES = 4 << 20
"""The cost of opening a file, in bytes of reading."""

_ROW_BYTES = 100
"""Assumed size of a row: files of text have no number of rows."""


def plan_format_scan(handle: TableHandle, table: FormatTable, request: Any) -> ScanPlan:
    """Plan planner.thrift's ScanRequest on a format table: splits of the files that it has now."""
    if not TRAVEL_KEYS.isdisjoint(request.options):
        refuse_format(handle, "older versions to be read")
    predicate = conjunction_of(request.filters, table.schema.fields)
    files = table.scan(filter=predicate).plan
    splits = [_for_spark(part) for part in _packed(files)]
    size = sum(split.file.size for split in files)
    columns = ", ".join(request.columns)
    sent = task_of(handle, request).for_executors()
    return ScanPlan(
        task=sent.to_bytes(),
        splits=splits,
        rowCount=size // _ROW_BYTES,
        byteSize=size,
        description=f"(files={len(files)}, splits={len(splits)}, columns=[{columns}])",
        renewedAfter=sent.handle.renewed_after,
    )


def _packed(files: Sequence[FormatSplit]) -> Iterator[list[FormatSplit]]:
    """Yield the files of each split, in their order."""
    part: list[FormatSplit] = []
    size = 0
    for each in files:
        cost = each.file.size + _FILE_BYTES
        if part and size + cost > SPLIT_BYTES:
            yield part
            part, size = [], 0
        part.append(each)
        size += cost
    if part:
        yield part


def _for_spark(part: Sequence[FormatSplit]) -> ScanSplit:
    # Several partitions may have equal values, and several may have one directory.
    numbers: dict[str, int] = {}
    files = [
        [asdict(each.file), numbers.setdefault(json.dumps(partition_to_json(each.partition)), len(numbers))]
        for each in part
    ]
    content = {"partitions": [json.loads(partition) for partition in numbers], "files": files}
    size = sum(each.file.size for each in part)
    return ScanSplit(
        payload=json.dumps(content).encode(),
        rowCount=size // _ROW_BYTES,
        byteSize=size,
        nativeFiles=[],
        preferredHosts=[],
    )


def format_rows(task: ReadTask, predicate: Predicate | None, split: bytes) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a split that match the predicate, with the columns of the task."""
    content = json.loads(split)
    table = open_format(task.handle)
    partitions = [partition_from_json(each, table.schema) for each in content["partitions"]]
    files = [FormatSplit(file=FileStatus(**file), partition=partitions[place]) for file, place in content["files"]]
    return table.scan(task.columns, predicate).batches_of(files)
