"""What a scan reports to Spark's optimizer: estimates, and how its splits are partitioned.

Estimates are rows, bytes in memory, and the statistics of columns that ANALYZE and the files know. Splits are
partitioned by partition columns, then by bucket: Spark joins two tables without a shuffle when the splits of both
report the same kind of key.
"""

import json
import math
from collections.abc import Sequence
from typing import Any

from interbed.spark_ext.handle.clustering import clustering_of
from interbed.spark_ext.handle.table_handle import TableHandle
from interbed.spark_ext.values.predicates import has_literal, literals
from interbed.storage.base.row.binary_row import decode_row
from interbed.storage.base.types.data_type import AtomicType, DataField, TypeRoot, is_atomic
from interbed.storage.meta.options.stream import OF_ONE_SNAPSHOT
from interbed.storage.meta.schema.table_schema import TableSchema
from interbed.storage.scan.split import Plan, Split
from interbed.storage.scan.statistics import read_statistics
from interbed.storage.scan.summary.estimate import ColumnEstimate, estimate_scan
from interbed.storage.table.table import Table
from interbed.thrift_idl.planner import ttypes
from interbed.thrift_idl.planner.ttypes import ScanPartitioning


def estimate_for_spark(handle: TableHandle, table: Table, plan: Plan, request: Any) -> ttypes.ScanEstimate:
    """The estimate for the plan of planner.thrift's ScanRequest; filters that only prune are Spark's to estimate."""
    snapshot = None
    if plan.snapshot_id is not None and table.options.startup_mode in OF_ONE_SNAPSHOT:
        snapshot = table.access.starting_snapshot(plan.snapshot_id)
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


_BUCKET = AtomicType(root=TypeRoot.INT)


def partitioning_of(schema: TableSchema, splits: Sequence[Split]) -> tuple[ScanPartitioning, list[str]] | None:
    """The partitioning and the key of each split; None where the splits have no key that Spark can follow.

    Splits of a table whose buckets the JVM can't compute, or which was rescaled and has partitions with other numbers
    of buckets, are not distinguished by bucket.
    """
    partition = schema.partition_fields
    if not all(has_literal(field.type) for field in partition) or any(s.tells_changes or s.branch for s in splits):
        return None
    clustering: Any = clustering_of(schema)
    count = clustering.bucketCount if clustering.strict else 0
    columns = list(clustering.bucketColumns)
    # Spark looks bucket functions up by one column only.
    by_bucket = count > 0 and len(columns) == 1 and all(s.total_buckets == count and s.bucket >= 0 for s in splits)
    if not by_bucket and not partition:
        return None
    types = [field.type for field in partition]
    keys: list[str] = []
    known: dict[tuple[bytes, int], str] = {}
    for split in splits:
        place = (split.partition, split.bucket if by_bucket else 0)
        if place not in known:
            values = decode_row(split.partition, types)
            known[place] = literals((*values, place[1]), (*types, _BUCKET)) if by_bucket else literals(values, types)
        keys.append(known[place])
    partitioning = ScanPartitioning(
        columns=[field.name for field in partition],
        bucketCount=count if by_bucket else 0,
        bucketColumns=columns if by_bucket else [],
    )
    return partitioning, keys
