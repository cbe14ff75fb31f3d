"""Files of an Iceberg table: data and delete files by interbed's readers, metadata files as pyiceberg opens them.

`static_table` is a table as one of its metadata files describes it, without a catalog. Each metadata file is read by
one request to the object store.
"""

import io
from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

import pyarrow as pa
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.io import FileIO as IcebergFileIO
from pyiceberg.io import InputFile, OutputFile, load_file_io
from pyiceberg.schema import Schema
from pyiceberg.table import StaticTable
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil
from pyiceberg.table.name_mapping import parse_mapping_from_json
from pyiceberg.transforms import IdentityTransform

from interbed.iceberg.meta.live_files import LiveFile
from interbed.iceberg.read.file_columns import FileColumns, read_file_schema
from interbed.storage.base.avro.blocks import METADATA_BLOCK_BYTES_MAX
from interbed.storage.base.decompression import plain_content
from interbed.storage.base.errors import InvalidOptionError
from interbed.storage.base.predicate.expr import Predicate
from interbed.storage.files.format.api import ReadChecks, data_file_errors
from interbed.storage.files.format.readers import reader_for
from interbed.storage.io.api import FileIO
from interbed.storage.io.resolve import file_io_for

NAME_MAPPING = "schema.name-mapping.default"
BATCH_ROWS = 128 << 10

STORE_OPTIONS = {
    "s3.endpoint": "s3.endpoint",
    "s3.access-key": "s3.access-key-id",
    "s3.secret-key": "s3.secret-access-key",
    "s3.session-token": "s3.session-token",
    "s3.region": "s3.region",
}
"""The names of options of object stores, and pyiceberg's for them."""

OURS_ALONE = ("store.", "local-cache.")
"""Prefixes of options of prefetch and cache, which have the same names for all tables."""

_OURS = {"client.region": "s3.region", **{theirs: ours for ours, theirs in STORE_OPTIONS.items()}}


def store_options(properties: Mapping[str, str]) -> dict[str, str]:
    """Return interbed's options of an object store for pyiceberg's properties."""
    return {
        _OURS.get(key, key): str(value)
        for key, value in properties.items()
        if key in _OURS or key.startswith(OURS_ALONE)
    }


class StoreInput(InputFile):
    """A file that is read whole; `path` is its location as the file system spells it."""

    def __init__(self, location: str, files: FileIO, path: str) -> None:
        super().__init__(location)
        self._files = files
        self._path = path

    def __len__(self) -> int:
        return self._files.size(self._path)

    def exists(self) -> bool:
        return self._files.exists(self._path)

    def open(self, seekable: bool = True) -> Any:
        return io.BytesIO(self._files.read_bytes(self._path))


class StoreInputs(IcebergFileIO):
    """Opens files of any file system that interbed's `options` open. Read-only."""

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__()
        self._options = options

    def new_input(self, location: str) -> InputFile:
        return StoreInput(location, *file_io_for(location, self._options))

    def new_output(self, location: str) -> OutputFile:
        self._refuse(location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        self._refuse(location)

    def _refuse(self, location: object) -> NoReturn:
        raise TypeError(f"{location} is only read")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFiles:
    """The settings to open any file of a table. Can be sent to another process.

    `mapping` is the table's name mapping in JSON; `identity` has, by partition spec, the ids of columns with the
    transform identity, and the place of each in a partition.
    """

    store_options: Mapping[str, str]
    mapping: str | None
    identity: Mapping[int, Mapping[int, int]] = field(default_factory=dict)

    @staticmethod
    def of(metadata: TableMetadata, properties: Mapping[str, str]) -> "TableFiles":
        """Return the settings of a table; `properties` are pyiceberg's. Raises InvalidOptionError."""
        mapping = metadata.properties.get(NAME_MAPPING)
        if mapping is not None:
            try:
                parse_mapping_from_json(mapping)
            except ValueError as error:
                raise InvalidOptionError(f"The table property '{NAME_MAPPING}' is no name mapping: {error}") from error
        return TableFiles(
            store_options=store_options(properties),
            mapping=mapping,
            identity={
                number: {
                    part.source_id: place
                    for place, part in enumerate(spec.fields)
                    if isinstance(part.transform, IdentityTransform)
                }
                for number, spec in metadata.specs().items()
            },
        )

    def open(self, path: str) -> tuple[FileIO, str]:
        """Return the file system of a file, and its path there."""
        return file_io_for(path, self.store_options)

    def is_far(self, path: str) -> bool:
        """Return whether a file is in a remote file system, from which several files are better read at once."""
        return self.open(path)[0].capabilities.slow_requests

    @property
    def io(self) -> StoreInputs:
        """The file system in pyiceberg's interface, for its readers of metadata."""
        return StoreInputs(self.store_options)

    def delete_quietly(self, paths: Iterable[str]) -> None:
        """Delete files that nothing names and that may be missing. Failures are logged, never raised."""
        for path in paths:
            file_io, place = self.open(path)
            file_io.delete_quietly([place])

    def batches(
        self,
        file: LiveFile,
        wanted: Schema,
        predicate: Predicate | None = None,
        *,
        batch_rows: int = BATCH_ROWS,
        use_threads: bool = False,
    ) -> Generator[tuple[int, pa.RecordBatch], None, None]:
        """Yield the rows of a file with the wanted columns, each batch with the position of its first row.

        Whole batches of rows that a predicate over these columns excludes may be left out. Raises CorruptFileError,
        NotSupportedError and StorageAccessError, which name the file.
        """
        file_io, path = self.open(file.path)
        if file_io.capabilities.slow_requests:
            from interbed.storage.io.prefetch.inputs import SharedInputs

            # Its schema and its rows are read from one open file.
            with SharedInputs(file_io) as held:
                yield from self._batches(held, path, file, wanted, predicate, batch_rows, use_threads)
        else:
            yield from self._batches(file_io, path, file, wanted, predicate, batch_rows, use_threads)

    def _batches(
        self,
        file_io: FileIO,
        path: str,
        file: LiveFile,
        wanted: Schema,
        predicate: Predicate | None,
        batch_rows: int,
        use_threads: bool,
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        of_file = read_file_schema(path, file.file_format, file_io, wanted.field_ids, self.mapping, size=file.size)
        columns = FileColumns(wanted, of_file, self._constants(file))
        found = reader_for(file.file_format, path).positioned(
            path,
            columns.fields,
            file_io=file_io,
            batch_rows=batch_rows,
            predicate=columns.predicate(predicate),
            use_threads=use_threads,
            checks=ReadChecks(rows=file.records, size=file.size),
        )
        for position, batch in found:
            with data_file_errors(path):
                rows = columns.conform(batch)
            yield position, rows

    def _constants(self, file: LiveFile) -> dict[int, object]:
        """Return the values that all rows of a file have, by the ids of their columns."""
        return {number: file.partition[place] for number, place in self.identity.get(file.spec_id, {}).items()}


_NAME = "static-table"


def static_table(location: str, properties: Mapping[str, str]) -> StaticTable:
    """Return the table of a metadata file; `properties` are pyiceberg's of the object store.

    Raises FileNotFoundError and StorageAccessError, ValueError for a damaged file, and as pyiceberg does for invalid
    metadata. pyiceberg's own function sends two requests to an object store.
    """
    with StoreInputs(store_options(properties)).new_input(location).open() as stream:
        content = stream.read()
    # Compressed files are named `v1.gz.metadata.json` or `v1.metadata.json.gz`.
    metadata = TableMetadataUtil.parse_raw(plain_content(content, METADATA_BLOCK_BYTES_MAX).decode())
    return StaticTable(
        identifier=(_NAME, location),
        metadata_location=location,
        metadata=metadata,
        io=load_file_io({**properties, **metadata.properties}, location=location),
        catalog=NoopCatalog(_NAME),
    )
