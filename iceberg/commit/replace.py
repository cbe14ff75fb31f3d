"""Committing what a job made of a table's files: a snapshot without those that it replaced, and with its own."""

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from pyiceberg.manifest import ManifestFile
from pyiceberg.table import Table as Metadata
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from interbed.iceberg.commit.attempts import Attempt, commit_retried
from interbed.iceberg.commit.home import TableHome
from interbed.iceberg.commit.replacement import Replacement, files_to_remove
from interbed.iceberg.commit.snapshot import CachedManifests, SnapshotWriter
from interbed.iceberg.meta.live_files import Content
from interbed.iceberg.meta.manifests import manifests_of
from interbed.iceberg.meta.table_metadata import whole_number
from interbed.iceberg.plan.plan import is_unpartitioned
from interbed.storage.base.errors import CommitConflictError

_TARGET = "commit.manifest.target-size-bytes"


def commit_replacement(
    home: TableHome,
    replacement: Replacement,
    properties: Mapping[str, str],
    *,
    sleep: Callable[[float], None] = time.sleep,
) -> int | None:
    """Commit what a job made; the new snapshot, None where the table would be as it was.

    `properties` go into the summary. Raises CommitConflictError when files that were read were changed meanwhile, and
    as commit_retried does: but after a CommitStateUnknownError, what the job wrote is the caller's to delete.
    """
    reader = CachedManifests()

    def attempt(table: Metadata) -> Attempt | None:
        return _attempt(table, replacement, reader, properties)

    made = commit_retried(home, attempt, sleep)
    return None if made is None else made.snapshot_id


def merge_manifests(home: TableHome, *, sleep: Callable[[float], None] = time.sleep) -> int | None:
    """Put small manifests together, by content and partition spec; the new snapshot, None with nothing to merge."""
    reader = CachedManifests()

    def attempt(table: Metadata) -> Attempt | None:
        parent = table.metadata.current_snapshot()
        if parent is None:
            return None
        merged = manifests_to_merge(manifests_of(table.io, parent), manifest_target(table.metadata))
        if not merged:
            return None
        with SnapshotWriter(table) as writer:
            return writer.merged(parent, reader.of(table.io, parent), merged)

    made = commit_retried(home, attempt, sleep)
    return None if made is None else made.snapshot_id


def manifests_to_merge(manifests: Sequence[ManifestFile], target: int) -> list[list[str]]:
    """The paths of manifests that together make one of about `target` bytes, for each that is worth making. Pure."""
    groups: dict[tuple[int, int], list[list[ManifestFile]]] = defaultdict(list)
    for manifest in manifests:
        has_live_files = (manifest.added_files_count or 0) + (manifest.existing_files_count or 0)
        if manifest.manifest_length >= target or not has_live_files:
            continue
        pieces = groups[int(manifest.content), manifest.partition_spec_id]
        if not pieces or sum(m.manifest_length for m in pieces[-1]) + manifest.manifest_length > target:
            pieces.append([])
        pieces[-1].append(manifest)
    return [[m.manifest_path for m in piece] for pieces in groups.values() for piece in pieces if len(piece) > 1]


def manifest_target(metadata: TableMetadata) -> int:
    """How large a manifest should be, in bytes; InvalidOptionError."""
    return whole_number(metadata.properties, _TARGET, 8 << 20, least=1)


def _attempt(
    table: Metadata, replacement: Replacement, reader: CachedManifests, properties: Mapping[str, str]
) -> Attempt | None:
    metadata = table.metadata
    parent = metadata.current_snapshot()
    if parent is None or not _descends(metadata, parent, replacement.snapshot_id):
        raise CommitConflictError(
            f"Snapshot {replacement.snapshot_id} of {table.location()}, which was optimized, is not among those before "
            "the newest one any more; plan it again."
        )
    manifests = reader.of(table.io, parent)
    live = [each.file for _, entries in manifests for each in entries]
    removed = files_to_remove(
        replacement,
        [file for file in live if file.content is Content.DATA],
        [file for file in live if file.content is not Content.DATA],
        partial(is_unpartitioned, metadata.specs()),
        metadata.next_sequence_number(),
    )
    if not removed and not replacement.added:
        return None
    with SnapshotWriter(table) as writer:
        return writer.replaced(parent, manifests, removed, replacement.added, properties)


def _descends(metadata: TableMetadata, snapshot: Snapshot, ancestor: int) -> bool:
    """Whether a snapshot came from another one, as far as is known."""
    found: Snapshot | None = snapshot
    while found is not None:
        if found.snapshot_id == ancestor:
            return True
        parent = found.parent_snapshot_id
        found = None if parent is None else metadata.snapshot_by_id(parent)
    return False
