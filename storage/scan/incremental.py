"""Batch reads of the changes between two snapshots.

Options: `incremental-between`, `incremental-between-timestamp` and `incremental-to-auto-tag`. The first snapshot is
excluded, the last one included. `incremental-between-scan-mode` chooses the source of the changes: new files (`delta`),
changelog files (`changelog`), either by the table's producer (`auto`), or a comparison of the two snapshots (`diff`).
Documentation page: `flink/sql-query`, Batch Incremental.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Protocol

from interbed.storage.base.bucket_id import by_bucket
from interbed.storage.base.errors import InvalidOptionError, NotSupportedError, SnapshotNotFoundError, TagNotFoundError
from interbed.storage.lsm.levels import interval_partition
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.manifest.entry import ManifestEntry
from interbed.storage.meta.options.lsm import ChangelogProducer
from interbed.storage.meta.options.stream import INCREMENTAL_BETWEEN, INCREMENTAL_TO_AUTO_TAG, IncrementalScanMode
from interbed.storage.meta.options.version import TagPeriod
from interbed.storage.meta.snapshot.manager import ChangelogManager
from interbed.storage.meta.snapshot.snapshot import FIRST_SNAPSHOT_ID, CommitKind, Snapshot
from interbed.storage.meta.snapshot.tag import TagManager
from interbed.storage.scan.change_plan import (
    ChangedEntries,
    SnapshotChangeRules,
    check_changes_readable,
    record_split,
    splits_of_snapshot,
)
from interbed.storage.scan.split import Plan, PlanStatistics, Split
from interbed.storage.scan.starting_point import earliest_changes


class SnapshotFiles(ChangedEntries, Protocol):
    """Reader of the manifests of one read, with its filters."""

    def visible_entries(self, snapshot: Snapshot) -> list[ManifestEntry]:
        """Return the files of the snapshot that reads see."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRange:
    """Range of snapshots: those after `first`, up to and including `last`. `tagged` are those kept by tags."""

    first: int
    last: int
    tagged: Mapping[int, Snapshot] = field(default_factory=dict)

    @property
    def snapshot_ids(self) -> range:
        """Ids of the snapshots in the range."""
        return range(self.first + 1, self.last + 1)


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
        if snapshot.commit_kind is not CommitKind.OVERWRITE:
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


def chosen_range(store: FileStore) -> SnapshotRange | None:
    """Return the range that the options name; None while the table lacks snapshots, or the automatic tags."""
    options = store.options
    oldest, newest = store.snapshots.earliest_id(), store.newest_id()
    pair = options.incremental_between
    if pair is not None:
        between = _named_range(store, pair)
        if between.last < between.first:
            raise InvalidOptionError(f"Option '{INCREMENTAL_BETWEEN}' ends before it begins: '{','.join(pair)}'.")
        return None if newest is None else between
    if options.incremental_to_auto_tag is not None:
        return _up_to_automatic_tag(store, options.incremental_to_auto_tag)
    millis = options.incremental_between_millis
    if millis is None or oldest is None or newest is None:
        return None
    first, last = (_at_or_before(store, m) for m in millis)
    if options.incremental_scan_mode is IncrementalScanMode.DIFF and oldest > FIRST_SNAPSHOT_ID:
        # Older snapshots have expired, so the comparison begins with the oldest, as in Paimon.
        first = max(first, oldest)
    return SnapshotRange(first=first, last=last)


def _named_range(store: FileStore, names: tuple[str, str]) -> SnapshotRange:
    """Return the range between two tags, or between two snapshots."""
    tags = TagManager(store.file_io, store.paths)
    found = [tags.find(name) for name in names]
    if all(tag is not None for tag in found):
        first, last = (tag.snapshot for tag in found if tag is not None)
        return SnapshotRange(first=first.id, last=last.id, tagged={first.id: first, last.id: last})
    if not all(name.isdigit() for name in names):
        missing = next(name for name, tag in zip(names, found, strict=True) if tag is None)
        raise TagNotFoundError(
            f"Option '{INCREMENTAL_BETWEEN}' = '{','.join(names)}' takes two tags or two snapshot ids; there is no tag "
            f"{missing!r}."
        )
    return SnapshotRange(first=int(names[0]), last=int(names[1]))


def _up_to_automatic_tag(store: FileStore, name: str) -> SnapshotRange | None:
    """Return the range that ends with an automatic tag and begins with the automatic tag before it.

    None when either is missing. InvalidOptionError for a name that no automatic tag has.
    """
    options = store.options
    period = TagPeriod.of(options.tag_creation_period, options.tag_period_formatter, options.tag_period_length)
    begin = period.begin_of(name)
    if begin is None:
        raise InvalidOptionError(
            f"Option '{INCREMENTAL_TO_AUTO_TAG}' takes the name of an automatic tag, such as "
            f"'{period.name_of(period.last_closed(datetime.now()))}', not '{name}'."
        )
    tags = TagManager(store.file_io, store.paths)
    last = tags.find(name)
    earlier = {other: at for other, at in period.of_names(tags.names()).items() if at < begin}
    if last is None or not earlier:
        return None
    first = tags.get(max(earlier, key=lambda other: earlier[other])).snapshot
    return SnapshotRange(
        first=first.id, last=last.snapshot.id, tagged={first.id: first, last.snapshot.id: last.snapshot}
    )


def _at_or_before(store: FileStore, millis: int) -> int:
    """Return the newest snapshot of that time or before it; without any, the id before the oldest one."""
    try:
        return store.snapshots.by_time_millis(millis).id
    except SnapshotNotFoundError:
        before = [c.id for c in ChangelogManager(store.file_io, store.paths).all() if c.time_millis <= millis]
        return max(before, default=(earliest_changes(store) or 1) - 1)


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
            f"The changes after snapshot {between.first} up to {between.last} can't be read. {error} Give a range that "
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
    return splits


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
