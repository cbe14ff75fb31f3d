"""Manifests and manifest lists, of data and of deletes, of versions 1 to 3 of the format.

Entries are read as records of version 3, including inherited values. pyiceberg writes no manifests of version 3 and
none of deletes, so they are written here. Sources: Iceberg's table specification, "Manifests", "Snapshots", "Sequence
Number Inheritance", "First Row ID Assignment" and "First Row ID Inheritance".
"""

import io
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, NoReturn, TypeVar

import pyarrow as pa
from pyiceberg.avro.codecs import AVRO_CODEC_KEY
from pyiceberg.avro.file import AvroOutputFile
from pyiceberg.avro.reader import Reader
from pyiceberg.avro.resolver import resolve_reader
from pyiceberg.exceptions import ResolveError, ValidationError
from pyiceberg.io import FileIO, InputFile, OutputFile
from pyiceberg.manifest import (
    MANIFEST_ENTRY_SCHEMAS,
    MANIFEST_LIST_FILE_SCHEMAS,
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    PartitionFieldSummary,
    _inherit_from_manifest,
    construct_partition_summaries,
    data_file_with_partition,
    manifest_entry_schema_with_data_file,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.typedef import TableVersion
from pyiceberg.types import IntegerType, ListType, StructType
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

from interbed.iceberg.meta.avro_records import avro_records
from interbed.storage.base.errors import CorruptFileError, NotSupportedError, StorageAccessError
from interbed.storage.base.prefetch import read_ahead
from interbed.storage.io.parallel import in_background
from interbed.storage.io.resolve import local_path

NEWEST_VERSION: TableVersion = 3
"""The version whose records of entries and of data files have all fields. Records to be written are of this version."""

_UNASSIGNED = -1
"""The sequence number of a manifest that gets that of its commit."""
_EQUALITY_IDS = ListType(element_id=136, element_type=IntegerType(), element_required=True)
_LEGACY = {f"{kind}_files_count": f"{kind}_data_files_count" for kind in ("added", "existing", "deleted")}
_FIRST_ROW_ID = 15
"""The place of that field in the record of a manifest."""


def write_manifest(
    io: FileIO,
    path: str,
    *,
    format_version: TableVersion,
    schema: Schema,
    spec: PartitionSpec,
    content: ManifestContent,
    snapshot_id: int,
    entries: Sequence[ManifestEntry],
    compression: str = "gzip",
) -> ManifestFile:
    """Write a manifest of a commit. The returned record is for its manifest list, which assigns it a sequence number.

    `entries`, at least one, and their files are records of version 3. Added entries without a sequence number inherit
    that of the commit; other entries have both of theirs. `compression` is as in the property
    `write.avro.compression-codec`. Raises OSError, ValueError for entries that cannot be written.
    """
    if not entries:
        raise ValueError("A manifest has at least one entry.")
    partition = spec.partition_type(schema)
    tally = _Tally()
    for entry in entries:
        tally.add(entry)
    of_deletes = content == ManifestContent.DELETES
    metadata = {
        "schema": schema.model_dump_json(),
        "partition-spec": f"[{','.join(field.model_dump_json() for field in spec.fields)}]",
        "partition-spec-id": str(spec.spec_id),
        "format-version": str(format_version),
        AVRO_CODEC_KEY: compression,
    }
    if format_version > 1:
        metadata["content"] = "deletes" if of_deletes else "data"
    elif of_deletes:
        raise ValueError("Version 1 of the format has no deletes.")
    output = io.new_output(_without_host(path))
    with AvroOutputFile[ManifestEntry](
        output_file=output,
        file_schema=_entry_schema(partition, format_version),
        record_schema=_entry_schema(partition, NEWEST_VERSION),
        schema_name="manifest_entry",
        metadata=metadata,
    ) as writer:
        # Some readers, DuckDB among them, take a block without records for a damaged one.
        if entries:
            writer.write_block(list(entries))
    return ManifestFile.from_args(
        _table_format_version=NEWEST_VERSION,
        manifest_path=path,
        manifest_length=len(output),
        partition_spec_id=spec.spec_id,
        content=content,
        sequence_number=_UNASSIGNED,
        min_sequence_number=_UNASSIGNED if tally.least is None else tally.least,
        added_snapshot_id=snapshot_id,
        added_files_count=tally.added[0],
        existing_files_count=tally.existing[0],
        deleted_files_count=tally.deleted[0],
        added_rows_count=tally.added[1],
        existing_rows_count=tally.existing[1],
        deleted_rows_count=tally.deleted[1],
        partitions=construct_partition_summaries(spec, schema, [entry.data_file.partition for entry in entries]),
        key_metadata=None,
    )


def write_manifest_list(
    io: FileIO,
    path: str,
    *,
    format_version: TableVersion,
    snapshot_id: int,
    parent_snapshot_id: int | None,
    sequence_number: int,
    manifests: Sequence[ManifestFile],
    compression: str = "gzip",
    first_row_id: int | None = None,
    legacy_names: bool = False,
) -> int | None:
    """Write the manifest list of a snapshot. Return the next row id after this snapshot, None before version 3.

    In version 3, `first_row_id` is the next row id of the table. With `legacy_names` the counts of files have the names
    of Iceberg 1.4, for readers that go by names. Raises OSError, ValueError for a manifest of another commit without a
    sequence number.
    """
    metadata = {
        "snapshot-id": str(snapshot_id),
        "parent-snapshot-id": "null" if parent_snapshot_id is None else str(parent_snapshot_id),
        "format-version": str(format_version),
        AVRO_CODEC_KEY: compression,
    }
    if format_version > 1:
        metadata["sequence-number"] = str(sequence_number)
    next_row_id = first_row_id
    if format_version > 2:
        assert next_row_id is not None
        metadata["first-row-id"] = str(first_row_id)
    records = []
    for manifest in manifests:
        record = _numbered(manifest, snapshot_id, sequence_number)
        if next_row_id is not None and record.content == ManifestContent.DATA and row_id_of(record) is None:
            record._data[_FIRST_ROW_ID] = next_row_id
            next_row_id += (record.added_rows_count or 0) + (record.existing_rows_count or 0)
        records.append(record)
    with AvroOutputFile[ManifestFile](
        output_file=io.new_output(_without_host(path)),
        file_schema=_with_legacy_names(format_version) if legacy_names else MANIFEST_LIST_FILE_SCHEMAS[format_version],
        record_schema=MANIFEST_LIST_FILE_SCHEMAS[NEWEST_VERSION],
        schema_name="manifest_file",
        metadata=metadata,
    ) as writer:
        if records:
            writer.write_block(records)
    return next_row_id


def _with_legacy_names(format_version: TableVersion) -> Schema:
    fields = MANIFEST_LIST_FILE_SCHEMAS[format_version].fields
    return Schema(*(part.model_copy(update={"name": _LEGACY.get(part.name, part.name)}) for part in fields))


def with_status(entry: ManifestEntry, status: ManifestEntryStatus, snapshot_id: int | None = None) -> ManifestEntry:
    """Return an entry for a rewritten manifest: the same file, by default of the snapshot that added it."""
    return ManifestEntry.from_args(
        _table_format_version=NEWEST_VERSION,
        status=status,
        snapshot_id=entry.snapshot_id if snapshot_id is None else snapshot_id,
        sequence_number=entry.sequence_number,
        file_sequence_number=entry.file_sequence_number,
        data_file=entry.data_file,
    )


def row_id_of(manifest: ManifestFile) -> int | None:
    """Return the first row id of a manifest, at which those of its files begin; None if it has none."""
    values = manifest._data
    found: int | None = values[_FIRST_ROW_ID] if len(values) > _FIRST_ROW_ID else None
    return found


def _entry_schema(partition: StructType, format_version: TableVersion) -> Schema:
    """Return the schema of entries of a version. pyiceberg's has the ids of columns as LONG, which Java refuses."""
    fields = [
        field.model_copy(update={"field_type": _EQUALITY_IDS}) if field.name == "equality_ids" else field
        for field in data_file_with_partition(partition, format_version).fields
    ]
    return manifest_entry_schema_with_data_file(format_version, StructType(*fields))


@dataclass(slots=True)
class _Tally:
    """Numbers of files and of rows by status, and the least sequence number of live files."""

    added: tuple[int, int] = (0, 0)
    existing: tuple[int, int] = (0, 0)
    deleted: tuple[int, int] = (0, 0)
    least: int | None = None

    def add(self, entry: ManifestEntry) -> None:
        rows = entry.data_file.record_count
        number = entry.sequence_number
        match entry.status:
            case ManifestEntryStatus.ADDED:
                self.added = (self.added[0] + 1, self.added[1] + rows)
            case ManifestEntryStatus.EXISTING:
                self.existing = (self.existing[0] + 1, self.existing[1] + rows)
            case ManifestEntryStatus.DELETED:
                self.deleted = (self.deleted[0] + 1, self.deleted[1] + rows)
        if entry.status == ManifestEntryStatus.DELETED:
            return
        if number is None and entry.status == ManifestEntryStatus.EXISTING:
            raise ValueError(f"The file {entry.data_file.file_path} was there before, but has no sequence number.")
        if number is not None and (self.least is None or number < self.least):
            self.least = number


def _numbered(manifest: ManifestFile, snapshot_id: int, sequence_number: int) -> ManifestFile:
    """Return the record with the sequence number of the commit if it has none."""
    values = list(manifest._data)
    values += [None] * (len(MANIFEST_LIST_FILE_SCHEMAS[NEWEST_VERSION].fields) - len(values))
    record = copy(manifest)
    record._data = values
    if _UNASSIGNED in (record.sequence_number, record.min_sequence_number):
        if record.added_snapshot_id != snapshot_id:
            raise ValueError(f"{record.manifest_path} is of another commit, but has no sequence number.")
        if record.sequence_number == _UNASSIGNED:
            record.sequence_number = sequence_number
        if record.min_sequence_number == _UNASSIGNED:
            record.min_sequence_number = sequence_number
    return record


T = TypeVar("T")

_TOTAL = "total-data-files"
_READ_AHEAD = 16
"""The number of manifests that are prefetched; each is a few MB at most."""
_CACHED = 64
"""The number of cached readers of manifests: one for each schema of a table's partitions."""

FIRST_ROW_ID = 16
"""The place of that field in the record of a data file."""


class ReadOnlyFiles(FileIO):
    """Base of file systems from which metadata are only read, in pyiceberg's interface."""

    def new_output(self, location: str) -> OutputFile:
        self._refuse(location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        self._refuse(location)

    def _refuse(self, location: object) -> NoReturn:
        raise TypeError(f"{location} is only read")


def manifests_of(files: FileIO, snapshot: Snapshot) -> list[ManifestFile]:
    """Return the manifests of a snapshot. Raises CorruptFileError for a list that cannot be decoded, NotSupportedError
    for an unknown codec, StorageAccessError.
    """
    return _reading(snapshot.manifest_list or "", partial(_manifests, files, snapshot))


def entries_of(files: FileIO, manifest: ManifestFile, *, deleted: bool = False) -> list[ManifestEntry]:
    """Return the live entries of a manifest, with `deleted` also those of removed files. Raises as manifests_of."""
    path = manifest.manifest_path
    return _reading(path, lambda: list(_inherited(manifest, files.new_input(_without_host(path)), deleted=deleted)))


def entries_one_by_one(files: FileIO, manifest: ManifestFile) -> Iterator[ManifestEntry]:
    """Yield the live entries of a manifest, of which one is in memory at a time. Raises as manifests_of."""
    path = manifest.manifest_path
    entries = _inherited(manifest, files.new_input(_without_host(path)))
    while True:
        entry = _reading(path, lambda: next(entries, None))
        if entry is None:
            return
        yield entry


def entries_of_each(files: FileIO, manifests: Iterable[ManifestFile]) -> Iterator[list[ManifestEntry]]:
    """Yield the live entries of each manifest, in order. Raises as manifests_of. Several are prefetched from an object
    store.
    """
    sources = ((each, _source(files, each.manifest_path)) for each in manifests)
    for manifest, source in read_ahead(sources, _READ_AHEAD):
        yield _reading(manifest.manifest_path, partial(_live_entries, manifest, source))


class _PrefetchedInput(InputFile):
    """A file that a thread prefetches."""

    def __init__(self, source: InputFile) -> None:
        super().__init__(source.location)
        self._source = source
        self._content = in_background(self._read)

    def __len__(self) -> int:
        return len(self._content.result())

    def exists(self) -> bool:
        return self._source.exists()

    def open(self, seekable: bool = True) -> Any:
        return io.BytesIO(self._content.result())

    def _read(self) -> bytes:
        with self._source.open() as source:
            return source.read()


def _without_host(path: str) -> str:
    """Return a path as pyiceberg's file systems take it, which read `localhost/x` for `file://localhost/x`."""
    local = local_path(path) if "://" in path else None
    return path if local is None else f"file://{local}"


def _source(files: FileIO, path: str) -> InputFile:
    source = files.new_input(_without_host(path))
    return source if local_path(path) is not None else _PrefetchedInput(source)


def _manifests(files: FileIO, snapshot: Snapshot) -> list[ManifestFile]:
    """Return the records of a manifest list; pyiceberg's own reader drops the row ids of version 3."""
    if not snapshot.manifest_list:
        raise ValueError(f"snapshot {snapshot.snapshot_id} names no manifest list")
    found = list(avro_records(files.new_input(_without_host(snapshot.manifest_list)), _list_reader))
    if not found and snapshot.summary is not None and int(snapshot.summary.get(_TOTAL, 0)):
        raise ValueError("it names no manifest of a snapshot that has data files")
    return found


def _live_entries(manifest: ManifestFile, source: InputFile) -> list[ManifestEntry]:
    return list(_inherited(manifest, source))


@lru_cache(_CACHED)
def _list_reader(schema: str) -> Reader:
    """Return the decoder of manifest lists that were written with this Avro schema; it has no state."""
    return resolve_reader(
        AvroSchemaConversion().avro_to_iceberg(json.loads(schema)),
        MANIFEST_LIST_FILE_SCHEMAS[NEWEST_VERSION],
        {-1: ManifestFile, 508: PartitionFieldSummary},
        {517: ManifestContent},
    )


@lru_cache(_CACHED)
def _entry_reader(schema: str) -> Reader:
    """Return the decoder of manifests that were written with this Avro schema. pyiceberg's own one drops the fields of
    version 3, and is built again for each file.
    """
    return resolve_reader(
        AvroSchemaConversion().avro_to_iceberg(json.loads(schema)),
        MANIFEST_ENTRY_SCHEMAS[NEWEST_VERSION],
        {-1: ManifestEntry, 2: DataFile},
        {0: ManifestEntryStatus, 101: FileFormat, 134: DataFileContent},
    )


def _inherited(manifest: ManifestFile, source: InputFile, *, deleted: bool = False) -> Iterator[ManifestEntry]:
    """Yield the live entries of a manifest, with `deleted` all of them, with the values that they inherit.

    Raises ValueError for another number of entries than the manifest list says.
    """
    counts = (manifest.added_files_count, manifest.existing_files_count, manifest.deleted_files_count)
    said = None if any(count is None for count in counts) else sum(count or 0 for count in counts)
    row_ids = _RowIds(manifest)
    found = 0
    for entry in avro_records(source, _entry_reader):
        found += 1
        if said is not None and found > said:
            raise ValueError(f"it has more entries than the {said} that the manifest list says")
        if deleted or entry.status != ManifestEntryStatus.DELETED:
            inherited = _inherit_from_manifest(entry, manifest)
            row_ids.assign(inherited)
            yield inherited
    if said is not None and found < said:
        raise ValueError(f"it has {found} entries where the manifest list says {said}")


class _RowIds:
    """The first row ids that live entries inherit from a manifest, in order."""

    def __init__(self, manifest: ManifestFile) -> None:
        self._following = row_id_of(manifest) if manifest.content == ManifestContent.DATA else None

    def assign(self, entry: ManifestEntry) -> None:
        values = entry.data_file._data
        if self._following is None or values[FIRST_ROW_ID] is not None or entry.status == ManifestEntryStatus.DELETED:
            return
        values[FIRST_ROW_ID] = self._following
        self._following += entry.data_file.record_count


_DAMAGE = (
    ValueError,
    EOFError,
    LookupError,
    TypeError,
    AssertionError,
    OverflowError,
    MemoryError,
    SystemError,
    RecursionError,
    ResolveError,
    ValidationError,
)
"""The exceptions of decoders for damaged bytes."""


def _reading(path: str, read: Callable[[], T]) -> T:
    try:
        return read()
    except StorageAccessError:
        raise
    except OSError as error:
        raise StorageAccessError(f"Can't read {path}: {error.strerror or error}.") from error
    except pa.ArrowNotImplementedError as error:
        raise NotSupportedError(f"{path} can't be read by this version: {error}.") from error
    except _DAMAGE as error:
        raise CorruptFileError(f"{path} can't be decoded: {error}") from error
