"""How the rows of one writer find their buckets: one strategy for each bucket mode, chosen once.

A strategy says what the mode means for a writer: where rows go, how the files look that they are flushed to, from which
sequence number a bucket goes on, and what beside the files belongs into commit messages.
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
from interbed.storage.scan.live_files import restore_buckets
from interbed.storage.write.bucket.choose import BucketsByPartition, FixedBuckets, OneBucket
from interbed.storage.write.bucket.cross_partition import CrossPartition
from interbed.storage.write.bucket.dynamic import DynamicBuckets
from interbed.storage.write.bucket_restore import LatestBuckets
from interbed.storage.write.commit_message import CommitMessage, WriteBasis
from interbed.storage.write.flush_rows import FlushedFiles
from interbed.storage.write.route import BLOCK_ROWS, RoutedRows, Router


class PreparedBuckets(Protocol):
    """What the choice of buckets adds to the messages of one commit."""

    def added_to(self, message: CommitMessage) -> CommitMessage:
        """The message of a bucket that was written."""
        ...

    def others(self, written: Collection[BucketId]) -> list[CommitMessage]:
        """Messages of buckets that were not written."""
        ...


class BucketStrategy(Protocol):
    """What a bucket mode means for one writer; not for use by several threads."""

    @property
    def files(self) -> FlushedFiles:
        """How new data files look."""
        ...

    @property
    def compacts(self) -> bool:
        """Whether buckets are compacted while they are written, where the table is not `write-only`."""
        ...

    def route(self, batch: pa.RecordBatch, kinds: "Kinds | None") -> Iterator[RoutedRows]:
        """The rows that are to be written, by bucket."""
        ...

    def first_sequence(self, bucket_id: BucketId, following: int) -> int:
        """The sequence number of the next row of a bucket; `following` is the one after those that this writer gave.

        Raises InvalidInputError for a bucket that can't be written.
        """
        ...

    def prepare(self) -> PreparedBuckets:
        """Write what has to be committed beside data files; on an error nothing of it is left."""
        ...

    def close(self) -> None:
        """Give memory and local disk back; never raises."""
        ...


@dataclass(frozen=True, slots=True)
class NothingAdded:
    """A choice of buckets that rests on nothing but the rows."""

    def added_to(self, message: CommitMessage) -> CommitMessage:
        """The message itself."""
        return message

    def others(self, written: Collection[BucketId]) -> list[CommitMessage]:
        """None."""
        return []


@dataclass(frozen=True, slots=True)
class BucketsAsOf(NothingAdded):
    """The snapshot whose numbers of buckets the writer went by."""

    snapshot_id: int | None

    def added_to(self, message: CommitMessage) -> CommitMessage:
        """The message with the snapshot as its basis."""
        return replace(message, basis=WriteBasis(buckets_as_of=self.snapshot_id))


@dataclass(frozen=True, slots=True)
class KeysAsOf(NothingAdded):
    """The snapshot in which keys were looked for; None where no row came."""

    snapshot_id: int | None

    def added_to(self, message: CommitMessage) -> CommitMessage:
        """The message with the snapshot as its basis, if it has new rows."""
        if self.snapshot_id is None or not message.data.new_files:
            return message
        return replace(message, basis=WriteBasis(keys_as_of=self.snapshot_id))


class NoBuckets:
    """An append table without buckets: its files are independent of each other, and so are their sequence numbers."""

    compacts = False

    def __init__(self, store: FileStore) -> None:
        self.files = FlushedFiles.of(store)
        self._router = Router(store.schema, store.options, OneBucket(0))

    def route(self, batch: pa.RecordBatch, kinds: "Kinds | None") -> Iterator[RoutedRows]:
        """See BucketStrategy."""
        return self._router.route(batch, kinds)

    def first_sequence(self, bucket_id: BucketId, following: int) -> int:
        """Always 0."""
        return 0

    def prepare(self) -> PreparedBuckets:
        """Nothing."""
        return NothingAdded()

    def close(self) -> None:
        """Nothing is held."""


class PostponedBuckets(NoBuckets):
    """Rows wait in a bucket of their own, in the order in which they came; files are as independent as without any."""

    def __init__(self, store: FileStore, commit_user: str) -> None:
        self.files = FlushedFiles.postponed(store, commit_user)
        self._router = Router(store.schema, store.options, OneBucket(POSTPONE_BUCKET), in_order=True)


class _RealBuckets:
    """What modes have in common whose buckets go on from where the table's newest snapshot ends."""

    def __init__(self, store: FileStore, latest: LatestBuckets) -> None:
        self.files = FlushedFiles.of(store)
        self.compacts = store.schema.has_primary_key
        self._store = store
        self._latest = latest

    def first_sequence(self, bucket_id: BucketId, following: int) -> int:
        """One more than the highest in the bucket."""
        return max(self._latest.get().max_sequence_number(bucket_id) + 1, following)

    def close(self) -> None:
        """Nothing is held."""


class FixedBucketStrategy(_RealBuckets):
    """A hash of the bucket key picks one of as many buckets as the option says."""

    def __init__(self, store: FileStore, latest: LatestBuckets) -> None:
        super().__init__(store, latest)
        self._router = Router(store.schema, store.options, FixedBuckets(store.schema, store.options))

    def route(self, batch: pa.RecordBatch, kinds: "Kinds | None") -> Iterator[RoutedRows]:
        """See BucketStrategy."""
        return self._router.route(batch, kinds)

    def first_sequence(self, bucket_id: BucketId, following: int) -> int:
        """See BucketStrategy; raises InvalidInputError when the partition has another number of buckets."""
        store = self._store
        configured, existing = store.options.bucket, self._latest.get().total_buckets(bucket_id.partition)
        if existing is not None and existing != configured:
            where = store.paths.partition_directory(bucket_id.partition) or "the table"
            raise InvalidInputError(
                f"Option 'bucket' is {configured}, but the files of {where} at {store.location} are spread over "
                f"{existing} buckets. Rescale them first (table.maintenance.rescale, or INSERT OVERWRITE the "
                "partition), or set 'bucket' back."
            )
        return super().first_sequence(bucket_id, following)

    def prepare(self) -> PreparedBuckets:
        """The snapshot whose numbers of buckets were checked."""
        return BucketsAsOf(self._latest.snapshot_id)


@dataclass(frozen=True, slots=True)
class PartitionNumbersAsOf(NothingAdded):
    """The snapshot by whose numbers of buckets the writer went, and the number of each partition."""

    snapshot_id: int | None
    number: Callable[[bytes], int]

    def added_to(self, message: CommitMessage) -> CommitMessage:
        """The message with its partition's number of buckets, and the snapshot as its basis."""
        number = self.number(message.bucket_id.partition)
        return replace(message, total_buckets=number, basis=WriteBasis(buckets_as_of=self.snapshot_id))


class TakenUpAtOnce(_RealBuckets):
    """Rows of a table with postponed buckets that need not wait: a partition has as many buckets as it was first given.

    New partitions get `postpone.default-bucket-num`. Raises InvalidOptionError if that is less than 1.
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
        """See BucketStrategy."""
        return self._router.route(batch, kinds)

    def prepare(self) -> PreparedBuckets:
        """The numbers of buckets that were taken."""
        return PartitionNumbersAsOf(self._latest.snapshot_id, self._number)

    def _number(self, partition: bytes) -> int:
        return self._latest.get().total_buckets(partition) or self._default


class DynamicBucketStrategy(_RealBuckets):
    """A key stays where the partition's hash indexes say."""

    def __init__(self, store: FileStore, latest: LatestBuckets) -> None:
        super().__init__(store, latest)
        self._dynamic = DynamicBuckets(store, latest.get)
        self._router = Router(store.schema, store.options, self._dynamic)

    def route(self, batch: pa.RecordBatch, kinds: "Kinds | None") -> Iterator[RoutedRows]:
        """See BucketStrategy."""
        return self._router.route(batch, kinds)

    def prepare(self) -> PreparedBuckets:
        """The hash indexes of buckets with new keys."""
        return self._dynamic.prepare()


class CrossPartitionStrategy(_RealBuckets):
    """A key may move between partitions; `keys` knows where each is."""

    def __init__(self, store: FileStore, latest: LatestBuckets, keys: CrossPartition) -> None:
        super().__init__(store, latest)
        self._keys = keys
        # The rows come with their buckets; this one is never asked.
        self._router = Router(store.schema, store.options, OneBucket(0))

    def route(self, batch: pa.RecordBatch, kinds: "Kinds | None") -> Iterator[RoutedRows]:
        """See BucketStrategy; rows may be others than those that came."""
        for offset in range(0, batch.num_rows, BLOCK_ROWS):
            part = None if kinds is None else kinds.slice(offset, BLOCK_ROWS)
            yield from self._router.route(*self._keys.place(batch.slice(offset, BLOCK_ROWS), part))

    def prepare(self) -> PreparedBuckets:
        """The snapshot in which keys were looked for; before the next rows it is looked whether others moved some."""
        self._keys.begin_next()
        return KeysAsOf(self._keys.as_of)

    def close(self) -> None:
        """Forget where keys are."""
        self._keys.close()


MakeStrategy = Callable[[FileStore, str, LatestBuckets], BucketStrategy]


def strategy_of(store: FileStore, commit_user: str, latest: LatestBuckets) -> BucketStrategy:
    """The strategy of the table's bucket mode."""
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
    """The strategy of a batch: rows of a table with postponed buckets go to real ones, as Paimon's engines write them.

    They wait behind those that wait already: what is taken up later counts as newer.
    """
    postponed = bucket_mode(store.schema, store.options) is BucketMode.POSTPONED
    if not postponed or not store.options.postpone_batch_write_fixed_bucket or _has_waiting_rows(store):
        return strategy_of(store, commit_user, latest)
    return TakenUpAtOnce(store, latest)


def bucket_unit(store: FileStore) -> int:
    """What divides the numbers of buckets that a batch gives to partitions of a table with postponed buckets.

    0 for other tables, and where batches wait. Raises InvalidOptionError.
    """
    postponed = bucket_mode(store.schema, store.options) is BucketMode.POSTPONED
    if not postponed or not store.options.postpone_batch_write_fixed_bucket:
        return 0
    known = restore_buckets(store).numbers_of_buckets()
    return math.gcd(max(store.options.postpone_default_bucket_num, 1), *known)


def _has_waiting_rows(store: FileStore) -> bool:
    return bool(restore_buckets(store, buckets=[POSTPONE_BUCKET]).buckets())
