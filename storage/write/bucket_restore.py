"""What a writer asks about the files that exist; `scan.live_files.RestoredBuckets` answers from a snapshot."""

from collections.abc import Callable, Sequence
from typing import Protocol

from interbed.storage.base.bucket_id import BucketId
from interbed.storage.meta.manifest.entry import DataFileMeta
from interbed.storage.meta.manifest.index_manifest import IndexFileMeta


class BucketRestore(Protocol):
    """What a writer must know of the files that exist."""

    @property
    def snapshot_id(self) -> int | None:
        """The snapshot that is described, None when there is none."""
        ...

    def max_sequence_number(self, bucket_id: BucketId) -> int:
        """The highest sequence number in the bucket, -1 when it is empty."""
        ...

    def total_buckets(self, partition: bytes) -> int | None:
        """The number of buckets with which the partition's files were written, None when it has none."""
        ...

    def files(self, bucket_id: BucketId) -> Sequence[DataFileMeta]:
        """The data files of the bucket."""
        ...

    def index_files(self, bucket_id: BucketId) -> Sequence[IndexFileMeta]:
        """The index files of the bucket."""
        ...

    def buckets(self) -> Sequence[BucketId]:
        """All buckets that have files."""
        ...

    def buckets_of(self, partition: bytes) -> Sequence[int]:
        """The buckets of a partition that have data files or index files, ascending."""
        ...


class NothingBefore:
    """The restore of an overwrite: what is there goes, with its sequence numbers and its number of buckets."""

    snapshot_id: int | None = None

    def max_sequence_number(self, bucket_id: BucketId) -> int:
        """See BucketRestore."""
        return -1

    def total_buckets(self, partition: bytes) -> int | None:
        """See BucketRestore."""
        return None

    def files(self, bucket_id: BucketId) -> Sequence[DataFileMeta]:
        """See BucketRestore."""
        return ()

    def index_files(self, bucket_id: BucketId) -> Sequence[IndexFileMeta]:
        """See BucketRestore."""
        return ()

    def buckets(self) -> Sequence[BucketId]:
        """See BucketRestore."""
        return ()

    def buckets_of(self, partition: bytes) -> Sequence[int]:
        """See BucketRestore."""
        return ()


class LatestBuckets:
    """What one writer knows of the newest snapshot: asked for when it is needed first, and again after `forget`."""

    def __init__(self, ask: Callable[[], BucketRestore]) -> None:
        self._ask = ask
        self._known: BucketRestore | None = None
        self.snapshot_id: int | None = None
        """The snapshot that was seen last, also after `forget`; None before the first, or when there was none."""

    def get(self) -> BucketRestore:
        """What exists."""
        if self._known is None:
            self._known = self._ask()
            self.snapshot_id = self._known.snapshot_id
        return self._known

    def forget(self) -> None:
        """See at the next need what other writers have done."""
        self._known = None
