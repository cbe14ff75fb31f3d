"""Deleting rows of an append table by rewriting the files that hold them (copy on write)."""

from dataclasses import replace

import pyarrow.compute as pc

from interbed.storage.commit.file_store_commit import FileStoreCommit
from interbed.storage.predicate.evaluate import mask
from interbed.storage.predicate.expr import Predicate, columns_of
from interbed.storage.read.table_read import TableRead
from interbed.storage.scan.scan import TableScan
from interbed.storage.scan.split import Split
from interbed.storage.store import TableStore
from interbed.storage.write.commit_message import CommitMessage
from interbed.storage.write.table_write import TableWrite


def delete_rows_by_rewrite(store: TableStore, predicate: Predicate, commit_user: str) -> int | None:
    """Delete the rows that the predicate selects; the snapshot's id, or None when no row matched.

    A file without a matching row stays. Raises CommitConflictError when another writer replaced one of the files.
    """
    plan = TableScan(store, predicate=predicate).plan()
    affected = [one for split in plan.splits for one in _single_files(split) if _has_match(store, one, predicate)]
    if not affected:
        return None
    with TableWrite(store, commit_user) as write:
        for split in affected:
            for batch in TableRead(store, None).to_batches(split):
                write.write_arrow(batch.filter(pc.invert(mask(predicate, batch))))
        messages = write.prepare_commit()
    replaced = [
        CommitMessage(
            partition=split.partition, bucket=split.bucket, total_buckets=split.total_buckets, deleted_files=split.files
        )
        for split in affected
    ]
    ids = FileStoreCommit(store, commit_user).commit([*messages, *replaced])
    return ids[-1] if ids else None


def _single_files(split: Split) -> list[Split]:
    return [replace(split, files=(file,)) for file in split.files]


def _has_match(store: TableStore, split: Split, predicate: Predicate) -> bool:
    """Whether the file has a row to delete; reads only the columns that the predicate names."""
    names = [n for n in store.schema.names if n in columns_of(predicate)]
    return any(batch.num_rows for batch in TableRead(store, tuple(names), predicate).to_batches(split))
