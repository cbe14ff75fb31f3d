"""Commits of replaced files: a new snapshot without the files that a job replaced, and with the job's files.

A `FileReplacement` finds its conflicts with newer snapshots. Rewritten rows keep the sequence number of the snapshot
that they were read from: later equality deletes delete them, and earlier ones were applied. A data file whose equality
deletes became positions keeps its own sequence number. A `NewTableFile`, data or deletes, has everything for its
manifest entry.

`SnapshotWriter` writes the manifests of the new snapshot. A manifest that holds a removed file is written again, with
its other files unchanged; all other manifests are kept. Sources: Iceberg's table specification, "Snapshots", and the
names of the summary in its appendix F.
"""

import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pyiceberg.io import FileIO
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table as Metadata
from pyiceberg.table.metadata import TableMetadata, TableMetadataV3
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.typedef import Record

from interbed.iceberg.commit.home import CommitAttempt, TableHome, commit_retried, delete_files, snapshot_attempt
from interbed.iceberg.meta.live_files import FileContent, LiveFile, live_file
from interbed.iceberg.meta.manifests import (
    NEWEST_VERSION,
    entries_of_each,
    manifests_of,
    with_status,
    write_manifest,
    write_manifest_list,
)
from interbed.iceberg.meta.table_metadata import descends, manifest_target, with_dropped
from interbed.iceberg.plan import DataTask, DeleteIndex, is_unpartitioned
from interbed.storage.base.errors import CommitConflictError, StorageAccessError


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTableFile:
    """A new file; can be sent to another process. Metrics are by the ids of columns, under Iceberg's names of fields.

    `sequence_number` is that of its rows if it is older than the commit. `partition` is as in LiveFile.
    """

    path: str
    content: FileContent
    file_format: str
    spec_id: int
    partition: tuple[object, ...]
    records: int
    size: int
    sequence_number: int | None = None
    referenced: str | None = None
    offset: int | None = None
    length: int | None = None
    metrics: Mapping[str, Any] = field(default_factory=dict)

    def live(self, sequence_number: int) -> LiveFile:
        """Return the file as the plan of a reader has it, after a commit with that sequence number."""
        return LiveFile(
            path=self.path,
            content=self.content,
            file_format=self.file_format,
            spec_id=self.spec_id,
            partition=self.partition,
            records=self.records,
            size=self.size,
            sequence_number=sequence_number if self.sequence_number is None else self.sequence_number,
            referenced=self.referenced,
            offset=self.offset,
            length=self.length,
        )

    def entry(self, snapshot_id: int) -> ManifestEntry:
        """Return its entry in a manifest of the snapshot that adds it."""
        file = DataFile.from_args(
            _table_format_version=NEWEST_VERSION,
            content=DataFileContent(int(self.content)),
            file_path=self.path,
            file_format=FileFormat(self.file_format.upper()),
            partition=Record(*map(_value_of, self.partition)),
            record_count=self.records,
            file_size_in_bytes=self.size,
            referenced_data_file=self.referenced,
            content_offset=self.offset,
            content_size_in_bytes=self.length,
            **self.metrics,
        )
        file.spec_id = self.spec_id
        return ManifestEntry.from_args(
            _table_format_version=NEWEST_VERSION,
            status=ManifestEntryStatus.ADDED,
            snapshot_id=snapshot_id,
            sequence_number=self.sequence_number,
            file_sequence_number=None,
            data_file=file,
        )


def _value_of(key: object) -> object:
    """Return the value of a key of `live_file`, which differs for NaN."""
    return float("nan") if key == "NaN" else key


Place = tuple[str, int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReplacement:
    """The result of a job over the snapshot `snapshot_id`.

    `rewritten` are data files to remove, with the deletes that were applied to their rows. `converted` are data files
    that are kept, and whose deletes are all in the added ones now. `known` are the deletes of that snapshot.
    """

    snapshot_id: int
    rewritten: tuple[DataTask, ...]
    converted: tuple[DataTask, ...]
    added: tuple[NewTableFile, ...]
    known: frozenset[Place]

    @property
    def is_empty(self) -> bool:
        """Whether nothing changes, except that delete files without effect are removed."""
        return not (self.rewritten or self.converted or self.added)


def files_to_remove(
    replacement: FileReplacement,
    data: Sequence[LiveFile],
    deletes: Sequence[LiveFile],
    is_unpartitioned: Callable[[int], bool],
    sequence_number: int,
) -> frozenset[Place]:
    """Return the live files that the snapshot with that sequence number removes: replaced files, and deletes without
    effect.

    Raises CommitConflictError if another commit changed the files that were read.
    """
    now = {file.path: file for file in data}
    for task in (*replacement.rewritten, *replacement.converted):
        if now.get(task.file.path) != task.file:
            raise CommitConflictError(
                f"Another commit replaced {task.file.path} while it was optimized; plan it again."
            )
    _check_new_positions(replacement, deletes, is_unpartitioned)
    replaced = {task.file.place for task in replacement.rewritten}
    vectors = {task.file.path: task.deletes.vector for task in replacement.converted}
    superseded = {
        file.place for file in deletes if file.is_vector and file.referenced is not None and file.referenced in vectors
    }
    left = [file for file in deletes if file.place not in superseded]
    added = [file.live(sequence_number) for file in replacement.added]
    index = DeleteIndex([*left, *(file for file in added if file.content is not FileContent.DATA)], is_unpartitioned)
    done = {task.file.path: {file.place for file in task.deletes.files} for task in replacement.converted}
    needed: set[Place] = set()
    remaining = [file for file in data if file.place not in replaced]
    for file in (*remaining, *(file for file in added if file.content is FileContent.DATA)):
        needed.update(each.place for each in index.of(file).files if each.place not in done.get(file.path, ()))
    return frozenset(replaced | superseded | {file.place for file in left if file.place not in needed})


def _check_new_positions(
    replacement: FileReplacement, deletes: Iterable[LiveFile], is_unpartitioned: Callable[[int], bool]
) -> None:
    """Refuse newer position deletes of the replaced files: their rows would be restored, or the deletes lost."""
    unknown = [
        file for file in deletes if file.content is FileContent.POSITION_DELETES and file.place not in replacement.known
    ]
    if not unknown:
        return
    index = DeleteIndex(unknown, is_unpartitioned)
    for task in replacement.rewritten:
        if index.of(task.file).files:
            raise CommitConflictError(f"Another commit deleted rows of {task.file.path} meanwhile; plan it again.")
    for task in replacement.converted:
        if index.of(task.file).vector is not None:
            raise CommitConflictError(f"Another commit deleted rows of {task.file.path} meanwhile; plan it again.")


@dataclass(frozen=True, slots=True)
class LiveEntry:
    """A live file, and its manifest entry."""

    file: LiveFile
    entry: ManifestEntry


@dataclass(slots=True)
class CachedManifests:
    """Reads manifests, each once: they never change."""

    known: dict[str, tuple[LiveEntry, ...]] = field(default_factory=dict)

    def of(self, io: FileIO, snapshot: Snapshot) -> list[tuple[ManifestFile, tuple[LiveEntry, ...]]]:
        """Return the manifests of a snapshot with their live files."""
        manifests = manifests_of(io, snapshot)
        new = [each for each in manifests if each.manifest_path not in self.known]
        for manifest, entries in zip(new, entries_of_each(io, new), strict=True):
            self.known[manifest.manifest_path] = tuple(LiveEntry(live_file(entry), entry) for entry in entries)
        return [(each, self.known[each.manifest_path]) for each in manifests]


_CODEC = "write.avro.compression-codec"
_BY_KIND = {
    FileContent.DATA: ("data-files", "records"),
    FileContent.POSITION_DELETES: ("delete-files", "position-deletes"),
    FileContent.EQUALITY_DELETES: ("delete-files", "equality-deletes"),
}


def commit_replacement(
    home: TableHome,
    replacement: FileReplacement,
    properties: Mapping[str, str],
    *,
    sleep: Callable[[float], None] = time.sleep,
) -> int | None:
    """Commit the files of a job. Return the id of the new snapshot; None if nothing would change.

    `properties` go into the summary. Raises CommitConflictError if files that the job read were changed meanwhile, and
    as commit_retried does. After a CommitStateUnknownError, the caller must delete the files of the job.
    """
    reader = CachedManifests()

    def attempt(table: Metadata) -> CommitAttempt | None:
        return _attempt(table, replacement, reader, properties)

    made = commit_retried(home, attempt, sleep)
    return None if made is None else made.snapshot_id


def merge_manifests(home: TableHome, *, sleep: Callable[[float], None] = time.sleep) -> int | None:
    """Merge small manifests, by content and partition spec. Return the id of the new snapshot, None with nothing to
    merge.
    """
    reader = CachedManifests()

    def attempt(table: Metadata) -> CommitAttempt | None:
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
    """Return groups of paths of manifests, each of which is merged into one of about `target` bytes. Pure."""
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


def _attempt(
    table: Metadata, replacement: FileReplacement, reader: CachedManifests, properties: Mapping[str, str]
) -> CommitAttempt | None:
    metadata = table.metadata
    parent = metadata.current_snapshot()
    if parent is None or not descends(metadata, parent, replacement.snapshot_id):
        raise CommitConflictError(
            f"Snapshot {replacement.snapshot_id} of {table.location()}, which was optimized, is not an ancestor of the "
            "newest one any more; plan it again."
        )
    manifests = reader.of(table.io, parent)
    live = [each.file for _, entries in manifests for each in entries]
    removed = files_to_remove(
        replacement,
        [file for file in live if file.content is FileContent.DATA],
        [file for file in live if file.content is not FileContent.DATA],
        partial(is_unpartitioned, metadata.specs()),
        metadata.next_sequence_number(),
    )
    if not removed and not replacement.added:
        return None
    with SnapshotWriter(table) as writer:
        return writer.replaced(parent, manifests, removed, replacement.added, properties)


class SnapshotWriter:
    """Writes the files of one new snapshot beside the metadata of a table.

    A context manager: after an error it deletes the written files. Raises StorageAccessError.
    """

    def __init__(self, table: Metadata) -> None:
        self._table = table
        self._schema = table.metadata.schema()
        self._all_columns = with_dropped(self._schema, table.metadata.schemas)
        self._id = uuid.uuid4()
        self._snapshot_id = table.metadata.new_snapshot_id()
        self._written: list[str] = []

    def __enter__(self) -> "SnapshotWriter":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        if kind is None:
            return
        delete_files(self._table, self._written)
        if isinstance(error, OSError) and not isinstance(error, StorageAccessError):
            raise StorageAccessError(f"Can't write metadata of {self._table.location()}: {error}") from error

    def replaced(
        self,
        parent: Snapshot,
        manifests: Sequence[tuple[ManifestFile, tuple[LiveEntry, ...]]],
        removed: Collection[Place],
        added: Sequence[NewTableFile],
        properties: Mapping[str, str],
    ) -> CommitAttempt:
        """Return the snapshot after `parent`, whose manifests are given, without removed files and with added ones."""
        result: list[ManifestFile] = []
        tally = _Tally()
        for content, spec_id, entries in self._added(added):
            result.append(self._manifest(content, spec_id, entries))
        for file in added:
            tally.count("added", file.content, file.size, file.records, is_vector=file.file_format == "puffin")
        for manifest, live in manifests:
            leaving = [each for each in live if each.file.place in removed]
            if not leaving:
                # Manifests without live files are only needed by older snapshots.
                if live:
                    result.append(manifest)
                continue
            for each in leaving:
                tally.count("removed", each.file.content, each.file.cost, each.file.records, each.file.is_vector)
            entries = [self._again(each, is_removed=each.file.place in removed) for each in live]
            result.append(self._manifest(manifest.content, manifest.partition_spec_id, entries))
        return self._attempt(parent, result, tally, properties)

    def merged(
        self,
        parent: Snapshot,
        manifests: Sequence[tuple[ManifestFile, tuple[LiveEntry, ...]]],
        merged: Sequence[Sequence[str]],
    ) -> CommitAttempt:
        """Return the snapshot after `parent` with the same files; each group of manifests becomes one."""
        by_path = {manifest.manifest_path: (manifest, live) for manifest, live in manifests}
        taken = {path for group in merged for path in group}
        result = [manifest for manifest, live in manifests if manifest.manifest_path not in taken and live]
        for group in merged:
            first = by_path[group[0]][0]
            entries = [self._again(each, is_removed=False) for path in group for each in by_path[path][1]]
            if entries:
                result.append(self._manifest(first.content, first.partition_spec_id, entries))
        figures = {"manifests-replaced": str(len(taken)), "manifests-created": str(len(self._written))}
        return self._attempt(parent, result, _Tally(), figures)

    def _attempt(
        self, parent: Snapshot, manifests: Sequence[ManifestFile], tally: "_Tally", properties: Mapping[str, str]
    ) -> CommitAttempt:
        metadata = self._table.metadata
        sequence_number = metadata.next_sequence_number()
        path = self._new_path(f"snap-{self._snapshot_id}-1-{self._id}.avro")
        first_row_id = _next_row_id(metadata)
        following = write_manifest_list(
            self._table.io,
            path,
            format_version=metadata.format_version,
            snapshot_id=self._snapshot_id,
            parent_snapshot_id=parent.snapshot_id,
            sequence_number=sequence_number,
            manifests=manifests,
            compression=self._codec,
            first_row_id=first_row_id,
        )
        snapshot = Snapshot.model_validate(
            {
                "snapshot-id": self._snapshot_id,
                "parent-snapshot-id": parent.snapshot_id,
                "sequence-number": sequence_number,
                "timestamp-ms": max(int(time.time() * 1000), metadata.last_updated_ms),
                "manifest-list": path,
                "summary": Summary(Operation.REPLACE, **tally.summary(parent.summary), **properties),
                "schema-id": metadata.current_schema_id,
                "first-row-id": first_row_id,
                "added-rows": None if following is None or first_row_id is None else following - first_row_id,
            }
        )
        return snapshot_attempt(self._table, snapshot, self._written)

    @property
    def _codec(self) -> str:
        return self._table.metadata.properties.get(_CODEC, "gzip")

    def _added(self, files: Sequence[NewTableFile]) -> list[tuple[ManifestContent, int, list[ManifestEntry]]]:
        """Return the entries of new files, by manifest."""
        groups: dict[tuple[ManifestContent, int], list[ManifestEntry]] = defaultdict(list)
        for file in files:
            content = ManifestContent.DATA if file.content is FileContent.DATA else ManifestContent.DELETES
            groups[content, file.spec_id].append(file.entry(self._snapshot_id))
        return [(content, spec_id, entries) for (content, spec_id), entries in groups.items()]

    def _again(self, each: LiveEntry, *, is_removed: bool) -> ManifestEntry:
        """Return the entry of a file for a manifest that is rewritten."""
        if is_removed:
            return with_status(each.entry, ManifestEntryStatus.DELETED, self._snapshot_id)
        return with_status(each.entry, ManifestEntryStatus.EXISTING)

    def _manifest(self, content: ManifestContent, spec_id: int, entries: Sequence[ManifestEntry]) -> ManifestFile:
        spec = self._table.metadata.specs()[spec_id]
        return write_manifest(
            self._table.io,
            self._new_path(f"{self._id}-m{len(self._written)}.avro"),
            format_version=self._table.metadata.format_version,
            schema=self._schema_for(spec),
            spec=spec,
            content=content,
            snapshot_id=self._snapshot_id,
            entries=entries,
            compression=self._codec,
        )

    def _schema_for(self, spec: PartitionSpec) -> Schema:
        """Return the columns with the source columns of the partition spec, which may be dropped ones."""
        known = self._schema.field_ids
        return self._schema if all(part.source_id in known for part in spec.fields) else self._all_columns

    def _new_path(self, name: str) -> str:
        path = self._table.location_provider().new_metadata_location(name)
        self._written.append(path)
        return path


def _next_row_id(metadata: TableMetadata) -> int | None:
    """Return the id of the next new row; None before version 3."""
    return metadata.next_row_id or 0 if isinstance(metadata, TableMetadataV3) else None


@dataclass(slots=True)
class _Tally:
    """Counters of a summary."""

    numbers: Counter[str] = field(default_factory=Counter)

    def count(self, what: str, content: FileContent, size: int, records: int, is_vector: bool) -> None:
        files, rows = _BY_KIND[content]
        of_data = "deleted" if what == "removed" else what
        self.numbers[f"{of_data if content is FileContent.DATA else what}-{files}"] += 1
        self.numbers[f"{of_data if content is FileContent.DATA else what}-{rows}"] += records
        self.numbers[f"{what}-files-size"] += size
        if is_vector:
            self.numbers[f"{what}-dvs"] += 1
        elif content is FileContent.POSITION_DELETES:
            self.numbers[f"{what}-position-delete-files"] += 1
        elif content is FileContent.EQUALITY_DELETES:
            self.numbers[f"{what}-equality-delete-files"] += 1

    def summary(self, before: Summary | None) -> dict[str, str]:
        """Return the entries of a snapshot's summary; totals only if the parent's summary has them."""
        found = {name: str(number) for name, number in self.numbers.items() if number}
        changes = {
            "total-data-files": ("added-data-files", "deleted-data-files"),
            "total-delete-files": ("added-delete-files", "removed-delete-files"),
            "total-records": ("added-records", "deleted-records"),
            "total-files-size": ("added-files-size", "removed-files-size"),
            "total-position-deletes": ("added-position-deletes", "removed-position-deletes"),
            "total-equality-deletes": ("added-equality-deletes", "removed-equality-deletes"),
        }
        for total, (plus, minus) in changes.items():
            known = None if before is None else before.get(total)
            if known is not None and known.isdecimal():
                found[total] = str(max(int(known) + self.numbers[plus] - self.numbers[minus], 0))
        return found
