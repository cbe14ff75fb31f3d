"""pypaimon's write builders: a writer returns commit messages, a committer creates snapshots and calls callbacks."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn, Self

import pyarrow as pa

from interbed.storage.base.errors import InvalidInputError, NotSupportedError, UsedTwiceError
from interbed.storage.base.incoming import IncomingRows, arrow_rows
from interbed.storage.commit.file_store_commit import FileStoreCommit
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.manifest.entry import ManifestEntry
from interbed.storage.meta.snapshot.snapshot import BATCH_COMMIT_IDENTIFIER, Snapshot
from interbed.storage.scan.manifest_reader import ManifestReader
from interbed.storage.upkeep.compact_table import compact_again
from interbed.storage.write.bucket_strategy import MakeStrategy, batch_strategy_of, strategy_of
from interbed.storage.write.commit_message import CommitMessage
from interbed.storage.write.table_write import TableWrite, overwriting


@dataclass(frozen=True, slots=True)
class CommitCallbackContext:
    """A new snapshot, the files that it added and deleted, and the identifier of its commit."""

    snapshot: Snapshot
    commit_entries: Sequence[ManifestEntry]
    identifier: int


class CommitCallback:
    """Base class of callbacks. `call` may be repeated for a snapshot after a failure."""

    def call(self, context: CommitCallbackContext) -> None:
        """Handle a new snapshot of the table."""
        raise NotImplementedError(f"{type(self).__name__} has no method 'call'.")

    def close(self) -> None:
        """Handle the end of the committer."""


def _call_callbacks(store: FileStore, ids: Sequence[int], callbacks: Sequence[CommitCallback]) -> None:
    """Call the callbacks for each snapshot of a commit."""
    reader = ManifestReader(store.file_io, store.paths)
    for snapshot_id in ids:
        snapshot = store.snapshots.snapshot(snapshot_id)
        entries = list(reader.entries(reader.delta(snapshot)))
        for callback in callbacks:
            callback.call(CommitCallbackContext(snapshot, entries, snapshot.commit_identifier))


if TYPE_CHECKING:
    import pandas as pd


_ROWS_AT_ONCE = 1_024
"""The batch size of rows that are written one by one."""


class _ClosingContext:
    """A context manager that calls `close` at the end."""

    def close(self) -> None:
        """Release the resources of the object."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _BuiltWrite(_ClosingContext):
    """The base class of batch and stream writers."""

    def __init__(self, write: TableWrite, store: FileStore) -> None:
        self._write = write
        self._what = f"the table at {store.location}"
        self._rows: list[dict[str, object]] = []
        self.table_pyarrow_schema = store.schema.arrow
        """The Arrow schema of the table's rows."""

    def write_arrow(self, table: pa.Table | pa.RecordBatch) -> None:
        """Write the rows of an Arrow table or batch."""
        self._write_rows()
        self._write.write_arrow(table)

    def write_arrow_batch(self, data: pa.RecordBatch) -> None:
        """Write the rows of an Arrow batch."""
        self.write_arrow(data)

    def write_row(self, row: Mapping[str, object] | Sequence[object]) -> None:
        """Write one row: values by column, or a value for each column in order. Write many rows as Arrow data.

        Raises InvalidInputError for a row without a value for every column. A value that does not fit its column is
        refused by a SchemaMismatchError here or when the commit is prepared.
        """
        names = self.table_pyarrow_schema.names
        values = dict(row) if isinstance(row, Mapping) else dict(zip(names, row, strict=False))
        if set(values) != set(names) or len(row) != len(names):
            raise InvalidInputError(f"A row has a value for each of {', '.join(names)}; this one is {row!r}.")
        self._rows.append(values)
        if len(self._rows) == _ROWS_AT_ONCE:
            self._write_rows()

    def write_pandas(self, dataframe: "pd.DataFrame") -> None:
        """Write the rows of a pandas data frame; named levels of its index are columns, as in Table.append."""
        self._write_rows()
        self._write_incoming(dataframe)

    def write_ray(self, dataset: object, **_: object) -> NoReturn:
        """Raise NotSupportedError, because Ray is not supported."""
        raise NotSupportedError("Ray is not supported; write its blocks by write_arrow, one writer for each task.")

    def with_write_type(self, write_cols: Sequence[str]) -> NoReturn:
        """Raise NotSupportedError, because a file has all columns."""
        raise NotSupportedError("Rows are written with all columns; give null where a column has no value.")

    def abort(self) -> None:
        """Delete the files that were written so far."""
        self._write.abort()

    def close(self) -> None:
        """Release the write buffer; uncommitted rows are lost."""
        self._write.close()

    def _write_rows(self) -> None:
        if self._rows:
            # Rows that are refused stay, so that none of them is missing from a commit after the error.
            self._write_incoming(self._rows)
            self._rows = []

    def _write_incoming(self, data: IncomingRows) -> None:
        """Write rows that are not Arrow data, with the values that Table.append would write."""
        rows = arrow_rows(data, self.table_pyarrow_schema, what=self._what)
        for batch in [rows] if isinstance(rows, pa.Table | pa.RecordBatch) else rows:
            self._write.write_arrow(batch)


class BatchTableWrite(_BuiltWrite):
    """A writer of the rows of one commit."""

    def __init__(self, write: TableWrite, store: FileStore) -> None:
        super().__init__(write, store)
        self._prepared = False

    def prepare_commit(self) -> list[CommitMessage]:
        """Return the messages to commit; raises UsedTwiceError for a second call."""
        if self._prepared:
            raise UsedTwiceError("A batch write prepares its commit once; make a new one for more rows.")
        self._prepared = True
        self._write_rows()
        return self._write.prepare_commit()


class StreamTableWrite(_BuiltWrite):
    """A writer of the rows of a sequence of commits."""

    def prepare_commit(self, commit_identifier: int) -> list[CommitMessage]:
        """Return the messages of the rows since the last call, for the commit of that identifier."""
        if commit_identifier < 0:
            raise InvalidInputError(f"A commit identifier is zero or more, not {commit_identifier}.")
        self._write_rows()
        return self._write.prepare_commit()


class _BuiltCommit(_ClosingContext):
    """The base class of batch and stream committers. `partition` is overwritten ({}: all); None appends."""

    def __init__(self, store: FileStore, commit_user: str, partition: Mapping[str, object] | None) -> None:
        self._store = store
        self._commit = FileStoreCommit(store, commit_user)
        self._partition = partition
        self._callbacks: list[CommitCallback] = []

    def add_commit_callback(self, callback: CommitCallback) -> None:
        """Call the callback after every snapshot of this committer. Its errors do not undo the commit."""
        self._callbacks.append(callback)

    def abort(self, commit_messages: Sequence[CommitMessage]) -> None:
        """Delete the files of messages that will not be committed."""
        self._commit.abort(commit_messages)

    def close(self) -> None:
        """Close all callbacks of the committer."""
        for callback in self._callbacks:
            callback.close()

    def _commit_messages(self, messages: Sequence[CommitMessage], identifier: int) -> None:
        if self._partition is None:
            ids = self._commit.commit(messages, identifier=identifier)
        else:
            dynamic = _is_dynamic(self._store, self._partition)
            ids = self._commit.overwrite(messages, partition=self._partition, dynamic=dynamic, identifier=identifier)
        if self._commit.gave_up_compaction:
            compact_again(self._store)
        self._notify(ids)

    def _notify(self, ids: Sequence[int]) -> None:
        if self._callbacks:
            _call_callbacks(self._store, ids, self._callbacks)


class BatchTableCommit(_BuiltCommit):
    """A committer of a single commit."""

    def __init__(self, store: FileStore, commit_user: str, partition: Mapping[str, object] | None) -> None:
        super().__init__(store, commit_user, partition)
        self._committed = False

    def commit(self, commit_messages: Sequence[CommitMessage]) -> None:
        """Create the snapshot; raises the errors that CommitError documents."""
        self._once()
        self._commit_messages(commit_messages, BATCH_COMMIT_IDENTIFIER)

    def truncate_table(self) -> None:
        """Delete all rows of the table."""
        self._once()
        self._notify(self._commit.truncate())

    def truncate_partitions(self, partitions: Sequence[Mapping[str, object]]) -> None:
        """Delete the rows of the partitions."""
        self._once()
        self._notify(self._commit.truncate(partitions))

    def _once(self) -> None:
        if self._committed:
            raise UsedTwiceError("A batch commit commits once; make a new one.")
        self._committed = True


class StreamTableCommit(_BuiltCommit):
    """A committer of a sequence of commits; identifiers that are committed already are skipped."""

    def commit(self, commit_messages: Sequence[CommitMessage], commit_identifier: int) -> None:
        """Create the snapshot of an identifier, unless it exists."""
        if self._commit.filter_committed([commit_identifier]):
            self._commit_messages(commit_messages, commit_identifier)


class _WriteBuilder:
    """The base class of both write builders."""

    def __init__(self, store: FileStore) -> None:
        self._store = store
        self.commit_user = _commit_user(store)
        self._static_partition: Mapping[str, object] | None = None

    def overwrite(self, static_partition: Mapping[str, object] | None = None) -> Self:
        """Overwrite the given partition, or without one the partitions in the data (or all rows)."""
        self._static_partition = static_partition or {}
        return self

    def new_update(self) -> NoReturn:
        """Raise NotSupportedError, because rows have no ids without row tracking."""
        raise NotSupportedError(
            "Updates by row id are not supported. Change rows of a primary-key table by writing them again, delete "
            "rows by Table.delete, or run UPDATE and MERGE INTO on Spark."
        )

    def _table_write(self, strategy: MakeStrategy) -> TableWrite:
        if self._static_partition is None:
            return TableWrite(self._store, self.commit_user, strategy=strategy)
        dynamic = _is_dynamic(self._store, self._static_partition)
        replaced = None if dynamic else self._static_partition
        return overwriting(self._store, self.commit_user, replaced, strategy=strategy)


class BatchWriteBuilder(_WriteBuilder):
    """Builder of a writer and its committer, for one commit."""

    def new_write(self) -> BatchTableWrite:
        """Return the writer of the commit."""
        return BatchTableWrite(self._table_write(batch_strategy_of), self._store)

    def new_commit(self) -> BatchTableCommit:
        """Return the committer of the messages."""
        return BatchTableCommit(self._store, self.commit_user, self._static_partition)


class StreamWriteBuilder(_WriteBuilder):
    """Builder of a writer and its committer, for a sequence of commits."""

    def with_commit_user(self, commit_user: str) -> "StreamWriteBuilder":
        """Set the commit user, so that a restarted job resumes its commits."""
        self.commit_user = commit_user
        return self

    def new_write(self) -> StreamTableWrite:
        """Return the writer of the commit."""
        return StreamTableWrite(self._table_write(strategy_of), self._store)

    def new_commit(self) -> StreamTableCommit:
        """Return the committer of the messages."""
        return StreamTableCommit(self._store, self.commit_user, self._static_partition)


def _is_dynamic(store: FileStore, partition: Mapping[str, object]) -> bool:
    return bool(store.schema.partition_keys) and not partition and store.options.dynamic_partition_overwrite


def _commit_user(store: FileStore) -> str:
    prefix = store.options.raw.get("commit.user-prefix")
    return f"{prefix}_{uuid.uuid4()}" if prefix else str(uuid.uuid4())
