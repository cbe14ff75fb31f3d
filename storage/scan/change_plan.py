"""Files that hold the changes of a snapshot, and their splits.

The rules are those of Paimon's follow-up scanners (ChangelogFollowUpScanner, DeltaFollowUpScanner). There is one split
for each bucket, with all of the snapshot's files, so that the changes of a key keep their order. Only append tables
without buckets, whose rows have no order, spread their files over several splits.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Protocol

from interbed.storage.base.bucket_id import BucketId, by_bucket
from interbed.storage.base.errors import CorruptFileError, NotSupportedError, SnapshotNotFoundError
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.manifest.entry import DataFileMeta, FileKind, ManifestEntry
from interbed.storage.meta.options.lsm import ChangelogProducer, MergeEngine
from interbed.storage.meta.snapshot.snapshot import FIRST_SNAPSHOT_ID, CommitKind, Snapshot
from interbed.storage.scan.split import DeletionFile, Split, append_groups
from interbed.storage.scan.starting_point import has_changelog

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

    Raises SnapshotNotFoundError when the changelog has expired; its message has the first snapshot with changes.
    """
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
    if kind is not ChangeFiles.REPLACED:
        return record_splits(store, snapshot.id, added)
    removed = [e for e in entries if e.kind is FileKind.DELETE]
    deletions: DeletionFiles = {}
    if removed and snapshot.id > FIRST_SNAPSHOT_ID and store.snapshots.exists(snapshot.id - 1):
        deletions = source.deletions_of(store.snapshots.stored(snapshot.id - 1))
    return _replaced_splits(store, snapshot.id, removed, added, deletions)


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
    splits = []
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
    return splits
