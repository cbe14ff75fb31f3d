"""What a writer must know of the files that exist in the buckets that it writes."""

from collections.abc import Collection, Sequence
from functools import cached_property

from interbed.storage.meta.manifest.data_file import DataFileMeta
from interbed.storage.meta.manifest.entry import ManifestEntry
from interbed.storage.meta.manifest.index_file import IndexFileMeta
from interbed.storage.meta.manifest.index_manifest import IndexManifestEntry
from interbed.storage.scan.index_reader import by_bucket


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
        self._indexes = by_bucket(indexes)

    def without(self, partitions: Collection[bytes]) -> "RestoredBuckets":
        """The same, but for some partitions."""
        kept = RestoredBuckets(self.snapshot_id, [e for e in self._entries if e.partition not in partitions])
        kept._indexes = {place: files for place, files in self._indexes.items() if place[0] not in partitions}
        return kept

    def max_sequence_number(self, partition: bytes, bucket: int) -> int:
        """The highest sequence number in the bucket, -1 when it is empty."""
        return max((f.max_sequence_number for f in self.files(partition, bucket)), default=-1)

    def total_buckets(self, partition: bytes) -> int | None:
        """The number of buckets with which the partition's files were written, None when it has none."""
        return self._totals.get(partition)

    def files(self, partition: bytes, bucket: int) -> list[DataFileMeta]:
        """The files of the bucket, in order of addition."""
        return self._buckets.get((partition, bucket), [])

    def index_files(self, partition: bytes, bucket: int) -> list[IndexFileMeta]:
        """The index files of the bucket."""
        return self._indexes.get((partition, bucket), [])

    def buckets(self) -> list[tuple[bytes, int]]:
        """All buckets that have files."""
        return list(self._buckets)

    def buckets_of(self, partition: bytes) -> list[int]:
        """The buckets of a partition that have data files or index files, ascending."""
        return self._numbers.get(partition, [])

    @cached_property
    def _buckets(self) -> dict[tuple[bytes, int], list[DataFileMeta]]:
        buckets: dict[tuple[bytes, int], list[DataFileMeta]] = {}
        for e in self._entries:
            buckets.setdefault((e.partition, e.bucket), []).append(e.file)
        return buckets

    @cached_property
    def _numbers(self) -> dict[bytes, list[int]]:
        numbers: dict[bytes, list[int]] = {}
        for partition, bucket in sorted({*self._buckets, *self._indexes}):
            numbers.setdefault(partition, []).append(bucket)
        return numbers

    @cached_property
    def _totals(self) -> dict[bytes, int]:
        # The last file decides; files of one partition agree, for commits see to it.
        return {e.partition: e.total_buckets for e in self._entries}
