"""The manifests of a published table: those of the previous snapshot are kept unless one of their files was removed.

All others are written by `rolled`, in manifests of about `manifest.target-file-size`. Source: paimon-core's
IcebergCommitCallback; row ids: Iceberg's specification, "First Row ID Assignment".

Java Paimon writes Avro blocks in snappy by default. pyiceberg supports that codec only with python-snappy; here Arrow's
is used.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pyiceberg.avro import codecs
from pyiceberg.avro.codecs.codec import Codec
from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import (
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    PartitionFieldSummary,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.snapshots import Snapshot as Published
from pyiceberg.typedef import Record
from pyiceberg.types import PrimitiveType

from interbed.iceberg.meta.manifests import entries_of, manifests_of, with_status, write_manifest, write_manifest_list
from interbed.iceberg.publish.place import PublishPlace, PublishSettings, StoreIO
from interbed.storage.base.avro.codecs import compressor, decompressor
from interbed.storage.base.avro.records import METADATA_BLOCK_BYTES_MAX
from interbed.storage.io.resolve import normalize_path

_NAME: Literal["snappy"] = "snappy"


class ArrowSnappy(Codec):
    """Arrow's snappy, with the checksum that Avro has behind each block."""

    @staticmethod
    def compress(data: bytes) -> tuple[bytes, int]:
        packed = compressor(_NAME, 0)(data)
        return packed, len(packed)

    @staticmethod
    def decompress(data: bytes) -> bytes:
        return decompressor(_NAME, METADATA_BLOCK_BYTES_MAX)(data)


def use_arrow_snappy() -> None:
    """Register Arrow's codec for pyiceberg's readers and writers of Avro in this process."""
    codecs.KNOWN_CODECS[_NAME] = ArrowSnappy


use_arrow_snappy()

_ENTRY_BYTES = 200
"""The approximate size of an entry without its path and its bounds."""
_BOUND_BYTES = 8


@dataclass(slots=True)
class RewrittenManifests:
    """Manifests without removed files: the files that were removed, and those of the added files that were there
    already.
    """

    manifests: list[ManifestFile] = field(default_factory=list)
    removed: set[str] = field(default_factory=set)
    known: set[str] = field(default_factory=set)


class Manifests:
    """Reads and writes the manifests of one run of a publication. Files are identified by their paths in one spelling.

    Methods raise CorruptFileError and StorageAccessError naming the file.
    """

    def __init__(
        self, store: StoreIO, place: PublishPlace, settings: PublishSettings, schema: Schema, spec: PartitionSpec
    ) -> None:
        self._store = store
        self._place = place
        self._settings = settings
        self._schema = schema
        self._spec = spec

    # -- reading ---------------------------------------------------------------------------------------------------

    def of(self, snapshot: Published) -> list[ManifestFile]:
        """Return the manifests of a snapshot."""
        return manifests_of(self._store, snapshot)

    def entries(self, manifest: ManifestFile) -> list[ManifestEntry]:
        """Return the live entries of a manifest, with inherited values, which they keep in another manifest."""
        return entries_of(self._store, manifest)

    # -- writing ---------------------------------------------------------------------------------------------------

    def write(
        self, entries: Iterable[ManifestEntry], snapshot_id: int, content: ManifestContent = ManifestContent.DATA
    ) -> list[ManifestFile]:
        """Write new manifests of a snapshot with the entries; none without entries."""
        found = []
        for some in rolled(entries, self._settings.target_bytes):
            manifest = write_manifest(
                self._store,
                self._place.new_manifest(),
                format_version=self._settings.format_version,
                schema=self._schema,
                spec=self._spec,
                content=content,
                snapshot_id=snapshot_id,
                entries=some,
                compression=self._settings.codec,
            )
            self._store.flush()
            manifest.sequence_number = snapshot_id
            if manifest.min_sequence_number == -1:
                # Without live files any number is valid.
                manifest.min_sequence_number = snapshot_id
            found.append(manifest)
        return found

    def write_list(
        self,
        manifests: Sequence[ManifestFile],
        snapshot_id: int,
        parent_id: int | None,
        first_row_id: int | None,
    ) -> tuple[str, int | None]:
        """Write the manifest list of a snapshot. Return its path, and the next row id after it."""
        path = self._place.new_list(snapshot_id)
        next_row_id = write_manifest_list(
            self._store,
            path,
            format_version=self._settings.format_version,
            snapshot_id=snapshot_id,
            parent_snapshot_id=parent_id,
            sequence_number=snapshot_id,
            manifests=manifests,
            compression=self._settings.codec,
            first_row_id=first_row_id,
            legacy_names=self._settings.legacy_lists,
        )
        self._store.flush()
        return path, next_row_id

    def without(
        self,
        manifests: Sequence[ManifestFile],
        removed: Mapping[str, Record],
        added: Mapping[str, Record],
        snapshot_id: int,
    ) -> RewrittenManifests:
        """Return the manifests of a snapshot without removed files, which are given by their paths, with their
        partitions.
        """
        result = RewrittenManifests()
        partitions = [*removed.values(), *added.values()]
        left: list[ManifestEntry] = []
        for manifest in manifests:
            if not self._may_hold(manifest, partitions):
                result.manifests.append(manifest)
                continue
            live = {normalize_path(entry.data_file.file_path): entry for entry in self.entries(manifest)}
            result.known.update(live.keys() & added.keys())
            leaving = live.keys() & removed.keys()
            if not leaving:
                result.manifests.append(manifest)
                continue
            result.removed.update(leaving)
            left += (
                with_status(entry, ManifestEntryStatus.DELETED, snapshot_id)
                if path in leaving
                else with_status(entry, ManifestEntryStatus.EXISTING)
                for path, entry in live.items()
            )
        result.manifests += self.write(left, snapshot_id)
        return result

    def compacted(self, manifests: Sequence[ManifestFile], snapshot_id: int) -> list[ManifestFile]:
        """Return the manifests, with small ones merged if that is due, without those that have no live file."""
        living = [m for m in manifests if m.added_snapshot_id == snapshot_id or _has_live(m)]
        small = due_for_compaction([m.manifest_length for m in living], self._settings)
        if not small:
            return living
        merged = [living[place] for place in small]
        rest = [manifest for place, manifest in enumerate(living) if place not in set(small)]
        entries = (kept for manifest in merged for kept in self._merged(manifest, snapshot_id))
        result = [*rest, *self.write(entries, snapshot_id)]
        # Nothing names manifests that were written for this snapshot and merged.
        new = {normalize_path(m.manifest_path) for m in merged if m.added_snapshot_id == snapshot_id}
        own = new.intersection(self._store.written)
        self._store.files.delete_quietly(own)
        self._store.written = [path for path in self._store.written if path not in own]
        return result

    def _merged(self, manifest: ManifestFile, snapshot_id: int) -> Iterator[ManifestEntry]:
        for entry in entries_of(self._store, manifest, deleted=True):
            if entry.snapshot_id == snapshot_id and entry.status != ManifestEntryStatus.EXISTING:
                yield entry
            elif entry.status != ManifestEntryStatus.DELETED:
                yield with_status(entry, ManifestEntryStatus.EXISTING)

    def _may_hold(self, manifest: ManifestFile, partitions: Sequence[Record]) -> bool:
        """Return whether one of its files may be of one of the partitions."""
        fields = self._spec.partition_type(self._schema).fields
        if not fields or manifest.partitions is None:
            return True
        kinds = [part.field_type for part in fields]
        return any(
            all(_in_range(partition[place], manifest.partitions[place], kind) for place, kind in enumerate(kinds))
            for partition in partitions
        )


def rolled(entries: Iterable[ManifestEntry], target_bytes: int) -> Iterator[list[ManifestEntry]]:
    """Split the entries into lists, each of which makes a manifest of about that size or less."""
    some: list[ManifestEntry] = []
    size = 0
    for entry in entries:
        file = entry.data_file
        bounds = (*(file.lower_bounds or {}).values(), *(file.upper_bounds or {}).values())
        some.append(entry)
        size += _ENTRY_BYTES + len(file.file_path) + sum(_BOUND_BYTES + len(bound) for bound in bounds)
        if size >= target_bytes:
            yield some
            some, size = [], 0
    if some:
        yield some


def due_for_compaction(sizes: Sequence[int], settings: PublishSettings) -> list[int]:
    """Return the places of the manifests to merge now, given the sizes of all in bytes; none if nothing is due.
    Pure.
    """
    small = [place for place, size in enumerate(sizes) if size < settings.target_bytes * 2 // 3]
    if len(small) < max(2, settings.compact_min):
        return []
    if len(small) < settings.compact_max and sum(sizes[place] for place in small) < settings.target_bytes:
        return []
    return small


def _has_live(manifest: ManifestFile) -> bool:
    return bool((manifest.added_files_count or 0) + (manifest.existing_files_count or 0))


def _in_range(value: object, summary: PartitionFieldSummary, kind: object) -> bool:
    if value is None:
        return summary.contains_null
    if value != value or summary.lower_bound is None or summary.upper_bound is None:
        return True
    assert isinstance(kind, PrimitiveType)
    low: Any = from_bytes(kind, summary.lower_bound)
    high: Any = from_bytes(kind, summary.upper_bound)
    return bool(low <= value <= high)
