"""Aggregates that Spark pushes down: answered where the storage layer knows them from metadata.

A count of rows is answered, too, where that takes the planner no longer than Spark takes to start a job.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from interbed.spark_ext.handle.table_handle import TableHandle
from interbed.spark_ext.read.reader import as_read, planned
from interbed.spark_ext.values.literals import has_literal, literals
from interbed.spark_ext.values.predicates import Handling, conjunction_of, handling_of
from interbed.storage.base.types.data_type import AtomicType, DataField, DataType, TypeRoot
from interbed.storage.read.pushdown import quick_count
from interbed.storage.scan.summary.aggregates import Aggregate, AggregateFunction, aggregated
from interbed.thrift_idl.planner.ttypes import AggregateFunction as Asked

_COUNT = AtomicType(root=TypeRoot.BIGINT)
_QUICK_RECORDS = 8 << 20
"""So many records are counted in about a tenth of a second, which is what a job of a few tasks costs the JVM alone."""
_FUNCTIONS = {
    Asked.COUNT_ROWS: AggregateFunction.COUNT_ROWS,
    Asked.COUNT: AggregateFunction.COUNT,
    Asked.MIN: AggregateFunction.MIN,
    Asked.MAX: AggregateFunction.MAX,
}


def answer(handle: TableHandle, request: Any, asked: Sequence[Any]) -> list[str] | None:
    """The rows of planner.thrift's AggregateAnswer for its ScanRequest and Aggregates; None when Spark has to read."""
    handle = as_read(handle, request.options)
    schema = handle.schema
    if handle.view is not None or handle.snapshot_id is None:
        return None
    if any(handling_of(tree, schema.fields, schema.partition_keys) is not Handling.EXACT for tree in request.filters):
        return None
    aggregates = [Aggregate(function=_FUNCTIONS[one.kind], column=one.column) for one in asked]
    types = [schema.by_name[name].type for name in request.columns]
    types += [_type_of(aggregate, schema.by_name) for aggregate in aggregates]
    if not all(has_literal(one) for one in types):
        return None
    table, plan = planned(handle, conjunction_of(request.filters, schema.fields))
    rows = aggregated(table.store, plan.splits, aggregates, request.columns)
    if rows is None and not request.columns and {a.function for a in aggregates} == {AggregateFunction.COUNT_ROWS}:
        with handle.being_read():
            count = quick_count(table.store, plan.splits, _QUICK_RECORDS)
        rows = None if count is None else [(count,) * len(aggregates)]
    return None if rows is None else [literals(row, types) for row in rows]


def _type_of(aggregate: Aggregate, columns: Mapping[str, DataField]) -> DataType:
    bound = aggregate.function in (AggregateFunction.MIN, AggregateFunction.MAX)
    return columns[aggregate.column].type if bound and aggregate.column is not None else _COUNT
