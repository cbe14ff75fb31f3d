"""Calls about streams."""

from typing import Any

from interbed.spark_ext.calls.base import Calls
from interbed.spark_ext.handle import TableHandle
from interbed.spark_ext.streams import SparkStream, open_stream
from interbed.thrift_idl.planner.ttypes import ScanPlan, StreamInfo, StreamOffset


class StreamCalls(Calls):
    """What Spark's MicroBatchStream asks."""

    def openStream(self, handle: bytes, request: Any) -> StreamInfo:  # noqa: N802
        return open_stream(TableHandle.from_bytes(handle), request)

    def startOfStream(self, task: bytes) -> StreamOffset:  # noqa: N802
        return StreamOffset(json=SparkStream(task).start())

    def newestOfStream(self, task: bytes) -> int:  # noqa: N802
        return SparkStream(task).newest() or 0

    def advanceStream(self, task: bytes, after: str, limits: Any, last_snapshot: int) -> StreamOffset:  # noqa: N802
        return StreamOffset(json=SparkStream(task).advance(after, limits, last_snapshot or None))

    def planMicroBatch(self, task: bytes, after: str, up_to: str) -> ScanPlan:  # noqa: N802
        return SparkStream(task).plan(after, up_to)

    def commitStream(self, task: bytes, up_to: str) -> None:  # noqa: N802
        SparkStream(task).commit(up_to)
