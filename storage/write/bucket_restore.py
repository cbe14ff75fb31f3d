"""The files that exist before a write; `scan.live_files.RestoredBuckets` reads them from a snapshot."""

from collections.abc import Callable, Sequence
from typing import Protocol

from interbed.storage.base.bucket_id import BucketId
from interbed.storage.meta.manifest.entry import DataFileMeta
from interbed.storage.meta.manifest.index_manifest import IndexFileMeta


class BucketRestore(Protocol):
    """The files of a snapshot that a writer continues."""

    @property
    def snapshot_id(self) -> int | None:
        """The id of the snapshot, None when there is none."""
        ...

    def max_sequence_number(self, bucket_id: BucketId) -> int:
        """Return the highest sequence number in the bucket, -1 when it is empty."""
        ...

    def total_buckets(self, partition: bytes) -> int | None:
        """Return the number of buckets with which the files of the partition were written, None when it has no
        files.
        """
        ...

    def files(self, bucket_id: BucketId) -> Sequence[DataFileMeta]:
        """Return the data files of the bucket."""
        ...

    def index_files(self, bucket_id: BucketId) -> Sequence[IndexFileMeta]:
        """Return the index files of the bucket."""
        ...

    def buckets(self) -> Sequence[BucketId]:
        """Return all buckets that have files."""
        ...

    def buckets_of(self, partition: bytes) -> Sequence[int]:
        """Return the buckets of a partition that have data files or index files, ascending."""
        ...


class NothingBefore:
    """The restore of an overwrite: existing files are ignored, with their sequence numbers and their number of
    buckets.
    """

    snapshot_id: int | None = None

    def max_sequence_number(self, bucket_id: BucketId) -> int:
        return -1

    def total_buckets(self, partition: bytes) -> int | None:
        return None

    def files(self, bucket_id: BucketId) -> Sequence[DataFileMeta]:
        return ()

    def index_files(self, bucket_id: BucketId) -> Sequence[IndexFileMeta]:
        return ()

    def buckets(self) -> Sequence[BucketId]:
        return ()

    def buckets_of(self, partition: bytes) -> Sequence[int]:
        return ()


class LatestBuckets:
    """Cache of the files of the newest snapshot for one writer: read at the first use, and again after `forget`."""

    def __init__(self, ask: Callable[[], BucketRestore]) -> None:
        self._ask = ask
        self._known: BucketRestore | None = None
        self.snapshot_id: int | None = None
        """The snapshot that was read last, also after `forget`; None before the first read, or when there was none."""

    def get(self) -> BucketRestore:
        """Return the files of the newest snapshot."""
        if self._known is None:
            self._known = self._ask()
            self.snapshot_id = self._known.snapshot_id
        return self._known

    def forget(self) -> None:
        """Read the newest snapshot again at the next use, to see the commits of other writers."""
        self._known = None
