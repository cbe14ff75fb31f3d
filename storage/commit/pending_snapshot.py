"""One snapshot that a commit is to make: what it changes, and what it is checked against.

A pending snapshot is checked again at each retry, so it keeps the live files of the partitions that it touches and
updates them by what other writers committed since the last try.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from interbed.storage.base.bucket_id import BucketId
from interbed.storage.base.errors import SnapshotNotFoundError
from interbed.storage.commit.basis import CommitBasis
from interbed.storage.commit.committed import PartIdentity
from interbed.storage.commit.snapshot_builder import SnapshotFacts
from interbed.storage.meta.manifest.entry import ManifestEntry, ManifestFileMeta, merge_entries
from interbed.storage.meta.manifest.index_manifest import IndexManifestEntry
from interbed.storage.meta.snapshot.manager import SnapshotManager
from interbed.storage.meta.snapshot.snapshot import CommitKind, Snapshot
from interbed.storage.scan.manifest_reader import ManifestReader
from interbed.storage.scan.partition_filter import PartitionFilter


class BaseFiles:
    """Reads a snapshot's files once; for a later snapshot it reads only what the snapshots in between changed."""

    def __init__(self, reader: ManifestReader, snapshots: SnapshotManager, partitions: PartitionFilter) -> None:
        self._reader = reader
        self._snapshots = snapshots
        self._partitions = partitions
        self._known: tuple[Snapshot, list[ManifestEntry]] | None = None

    def at(self, snapshot: Snapshot | None) -> list[ManifestEntry]:
        """The files in the snapshot, in order of addition; none without a snapshot."""
        if snapshot is None:
            return []
        files = self._advanced(snapshot)
        if files is None:
            files = merge_entries(self._entries(self._reader.data(snapshot)))
        self._known = (snapshot, files)
        return files

    def _advanced(self, snapshot: Snapshot) -> list[ManifestEntry] | None:
        """The files by way of the deltas since the last read; None where only a full read is safe."""
        if self._known is None:
            return None
        known, files = self._known
        if known == snapshot:
            return files
        if snapshot.id <= known.id:
            return None
        try:
            # The table may have been rolled back and written anew under the same ids.
            if self._snapshots.read(known.id) != known:
                return None
            between = [self._snapshots.snapshot(i) for i in range(known.id + 1, snapshot.id)]
        except SnapshotNotFoundError:
            return None
        entries = list(files)
        for step in (*between, snapshot):
            # Some overwrites of other writers drop files without listing them as deleted.
            if step.commit_kind is CommitKind.OVERWRITE:
                return None
            entries += self._entries(self._reader.delta(step))
        return merge_entries(entries)

    def _entries(self, manifests: list[ManifestFileMeta]) -> Iterable[ManifestEntry]:
        entries = list(self._reader.entries(self._partitions.manifests(manifests)))
        meant = self._partitions.select({e.partition for e in entries})
        return (e for e in entries if e.partition in meant)


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingSnapshot:
    """One snapshot to be made. `against` gives its changes on top of a snapshot; `base` the files to check against.

    `new_paths` are the files that it is the first to name, but for those of its manifests; `looked_up` is that of
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
        """What is said of the snapshot."""
        return self.identity.facts
