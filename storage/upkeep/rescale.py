"""Rescaling: another bucket count for a table, or for some of its partitions.

Documentation page: `maintenance/rescale-bucket`.

The visible rows of the partitions are rewritten to the new buckets, as one sorted run each, and replace the old files
in one OVERWRITE snapshot. For the whole table the option `bucket` is changed first, so that writers that were started
before notice it when they commit. Older snapshots keep the old files.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

from interbed.storage.base.errors import InvalidInputError, NotSupportedError, plain_errors
from interbed.storage.commit.basis import SnapshotRead
from interbed.storage.commit.contention import RetryPolicy
from interbed.storage.commit.file_store_commit import FileStoreCommit
from interbed.storage.meta.bucket_mode import BucketMode, bucket_mode
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.manifest.entry import ManifestEntry
from interbed.storage.meta.options.core import BUCKET
from interbed.storage.meta.options.lsm import ChangelogProducer
from interbed.storage.meta.schema.change import SetOption
from interbed.storage.read.table_read import TableRead
from interbed.storage.scan.live_files import NothingBefore
from interbed.storage.scan.partition_filter import PartitionChoice
from interbed.storage.scan.scan import TableScan
from interbed.storage.scan.support import check_writable
from interbed.storage.upkeep.compact_table import compact_table
from interbed.storage.write.commit_message import CommitMessage, as_compaction
from interbed.storage.write.table_write import TableWrite

_REWRITE = {
    # The rows were merged before and are in a changelog: they go to the highest level, without a changelog.
    "write-only": "false",
    "changelog-producer": "none",
    "deletion-vectors.enabled": "false",
}


@plain_errors
@dataclass(frozen=True, slots=True, kw_only=True)
class RescaleResult:
    """Result of a rescale. `snapshot_id` is None when all partitions had that bucket count. Sizes in bytes."""

    snapshot_id: int | None
    bucket_num: int
    partitions: int
    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int
    rows: int

    def __str__(self) -> str:
        if self.snapshot_id is None:
            return f"nothing to rescale to {self.bucket_num} bucket(s)"
        return (
            f"{self.partitions} partition(s) of {self.rows:,} rows now have {self.bucket_num} bucket(s) each: "
            f"{self.files_before} files became {self.files_after} ({self.bytes_before:,} -> {self.bytes_after:,} "
            f"bytes), snapshot {self.snapshot_id}"
        )

    def to_json(self) -> dict[str, Any]:
        """Return the result as a JSON object."""
        return asdict(self)


def rescale_table(
    store: FileStore,
    commit_user: Callable[[], str],
    bucket_num: int | None = None,
    partitions: PartitionChoice = None,
) -> RescaleResult:
    """Distribute the rows over `bucket_num` buckets (None: by the option `bucket`) and commit that.

    Without `partitions` this is done for the whole table, whose option `bucket` is changed with it; otherwise for the
    chosen partitions, whose bucket count may then differ from the option's. Rows that are added meanwhile are not lost:
    the work is repeated. Raises NotSupportedError for a table without fixed or postponed buckets, InvalidInputError for
    an impossible number, CommitConflictError when retries did not help. After an error the table is unchanged.
    """
    check_writable(store)
    mode = bucket_mode(store.schema, store.options)
    target = _target(store, mode, bucket_num)
    before = store.schema.core.bucket
    alters = partitions is None and mode is BucketMode.FIXED and target != before
    if alters:
        store.alter([SetOption(BUCKET, str(target))])
    try:
        return RetryPolicy.of(store.options).redo(lambda: _rescale(store, commit_user(), target, partitions))
    except BaseException:
        if alters:
            store.alter([SetOption(BUCKET, str(before))])
        raise


def _target(store: FileStore, mode: BucketMode, bucket_num: int | None) -> int:
    if mode not in (BucketMode.FIXED, BucketMode.POSTPONED):
        ways = {
            BucketMode.NONE: "it has no buckets",
            BucketMode.DYNAMIC: "its buckets are dynamic; set 'dynamic-bucket.target-row-num', and overwrite it",
            BucketMode.CROSS_PARTITION: "its buckets are dynamic; set 'dynamic-bucket.target-row-num'",
        }
        raise NotSupportedError(f"The table at {store.location} can't be rescaled: {ways[mode]}.")
    if bucket_num is None:
        if mode is BucketMode.POSTPONED:
            raise InvalidInputError(
                f"The table at {store.location} has postponed buckets; say how many its rows are to be spread over."
            )
        return store.schema.core.bucket
    if bucket_num < 1:
        raise InvalidInputError(f"Rows can't be spread over {bucket_num} buckets; give a positive number.")
    return bucket_num


def _rescale(store: FileStore, commit_user: str, target: int, partitions: PartitionChoice) -> RescaleResult:
    if store.schema.has_primary_key and store.options.changelog_producer in (
        ChangelogProducer.LOOKUP,
        ChangelogProducer.FULL_COMPACTION,
    ):
        # Changes that are not in a changelog yet would never get into one.
        compact_table(store.with_options({"write-only": "false"}), commit_user, partition=partitions)
    snapshot = store.newest_snapshot()
    old = [] if snapshot is None else _old_files(store, snapshot.id, target, partitions)
    messages: list[CommitMessage] = []
    ids: list[int] = []
    rows = 0
    if snapshot is not None and old:
        store = store.for_files_of(e.file.schema_id for e in old)
        rewritten = store.with_buckets(target, _REWRITE)
        chosen = {e.partition for e in old}
        # Read level 0 even where readers skip it until it is compacted: its rows must not be lost.
        scan = TableScan(store, snapshot_id=snapshot.id, level_filter=lambda level: True)
        splits = [s for s in scan.plan().splits if s.partition in chosen]
        with TableWrite(rewritten, commit_user, NothingBefore, rewrites=True) as write:
            for batch in TableRead(store).to_reader(splits):
                rows += batch.num_rows
                write.write_arrow(batch)
            if store.schema.has_primary_key:
                write.compact_all()
            messages = [_as_new(m) for m in as_compaction(store, write.prepare_commit())]
        commit = FileStoreCommit(rewritten, commit_user, new_user=True)
        ids = commit.replace_partitions(messages, chosen, read_at=SnapshotRead.of(snapshot))
    new = [f for m in messages for f in m.data.new_files]
    return RescaleResult(
        snapshot_id=ids[-1] if ids else None,
        bucket_num=target,
        partitions=len({e.partition for e in old}),
        files_before=len(old),
        files_after=len(new),
        bytes_before=sum(e.file.file_size for e in old),
        bytes_after=sum(f.file_size for f in new),
        rows=rows,
    )


def _old_files(store: FileStore, snapshot_id: int, target: int, partitions: PartitionChoice) -> list[ManifestEntry]:
    """Return the files of the chosen partitions that have another bucket count."""
    entries = TableScan(store, partition_filter=partitions, snapshot_id=snapshot_id).entries()
    return [entry for entry in entries if entry.total_buckets != target]


def _as_new(message: CommitMessage) -> CommitMessage:
    """Return the result of a compaction as files that replace all others."""
    return replace(
        message,
        data=replace(message.data, new_files=message.compaction.after),
        compaction=replace(message.compaction, after=()),
    )
