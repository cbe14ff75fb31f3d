"""The live files of a snapshot, and the files that it changed: manifests read with the filters of one scan."""

from collections.abc import Callable, Collection, Mapping, Sequence

from interbed.storage.base.bucket_id import BucketId
from interbed.storage.base.errors import InvalidInputError
from interbed.storage.base.predicate.expr import AlwaysTrue, Predicate, restrict_to
from interbed.storage.meta.manifest.entry import FileKind, ManifestEntry, ManifestFileMeta, merge_entries
from interbed.storage.meta.manifest.index_manifest import IndexManifestEntry
from interbed.storage.meta.snapshot.snapshot import Snapshot
from interbed.storage.meta.store import TableStore
from interbed.storage.scan.index_reader import deletion_files, index_entries
from interbed.storage.scan.manifest_reader import ManifestReader
from interbed.storage.scan.partition_filter import (
    AllPartitions,
    PartitionChoice,
    PartitionFilter,
    PredicatePartitions,
    partition_filter,
)
from interbed.storage.scan.plan import PlanStatistics
from interbed.storage.scan.pruning import BucketSelector
from interbed.storage.scan.split import DeletionFile
from interbed.storage.scan.starting_point import is_made_since


class LiveFiles:
    """Reads the entries of snapshots that are in some partitions, buckets and levels; the same for the same snapshot.

    `predicate` is bound to the table's columns; what it says of partitions and bucket keys leaves files out. The other
    arguments are those of TableScan. Methods raise CorruptFileError naming the manifest that can't be read.
    """

    def __init__(
        self,
        store: TableStore,
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
        """The live files in order of addition, and what each filter has left of them.

        With `files_since` only those made then or later, in milliseconds since the epoch.
        """
        manifests = self._reader.data(snapshot)
        chosen: Sequence[ManifestFileMeta] = manifests
        for partitions in self._filters:
            chosen = partitions.manifests(chosen)
        if self._buckets is not None:
            chosen = [m for m in chosen if _may_hold_bucket(m, self._buckets)]
        entries = list(self._reader.entries(chosen))
        partitions_met = meant = frozenset(e.partition for e in entries)
        for partitions in self._filters:
            meant = partitions.select(meant)
        if meant == partitions_met and self._buckets is None:
            left_out: Sequence[ManifestEntry] = ()
            live = merge_entries(entries)
        else:
            # Manifests that were left out may have added the files of other partitions and buckets that these delete,
            # so only what is meant is merged strictly.
            other = [e for e in entries if not self._is_meant(e, meant)]
            live = merge_entries([e for e in entries if self._is_meant(e, meant)])
            left_out = [e for e in merge_entries(other, keep_deletes=True) if e.kind is FileKind.ADD]
        # An entry deletes a file that another one added, in whatever manifests the two are.
        total = sum(m.num_added_files - m.num_deleted_files for m in manifests)
        after_partitions = len(live) + sum(e.partition in meant for e in left_out)
        if self._selector.is_free and self._buckets is None:
            live = [e for e in live if e.bucket >= 0]
        else:
            live = [e for e in live if self._is_bucket_meant(e)]
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
        """What the snapshot added to its data or changelog files, in the partitions and buckets asked for."""
        manifests: Sequence[ManifestFileMeta]
        manifests = self._reader.changelog(snapshot) if changelog else self._reader.delta(snapshot)
        for partitions in self._filters:
            manifests = partitions.manifests(manifests)
        entries = list(self._reader.entries(manifests))
        meant = frozenset(e.partition for e in entries)
        for partitions in self._filters:
            meant = partitions.select(meant)
        return [e for e in entries if self._is_meant(e, meant) and self._is_bucket_meant(e)]

    def deletions_of(self, snapshot: Snapshot) -> Mapping[BucketId, Mapping[str, DeletionFile]]:
        """The deletion vectors that the snapshot has, by bucket and name of the data file."""
        return deletion_files(self._store, self.index_entries(snapshot))

    def index_entries(self, snapshot: Snapshot) -> list[IndexManifestEntry]:
        """The entries of the snapshot's index manifest."""
        return index_entries(self._reader, snapshot)

    def _is_meant(self, entry: ManifestEntry, partitions: Collection[bytes]) -> bool:
        """Whether the entry is of a partition and a bucket whose manifests all are read."""
        return entry.partition in partitions and (self._buckets is None or entry.bucket in self._buckets)

    def _is_bucket_meant(self, entry: ManifestEntry) -> bool:
        # Postponed rows are invisible until a compaction takes them to real buckets; it asks for them by number.
        if entry.bucket < 0:
            return self._postponed or (self._buckets is not None and entry.bucket in self._buckets)
        possible = self._selector.buckets(entry.total_buckets)
        return possible is None or entry.bucket in possible


def restricted(predicate: Predicate | None, columns: Sequence[str]) -> Predicate | None:
    """What the predicate says of these columns alone; None when that is nothing."""
    if predicate is None or not columns:
        return None
    found = restrict_to(predicate, columns)
    return None if isinstance(found, AlwaysTrue) else found


def check_not_replaced(store: TableStore, snapshot: Snapshot) -> None:
    """Raise InvalidInputError for a snapshot of the table that took the place of this one."""
    if store.schemas.is_replaced(store.schema, snapshot.schema_id):
        raise InvalidInputError(
            f"The table at {store.location} was replaced by snapshot {snapshot.id} or before: get it from "
            f"its catalog again, or read snapshot {snapshot.id - 1}."
        )


def _partition_filters(store: TableStore, predicate: Predicate | None, given: PartitionChoice) -> list[PartitionFilter]:
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
