"""Calls about scans and streams."""

from typing import Any

from interbed.spark_ext.calls.base import Calls
from interbed.spark_ext.calls.writes import MergingCalls
from interbed.spark_ext.handle.table_handle import TableHandle
from interbed.spark_ext.read.reader import answer, plan_global, plan_scan, task_of
from interbed.spark_ext.read.streams import open_batches, open_stream
from interbed.spark_ext.values.predicates import handling_of
from interbed.spark_ext.write.sink import EpochToken, plan_epoch
from interbed.spark_ext.write.writer import decode_messages
from interbed.thrift_idl.planner.ttypes import (
    AggregateAnswer,
    CommitResult,
    ScanPlan,
    StreamInfo,
    StreamOffset,
    WritePlan,
)


class ScanCalls(Calls):
    """What Spark's ScanBuilder and Scan ask."""

    def pushFilters(self, handle: bytes, filters: list[str]) -> list[int]:  # noqa: N802
        read = TableHandle.from_bytes(handle)
        partition_keys = read.schema.partition_keys if read.view is None else ()
        return [int(handling_of(tree, read.fields, partition_keys)) for tree in filters]

    def planScan(self, handle: bytes, request: Any) -> ScanPlan:  # noqa: N802
        read = TableHandle.from_bytes(handle)
        if read.is_global:
            return plan_global(
                self._catalogs.get(read.catalog, read.catalog_options), read, request, task_of(read, request).to_bytes()
            )
        return plan_scan(read, request)

    def aggregate(self, handle: bytes, request: Any, aggregates: list[Any]) -> AggregateAnswer:
        read = TableHandle.from_bytes(handle)
        return AggregateAnswer(rows=None if read.is_global else answer(read, request, aggregates))


class StreamCalls(MergingCalls):
    """What Spark's MicroBatchStream and StreamingWrite ask."""

    def openStream(self, handle: bytes, request: Any) -> StreamInfo:  # noqa: N802
        return open_stream(TableHandle.from_bytes(handle), request)

    def startOfStream(self, task: bytes) -> StreamOffset:  # noqa: N802
        return StreamOffset(json=open_batches(task).start())

    def newestOfStream(self, task: bytes) -> int:  # noqa: N802
        return open_batches(task).newest() or 0

    def advanceStream(self, task: bytes, after: str, limits: Any, last_snapshot: int) -> StreamOffset:  # noqa: N802
        return StreamOffset(json=open_batches(task).advance(after, limits, last_snapshot or None))

    def planMicroBatch(self, task: bytes, after: str, up_to: str) -> ScanPlan:  # noqa: N802
        return open_batches(task).plan(after, up_to)

    def commitStream(self, task: bytes, up_to: str) -> None:  # noqa: N802
        open_batches(task).commit(up_to)

    def planEpoch(self, handle: bytes, request: Any) -> WritePlan:  # noqa: N802
        target = self._merged_for(TableHandle.from_bytes(handle), request.schemaJson, request.options)
        return plan_epoch(target, request)

    def commitEpoch(self, token: bytes, epoch: int, messages: list[bytes]) -> CommitResult:  # noqa: N802
        plan = EpochToken.from_bytes(token)
        return CommitResult(snapshotId=plan.commit(self._table_of(plan.job.handle), epoch, decode_messages(messages)))

    def abortEpoch(self, token: bytes, epoch: int) -> None:  # noqa: N802
        plan = EpochToken.from_bytes(token)
        plan.abort(plan.job.handle.open(), epoch)
