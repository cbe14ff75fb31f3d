"""Scans, planned on the driver and read by workers in Arrow batches of exactly the schema that Spark expects.

The planner reads system tables of the catalog, and the split has their rows. So no executor opens the catalog, and
masked values never leave the driver. Splits also have the steps of a stream of an eventual log.

The planner answers aggregates that Spark pushes down if the storage layer has them in metadata. It also answers a count
of rows that takes no longer than Spark takes to start a job.

A scan reports estimates to Spark's optimizer: rows, bytes in memory, and the statistics of columns that ANALYZE and the
files have. It also reports how its splits are partitioned: by partition columns, then by bucket. Spark joins two tables
without a shuffle when the splits of both report the same kind of key.
"""

import json
import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from interbed.catalog.client.api import Catalog
from interbed.catalog.client.global_tables import GlobalTable
from interbed.catalog.client.table_parts import as_object_table
from interbed.spark_ext.handle.reports import scan_metrics
from interbed.spark_ext.handle.row_changes import clustering_of, read_with_hidden, whole_partitions
from interbed.spark_ext.handle.session_options import TRAVEL_KEYS, read_options
from interbed.spark_ext.handle.table_handle import TableHandle
from interbed.spark_ext.read.native import NativeFiles, native_files
from interbed.spark_ext.read.task import ReadTask, check_columns, guarded_rows, pruning_condition, rules_of, task_of
from interbed.spark_ext.values.predicates import FilterHandling, conjunction_of, handling_of, has_literal, literals
from interbed.spark_ext.values.spark_types import NarrowedFields, arrow_schema_for_spark, batch_for_spark
from interbed.storage.base.errors import InvalidInputError
from interbed.storage.base.predicate.expr import Predicate
from interbed.storage.base.row.binary_row import decode_row
from interbed.storage.base.types.data_type import AtomicType, DataField, DataType, TypeRoot, is_atomic
from interbed.storage.meta.options.stream import OF_ONE_SNAPSHOT
from interbed.storage.meta.schema.table_schema import TableSchema
from interbed.storage.read.change_read import AuditRead
from interbed.storage.read.columns import deletions_in
from interbed.storage.read.pushdown import quick_count
from interbed.storage.scan.split import Plan, Split
from interbed.storage.scan.summary.aggregates import Aggregate, AggregateFunction, Top, aggregated, splits_of_top
from interbed.storage.scan.summary.estimate import ColumnEstimate, estimate_scan, read_statistics
from interbed.storage.table.object_table import ObjectTable
from interbed.storage.table.row_views import ReadOptimizedTable
from interbed.storage.table.table import Table
from interbed.storage.views.changes import ChangeView
from interbed.storage.views.stream.eventual_batches import LogStep, LogStepRead
from interbed.thrift_idl.planner import ttypes
from interbed.thrift_idl.planner.ttypes import AggregateFunction as SparkAggregate
from interbed.thrift_idl.planner.ttypes import ScanPartitioning, ScanPlan, ScanSplit


def plan_global(catalog: Catalog, handle: TableHandle, request: Any, task: bytes) -> ScanPlan:
    """Plan planner.thrift's ScanRequest on a system table of the catalog or an object table: one split, with the
    selected rows.
    """
    table: Any = GlobalTable.of(catalog, handle.table) if not handle.is_objects else _objects(catalog, handle)
    columns = list(request.columns)
    query = table.scan(columns, conjunction_of(request.filters, handle.fields), request.limit)
    rows = query.to_arrow()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows)
    split = ScanSplit(
        payload=sink.getvalue().to_pybytes(),
        rowCount=rows.num_rows,
        byteSize=rows.nbytes,
        nativeFiles=[],
        preferredHosts=[],
    )
    return ScanPlan(
        task=task,
        splits=[split],
        rowCount=rows.num_rows,
        byteSize=rows.nbytes,
        description=f"(rows={rows.num_rows}, columns=[{', '.join(columns)}])",
    )


def _objects(catalog: Catalog, handle: TableHandle) -> ObjectTable:
    found = as_object_table(catalog.get_table(f"{handle.database}.{handle.table}"))
    if found is None or found.location != handle.location:
        raise InvalidInputError(
            f"The table '{handle.database}.{handle.table}' was replaced by another one; read again."
        )
    return found


def global_rows(split: bytes) -> Iterator[pa.RecordBatch]:
    """Yield the rows in a split."""
    with pa.ipc.open_stream(split) as stream:
        yield from stream


_MARK = b"log:"
"""Prefix of the payload of a step of a log; the payload of a split of files has none."""

_ROW_BYTES = 100
"""Assumed size of a row of a log; only the number of rows is known."""


def step_for_spark(step: LogStep) -> ScanSplit:
    """Return the split for Spark of a step of a log."""
    rows = step.record_count + sum(split.row_count for split in step.splits)
    size = step.record_count * _ROW_BYTES + sum(split.byte_size for split in step.splits)
    return ScanSplit(payload=_MARK + step.to_bytes(), rowCount=rows, byteSize=size, nativeFiles=[], preferredHosts=[])


def is_log_step(payload: bytes) -> bool:
    """Return whether the payload of a split is a step of a log."""
    return payload.startswith(_MARK)


def log_step(payload: bytes) -> LogStep:
    """Decode the step of a payload. Raises InvalidInputError."""
    return LogStep.from_bytes(payload.removeprefix(_MARK))


def log_rows(handle: TableHandle, columns: Sequence[str], step: LogStep) -> Iterator[pa.RecordBatch]:
    """Yield added and updated rows of a table, and all changes of its audit log or binlog."""
    view = handle.view
    if isinstance(view, ChangeView):
        audit = AuditRead(view.store, columns, None, packed=view.packed)
        return audit.of_changes(LogStepRead(view.store, audit.data_columns).to_batches(step), pairs=True)
    return LogStepRead(handle.open().store, columns).added(step)


SNAPSHOT_ID = "scan.snapshot-id"
_VIEW_ROW_BYTES = 100
"""Assumed size of a row of a system table; the largest one, the audit log, has one for each row of the table."""


def plan_scan(handle: TableHandle, request: Any) -> ScanPlan:
    """Plan planner.thrift's ScanRequest: splits of the handle's snapshot, pruned by filters and limit."""
    handle = as_read(handle, request.options)
    predicate = conjunction_of(request.filters, handle.fields)
    task = task_of(handle, request)
    if handle.view is not None:
        return _plan_view(task, request.limit)
    if handle.snapshot_id is None and not handle.open().access.falls_back:
        nothing = _description(None, [], task.columns, request.limit)
        return ScanPlan(task=task.for_executors().to_bytes(), splits=[], rowCount=0, byteSize=0, description=nothing)
    if (rules := rules_of(handle)) is not None:
        return _plan_guarded(task, pruning_condition(handle, rules, request.filters))
    start = time.monotonic()
    table, plan = planned(handle, predicate, request.limit)
    top = _top(handle, table, request)
    if top is not None:
        task = replace(task, top=top)
        kept = splits_of_top(table.store, plan.splits, top)
        files, rows = sum(len(split.files) for split in kept), sum(split.row_count for split in kept)
        plan = replace(plan, splits=kept, statistics=replace(plan.statistics, files_planned=files, rows_planned=rows))
    planning_millis = round((time.monotonic() - start) * 1000)
    native = native_files(handle, table, task.columns, hadoop_opens=task.hadoop_opens)
    splits = [split_for_spark(split, native) for split in plan.splits]
    partitioned = partitioning_of(table.schema, plan.splits) if request.partitioned else None
    if partitioned is not None:
        for split, key in zip(splits, partitioned[1], strict=True):
            split.key = key
    sent = task.for_executors()
    return ScanPlan(
        task=sent.to_bytes(),
        splits=splits,
        rowCount=sum(split.row_count for split in plan.splits),
        byteSize=sum(split.byte_size for split in plan.splits),
        description=_description(handle.snapshot_id, splits, task.columns, request.limit, top, native.lacks),
        partitioning=None if partitioned is None else partitioned[0],
        estimate=estimate_for_spark(handle, table, plan, request),
        metrics=scan_metrics(plan, planning_millis),
        hadoopSettings=dict(native.hadoop_settings) or None,
        renewedAfter=sent.handle.renewed_after,
    )


def _plan_guarded(task: ReadTask, condition: Predicate) -> ScanPlan:
    """Plan a read under row filters and masks, by a condition that hides what they hide. Spark gets no statistics."""
    check_columns(task.handle, task.columns)
    _, plan = planned(task.handle, condition)
    splits = [split_for_spark(split, None) for split in plan.splits]
    return ScanPlan(
        task=task.for_executors().to_bytes(),
        splits=splits,
        rowCount=sum(split.row_count for split in plan.splits),
        byteSize=sum(split.byte_size for split in plan.splits),
        description=_description(task.handle.snapshot_id, splits, task.columns, None, lacks="row filters or masks"),
    )


def planned(handle: TableHandle, predicate: Predicate | None, limit: int | None = None) -> tuple[Table, Plan]:
    """Return the table of a handle, and the plan of a read."""
    table = handle.open()
    if handle.is_read_optimized:
        table = ReadOptimizedTable.of(table)
    # Modes that read several snapshots use the newest ones when the read is planned.
    snapshot_id = handle.snapshot_id if table.options.startup_mode in OF_ONE_SNAPSHOT else None
    with handle.being_read():
        if isinstance(table, ReadOptimizedTable):
            return table, table.new_scan(predicate=predicate, limit=limit, snapshot_id=snapshot_id).plan()
        return table, table.access.plan(predicate=predicate, limit=limit, snapshot_id=snapshot_id)


def _plan_view(task: ReadTask, limit: int | None) -> ScanPlan:
    """Plan a read of a table's system table, by one task."""
    snapshot = task.handle.open().access.starting_snapshot(task.handle.snapshot_id)
    rows = 0 if snapshot is None else snapshot.total_record_count
    split = ScanSplit(payload=b"", rowCount=rows, byteSize=rows * _VIEW_ROW_BYTES, nativeFiles=[], preferredHosts=[])
    description = _description(task.handle.snapshot_id, [split], task.columns, limit)
    sent = task.for_executors()
    return ScanPlan(
        task=sent.to_bytes(),
        splits=[split],
        rowCount=rows,
        byteSize=split.byteSize,
        description=description,
        renewedAfter=sent.handle.renewed_after,
    )


def as_read(handle: TableHandle, options: Mapping[str, str]) -> TableHandle:
    """Return the handle with the options of this read, and the snapshot that they choose."""
    read = replace(handle, dynamic_options=read_options(handle.dynamic_options, options))
    changes_branch = read.changes_branch(handle)
    if TRAVEL_KEYS.isdisjoint(options) and not changes_branch:
        return read
    snapshot = replace(read, snapshot_id=None).open().access.starting_snapshot()
    if snapshot is None:
        return replace(read, snapshot_id=None, snapshot_identity=None)
    return replace(read, snapshot_id=snapshot.id, snapshot_identity=snapshot.identity)


def split_for_spark(split: Split, native: NativeFiles | None, *, holds_rows: bool = False) -> ScanSplit:
    """Return the split for Spark. With `holds_rows` the files of any split have exactly its rows."""
    described = replace(split, raw_convertible=not split.deletion_files) if holds_rows else split
    files = native.of(described) if native is not None else []
    return ScanSplit(
        payload=split.to_bytes(),
        rowCount=split.row_count,
        byteSize=split.byte_size,
        nativeFiles=files,
        preferredHosts=[],
        hasDeletions=bool(files and split.deletion_files) or None,
    )


def _top(handle: TableHandle, table: Table, request: Any) -> Top | None:
    """Return the top rows to read; None unless the plan's files have exactly the selected rows, of this branch."""
    asked = request.top
    if asked is None or whole_partitions(handle.schema, request.filters) is None or table.access.falls_back:
        return None
    return Top(column=asked.column, count=asked.count, descending=asked.descending, nulls_first=bool(asked.nullsFirst))


def _description(
    snapshot_id: int | None,
    splits: Sequence[ScanSplit],
    columns: Sequence[str],
    limit: int | None,
    top: Top | None = None,
    lacks: str | None = None,
) -> str:
    """Return the text for EXPLAIN; `native` counts the splits for Spark's own reader, `lacks` is its obstacle."""
    native = str(sum(1 for split in splits if split.nativeFiles))
    facts = {
        "snapshot": "none" if snapshot_id is None else str(snapshot_id),
        "splits": str(len(splits)),
        "native": native if lacks is None else f"{native} ({lacks})",
        "columns": f"[{', '.join(columns)}]",
    }
    if limit is not None:
        facts["limit"] = str(limit)
    if top is not None:
        facts["top"] = f"{top.count} by {top.column}"
    return f"({', '.join(f'{name}={value}' for name, value in facts.items())})"


def read_split(task: bytes, split: bytes) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a split in batches of the schema that Spark expects, columns in the task's order."""
    read_task = ReadTask.from_bytes(task)
    handle = read_task.handle
    by_name = {field.name: field for field in (*handle.fields, *handle.hidden_fields)}
    fields = [by_name[name] for name in read_task.columns]
    narrow = NarrowedFields.of(fields, read_task.schema_json)
    arrow = arrow_schema_for_spark(narrow.fields)
    with handle.being_read():
        for batch in _rows(read_task, conjunction_of(read_task.filters, handle.fields), split):
            if batch.num_rows:
                yield batch_for_spark(narrow.apply(batch), arrow)


def deleted_positions(task: bytes, split: bytes) -> Iterator[bytes]:
    """Yield for each file of a split the positions of deleted rows, ascending, each in eight big-endian bytes.

    Raises CorruptFileError naming an index file that can't be read.
    """
    planned_split = Split.from_bytes(split)
    file_io = ReadTask.from_bytes(task).handle.open().access.storage_io
    deleted_of = deletions_in(file_io, planned_split.deletion_files)
    for file in planned_split.files:
        deleted = deleted_of(file)
        yield b"" if deleted is None else deleted.positions.astype(">i8").tobytes()


def _rows(task: ReadTask, predicate: Predicate | None, split: bytes) -> Iterable[pa.RecordBatch]:
    rules = rules_of(task.handle)
    return _batches(task, predicate, split) if rules is None else guarded_rows(task, rules, predicate, split, _batches)


def _batches(task: ReadTask, predicate: Predicate | None, split: bytes) -> Iterable[pa.RecordBatch]:
    if task.handle.is_computed:
        return global_rows(split)
    if task.handle.is_format:
        # By use: most tables are none.
        from interbed.spark_ext.read.format_reads import format_rows

        return format_rows(task, predicate, split)
    view = task.handle.view
    if task.reads_log and is_log_step(split):
        return log_rows(task.handle, task.columns, log_step(split))
    if view is None:
        return read_with_hidden(task.handle.open(), task.columns, predicate, Split.from_bytes(split), top=task.top)
    if isinstance(view, ChangeView) and split:
        # This is a read of a stream, which is planned by splits.
        return AuditRead(view.store, task.columns, predicate, packed=view.packed).to_batches(Split.from_bytes(split))
    if task.handle.snapshot_id is not None and view.store.options.startup_mode in OF_ONE_SNAPSHOT:
        view = view.copy({SNAPSHOT_ID: str(task.handle.snapshot_id)})
    return view.scan(task.columns, predicate).to_arrow_batch_reader()


_COUNT = AtomicType(root=TypeRoot.BIGINT)
_QUICK_RECORDS = 8 << 20
"""Records that are counted in about 0.1 s, which is the overhead of a Spark job with a few tasks."""
_FUNCTIONS = {
    SparkAggregate.COUNT_ROWS: AggregateFunction.COUNT_ROWS,
    SparkAggregate.COUNT: AggregateFunction.COUNT,
    SparkAggregate.MIN: AggregateFunction.MIN,
    SparkAggregate.MAX: AggregateFunction.MAX,
}


def answer(handle: TableHandle, request: Any, asked: Sequence[Any]) -> list[str] | None:
    """Return the rows of planner.thrift's AggregateAnswer for a ScanRequest; None when Spark has to read."""
    handle = as_read(handle, request.options)
    schema = handle.schema
    if handle.view is not None or handle.snapshot_id is None or handle.rules is not None:
        return None
    if any(
        handling_of(tree, schema.fields, schema.partition_keys) is not FilterHandling.EXACT for tree in request.filters
    ):
        return None
    if not all(name in schema.by_name for name in (*request.columns, *(one.column for one in asked if one.column))):
        # Hidden columns have no statistics.
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


def estimate_for_spark(handle: TableHandle, table: Table, plan: Plan, request: Any) -> ttypes.ScanEstimate:
    """Return the estimate for a plan of planner.thrift's ScanRequest; Spark estimates filters that only prune."""
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
    """Return the partitioning and the key of each split; None when the splits have no key that Spark supports.

    The key has no bucket when the JVM can't compute the table's buckets, or when partitions have different numbers of
    buckets after a rescale.
    """
    partition = schema.partition_fields
    if not all(has_literal(field.type) for field in partition) or any(s.has_changes or s.branch for s in splits):
        return None
    clustering: Any = clustering_of(schema)
    count = clustering.bucketCount if clustering.strict else 0
    columns = list(clustering.bucketColumns)
    # Spark's bucket functions take one column only.
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
