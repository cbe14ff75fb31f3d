"""Rows of append tables that a statement deletes: deletion vectors mark them, or the files that hold them are rewritten
without them (copy on write). DELETE, UPDATE and MERGE use it, in one process and in the tasks of Spark.

Deletion vectors (page `append-table/row-level`) leave the file as it is. In a table without buckets the vectors of a
partition may be in several index files; only those that name a changed file are rewritten. In a table with buckets,
each bucket has one index file.

The rows that a rewrite keeps are those of the table: null stays null in columns with a default, and values of other
writers are not refused.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy.typing as npt

from interbed.storage.base.bucket_id import BucketId
from interbed.storage.base.errors import CommitConflictError
from interbed.storage.files.deletion_vectors import BucketDeletions, DeletionVector
from interbed.storage.lsm.file_read import FileRead, ReadOptions, block_rows
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.manifest.index_manifest import DELETION_VECTORS, IndexFileMeta
from interbed.storage.read.columns import DeletionReader
from interbed.storage.scan.live_files import BucketRestore
from interbed.storage.scan.split import Split
from interbed.storage.write.commit_message import CommitMessage, DataIncrement
from interbed.storage.write.table_write import TableWrite

IndexChange = tuple[tuple[IndexFileMeta, ...], tuple[IndexFileMeta, ...]]


def change_vectors(
    store: FileStore,
    bucket_id: BucketId,
    index_files: Sequence[IndexFileMeta],
    *,
    marked: Mapping[str, npt.ArrayLike],
    gone: Collection[str] = (),
) -> IndexChange:
    """Mark rows of data files of a bucket as deleted, by file name and position, and remove the vectors of deleted
    files.

    Return the new index files and those that they replace. Raises CorruptFileError for an index file that can't be
    read.
    """
    touched = {*marked, *gone}
    files = [f for f in index_files if f.index_type == DELETION_VECTORS]
    if store.options.bucket < 1:
        files = [f for f in files if any(v.data_file_name in touched for v in f.deletion_vectors or ())]
    vectors = BucketDeletions.restore(store, bucket_id, files)
    for name in gone:
        vectors.remove(name)
    for name, positions in marked.items():
        vectors.delete(name, positions)
    return vectors.finish()


def vector_messages(
    store: FileStore,
    restored: BucketRestore,
    marked: Mapping[BucketId, Mapping[str, npt.ArrayLike]],
    messages: Iterable[CommitMessage] = (),
) -> list[CommitMessage]:
    """Return messages that commit deletion vectors of the marked rows, and remove the vectors of files that `messages`
    delete.

    `restored` is a snapshot at least as new as the one in which the positions were found.
    """
    gone: dict[BucketId, set[str]] = {}
    for message in messages:
        names = gone.setdefault(message.bucket_id, set())
        names.update(f.file_name for f in message.data.deleted_files)
    found = []
    for bucket_id in sorted({*marked, *gone}):
        new, replaced = change_vectors(
            store,
            bucket_id,
            restored.index_files(bucket_id),
            marked=marked.get(bucket_id, {}),
            gone=gone.get(bucket_id, ()),
        )
        if new or replaced:
            total = restored.total_buckets(bucket_id.partition)
            found.append(
                CommitMessage(
                    bucket_id=bucket_id,
                    total_buckets=store.options.bucket if total is None else total,
                    data=DataIncrement(new_index_files=new, deleted_index_files=replaced),
                )
            )
    return found


def replace_files(
    store: FileStore, write: TableWrite, splits: Iterable[Split], deleted: Mapping[str, DeletionVector]
) -> list[CommitMessage]:
    """Write the rows of files without those to delete, and return the messages that remove the files.

    `deleted` has the rows to delete by the paths of their files. Rows that deletion vectors have marked before stay
    deleted. Raises CommitConflictError if a file is in none of the splits.
    """
    read, deletions = FileRead(store, store.schema.fields), DeletionReader(store.file_io)
    left = dict(deleted)
    messages = []
    for split in splits:
        deleted_of = deletions.of(split.deletion_files)
        replaced = tuple(file for file in split.files if split.path_of(file) in left)
        for file in replaced:
            path, old = split.path_of(file), deleted_of(file)
            more = left.pop(path)
            options = ReadOptions(
                batch_rows=block_rows(replaced), deleted=more if old is None else old.union(more.positions)
            )
            for batch in read.batches(file, path, options):
                write.write_kept(batch)
        if replaced:
            messages.append(CommitMessage.deletion(split.bucket_id, split.total_buckets, replaced))
    if left:
        raise CommitConflictError(
            f"The file {min(left)} is not in the snapshot of {store.location} whose rows were to be changed. Nothing "
            "was changed; run the statement again."
        )
    return messages
