"""Deleting rows of an append table: by deletion vectors, or by rewriting the files that hold them (copy on write)."""

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow.compute as pc

from interbed.storage.base.arrow_values import to_numpy
from interbed.storage.base.bucket_id import BucketId
from interbed.storage.base.predicate.evaluate import mask
from interbed.storage.base.predicate.expr import Predicate, columns_of
from interbed.storage.commit.file_store_commit import FileStoreCommit
from interbed.storage.meta.store import TableStore
from interbed.storage.read.located_read import ROW_INDEX, LocatedRead
from interbed.storage.read.table_read import TableRead
from interbed.storage.scan.live_files import restore_buckets
from interbed.storage.scan.scan import TableScan
from interbed.storage.scan.split import Split
from interbed.storage.write.append.deletions import vector_messages
from interbed.storage.write.commit_message import CommitMessage
from interbed.storage.write.table_write import TableWrite


def delete_rows(store: TableStore, predicate: Predicate, commit_user: str) -> int | None:
    """Delete the rows that the predicate selects; the snapshot's id, or None when no row matched.

    With the option `deletion-vectors.enabled` files stay as they are. Raises CommitConflictError when another writer
    replaced one of the files, or deleted rows of it, meanwhile.
    """
    if store.options.deletion_vectors_enabled:
        return delete_rows_by_vectors(store, predicate, commit_user)
    return delete_rows_by_rewrite(store, predicate, commit_user)


def delete_rows_by_vectors(store: TableStore, predicate: Predicate, commit_user: str) -> int | None:
    """Mark the rows that the predicate selects as deleted; as delete_rows."""
    plan = TableScan(store, predicate=predicate).plan()
    read = LocatedRead(store, (), predicate)
    marked: dict[BucketId, dict[str, list[Any]]] = {}
    for split in plan.splits:
        files = marked.setdefault(split.bucket_id, {})
        for one in _single_files(split):
            found = [to_numpy(batch.column(ROW_INDEX)) for batch in read.to_batches(one)]
            if found:
                files[one.files[0].file_name] = found
    positions = {place: {n: np.concatenate(p) for n, p in files.items()} for place, files in marked.items()}
    # Of the newest snapshot: what was deleted since stays so, and a file that went since is a conflict.
    messages = vector_messages(store, restore_buckets(store), positions)
    ids = FileStoreCommit(store, commit_user).commit(messages) if messages else []
    return ids[-1] if ids else None


def delete_rows_by_rewrite(store: TableStore, predicate: Predicate, commit_user: str) -> int | None:
    """Delete the rows that the predicate selects; the snapshot's id, or None when no row matched.

    A file without a matching row stays. Raises CommitConflictError when another writer replaced one of the files.
    """
    plan = TableScan(store, predicate=predicate).plan()
    # Only the columns that the predicate names are read to find the files.
    names = [n for n in store.schema.names if n in columns_of(predicate)]
    matches, rows = TableRead(store, names, predicate), TableRead(store)
    files = [one for split in plan.splits for one in _single_files(split)]
    affected = [one for one in files if any(batch.num_rows for batch in matches.to_batches(one))]
    if not affected:
        return None
    with TableWrite(store, commit_user, rewrites=True) as write:
        for split in affected:
            for batch in rows.to_batches(split):
                write.write_arrow(batch.filter(pc.invert(mask(predicate, batch))))
        messages = write.prepare_commit()
    replaced = [CommitMessage.deletion(split.bucket_id, split.total_buckets, split.files) for split in affected]
    if any(split.deletion_files for split in affected):
        replaced += vector_messages(store, restore_buckets(store), {}, replaced)
    ids = FileStoreCommit(store, commit_user).commit([*messages, *replaced])
    return ids[-1] if ids else None


def _single_files(split: Split) -> list[Split]:
    vectors = split.deletion_files
    return [
        replace(
            split,
            files=(file,),
            deletion_files={file.file_name: vectors[file.file_name]} if file.file_name in vectors else {},
        )
        for file in split.files
    ]
