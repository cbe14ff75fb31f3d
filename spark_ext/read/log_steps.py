"""Steps of a stream of an eventual log on their way to workers, and their rows as Spark gets them."""

from collections.abc import Iterator, Sequence

import pyarrow as pa

from interbed.spark_ext.handle.table_handle import TableHandle
from interbed.storage.read.change_read import AuditRead
from interbed.storage.views.change_view import ChangeView
from interbed.storage.views.stream.log_step import LogStep, LogStepRead
from interbed.thrift_idl.planner.ttypes import ScanSplit

_MARK = b"log:"
"""Begins the payload of a step; that of a split of files does not begin so."""

_ROW_BYTES = 100
"""What a row of a log is taken for, of which only the number is known."""


def step_for_spark(step: LogStep) -> ScanSplit:
    """A step on its way to Spark."""
    rows = step.record_count + sum(split.row_count for split in step.splits)
    size = step.record_count * _ROW_BYTES + sum(split.byte_size for split in step.splits)
    return ScanSplit(payload=_MARK + step.to_bytes(), rowCount=rows, byteSize=size, nativeFiles=[], preferredHosts=[])


def is_log_step(payload: bytes) -> bool:
    """Whether the payload of a split is a step of a log."""
    return payload.startswith(_MARK)


def log_step(payload: bytes) -> LogStep:
    """The step of a payload; raises InvalidInputError."""
    return LogStep.from_bytes(payload.removeprefix(_MARK))


def log_rows(handle: TableHandle, columns: Sequence[str], step: LogStep) -> Iterator[pa.RecordBatch]:
    """Of the table itself the rows that are added or updated, of its audit log and binlog all changes."""
    view = handle.view
    if isinstance(view, ChangeView):
        audit = AuditRead(view.store, columns, None, packed=view.packed)
        return audit.of_changes(LogStepRead(view.store, audit.data_columns).to_batches(step), pairs=True)
    return LogStepRead(handle.open().store, columns).added(step)
