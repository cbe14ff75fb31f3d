"""Calls about scans."""

from typing import Any

from interbed.spark_ext.aggregates import answer
from interbed.spark_ext.calls.base import Calls
from interbed.spark_ext.handle import TableHandle
from interbed.spark_ext.predicates import handling_of
from interbed.spark_ext.reader import plan_scan
from interbed.thrift_idl.planner.ttypes import AggregateAnswer, ScanPlan


class ScanCalls(Calls):
    """What Spark's ScanBuilder and Scan ask."""

    def pushFilters(self, handle: bytes, filters: list[str]) -> list[int]:  # noqa: N802
        read = TableHandle.from_bytes(handle)
        partition_keys = read.schema.partition_keys if read.view is None else ()
        return [int(handling_of(tree, read.fields, partition_keys)) for tree in filters]

    def planScan(self, handle: bytes, request: Any) -> ScanPlan:  # noqa: N802
        return plan_scan(TableHandle.from_bytes(handle), request)

    def aggregate(self, handle: bytes, request: Any, aggregates: list[Any]) -> AggregateAnswer:
        return AggregateAnswer(rows=answer(TableHandle.from_bytes(handle), request, aggregates))
