"""The outside of Avro files, and such a file as a decoder sees it that knows neither codecs nor logical types.

On disk: `Obj` and 1, a map with `avro.schema` and `avro.codec`, 16 bytes of a marker; then blocks of the number of
their rows, the number of their bytes, the rows, compressed, and the marker again. Source: Avro specification 1.11,
object container files.
"""

import json
from collections.abc import Mapping
from typing import IO, Any, cast

from interbed.storage.format.avro_codec import decompressor

MAGIC = b"Obj\x01"
SYNC_BYTES = 16
_LOGICAL = ("logicalType", "precision", "scale")


class PlainBlocks:
    """A file object with the content of an Avro file, block by block, plain and without logical types.

    `field_types` are the types of the outermost record's fields by name, as the file has them. Raises ValueError for
    bytes that are no such file, ArrowNotImplementedError for an unknown codec.
    """

    def __init__(self, source: Any) -> None:
        self._source = source
        if source.read(len(MAGIC)) != MAGIC:
            raise ValueError("it does not begin as an Avro file does")
        metadata = self._read_metadata()
        self._sync = self._exactly(SYNC_BYTES)
        schema = json.loads(metadata["avro.schema"])
        if not isinstance(schema, Mapping) or schema.get("type") != "record":
            raise ValueError("its schema is not a record")
        self._decompress = decompressor(metadata.get("avro.codec", b"null").decode())
        self.field_types: dict[str, Any] = {f["name"]: f["type"] for f in schema["fields"]}
        plain = _without_logical(schema)
        self._buffer = memoryview(header_bytes(plain, "null", self._sync))

    def read(self, size: int) -> bytes:
        """The next bytes, fewer only at the end of the file."""
        taken = self._take(size)
        while len(taken) < size and self._next_block():
            taken += self._take(size - len(taken))
        return taken

    def _take(self, size: int) -> bytes:
        taken = bytes(self._buffer[:size])
        self._buffer = self._buffer[size:]
        return taken

    def _next_block(self) -> bool:
        first = self._source.read(1)
        if not first:
            return False
        rows = self._read_long(first)
        size = self._read_long()
        if rows < 0 or size < 0:
            raise ValueError("a block has a negative size")
        block = self._decompress(self._exactly(size))
        if self._exactly(SYNC_BYTES) != self._sync:
            raise ValueError("a block does not end with the file's marker")
        self._buffer = memoryview(b"".join((long_bytes(rows), long_bytes(len(block)), block, self._sync)))
        return True

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
