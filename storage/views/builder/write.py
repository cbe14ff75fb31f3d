"""pypaimon's write builders: a writer makes commit messages, a committer makes snapshots of them."""

import uuid
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

import pyarrow as pa

from interbed.storage.base.errors import InvalidInputError
from interbed.storage.commit.file_store_commit import FileStoreCommit
from interbed.storage.meta.snapshot.snapshot import BATCH_COMMIT_IDENTIFIER
from interbed.storage.meta.store import TableStore
from interbed.storage.write.commit_message import CommitMessage
from interbed.storage.write.replacing import overwriting
from interbed.storage.write.table_write import TableWrite

if TYPE_CHECKING:
    import pandas as pd


class _Closing:
    """Use with `with`."""

    def close(self) -> None:
        """Give back what is held."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _BuiltWrite(_Closing):
    """What batch and stream writers share."""

    def __init__(self, write: TableWrite) -> None:
        self._write = write

    def write_arrow(self, table: pa.Table) -> None:
        """Write the rows of an Arrow table."""
        self._write.write_arrow(table)

    def write_arrow_batch(self, data: pa.RecordBatch) -> None:
        """Write the rows of an Arrow batch."""
        self._write.write_arrow(data)

    def write_pandas(self, dataframe: "pd.DataFrame") -> None:
        """Write the rows of a pandas data frame, its index left out."""
        self._write.write_arrow(pa.Table.from_pandas(dataframe, preserve_index=False))

    def abort(self) -> None:
        """Delete the files written so far."""
        self._write.abort()

    def close(self) -> None:
        """Give back the write buffer; rows that were not committed are gone."""
        self._write.close()


class BatchTableWrite(_BuiltWrite):
    """Writes rows for one commit."""

    def __init__(self, write: TableWrite) -> None:
        super().__init__(write)
        self._prepared = False

    def prepare_commit(self) -> list[CommitMessage]:
        """The messages to commit; once only."""
        if self._prepared:
            raise InvalidInputError("A batch write prepares its commit once; make a new one for more rows.")
        self._prepared = True
        return self._write.prepare_commit()


class StreamTableWrite(_BuiltWrite):
    """Writes rows for a sequence of commits."""

    def prepare_commit(self, commit_identifier: int) -> list[CommitMessage]:
        """The messages of the rows since the last call, for the commit of that identifier."""
        if commit_identifier < 0:
            raise InvalidInputError(f"A commit identifier is zero or more, not {commit_identifier}.")
        return self._write.prepare_commit()


class BatchTableCommit(_Closing):
    """Commits once."""

    def __init__(self, commit: FileStoreCommit, static_partition: Mapping[str, object] | None, dynamic: bool) -> None:
        self._commit = commit
        self._static_partition = static_partition
        self._dynamic = dynamic
        self._committed = False

    def commit(self, commit_messages: Sequence[CommitMessage]) -> None:
        """Make the snapshot; errors as documented at CommitError."""
        self._once()
        if self._static_partition is None:
            self._commit.commit(commit_messages, identifier=BATCH_COMMIT_IDENTIFIER)
        else:
            self._commit.overwrite(commit_messages, partition=self._static_partition, dynamic=self._dynamic)

    def abort(self, commit_messages: Sequence[CommitMessage]) -> None:
        """Delete the files of messages that will not be committed."""
        self._commit.abort(commit_messages)

    def truncate_table(self) -> None:
        """Delete all rows."""
        self._once()
        self._commit.truncate()

    def truncate_partitions(self, partitions: Sequence[Mapping[str, object]]) -> None:
        """Delete the rows of the partitions."""
        self._once()
        self._commit.truncate(partitions)

    def _once(self) -> None:
        if self._committed:
            raise InvalidInputError("A batch commit commits once; make a new one.")
        self._committed = True


class StreamTableCommit(_Closing):
    """Commits again and again; a commit whose identifier was committed already is left out."""

    def __init__(self, commit: FileStoreCommit) -> None:
        self._commit = commit

    def commit(self, commit_messages: Sequence[CommitMessage], commit_identifier: int) -> None:
        """Make the snapshot of that identifier, unless it exists."""
        if self._commit.filter_committed([commit_identifier]):
            self._commit.commit(commit_messages, identifier=commit_identifier)

    def abort(self, commit_messages: Sequence[CommitMessage]) -> None:
        """Delete the files of messages that will not be committed."""
        self._commit.abort(commit_messages)


class BatchWriteBuilder:
    """Makes a writer and a committer that belong together, for one commit."""

    def __init__(self, store: TableStore) -> None:
        self._store = store
        self.commit_user = _commit_user(store)
        self._static_partition: Mapping[str, object] | None = None

    def overwrite(self, static_partition: Mapping[str, object] | None = None) -> "BatchWriteBuilder":
        """Replace the partition given, or, without one, the partitions that occur in the data (or all rows)."""
        self._static_partition = static_partition or {}
        return self

    def new_write(self) -> BatchTableWrite:
        """The writer."""
        if self._static_partition is None:
            return BatchTableWrite(TableWrite(self._store, self.commit_user))
        partition = None if self._is_dynamic else self._static_partition
        return BatchTableWrite(overwriting(self._store, self.commit_user, partition))

    def new_commit(self) -> BatchTableCommit:
        """The committer."""
        commit = FileStoreCommit(self._store, self.commit_user)
        return BatchTableCommit(commit, self._static_partition, self._is_dynamic)

    @property
    def _is_dynamic(self) -> bool:
        partitioned = bool(self._store.schema.partition_keys)
        return partitioned and not self._static_partition and self._store.options.dynamic_partition_overwrite


class StreamWriteBuilder:
    """Makes a writer and a committer that belong together, for a sequence of commits."""

    def __init__(self, store: TableStore) -> None:
        self._store = store
        self.commit_user = _commit_user(store)

    def with_commit_user(self, commit_user: str) -> "StreamWriteBuilder":
        """Commit under that user, so that a restarted job goes on where it stopped."""
        self.commit_user = commit_user
        return self

    def new_write(self) -> StreamTableWrite:
        """The writer."""
        return StreamTableWrite(TableWrite(self._store, self.commit_user))

    def new_commit(self) -> StreamTableCommit:
        """The committer."""
        return StreamTableCommit(FileStoreCommit(self._store, self.commit_user))


def _commit_user(store: TableStore) -> str:
    prefix = store.options.raw.get("commit.user-prefix")
    return f"{prefix}_{uuid.uuid4()}" if prefix else str(uuid.uuid4())
