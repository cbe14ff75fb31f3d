"""Records of Avro files, decoded by pyiceberg's readers from blocks whose bounds are checked.

Files may come from any writer, also from one that attacks the server. pyiceberg's compiled decoder reads memory beyond
the end of a block where a length is forged, rounds DOUBLE to FLOAT, and takes an empty block and the end of a truncated
file for the end of the records. The decoder here has the bytes of one block at a time. Source: Avro specification 1.11,
binary encoding.
"""

import io
import struct
from collections.abc import Callable, Iterator
from typing import Any

from pyiceberg.avro.decoder import BinaryDecoder
from pyiceberg.avro.reader import Reader
from pyiceberg.io import InputFile

from interbed.storage.base.avro.records import OF_METADATA, PlainBlocks

_FLOAT = struct.Struct("<f")
_DOUBLE = struct.Struct("<d")
_MORE = 0x80
_SHIFT_MAX = 63


def avro_records(source: InputFile, reader_of: Callable[[str], Reader]) -> Iterator[Any]:
    """Yield the records of a file; `reader_of` returns the reader for the file's schema in JSON.

    Raises ValueError for a damaged or truncated file, and as PlainBlocks and the reader do.
    """
    with source.open() as stream:
        content = stream.read()
    blocks = PlainBlocks(io.BytesIO(content), OF_METADATA)
    reader = reader_of(blocks.schema_text)
    for count, block in blocks:
        decoder = BlockDecoder(block)
        for _ in range(count):
            yield reader.read(decoder)
        if decoder.tell() != len(block):
            raise ValueError("a block does not end with its last record")


class BlockDecoder(BinaryDecoder):
    """Decoder of the values of a block. Raises ValueError for a value that ends beyond the block."""

    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def tell(self) -> int:
        """Return the position of the next value."""
        return self._at

    def read(self, n: int) -> bytes:
        """Return the next bytes."""
        start = self._at
        self.skip(n)
        return self._data[start : self._at]

    def skip(self, n: int) -> None:
        """Leave out the next bytes."""
        end = self._at + n
        if n < 0 or end > len(self._data):
            raise ValueError("a value ends beyond its block")
        self._at = end

    def read_boolean(self) -> bool:
        """Return a value of BOOLEAN."""
        return self.read(1) == b"\x01"

    def read_int(self) -> int:
        """Return an INT or LONG."""
        data, at = self._data, self._at
        try:
            byte = data[at]
            at += 1
            value, shift = byte & 0x7F, 7
            while byte >= _MORE:
                if shift > _SHIFT_MAX:
                    raise ValueError("a number has more than 64 bits")
                byte = data[at]
                at += 1
                value |= (byte & 0x7F) << shift
                shift += 7
        except IndexError:
            raise ValueError("a number ends beyond its block") from None
        self._at = at
        return (value >> 1) ^ -(value & 1)

    def skip_int(self) -> None:
        """Leave out an INT or LONG."""
        self.read_int()

    def read_bytes(self) -> bytes:
        """Return BYTES, which have their length before them."""
        return self.read(self.read_int())

    def read_float(self) -> float:
        """Return a value of FLOAT."""
        (value,) = _FLOAT.unpack(self.read(_FLOAT.size))
        return float(value)

    def read_double(self) -> float:
        """Return a value of DOUBLE."""
        (value,) = _DOUBLE.unpack(self.read(_DOUBLE.size))
        return float(value)
