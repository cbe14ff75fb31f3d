"""Plans of changes: files that hold the changes of a snapshot, and batch reads of the changes between two snapshots.

The rules for one snapshot are those of Paimon's follow-up scanners (ChangelogFollowUpScanner, DeltaFollowUpScanner).
There is one split for each bucket, with all of the snapshot's files, so that the changes of a key keep their order.
Where an overwrite may have moved keys to other buckets, the splits that delete rows precede those that add rows, and a
comparison of two snapshots has one split for each partition. Only append tables without buckets, whose rows have no
order, spread their files over several splits.

Batch reads are of the range of snapshots that options name (starting_point.py). `incremental-between-scan-mode` chooses
the source of the changes: new files (`delta`), changelog files (`changelog`), either by the table's producer (`auto`),
or a comparison of the two snapshots (`diff`). Documentation page: `flink/sql-query`, Batch Incremental.
"""

import logging
from collections import ChainMap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache
from itertools import chain
from typing import Protocol

from interbed.storage.base.bucket_id import BucketId, by_bucket
from interbed.storage.base.errors import (
    CorruptFileError,
    NotSupportedError,
    SnapshotNotFoundError,
)
from interbed.storage.lsm.levels import interval_partition
from interbed.storage.meta.bucket_mode import BucketMode, bucket_mode
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.manifest.entry import DataFileMeta, FileKind, ManifestEntry
from interbed.storage.meta.options.lsm import ChangelogProducer, MergeEngine
from interbed.storage.meta.options.stream import (
    IncrementalScanMode,
)
from interbed.storage.meta.snapshot.manager import ChangelogManager
from interbed.storage.meta.snapshot.snapshot import FIRST_SNAPSHOT_ID, CommitKind, Snapshot
from interbed.storage.scan.manifest_reader import ManifestReader
from interbed.storage.scan.split import DeletionFile, Plan, PlanStatistics, Split, append_groups, column_groups
from interbed.storage.scan.starting_point import SnapshotRange, chosen_range, has_changelog

_log = logging.getLogger(__name__)

_REMEMBERED = 1_000

DeletionFiles = Mapping[BucketId, Mapping[str, DeletionFile]]
"""Deletion vectors by partition and bucket, then by name of the data file."""


class ChangeFiles(Enum):
    """Files that the changes of a snapshot are read from."""

    NOTHING = "nothing"
    DELTA = "delta"
    """New data files: they hold the written rows."""
    CHANGELOG = "changelog"
    """The changelog files."""
    REPLACED = "replaced"
    """Removed data files, whose rows are deleted, and the new ones."""


class ChangedEntries(Protocol):
    """Reader of the manifests of one read, with its filters."""

    def changes_of(self, snapshot: Snapshot, *, changelog: bool) -> list[ManifestEntry]:
        """Return the entries that the snapshot added: of data files, or of changelog files."""
        ...

    def deletions_of(self, snapshot: Snapshot) -> DeletionFiles:
        """Return the deletion vectors of the snapshot."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotChangeRules:
    """Rules by which the changes of a table's snapshots are read; `overwrites` includes the changes of overwrites."""

    keyed: bool
    producer: ChangelogProducer
    overwrites: bool = False

    @staticmethod
    def of_stream(store: FileStore) -> "SnapshotChangeRules":
        """Return the rules of a stream of the table."""
        options, keyed = store.options, store.schema.has_primary_key
        return SnapshotChangeRules(
            keyed=keyed,
            producer=options.changelog_producer if keyed else ChangelogProducer.NONE,
            overwrites=options.streaming_read_overwrite if keyed else options.streaming_read_append_overwrite,
        )

    def files_of(self, snapshot: Snapshot) -> ChangeFiles:
        """Return the files that the changes of the snapshot are read from."""
        if snapshot.commit_kind is CommitKind.OVERWRITE and self.overwrites:
            return ChangeFiles.REPLACED if self.keyed else ChangeFiles.DELTA
        if self.producer is ChangelogProducer.NONE:
            return ChangeFiles.DELTA if snapshot.commit_kind is CommitKind.APPEND else ChangeFiles.NOTHING
        if snapshot.changelog_manifest_list is None and not snapshot.changelog_has_expired:
            return ChangeFiles.NOTHING
        return ChangeFiles.CHANGELOG


def check_changes_readable(store: FileStore) -> None:
    """Raise NotSupportedError for a table without changelog whose written rows are not its changes."""
    options = store.options
    if options.merge_engine is MergeEngine.FIRST_ROW and options.changelog_producer is ChangelogProducer.NONE:
        raise NotSupportedError(
            f"The changes of the table at {store.location} can't be read: with 'merge-engine' = 'first-row' rows are "
            "written that the table ignores, because their keys are there. Set 'changelog-producer' = 'lookup' in the "
            "table, whose changelog has the new rows alone."
        )


def splits_of_snapshot(store: FileStore, source: ChangedEntries, snapshot: Snapshot, kind: ChangeFiles) -> list[Split]:
    """Return the splits of the changes of one snapshot; raises CorruptFileError naming a manifest that can't be read.

    Raises SnapshotNotFoundError when the changelog has expired, with the first snapshot that has changes, and for a
    snapshot with which the history of a branch began in the table.
    """
    if snapshot.begins_history:
        raise SnapshotNotFoundError(
            f"Snapshot {snapshot.id} of {store.location} has no changes to read: with it the table was made equal to a "
            "branch (fast_forward), and the rows before that were others. A stream that has read them can't continue; "
            f"read the rows of snapshot {snapshot.id}, then the changes from {snapshot.id + 1}."
        )
    if kind is ChangeFiles.NOTHING:
        return []
    is_changelog = kind is ChangeFiles.CHANGELOG
    if is_changelog and snapshot.changelog_has_expired:
        raise _expired(store, snapshot)
    try:
        entries = source.changes_of(snapshot, changelog=is_changelog)
    except CorruptFileError:
        if is_changelog and not has_changelog(store, snapshot):
            raise _expired(store, snapshot) from None
        raise
    added = [e for e in entries if e.kind is FileKind.ADD]
    if store.options.data_evolution_enabled:
        added = _of_new_rows(store, snapshot, added)
    if kind is not ChangeFiles.REPLACED:
        return record_splits(store, snapshot.id, added)
    removed = [e for e in entries if e.kind is FileKind.DELETE]
    deletions: DeletionFiles = {}
    if removed and snapshot.id > FIRST_SNAPSHOT_ID and store.snapshots.exists(snapshot.id - 1):
        deletions = source.deletions_of(store.snapshots.stored(snapshot.id - 1))
    return _replaced_splits(store, snapshot.id, removed, added, deletions)


def _of_new_rows(store: FileStore, snapshot: Snapshot, added: Sequence[ManifestEntry]) -> list[ManifestEntry]:
    """Return the files of rows that the snapshot added, without those with columns of older rows."""
    from interbed.storage.lsm.column_groups import first_row_id

    following = 0
    if snapshot.id > FIRST_SNAPSHOT_ID and store.snapshots.exists(snapshot.id - 1):
        following = store.snapshots.stored(snapshot.id - 1).next_row_id or 0
    elif snapshot.id > FIRST_SNAPSHOT_ID:
        reader = ManifestReader(store.file_io, store.paths)
        before = [e.file for e in reader.entries(reader.base(snapshot)) if e.kind is FileKind.ADD]
        following = max((first_row_id(f) + f.row_count for f in before), default=0)
    return [e for e in added if first_row_id(e.file) >= following]


def _expired(store: FileStore, snapshot: Snapshot) -> SnapshotNotFoundError:
    return SnapshotNotFoundError(
        f"The changes of snapshot {snapshot.id} of {store.location} have expired: a tag or a branch has kept its rows, "
        f"not its changelog. Changes can be read from snapshot {snapshot.id + 1} on."
    )


def record_splits(store: FileStore, snapshot_id: int, entries: Iterable[ManifestEntry]) -> list[Split]:
    """Return splits whose rows are the unmerged records of the files."""
    options = store.options
    splits: list[Split] = []
    for found in by_bucket(entries).values():
        groups: Sequence[Sequence[DataFileMeta]] = [[e.file for e in found]]
        if not store.schema.has_primary_key and options.bucket < 0:
            target, cost = options.split_target_size, options.split_open_file_cost
            if options.data_evolution_enabled:
                from interbed.storage.lsm.column_groups import row_range_groups

                sections = [group.files for group in row_range_groups(groups[0])]
                groups = [g.files for g in column_groups(sections, target_size=target, open_file_cost=cost)]
            else:
                groups = [g.files for g in append_groups(groups[0], target_size=target, open_file_cost=cost)]
        whole = record_split(store, snapshot_id, found)
        splits += (replace(whole, files=tuple(files)) for files in groups)
    return splits


def record_split(store: FileStore, snapshot_id: int, entries: Sequence[ManifestEntry]) -> Split:
    """Return a split whose rows are the unmerged records of one bucket's files; there is at least one entry."""
    bucket_id = entries[0].bucket_id
    return Split(
        snapshot_id=snapshot_id,
        partition=bucket_id.partition,
        bucket=bucket_id.bucket,
        total_buckets=entries[0].total_buckets,
        bucket_path=store.paths.bucket_directory(bucket_id),
        files=tuple(e.file for e in entries),
        raw_convertible=False,
        streaming=True,
    )


def _replaced_splits(
    store: FileStore,
    snapshot_id: int,
    removed: Iterable[ManifestEntry],
    added: Iterable[ManifestEntry],
    deletions: DeletionFiles,
) -> list[Split]:
    """Return a split for each bucket, of the files that an overwrite removed and added."""
    removed_files, added_files = by_bucket(removed), by_bucket(added)
    splits: list[Split] = []
    for place in dict.fromkeys((*removed_files, *added_files)):
        old, new = removed_files.get(place, []), added_files.get(place, [])
        shared = {e.identifier for e in old} & {e.identifier for e in new}
        before, after = ([e for e in side if e.identifier not in shared] for side in (old, new))
        if before or after:
            splits.append(
                replace(
                    record_split(store, snapshot_id, after or before),
                    files=tuple(e.file for e in after),
                    before=tuple(e.file for e in before),
                    before_deletion_files=dict(deletions.get(place, {})),
                )
            )
    counts: dict[bytes, set[int]] = {}
    for entry in chain.from_iterable((*removed_files.values(), *added_files.values())):
        counts.setdefault(entry.partition, set()).add(entry.total_buckets)
    if not _chooses_buckets(store) and all(len(found) == 1 for found in counts.values()):
        return splits
    # A key that has another bucket since must be deleted before it is added.
    return [
        *(replace(s, files=()) for s in splits if s.before),
        *(replace(s, before=(), before_deletion_files={}) for s in splits if s.files),
    ]


def _chooses_buckets(store: FileStore) -> bool:
    """Return whether a key may have another bucket after an overwrite: its bucket does not follow from its hash."""
    return bucket_mode(store.schema, store.options) in (BucketMode.DYNAMIC, BucketMode.CROSS_PARTITION)


class SnapshotFiles(ChangedEntries, Protocol):
    """Reader of the manifests of one read, with its filters."""

    def visible_entries(self, snapshot: Snapshot) -> list[ManifestEntry]:
        """Return the files of the snapshot that reads see."""
        ...


def incremental_plan(store: FileStore, files: SnapshotFiles) -> Plan:
    """Return the splits of the changes that the options ask for; none when the range is empty.

    Raises InvalidOptionError, SnapshotNotFoundError for a range that has expired or lies in the future,
    TagNotFoundError, and NotSupportedError for a comparison of an append table.
    """
    between = chosen_range(store)
    if between is None or not between.snapshot_ids:
        # There is no snapshot before the first one.
        last = between.last if between is not None and between.last >= FIRST_SNAPSHOT_ID else None
        return Plan(snapshot_id=last, schema_id=store.schema.id, splits=())
    mode = store.options.incremental_scan_mode
    of_automatic = store.options.incremental_to_auto_tag is not None
    if between.tagged and (of_automatic or not store.options.incremental_tags_are_snapshots):
        # Snapshots between two tags may have expired, so compare the tagged ones.
        mode = IncrementalScanMode.DIFF
    return plan_between(store, files, between, mode)


def plan_between(store: FileStore, files: SnapshotFiles, between: SnapshotRange, mode: IncrementalScanMode) -> Plan:
    """Return the splits of the changes in a range that is not empty, in the order in which they became visible.

    Errors are those of incremental_plan.
    """
    if mode is IncrementalScanMode.DIFF:
        first = _compared(store, between)
        last = _existing(store, between.last, between)
        return plan_of(last, _difference(store, files, first, last))
    if mode is IncrementalScanMode.AUTO:
        check_changes_readable(store)
    rules = _rules(store, mode)
    splits: list[Split] = []
    snapshots = [snapshot_changed(store, i, between) for i in between.snapshot_ids]
    for snapshot in snapshots:
        # As in Paimon, overwrites are left out.
        if snapshot.commit_kind is CommitKind.OVERWRITE:
            warn_of_left_out(store.location, snapshot, keyed=rules.keyed)
        else:
            warn_of_overlooked(store.location, snapshot, rules)
            splits += splits_of_snapshot(store, files, snapshot, rules.files_of(snapshot))
    return plan_of(snapshots[-1], splits)


def plan_of(snapshot: Snapshot, splits: Sequence[Split]) -> Plan:
    """Return a plan of splits of changes."""
    statistics = PlanStatistics(
        files_planned=sum(len(s.files) + len(s.before or ()) for s in splits),
        partitions=len({s.partition for s in splits}),
        buckets=len({s.bucket_id for s in splits}),
        rows_planned=sum(s.row_count for s in splits),
        bytes_planned=sum(s.byte_size for s in splits),
        splits_merged=len(splits),
    )
    return Plan(snapshot_id=snapshot.id, schema_id=snapshot.schema_id, splits=tuple(splits), statistics=statistics)


def _rules(store: FileStore, mode: IncrementalScanMode) -> SnapshotChangeRules:
    producer = store.options.changelog_producer if store.schema.has_primary_key else ChangelogProducer.NONE
    if mode is IncrementalScanMode.DELTA:
        producer = ChangelogProducer.NONE
    elif mode is IncrementalScanMode.CHANGELOG and producer is ChangelogProducer.NONE:
        # Read changelog files of the past, whatever the table writes today.
        producer = ChangelogProducer.INPUT
    return SnapshotChangeRules(keyed=store.schema.has_primary_key, producer=producer)


def _existing(store: FileStore, snapshot_id: int, between: SnapshotRange) -> Snapshot:
    if snapshot_id in between.tagged:
        return between.tagged[snapshot_id]
    try:
        # Bypass the cache: a snapshot in it may have expired.
        return store.snapshots.read(snapshot_id)
    except SnapshotNotFoundError as error:
        raise SnapshotNotFoundError(
            f"The changes of snapshots {between.first + 1} to {between.last} can't be read. {error} Give a range that "
            "the table has, with one snapshot before it for a comparison."
        ) from None


def snapshot_changed(store: FileStore, snapshot_id: int, between: SnapshotRange) -> Snapshot:
    """Return the snapshot, or the remains of it in the changelog; raises SnapshotNotFoundError."""
    if snapshot_id not in between.tagged and not store.snapshots.exists(snapshot_id):
        changelog = ChangelogManager(store.file_io, store.paths).find(snapshot_id)
        if changelog is not None:
            return changelog
    return _existing(store, snapshot_id, between)


def _compared(store: FileStore, between: SnapshotRange) -> Snapshot | None:
    """Return the snapshot to compare with; None for the empty table before the first one."""
    return None if between.first == 0 else _existing(store, between.first, between)


def _difference(store: FileStore, files: SnapshotFiles, first: Snapshot | None, last: Snapshot) -> list[Split]:
    if not store.schema.has_primary_key:
        raise NotSupportedError(
            f"The table at {store.location} has no primary key to compare two snapshots by; read its changes with "
            "'incremental-between-scan-mode' = 'delta'."
        )
    before = by_bucket([] if first is None else files.visible_entries(first))
    after = by_bucket(files.visible_entries(last))
    marks_before = {} if first is None else files.deletions_of(first)
    marks_after = files.deletions_of(last)
    splits = []
    for place in dict.fromkeys((*before, *after)):
        old, new = before.get(place, []), after.get(place, [])
        _check_buckets(store, old, new)
        split = replace(
            record_split(store, last.id, new or old),
            files=tuple(e.file for e in new),
            before=tuple(e.file for e in old),
            deletion_files=dict(marks_after.get(place, {})),
            before_deletion_files=dict(marks_before.get(place, {})),
            streaming=False,
        )
        changed = _changed_part(store, split)
        if changed is not None:
            splits.append(changed)
    if not _chooses_buckets(store):
        return splits
    by_partition: dict[bytes, list[Split]] = {}
    for split in splits:
        by_partition.setdefault(split.partition, []).append(split)
    return [found[0] if len(found) == 1 else _joined(found) for found in by_partition.values()]


def _joined(splits: Sequence[Split]) -> Split:
    """Return the comparisons of several buckets as one, in which each file has a path of its own."""
    before: list[DataFileMeta] = []
    after: list[DataFileMeta] = []
    for split in splits:
        for joined, files in ((before, split.before or ()), (after, split.files)):
            joined += (replace(f, external_path=split.path_of(f)) for f in files)
    return replace(
        splits[0],
        before=tuple(before),
        files=tuple(after),
        deletion_files=dict(ChainMap(*(dict(s.deletion_files) for s in splits))),
        before_deletion_files=dict(ChainMap(*(dict(s.before_deletion_files) for s in splits))),
    )


def _changed_part(store: FileStore, split: Split) -> Split | None:
    """Return the split without the sections of overlapping files that are the same before and after.

    None without any other sections. Files that both sides have must stay in a section that differs: rows of other files
    may hide or complete their rows.
    """
    assert split.before is not None
    before, after = ({f.file_name: f for f in side} for side in (split.before, split.files))
    marks = (split.before_deletion_files, split.deletion_files)
    same = {name for name in before.keys() & after.keys() if marks[0].get(name) == marks[1].get(name)}
    differing: set[str] = set()
    for section in interval_partition(list({**before, **after}.values()), store.schema.key_types):
        names = {f.file_name for run in section for f in run.files}
        if not names <= same:
            differing |= names
    if not differing:
        return None
    return replace(
        split,
        before=tuple(f for name, f in before.items() if name in differing),
        files=tuple(f for name, f in after.items() if name in differing),
    )


def _check_buckets(store: FileStore, old: Sequence[ManifestEntry], new: Sequence[ManifestEntry]) -> None:
    if old and new and old[0].total_buckets != new[0].total_buckets:
        where = store.paths.partition_directory(new[0].partition) or "the table"
        raise NotSupportedError(
            f"The snapshots to compare spread {where} at {store.location} over {old[0].total_buckets} and "
            f"{new[0].total_buckets} buckets; compare snapshots from before or from after the rescaling."
        )


def warn_of_overlooked(location: str, snapshot: Snapshot, rules: SnapshotChangeRules) -> None:
    """Log, once for each commit, that a reader of changes by these rules gets not all changes of the snapshot."""
    rows_before = snapshot.total_record_count - snapshot.delta_record_count
    if snapshot.commit_kind is CommitKind.OVERWRITE and not rules.overwrites and rows_before > 0:
        missing = "the deleted rows" if rules.keyed else "the rows that it added, changed and deleted"
        said = f"replaced files, and the stream does not report {missing}: {advice(rules, snapshot.id)}"
        _warn(location, snapshot.id, snapshot.delta_manifest_list, said)
    is_new_rows = rules.keyed and snapshot.commit_kind is CommitKind.APPEND and snapshot.delta_record_count > 0
    if rules.producer is ChangelogProducer.INPUT and is_new_rows and snapshot.changelog_manifest_list is None:
        said = (
            "was written without a changelog, perhaps by another 'changelog-producer' than the table has now, and a "
            f"reader of changelogs does not report its changes. {_by_comparison(snapshot.id)}"
        )
        _warn(location, snapshot.id, snapshot.delta_manifest_list, said)
    if rules.producer is ChangelogProducer.INPUT and not rules.keyed and snapshot.commit_kind is CommitKind.APPEND:
        said = (
            "has no changelog, as no snapshot of a table without a primary key, and a reader of changelogs does not "
            f"report its rows. Read table.changes({snapshot.id}, {snapshot.id}), or set "
            "'incremental-between-scan-mode' = 'delta'"
        )
        _warn(location, snapshot.id, snapshot.delta_manifest_list, said)


def warn_of_left_out(location: str, snapshot: Snapshot, *, keyed: bool) -> None:
    """Log, once for each commit, that the changes of a range of snapshots lack those of an overwrite."""
    if snapshot.total_record_count or snapshot.delta_record_count:
        by_versions = f"Compare the versions {snapshot.id - 1} and {snapshot.id} of the table"
        if snapshot.id == FIRST_SNAPSHOT_ID:
            by_versions = f"Read the version {snapshot.id} of the table"
        said = "replaced files, and the changes of snapshots leave those of overwrites out"
        compared = f"Read table.changes({snapshot.id}, {snapshot.id}, mode='diff')" if keyed else by_versions
        _warn(location, snapshot.id, snapshot.delta_manifest_list, f"{said}. {compared}")


def advice(rules: SnapshotChangeRules, snapshot_id: int) -> str:
    """Return the advice how to read the changes of an overwrite."""
    if not rules.keyed:
        return "set 'streaming-read-append-overwrite' to get all rows of its new files, or start a new stream"
    if rules.producer in (ChangelogProducer.NONE, ChangelogProducer.INPUT):
        return "set 'streaming-read-overwrite'"
    return f"'changelog-producer' = '{rules.producer}' does not contain them. {_by_comparison(snapshot_id)}"


def _by_comparison(snapshot_id: int) -> str:
    return f"Read table.changes({snapshot_id}, {snapshot_id}, mode='diff'), or start a new stream"


@lru_cache(maxsize=_REMEMBERED)
def _warn(location: str, snapshot_id: int, commit: str, said: str) -> None:
    """Log the warning. The cache holds the last commits, so that each is logged once."""
    del commit
    _log.warning("Snapshot %d of %s %s.", snapshot_id, location, said)
