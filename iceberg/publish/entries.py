"""Manifest entries of a published table: its data files, its deletion vectors in Puffin files, and the files that a
snapshot adds and removes for readers of Iceberg.

Readers of Iceberg see the files that need no merge: all files of an append table, the top level of a primary-key table,
and with deletion vectors every level except the first. `published_coverage` reports which part of a table that is.
Source: documentation page `iceberg/primary-key-table`, paimon-core's IcebergCommitCallback.

An entry of a data file has its path, its partition, and statistics of its columns. Bounds have the type of the column
at the time of writing; readers promote them. Nested columns have none.

Each index file of the table gets a Puffin file of the same vectors beside the metadata, and entries in manifests of
deletes with the position of each vector. An index file has the vectors, but not the footer that names their data files,
so readers of whole Puffin files cannot use it. Java Paimon's entries name index files; here they are replaced when
vectors change. The name of a Puffin file contains that of its index file, so the next run can use the file of a killed
run. Source: documentation page `iceberg/primary-key-table`, "Deletion Vector Support".
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time
from typing import Any

from pyiceberg.conversions import to_bytes
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestEntry, ManifestEntryStatus
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.types import PrimitiveType
from pyiceberg.utils.datetime import date_to_days, datetime_to_micros, time_to_micros

from interbed.iceberg.meta.live_files import LiveFile, VectorPlace, puffin_of
from interbed.iceberg.meta.manifests import NEWEST_VERSION
from interbed.iceberg.publish.document import iceberg_schema
from interbed.iceberg.publish.place import shows_vectors
from interbed.storage.base.bucket_id import BucketId
from interbed.storage.base.row.binary_row import decode_row
from interbed.storage.base.types.data_type import DataField, DataType
from interbed.storage.files.deletion_vectors import read_vectors
from interbed.storage.io.api import FileIO, write_errors
from interbed.storage.io.resolve import normalize_path
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.manifest.entry import DataFileMeta, FileKind
from interbed.storage.meta.manifest.entry import ManifestEntry as TableEntry
from interbed.storage.meta.manifest.index_manifest import DELETION_VECTORS, IndexFileMeta, IndexManifestEntry
from interbed.storage.meta.options.core import CoreOptions
from interbed.storage.meta.schema.system_fields import readable_by_name
from interbed.storage.meta.schema.table_schema import TableSchema
from interbed.storage.scan.live_files import LiveFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class FileColumnMetrics:
    """Metrics of the columns of a file, by their ids."""

    values: dict[int, int] = field(default_factory=dict)
    nulls: dict[int, int] = field(default_factory=dict)
    lower: dict[int, bytes] = field(default_factory=dict)
    upper: dict[int, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FileSchema:
    """A schema by which files were written, in both forms."""

    table: TableSchema
    iceberg: Schema

    @staticmethod
    def of(schema: TableSchema) -> "FileSchema":
        """Return a schema of the table. Raises as iceberg_schema does."""
        return FileSchema(schema, iceberg_schema(schema))


def added_entry(
    file: DataFileMeta, path: str, partition: Record, written_by: FileSchema, snapshot_id: int
) -> ManifestEntry:
    """Return the entry of a data file that a snapshot added."""
    known = column_statistics(file, written_by)
    made = DataFile.from_args(
        _table_format_version=NEWEST_VERSION,
        content=DataFileContent.DATA,
        file_path=path,
        file_format=FileFormat(file.format.upper()),
        partition=partition,
        record_count=file.row_count,
        file_size_in_bytes=file.file_size,
        value_counts=known.values,
        null_value_counts=known.nulls,
        lower_bounds=known.lower,
        upper_bounds=known.upper,
    )
    return new_entry(made, snapshot_id)


def new_entry(file: DataFile, snapshot_id: int) -> ManifestEntry:
    """Return the entry of a file that a snapshot added, with its sequence numbers, which Paimon expects in the
    entry.
    """
    return ManifestEntry.from_args(
        _table_format_version=NEWEST_VERSION,
        status=ManifestEntryStatus.ADDED,
        snapshot_id=snapshot_id,
        sequence_number=snapshot_id,
        file_sequence_number=snapshot_id,
        data_file=file,
    )


def partition_record(partition: bytes, types: Sequence[DataType]) -> Record:
    """Return the values of a partition as manifests have them."""
    return Record(*(_plain(value) for value in decode_row(partition, types)))


def column_statistics(file: DataFileMeta, written_by: FileSchema) -> FileColumnMetrics:
    """Return the statistics in the file's metadata as Iceberg's."""
    schema = written_by.table
    names = file.stats_names(schema.names)
    stats = file.value_stats
    if len(stats.null_counts) != len(names):
        return FileColumnMetrics()
    known = readable_by_name(schema)
    fields = [known[name] for name in names]
    least, greatest = _row(stats.min_values, fields), _row(stats.max_values, fields)
    found = FileColumnMetrics()
    for column, nulls, low, high in zip(fields, stats.null_counts, least, greatest, strict=True):
        if column.name not in schema.by_name:
            continue
        kind = written_by.iceberg.find_type(column.id)
        if not isinstance(kind, PrimitiveType):
            continue
        if nulls is not None:
            found.values[column.id] = file.row_count
            found.nulls[column.id] = nulls
        if _is_bound(low) and _is_bound(high):
            found.lower[column.id] = to_bytes(kind, low)
            found.upper[column.id] = to_bytes(kind, high)
    return found


def _row(row: bytes, fields: Sequence[DataField]) -> tuple[Any, ...]:
    return decode_row(row, [column.type.with_nullable(True) for column in fields])


def _is_bound(value: object) -> bool:
    return value is not None and not (isinstance(value, float) and math.isnan(value))


def _plain(value: Any) -> Any:
    match value:
        case datetime():
            return datetime_to_micros(value)
        case date():
            return date_to_days(value)
        case time():
            return time_to_micros(value)
    return value


DataPath = Callable[[BucketId, str], str]

_CREATED_BY = "interbed"
"""Without a version number: another version writes the same bytes."""


class VectorFiles:
    """The Puffin files of one run of a publication.

    `made` are files that no published snapshot named before: they must be durable before one does. They are kept if
    another run was faster, because that run names the same files.
    """

    def __init__(
        self,
        files: FileIO,
        *,
        index_path: Callable[[BucketId, IndexFileMeta], str],
        puffin_path: Callable[[str], str],
        partition: Callable[[bytes], Record],
    ) -> None:
        self.made: list[str] = []
        self._files = files
        self._index_path = index_path
        self._puffin_path = puffin_path
        self._partition = partition

    def entries(
        self,
        entries: Iterable[IndexManifestEntry],
        snapshot_id: int,
        *,
        named: Iterable[LiveFile],
        data_path: DataPath,
    ) -> Iterator[ManifestEntry]:
        """Yield the entries of all vectors in a snapshot's index manifest; `named` are those of the previous published
        one.

        Vectors are read only from index files whose Puffin file the previous one does not name. Raises
        CorruptFileError, UnsupportedVersionError, StorageAccessError.
        """
        before: dict[str, dict[str, LiveFile]] = {}
        for file in named:
            before.setdefault(file.path, {})[file.referenced or ""] = file
        for entry in entries:
            ranges = entry.file.deletion_vectors
            if entry.file.index_type != DELETION_VECTORS or not ranges:
                continue
            path = self._puffin_path(entry.file.file_name)
            referenced = {one.data_file_name: data_path(entry.bucket_id, one.data_file_name) for one in ranges}
            known = before.get(path, {})
            if known.keys() == set(referenced.values()):
                size = next(iter(known.values())).size
                places = {name: _place_of(file) for name, file in known.items()}
            else:
                size, places = self._make(path, entry, referenced)
            for name, place in places.items():
                made = DataFile.from_args(
                    _table_format_version=NEWEST_VERSION,
                    content=DataFileContent.POSITION_DELETES,
                    file_path=path,
                    file_format=FileFormat.PUFFIN,
                    partition=self._partition(entry.partition),
                    record_count=place.records,
                    file_size_in_bytes=size,
                    referenced_data_file=name,
                    content_offset=place.offset,
                    content_size_in_bytes=place.length,
                )
                yield new_entry(made, snapshot_id)

    def _make(
        self, path: str, entry: IndexManifestEntry, referenced: Mapping[str, str]
    ) -> tuple[int, dict[str, VectorPlace]]:
        """Write the Puffin file of an index file if it is missing. Return its size, and the positions of its
        vectors.
        """
        source = self._index_path(entry.bucket_id, entry.file)
        vectors = read_vectors(self._files, source, entry.file.deletion_vectors or ())
        content, places = puffin_of({referenced[name]: vector for name, vector in vectors}, _CREATED_BY)
        own = normalize_path(path)
        if not self._is_there(own, content):
            with write_errors(own):
                self._files.overwrite(own, content, durable=False)
        self.made.append(own)
        return len(content), places

    def _is_there(self, path: str, content: bytes) -> bool:
        try:
            return self._files.read_bytes(path) == content
        except FileNotFoundError:
            return False


def _place_of(file: LiveFile) -> VectorPlace:
    return VectorPlace(offset=file.offset or 0, length=file.length or 0, records=file.records)


TOTALS = ("total-data-files", "total-records", "total-files-size")
"""The entries of a summary that continue those of the previous snapshot."""


@dataclass(frozen=True, slots=True)
class ShownLevels:
    """The levels that readers of Iceberg see: from `least` on."""

    least: int

    @staticmethod
    def of(schema: TableSchema, options: CoreOptions) -> "ShownLevels":
        """Return the visible levels of a table."""
        if not schema.has_primary_key:
            return ShownLevels(0)
        return ShownLevels(1 if shows_vectors(options) else options.num_levels - 1)

    def __call__(self, level: int) -> bool:
        """Return whether files of the level are visible."""
        return level >= self.least


@dataclass(frozen=True, slots=True)
class FileChanges:
    """Files by their paths: added files, and removed files that may have been published.

    With `adds_only` there are only additions.
    """

    added: dict[str, TableEntry] = field(default_factory=dict)
    removed: dict[str, TableEntry] = field(default_factory=dict)
    adds_only: bool = False


def changes_of(delta: Iterable[tuple[str, TableEntry]], shown: ShownLevels) -> FileChanges:
    """Return the visible effect of the changes of a snapshot, which are in the order in which they were made.

    A file that changes its level is deleted and added: then it counts as added, unless it is published already.
    """
    added: dict[str, TableEntry] = {}
    removed: dict[str, TableEntry] = {}
    adds_only = True
    for path, entry in delta:
        if entry.bucket < 0 or not shown(entry.file.level):
            continue
        if entry.kind is FileKind.DELETE:
            adds_only = False
            added.pop(path, None)
            removed[path] = entry
        else:
            removed.pop(path, None)
            added[path] = entry
    return FileChanges(added, removed, adds_only)


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Numbers of files, rows and bytes."""

    files: int = 0
    records: int = 0
    size: int = 0

    @staticmethod
    def of(entries: Iterable[TableEntry]) -> "Totals":
        """Return the totals of files."""
        found = [(entry.file.row_count, entry.file.file_size) for entry in entries]
        return Totals(files=len(found), records=sum(r for r, _ in found), size=sum(s for _, s in found))


def summary_of(
    added: Sequence[TableEntry],
    removed: Sequence[TableEntry],
    before: Mapping[str, str],
    vectors: Totals,
) -> dict[str, str]:
    """Return the metrics of a snapshot's summary; `before` are the totals of its parent snapshot, or empty."""
    plus, minus = Totals.of(added), Totals.of(removed)
    changes = (plus.files - minus.files, plus.records - minus.records, plus.size - minus.size)
    return {
        "added-data-files": str(plus.files),
        "added-records": str(plus.records),
        "added-files-size": str(plus.size),
        "deleted-data-files": str(minus.files),
        "deleted-records": str(minus.records),
        "removed-files-size": str(minus.size),
        "changed-partition-count": str(len({entry.partition for entry in (*added, *removed)})),
        **{name: str(max(0, int(before.get(name, 0)) + by)) for name, by in zip(TOTALS, changes, strict=True)},
        "total-delete-files": str(vectors.files),
        "total-position-deletes": str(vectors.records),
        "total-equality-deletes": "0",
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedCoverage:
    """The files and rows of a snapshot, and those that readers of Iceberg see. Rows are those of files, not yet
    merged.
    """

    files: int
    files_shown: int
    rows: int
    rows_shown: int
    has_vectors: bool

    @property
    def is_whole(self) -> bool:
        """Whether readers see all files."""
        return self.files == self.files_shown

    @property
    def way_out(self) -> str:
        """Advice to make the other rows visible, empty if readers see all."""
        if self.is_whole:
            return ""
        text = "a compaction (interbed table compact) makes the others visible"
        if self.has_vectors:
            return text
        return f"{text}. With deletion vectors and 'metadata.iceberg.format-version' = '3' each commit shows all rows"


def published_coverage(store: FileStore) -> PublishedCoverage | None:
    """Return the coverage of the newest snapshot, None without one. Raises CorruptFileError for a manifest."""
    snapshot = store.snapshots.latest()
    if snapshot is None:
        return None
    entries, _ = LiveFiles(store).entries(snapshot)
    levels = ShownLevels.of(store.schema, store.options)
    shown = [entry for entry in entries if entry.bucket >= 0 and levels(entry.file.level)]
    return PublishedCoverage(
        files=len(entries),
        files_shown=len(shown),
        rows=sum(entry.file.row_count for entry in entries),
        rows_shown=sum(entry.file.row_count for entry in shown),
        has_vectors=shows_vectors(store.options),
    )
