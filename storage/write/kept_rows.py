"""Files of an append table that are replaced by their rows without deleted ones: copy on write.

DELETE, UPDATE and MERGE use it, in one process and in the tasks of Spark. The rows that stay are those of the table:
null stays null in columns with a default, and values of other writers are not refused.
"""

from collections.abc import Iterable, Mapping

from interbed.storage.base.errors import CommitConflictError
from interbed.storage.files.deletion_vectors import DeletionVector
from interbed.storage.lsm.file_read import FileRead, ReadOptions, block_rows
from interbed.storage.meta.file_store import FileStore
from interbed.storage.read.positions import DeletionReader
from interbed.storage.scan.split import Split
from interbed.storage.write.commit_message import CommitMessage
from interbed.storage.write.table_write import TableWrite


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
