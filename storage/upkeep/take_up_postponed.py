"""Compaction of a table with postponed buckets: postponed rows go to real buckets, where readers see them.

A partition keeps the bucket count with which its rows were first taken up, at first `postpone.default-bucket-num`. The
rows are replayed, in the order in which their files were created, into writers of those buckets. The result is one
COMPACT snapshot, with the changelog of the table's producer. Source: Paimon's postpone compaction jobs.
"""

from dataclasses import dataclass

import pyarrow as pa

from interbed.storage.base.bucket_id import BucketId
from interbed.storage.base.errors import InvalidOptionError
from interbed.storage.commit.file_store_commit import FileStoreCommit
from interbed.storage.lsm.compact.rewriter import CompactIncrement
from interbed.storage.lsm.file_read import FileRead, ReadOptions, block_rows
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.manifest.entry import DataFileMeta
from interbed.storage.meta.paths import POSTPONE_BUCKET
from interbed.storage.meta.schema.table_schema import VALUE_KIND
from interbed.storage.scan.live_files import RestoredBuckets, restore_buckets
from interbed.storage.scan.partition_filter import PartitionChoice
from interbed.storage.write.commit_message import CommitMessage, as_compaction
from interbed.storage.write.table_write import TableWrite


@dataclass(frozen=True, slots=True, kw_only=True)
class PostponedPartition:
    """Files of a partition's postponed rows, in the order in which they are to be replayed."""

    partition: bytes
    files: tuple[DataFileMeta, ...]
    buckets: int


def postponed_partitions(
    store: FileStore, restored: RestoredBuckets, partition: PartitionChoice = None
) -> list[PostponedPartition]:
    """Return the partitions with postponed rows, all or those chosen; `restored` has the real buckets.

    Raises InvalidOptionError for an impossible `postpone.default-bucket-num`.
    """
    default = store.options.postpone_default_bucket_num
    if default < 1:
        raise InvalidOptionError(f"Option 'postpone.default-bucket-num' takes a positive number, not {default}.")
    waiting = restore_buckets(store, partition_filter=partition, buckets=[POSTPONE_BUCKET])
    return [
        PostponedPartition(
            partition=bucket_id.partition,
            # Within a millisecond keep the order of the manifests, which is that of the writer.
            files=tuple(sorted(waiting.files(bucket_id), key=lambda f: f.creation_time_millis)),
            buckets=restored.total_buckets(bucket_id.partition) or default,
        )
        for bucket_id in waiting.buckets()
    ]


def take_up(
    store: FileStore, partitions: list[PostponedPartition], commit_user: str, *, full: bool
) -> list[CommitMessage]:
    """Write the postponed rows to real buckets and compact those, fully or as is due. Return messages of compaction.

    On an error all written files are deleted.
    """
    messages: list[CommitMessage] = []
    store = store.for_files_of(f.schema_id for p in partitions for f in p.files)
    try:
        # A writer has one bucket count; mostly all partitions have the same.
        for buckets in sorted({p.buckets for p in partitions}):
            chosen = [p for p in partitions if p.buckets == buckets]
            messages += _take_up_rows(
                store.with_buckets(buckets, {"write-only": "false"}), chosen, commit_user, full=full
            )
    except BaseException:
        FileStoreCommit(store, commit_user).abort(messages)
        raise
    messages += [
        CommitMessage.of_compaction(
            BucketId(p.partition, POSTPONE_BUCKET), POSTPONE_BUCKET, CompactIncrement(before=p.files)
        )
        for p in partitions
    ]
    return messages


def _take_up_rows(
    store: FileStore, partitions: list[PostponedPartition], commit_user: str, *, full: bool
) -> list[CommitMessage]:
    reader = FileRead(store, store.schema.fields)
    with TableWrite(store, commit_user, rewrites=True) as write:
        for waiting in partitions:
            directory = store.paths.bucket_directory(BucketId(waiting.partition, POSTPONE_BUCKET))
            for file in waiting.files:
                path = file.path_in(directory)
                for batch in reader.batches(file, path, ReadOptions(batch_rows=block_rows([file]), with_kind=True)):
                    kinds = batch.column(VALUE_KIND).cast(pa.int8())
                    write.write_arrow(batch.select(list(store.schema.names)), kinds)
        if full:
            write.compact_all({p.partition for p in partitions})
        return as_compaction(store, write.prepare_commit())
