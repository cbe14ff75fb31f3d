"""Calls about scans."""

from typing import Any

from interbed.spark_ext.calls.base import Calls
from interbed.spark_ext.handle.table_handle import TableHandle
from interbed.spark_ext.read.aggregates import answer
from interbed.spark_ext.read.global_scan import plan_global
from interbed.spark_ext.read.reader import plan_scan, task_of
from interbed.spark_ext.values.predicates import handling_of
from interbed.thrift_idl.planner.ttypes import AggregateAnswer, ScanPlan


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
