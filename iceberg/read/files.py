"""Files of an Iceberg table: data and delete files by interbed's readers, metadata files as pyiceberg opens them.

`static_table` is a table as one of its metadata files describes it, without a catalog. Each metadata file is read by
one request to the object store.

The columns of a data file are converted to the requested ones. Fields are found by Iceberg's ids: those in the file, or
those of the table's name mapping. Numbers are widened. A column that the file lacks has the value of its partition if
the transform is identity, otherwise the column's initial default, otherwise null. Source: Iceberg's table
specification, "Column Projection", "Schema Evolution" and the appendix "Format-specific Requirements".
"""

import io
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

import pyarrow as pa
from pyarrow import orc
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.io import InputFile, load_file_io
from pyiceberg.io.pyarrow import UnsupportedPyArrowTypeException, pyarrow_to_schema
from pyiceberg.schema import Schema
from pyiceberg.table import StaticTable
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil
from pyiceberg.table.name_mapping import parse_mapping_from_json
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

from interbed.iceberg.meta.live_files import LiveFile
from interbed.iceberg.meta.manifests import ReadOnlyFiles
from interbed.iceberg.meta.table_metadata import data_field, schema_to_arrow, type_to_arrow
from interbed.storage.base.arrow_values import nulls_of
from interbed.storage.base.avro.records import METADATA_BLOCK_BYTES_MAX, PlainBlocks
from interbed.storage.base.decoding import plain_content
from interbed.storage.base.errors import CorruptFileError, InvalidOptionError, NotSupportedError
from interbed.storage.base.predicate.expr import AlwaysTrue, Predicate, columns_of, rename_columns, restrict_to
from interbed.storage.base.types.data_type import DataField
from interbed.storage.files.format.api import ReadChecks, data_file_errors
from interbed.storage.files.format.pages.footer import read_footer
from interbed.storage.files.format.readers import reader_for
from interbed.storage.io.api import ConfinedFileIO, FileIO, open_sized
from interbed.storage.io.resolve import file_io_for
from interbed.storage.io.stores.options import AZURE_NAMES, GCS_NAMES, LIMITS, S3_NAMES

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

OURS_ALONE = (
    *("store.", "local-cache."),
    *(names[what][0] for names in (S3_NAMES, GCS_NAMES, AZURE_NAMES) for what in LIMITS),
)
"""Prefixes of options of prefetch, cache and limits of requests, which have the same names for all tables."""

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


class StoreInputs(ReadOnlyFiles):
    """Opens files of any file system that interbed's `options` open, or those below one directory."""

    def __init__(self, options: Mapping[str, str], directory: str | None = None) -> None:
        super().__init__()
        self._options = options
        self._directory = directory

    def new_input(self, location: str) -> InputFile:
        return StoreInput(location, *confined_io(location, self._options, self._directory))


def confined_io(location: str, options: Mapping[str, str], directory: str | None) -> tuple[FileIO, str]:
    """Return the file system of a file, and its path there; with a directory one that reads only what is below it.

    NotSupportedError for a file in another file system than the directory.
    """
    file_io, path = file_io_for(location, options)
    if directory is None:
        return file_io, path
    own_io, root = file_io_for(directory, options)
    if own_io.scheme != file_io.scheme:
        raise NotSupportedError(f"The file {location} is in another file system than its table at {directory}.")
    return ConfinedFileIO(file_io, root), path


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFiles:
    """The settings to open any file of a table. Can be sent to another process.

    `mapping` is the table's name mapping in JSON; `identity` has, by partition spec, the ids of columns with the
    transform identity, and the place of each in a partition. With a `directory`, files elsewhere are refused.
    """

    store_options: Mapping[str, str]
    mapping: str | None
    identity: Mapping[int, Mapping[int, int]] = field(default_factory=dict)
    directory: str | None = None

    @staticmethod
    def of(metadata: TableMetadata, properties: Mapping[str, str], directory: str | None = None) -> "TableFiles":
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
            directory=directory,
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
        return confined_io(path, self.store_options, self.directory)

    def is_far(self, path: str) -> bool:
        """Return whether a file is in a remote file system, from which several files are better read at once."""
        return self.open(path)[0].capabilities.slow_requests

    @property
    def io(self) -> StoreInputs:
        """The file system in pyiceberg's interface, for its readers of metadata."""
        return StoreInputs(self.store_options, self.directory)

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


def static_table(location: str, properties: Mapping[str, str], directory: str | None = None) -> StaticTable:
    """Return the table of a metadata file; `properties` are pyiceberg's of the object store. With a `directory` a file
    elsewhere is refused.

    Raises FileNotFoundError and StorageAccessError, ValueError for a damaged file, and as pyiceberg does for invalid
    metadata. pyiceberg's own function sends two requests to an object store, and takes settings of the store from the
    table's properties: there a foreign writer could name an address that gets the keys, or a class that is imported.
    """
    with StoreInputs(store_options(properties), directory).new_input(location).open() as stream:
        content = stream.read()
    # Compressed files are named `v1.gz.metadata.json` or `v1.metadata.json.gz`.
    metadata = TableMetadataUtil.parse_raw(plain_content(content, METADATA_BLOCK_BYTES_MAX).decode())
    return StaticTable(
        identifier=(_NAME, location),
        metadata_location=location,
        metadata=metadata,
        io=load_file_io(dict(properties), location=location),
        catalog=NoopCatalog(_NAME),
    )


_ID_KEYS = (b"PARQUET:field_id", b"iceberg.id")
_CACHED = 256
"""The number of cached schemas; the files of a writer have the same one."""
_VERSION: Literal[3] = 3
"""All types of the newest version of the format are known, whatever the table's version is."""


def read_file_schema(
    path: str,
    file_format: str,
    file_io: FileIO,
    wanted: Iterable[int],
    mapping: str | None,
    *,
    size: int | None = None,
) -> Schema:
    """Return the columns of the file among those wanted by id, with the file's names.

    `mapping` is the table's name mapping, `size` the size of the file in bytes if it is known. Raises NotSupportedError
    for a column of an unknown type and for another format, CorruptFileError, and StorageAccessError.
    """
    read = _READERS.get(file_format)
    if read is None:
        raise NotSupportedError(
            f"The data file {path} is of the format '{file_format}'; of Iceberg's {', '.join(_READERS)} are read."
        )
    with data_file_errors(path), open_sized(file_io, path, size) as source:
        try:
            return read(source, path, frozenset(wanted), mapping)
        except UnsupportedPyArrowTypeException as error:
            raise NotSupportedError(f"The data file {path} has a column that can't be read: {error}") from error


def _parquet(source: Any, path: str, wanted: frozenset[int], mapping: str | None) -> Schema:
    return _from_arrow(read_footer(source, path, verify=True).schema, wanted, mapping)


def _orc(source: Any, path: str, wanted: frozenset[int], mapping: str | None) -> Schema:
    return _from_arrow(orc.ORCFile(source).schema, wanted, mapping)


def _avro(source: Any, path: str, wanted: frozenset[int], mapping: str | None) -> Schema:
    found = AvroSchemaConversion().avro_to_iceberg(PlainBlocks(source).schema)
    return Schema(*(field for field in found.fields if field.field_id in wanted))


def _from_arrow(schema: pa.Schema, wanted: frozenset[int], mapping: str | None) -> Schema:
    # Arrow compares schemas without their metadata, which have the ids; so compare their bytes.
    return _converted(schema.serialize().to_pybytes(), wanted, mapping)


@lru_cache(_CACHED)
def _converted(schema_bytes: bytes, wanted: frozenset[int], mapping_text: str | None) -> Schema:
    schema = pa.ipc.read_schema(pa.py_buffer(schema_bytes))
    mapping = None if mapping_text is None else parse_mapping_from_json(mapping_text)
    by_id: dict[int, Any] = {number: field for field in schema if (number := _id_of(field)) is not None}
    if not by_id and mapping is not None:
        names: Mapping[str, int | None] = {name: entry.field_id for entry in mapping.root for name in entry.names}
        by_id = {number: field for field in schema if (number := names.get(field.name)) is not None}
    chosen = [field for number, field in by_id.items() if number in wanted]
    if not chosen:
        return Schema()
    return pyarrow_to_schema(pa.schema(chosen), mapping, format_version=_VERSION)


def _id_of(field: Any) -> int | None:
    metadata = field.metadata or {}
    text = next((metadata[key] for key in _ID_KEYS if key in metadata), None)
    return None if text is None else int(text)


_READERS: dict[str, Callable[[Any, str, frozenset[int], str | None], Schema]] = {
    "parquet": _parquet,
    "orc": _orc,
    "avro": _avro,
}


Array = Any
"""An Arrow array; the stubs of pyarrow require the type of its values."""


def conform(array: Array, of_file: IcebergType, wanted: IcebergType) -> Array:
    """Convert the values of a file's column to the requested type.

    Raises CorruptFileError if the file lacks a required nested field, and ArrowException for values that are not of
    that type.
    """
    target = type_to_arrow(wanted)
    if _is_alike(of_file, wanted):
        return array if array.type.equals(target) else _cast(array, target)
    match of_file, wanted:
        case StructType(), StructType():
            return _struct(array, of_file, wanted, target)
        case ListType(), ListType():
            whole = _from_its_start(array)
            values = conform(whole.values, of_file.element_type, wanted.element_type)
            return pa.ListArray.from_arrays(whole.offsets, values, type=target, mask=_nulls_of(whole))
        case MapType(), MapType():
            whole = _from_its_start(array)
            keys = conform(whole.keys, of_file.key_type, wanted.key_type)
            items = conform(whole.items, of_file.value_type, wanted.value_type)
            of_map: Any = pa.MapArray
            return of_map.from_arrays(whole.offsets, keys, items, type=target, mask=_nulls_of(whole))
    return _cast(array, target)


def default_of(field: NestedField, rows: int) -> Array:
    """Return the values of a column that the file lacks. Raises CorruptFileError if the column is required and has no
    default.
    """
    target = type_to_arrow(field.field_type)
    if field.initial_default is not None:
        return constant(field.initial_default, target, rows)
    if field.required:
        raise CorruptFileError(f"the required column '{field.name}' is missing, and has no default")
    return nulls_of(rows, target)


def constant(value: object, target: pa.DataType, rows: int) -> Array:
    """Return a value repeated for all rows; dates and times may be numbers in the unit of the type."""
    plain: Any = getattr(value, "bytes", value)
    one: Any = pa.scalar(plain, type=target)
    return pa.repeat(one, rows)


def _struct(array: Array, of_file: StructType, wanted: StructType, target: pa.DataType) -> Array:
    places = {field.field_id: place for place, field in enumerate(of_file.fields)}
    children: list[Array] = []
    for part in wanted.fields:
        place = places.get(part.field_id)
        if place is None:
            children.append(default_of(part, len(array)))
        else:
            children.append(conform(array.field(place), of_file.fields[place].field_type, part.field_type))
    if not children:
        return array.cast(target)
    return pa.StructArray.from_arrays(children, fields=list(target), mask=_nulls_of(array))  # type: ignore[call-overload]


def _is_alike(one: IcebergType, other: IcebergType) -> bool:
    """Return whether the parts of both types are the same fields in the same order."""
    match one, other:
        case StructType(), StructType():
            return len(one.fields) == len(other.fields) and all(map(_are_fields_alike, one.fields, other.fields))
        case ListType(), ListType():
            return _is_alike(one.element_type, other.element_type)
        case MapType(), MapType():
            return _is_alike(one.key_type, other.key_type) and _is_alike(one.value_type, other.value_type)
    return bool(one.is_primitive and other.is_primitive)


def _are_fields_alike(one: NestedField, other: NestedField) -> bool:
    return (
        one.field_id == other.field_id
        and one.name == other.name
        and one.required == other.required
        and _is_alike(one.field_type, other.field_type)
    )


def _cast(array: Array, target: pa.DataType) -> Array:
    if pa.types.is_timestamp(array.type) and pa.types.is_timestamp(target) and array.type.unit == "ns" != target.unit:
        # Other engines write nanoseconds for columns of microseconds.
        return array.cast(target, safe=False)
    return array.cast(target)


def _from_its_start(array: Array) -> Array:
    """Return the same list array, with offsets that begin at its own values."""
    return pa.concat_arrays([array]) if array.offset else array


def _nulls_of(array: Array) -> Array:
    return array.is_null() if array.null_count else None


class FileColumns:
    """The columns `wanted` of a file whose columns are `of_file`; `constants` are values by the id of the column."""

    def __init__(self, wanted: Schema, of_file: Schema, constants: Mapping[int, object]) -> None:
        self._wanted = wanted.fields
        self._in_file = {field.field_id: field for field in of_file.fields}
        self._constants = constants
        self._schema = schema_to_arrow(wanted)

    @property
    def fields(self) -> list[DataField]:
        """The fields to read from the file."""
        return [data_field(field) for field in self._in_file.values()]

    def predicate(self, predicate: Predicate | None) -> Predicate | None:
        """Return the part of a predicate over the wanted columns that the file's own statistics can evaluate; None for
        nothing.
        """
        if predicate is None:
            return None
        names = {
            field.name: mine.name
            for field in self._wanted
            if (mine := self._in_file.get(field.field_id)) is not None and mine.field_type == field.field_type
        }
        asked = restrict_to(predicate, columns_of(predicate) & names.keys())
        return None if isinstance(asked, AlwaysTrue) else rename_columns(asked, names)

    def conform(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Convert the rows of a batch of the file to the requested columns.

        Raises CorruptFileError, and the errors of Arrow for a column that cannot be converted.
        """
        if not self._wanted:
            return batch.select([]) if batch.num_columns else batch
        arrays = [self._array(field, batch) for field in self._wanted]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _array(self, field: NestedField, batch: pa.RecordBatch) -> Array:
        number = field.field_id
        mine = self._in_file.get(number)
        if mine is not None:
            return conform(batch.column(mine.name), mine.field_type, field.field_type)
        if number in self._constants:
            return constant(self._constants[number], type_to_arrow(field.field_type), batch.num_rows)
        return default_of(field, batch.num_rows)
