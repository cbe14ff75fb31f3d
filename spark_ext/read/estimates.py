"""Estimates of a scan for Spark's optimizer: rows, bytes in memory, and of columns what ANALYZE and the files know."""

import json
import math
from typing import Any

from interbed.spark_ext.handle.table_handle import TableHandle
from interbed.spark_ext.values.literals import has_literal, literals
from interbed.storage.base.types.data_type import DataField, TypeRoot, is_atomic
from interbed.storage.meta.options.stream import OF_ONE_SNAPSHOT
from interbed.storage.scan.split import Plan
from interbed.storage.scan.statistics import read_statistics
from interbed.storage.scan.summary.estimate import ColumnEstimate, estimate_scan
from interbed.storage.table.table import Table
from interbed.thrift_idl.planner import ttypes


def estimate_for_spark(handle: TableHandle, table: Table, plan: Plan, request: Any) -> ttypes.ScanEstimate:
    """The estimate for the plan of planner.thrift's ScanRequest; filters that only prune are Spark's to estimate."""
    snapshot = None
    if plan.snapshot_id is not None and table.options.startup_mode in OF_ONE_SNAPSHOT:
        snapshot = table.starting_snapshot(plan.snapshot_id)
    by_name = {field.name: field for field in (*handle.fields, *handle.hidden_fields)}
    fields = [by_name[name] for name in request.columns]
    found = estimate_scan(
        table.store,
        plan,
        fields,
        snapshot=snapshot,
        statistics=None if snapshot is None else read_statistics(table.store, snapshot),
        limit=request.limit,
        files_too=bool(request.columnEstimates),
    )
    return ttypes.ScanEstimate(
        rowCount=found.row_count,
        byteSize=found.byte_size,
        columns=[_column(field, found.columns[field.name]) for field in fields if field.name in found.columns],
    )


def _column(field: DataField, known: ColumnEstimate) -> ttypes.ColumnEstimate:
    return ttypes.ColumnEstimate(
        column=field.name,
        distinctCount=known.distinct,
        nullCount=known.nulls,
        bounds=_bounds(field, known),
        averageLength=known.average_length,
        maximalLength=known.maximal_length,
    )


def _bounds(field: DataField, known: ColumnEstimate) -> str | None:
    both = (known.least, known.greatest)
    if None in both:
        return None
    if is_atomic(field.type, TypeRoot.FLOAT, TypeRoot.DOUBLE):
        numbers = [value for value in both if isinstance(value, float) and math.isfinite(value)]
        return json.dumps(numbers) if len(numbers) == len(both) else None
    return literals(both, [field.type, field.type]) if has_literal(field.type) else None
