"""Task of the workers that read a scan: the table, the columns and the filters, for all of its splits.

The planner keeps the task with the handle of the driver, and sends the one of `for_executors`.
"""

import json
from base64 import b64decode, b64encode
from dataclasses import asdict, dataclass, replace
from typing import Any

from interbed.spark_ext.handle.table_handle import TableHandle
from interbed.storage.base.errors import InvalidInputError
from interbed.storage.scan.summary.aggregates import Top


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTask:
    """Common part of all splits of a scan."""

    handle: TableHandle
    columns: tuple[str, ...]
    filters: tuple[str, ...]
    schema_json: str | None = None
    top: Top | None = None
    reads_log: bool = False
    """Whether splits may be steps of a stream of the table's log."""
    hadoop_opens: bool = False
    """Whether Spark's Hadoop has a client for the table's store."""

    def for_executors(self) -> "ReadTask":
        """Return the task for the workers, without secrets of the catalog. Raises the errors of TableHandle."""
        return replace(self, handle=self.handle.for_executors())

    def to_bytes(self) -> bytes:
        """Encode the task as JSON."""
        return json.dumps(
            {
                "handle": b64encode(self.handle.to_bytes()).decode(),
                "columns": self.columns,
                "filters": self.filters,
                "schema": self.schema_json,
                "top": None if self.top is None else asdict(self.top),
                "log": self.reads_log,
                "hadoop": self.hadoop_opens,
            }
        ).encode()

    @staticmethod
    def from_bytes(content: bytes) -> "ReadTask":
        """Decode the task of to_bytes. Raises InvalidInputError for other bytes."""
        try:
            value = json.loads(content)
            return ReadTask(
                handle=TableHandle.from_bytes(b64decode(value["handle"])),
                columns=tuple(value["columns"]),
                filters=tuple(value["filters"]),
                schema_json=value["schema"],
                top=None if value["top"] is None else Top(**value["top"]),
                reads_log=value["log"],
                hadoop_opens=value["hadoop"],
            )
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidInputError(f"Not a read task: {error}") from error


def task_of(handle: TableHandle, request: Any) -> ReadTask:
    """Return the task of workers for planner.thrift's ScanRequest."""
    return ReadTask(
        handle=handle,
        columns=tuple(request.columns),
        filters=tuple(request.filters),
        schema_json=request.schemaJson,
        hadoop_opens=bool(request.hadoopOpens),
    )
