"""The entries of a manifest with what they inherit, as records of version 3.

Source: Iceberg's table specification, "Sequence Number Inheritance" and "First Row ID Inheritance".
"""

import io
import json
import zlib
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache, partial
from typing import Any, TypeVar
from urllib.parse import urlsplit

from pyiceberg.avro.decoder import new_decoder
from pyiceberg.avro.file import AvroFile
from pyiceberg.avro.reader import Reader
from pyiceberg.avro.resolver import resolve_reader
from pyiceberg.exceptions import ValidationError
from pyiceberg.io import FileIO, InputFile
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
)
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

from interbed.iceberg.meta.new_manifests import NEWEST_VERSION, row_id_of
from interbed.storage.base.ahead import ahead_of
from interbed.storage.base.avro.blocks import PlainBlocks
from interbed.storage.base.errors import CorruptFileError, StorageAccessError
from interbed.storage.base.fileio.at_once import begun

T = TypeVar("T")

_TOTAL = "total-data-files"
_AVRO_SCHEMA = "avro.schema"
_READ_AHEAD = 16
"""Manifests that are asked for before they are needed; each is a few MB at most."""
_CACHED = 64
"""Readers of manifests that are kept: one for each schema of a table's partitions."""

FIRST_ROW_ID = 16
"""The place of that field in the record of a data file."""


def manifests_of(files: FileIO, snapshot: Snapshot) -> list[ManifestFile]:
    """The manifests of a snapshot; CorruptFileError for a list that can't be decoded, StorageAccessError."""
    return _reading(snapshot.manifest_list or "", partial(_manifests, files, snapshot))


def entries_of(files: FileIO, manifest: ManifestFile, *, deleted: bool = False) -> list[ManifestEntry]:
    """The live entries of a manifest, with `deleted` those of files that went as well; raises as manifests_of."""
    path = manifest.manifest_path
    return _reading(path, lambda: _decoded(manifest, files.new_input(path), deleted))


def entries_of_each(files: FileIO, manifests: Iterable[ManifestFile]) -> Iterator[list[ManifestEntry]]:
    """The live entries of each manifest, in order; raises as manifests_of. Of a store several are read at once."""
    sources = ((each, _source(files, each.manifest_path)) for each in manifests)
    for manifest, source in ahead_of(sources, _READ_AHEAD):
        yield _reading(manifest.manifest_path, partial(_decoded, manifest, source, deleted=False))


class _Begun(InputFile):
    """A file that a thread reads meanwhile."""

    def __init__(self, source: InputFile) -> None:
        super().__init__(source.location)
        self._source = source
        self._content = begun(self._read)

    def __len__(self) -> int:
        return len(self._content.result())

    def exists(self) -> bool:
        return self._source.exists()

    def open(self, seekable: bool = True) -> Any:
        return io.BytesIO(self._content.result())

    def _read(self) -> bytes:
        with self._source.open() as source:
            return source.read()


class _Whole(InputFile):
    """A file of Avro that is not cut off: pyiceberg's decoder reads on beyond the end of one that is."""

    def __init__(self, source: InputFile) -> None:
        super().__init__(source.location)
        self._source = source

    def __len__(self) -> int:
        return len(self._source)

    def exists(self) -> bool:
        return self._source.exists()

    def open(self, seekable: bool = True) -> Any:
        with self._source.open() as source:
            content = io.BytesIO(source.read())
        PlainBlocks(content).check_whole()
        content.seek(0)
        return content


def _source(files: FileIO, path: str) -> InputFile:
    source = files.new_input(path)
    return source if urlsplit(path).scheme in ("", "file") else _Begun(source)


def _manifests(files: FileIO, snapshot: Snapshot) -> list[ManifestFile]:
    """The records of a manifest list; pyiceberg's own reader passes over the row ids of version 3."""
    if not snapshot.manifest_list:
        raise ValueError(f"snapshot {snapshot.snapshot_id} names no manifest list")
    with AvroFile[ManifestFile](
        _Whole(files.new_input(snapshot.manifest_list)),
        MANIFEST_LIST_FILE_SCHEMAS[NEWEST_VERSION],
        read_types={-1: ManifestFile, 508: PartitionFieldSummary},
        read_enums={517: ManifestContent},
    ) as reader:
        found = list(reader)
    if not found and snapshot.summary is not None and int(snapshot.summary.get(_TOTAL, 0)):
        # pyiceberg takes a file that was cut off for one that ends there.
        raise ValueError("it names no manifest of a snapshot that has data files")
    return found


class _Manifest(AvroFile[ManifestEntry]):
    """An open manifest; pyiceberg's own reader passes over the fields of version 3, and is made anew for each file."""

    def __enter__(self) -> "_Manifest":
        with self.input_file.open() as source:
            self.decoder = new_decoder(source.read())
        self.header = self._read_header()
        self.reader = _reader_of(self.header.meta[_AVRO_SCHEMA])
        return self


@lru_cache(_CACHED)
def _reader_of(schema: str) -> Reader:
    """What decodes manifests that were written with this Avro schema; it has no state."""
    return resolve_reader(
        AvroSchemaConversion().avro_to_iceberg(json.loads(schema)),
        MANIFEST_ENTRY_SCHEMAS[NEWEST_VERSION],
        {-1: ManifestEntry, 2: DataFile},
        {0: ManifestEntryStatus, 101: FileFormat, 134: DataFileContent},
    )


def _decoded(manifest: ManifestFile, source: InputFile, deleted: bool) -> list[ManifestEntry]:
    with _Manifest(_Whole(source)) as reader:
        entries = list(reader)
    counts = (manifest.added_files_count, manifest.existing_files_count, manifest.deleted_files_count)
    known = [count for count in counts if count is not None]
    # pyiceberg takes a file that was cut off for one that ends there.
    if len(known) == len(counts) and sum(known) != len(entries):
        raise ValueError(f"it has {len(entries)} entries where the manifest list says {sum(known)}")
    found = [
        _inherit_from_manifest(entry, manifest)
        for entry in entries
        if deleted or entry.status != ManifestEntryStatus.DELETED
    ]
    next_row_id = row_id_of(manifest) if manifest.content == ManifestContent.DATA else None
    if next_row_id is not None:
        for entry in found:
            values = entry.data_file._data
            if values[FIRST_ROW_ID] is None and entry.status != ManifestEntryStatus.DELETED:
                values[FIRST_ROW_ID] = next_row_id
                next_row_id += entry.data_file.record_count
    return found


_DAMAGE = (
    ValueError,
    EOFError,
    LookupError,
    TypeError,
    AssertionError,
    OverflowError,
    MemoryError,
    SystemError,
    zlib.error,
    ValidationError,
)
"""What decoders make of damaged bytes."""


def _reading(path: str, read: Callable[[], T]) -> T:
    try:
        return read()
    except StorageAccessError:
        raise
    except OSError as error:
        raise StorageAccessError(f"Can't read {path}: {error.strerror or error}.") from error
    except _DAMAGE as error:
        raise CorruptFileError(f"{path} can't be decoded: {error}") from error
