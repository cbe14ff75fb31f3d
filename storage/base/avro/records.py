"""Avro files of records, in the form of Paimon's manifests.

Readers match fields by name and ignore unknown ones, so that they read files of older and newer writers, and files that
name their records in another way.
"""

import io
import json
import lzma
import os
import struct
import sys
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

import fastavro
import pyarrow as pa
from fastavro.read import SchemaResolutionError
from fastavro.schema import SchemaParseException, UnknownType

from interbed.storage.base.avro.blocks import OF_METADATA, SYNC_BYTES, PlainBlocks, block_bytes, header_bytes
from interbed.storage.base.avro.codecs import compressor
from interbed.storage.base.errors import CorruptFileError, InvalidOptionError, NotSupportedError

if sys.version_info >= (3, 14):
    from compression.zstd import ZstdError
else:
    from backports.zstd import ZstdError

T = TypeVar("T")
Schema = dict[str, Any]

_ZSTD_LEVEL = 3

RECORD = "org.apache.paimon.avro.generated.record"
"""The name of the outermost record; nested records are named after their field, as in Java Paimon."""

_CODECS = {
    "zstd": "zstandard",
    "zstandard": "zstandard",
    "none": "null",
    "null": "null",
    "uncompressed": "null",
    "deflate": "deflate",
    "snappy": "snappy",
    "bzip2": "bzip2",
    "xz": "xz",
}
# The errors of fastavro, Arrow and the codecs' libraries for bytes that are no such file.
_CORRUPTION: tuple[type[Exception], ...] = (
    ValueError,
    KeyError,
    IndexError,
    TypeError,
    EOFError,
    StopIteration,
    OverflowError,
    MemoryError,
    AttributeError,
    AssertionError,
    struct.error,
    zlib.error,
    lzma.LZMAError,
    ZstdError,
    SchemaParseException,
    UnknownType,
    OSError,
    SchemaResolutionError,
    RecursionError,
    pa.ArrowException,
)


def codec_of(compression: str) -> str:
    """Return Avro's name of a value of the option `manifest.compression`. Raises InvalidOptionError."""
    try:
        return _CODECS[compression.lower()]
    except KeyError:
        known = ", ".join(sorted(_CODECS))
        raise InvalidOptionError(f"Option 'manifest.compression' takes one of {known}, not '{compression}'.") from None


def write_records(schema: Schema, records: Iterable[Mapping[str, Any]], compression: str) -> bytes:
    """Return the content of an Avro file of the records; `compression` is a value of `manifest.compression`."""
    return _packed(_parsed(json.dumps(schema)), records, codec_of(compression))


def _packed(schema: Any, records: Iterable[Mapping[str, Any]], codec: str) -> bytes:
    """Return a file of the records. fastavro's codecs and headers have no checksums, so both are written here."""
    target = io.BytesIO()
    fastavro.writer(target, schema, records, codec="null")
    target.seek(0)
    plain = PlainBlocks(target)
    compress = compressor(codec, _ZSTD_LEVEL)
    sync = os.urandom(SYNC_BYTES)
    blocks = list(plain)
    parts = [header_bytes(plain.schema_text, codec, sync, sum(rows for rows, _ in blocks))]
    parts += [block_bytes(rows, compress(content), sync) for rows, content in blocks]
    return b"".join(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFile:
    """The records of an Avro file with all of their fields, its schema and its codec."""

    records: list[dict[str, Any]]
    schema: Schema
    codec: str
    file_format: str = "avro"

    @staticmethod
    def read(content: bytes, *, source: str) -> "RecordFile":
        """Return the file of that content. Raises CorruptFileError naming `source`."""
        with metadata_errors(source):
            file = PlainBlocks(io.BytesIO(content), OF_METADATA)
            return RecordFile(
                records=_decoded(file, None, _same), schema=json.loads(file.schema_text), codec=file.codec
            )

    def to_bytes(self) -> bytes:
        """Return the content of a file of the records."""
        return _packed(fastavro.parse_schema(self.schema), self.records, self.codec)


def _same(one: dict[str, Any]) -> dict[str, Any]:
    return one


def read_records(
    content: bytes, known: Collection[str], make: Callable[[dict[str, Any]], T], *, source: str
) -> list[T]:
    """Return the records of an Avro file's content, converted by `make`.

    Only fields whose names are in `known` are decoded, at every depth; a field that the file lacks is absent. Raises
    CorruptFileError naming `source` for bytes that are no such file, and for records that `make` does not accept.
    """
    with metadata_errors(source):
        return _read(content, frozenset(known), make)


@contextmanager
def metadata_errors(source: str) -> Iterator[None]:
    """Convert the errors of decoders for damaged metadata to CorruptFileError naming `source`."""
    try:
        yield
    except pa.ArrowNotImplementedError as error:
        raise NotSupportedError(f"{source} can't be read by this version: {error}.") from error
    except _CORRUPTION as error:
        raise CorruptFileError(f"{source} can't be read as a file of metadata: {error!r}") from error


def _read(content: bytes, known: frozenset[str], make: Callable[[dict[str, Any]], T]) -> list[T]:
    file = PlainBlocks(io.BytesIO(content), OF_METADATA)
    return _decoded(file, _projected(file.schema_text, known), make)


def _decoded(file: PlainBlocks, schema: Any, make: Callable[[dict[str, Any]], T]) -> list[T]:
    """Return the records, read by `schema` (by the file's when None) and converted by `make`."""
    blocks = list(file)
    # Without logical types: fastavro would convert timestamps to datetimes, which is slow and fails for some.
    reader = fastavro.reader(io.BytesIO(file.container(blocks)), schema)
    # The stubs of fastavro have no closer type of a record.
    records: Any = reader
    made = [make(one) for one in records]
    said = sum(rows for rows, _ in blocks) if file.records is None else file.records
    if len(made) != said:
        raise ValueError(f"it has {len(made)} records instead of {said}")
    return made


@lru_cache(maxsize=64)
def _parsed(schema: str) -> Any:
    return fastavro.parse_schema(json.loads(schema))


@lru_cache(maxsize=64)
def _projected(written: str, known: frozenset[str]) -> Any:
    """Return the written schema without unknown fields and logical types; None when it has no unknown fields.

    Without a reader's schema fastavro decodes twice as fast.
    """
    schema = json.loads(written)
    return _project(schema, known) if field_names(schema) - known else None


def _project(schema: Any, known: frozenset[str]) -> Any:
    if isinstance(schema, list):
        return [_project(s, known) for s in schema]
    if not isinstance(schema, dict):
        return schema
    if schema["type"] == "record":
        fields = [{**f, "type": _project(f["type"], known)} for f in schema["fields"] if f["name"] in known]
        return {"type": "record", "name": schema["name"], "fields": fields}
    if schema["type"] == "array":
        return {"type": "array", "items": _project(schema["items"], known)}
    if schema["type"] == "map":
        return {"type": "map", "values": _project(schema["values"], known)}
    if isinstance(schema["type"], dict | list):
        return _project(schema["type"], known)
    return schema["type"] if "logicalType" in schema else schema


def optional(data_type: Any) -> list[Any]:
    """Return the union of null and the type."""
    return ["null", data_type]


def field(name: str, data_type: Any) -> dict[str, Any]:
    """Return a field of a record; a nullable field defaults to null, so that older files can lack it."""
    if isinstance(data_type, list) and data_type[0] == "null":
        return {"name": name, "type": data_type, "default": None}
    return {"name": name, "type": data_type}


def record(path: str, fields: list[dict[str, Any]]) -> Schema:
    """Return a record; `path` is '' for the outermost, and for others the names of fields, each after a `_`."""
    return {"type": "record", "name": RECORD + path, "fields": fields}


def field_names(schema: Any) -> set[str]:
    """Return the names of all fields of a schema, at every depth."""
    if isinstance(schema, list):
        return set().union(*map(field_names, schema))
    if not isinstance(schema, dict):
        return set()
    if schema["type"] == "record":
        return set().union(*({f["name"]} | field_names(f["type"]) for f in schema["fields"]))
    return field_names(schema["items"]) if schema["type"] == "array" else set()
