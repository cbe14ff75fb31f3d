"""Streams: a table's changes as micro-batches of Structured Streaming.

The JVM keeps positions in Spark's checkpoint and asks here where the next batch ends and what its splits are; workers
read these as those of any scan. Of the table itself a stream has the rows that are added or updated, of its audit log
and binlog all changes. With the option `log` changes come from the table's log: those of an eventual one before they
are committed; what a transactional log has is read from the files, which hold the same as soon as it is there.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import Any

from interbed.spark_ext.handle.session_options import read_options
from interbed.spark_ext.handle.table_handle import TableHandle
from interbed.spark_ext.read.native import NativeFiles, native_files
from interbed.spark_ext.read.reader import ReadTask, split_for_spark, step_for_spark
from interbed.storage.base.errors import InvalidOptionError, NotSupportedError, SnapshotNotFoundError
from interbed.storage.meta.options.stream import READ_CHANGELOG, StreamOptions
from interbed.storage.scan.split import Split
from interbed.storage.views.stream.eventual_batches import EventualBatches, has_eventual_log
from interbed.storage.views.stream.micro_batches import BatchLimits, MicroBatches
from interbed.storage.views.stream.position import StreamPosition
from interbed.storage.views.system.table import SystemTable
from interbed.thrift_idl.planner.ttypes import ScanPlan, ScanSplit, StreamInfo, StreamLimits

LOG = "log"
"""The option of a read that wants changes from the table's log, as `Table.stream(log=True)`."""

_ANEW = "In Spark a stream starts anew with another checkpointLocation."


def open_stream(handle: TableHandle, request: Any) -> StreamInfo:
    """What planner.thrift's ScanRequest asks for as a stream; raises for what can't be one, before the query starts."""
    # Of no snapshot, so that options which name one say where the stream begins.
    options = read_options(handle.dynamic_options, request.options)
    wants_log = StreamOptions(options).boolean(LOG, False)
    options.pop(LOG, None)
    handle = replace(handle, snapshot_id=None, dynamic_options=options)
    name = f"{handle.database}.{handle.table}"
    view = handle.view
    if isinstance(view, SystemTable) or handle.is_global:
        raise NotSupportedError(
            f"The system table '{name}' has no changes to stream; those with changes are $audit_log and $binlog."
        )
    table = handle.open()
    if view is None and table.options.reads_changelog:
        raise InvalidOptionError(
            f"With '{READ_CHANGELOG}' the table '{name}' has one more column, which Spark must see when it looks it "
            f"up: stream '{name}$audit_log' instead, or load the table by its path."
        )
    # Refused now, not when the first batch is planned.
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
        # Raises for what a stream of the log does not carry out.
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
    """The stream of a task that `open_stream` made."""
    return _stream_of(ReadTask.from_bytes(task))


def _stream_of(task: ReadTask) -> "SparkStream":
    return LogStream(task) if task.reads_log else SparkStream(task)


class SparkStream:
    """A stream of a table's files. Errors are those of MicroBatches."""

    def __init__(self, task: ReadTask) -> None:
        self._task = task
        self._table = self._task.handle.open()
        self._batches = MicroBatches(self._table.store)

    def start(self) -> str:
        """Where the stream begins if it begins now."""
        return self._batches.start().to_json()

    def newest(self) -> int | None:
        """The newest snapshot."""
        return self._batches.newest()

    def advance(self, after: str, limits: Any, last_snapshot: int | None) -> str | None:
        """Where the next micro-batch ends; None when there is nothing, or not enough, to read."""
        position = StreamPosition.from_json(after)
        with _says_how_to_start_anew():
            end = self._batches.advance(position, _limits(limits), last_snapshot=last_snapshot)
        return None if end is None else end.to_json()

    def plan(self, after: str, end: str) -> ScanPlan:
        """The splits between two positions."""
        with _says_how_to_start_anew():
            splits = self._batches.splits(StreamPosition.from_json(after), StreamPosition.from_json(end))
        return self._scan_plan([self._split_for_spark(split) for split in splits], end)

    def commit(self, end: str) -> None:
        """Advance the table's consumer, if the stream has one."""
        self._batches.commit(StreamPosition.from_json(end))

    def _scan_plan(self, splits: list[ScanSplit], end: str) -> ScanPlan:
        return ScanPlan(
            task=self._task.to_bytes(),
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
        if self._task.handle.view is not None:
            return None
        return native_files(self._task.handle, table, self._task.columns, hadoop_opens=self._task.hadoop_opens)

    @property
    def hadoop_settings(self) -> Mapping[str, str]:
        """What Spark's reader needs in Hadoop's configuration."""
        return {} if self._native is None else self._native.hadoop_settings


class LogStream(SparkStream):
    """A stream of a table's eventual log. Errors are those of EventualBatches."""

    def __init__(self, task: ReadTask) -> None:
        super().__init__(task)
        self._log = EventualBatches(self._table.store)

    def start(self) -> str:
        """See SparkStream."""
        return self._log.start()

    def advance(self, after: str, limits: Any, last_snapshot: int | None) -> str | None:
        """See SparkStream; with a last snapshot nothing is told that is not in it."""
        with _says_how_to_start_anew():
            return self._log.advance(after, _limits(limits), last_snapshot=last_snapshot)

    def plan(self, after: str, end: str) -> ScanPlan:
        """See SparkStream."""
        with _says_how_to_start_anew():
            splits = self._log.splits(after, end)
            if splits is not None:
                return self._scan_plan([self._split_for_spark(split) for split in splits], end)
            return self._scan_plan([step_for_spark(step) for step in self._log.steps(after, end)], end)

    def commit(self, end: str) -> None:
        """Keep nothing: such a stream has no consumer."""


@contextmanager
def _says_how_to_start_anew() -> Iterator[None]:
    """Add to errors of snapshots that are gone what becomes of the query."""
    try:
        yield
    except SnapshotNotFoundError as error:
        raise SnapshotNotFoundError(f"{error} {_ANEW}") from error


def _limits(limits: Any) -> BatchLimits:
    return BatchLimits(files=limits.maxFiles, size=limits.maxBytes, rows=limits.maxRows, min_rows=limits.minRows)
