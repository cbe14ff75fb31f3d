"""Calendar of the days in an ORC file of another program, from the tail of the file.

Java's ORC writer counts days by the hybrid calendar by default, as Hive and all versions of Spark do. Its footer
says so, or nothing; other writers count by the Gregorian calendar. Arrow reads the numbers as they are.
Paimon's own data files have Gregorian days whatever their footer says, so that they are not checked.

    end of the file   footer | postscript | one byte: the length of the postscript
    postscript        1 length of the footer, 2 compression
    footer            9 writer (0 or none: Java), 11 calendar (1 or none: hybrid, 2: Gregorian)

Both are messages of Protocol Buffers. Sources: ORC specification v1, file tail and compression; orc_proto.proto.
"""

import os
import sys
import zlib
from collections.abc import Iterator
from typing import BinaryIO

import pyarrow as pa

from interbed.storage.base.errors import CorruptFileError
from interbed.storage.files.format.hybrid_calendar import HybridCalendar

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_FOOTER_LENGTH, _COMPRESSION = 1, 2
_WRITER, _CALENDAR = 9, 11
_GREGORIAN = 2
_NONE, _ZLIB, _SNAPPY, _LZ4, _ZSTD = 0, 1, 2, 4, 5
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED = {_FIXED64: 8, _FIXED32: 4}


def orc_calendar(path: str) -> HybridCalendar | None:
    """Return the parts of a local ORC file that count by the hybrid calendar; None for a file without any.

    Raises CorruptFileError for a tail that can't be read.
    """
    try:
        footer = dict(_numbers(_footer(path)))
    except (ValueError, IndexError, KeyError, zlib.error, zstd.ZstdError, pa.ArrowException) as error:
        raise CorruptFileError(f"The ORC file {path} has no readable footer: {error!r}.") from error
    if footer.get(_WRITER, 0) or footer.get(_CALENDAR) == _GREGORIAN:
        return None
    return HybridCalendar.of_days("Write the file again as Parquet by Spark 3 or newer.")


def _footer(path: str) -> bytes:
    with open(path, "rb") as file:
        end = file.seek(0, os.SEEK_END) - 1
        length = _read(file, end, 1)[0]
        postscript = dict(_numbers(_read(file, end - length, length)))
        size = postscript[_FOOTER_LENGTH]
        footer = _read(file, end - length - size, size)
    kind = postscript.get(_COMPRESSION, _NONE)
    return footer if kind == _NONE else b"".join(_blocks(footer, kind))


def _read(file: BinaryIO, start: int, length: int) -> bytes:
    if start < 0:
        raise ValueError("it is too short")
    file.seek(start)
    return file.read(length)


def _blocks(content: bytes, kind: int) -> Iterator[bytes]:
    """Decompress the blocks; each begins with its length in three bytes, the lowest bit of which marks plain bytes."""
    at = 0
    while at < len(content):
        head = int.from_bytes(content[at : at + 3], "little")
        block = content[at + 3 : at + 3 + (head >> 1)]
        at += 3 + len(block)
        if head & 1:
            yield block
        elif kind == _ZLIB:
            yield zlib.decompress(block, -zlib.MAX_WBITS)
        elif kind == _ZSTD:
            yield zstd.decompress(block)
        elif kind == _SNAPPY:
            size, _ = _varint(block, 0)
            yield pa.decompress(block, size, "snappy").to_pybytes()
        elif kind == _LZ4:
            yield pa.decompress(block, _lz4_size(block), "lz4_raw").to_pybytes()
        else:
            raise ValueError(f"compression {kind} is unknown")


def _lz4_size(block: bytes) -> int:
    """Return the number of bytes that an LZ4 block decompresses to: its literals and its matches."""
    size = at = 0
    while at < len(block):
        token = block[at]
        literals, at = _lz4_length(block, at + 1, token >> 4)
        size += literals
        at += literals
        if at < len(block):
            matched, at = _lz4_length(block, at + 2, token & 15)
            size += matched + 4
    return size


def _lz4_length(block: bytes, at: int, length: int) -> tuple[int, int]:
    """Return a length of which four bits are known, and the position after its further bytes."""
    more = 255 if length == 15 else 0
    while more == 255:
        more = block[at]
        length += more
        at += 1
    return length, at


def _numbers(message: bytes) -> Iterator[tuple[int, int]]:
    """Yield the fields of a message that are numbers, by their own number."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        number, kind = key >> 3, key & 7
        if kind == _VARINT:
            value, at = _varint(message, at)
            yield number, value
        elif kind == _BYTES:
            size, at = _varint(message, at)
            at += size
        else:
            at += _FIXED[kind]


def _varint(content: bytes, at: int) -> tuple[int, int]:
    """Return a number of variable length, and the position after it."""
    value = shift = 0
    while True:
        byte = content[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at
