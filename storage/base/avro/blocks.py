"""The outside of Avro files: their header, and their blocks without compression.

On disk: `Obj` and 1, a map with `avro.schema` and `avro.codec`, 16 bytes of a marker; then blocks of the number of
their rows, the number of their bytes, the rows, compressed, and the marker again. Source: Avro specification 1.11,
object container files.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import IO, Any, cast

from interbed.storage.base.avro.codec import decompressor
from interbed.storage.base.avro.decode import Block

MAGIC = b"Obj\x01"
SYNC_BYTES = 16
_LOGICAL = ("logicalType", "precision", "scale")


class PlainBlocks:
    """The blocks of an Avro file, plain.

    `schema_text` is the file's schema in JSON. Raises ValueError for bytes that are no such file,
    ArrowNotImplementedError for an unknown codec.
    """

    def __init__(self, source: Any) -> None:
        self._source = source
        if source.read(len(MAGIC)) != MAGIC:
            raise ValueError("it does not begin as an Avro file does")
        metadata = self._read_metadata()
        self._sync = self._exactly(SYNC_BYTES)
        self.schema_text = metadata["avro.schema"].decode()
        self._decompress = decompressor(metadata.get("avro.codec", b"null").decode())

    @cached_property
    def schema(self) -> Mapping[str, Any]:
        """The schema of the file's records; raises ValueError when it is none."""
        schema = json.loads(self.schema_text)
        if not isinstance(schema, Mapping) or schema.get("type") != "record":
            raise ValueError("its schema is not a record")
        return schema

    @cached_property
    def field_types(self) -> dict[str, Any]:
        """The types of the outermost record's fields by name; raises ValueError when the schema is of no record."""
        return {f["name"]: f["type"] for f in self.schema["fields"]}

    def windows(self, size: int) -> Iterator[list[Block]]:
        """The blocks in order, as many together as have about so many plain bytes."""
        window: list[Block] = []
        taken = 0
        while (block := self._next_block()) is not None:
            window.append(block)
            taken += len(block[1])
            if taken >= size:
                yield window
                window, taken = [], 0
        if window:
            yield window

    def container(self, blocks: Sequence[Block]) -> bytes:
        """A file of these blocks, without codec and logical types."""
        parts = [header_bytes(_without_logical(self.schema), "null", self._sync)]
        for rows, content in blocks:
            parts += [long_bytes(rows), long_bytes(len(content)), content, self._sync]
        return b"".join(parts)

    def _next_block(self) -> Block | None:
        first = self._source.read(1)
        if not first:
            return None
        rows = self._read_long(first)
        size = self._read_long()
        if rows < 0 or size < 0:
            raise ValueError("a block has a negative size")
        block = self._decompress(self._exactly(size))
        if self._exactly(SYNC_BYTES) != self._sync:
            raise ValueError("a block does not end with the file's marker")
        return rows, block

    def _read_metadata(self) -> dict[str, bytes]:
        metadata: dict[str, bytes] = {}
        while count := self._read_long():
            if count < 0:
                # A negative count is followed by the size in bytes, for those who skip the block.
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
        found = bytes(cast("IO[bytes]", self._source).read(size)) if size >= 0 else b""
        if len(found) != size:
            # No EOFError, which fastavro takes for the end of the file.
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


def header_bytes(schema: Any, codec: str, sync: bytes) -> bytes:
    """What an Avro file begins with."""
    metadata = {"avro.schema": json.dumps(schema).encode(), "avro.codec": codec.encode()}
    parts = [MAGIC, long_bytes(len(metadata))]
    for key, value in metadata.items():
        parts += [long_bytes(len(key)), key.encode(), long_bytes(len(value)), value]
    return b"".join([*parts, long_bytes(0), sync])


def long_bytes(value: int) -> bytes:
    """A number that is not negative, as Avro writes a long."""
    rest = value << 1
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)
