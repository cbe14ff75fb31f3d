"""Strategies by which the rows of one writer find their buckets, one for each bucket mode.

A strategy routes rows, defines the layout of flushed files and the first sequence number of a bucket, and adds to
commit messages what has to be committed beside data files.
"""

import math
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from typing import Protocol

import pyarrow as pa

from interbed.storage.base.bucket_id import BucketId
from interbed.storage.base.errors import InvalidInputError, InvalidOptionError
from interbed.storage.lsm.write_buffer import Kinds
from interbed.storage.meta.bucket_mode import BucketMode, bucket_mode
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.paths import POSTPONE_BUCKET
from interbed.storage.scan.live_files import LatestBuckets, restore_buckets
from interbed.storage.write.bucket.cross_partition import CrossPartition
from interbed.storage.write.bucket.dynamic import DynamicBuckets
from interbed.storage.write.bucket.route import (
    BLOCK_ROWS,
    BucketsByPartition,
    FixedBuckets,
    OneBucket,
    RoutedRows,
    Router,
)
from interbed.storage.write.bucket_writer import FlushedFiles
from interbed.storage.write.commit_message import CommitMessage, WriteBasis


class PreparedBuckets(Protocol):
    """The additions of a bucket strategy to the messages of one commit."""

    def added_to(self, message: CommitMessage) -> CommitMessage:
        """Return the message of a bucket with new rows, completed."""
        ...

    def others(self, written: Collection[BucketId]) -> list[CommitMessage]:
        """Return messages of buckets without new rows."""
        ...


class BucketStrategy(Protocol):
    """The behaviour of a bucket mode for one writer; not for use by several threads."""

    @property
    def files(self) -> FlushedFiles:
        """The layout of new data files."""
        ...

    @property
    def compacts(self) -> bool:
        """Whether buckets are compacted while they are written, if the table is not `write-only`."""
        ...

    def route(self, batch: pa.RecordBatch, kinds: "Kinds | None") -> Iterator[RoutedRows]:
        """Yield the rows that are to be written, by bucket."""
        ...

    def first_sequence(self, bucket_id: BucketId, following: int) -> int:
        """Return the sequence number of the next row of a bucket; `following` is the next one after those that this
        writer assigned.

        Raises InvalidInputError for a bucket that can't be written.
        """
        ...

    def prepare(self) -> PreparedBuckets:
        """Write what has to be committed beside data files; on an error all of it is deleted."""
        ...

    def close(self) -> None:
        """Release memory and local disk; never raise."""
        ...


@dataclass(frozen=True, slots=True)
class NothingAdded:
    """Additions of a choice of buckets that depends only on the rows."""

    def added_to(self, message: CommitMessage) -> CommitMessage:
        return message

    def others(self, written: Collection[BucketId]) -> list[CommitMessage]:
        return []


@dataclass(frozen=True, slots=True)
class BucketsAsOf(NothingAdded):
    """The snapshot whose number of buckets the writer used."""

    snapshot_id: int | None

    def added_to(self, message: CommitMessage) -> CommitMessage:
        """Return the message with the snapshot as its basis."""
        return replace(message, basis=WriteBasis(buckets_as_of=self.snapshot_id))


@dataclass(frozen=True, slots=True)
class KeysAsOf(NothingAdded):
    """The snapshot from which the locations of keys were read; None if there were no rows."""

    snapshot_id: int | None
    identity: str | None

    def added_to(self, message: CommitMessage) -> CommitMessage:
        """Return the message with the snapshot as its basis, if it has new rows."""
        if self.snapshot_id is None or not message.data.new_files:
            return message
        return replace(message, basis=WriteBasis(keys_as_of=self.snapshot_id, keys_identity=self.identity))


class NoBuckets:
    """Strategy of an append table without buckets: its files are independent of each other, and so are their sequence
    numbers.
    """

    compacts = False

    def __init__(self, store: FileStore) -> None:
        self.files = FlushedFiles.of(store)
        self._router = Router(store.schema, store.options, OneBucket(0))

    def route(self, batch: pa.RecordBatch, kinds: "Kinds | None") -> Iterator[RoutedRows]:
        return self._router.route(batch, kinds)

    def first_sequence(self, bucket_id: BucketId, following: int) -> int:
        return 0

    def prepare(self) -> PreparedBuckets:
        return NothingAdded()

    def close(self) -> None:
        """Do nothing; no resources are held."""


class PostponedBuckets(NoBuckets):
    """Strategy of postponed buckets: rows wait in a bucket of their own, in order of arrival.

    Files are independent of each other.
    """

    def __init__(self, store: FileStore, commit_user: str) -> None:
        self.files = FlushedFiles.postponed(store, commit_user)
        self._router = Router(store.schema, store.options, OneBucket(POSTPONE_BUCKET), in_order=True)


class _RealBuckets:
    """Base of the strategies whose buckets continue those of the newest snapshot."""

    def __init__(self, store: FileStore, latest: LatestBuckets) -> None:
        self.files = FlushedFiles.of(store)
        self.compacts = store.schema.has_primary_key
        self._store = store
        self._latest = latest

    def first_sequence(self, bucket_id: BucketId, following: int) -> int:
        """Return the highest sequence number in the bucket plus one."""
        return max(self._latest.get().max_sequence_number(bucket_id) + 1, following)

    def close(self) -> None:
        """Do nothing; no resources are held."""


class FixedBucketStrategy(_RealBuckets):
    """Strategy of fixed buckets: a hash of the bucket key selects one of the buckets of the option `bucket`."""

    def __init__(self, store: FileStore, latest: LatestBuckets) -> None:
        super().__init__(store, latest)
        self._router = Router(store.schema, store.options, FixedBuckets(store.schema, store.options))

    def route(self, batch: pa.RecordBatch, kinds: "Kinds | None") -> Iterator[RoutedRows]:
        return self._router.route(batch, kinds)

    def first_sequence(self, bucket_id: BucketId, following: int) -> int:
        """Return the next sequence number; raise InvalidInputError when the partition has another number of buckets."""
        store = self._store
        configured, existing = store.options.bucket, self._latest.get().total_buckets(bucket_id.partition)
        if existing is not None and existing != configured:
            where = store.paths.partition_directory(bucket_id.partition) or "the table"
            raise InvalidInputError(
                f"Option 'bucket' is {configured}, but the files of {where} at {store.location} are spread over "
                f"{existing} buckets. Rescale them first (table.maintenance.rescale, or INSERT OVERWRITE the "
                "partition), write again when the rescaling of another process has ended, or set 'bucket' back."
            )
        return super().first_sequence(bucket_id, following)

    def prepare(self) -> PreparedBuckets:
        """Return the snapshot whose number of buckets was checked."""
        return BucketsAsOf(self._latest.snapshot_id)


@dataclass(frozen=True, slots=True)
class PartitionNumbersAsOf(NothingAdded):
    """The snapshot whose numbers of buckets the writer used, and the number of each partition."""

    snapshot_id: int | None
    number: Callable[[bytes], int]

    def added_to(self, message: CommitMessage) -> CommitMessage:
        """Return the message with the number of buckets of its partition, and the snapshot as its basis."""
        number = self.number(message.bucket_id.partition)
        return replace(message, total_buckets=number, basis=WriteBasis(buckets_as_of=self.snapshot_id))


class ImmediateBuckets(_RealBuckets):
    """Strategy of postponed buckets for rows that need not wait: a partition keeps its number of buckets.

    New partitions get `postpone.default-bucket-num` buckets. Raises InvalidOptionError if that is less than 1.
    """

    def __init__(self, store: FileStore, latest: LatestBuckets) -> None:
        super().__init__(store, latest)
        self._default = store.options.postpone_default_bucket_num
        if self._default < 1:
            raise InvalidOptionError(
                f"Option 'postpone.default-bucket-num' takes a positive number, not {self._default}."
            )
        self._router = Router(
            store.schema, store.options, BucketsByPartition(store.schema, store.options, self._number)
        )

    def route(self, batch: pa.RecordBatch, kinds: "Kinds | None") -> Iterator[RoutedRows]:
        return self._router.route(batch, kinds)

    def prepare(self) -> PreparedBuckets:
        """Return the numbers of buckets that were used."""
        return PartitionNumbersAsOf(self._latest.snapshot_id, self._number)

    def _number(self, partition: bytes) -> int:
        return self._latest.get().total_buckets(partition) or self._default


class DynamicBucketStrategy(_RealBuckets):
    """Strategy of dynamic buckets: a key stays in the bucket that the hash indexes of the partition name."""

    def __init__(self, store: FileStore, latest: LatestBuckets) -> None:
        super().__init__(store, latest)
        self._dynamic = DynamicBuckets(store, latest.get)
        self._router = Router(store.schema, store.options, self._dynamic)

    def route(self, batch: pa.RecordBatch, kinds: "Kinds | None") -> Iterator[RoutedRows]:
        return self._router.route(batch, kinds)

    def prepare(self) -> PreparedBuckets:
        """Write the hash indexes of buckets with new keys."""
        return self._dynamic.prepare()


class CrossPartitionStrategy(_RealBuckets):
    """Strategy of keys that may move between partitions; `keys` has the location of each key."""

    def __init__(self, store: FileStore, latest: LatestBuckets, keys: CrossPartition) -> None:
        super().__init__(store, latest)
        self._keys = keys
        # The rows have buckets already; this chooser is never called.
        self._router = Router(store.schema, store.options, OneBucket(0))

    def route(self, batch: pa.RecordBatch, kinds: "Kinds | None") -> Iterator[RoutedRows]:
        """Yield the rows by bucket; a moved key adds a row that deletes it in its old partition."""
        for offset in range(0, batch.num_rows, BLOCK_ROWS):
            part = None if kinds is None else kinds.slice(offset, BLOCK_ROWS)
            yield from self._router.route(*self._keys.place(batch.slice(offset, BLOCK_ROWS), part))

    def prepare(self) -> PreparedBuckets:
        """Return the snapshot from which keys were read; the next rows check whether other writers moved keys."""
        self._keys.begin_next()
        return KeysAsOf(self._keys.as_of, self._keys.identity)

    def close(self) -> None:
        """Release the locations of keys."""
        self._keys.close()


MakeStrategy = Callable[[FileStore, str, LatestBuckets], BucketStrategy]


def strategy_of(store: FileStore, commit_user: str, latest: LatestBuckets) -> BucketStrategy:
    """Return the strategy of the table's bucket mode."""
    match bucket_mode(store.schema, store.options):
        case BucketMode.FIXED:
            return FixedBucketStrategy(store, latest)
        case BucketMode.DYNAMIC:
            return DynamicBucketStrategy(store, latest)
        case BucketMode.CROSS_PARTITION:
            return CrossPartitionStrategy(store, latest, CrossPartition(store, commit_user, latest.get))
        case BucketMode.POSTPONED:
            return PostponedBuckets(store, commit_user)
        case BucketMode.NONE:
            return NoBuckets(store)


def batch_strategy_of(store: FileStore, commit_user: str, latest: LatestBuckets) -> BucketStrategy:
    """Return the strategy of a batch: rows of a table with postponed buckets go to real buckets, as with Paimon's
    engines.

    If other rows wait already, the rows of the batch wait behind them, because waiting rows count as newer when they
    are compacted later.
    """
    postponed = bucket_mode(store.schema, store.options) is BucketMode.POSTPONED
    if not postponed or not store.options.postpone_batch_write_fixed_bucket or _has_waiting_rows(store):
        return strategy_of(store, commit_user, latest)
    return ImmediateBuckets(store, latest)


def bucket_unit(store: FileStore) -> int:
    """Return a common divisor of the numbers of buckets that a batch assigns to partitions of a table with postponed
    buckets.

    0 for other tables, and where batches wait. Raises InvalidOptionError.
    """
    postponed = bucket_mode(store.schema, store.options) is BucketMode.POSTPONED
    if not postponed or not store.options.postpone_batch_write_fixed_bucket:
        return 0
    known = restore_buckets(store).numbers_of_buckets()
    return math.gcd(max(store.options.postpone_default_bucket_num, 1), *known)


def _has_waiting_rows(store: FileStore) -> bool:
    return bool(restore_buckets(store, buckets=[POSTPONE_BUCKET]).buckets())
