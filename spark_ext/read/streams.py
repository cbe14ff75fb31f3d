"""Streams: a table's changes as micro-batches of Structured Streaming.

The JVM keeps positions in Spark's checkpoint. For each batch it calls the planner for the end and the splits, which
workers read like those of any scan. A stream of a table has added and updated rows, one of its audit log or binlog has
all changes. With the option `log` changes come from the table's log. Those of an eventual log are read before they are
committed. Those of a transactional log are read from the table's files, which have the same rows at the same time.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import Any

from interbed.spark_ext.handle.session_options import BRANCH, read_options
from interbed.spark_ext.handle.table_handle import TableHandle
from interbed.spark_ext.read.native import NativeFiles, native_files
from interbed.spark_ext.read.reader import split_for_spark, step_for_spark
from interbed.spark_ext.read.task import ReadTask, check_columns
from interbed.storage.base.errors import InvalidOptionError, NotSupportedError, SnapshotNotFoundError
from interbed.storage.meta.options.stream import READ_CHANGELOG, StreamOptions
from interbed.storage.scan.split import Split
from interbed.storage.views.stream.eventual_batches import EventualBatches, has_eventual_log
from interbed.storage.views.stream.micro_batches import BatchLimits, MicroBatches
from interbed.storage.views.stream.position import StreamPosition
from interbed.storage.views.system.table import SystemTable
from interbed.thrift_idl.planner.ttypes import ScanPlan, ScanSplit, StreamInfo, StreamLimits

LOG = "log"
"""The option of a read of changes from the table's log, as `Table.stream(log=True)`."""

_RESTART_ADVICE = "To restart a stream in Spark, give it another checkpointLocation."


def open_stream(handle: TableHandle, request: Any) -> StreamInfo:
    """Open the stream of planner.thrift's ScanRequest. Raises for an unsupported stream before the query starts."""
    # Without a snapshot in the handle, so that options of a snapshot are the beginning of the stream.
    options = read_options(handle.dynamic_options, request.options)
    wants_log = StreamOptions(options).boolean(LOG, False)
    options.pop(LOG, None)
    of_table = handle
    handle = replace(handle, snapshot_id=None, dynamic_options=options)
    name = f"{handle.database}.{handle.table}"
    view = handle.view
    if isinstance(view, SystemTable) or handle.is_computed:
        if handle.is_objects:
            raise NotSupportedError(f"The object table '{name}' has no changes to stream; read it again.")
        raise NotSupportedError(f"The system table '{name}' has no changes to stream; stream $audit_log or $binlog.")
    handle.changes_branch(of_table)
    table = handle.open()
    if view is None and table.options.reads_changelog:
        raise InvalidOptionError(
            f"With '{READ_CHANGELOG}' the table '{name}' has one more column, which Spark must have when it loads the "
            f"table: stream '{name}$audit_log' instead, or load the table by its path."
        )
    if handle.rules is not None:
        check_columns(handle, request.columns)
    # What does not suit the table is refused now, not ignored.
    table.store.with_options({key: value for key, value in options.items() if key != BRANCH})
    # An invalid mode is refused now, not when the first batch is planned.
    _ = table.options.startup_mode
    given = table.options
    reads_log = wants_log and has_eventual_log(table.store)
    task = ReadTask(
        handle=handle,
        columns=tuple(request.columns),
        filters=(),
        schema_json=request.schemaJson,
        reads_log=reads_log,
        hadoop_opens=bool(request.hadoopOpens),
    )
    if reads_log:
        # Raises for options that a stream of the log does not support.
        EventualBatches(table.store)
    min_rows, max_delay = given.min_rows_per_trigger or (None, None)
    limits = StreamLimits(
        maxFiles=given.max_files_per_trigger,
        maxBytes=given.max_bytes_per_trigger,
        maxRows=given.max_rows_per_trigger,
        minRows=min_rows,
        maxDelayMillis=max_delay,
    )
    _limits(limits)
    settings = _stream_of(task).hadoop_settings
    return StreamInfo(task=task.to_bytes(), limits=limits, hadoopSettings=dict(settings) or None)


def open_batches(task: bytes) -> "SparkStream":
    """Return the stream of a task of `open_stream`."""
    return _stream_of(ReadTask.from_bytes(task))


def _stream_of(task: ReadTask) -> "SparkStream":
    return LogStream(task) if task.reads_log else SparkStream(task)


class SparkStream:
    """Stream of a table's files. Errors are those of MicroBatches."""

    def __init__(self, task: ReadTask) -> None:
        self._task = task
        self._table = self._task.handle.open()
        self._batches = MicroBatches(self._table.store)

    def start(self) -> str:
        """Return the position at which the stream begins now."""
        return self._batches.start().to_json()

    def newest(self) -> int | None:
        """Return the id of the newest snapshot."""
        return self._batches.newest()

    def advance(self, after: str, limits: Any, last_snapshot: int | None) -> str | None:
        """Return the end of the next micro-batch; None when there are no, or not enough, rows to read."""
        position = StreamPosition.from_json(after)
        with _restart_advice():
            end = self._batches.advance(position, _limits(limits), last_snapshot=last_snapshot)
        return None if end is None else end.to_json()

    def plan(self, after: str, end: str) -> ScanPlan:
        """Plan the splits between two positions."""
        with _restart_advice():
            splits = self._batches.splits(StreamPosition.from_json(after), StreamPosition.from_json(end))
        return self._scan_plan([self._split_for_spark(split) for split in splits], end)

    def commit(self, end: str) -> None:
        """Advance the table's consumer, if the stream has one."""
        self._batches.commit(StreamPosition.from_json(end))

    def _scan_plan(self, splits: list[ScanSplit], end: str) -> ScanPlan:
        return ScanPlan(
            task=self._task.for_executors().to_bytes(),
            splits=splits,
            rowCount=sum(split.rowCount or 0 for split in splits),
            byteSize=sum(split.byteSize or 0 for split in splits),
            description=f"({len(splits)} splits up to {end})",
        )

    def _split_for_spark(self, split: Split) -> ScanSplit:
        return split_for_spark(split, self._native, holds_rows=not self._table.schema.has_primary_key)

    @cached_property
    def _native(self) -> NativeFiles | None:
        table = self._table
        if self._task.handle.view is not None or self._task.handle.rules is not None:
            return None
        return native_files(self._task.handle, table, self._task.columns, hadoop_opens=self._task.hadoop_opens)

    @property
    def hadoop_settings(self) -> Mapping[str, str]:
        """Hadoop's configuration for Spark's reader."""
        return {} if self._native is None else self._native.hadoop_settings


class LogStream(SparkStream):
    """Stream of a table's eventual log. Errors are those of EventualBatches."""

    def __init__(self, task: ReadTask) -> None:
        super().__init__(task)
        self._log = EventualBatches(self._table.store)

    def start(self) -> str:
        return self._log.start()

    def advance(self, after: str, limits: Any, last_snapshot: int | None) -> str | None:
        """Return the end of the next micro-batch; with a last snapshot it ends with the changes of that one."""
        with _restart_advice():
            return self._log.advance(after, _limits(limits), last_snapshot=last_snapshot)

    def plan(self, after: str, end: str) -> ScanPlan:
        with _restart_advice():
            splits = self._log.splits(after, end)
            if splits is not None:
                return self._scan_plan([self._split_for_spark(split) for split in splits], end)
            return self._scan_plan([step_for_spark(step) for step in self._log.steps(after, end)], end)

    def commit(self, end: str) -> None:
        """Do nothing: such a stream has no consumer."""


@contextmanager
def _restart_advice() -> Iterator[None]:
    """Add to errors of expired snapshots how a stream is restarted."""
    try:
        yield
    except SnapshotNotFoundError as error:
        raise SnapshotNotFoundError(f"{error} {_RESTART_ADVICE}") from error


def _limits(limits: Any) -> BatchLimits:
    return BatchLimits(files=limits.maxFiles, size=limits.maxBytes, rows=limits.maxRows, min_rows=limits.minRows)
