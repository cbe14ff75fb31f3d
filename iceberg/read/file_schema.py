"""The columns of a data file with Iceberg's ids: those in the file, or those that the table's name mapping gives.

Source: Iceberg's table specification, "Column Projection" and the appendix "Format-specific Requirements".
"""

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, Literal

import pyarrow as pa
from pyarrow import orc
from pyiceberg.io.pyarrow import UnsupportedPyArrowTypeException, pyarrow_to_schema
from pyiceberg.schema import Schema
from pyiceberg.table.name_mapping import parse_mapping_from_json
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

from interbed.storage.base.avro.blocks import PlainBlocks
from interbed.storage.base.errors import NotSupportedError
from interbed.storage.base.fileio.ahead.needs import open_sized
from interbed.storage.base.fileio.api import FileIO
from interbed.storage.files.format.api import data_file_errors
from interbed.storage.files.format.pages.footer import read_footer

_ID_KEYS = (b"PARQUET:field_id", b"iceberg.id")
_CACHED = 256
"""Schemas that are kept; the files of a writer have the same one."""
_VERSION: Literal[3] = 3
"""All types of the newest version of the format are known, whatever the table's is."""


def read_file_schema(
    path: str,
    file_format: str,
    file_io: FileIO,
    wanted: Iterable[int],
    mapping: str | None,
    *,
    size: int | None = None,
) -> Schema:
    """The columns of the file among those wanted by id, with the file's names; `mapping` is the table's name mapping.

    The file is said to have `size` bytes, where that is known.

    Raises NotSupportedError for a column whose type in the file is unknown and for another format, CorruptFileError,
    and StorageAccessError.
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
    # A schema is compared without its metadata, where the ids are.
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
