"""Planning a read: from a snapshot to the splits that hold every row asked for."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from interbed.storage.base.arrays import Mask
from interbed.storage.base.bucket_id import BucketId
from interbed.storage.base.errors import InvalidInputError
from interbed.storage.base.predicate.expr import AlwaysTrue, Predicate, bind, restrict_to
from interbed.storage.files.file_index.evaluate import index_file_of
from interbed.storage.meta.manifest.data_file import DataFileMeta
from interbed.storage.meta.manifest.entry import FileKind, ManifestEntry, ManifestFileMeta, merge_entries
from interbed.storage.meta.options.lsm import MergeEngine
from interbed.storage.meta.options.stream import StartupMode
from interbed.storage.meta.snapshot.snapshot import Snapshot
from interbed.storage.meta.store import TableStore
from interbed.storage.scan.incremental import incremental_plan
from interbed.storage.scan.index_pruning import select_by_file_index
from interbed.storage.scan.index_reader import deletion_files, index_entries
from interbed.storage.scan.manifest_reader import ManifestReader
from interbed.storage.scan.partition_filter import (
    AllPartitions,
    PartitionChoice,
    PartitionFilter,
    PredicatePartitions,
    partition_filter,
)
from interbed.storage.scan.plan import Plan, PlanStatistics
from interbed.storage.scan.pruning import BucketSelector, select_by_key_stats, select_by_value_stats
from interbed.storage.scan.restore import RestoredBuckets
from interbed.storage.scan.split import DeletionFile, Split
from interbed.storage.scan.split_generator import (
    FileGroup,
    Section,
    apart,
    append_groups,
    merge_tree_groups,
    sections_of,
)
from interbed.storage.scan.starting_point import files_since, is_made_since, starting_snapshot
from interbed.storage.scan.support import check_readable


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bucket:
    """The files of one bucket, and the number of buckets that its partition has."""

    id: BucketId
    total_buckets: int
    files: tuple[DataFileMeta, ...]


class TableScan:
    """Plans one read. `predicate` is bound to the table's columns and only used to leave out what it rules out.

    `partition_filter` restricts the scan further to (partial) partition specifications or a predicate over partition
    columns, `buckets` to bucket numbers, `level_filter` to files of some levels (for looking at the tree; such splits
    are not the table's rows), `files_since` to files made then or later, in milliseconds since the epoch. `limit` in
    rows. With `postponed` rows that wait for their bucket are told, too. Errors as documented at `plan`.
    """

    def __init__(
        self,
        store: TableStore,
        *,
        predicate: Predicate | None = None,
        partition_filter: PartitionChoice = None,
        buckets: Collection[int] | None = None,
        limit: int | None = None,
        snapshot_id: int | None = None,
        level_filter: Callable[[int], bool] | None = None,
        files_since: int | None = None,
        postponed: bool = False,
    ) -> None:
        self._store = store
        self._postponed = postponed
        self._predicate = None if predicate is None else bind(predicate, store.schema.fields)
        self._selector = BucketSelector(store.schema, self._predicate)
        self._filters = self._partition_filters(partition_filter)
        self._buckets = None if buckets is None else frozenset(buckets)
        self._limit = limit
        self._snapshot_id = snapshot_id
        self._level_filter = level_filter
        self._files_since = files_since
        self._reader = ManifestReader(store.file_io, store.paths)
        self._skips_level_0 = store.schema.has_primary_key and store.options.scans_skip_level_0 and level_filter is None
        self._after_statistics = 0
        self._deletions: Mapping[BucketId, Mapping[str, DeletionFile]] = {}

    def plan(self) -> Plan:
        """The splits of the snapshot; none for a table without snapshots.

        Raises SnapshotNotFoundError, CorruptFileError naming the file, NotSupportedError for tables that this version
        does not read.
        """
        check_readable(self._store)
        if self._snapshot_id is None and self._store.options.startup_mode is StartupMode.INCREMENTAL:
            return incremental_plan(self._store, self)
        if self._snapshot_id is None:
            self._files_since = files_since(self._store)
        snapshot = starting_snapshot(self._store, self._snapshot_id)
        if snapshot is None:
            return Plan(snapshot_id=None, schema_id=self._store.schema.id, splits=())
        self._check_not_replaced(snapshot)
        entries, statistics = self._entries(snapshot)
        self._deletions = self.deletions_of(snapshot)
        if self._skips_level_0:
            entries = [e for e in entries if e.file.level > 0]
        buckets = _by_bucket(entries)
        groups: list[tuple[_Bucket, FileGroup]] = []
        kept = 0
        for bucket, pruned in self._pruned(buckets):
            kept += sum(len(section) for section in pruned)
            groups += ((bucket, group) for group in self._groups(pruned))
        statistics = replace(statistics, files_after_statistics=self._after_statistics, files_after_indexes=kept)
        limited = self._limited(groups)
        splits = tuple(self._split(snapshot, bucket, group) for bucket, group in limited)
        return Plan(
            snapshot_id=snapshot.id,
            schema_id=snapshot.schema_id,
            splits=splits,
            statistics=_completed(statistics, splits, limit_pushed=limited is not groups),
        )

    def entries(self) -> list[ManifestEntry]:
        """The live files that the partitions, buckets and levels asked for have, in order of addition; see `plan`."""
        check_readable(self._store)
        snapshot = starting_snapshot(self._store, self._snapshot_id)
        return [] if snapshot is None else self._entries(snapshot)[0]

    def visible_entries(self, snapshot: Snapshot) -> list[ManifestEntry]:
        """The files of the snapshot that reads look at, in the partitions and buckets asked for."""
        entries, _ = self._entries(snapshot)
        return [e for e in entries if not (self._skips_level_0 and e.file.level == 0)]

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
        return deletion_files(self._store, index_entries(self._reader, snapshot))

    def restore_buckets(self) -> RestoredBuckets:
        """What exists in the newest snapshot, whatever the scan options say, for writers and compaction."""
        snapshot = self._store.snapshots.latest()
        if snapshot is None:
            return RestoredBuckets(None, ())
        self._check_not_replaced(snapshot)
        return RestoredBuckets(snapshot.id, self._entries(snapshot)[0], index_entries(self._reader, snapshot))

    def files_of(self, bucket_id: BucketId) -> list[DataFileMeta]:
        """The live files of one bucket in the newest snapshot."""
        return self.restore_buckets().files(bucket_id)

    def _check_not_replaced(self, snapshot: Snapshot) -> None:
        if self._store.schemas.is_replaced(self._store.schema, snapshot.schema_id):
            raise InvalidInputError(
                f"The table at {self._store.location} was replaced by snapshot {snapshot.id} or before: get it from "
                f"its catalog again, or read snapshot {snapshot.id - 1}."
            )

    # -- entries ---------------------------------------------------------------------------------------------------

    def _partition_filters(self, given: PartitionChoice) -> list[PartitionFilter]:
        schema = self._store.schema
        filters: list[PartitionFilter] = []
        own = self._restricted(schema.partition_keys)
        if own is not None:
            filters.append(PredicatePartitions(own, schema.partition_fields))
        if given is not None:
            filters.append(
                partition_filter(
                    given, schema.partition_fields, default_name=self._store.options.partition_default_name
                )
            )
        return filters or [AllPartitions()]

    def _entries(self, snapshot: Snapshot) -> tuple[list[ManifestEntry], PlanStatistics]:
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
            return self._live(merge_entries(entries), (), meant, len(manifests), len(chosen))
        # Manifests that were left out may have added the files of other partitions and buckets that these delete, so
        # only what is meant is merged strictly.
        other = [e for e in entries if not self._is_meant(e, meant)]
        live = merge_entries([e for e in entries if self._is_meant(e, meant)])
        left_out = [e for e in merge_entries(other, keep_deletes=True) if e.kind is FileKind.ADD]
        return self._live(live, left_out, meant, len(manifests), len(chosen))

    def _live(
        self,
        live: list[ManifestEntry],
        left_out: Sequence[ManifestEntry],
        meant: Collection[bytes],
        manifests: int,
        chosen: int,
    ) -> tuple[list[ManifestEntry], PlanStatistics]:
        """What of the live entries is in a bucket and on a level asked for; `left_out` are those of others."""
        total = len(live) + len(left_out)
        after_partitions = len(live) + sum(e.partition in meant for e in left_out)
        if self._selector.is_free and self._buckets is None:
            live = [e for e in live if e.bucket >= 0]
        else:
            live = [e for e in live if self._is_bucket_meant(e)]
        statistics = PlanStatistics(
            manifests_total=manifests,
            manifests_read=chosen,
            files_total=total,
            files_after_partitions=after_partitions,
            files_after_buckets=len(live),
        )
        if self._level_filter is not None:
            live = [e for e in live if self._level_filter(e.file.level)]
        if self._files_since is not None:
            live = [e for e in live if is_made_since(e.file, self._files_since)]
        return live, statistics

    def _is_meant(self, entry: ManifestEntry, partitions: Collection[bytes]) -> bool:
        """Whether the entry is of a partition and a bucket whose manifests all are read."""
        return entry.partition in partitions and (self._buckets is None or entry.bucket in self._buckets)

    def _is_bucket_meant(self, entry: ManifestEntry) -> bool:
        # Postponed rows are invisible until a compaction takes them to real buckets; it asks for them by number.
        if entry.bucket < 0:
            return self._postponed or (self._buckets is not None and entry.bucket in self._buckets)
        possible = self._selector.buckets(entry.total_buckets)
        return possible is None or entry.bucket in possible

    def _restricted(self, columns: Sequence[str]) -> Predicate | None:
        """What the filter says of these columns alone; None when that is nothing."""
        if self._predicate is None or not columns:
            return None
        restricted = restrict_to(self._predicate, columns)
        return None if isinstance(restricted, AlwaysTrue) else restricted

    # -- files -----------------------------------------------------------------------------------------------------

    def _pruned(self, buckets: Sequence[_Bucket]) -> list[tuple[_Bucket, list[Section]]]:
        """The sections of each bucket that may hold a row asked for; buckets without any are left out."""
        schema = self._store.schema
        if schema.has_primary_key:
            buckets = self._without_foreign_keys(buckets)
            sections = [
                (b, apart(b.files) if self._keys_are_apart(b) else sections_of(b.files, schema.key_types))
                for b in buckets
            ]
        else:
            sections = [(b, [(f,) for f in b.files]) for b in buckets]
        if self._predicate is None:
            kept = [(b, s) for b, s in sections if s]
            self._after_statistics = _count_files(kept)
            return kept
        # All files are looked at in one go: statistics are decoded by column, not by file.
        files = [f for _, bucket_sections in sections for section in bucket_sections for f in section]
        chosen = select_by_value_stats(files, self._predicate, schema, self._store.schemas)
        kept = self._matching(sections, chosen)
        self._after_statistics = _count_files(kept)
        if self._store.options.file_index_read_enabled and any(f.embedded_file_index for f in files):
            chosen = select_by_file_index(files, chosen, self._predicate, schema, self._store.schemas)
            kept = self._matching(sections, chosen)
        return kept

    def _matching(
        self, sections: Sequence[tuple[_Bucket, list[Section]]], chosen: Mask
    ) -> list[tuple[_Bucket, list[Section]]]:
        """The sections with a file that may hold a row asked for; `chosen` has an entry for each file in turn."""
        hits = iter(chosen.tolist())
        # Where a row is put together from those of several files, it may match though none of those does.
        whole = self._store.options.merge_engine in (MergeEngine.PARTIAL_UPDATE, MergeEngine.AGGREGATION)
        kept: list[tuple[_Bucket, list[Section]]] = []
        for bucket, bucket_sections in sections:
            # The visible row of a key may be in any file of its section, and a newer file without a match may hide an
            # older match: a section is read as a whole or not at all.
            hit = [[next(hits) for _ in section] for section in bucket_sections]
            matching = [s for s, h in zip(bucket_sections, hit, strict=True) if any(h) or (whole and len(s) > 1)]
            if matching:
                kept.append((bucket, matching))
        return kept

    def _keys_are_apart(self, bucket: _Bucket) -> bool:
        """Whether each key is visible in one file at most: deletion vectors and first-row see to it above level 0."""
        return self._skips_level_0 and all(f.delete_row_count == 0 for f in bucket.files)

    def _without_foreign_keys(self, buckets: Sequence[_Bucket]) -> list[_Bucket]:
        """The buckets without the files that can't hold a key asked for: every version of a key is in the others."""
        schema = self._store.schema
        predicate = self._restricted(schema.trimmed_primary_keys)
        if predicate is None:
            return list(buckets)
        files = [f for b in buckets for f in b.files]
        chosen = iter(select_by_key_stats(files, predicate, schema.key_fields).tolist())
        return [replace(b, files=tuple(f for f in b.files if next(chosen))) for b in buckets]

    def _groups(self, sections: Sequence[Section]) -> list[FileGroup]:
        options = self._store.options
        target, cost = options.split_target_size, options.split_open_file_cost
        if self._store.schema.has_primary_key:
            return merge_tree_groups(sections, target_size=target, open_file_cost=cost)
        files = [f for section in sections for f in section]
        return append_groups(files, target_size=target, open_file_cost=cost)

    def _limited(self, groups: list[tuple[_Bucket, FileGroup]]) -> list[tuple[_Bucket, FileGroup]]:
        """As few groups as surely hold `limit` rows: any rows will do, so only those that need no merging."""
        if self._limit is None or self._predicate is not None or self._level_filter is not None:
            return groups
        chosen: list[tuple[_Bucket, FileGroup]] = []
        rows = 0
        for bucket, group in groups:
            if rows >= self._limit:
                break
            if group.raw_convertible:
                files: list[DataFileMeta] = []
                deletions = self._deletions.get(bucket.id, {})
                for file in group.files:
                    if rows >= self._limit:
                        break
                    files.append(file)
                    gone = deletions.get(file.file_name)
                    if gone is None:
                        rows += file.row_count
                    elif gone.cardinality is not None:
                        rows += file.row_count - gone.cardinality
                chosen.append((bucket, replace(group, files=tuple(files))))
        return chosen if rows >= self._limit else groups

    def _split(self, snapshot: Snapshot, bucket: _Bucket, group: FileGroup) -> Split:
        deletions = self._deletions.get(bucket.id, {})
        return Split(
            snapshot_id=snapshot.id,
            partition=bucket.id.partition,
            bucket=bucket.id.bucket,
            total_buckets=bucket.total_buckets,
            bucket_path=self._store.paths.bucket_directory(bucket.id),
            files=group.files,
            raw_convertible=group.raw_convertible,
            deletion_files={f.file_name: deletions[f.file_name] for f in group.files if f.file_name in deletions},
        )


def _by_bucket(entries: Sequence[ManifestEntry]) -> list[_Bucket]:
    """The entries by partition, in order of appearance, and bucket number."""
    files: dict[bytes, dict[int, list[ManifestEntry]]] = {}
    for e in entries:
        files.setdefault(e.partition, {}).setdefault(e.bucket, []).append(e)
    return [
        _Bucket(
            id=BucketId(partition, bucket),
            total_buckets=found[0].total_buckets,
            files=tuple(e.file for e in found),
        )
        for partition, buckets in files.items()
        for bucket, found in sorted(buckets.items())
    ]


def _count_files(kept: Sequence[tuple[_Bucket, list[Section]]]) -> int:
    return sum(len(section) for _, sections in kept for section in sections)


def _may_hold_bucket(manifest: ManifestFileMeta, buckets: Collection[int]) -> bool:
    low, high = manifest.min_bucket, manifest.max_bucket
    return low is None or high is None or any(low <= b <= high for b in buckets)


def _completed(statistics: PlanStatistics, splits: Sequence[Split], *, limit_pushed: bool) -> PlanStatistics:
    files = [f for s in splits for f in s.files]
    return replace(
        statistics,
        files_planned=len(files),
        files_with_index_beside=sum(index_file_of(f) is not None for f in files if f.extra_files),
        partitions=len({s.partition for s in splits}),
        buckets=len({s.bucket_id for s in splits}),
        files_by_level=dict(sorted(Counter(f.level for f in files).items())),
        rows_planned=sum(f.row_count for f in files),
        bytes_planned=sum(f.file_size for f in files),
        splits_raw=sum(s.raw_convertible for s in splits),
        splits_merged=sum(not s.raw_convertible for s in splits),
        limit_pushed=limit_pushed,
    )
