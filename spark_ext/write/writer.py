"""Writes: tasks write files, which a commit on the driver makes visible, or an abort deletes.

Spark drops the messages of tasks that end while their job fails, and does not wait for tasks that still run. Therefore
the names of files have the job's id, and a mark exists while the job may succeed: see
`interbed.storage.upkeep.job_files`.

Writes of format tables are in `format_writer`.
"""

import json
import struct
import time
import uuid
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from interbed.spark_ext.handle.reports import RepeatedKeyError, commit_metrics
from interbed.spark_ext.handle.row_changes import RENAMED, partitions_scanned
from interbed.spark_ext.handle.session_options import table_options
from interbed.spark_ext.handle.table_handle import TableHandle
from interbed.spark_ext.values.predicates import conjunction_of, padded_partitions, partition_of
from interbed.spark_ext.values.spark_types import batch_from_spark
from interbed.spark_ext.write.change_writer import (
    MARKS,
    REPEATED,
    ChangeWriter,
    DistinctKeys,
    KeyedChanges,
    LocatedChanges,
    decode_marks,
    encode_marks,
    mark_messages,
)
from interbed.spark_ext.write.column_changes import ColumnChanges, check_one_file_each
from interbed.storage.base.errors import CommitFailedError, InvalidInputError, NotSupportedError
from interbed.storage.base.predicate.expr import columns_of
from interbed.storage.commit.basis import RowsRead, SnapshotRead
from interbed.storage.commit.file_store_commit import FileStoreCommit
from interbed.storage.files.deletion_vectors import DeletionVector
from interbed.storage.meta.schema.system_fields import readable_by_name
from interbed.storage.meta.schema.table_schema import TableSchema
from interbed.storage.scan.fallback_checks import check_hides_no_rows, warn_of_branch_rows
from interbed.storage.table.table import Table
from interbed.storage.upkeep.compact_table import compact_again
from interbed.storage.upkeep.job_files import JobFiles
from interbed.storage.write.bucket_strategy import batch_strategy_of, strategy_of
from interbed.storage.write.commit_message import CommitMessage
from interbed.storage.write.kept_rows import KeptRows
from interbed.storage.write.row_converter import kinds_of
from interbed.storage.write.row_statements import UPDATABLE
from interbed.storage.write.table_write import TableWrite, overwriting
from interbed.thrift_idl.planner.ttypes import CommitResult, WriteMode, WritePlan

_LENGTH = struct.Struct("!i")


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitToken:
    """Token of a write for the driver: the table, the commit user and the replaced partitions.

    `mode` is a WriteMode of planner.thrift; `filters` have the partition of a static overwrite as Spark's filters. With
    `follows` the rows were computed from those of a scan with the filters `scanned` at the handle's snapshot. With
    `distinct` no two rows may have one primary key. Rows of a `stream` stay in the postponed bucket if there is one.

    With `data-evolution.enabled`, `assigned` are the columns that the statement changes in rows of the table, and
    `columns` those of the same row from which it computes them; None: other rows matter, too.
    """

    handle: TableHandle
    commit_user: str
    mode: int
    filters: tuple[str, ...] = ()
    follows: bool = False
    scanned: tuple[str, ...] | None = None
    distinct: bool = False
    stream: bool = False
    assigned: tuple[str, ...] = ()
    columns: tuple[str, ...] | None = None

    def for_executors(self) -> "CommitToken":
        """Return the token for the tasks, without secrets of the catalog. Raises the errors of TableHandle."""
        return replace(self, handle=self.handle.for_executors())

    def plan(self) -> WritePlan:
        """Return the answer to a request of a write: the token for the tasks, and this one for the commit."""
        sent = self.for_executors()
        return WritePlan(task=sent.to_bytes(), token=self.to_bytes(), renewedAfter=sent.handle.renewed_after)

    def to_bytes(self) -> bytes:
        """Encode the token as JSON."""
        return json.dumps(
            {
                "handle": b64encode(self.handle.to_bytes()).decode(),
                "commitUser": self.commit_user,
                "mode": self.mode,
                "filters": self.filters,
                "follows": self.follows,
                "scanned": self.scanned,
                "distinct": self.distinct,
                "stream": self.stream,
                "assigned": self.assigned,
                "columns": self.columns,
            }
        ).encode()

    @staticmethod
    def from_bytes(content: bytes) -> "CommitToken":
        """Decode the token of to_bytes. Raises InvalidInputError for other bytes."""
        try:
            value = json.loads(content)
            return CommitToken(
                handle=TableHandle.from_bytes(b64decode(value["handle"])),
                commit_user=value["commitUser"],
                mode=value["mode"],
                filters=tuple(value["filters"]),
                follows=value["follows"],
                scanned=None if value["scanned"] is None else tuple(value["scanned"]),
                distinct=value["distinct"],
                stream=value["stream"],
                assigned=tuple(value["assigned"]),
                columns=None if value["columns"] is None else tuple(value["columns"]),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidInputError(f"Not a write's token: {error}") from error

    def static_partition(self) -> Mapping[str, Any] | Sequence[Mapping[str, Any]]:
        """Return the partitions that an overwrite replaces, {} for the whole table. Raises NotSupportedError."""
        schema = self.handle.schema
        partition = partition_of(self.filters, schema.fields, schema.partition_keys)
        if partition is None:
            raise NotSupportedError(
                f"An overwrite of '{self.handle.database}.{self.handle.table}' names whole partitions "
                f"by `column = value`; its partition columns are ({', '.join(schema.partition_keys)})."
            )
        return padded_partitions(partition, schema.partition_fields)

    def files(self, table: Table) -> JobFiles:
        """Return the job's files; `table` is as the handle opens it."""
        return JobFiles(table.store, self.commit_user)

    def named(self, table: Table) -> Table:
        """Return the table for the job's tasks, with options that put the job's id into file names."""
        return table.copy(self.files(table).named())

    def commit(
        self,
        table: Table,
        messages: Sequence[CommitMessage],
        marks: Sequence[Mapping[str, DeletionVector]] = (),
    ) -> CommitResult:
        """Commit once, even if called again; the result has no snapshot when there were no changes.

        `marks` are deleted rows of append tables, by the path of their file.
        """
        try:
            if self.by_column:
                check_one_file_each(messages)
            if self.mode == WriteMode.CHANGES and not table.schema.has_primary_key:
                messages = [*messages, *mark_messages(table, messages, marks)]
            return self._commit(table, messages)
        finally:
            # Spark commits when all tasks have ended; a task that it did not wait for finds no mark.
            self.files(table).unmark()

    def abort(self, table: Table, messages: Sequence[CommitMessage]) -> None:
        """Delete the files of the messages and all others of the job. Do nothing for a committed job."""
        files = self.files(table)
        files.unmark()
        if table.access.latest_snapshot_of(self.commit_user) is not None:
            return
        if messages:
            table.new_commit(self.commit_user).abort(messages)
        files.delete_all()

    def _commit(self, table: Table, messages: Sequence[CommitMessage]) -> CommitResult:
        commit = table.new_commit(self.commit_user)
        start = time.monotonic()
        ids = self._committed(table, commit, messages)
        if commit.gave_up_compaction:
            compact_again(table.store)
        metrics = commit_metrics(
            messages,
            attempts=commit.attempts,
            commit_millis=round((time.monotonic() - start) * 1000),
            copies_rows=self.mode == WriteMode.CHANGES and not table.schema.has_primary_key,
        )
        return CommitResult(snapshotId=ids[-1] if ids else None, metrics=metrics)

    def _committed(self, table: Table, commit: FileStoreCommit, messages: Sequence[CommitMessage]) -> list[int]:
        """Commit by the mode of the write, and return the ids of the new snapshots."""
        staged = self.handle.staged
        if staged is not None and staged.replaces:
            return commit.overwrite(messages)
        # A MERGE may be planned as an insert of the rows without a match, or of whole rows.
        if self.mode == WriteMode.CHANGES or self.distinct or self.follows:
            check_hides_no_rows(table.store, {m.partition for m in messages if m.data.new_files})
        if self.mode in (WriteMode.APPEND, WriteMode.CHANGES) or staged is not None:
            follows = self._rows_read(messages) if self.follows else None
            return commit.commit(messages, follows_from=follows) if messages else []
        dynamic = self.mode == WriteMode.OVERWRITE_DYNAMIC
        if dynamic and not messages:
            return []
        return commit.overwrite(messages, partition={} if dynamic else self.static_partition(), dynamic=dynamic)

    @property
    def by_column(self) -> bool:
        """Whether the job writes new values of some columns of rows that stay where they are."""
        return self.mode == WriteMode.CHANGES and self.handle.schema.core.data_evolution_enabled

    def _rows_read(self, messages: Sequence[CommitMessage]) -> RowsRead:
        schema = self.handle.schema
        read = RowsRead(
            snapshot=SnapshotRead(self.handle.snapshot_id or 0, self.handle.snapshot_identity),
            partitions=partitions_scanned(schema, self.scanned),
        )
        if not self.by_column:
            return read
        known = readable_by_name(schema)
        depends = {*self.assigned, *(known if self.columns is None else self.columns)}
        # New and deleted rows depend on all rows.
        others = any(m.data.new_index_files or any(f.first_row_id is None for f in m.data.new_files) for m in messages)
        ids = frozenset(known[name].id for name in depends if name in known)
        return replace(read, columns=ids, whole=self.columns is None or others)


_OVERWRITE_MODE = "partitionoverwritemode"


def mode_of(request: Any, schema: TableSchema, *, replaces: bool = False) -> int:
    """Return the mode of a WriteRequest with Spark's option `partitionOverwriteMode`, which goes before the session's.

    `replaces` is true for rows of a new table in the place of another. Raises InvalidInputError for a mode that
    contradicts the write, NotSupportedError for partitions that are to be replaced in a new table.
    """
    given = {key.lower(): value for key, value in request.options.items()}
    mode: int = request.mode
    chosen = given.get(_OVERWRITE_MODE)
    if replaces and chosen is not None and chosen.lower() == "dynamic":
        raise NotSupportedError(
            "saveAsTable in the mode overwrite replaces the whole table, which contradicts the option "
            "partitionOverwriteMode = dynamic. Use insertInto, or writeTo(…).overwritePartitions()."
        )
    if chosen is None or mode not in (WriteMode.OVERWRITE, WriteMode.OVERWRITE_DYNAMIC):
        return mode
    match chosen.lower():
        case "dynamic" if not request.filters:
            return WriteMode.OVERWRITE_DYNAMIC if schema.partition_keys else mode
        case "static" if mode == WriteMode.OVERWRITE:
            return mode
        case "static" | "dynamic":
            raise InvalidInputError(
                f"The option partitionOverwriteMode = {chosen} contradicts the write or the session's setting "
                "spark.sql.sources.partitionOverwriteMode. Remove one of them."
            )
    raise InvalidInputError(f"The option partitionOverwriteMode is 'static' or 'dynamic', not {chosen!r}.")


def plan_write(handle: TableHandle, request: Any) -> WritePlan:
    """Plan planner.thrift's WriteRequest. Raises for a write that is not possible, before any task starts."""
    if handle.is_system:
        raise handle.read_only()
    target = replace(handle, dynamic_options={**handle.dynamic_options, **table_options(request.options)})
    if handle.staged is None:
        target.changes_branch(handle)
    token = CommitToken(
        handle=target,
        commit_user=str(uuid.uuid4()),
        mode=mode_of(request, handle.schema, replaces=handle.staged is not None and bool(handle.staged.replaces)),
        filters=tuple(request.filters),
        follows=bool(request.followsFromSnapshot),
        scanned=None if request.scanned is None else tuple(request.scanned),
        distinct=bool(request.distinctKeys)
        and handle.schema.core.merge_engine in UPDATABLE
        and handle.schema.has_primary_key,
        assigned=tuple(handle.schema.names if request.assigned is None else request.assigned),
        columns=_columns_of(handle.schema, request),
    )
    if token.mode == WriteMode.OVERWRITE:
        token.static_partition()
    # Opened here for its checks of the options and the table.
    table = token.handle.open()
    if not (token.by_column and table.options.deletion_vectors_enabled):
        table.new_write(token.commit_user).close()
    if token.follows:
        warn_of_branch_rows(table.store, predicate=conjunction_of(token.scanned or (), handle.fields))
    token.files(table).mark()
    return token.plan()


def _columns_of(schema: TableSchema, request: Any) -> tuple[str, ...] | None:
    """Return the columns of the scan of a statement, with those of its filters; None if other rows matter, too."""
    if request.scannedColumns is None or request.scanned is None:
        return None
    predicate = conjunction_of(request.scanned, tuple(readable_by_name(schema).values()))
    filtered = () if predicate is None else sorted(columns_of(predicate))
    return tuple(dict.fromkeys((*(c.removeprefix(RENAMED) for c in request.scannedColumns), *filtered)))


def _keeps_one_row(schema: TableSchema) -> bool:
    """Return whether the table keeps one of two rows of a key, and does not merge them by itself."""
    return schema.has_primary_key and schema.core.merge_engine in UPDATABLE


class TaskWriter:
    """Writer of the rows of one task attempt; finish or abort is its last call."""

    def __init__(self, task: bytes) -> None:
        self._token = CommitToken.from_bytes(task)
        table = self._token.handle.open()
        # Options contradict those of tables of other writers that also have deletion vectors.
        self._table = table if self._token.by_column else self._token.named(table)
        self._arrow = self._table.arrow_schema
        self._writes: list[TableWrite] = []
        self._changes: ChangeWriter | None = None
        if self._token.mode == WriteMode.CHANGES:
            self._changes = self._change_writer()
        else:
            self._writes.append(self._new_write())
        self._distinct = DistinctKeys(table.schema) if self._token.distinct and self._changes is None else None
        self._keys = KeptRows()
        self._prepared: list[CommitMessage] = []

    def write(self, batch: pa.RecordBatch) -> None:
        """Write a batch of Spark's rows. Raises SchemaMismatchError and InvalidInputError for data that do not fit."""
        if self._changes is not None:
            self._changes.write(batch)
            return
        kind = self._token.handle.kind_column
        kinds = None
        if kind is not None:
            kinds = kinds_of(batch.column(kind), source=f"The column '{kind}'")
            batch = batch.drop_columns([kind])
        rows = batch_from_spark(batch, self._arrow)
        if self._distinct is not None:
            self._distinct.add(rows)
            self._keys.add(rows.select(list(self._table.primary_keys)))
        (write,) = self._writes
        write.write_arrow(rows, kinds)

    def _new_write(self) -> TableWrite:
        token = self._token
        if token.handle.staged is None and token.mode in (WriteMode.OVERWRITE, WriteMode.OVERWRITE_DYNAMIC):
            dynamic = token.mode == WriteMode.OVERWRITE_DYNAMIC
            partition = None if dynamic else token.static_partition()
            strategy = strategy_of if token.stream else batch_strategy_of
            return overwriting(self._table.store, token.commit_user, partition, strategy=strategy)
        staged = token.handle.staged is not None
        return self._table.new_write(token.commit_user, overwrite=staged, batch=not token.stream)

    def finish(self) -> bytes:
        """Finish the files and return the messages for the driver's commit, for decode_messages."""
        # Files are rewritten from those of the snapshot that the rows were read from.
        with self._token.handle.being_read():
            changed = [] if self._changes is None else self._changes.finish()
        self._prepared = [message for write in self._writes for message in write.prepare_commit()]
        for write in self._writes:
            write.close()
        if not self._token.files(self._table).is_marked():
            self._delete_prepared()
            if self._changes is not None:
                self._changes.abort()
            raise CommitFailedError("The job of this task has ended without it; its files were deleted.")
        content = encode_messages((*self._prepared, *changed))
        if self._changes is not None and (marked := self._changes.marked()):
            marks = encode_marks(marked)
            content += _LENGTH.pack(len(marks)) + marks
        if self._distinct is not None and (key := self._distinct.repeated(self._keys.batches())) is not None:
            repeated = REPEATED + key.encode()
            content += _LENGTH.pack(len(repeated)) + repeated
        self._keys.close()
        return content

    def _change_writer(self) -> ChangeWriter:
        token, snapshot_id = self._token, self._token.handle.snapshot_id
        if token.by_column:
            return ColumnChanges(
                self._table,
                token.commit_user,
                lambda: token.named(self._table).new_write(token.commit_user),
                JobFiles(self._table.store, token.commit_user).file_prefixes[0],
                token.assigned,
                snapshot_id,
            )
        write = moved = self._new_write()
        self._writes.append(write)
        if self._table.schema.has_primary_key:
            return KeyedChanges(write, self._table, distinct=token.distinct)
        if self._table.options.row_tracking_enabled:
            # Rows of the table keep their ids, in files of their own.
            moved = TableWrite(self._table.store.with_stored_row_ids(), token.commit_user)
            self._writes.append(moved)
        return LocatedChanges(write, moved, self._table, snapshot_id)

    def abort(self) -> None:
        """Delete the written files, also after finish if the result did not reach the driver."""
        for write in self._writes:
            write.abort()
        if self._changes is not None:
            self._changes.abort()
        self._delete_prepared()

    def _delete_prepared(self) -> None:
        # Only the files of this task: the other tasks of its job may still succeed.
        self._table.new_commit(self._token.commit_user).abort(self._prepared)
        self._prepared = []


def encode_messages(messages: Iterable[CommitMessage]) -> bytes:
    """Encode messages for the driver, for decode_messages."""
    contents = [message.to_bytes() for message in messages]
    return b"".join(_LENGTH.pack(len(content)) + content for content in contents)


def decode_messages(contents: Sequence[bytes]) -> list[CommitMessage]:
    """Decode the commit messages of tasks' results. Raises InvalidInputError."""
    return [CommitMessage.from_bytes(p) for p in _parts(contents) if not p.startswith((MARKS, REPEATED))]


def check_distinct(contents: Sequence[bytes]) -> None:
    """Raise RepeatedKeyError when a task has reported a repeated key."""
    for part in _parts(contents):
        if part.startswith(REPEATED):
            raise RepeatedKeyError(
                f"The MERGE would insert several rows with the primary key {part.removeprefix(REPEATED).decode()}, of "
                "which the table would keep one. Nothing was changed. Let the source have one row of each key."
            )


def decode_all_marks(contents: Sequence[bytes]) -> list[dict[str, DeletionVector]]:
    """Decode the rows that tasks have deleted, by the path of their file."""
    return [decode_marks(p) for p in _parts(contents) if p.startswith(MARKS)]


def _parts(contents: Sequence[bytes]) -> Iterator[bytes]:
    for content in contents:
        position = 0
        while position < len(content):
            (length,) = _LENGTH.unpack_from(content, position)
            position += _LENGTH.size
            yield content[position : position + length]
            position += length
