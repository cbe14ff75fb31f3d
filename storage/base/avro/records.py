"""Avro files: their container of blocks, and files of records in the form of Paimon's manifests.

On disk: `Obj` and 1, a map with `avro.schema` and `avro.codec`, 16 bytes of a marker; then blocks: the number of rows,
the number of bytes, the compressed rows, and the marker again. The map of files of interbed has two more keys: a
checksum of all bytes before the blocks (`interbed.storage.base.checksums`), and in metadata files the number of
records.

Readers of records match fields by name and ignore unknown ones, so that they read files of older and newer writers, and
files that name their records in another way. codecs.py compresses the blocks. Source: Avro specification 1.11,
object container files.
"""

import io
import json
import lzma
import os
import struct
import sys
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import IO, Any, TypeVar, cast

import fastavro
import pyarrow as pa
from fastavro.read import SchemaResolutionError
from fastavro.schema import SchemaParseException, UnknownType

from interbed.storage.base.avro.codecs import compressor, decompressor
from interbed.storage.base.avro.decode import Block
from interbed.storage.base.checksums import CHECKSUM_KEY, EMPTY_CHECKSUM, verify_checksum, with_checksum
from interbed.storage.base.errors import CorruptFileError, InvalidOptionError, NotSupportedError

if sys.version_info >= (3, 14):
    from compression.zstd import ZstdError
else:
    from backports.zstd import ZstdError


MAGIC = b"Obj\x01"
SYNC_BYTES = 16
RECORDS = "interbed.records"
"""The key of the number of records in a file, in decimal digits."""
_LOGICAL = ("logicalType", "precision", "scale")

BLOCK_BYTES_MAX = (1 << 31) - 1
"""Plain bytes of a block of rows: Java's arrays have no more."""
METADATA_BLOCK_BYTES_MAX = 256 << 20
"""Plain bytes of a block of metadata: a few KB can expand to many GB."""
METADATA_BYTES_MAX = 1 << 30
"""Plain bytes of all blocks of a file of metadata."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainLimits:
    """The most plain bytes of a block, and of all blocks of a file, None for any number of them."""

    block: int = BLOCK_BYTES_MAX
    file: int | None = None


OF_ROWS = PlainLimits()
OF_METADATA = PlainLimits(block=METADATA_BLOCK_BYTES_MAX, file=METADATA_BYTES_MAX)


_OPTIONAL = 2
"""The number of types in a union of a type and null."""


class PlainBlocks:
    """Decompressed blocks of an Avro file, in order.

    `schema_text` is the file's schema in JSON, `codec` Avro's name of its compression, `records` the number of its
    records, None where the header does not have it. Raises ValueError and KeyError for damaged bytes, for other files
    and for blocks beyond the limits, ArrowNotImplementedError for an unknown codec.
    """

    def __init__(self, source: Any, limits: PlainLimits = OF_ROWS) -> None:
        self._source = source
        self._limits = limits
        self._plain = 0
        self._end = int(source.seek(0, io.SEEK_END))
        source.seek(0)
        if source.read(len(MAGIC)) != MAGIC:
            raise ValueError("it does not begin as an Avro file does")
        metadata = self._read_metadata()
        self._sync = self._exactly(SYNC_BYTES)
        if CHECKSUM_KEY in metadata:
            begin = source.tell()
            source.seek(0)
            verify_checksum(self._exactly(begin), _CHECKSUM_PREFIX)
        self.schema_text = metadata["avro.schema"].decode()
        self.records = int(metadata[RECORDS]) if RECORDS in metadata else None
        self.codec = metadata.get("avro.codec", b"null").decode()

    @cached_property
    def _decompress(self) -> Callable[[bytes], bytes]:
        return decompressor(self.codec, self._limits.block)

    @cached_property
    def schema(self) -> Any:
        """The file's schema. Raises ValueError when the text is no schema."""
        return json.loads(self.schema_text)

    @cached_property
    def field_types(self) -> dict[str, Any]:
        """The types of the outermost record's fields by name. Raises ValueError when the schema is no record."""
        record = self.schema
        if self.is_optional:
            record = next(each for each in record if each != "null")
        if not isinstance(record, Mapping) or record.get("type") != "record":
            raise ValueError("its schema is not a record")
        return {f["name"]: f["type"] for f in record["fields"]}

    @property
    def is_optional(self) -> bool:
        """Whether the schema is a record or null, as in files with some columns by Java Paimon: each row has a tag."""
        schema = self.schema
        return isinstance(schema, list) and len(schema) == _OPTIONAL and "null" in schema

    def __iter__(self) -> Iterator[Block]:
        while (block := self._next_block()) is not None:
            yield block

    def windows(self, size: int) -> Iterator[list[Block]]:
        """Yield the blocks in order, in lists of about `size` plain bytes."""
        window: list[Block] = []
        taken = 0
        for block in self:
            window.append(block)
            taken += len(block[1])
            if taken >= size:
                yield window
                window, taken = [], 0
        if window:
            yield window

    def container(self, blocks: Sequence[Block]) -> bytes:
        """Return an Avro file of these blocks, without codec and logical types."""
        parts = [header_bytes(json.dumps(_without_logical(self.schema)), "null", self._sync)]
        for rows, content in blocks:
            parts.append(block_bytes(rows, content, self._sync))
        return b"".join(parts)

    def check_whole(self) -> None:
        """Read to the end without decoding. Raises ValueError where the file is cut off or a marker is missing.

        Must be called before the blocks are read.
        """
        while self._packed() is not None:
            pass

    def _next_block(self) -> Block | None:
        found = self._packed()
        if found is None:
            return None
        rows, packed = found
        block = self._decompress(packed)
        self._plain += len(block)
        if self._limits.file is not None and self._plain > self._limits.file:
            raise ValueError(f"its blocks have more than {self._limits.file} bytes without compression")
        if rows > len(block) and not (isinstance(self.schema, Mapping) and self.schema.get("fields") == []):
            # A damaged count must not allocate memory for rows that do not exist.
            raise ValueError("a block has fewer bytes than rows")
        return rows, block

    def _packed(self) -> Block | None:
        """Return the next block as it is in the file."""
        first = self._source.read(1)
        if not first:
            return None
        rows = self._read_long(first)
        size = self._read_long()
        if rows < 0 or size < 0:
            raise ValueError("a block has a negative size")
        packed = self._exactly(size)
        if self._exactly(SYNC_BYTES) != self._sync:
            raise ValueError("a block does not end with the file's marker")
        return rows, packed

    def _read_metadata(self) -> dict[str, bytes]:
        metadata: dict[str, bytes] = {}
        while count := self._read_long():
            if count < 0:
                # A negative count is followed by the size in bytes, for readers that skip the block.
                self._read_long()
            for _ in range(abs(count)):
                key = self._exactly(self._read_long()).decode()
                metadata[key] = self._exactly(self._read_long())
        return metadata

    def _read_long(self, first: bytes = b"") -> int:
        value, shift = 0, 0
        while True:
            byte = (first or self._exactly(1))[0]
            first = b""
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)
            shift += 7
            if shift > 63:
                raise ValueError("a number has more than 64 bits")

    def _exactly(self, size: int) -> bytes:
        # Some sources allocate the requested bytes before they check that they exist. The error is no EOFError, which
        # fastavro takes for the end of the file.
        if not 0 <= size <= self._end:
            raise ValueError("it ends too early")
        found = bytes(cast("IO[bytes]", self._source).read(size))
        if len(found) != size:
            raise ValueError("it ends too early")
        return found


def _without_logical(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_logical(s) for s in schema]
    if not isinstance(schema, Mapping):
        return schema
    return {
        k: _without_logical(v) if k in ("type", "fields", "items", "values") else v
        for k, v in schema.items()
        if k not in _LOGICAL
    }


def header_bytes(schema_text: str, codec: str, sync: bytes, records: int | None = None) -> bytes:
    """Return the header of an Avro file; `records` is the number of records where it is known."""
    metadata = {"avro.schema": schema_text, "avro.codec": codec}
    if records is not None:
        metadata[RECORDS] = str(records)
    metadata[CHECKSUM_KEY] = EMPTY_CHECKSUM
    parts = [MAGIC, long_bytes(len(metadata))]
    for key, value in metadata.items():
        parts += [_text_bytes(key), _text_bytes(value)]
    return with_checksum(b"".join([*parts, long_bytes(0), sync]), _CHECKSUM_PREFIX)


def block_bytes(rows: int, packed: bytes, sync: bytes) -> bytes:
    """Return a block of `rows` rows; `packed` are their compressed bytes."""
    return b"".join((long_bytes(rows), long_bytes(len(packed)), packed, sync))


def _text_bytes(text: str) -> bytes:
    encoded = text.encode()
    return long_bytes(len(encoded)) + encoded


def long_bytes(value: int) -> bytes:
    """Return a number that is not negative in Avro's encoding of a long."""
    rest = value << 1
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


_CHECKSUM_PREFIX = _text_bytes(CHECKSUM_KEY) + long_bytes(len(EMPTY_CHECKSUM))
"""The key and the length before the checksum."""


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
