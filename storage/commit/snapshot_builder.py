"""Build the snapshot that follows another one, write its manifests, and choose the manifests to rewrite.

A commit merges manifests so that their number stays small. A minor merge joins adjacent manifests when they reach the
target size together, and the rest when there are many. A full merge resolves all deletions; it is due when small
manifests and manifests with deletions are larger than a threshold together.
"""

import time
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from interbed.storage.base.types.data_type import DataField
from interbed.storage.commit.changes import record_delta
from interbed.storage.commit.manifest_writer import ManifestWriter
from interbed.storage.meta.manifest.entry import (
    FileIdentifier,
    FileKind,
    ManifestEntry,
    ManifestFileMeta,
    merge_entries,
)
from interbed.storage.meta.options.core import CoreOptions
from interbed.storage.meta.snapshot.snapshot import FIRST_SNAPSHOT_ID, CommitKind, Snapshot
from interbed.storage.scan.manifest_reader import ManifestReader
from interbed.storage.scan.partition_filter import PartitionSet


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestGroup:
    """Adjacent manifests; a single one is kept unchanged, several are merged into new ones."""

    manifests: tuple[ManifestFileMeta, ...]

    @property
    def is_merged(self) -> bool:
        """Whether the group is rewritten."""
        return len(self.manifests) > 1


def must_change(manifest: ManifestFileMeta, target_size: int) -> bool:
    """Return whether a full merge always rewrites the manifest: it deletes files, or it is small."""
    return manifest.num_deleted_files > 0 or manifest.file_size < target_size


def needs_full_merge(manifests: Collection[ManifestFileMeta], *, target_size: int, threshold: int) -> bool:
    """Return whether there are several manifests, and those that must change reach the threshold in size."""
    size = sum(m.file_size for m in manifests if must_change(m, target_size))
    return len(manifests) > 1 and size >= threshold


def can_merge_fully(manifests: Collection[ManifestFileMeta], *, target_size: int) -> bool:
    """Return whether a full merge has an effect: it has two or more manifests to rewrite, or deletions to resolve."""
    changing = [m for m in manifests if must_change(m, target_size)]
    return len(manifests) > 1 and (len(changing) > 1 or any(m.num_deleted_files for m in changing))


def minor_merge_groups(
    manifests: Sequence[ManifestFileMeta], *, target_size: int, min_count: int
) -> list[ManifestGroup]:
    """Return the manifests in their order, cut into groups; every manifest is in exactly one."""
    groups: list[ManifestGroup] = []
    candidates: list[ManifestFileMeta] = []
    size = 0
    for manifest in manifests:
        candidates.append(manifest)
        size += manifest.file_size
        if size >= target_size:
            groups.append(ManifestGroup(manifests=tuple(candidates)))
            candidates, size = [], 0
    if len(candidates) >= max(min_count, 2):
        groups.append(ManifestGroup(manifests=tuple(candidates)))
    else:
        groups += [ManifestGroup(manifests=(m,)) for m in candidates]
    return groups


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotFacts:
    """Facts of a commit's snapshot that do not depend on its base snapshot."""

    kind: CommitKind
    user: str
    identifier: int
    watermark: int | None = None
    properties: Mapping[str, str] | None = None
    statistics: str | None = None
    """Name of the statistics file that the snapshot adds; without one the statistics of its base are kept."""


class SnapshotBuilder:
    """Builder of the snapshot of one commit. What does not depend on the base snapshot is written once."""

    def __init__(
        self,
        reader: ManifestReader,
        writer: ManifestWriter,
        options: CoreOptions,
        partition_fields: Sequence[DataField],
        facts: SnapshotFacts,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._options = options
        self._partition_fields = partition_fields
        self._facts = facts
        self._delta: tuple[tuple[ManifestEntry, ...], list[ManifestFileMeta], tuple[str, int]] | None = None
        self._changelog: tuple[str, int] | None = None
        self._merged: tuple[list[ManifestFileMeta], list[ManifestFileMeta]] | None = None
        self._base_list: str | None = None
        self._tries = 0

    @property
    def delta_manifests(self) -> frozenset[str]:
        """Names of the manifests with the last snapshot's own changes."""
        return frozenset() if self._delta is None else frozenset(m.file_name for m in self._delta[1])

    def prepare(self, delta: tuple[ManifestEntry, ...]) -> None:
        """Write the manifests that `build` needs if the changes stay the same."""
        self._write_delta(delta)

    def build(
        self,
        latest: Snapshot | None,
        delta: tuple[ManifestEntry, ...],
        *,
        schema_id: int,
        index_manifest: str | None,
        changelog: tuple[ManifestEntry, ...] = (),
        log_offsets: Mapping[str, int] | None = None,
        next_row_id: int | None = None,
    ) -> Snapshot:
        """Write the manifests and lists and return the snapshot after `latest`.

        `changelog` is the same at each attempt. `log_offsets` are the known end offsets of the table's log; they never
        decrease. `next_row_id` is the first id that no row of a table with row ids has.
        """
        facts = self._facts
        if changelog and self._changelog is None:
            self._changelog = self._writer.write_list(self._writer.write(changelog))
        changelog_list, changelog_size = self._changelog or (None, None)
        base = [] if latest is None else self._merge(self._reader.data(latest))
        self._discard_base_list()
        self._tries += 1
        base_list, base_size = self._writer.write_list(base)
        self._base_list = base_list
        delta_list, delta_size = self._write_delta(delta)
        records = record_delta(delta)
        now = int(time.time() * 1000)
        watermarks = [w for w in (facts.watermark, latest.watermark if latest else None) if w is not None]
        return Snapshot(
            id=FIRST_SNAPSHOT_ID if latest is None else latest.id + 1,
            schema_id=schema_id,
            base_manifest_list=base_list,
            base_manifest_list_size=base_size,
            delta_manifest_list=delta_list,
            delta_manifest_list_size=delta_size,
            changelog_manifest_list=changelog_list,
            changelog_manifest_list_size=changelog_size,
            changelog_record_count=record_delta(changelog) if changelog else None,
            index_manifest=index_manifest,
            commit_user=facts.user,
            commit_identifier=facts.identifier,
            commit_kind=facts.kind,
            # Snapshots are searched by time as a sorted list, so a clock that lags behind must not break the order.
            time_millis=now if latest is None else max(now, latest.time_millis),
            total_record_count=(latest.total_record_count if latest else 0) + records,
            delta_record_count=records,
            uuid=str(uuid.uuid4()),
            writer_version=writer_version(),
            watermark=max(watermarks, default=None),
            # Statistics describe columns, so those of another schema are not kept.
            statistics=facts.statistics
            or (latest.statistics if latest is not None and latest.schema_id == schema_id else None),
            properties=dict(facts.properties) if facts.properties else None,
            next_row_id=next_row_id,
            log_offsets=later_offsets(latest.log_offsets if latest is not None else None, log_offsets),
        )

    def _write_delta(self, delta: tuple[ManifestEntry, ...]) -> tuple[str, int]:
        if self._delta is not None:
            entries, manifests, written = self._delta
            if entries == delta:
                return written
            self._writer.discard([*(m.file_name for m in manifests), written[0]])
        manifests = self._writer.write(delta)
        written = self._writer.write_list(manifests)
        self._delta = (delta, manifests, written)
        return written

    def _discard_base_list(self) -> None:
        # The list of an earlier attempt belongs to a snapshot that lost the race.
        if self._base_list is not None:
            self._writer.discard([self._base_list])
            self._base_list = None

    def _merge(self, manifests: list[ManifestFileMeta]) -> list[ManifestFileMeta]:
        """Return the manifests, merged where it is due.

        Only the first attempt merges; later ones reuse the result if possible.
        """
        if self._tries == 0:
            merged = self._merge_now(manifests)
            if merged != manifests:
                self._merged = (manifests, merged)
            return merged
        if self._merged is not None:
            before, after = self._merged
            if manifests[: len(before)] == before:
                return [*after, *manifests[len(before) :]]
            # Another writer has merged them since.
            known = {m.file_name for m in before}
            self._writer.discard([m.file_name for m in after if m.file_name not in known])
            self._merged = None
        return manifests

    def _merge_now(self, manifests: list[ManifestFileMeta]) -> list[ManifestFileMeta]:
        options = self._options
        target = options.manifest_target_file_size
        if needs_full_merge(manifests, target_size=target, threshold=options.manifest_full_compaction_size):
            return self._merge_fully(manifests, target)
        merged: list[ManifestFileMeta] = []
        for group in minor_merge_groups(manifests, target_size=target, min_count=options.manifest_merge_min_count):
            if group.is_merged:
                entries = merge_entries(self._reader.entries(group.manifests), keep_deletes=True)
                merged += self._writer.write(entries)
            else:
                merged += group.manifests
        return merged

    def _merge_fully(self, manifests: list[ManifestFileMeta], target: int) -> list[ManifestFileMeta]:
        """Resolve every deletion; large manifests without deleted files are kept unchanged."""
        deleting = [m for m in manifests if m.num_deleted_files > 0]
        deleted: set[FileIdentifier] = set()
        partitions: set[bytes] = set()
        for entry in self._reader.entries(deleting):
            if entry.kind is FileKind.DELETE:
                deleted.add(entry.identifier)
                partitions.add(entry.partition)
        large = [m for m in manifests if not must_change(m, target)]
        suspects = {m.file_name for m in PartitionSet(partitions, self._partition_fields).manifests(large)}
        kept: list[ManifestFileMeta] = []
        rewritten: list[ManifestEntry] = []
        for manifest in manifests:
            if must_change(manifest, target):
                rewritten += self._reader.manifest(manifest)
                continue
            entries = self._reader.manifest(manifest) if manifest.file_name in suspects else []
            if any(e.identifier in deleted for e in entries):
                rewritten += entries
            else:
                kept.append(manifest)
        return [*kept, *self._writer.write(merge_entries(rewritten))]


def later_offsets(one: Mapping[str, int] | None, other: Mapping[str, int] | None) -> Mapping[str, int] | None:
    """Return the later of both offsets for each partition of a log; None when there are none."""
    both = {**(one or {}), **(other or {})}
    found = {partition: max(offset, (one or {}).get(partition, offset)) for partition, offset in both.items()}
    return found or None


@cache
def writer_version() -> str:
    """Name of this writer in snapshots, with its version."""
    try:
        return f"interbed-{version('interbed')}"
    except PackageNotFoundError:
        return "interbed"
