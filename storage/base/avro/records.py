"""Avro files of records, read and written as Paimon's manifests are.

Readers take the fields that they know by name and leave out the others, so that files of older and newer writers, and
those that name their records in another way, are read alike.
"""

import io
import json
import lzma
import struct
import sys
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, TypeVar

import fastavro
from fastavro.read import SchemaResolutionError
from fastavro.schema import SchemaParseException, UnknownType

from interbed.storage.base.errors import CorruptFileError, InvalidOptionError

if sys.version_info >= (3, 14):
    from compression.zstd import ZstdError
else:
    from backports.zstd import ZstdError

T = TypeVar("T")
Schema = dict[str, Any]

_LOGICAL = '"logicalType"'
_NOT_LOGICAL = '"logicalName"'

RECORD = "org.apache.paimon.avro.generated.record"
"""The name of the outermost record; those inside of it are named after their field, as Java Paimon does."""

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
# What fastavro and the codecs' libraries raise for bytes that are not such a file.
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
)


def codec_of(compression: str) -> str:
    """Avro's name of a value of the option `manifest.compression`; raises InvalidOptionError."""
    try:
        return _CODECS[compression.lower()]
    except KeyError:
        known = ", ".join(sorted(_CODECS))
        raise InvalidOptionError(f"Option 'manifest.compression' takes one of {known}, not '{compression}'.") from None


def write_records(schema: Schema, records: Iterable[Mapping[str, Any]], compression: str) -> bytes:
    """The content of an Avro file of the records; `compression` is a value of `manifest.compression`."""
    target = io.BytesIO()
    fastavro.writer(target, _parsed(json.dumps(schema)), records, codec=codec_of(compression))
    return target.getvalue()


def read_records(
    content: bytes, known: Collection[str], make: Callable[[dict[str, Any]], T], *, source: str
) -> list[T]:
    """The records of an Avro file's content, made into values by `make`.

    Only fields whose names are among `known` are decoded, at every depth; a field that the file lacks is absent.
    Raises CorruptFileError naming `source` for anything that is not such a file, or that `make` can't take.
    """
    with metadata_errors(source):
        return _read(content, frozenset(known), make)


@contextmanager
def metadata_errors(source: str) -> Iterator[None]:
    """Whatever is raised for bytes that are no Avro file of metadata becomes CorruptFileError naming `source`."""
    try:
        yield
    except _CORRUPTION as error:
        raise CorruptFileError(f"{source} can't be read as an Avro file of metadata: {error!r}") from error


def _read(content: bytes, known: frozenset[str], make: Callable[[dict[str, Any]], T]) -> list[T]:
    written = str(fastavro.reader(io.BytesIO(content)).metadata["avro.schema"])
    if _LOGICAL in written:
        # fastavro would make datetimes of times, slowly and not of all of them; under another name of the same length
        # the attribute means nothing to it.
        plain = written.replace(_LOGICAL, _NOT_LOGICAL)
        content = content.replace(written.encode(), plain.encode(), 1)
    reader = fastavro.reader(io.BytesIO(content), _projected(written, known))
    # fastavro's stubs know no closer type of a record.
    records: Any = reader
    return [make(one) for one in records]


@lru_cache(maxsize=64)
def _parsed(schema: str) -> Any:
    return fastavro.parse_schema(json.loads(schema))


@lru_cache(maxsize=64)
def _projected(written: str, known: frozenset[str]) -> Any:
    """The written schema without unknown fields and without logical types; None when it has no unknown fields.

    Without a schema of its own the reader decodes twice as fast.
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
    """The type or null."""
    return ["null", data_type]


def field(name: str, data_type: Any) -> dict[str, Any]:
    """A field of a record; one that admits null defaults to it, so that older files can lack it."""
    if isinstance(data_type, list) and data_type[0] == "null":
        return {"name": name, "type": data_type, "default": None}
    return {"name": name, "type": data_type}


def record(path: str, fields: list[dict[str, Any]]) -> Schema:
    """A record; `path` is '' for the outermost and the path of field names, each after a `_`, for one inside of it."""
    return {"type": "record", "name": RECORD + path, "fields": fields}


def field_names(schema: Any) -> set[str]:
    """The names of all fields of a schema, at every depth."""
    if isinstance(schema, list):
        return set().union(*map(field_names, schema))
    if not isinstance(schema, dict):
        return set()
    if schema["type"] == "record":
        return set().union(*({f["name"]} | field_names(f["type"]) for f in schema["fields"]))
    return field_names(schema["items"]) if schema["type"] == "array" else set()
