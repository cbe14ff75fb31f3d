"""What writers and compactions must know of the files that exist in the buckets that they write."""

from collections.abc import Collection, Sequence
from functools import cached_property

from interbed.storage.base.bucket_id import BucketId, by_bucket
from interbed.storage.meta.manifest.data_file import DataFileMeta
from interbed.storage.meta.manifest.entry import ManifestEntry
from interbed.storage.meta.manifest.index_file import IndexFileMeta
from interbed.storage.meta.manifest.index_manifest import IndexManifestEntry
from interbed.storage.meta.store import TableStore
from interbed.storage.scan.index_reader import index_files_by_bucket
from interbed.storage.scan.live_files import LiveFiles, check_not_replaced
from interbed.storage.scan.partition_filter import PartitionChoice


class RestoredBuckets:
    """The live files of a snapshot (None: of an empty table) by partition, a serialised BinaryRow, and bucket."""

    def __init__(
        self,
        snapshot_id: int | None,
        entries: Sequence[ManifestEntry],
        indexes: Sequence[IndexManifestEntry] = (),
    ) -> None:
        self.snapshot_id = snapshot_id
        self._entries = entries
        self._indexes = index_files_by_bucket(indexes)

    def without(self, partitions: Collection[bytes]) -> "RestoredBuckets":
        """The same, but for some partitions."""
        kept = RestoredBuckets(self.snapshot_id, [e for e in self._entries if e.partition not in partitions])
        kept._indexes = {
            bucket_id: files for bucket_id, files in self._indexes.items() if bucket_id.partition not in partitions
        }
        return kept

    def max_sequence_number(self, bucket_id: BucketId) -> int:
        """The highest sequence number in the bucket, -1 when it is empty."""
        return max((f.max_sequence_number for f in self.files(bucket_id)), default=-1)

    def total_buckets(self, partition: bytes) -> int | None:
        """The number of buckets with which the partition's files were written, None when it has none."""
        return self._totals.get(partition)

    def numbers_of_buckets(self) -> set[int]:
        """The numbers of buckets that partitions have, without those whose rows all wait for buckets."""
        return {e.total_buckets for e in self._entries if e.bucket >= 0}

    def files(self, bucket_id: BucketId) -> list[DataFileMeta]:
        """The files of the bucket, in order of addition."""
        return self._buckets.get(bucket_id, [])

    def index_files(self, bucket_id: BucketId) -> list[IndexFileMeta]:
        """The index files of the bucket."""
        return self._indexes.get(bucket_id, [])

    def buckets(self) -> list[BucketId]:
        """All buckets that have files."""
        return list(self._buckets)

    def buckets_of(self, partition: bytes) -> list[int]:
        """The buckets of a partition that have data files or index files, ascending."""
        return self._numbers.get(partition, [])

    @cached_property
    def _buckets(self) -> dict[BucketId, list[DataFileMeta]]:
        return {bucket_id: [e.file for e in entries] for bucket_id, entries in by_bucket(self._entries).items()}

    @cached_property
    def _numbers(self) -> dict[bytes, list[int]]:
        numbers: dict[bytes, list[int]] = {}
        for bucket_id in sorted({*self._buckets, *self._indexes}):
            numbers.setdefault(bucket_id.partition, []).append(bucket_id.bucket)
        return numbers

    @cached_property
    def _totals(self) -> dict[bytes, int]:
        # The last file decides; files of one partition agree, for commits see to it.
        return {e.partition: e.total_buckets for e in self._entries}


def restore_buckets(
    store: TableStore, *, partition_filter: PartitionChoice = None, buckets: Collection[int] | None = None
) -> RestoredBuckets:
    """What exists in the newest snapshot, whatever the scan options say: in some partitions and buckets, or in all.

    Buckets are numbers; rows that wait for a bucket are there if theirs is among them. Raises InvalidInputError for a
    partition column that the table does not have and for a table that was replaced, CorruptFileError naming the file.
    """
    live = LiveFiles(store, partition_filter=partition_filter, buckets=buckets)
    snapshot = store.snapshots.latest()
    if snapshot is None:
        return RestoredBuckets(None, ())
    check_not_replaced(store, snapshot)
    return RestoredBuckets(snapshot.id, live.entries(snapshot)[0], live.index_entries(snapshot))
