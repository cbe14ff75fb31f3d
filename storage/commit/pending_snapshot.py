"""One snapshot that a commit is to make: what it changes, and what it is checked against."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from interbed.storage.base.bucket_id import BucketId
from interbed.storage.commit.base_files import BaseFiles
from interbed.storage.commit.basis import CommitBasis
from interbed.storage.commit.committed import PartIdentity
from interbed.storage.commit.snapshot_builder import SnapshotFacts
from interbed.storage.meta.manifest.entry import ManifestEntry
from interbed.storage.meta.manifest.index_manifest import IndexManifestEntry
from interbed.storage.meta.snapshot.snapshot import Snapshot
from interbed.storage.scan.partition_filter import PartitionFilter


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
