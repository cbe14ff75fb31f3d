"""Write the manifests, the manifest lists and the index manifest of one commit, and remove them when the commit fails.

The index manifest of the next snapshot is that of the previous snapshot, without the index files that the commit
deletes and with those that it adds (specification page `spec/manifest`, index manifest). Records are copied unchanged,
including fields that this version does not know. A bucket has one index file of each type, so a new one replaces the
old one. In tables without buckets the deletion vectors of a partition may lie in several files, which are added and
deleted by name.
"""

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any

from interbed.storage.base.avro.records import RecordFile
from interbed.storage.base.columnar_records import ColumnFile
from interbed.storage.base.errors import CommitConflictError
from interbed.storage.base.types.data_type import DataType
from interbed.storage.io.api import FileIO
from interbed.storage.io.parallel import PendingWrites
from interbed.storage.meta.manifest.entry import FileKind, ManifestEntry, ManifestFileMeta
from interbed.storage.meta.manifest.index_manifest import (
    DELETION_VECTORS,
    HASH_INDEX,
    LAYOUT,
    IndexManifestEntry,
    index_entry,
    index_record,
)
from interbed.storage.meta.manifest.manifest_file import make_meta, read_file, write_manifest, write_manifest_list
from interbed.storage.meta.options.core import CoreOptions
from interbed.storage.meta.paths import TablePaths
from interbed.storage.meta.snapshot.snapshot import Snapshot
from interbed.storage.scan.manifest_reader import ManifestReader, note_content
from interbed.storage.scan.partition_filter import AllPartitions, PartitionFilter

# Cut a part at a tenth above the target, so that variation of the compression does not put it below the target.
_ROLL_AIM = 1.1
_ROLL_SLACK = 1.25


class ManifestWriter:
    """Writer of metadata files under new names, which it remembers. Not thread-safe.

    In an object store the uploads may still run when a method returns; `finish` waits for them. Files have the table's
    `manifest.format` and `manifest.compression`; InvalidOptionError for other values.
    """

    def __init__(
        self,
        file_io: FileIO,
        paths: TablePaths,
        options: CoreOptions,
        *,
        partition_types: Sequence[DataType],
        schema_id: int,
    ) -> None:
        self._file_io = file_io
        self._paths = paths
        self._partition_types = partition_types
        self._schema_id = schema_id
        self.codec = options.manifest_compression
        self.file_format = options.manifest_format
        self._target_size = options.manifest_target_file_size
        self._pending = PendingWrites(file_io)
        self._written: set[str] = set()
        self._synced: set[str] = set()

    def write(self, entries: Sequence[ManifestEntry]) -> list[ManifestFileMeta]:
        """Write manifests with the entries in order; all but the last have at least the target size.

        A manifest below the target size counts as small and is merged again, so parts must not fall short of it. No
        entries make no manifests.
        """
        manifests: list[ManifestFileMeta] = []
        rest = entries
        while rest:
            content = write_manifest(rest, self.codec, self.file_format)
            part = rest
            while len(content) > self._target_size * _ROLL_SLACK and len(part) > 1:
                fitting = math.ceil(len(part) * self._target_size * _ROLL_AIM / len(content))
                shorter = part[: max(1, min(fitting, len(part) - 1))]
                shortened = write_manifest(shorter, self.codec, self.file_format)
                if len(shortened) < self._target_size:
                    break
                part, content = shorter, shortened
            manifests.append(self._put_manifest(part, content))
            rest = rest[len(part) :]
        return manifests

    def write_list(self, manifests: Sequence[ManifestFileMeta]) -> tuple[str, int]:
        """Write a manifest list. Return its name and size in bytes."""
        name = self._paths.new_manifest_list_name()
        content = write_manifest_list(manifests, self.codec, self.file_format)
        self._put(name, content)
        return name, len(content)

    def put_index_manifest(self, content: bytes) -> str:
        """Write an index manifest with this content. Return its name."""
        name = self._paths.new_index_manifest_name()
        self._put(name, content)
        return name

    def finish(self) -> None:
        """Wait until all files are written; raises StorageAccessError naming a file that could not be written."""
        self._pending.finish()

    def sync(self, others: Sequence[str] = ()) -> None:
        """Make durable what was written since the last sync and is not discarded, together with other files.

        Raises SyncFailedError.
        """
        new = sorted(self._written - self._synced)
        self._file_io.sync([*others, *new])
        self._synced.update(new)

    def discard(self, names: Sequence[str]) -> None:
        """Delete the named files that this commit wrote."""
        paths = [self._paths.manifest(n) for n in names]
        self._pending.settle()
        ours = [p for p in paths if p in self._written]
        self._written.difference_update(ours)
        self._file_io.delete_quietly(ours)

    def discard_all(self) -> None:
        """Delete every file that this commit wrote: nothing refers to them."""
        self._pending.settle()
        self._file_io.delete_quietly(sorted(self._written))
        self._written.clear()

    def _put_manifest(self, entries: Sequence[ManifestEntry], content: bytes) -> ManifestFileMeta:
        name = self._paths.new_manifest_name()
        self._put(name, content)
        return make_meta(name, len(content), entries, self._schema_id, self._partition_types)

    def _put(self, name: str, content: bytes) -> None:
        """Write one file of the manifest directory and remember it."""
        path = self._paths.manifest(name)
        self._written.add(path)
        self._pending.write(path, content)
        note_content(self._file_io, path, content)


_Record = dict[str, Any]


class IndexFiles:
    """Index manifest of the snapshots of one commit; a new one is written at most once for each base snapshot.

    `overwritten` are partitions that lose all their index files; `changes` are the index files that the commit adds and
    deletes. `bucketed` says whether rows have a bucket each. `compacted` names the data files whose rows were
    rewritten, except rows that were deleted before.
    """

    def __init__(
        self,
        reader: ManifestReader,
        writer: ManifestWriter,
        overwritten: PartitionFilter | None,
        changes: Sequence[IndexManifestEntry] = (),
        *,
        bucketed: bool = True,
        compacted: Collection[str] = (),
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._overwritten = overwritten
        self._changes = changes
        self._bucketed = bucketed
        self._compacted = compacted
        self._known: dict[str | None, str | None] = {}

    def after(self, latest: Snapshot | None) -> str | None:
        """Return the name of the index manifest to refer to, or None when there are no index files.

        Raises CommitConflictError when an index file that the changes replace is not the table's any more.
        """
        previous = None if latest is None else latest.index_manifest
        if isinstance(self._overwritten, AllPartitions):
            previous = None
        unchanged = self._overwritten is None and not self._compacted
        if not self._changes and (previous is None or unchanged):
            return previous
        if previous not in self._known:
            for superseded in self._known.values():
                # It belongs to an earlier attempt, which lost the race to another writer.
                if superseded is not None:
                    self._writer.discard([superseded])
            self._known = {previous: self._changed(previous)}
        return self._known[previous]

    def _changed(self, name: str | None) -> str | None:
        file = self._file(name)
        kept = records = file.records
        if self._overwritten is not None:
            removed = self._overwritten.select({r["_PARTITION"] for r in records})
            kept = [r for r in records if r["_PARTITION"] not in removed]
        kept = _combined(kept, self._changes, bucketed=self._bucketed)
        _check_no_vectors(kept, frozenset(self._compacted))
        if name is not None and kept == records:
            return name
        if not kept:
            return None
        return self._writer.put_index_manifest(replace(file, records=kept).to_bytes())

    def _file(self, name: str | None) -> RecordFile | ColumnFile:
        """Return an index manifest, with the schema and the codec by which the next one is written."""
        new = LAYOUT.new_file(self._writer.codec, self._writer.file_format)
        if name is None:
            return new
        content = self._reader.content(name)
        file = read_file(content, self._writer.codec, source=self._reader.path(name))
        if file.file_format != new.file_format:
            return replace(new, records=file.records)
        # New entries need all current fields. A file with additional fields of another version keeps its own schema.
        return file if not self._changes or LAYOUT.is_wider(file) else replace(new, records=file.records)


def _combined(records: list[_Record], changes: Sequence[IndexManifestEntry], *, bucketed: bool) -> list[_Record]:
    removed = [e for e in changes if e.kind is FileKind.DELETE]
    added = [e for e in changes if e.kind is FileKind.ADD]
    known = {r["_FILE_NAME"] for r in records} if changes else set()
    for entry in removed:
        if entry.file.file_name not in known:
            raise CommitConflictError(
                f"The index file {entry.file.file_name} of bucket {entry.bucket} is not the table's any more: another "
                "writer replaced it. Read the table again and redo the work."
            )
    names = {e.file.file_name for e in removed}
    places = {_place(e) for e in added if _one_a_bucket(e.file.index_type, bucketed)}
    _check_vectors_known(records, names, places)
    kept = [
        r
        for r in records
        if not changes
        or (r["_FILE_NAME"] not in names and (r["_PARTITION"], r["_BUCKET"], r["_INDEX_TYPE"]) not in places)
    ]
    if not bucketed:
        _check_vectors_once(kept, added)
    return [*kept, *(index_record(e) for e in added)]


def _check_vectors_known(
    records: Iterable[_Record], removed: Collection[str], places: Collection[tuple[bytes, int, str]]
) -> None:
    """Raise CommitConflictError when vectors would replace others that they were not computed from."""
    vectors = (r for r in records if r["_INDEX_TYPE"] == DELETION_VECTORS)
    for record in vectors:
        place = (record["_PARTITION"], record["_BUCKET"], DELETION_VECTORS)
        if place in places and record["_FILE_NAME"] not in removed:
            raise CommitConflictError(
                f"Another writer marked rows of bucket {record['_BUCKET']} as deleted at the same time. Read the table "
                "again and redo the work."
            )


def _check_vectors_once(kept: Iterable[_Record], added: Iterable[IndexManifestEntry]) -> None:
    """Raise CommitConflictError when a data file would have two deletion vectors: one of them would be lost."""
    owners = {v.data_file_name: e.file.file_name for e in added for v in e.file.deletion_vectors or ()}
    for record in kept:
        if record["_INDEX_TYPE"] != DELETION_VECTORS or not owners:
            continue
        for vector in index_entry(record, "the index manifest").file.deletion_vectors or ():
            if vector.data_file_name in owners:
                raise CommitConflictError(
                    f"Another writer deleted rows of {vector.data_file_name} at the same time. Read the table again "
                    "and redo the work."
                )


def _check_no_vectors(kept: Iterable[_Record], compacted: Collection[str]) -> None:
    """Raise CommitConflictError when a compacted file still has a vector: its deleted rows would reappear."""
    for record in kept:
        if record["_INDEX_TYPE"] != DELETION_VECTORS or not compacted:
            continue
        for vector in index_entry(record, "the index manifest").file.deletion_vectors or ():
            if vector.data_file_name in compacted:
                raise CommitConflictError(
                    f"Another writer deleted rows of {vector.data_file_name} while it was compacted. Compact again."
                )


def _one_a_bucket(index_type: str, bucketed: bool) -> bool:
    return index_type == HASH_INDEX or (index_type == DELETION_VECTORS and bucketed)


def _place(entry: IndexManifestEntry) -> tuple[bytes, int, str]:
    return entry.partition, entry.bucket, entry.file.index_type
