"""Live files of a snapshot, and files that it changed: manifests read with the filters of one scan.

`BucketRestore` is the protocol of the files that exist before a write: `RestoredBuckets` are those of a snapshot, which
writers and compactions continue. `partition_sums` counts the files, rows and bytes of each partition.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, TypeVar

from interbed.storage.base.bucket_id import BucketId, by_bucket
from interbed.storage.base.errors import InvalidInputError
from interbed.storage.base.predicate.expr import AlwaysTrue, Predicate, restrict_to
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.manifest.entry import DataFileMeta, FileKind, ManifestEntry, ManifestFileMeta, merge_entries
from interbed.storage.meta.manifest.index_manifest import IndexFileMeta, IndexManifestEntry
from interbed.storage.meta.snapshot.snapshot import Snapshot
from interbed.storage.scan.manifest_reader import ManifestReader, deletion_files, index_entries, index_files_by_bucket
from interbed.storage.scan.partition_filter import (
    AllPartitions,
    PartitionChoice,
    PartitionFilter,
    PredicatePartitions,
    partition_filter,
)
from interbed.storage.scan.pruning import BucketSelector
from interbed.storage.scan.split import DeletionFile, PlanStatistics
from interbed.storage.scan.starting_point import is_made_since


class LiveFiles:
    """Reader of the entries of snapshots in some partitions, buckets and levels. Not affected by earlier reads.

    `predicate` is bound to the table's columns; its conditions on partitions and bucket keys leave files out. The other
    arguments are those of TableScan. Methods raise CorruptFileError naming the manifest that can't be read.
    """

    def __init__(
        self,
        store: FileStore,
        *,
        predicate: Predicate | None = None,
        partition_filter: PartitionChoice = None,
        buckets: Collection[int] | None = None,
        level_filter: Callable[[int], bool] | None = None,
        postponed: bool = False,
    ) -> None:
        self._store = store
        self._postponed = postponed
        self._selector = BucketSelector(store.schema, predicate)
        self._filters = _partition_filters(store, predicate, partition_filter)
        self._buckets = None if buckets is None else frozenset(buckets)
        self._level_filter = level_filter
        self._reader = ManifestReader(store.file_io, store.paths)

    def entries(
        self, snapshot: Snapshot, *, files_since: int | None = None
    ) -> tuple[list[ManifestEntry], PlanStatistics]:
        """Return the live files in order of addition, and the number of files left by each filter.

        With `files_since` only files created then or later, in milliseconds since the epoch.
        """
        manifests = self._reader.data(snapshot)
        chosen: Sequence[ManifestFileMeta] = manifests
        for partitions in self._filters:
            chosen = partitions.manifests(chosen)
        if self._buckets is not None:
            chosen = [m for m in chosen if _may_hold_bucket(m, self._buckets)]
        entries = list(self._reader.entries(chosen))
        found_partitions = selected = frozenset(e.partition for e in entries)
        for partitions in self._filters:
            selected = partitions.select(selected)
        if selected == found_partitions and self._buckets is None:
            unselected: Sequence[ManifestEntry] = ()
            live = merge_entries(entries)
        else:
            # Manifests that were left out may have added the files of other partitions and buckets that these delete,
            # so only the selected entries are merged strictly.
            other = [e for e in entries if not self._is_selected(e, selected)]
            live = merge_entries([e for e in entries if self._is_selected(e, selected)])
            unselected = [e for e in merge_entries(other, keep_deletes=True) if e.kind is FileKind.ADD]
        # An entry deletes a file that another entry added, in whatever manifests the two are.
        total = sum(m.num_added_files - m.num_deleted_files for m in manifests)
        after_partitions = len(live) + sum(e.partition in selected for e in unselected)
        if self._selector.is_free and self._buckets is None:
            live = [e for e in live if e.bucket >= 0]
        else:
            live = [e for e in live if self._is_bucket_selected(e)]
        statistics = PlanStatistics(
            manifests_total=len(manifests),
            manifests_read=len(chosen),
            files_total=total,
            files_after_partitions=after_partitions,
            files_after_buckets=len(live),
        )
        if self._level_filter is not None:
            live = [e for e in live if self._level_filter(e.file.level)]
        if files_since is not None:
            live = [e for e in live if is_made_since(e.file, files_since)]
        return live, statistics

    def changes_of(self, snapshot: Snapshot, *, changelog: bool) -> list[ManifestEntry]:
        """Return the entries that the snapshot added to its data or changelog files in the selected buckets."""
        manifests: Sequence[ManifestFileMeta]
        manifests = self._reader.changelog(snapshot) if changelog else self._reader.delta(snapshot)
        for partitions in self._filters:
            manifests = partitions.manifests(manifests)
        entries = list(self._reader.entries(manifests))
        selected = frozenset(e.partition for e in entries)
        for partitions in self._filters:
            selected = partitions.select(selected)
        return [e for e in entries if self._is_selected(e, selected) and self._is_bucket_selected(e)]

    def deletions_of(self, snapshot: Snapshot) -> Mapping[BucketId, Mapping[str, DeletionFile]]:
        """Return the deletion vectors of the snapshot, by bucket and name of the data file."""
        return deletion_files(self._store, self.index_entries(snapshot))

    def index_entries(self, snapshot: Snapshot) -> list[IndexManifestEntry]:
        """Return the entries of the snapshot's index manifest."""
        return index_entries(self._reader, snapshot)

    def _is_selected(self, entry: ManifestEntry, partitions: Collection[bytes]) -> bool:
        """Return whether the entry is of a partition and a bucket all of whose manifests are read."""
        return entry.partition in partitions and (self._buckets is None or entry.bucket in self._buckets)

    def _is_bucket_selected(self, entry: ManifestEntry) -> bool:
        # Postponed rows are invisible until a compaction moves them to real buckets; it asks for them by bucket number.
        if entry.bucket < 0:
            return self._postponed or (self._buckets is not None and entry.bucket in self._buckets)
        possible = self._selector.buckets(entry.total_buckets)
        return possible is None or entry.bucket in possible


def restricted(predicate: Predicate | None, columns: Sequence[str]) -> Predicate | None:
    """Return the predicate's conditions on these columns alone; None without any."""
    if predicate is None or not columns:
        return None
    found = restrict_to(predicate, columns)
    return None if isinstance(found, AlwaysTrue) else found


def check_not_replaced(store: FileStore, snapshot: Snapshot) -> None:
    """Raise InvalidInputError for a snapshot of a later table that replaced this one."""
    if store.schemas.is_replaced(store.schema, snapshot.schema_id):
        raise InvalidInputError(
            f"The table at {store.location} was replaced by snapshot {snapshot.id} or before: get it from "
            f"its catalog again, or read snapshot {snapshot.id - 1}."
        )


def _partition_filters(store: FileStore, predicate: Predicate | None, given: PartitionChoice) -> list[PartitionFilter]:
    schema = store.schema
    filters: list[PartitionFilter] = []
    own = restricted(predicate, schema.partition_keys)
    if own is not None:
        filters.append(PredicatePartitions(own, schema.partition_fields))
    if given is not None:
        default_name = store.options.partition_default_name
        filters.append(partition_filter(given, schema.partition_fields, default_name=default_name))
    return filters or [AllPartitions()]


def _may_hold_bucket(manifest: ManifestFileMeta, buckets: Collection[int]) -> bool:
    low, high = manifest.min_bucket, manifest.max_bucket
    return low is None or high is None or any(low <= b <= high for b in buckets)


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


class RestoredBuckets:
    """Live files of a snapshot (None: of an empty table) by partition, a serialised BinaryRow, and bucket."""

    def __init__(
        self,
        snapshot_id: int | None,
        entries: Sequence[ManifestEntry],
        indexes: Sequence[IndexManifestEntry] = (),
    ) -> None:
        self.snapshot_id = snapshot_id
        self._entries = entries
        self._indexes = index_files_by_bucket(indexes)

    def schema_ids(self) -> set[int]:
        """Return the ids of the schemas with which the files were written."""
        return {entry.file.schema_id for entry in self._entries}

    def without(self, partitions: Collection[bytes]) -> "RestoredBuckets":
        """Return the same files without those of some partitions."""
        kept = RestoredBuckets(self.snapshot_id, [e for e in self._entries if e.partition not in partitions])
        kept._indexes = {
            bucket_id: files for bucket_id, files in self._indexes.items() if bucket_id.partition not in partitions
        }
        return kept

    def max_sequence_number(self, bucket_id: BucketId) -> int:
        """Return the highest sequence number in the bucket, -1 when it is empty."""
        return max((f.max_sequence_number for f in self.files(bucket_id)), default=-1)

    def total_buckets(self, partition: bytes) -> int | None:
        """Return the bucket count of the partition's files, None without files."""
        return self._totals.get(partition)

    def numbers_of_buckets(self) -> set[int]:
        """Return the bucket counts of partitions, without partitions whose rows are all postponed."""
        return {e.total_buckets for e in self._entries if e.bucket >= 0}

    def files(self, bucket_id: BucketId) -> list[DataFileMeta]:
        """Return the files of the bucket, in order of addition."""
        return self._buckets.get(bucket_id, [])

    def index_files(self, bucket_id: BucketId) -> list[IndexFileMeta]:
        """Return the index files of the bucket."""
        return self._indexes.get(bucket_id, [])

    def buckets(self) -> list[BucketId]:
        """Return all buckets that have files."""
        return list(self._buckets)

    def buckets_of(self, partition: bytes) -> list[int]:
        """Return the buckets of a partition that have data files or index files, ascending."""
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
        # Commits keep the bucket counts within a partition equal, so any file will do.
        return {e.partition: e.total_buckets for e in self._entries}


def restore_buckets(
    store: FileStore, *, partition_filter: PartitionChoice = None, buckets: Collection[int] | None = None
) -> RestoredBuckets:
    """Return the files of the newest snapshot in some partitions and buckets, or in all. Scan options are ignored.

    Buckets are numbers; postponed rows are included if their bucket's number is. Raises InvalidInputError for a
    partition column that the table does not have and for a table that was replaced, CorruptFileError naming the file.
    """
    live = LiveFiles(store, partition_filter=partition_filter, buckets=buckets)
    snapshot = store.snapshots.latest()
    if snapshot is None:
        return RestoredBuckets(None, ())
    check_not_replaced(store, snapshot)
    return RestoredBuckets(snapshot.id, live.entries(snapshot)[0], live.index_entries(snapshot))


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


K = TypeVar("K", bound=Hashable)


@dataclass(slots=True)
class FileSum:
    """Sum over files. `created_millis` is the newest file's wall-clock time, `buckets` the partition's bucket count."""

    records: int = 0
    bytes: int = 0
    files: int = 0
    created_millis: int = 0
    buckets: int = 0


def sum_files(entries: Iterable[ManifestEntry], key: Callable[[ManifestEntry], K]) -> dict[K, FileSum]:
    """Return the sums over the files of each key."""
    sums: dict[K, FileSum] = {}
    for entry in entries:
        found = sums.setdefault(key(entry), FileSum())
        found.records += entry.file.row_count
        found.bytes += entry.file.file_size
        found.files += 1
        found.created_millis = max(found.created_millis, entry.file.creation_time_millis)
        found.buckets = entry.total_buckets
    return sums


def partition_sums(store: FileStore, snapshot: Snapshot) -> dict[bytes, FileSum]:
    """Return the sums over the files of a snapshot by partition; without partition columns there is one partition."""
    reader = ManifestReader(store.file_io, store.paths)
    return sum_files(merge_entries(reader.entries(reader.data(snapshot))), lambda entry: entry.partition)
