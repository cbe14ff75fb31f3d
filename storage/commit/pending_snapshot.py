"""Snapshot that a commit is about to make: its changes, and the state that they are checked against.

A pending snapshot is checked again at each retry. It keeps the live files of the partitions that it touches and updates
them by the changes that other writers committed since the last attempt. An overwrite deletes the live files of the
partitions that it replaces, and adds the new ones.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from interbed.storage.base.bucket_id import BucketId
from interbed.storage.base.errors import CommitConflictError, NotSupportedError, SnapshotNotFoundError
from interbed.storage.commit.basis import CommitBasis
from interbed.storage.commit.changes import MessageChanges
from interbed.storage.commit.committed import PartIdentity
from interbed.storage.commit.snapshot_builder import SnapshotFacts
from interbed.storage.meta.bucket_mode import BucketMode, bucket_mode
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.manifest.entry import FileKind, ManifestEntry, ManifestFileMeta, merge_entries
from interbed.storage.meta.manifest.index_manifest import IndexManifestEntry
from interbed.storage.meta.paths import POSTPONE_BUCKET
from interbed.storage.meta.snapshot.manager import SnapshotManager
from interbed.storage.meta.snapshot.snapshot import CommitKind, Snapshot
from interbed.storage.scan.manifest_reader import ManifestReader
from interbed.storage.scan.partition_filter import AllPartitions, PartitionFilter


class BaseFiles:
    """Live files of partitions. A full read happens once; for a later snapshot only the changes since are read."""

    def __init__(self, reader: ManifestReader, snapshots: SnapshotManager, partitions: PartitionFilter) -> None:
        self._reader = reader
        self._snapshots = snapshots
        self._partitions = partitions
        self._known: tuple[Snapshot, list[ManifestEntry]] | None = None

    def at(self, snapshot: Snapshot | None) -> list[ManifestEntry]:
        """Return the files in the snapshot, in order of addition; none without a snapshot."""
        if snapshot is None:
            return []
        files = self._advanced(snapshot)
        if files is None:
            files = merge_entries(self._entries(self._reader.data(snapshot)))
        self._known = (snapshot, files)
        return files

    def _advanced(self, snapshot: Snapshot) -> list[ManifestEntry] | None:
        """Return the files by the deltas since the last read; None where only a full read is safe."""
        if self._known is None:
            return None
        known, files = self._known
        if known == snapshot:
            return files
        if snapshot.id <= known.id:
            return None
        try:
            # After a rollback other snapshots may have the same ids.
            if self._snapshots.read(known.id) != known:
                return None
            between = [self._snapshots.snapshot(i) for i in range(known.id + 1, snapshot.id)]
        except SnapshotNotFoundError:
            return None
        entries = list(files)
        for step in (*between, snapshot):
            # Some overwrites of other writers remove files without listing them as deleted.
            if step.commit_kind is CommitKind.OVERWRITE:
                return None
            entries += self._entries(self._reader.delta(step))
        return merge_entries(entries)

    def _entries(self, manifests: list[ManifestFileMeta]) -> Iterable[ManifestEntry]:
        entries = list(self._reader.entries(self._partitions.manifests(manifests)))
        selected = self._partitions.select({e.partition for e in entries})
        return (e for e in entries if e.partition in selected)


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingSnapshot:
    """Snapshot to be made. `against` returns its changes on top of a snapshot; `base` are the files to check against.

    `new_paths` are the files that it is the first to refer to, without its manifests; `looked_up` is that of
    PartChanges.
    """

    identity: PartIdentity
    against: Callable[[Snapshot | None], tuple[ManifestEntry, ...]]
    base: BaseFiles
    check: bool
    new_paths: Sequence[str] = ()
    overwritten: PartitionFilter | None = None
    changelog: tuple[ManifestEntry, ...] = ()
    indexes: tuple[IndexManifestEntry, ...] = ()
    basis: CommitBasis = field(default_factory=CommitBasis)
    compacted: frozenset[str] = frozenset()
    looked_up: Mapping[BucketId, frozenset[str]] = field(default_factory=dict[BucketId, frozenset[str]])

    @property
    def facts(self) -> SnapshotFacts:
        """Facts of the snapshot that do not depend on its base."""
        return self.identity.facts


class OverwriteChanges:
    """Changes of one overwrite against the newest snapshot at each attempt.

    With `keeps_postponed` rows that wait for their bucket are left alone.
    """

    def __init__(self, base: BaseFiles, new_files: Sequence[ManifestEntry], *, keeps_postponed: bool = False) -> None:
        self._base = base
        self._new_files = tuple(new_files)
        self._keeps_postponed = keeps_postponed

    def against(self, latest: Snapshot | None) -> tuple[ManifestEntry, ...]:
        """Return deletions of all live files of the partitions, then the additions."""
        old_files = self._base.at(latest)
        if self._keeps_postponed:
            old_files = [e for e in old_files if e.bucket != POSTPONE_BUCKET]
        return replaced_by(old_files, self._new_files)


@dataclass(frozen=True, slots=True, kw_only=True)
class OneStep:
    """Overwrite and compaction of its new files as one change; `needless` files were added and deleted within it."""

    files: tuple[ManifestEntry, ...]
    indexes: tuple[IndexManifestEntry, ...]
    changelog: tuple[ManifestEntry, ...]
    needless_files: tuple[ManifestEntry, ...]
    needless_indexes: tuple[IndexManifestEntry, ...]


def in_one_step(changes: MessageChanges) -> OneStep | None:
    """Combine new files with their compaction. None when the compaction also removes other files. Pure."""
    files = [*changes.append.files, *changes.compact.files]
    indexes = [*changes.append.indexes, *changes.compact.indexes]
    deleted = {e.identifier for e in files if e.kind is FileKind.DELETE}
    deleted_indexes = {(e.partition, e.bucket, e.file.file_name) for e in indexes if e.kind is FileKind.DELETE}
    added = [e for e in files if e.kind is FileKind.ADD]
    added_indexes = [e for e in indexes if e.kind is FileKind.ADD]
    if deleted - {e.identifier for e in added}:
        return None
    remaining = tuple(e for e in added if e.identifier not in deleted)
    names = {e.file.file_name for e in remaining}
    remaining_indexes = tuple(
        e for e in added_indexes if (e.partition, e.bucket, e.file.file_name) not in deleted_indexes
    )
    return OneStep(
        files=remaining,
        indexes=remaining_indexes,
        changelog=changes.compact.changelog,
        # A file that only moved to another level keeps its name.
        needless_files=tuple(e for e in added if e.file.file_name not in names),
        needless_indexes=tuple(e for e in added_indexes if e not in remaining_indexes),
    )


def replaced_by(base: Sequence[ManifestEntry], new_files: Sequence[ManifestEntry]) -> tuple[ManifestEntry, ...]:
    """Return deletions of the base files, then the additions. Pure."""
    return (*(replace(e, kind=FileKind.DELETE) for e in base), *new_files)


def check_keys_once(store: FileStore, reader: ManifestReader, target: PartitionFilter) -> None:
    """Refuse to overwrite a part of a cross-partition table: its keys might be in two partitions afterwards.

    Raises NotSupportedError when partitions with files remain.
    """
    if bucket_mode(store.schema, store.options) is not BucketMode.CROSS_PARTITION:
        return
    latest = store.snapshots.latest()
    if latest is None:
        return
    live = {e.partition for e in BaseFiles(reader, store.snapshots, AllPartitions()).at(latest)}
    if live - target.select(live):
        raise NotSupportedError(
            f"The primary key of {store.location} leaves out a partition column, so that keys of the new rows may be "
            "in partitions that stay. Overwrite the whole table (partition={}), or truncate the partition and upsert "
            "the rows."
        )


def check_visible(store: FileStore, reader: ManifestReader, target: PartitionFilter, snapshot_id: int) -> None:
    """Refuse to overwrite rows of a snapshot that its scans do not return before a compaction.

    These are the rows of level 0 in tables with deletion vectors and in first-row tables, and rows without a bucket.
    Raises CommitConflictError for such rows in the partitions of `target`.
    """
    skips = store.schema.has_primary_key and store.options.scans_skip_level_0
    if snapshot_id == 0 or not (skips or bucket_mode(store.schema, store.options) is BucketMode.POSTPONED):
        return
    live = BaseFiles(reader, store.snapshots, target).at(store.snapshots.snapshot(snapshot_id))
    rows = sum(e.file.row_count for e in live if e.bucket == POSTPONE_BUCKET or (skips and e.file.level == 0))
    if rows:
        raise CommitConflictError(
            f"Snapshot {snapshot_id} of {store.location} has {rows} rows to be replaced that a scan returns only after "
            "a compaction. Nothing was changed; compact the table, read it again and redo the work."
        )


def check_same_columns(store: FileStore) -> None:
    """Raise CommitConflictError when the table got other columns since rows were read to compute changes from them."""
    if store.has_other_columns():
        raise CommitConflictError(
            f"The columns of the table at {store.location} were changed since it was opened. Rows that are computed "
            "without the new columns would replace their values. Nothing was changed; open the table again and run "
            "the statement again."
        )
