"""Planning of a read: from a snapshot to the splits that hold every row asked for.

Partitions that a table lacks are read from one of its branches (`scan.fallback-branch`). A batch read takes each
partition as a whole from one source: from the table where it has rows of it at that snapshot, otherwise from the
branch. Streams, change reads and writers ignore the option; fallback_checks.py checks writers. Source: documentation
page `maintenance/manage-branches`, paimon-core's FallbackReadFileStoreTable.
"""

import logging
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

import numpy as np

from interbed.storage.base.arrays import Mask
from interbed.storage.base.bucket_id import BucketId
from interbed.storage.base.errors import (
    BranchNotFoundError,
    InvalidOptionError,
    NotSupportedError,
    SnapshotNotFoundError,
)
from interbed.storage.base.predicate.expr import Predicate, bind, restrict_to
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.manifest.entry import DataFileMeta, ManifestEntry
from interbed.storage.meta.options.lsm import MergeEngine
from interbed.storage.meta.options.stream import FALLBACK_BRANCH, OF_ONE_SNAPSHOT, StartupMode
from interbed.storage.meta.schema.system_fields import readable_fields
from interbed.storage.meta.snapshot.snapshot import Snapshot
from interbed.storage.scan.live_files import LiveFiles, check_not_replaced, restricted
from interbed.storage.scan.partition_filter import PartitionChoice
from interbed.storage.scan.pruning import select_by_key_stats, select_by_value_stats
from interbed.storage.scan.split import (
    DeletionFile,
    FileGroup,
    Plan,
    PlanStatistics,
    Section,
    Split,
    apart,
    append_groups,
    column_groups,
    merge_tree_groups,
    sections_of,
)
from interbed.storage.scan.starting_point import PINNED, at_snapshot, files_since, starting_snapshot
from interbed.storage.scan.support import check_readable


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bucket:
    """Files of one bucket, and the bucket count of its partition."""

    id: BucketId
    total_buckets: int
    files: tuple[DataFileMeta, ...]


_Sections: TypeAlias = tuple[_Bucket, list[Section]]
"""Files of a bucket, by sections of overlapping key ranges."""
Deletions: TypeAlias = Mapping[BucketId, Mapping[str, DeletionFile]]
"""Deletion vectors by bucket, then by name of the data file."""


class TableScan:
    """Planner of one read. Plans may be made repeatedly and do not affect each other.

    `predicate` is bound to the table's columns and only used for pruning. `partition_filter` restricts the scan further
    to partition specifications or a predicate over partition columns, `buckets` to bucket numbers, `level_filter` to
    files of some levels (for inspection of the tree; such splits are not the table's rows), `files_since` to files
    created then or later, in milliseconds since the epoch (None: by the options, where no snapshot is given). `limit`
    in rows. With `postponed` changes include postponed rows. Errors as documented at `plan`.
    """

    def __init__(
        self,
        store: FileStore,
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
        self._predicate = None if predicate is None else bind(predicate, readable_fields(store.schema))
        self._limit = limit
        self._snapshot_id = snapshot_id
        self._level_filter = level_filter
        self._files_since = files_since
        self._skips_level_0 = store.schema.has_primary_key and store.options.scans_skip_level_0 and level_filter is None
        self._live_files = LiveFiles(
            store,
            predicate=self._predicate,
            partition_filter=partition_filter,
            buckets=buckets,
            level_filter=level_filter,
            postponed=postponed,
        )

    def plan(self) -> Plan:
        """Return the splits of the snapshot; none for a table without snapshots.

        Raises SnapshotNotFoundError, CorruptFileError naming the file, NotSupportedError for tables that this version
        does not read.
        """
        check_readable(self._store)
        if self._snapshot_id is None and self._store.options.startup_mode is StartupMode.INCREMENTAL:
            from interbed.storage.scan.change_plan import incremental_plan

            if self._level_filter is not None:
                raise NotSupportedError(
                    f"Changes between snapshots are not read from single levels of {self._store.location}: read those "
                    "of the table itself, without '$ro', or leave the options 'incremental-…' out."
                )
            return incremental_plan(self._store, self)
        since = self._files_since
        if since is None and self._snapshot_id is None:
            since = files_since(self._store)
        snapshot = starting_snapshot(self._store, self._snapshot_id)
        if snapshot is None:
            return Plan(snapshot_id=None, schema_id=self._store.schema.id, splits=())
        check_not_replaced(self._store, snapshot)
        entries, statistics = self._live_files.entries(snapshot, files_since=since)
        deletions = self.deletions_of(snapshot)
        if self._skips_level_0:
            entries = [e for e in entries if e.file.level > 0]
        buckets = _by_bucket(entries)
        groups: list[tuple[_Bucket, FileGroup]] = []
        kept, left_by_statistics = self._pruned(buckets)
        for bucket, sections in kept:
            vectors = deletions.get(bucket.id, {})
            groups += ((bucket, group) for group in self._groups(sections, vectors))
        statistics = replace(
            statistics, files_after_statistics=left_by_statistics, files_after_indexes=_count_files(kept)
        )
        limited = self._limited(groups, deletions)
        splits = tuple(self._split(snapshot, bucket, group, deletions) for bucket, group in limited)
        return Plan(
            snapshot_id=snapshot.id,
            schema_id=snapshot.schema_id,
            splits=splits,
            statistics=_completed(statistics, splits, limit_pushed=limited is not groups),
        )

    def entries(self) -> list[ManifestEntry]:
        """Return the live files of the selected partitions, buckets and levels, in order of addition; see `plan`.

        Options that leave files out by their creation time only apply to a plan.
        """
        check_readable(self._store)
        snapshot = starting_snapshot(self._store, self._snapshot_id)
        return [] if snapshot is None else self._live_files.entries(snapshot, files_since=self._files_since)[0]

    def visible_entries(self, snapshot: Snapshot) -> list[ManifestEntry]:
        """Return the files of the snapshot that reads see, in the selected partitions and buckets."""
        entries, _ = self._live_files.entries(snapshot, files_since=self._files_since)
        return [e for e in entries if not (self._skips_level_0 and e.file.level == 0)]

    def changes_of(self, snapshot: Snapshot, *, changelog: bool) -> list[ManifestEntry]:
        """Return the entries that the snapshot added to its data or changelog files in the selected buckets."""
        return self._live_files.changes_of(snapshot, changelog=changelog)

    def deletions_of(self, snapshot: Snapshot) -> Deletions:
        """Return the deletion vectors of the snapshot, by bucket and name of the data file."""
        return self._live_files.deletions_of(snapshot)

    # -- files -----------------------------------------------------------------------------------------------------

    def _pruned(self, buckets: Sequence[_Bucket]) -> tuple[list[_Sections], int]:
        """Return the sections of each bucket that may hold a row asked for; buckets without any are left out.

        The second value is the number of files left by statistics, before file indexes.
        """
        schema = self._store.schema
        if self._store.options.data_evolution_enabled:
            return self._pruned_groups(buckets)
        if schema.has_primary_key:
            buckets = self._files_with_keys(buckets)
            sections = [
                (b, apart(b.files) if self._keys_are_apart(b) else sections_of(b.files, schema.key_types))
                for b in buckets
            ]
        else:
            sections = [(b, [(f,) for f in b.files]) for b in buckets]
        if self._predicate is None:
            kept = [(b, s) for b, s in sections if s]
            return kept, _count_files(kept)
        # Check all files at once: statistics are decoded by column, not by file.
        files = [f for _, bucket_sections in sections for section in bucket_sections for f in section]
        chosen = select_by_value_stats(files, self._predicate, schema, self._store.schemas)
        kept = self._matching(sections, chosen)
        left_by_statistics = _count_files(kept)
        if self._store.options.file_index_read_enabled and any(f.embedded_file_index for f in files):
            from interbed.storage.scan.pruning import select_by_file_index

            chosen = select_by_file_index(files, chosen, self._predicate, schema, self._store.schemas)
            kept = self._matching(sections, chosen)
        return kept, left_by_statistics

    def _pruned_groups(self, buckets: Sequence[_Bucket]) -> tuple[list[_Sections], int]:
        """Return what `_pruned` does for a table whose sections are the files with columns of the same rows."""
        from interbed.storage.lsm.column_groups import row_range_groups, select_groups

        store, predicate = self._store, self._predicate
        found = [(b, group) for b in buckets for group in row_range_groups(b.files)]
        groups = [group for _, group in found]
        chosen = np.ones(len(groups), np.bool_)
        left_by_statistics = sum(len(group.files) for group in groups)
        if predicate is not None:
            by_stats = partial(select_by_value_stats, schema=store.schema, schemas=store.schemas)
            chosen = select_groups(groups, predicate, store, by_stats)
            left_by_statistics = sum(len(g.files) for g, hit in zip(groups, chosen, strict=True) if hit)
            if store.options.file_index_read_enabled and any(f.embedded_file_index for g in groups for f in g.files):
                from interbed.storage.scan.pruning import select_by_file_index

                def by_index(files: Sequence[DataFileMeta], own: Predicate) -> Mask:
                    every = np.ones(len(files), np.bool_)
                    return select_by_file_index(files, every, own, store.schema, store.schemas)

                chosen &= select_groups(groups, predicate, store, by_index)
        kept: dict[BucketId, _Sections] = {}
        for (bucket, group), hit in zip(found, chosen, strict=True):
            if hit:
                kept.setdefault(bucket.id, (bucket, []))[1].append(group.files)
        return list(kept.values()), left_by_statistics

    def _matching(self, sections: Sequence[_Sections], chosen: Mask) -> list[_Sections]:
        """Return the sections with a file that may hold a row asked for.

        `chosen` has an entry for each file in turn.
        """
        hits = iter(chosen.tolist())
        # A row that is merged from rows of several files may match though none of those rows does.
        whole = self._store.options.merge_engine in (MergeEngine.PARTIAL_UPDATE, MergeEngine.AGGREGATION)
        kept: list[_Sections] = []
        for bucket, bucket_sections in sections:
            # The visible row of a key may be in any file of its section, and a newer file without a match may hide an
            # older match: a section is read as a whole or not at all.
            hit = [[next(hits) for _ in section] for section in bucket_sections]
            matching = [s for s, h in zip(bucket_sections, hit, strict=True) if any(h) or (whole and len(s) > 1)]
            if matching:
                kept.append((bucket, matching))
        return kept

    def _keys_are_apart(self, bucket: _Bucket) -> bool:
        """Return whether each key is visible in at most one file.

        Deletion vectors and first-row ensure this above level 0.
        """
        return self._skips_level_0 and all(f.delete_row_count == 0 for f in bucket.files)

    def _files_with_keys(self, buckets: Sequence[_Bucket]) -> list[_Bucket]:
        """Return the buckets without files that can't hold a key asked for: every version of a key is in the others."""
        schema = self._store.schema
        predicate = restricted(self._predicate, schema.trimmed_primary_keys)
        if predicate is None:
            return list(buckets)
        files = [f for b in buckets for f in b.files]
        chosen = iter(select_by_key_stats(files, predicate, schema.key_fields).tolist())
        return [replace(b, files=tuple(f for f in b.files if next(chosen))) for b in buckets]

    def _groups(self, sections: Sequence[Section], vectors: Mapping[str, DeletionFile]) -> list[FileGroup]:
        options = self._store.options
        target, cost = options.split_target_size, options.split_open_file_cost
        if self._store.schema.has_primary_key:
            return merge_tree_groups(sections, target_size=target, open_file_cost=cost)
        if options.data_evolution_enabled:
            return column_groups(sections, target_size=target, open_file_cost=cost)
        files = [f for section in sections for f in section]
        # In tables with buckets the rows of each bucket keep their order, and a bucket has one index file.
        reorders = vectors and options.bucket < 1

        def index_of(file: DataFileMeta) -> str | None:
            place = vectors.get(file.file_name)
            return None if place is None else place.path

        return append_groups(files, target_size=target, open_file_cost=cost, index_of=index_of if reorders else None)

    def _limited(
        self, groups: list[tuple[_Bucket, FileGroup]], deletions: Deletions
    ) -> list[tuple[_Bucket, FileGroup]]:
        """Return the fewest groups that are sure to hold `limit` rows.

        Any rows will do, so only groups without merging are used.
        """
        if self._limit is None or self._predicate is not None or self._level_filter is not None:
            return groups
        chosen: list[tuple[_Bucket, FileGroup]] = []
        rows = 0
        for bucket, group in groups:
            if rows >= self._limit:
                break
            if group.raw_convertible:
                files: list[DataFileMeta] = []
                vectors = deletions.get(bucket.id, {})
                for file in group.files:
                    if rows >= self._limit:
                        break
                    files.append(file)
                    deletion = vectors.get(file.file_name)
                    if deletion is None:
                        rows += file.row_count
                    elif deletion.cardinality is not None:
                        rows += file.row_count - deletion.cardinality
                chosen.append((bucket, replace(group, files=tuple(files))))
        return chosen if rows >= self._limit else groups

    def _split(self, snapshot: Snapshot, bucket: _Bucket, group: FileGroup, deletions: Deletions) -> Split:
        vectors = deletions.get(bucket.id, {})
        return Split(
            snapshot_id=snapshot.id,
            partition=bucket.id.partition,
            bucket=bucket.id.bucket,
            total_buckets=bucket.total_buckets,
            bucket_path=self._store.paths.bucket_directory(bucket.id),
            files=group.files,
            raw_convertible=group.raw_convertible,
            deletion_files={f.file_name: vectors[f.file_name] for f in group.files if f.file_name in vectors},
        )


def _by_bucket(entries: Sequence[ManifestEntry]) -> list[_Bucket]:
    """Return the entries by partition, in order of appearance, and bucket number."""
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


def _count_files(kept: Sequence[_Sections]) -> int:
    return sum(len(section) for _, sections in kept for section in sections)


def _count_indexes_beside(files: Sequence[DataFileMeta]) -> int:
    """Return the number of files that have their indexes in a separate file."""
    accompanied = [f for f in files if f.extra_files]
    if not accompanied:
        return 0
    from interbed.storage.files.file_index.evaluate import index_file_of

    return sum(index_file_of(f) is not None for f in accompanied)


def _completed(statistics: PlanStatistics, splits: Sequence[Split], *, limit_pushed: bool) -> PlanStatistics:
    files = [f for s in splits for f in s.files]
    return replace(
        statistics,
        files_planned=len(files),
        files_with_index_beside=_count_indexes_beside(files),
        partitions=len({s.partition for s in splits}),
        buckets=len({s.bucket_id for s in splits}),
        files_by_level=dict(sorted(Counter(f.level for f in files).items())),
        rows_planned=sum(f.row_count for f in files),
        bytes_planned=sum(f.file_size for f in files),
        splits_raw=sum(s.raw_convertible for s in splits),
        splits_merged=sum(not s.raw_convertible for s in splits),
        limit_pushed=limit_pushed,
    )


_log = logging.getLogger(__name__)


def plan_rows(
    store: FileStore,
    *,
    predicate: Predicate | None = None,
    limit: int | None = None,
    snapshot_id: int | None = None,
    files_since: int | None = None,
) -> Plan:
    """Plan the table's rows, with those of the fallback branch; see TableScan.

    Raises InvalidOptionError when the branch has other columns.
    """
    scan = TableScan(store, predicate=predicate, limit=limit, snapshot_id=snapshot_id, files_since=files_since)
    plan = scan.plan()
    branch = _branch_of(store)
    if branch is None:
        return plan
    snapshot = starting_snapshot(store, snapshot_id)
    newest = store.snapshots.latest()
    at = millis = None
    if store.options.startup_mode is StartupMode.FROM_TIMESTAMP:
        millis = store.options.scan_time_millis
    elif snapshot is not None and newest is not None and snapshot.id != newest.id:
        millis = snapshot.time_millis
    if millis is not None:
        at = _at_time(branch, millis)
        if at is None:
            return plan
        branch = at_snapshot(branch, at)
    _check_shape(store, branch)
    meant = None if predicate is None else restrict_to(predicate, store.schema.partition_keys)
    own: frozenset[bytes] = frozenset() if snapshot is None else _partitions(store, snapshot.id, meant)
    # Partitions of the branch that are not read could use up a limit.
    found = TableScan(branch, predicate=predicate, limit=None if own else limit, snapshot_id=at).plan().splits
    name, of_past = branch.paths.branch, at is not None
    splits = (replace(split, branch=name, of_past=of_past) for split in found if split.partition not in own)
    return replace(plan, splits=(*plan.splits, *splits))


def fallback_of(store: FileStore) -> FileStore | None:
    """Return the branch that batch reads of the table fall back to, or None. InvalidOptionError as plan_rows."""
    branch = _branch_of(store)
    if branch is not None and store.options.startup_mode not in PINNED:
        _check_shape(store, branch)
    return branch


def _branch_of(store: FileStore) -> FileStore | None:
    name = store.options.fallback_branch
    if name is None or name == store.paths.branch or store.options.startup_mode not in (*OF_ONE_SNAPSHOT, *PINNED):
        return None
    try:
        # The table's own snapshot determines the time of the read, the branch's schema the layout of its rows.
        branch = store.plain_branch(name)
    except BranchNotFoundError:
        # Java Paimon does the same: the branch may be deleted while the option names it.
        _log.warning(
            "Option '%s' of %s names the branch '%s', which does not exist.", FALLBACK_BRANCH, store.location, name
        )
        return None
    return branch


def _check_shape(store: FileStore, branch: FileStore) -> None:
    if _shape(store) != _shape(branch):
        raise InvalidOptionError(
            f"Option '{FALLBACK_BRANCH}' of {store.location} names the branch '{branch.paths.branch}', which has the "
            "columns "
            f"{', '.join(branch.schema.names)} instead of {', '.join(store.schema.names)}, or some of other types. "
            "Give both the same columns and partition keys, or remove the option."
        )


def _shape(store: FileStore) -> object:
    """Return the parts of the schema that the table and its branch must have in common."""
    return [(f.name, f.type.with_nullable(True)) for f in store.schema.fields], store.schema.partition_keys


def _at_time(branch: FileStore, millis: int) -> int | None:
    """Return the id of the branch's snapshot at a time, in milliseconds since the epoch; None when it had none."""
    try:
        return branch.snapshots.by_time_millis(millis).id
    except SnapshotNotFoundError:
        return None


def _partitions(store: FileStore, snapshot_id: int, meant: Predicate | None) -> frozenset[bytes]:
    return frozenset(e.partition for e in TableScan(store, predicate=meant, snapshot_id=snapshot_id).entries())
