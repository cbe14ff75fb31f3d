"""Changes of rows that follow from what one snapshot holds, as one commit: UPDATE, DELETE, MERGE, partial upserts.

A primary-key table gets rows with their kinds. In an append table rows go by file and position: deletion vectors mark
them, or the files that hold them are written again without them. The commit names the snapshot, so that rows that
another writer changed since are a conflict.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from interbed.storage.base.arrow_values import from_numpy, to_numpy
from interbed.storage.base.bucket_id import BucketId
from interbed.storage.base.errors import CommitConflictError
from interbed.storage.base.predicate.expr import Predicate
from interbed.storage.base.row.kind import RowKind
from interbed.storage.commit.basis import RowsRead
from interbed.storage.commit.file_store_commit import FileStoreCommit
from interbed.storage.files.deletion.vector import DeletionVector
from interbed.storage.lsm.file_read import FileRead, ReadOptions, block_rows
from interbed.storage.meta.options.stream import FALLBACK_BRANCH
from interbed.storage.meta.store import TableStore
from interbed.storage.read.deletions import DeletionReader
from interbed.storage.read.located_read import FILE_PATH, ROW_INDEX, LocatedRead
from interbed.storage.read.table_read import TableRead
from interbed.storage.scan.live_files import restore_buckets
from interbed.storage.scan.partition_filter import AllPartitions, PartitionFilter
from interbed.storage.scan.scan import TableScan
from interbed.storage.upkeep.compact_again import compact_again
from interbed.storage.write.append.deletions import vector_messages
from interbed.storage.write.bucket_strategy import batch_strategy_of
from interbed.storage.write.commit_message import CommitMessage
from interbed.storage.write.table_write import TableWrite

Positions = npt.NDArray[np.int64]


class SnapshotRows:
    """The rows of the newest snapshot, and the commit of what follows from them."""

    def __init__(self, store: TableStore, commit_user: str) -> None:
        # What is read from another branch is not this one's to change.
        self.store = store if store.options.fallback_branch is None else store.with_options({FALLBACK_BRANCH: ""})
        self.snapshot_id = store.snapshots.latest_id() or 0
        self._user = commit_user

    @property
    def location_columns(self) -> tuple[str, ...]:
        """What rows have beside their columns to be found again; a table with a primary key needs nothing."""
        return () if self.store.schema.has_primary_key else (FILE_PATH, ROW_INDEX)

    @property
    def arrow_schema(self) -> pa.Schema:
        """The columns of the rows."""
        more = [pa.field(FILE_PATH, pa.string()), pa.field(ROW_INDEX, pa.int64())]
        return pa.schema([*self.store.schema.arrow, *(more if self.location_columns else ())])

    def batches(self, predicate: Predicate | None = None) -> Iterator[pa.RecordBatch]:
        """The rows that the predicate selects, with their location columns."""
        if not self.snapshot_id:
            return
        plan = TableScan(self.store, predicate=predicate, snapshot_id=self.snapshot_id).plan()
        if self.location_columns:
            located = LocatedRead(self.store, None, predicate)
            for split in plan.splits:
                for batch in located.to_batches(split):
                    yield batch.select(self.arrow_schema.names)
            return
        read = TableRead(self.store, None, predicate)
        for split in plan.splits:
            yield from read.to_batches(split)

    def commit(
        self,
        *,
        deleted: Iterable[pa.RecordBatch] = (),
        updated: Iterable[pa.RecordBatch] = (),
        inserted: Iterable[pa.RecordBatch] = (),
        partitions: PartitionFilter | None = None,
    ) -> int | None:
        """Commit rows that go, rows that take the place of old ones, and new rows; the snapshot's id.

        Deleted rows are as `batches` returns them, updated ones have the location columns of the old row, too. Only
        changes of other writers in `partitions` (None: in all) are conflicts. Raises CommitConflictError.
        """
        with TableWrite(self.store, self._user, strategy=batch_strategy_of) as write:
            gone = self._write(write, deleted, updated)
            for batch in inserted:
                write.write_arrow(batch)
            replaced = self._rewritten(write, gone) if gone else []
            messages = [*write.prepare_commit(), *replaced]
        if gone and self.store.options.deletion_vectors_enabled:
            messages += self._marks(gone, messages)
        elif any(message.data.deleted_files for message in replaced):
            messages += vector_messages(self.store, restore_buckets(self.store), {}, replaced)
        if not messages:
            return None
        read = RowsRead(snapshot_id=self.snapshot_id, partitions=partitions or AllPartitions())
        commit = FileStoreCommit(self.store, self._user, new_user=True)
        ids = commit.commit(messages, follows_from=read)
        if commit.gave_up_compaction:
            compact_again(self.store)
        return ids[-1] if ids else None

    def _write(
        self, write: TableWrite, deleted: Iterable[pa.RecordBatch], updated: Iterable[pa.RecordBatch]
    ) -> dict[str, Positions]:
        """Write what there is to be written of rows that go and change; the positions of those that go."""
        gone: dict[str, list[Positions]] = {}
        names = self.store.schema.names
        for batch in deleted:
            if self.location_columns:
                _collect(batch, gone)
            else:
                write.write_arrow(batch, _kinds(batch.num_rows, RowKind.DELETE))
        for batch in updated:
            if self.location_columns:
                _collect(batch, gone)
                write.write_arrow(batch.select(names))
            else:
                write.write_arrow(batch, _kinds(batch.num_rows, RowKind.UPDATE_AFTER))
        return {path: np.concatenate(found) for path, found in gone.items()}

    def _rewritten(self, write: TableWrite, gone: Mapping[str, Positions]) -> list[CommitMessage]:
        """Write the files again without the rows that go; nothing where deletion vectors mark them."""
        if self.store.options.deletion_vectors_enabled:
            return []
        read = FileRead(self.store, self.store.schema.fields)
        deletions = DeletionReader(self.store.file_io)
        messages = []
        for split in TableScan(self.store, snapshot_id=self.snapshot_id).plan().splits:
            deleted_of = deletions.of(split.deletion_files)
            replaced = tuple(f for f in split.files if split.path_of(f) in gone)
            for file in replaced:
                path, old = split.path_of(file), deleted_of(file)
                without = DeletionVector.of(gone[path]) if old is None else old.union(gone[path])
                for batch in read.batches(file, path, ReadOptions(batch_rows=block_rows(replaced), deleted=without)):
                    write.write_arrow(batch)
            if replaced:
                messages.append(CommitMessage.deletion(split.bucket_id, split.total_buckets, replaced))
        return messages

    def _marks(self, gone: Mapping[str, Positions], messages: Iterable[CommitMessage]) -> list[CommitMessage]:
        restored = restore_buckets(self.store)
        left = dict(gone)
        marked: dict[BucketId, dict[str, Any]] = {}
        for bucket_id in restored.buckets():
            directory = self.store.paths.bucket_directory(bucket_id)
            for file in restored.files(bucket_id):
                path = file.path_in(directory)
                if path in left:
                    marked.setdefault(bucket_id, {})[file.file_name] = left.pop(path)
        if left:
            raise CommitConflictError(
                f"The file {min(left)} is not in the table any more: another writer compacted or overwrote it. Nothing "
                "was changed; run the statement again."
            )
        return vector_messages(self.store, restored, marked, messages)


def _collect(batch: pa.RecordBatch, gone: dict[str, list[Positions]]) -> None:
    paths = batch.column(FILE_PATH).dictionary_encode()
    codes, positions = to_numpy(paths.indices), to_numpy(batch.column(ROW_INDEX))
    # A loop over the files of a batch, which are few.
    for code, path in enumerate(paths.dictionary.to_pylist()):
        gone.setdefault(str(path), []).append(positions[codes == code])


def _kinds(rows: int, kind: RowKind) -> "pa.Array[Any]":
    return from_numpy(np.full(rows, kind, np.int8))
