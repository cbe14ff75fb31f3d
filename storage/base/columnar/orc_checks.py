"""A checksum of ORC files, for which the format has no room but in the postscript, the last part of a file.

The postscript is a message of Protocol Buffers, whose readers pass over fields that they do not know. Ours has one more
field, with the CRC-32 of all that stands before it and of the length of the postscript. Files of other writers have
none, and are taken as they are. Source: ORC specification v1, file tail; Protocol Buffers encoding.
"""

import zlib
from typing import Any

import pyarrow as pa

_SEAL = b"\xfd\xff\x07"
"""The key of field 16383 with four bytes, in Protocol Buffers; a little-endian CRC-32 follows."""
_SUM_BYTES = 4
SEAL_BYTES = len(_SEAL) + _SUM_BYTES
_MOST_POSTSCRIPT = 255
"""The file's last byte is the length of the postscript."""
_CHUNK = 1 << 20


class SealingSink:
    """Passes an ORC file on to a file object, and completes it with its checksum; the caller closes the file object."""

    closed = False

    def __init__(self, sink: Any) -> None:
        self._sink = sink
        self._last = b""
        self._sum = 0

    def write(self, data: Any) -> int:
        """Write bytes; how many there were. The last one is held back: it is the length of the postscript."""
        given = memoryview(data)
        if given.nbytes:
            head, self._last = self._last, bytes(given[-1:])
            for part in (head, given[:-1]):
                self._sum = zlib.crc32(part, self._sum)
                self._sink.write(part)
        return given.nbytes

    def seal(self) -> int:
        """Write the checksum, and the byte that was held back; how many bytes were added: none to an empty file."""
        if not self._last:
            return 0
        length = self._last[0] + SEAL_BYTES
        if length > _MOST_POSTSCRIPT:
            self._sink.write(self._last)
            return 0
        ends = bytes([length])
        self._sink.write(_SEAL + zlib.crc32(ends, self._sum).to_bytes(_SUM_BYTES, "little") + ends)
        return SEAL_BYTES


def check_orc(file: pa.NativeFile) -> None:
    """Raise ValueError when a file that has the checksum is not what was written; it is read as a whole."""
    # The stubs of pyarrow lag behind what a file can do.
    source: Any = file
    end = source.size() - 1 - SEAL_BYTES
    if end < 0:
        return
    tail = bytes(source.read_at(SEAL_BYTES + 1, end))
    seal, written, ends = tail[: len(_SEAL)], tail[len(_SEAL) : -1], tail[-1:]
    # What stands before the checksum may be damaged as well.
    if sum(a == b for a, b in zip(seal, _SEAL, strict=True)) < len(_SEAL) - 1:
        return
    found = 0
    for start in range(0, end, _CHUNK):
        found = zlib.crc32(source.read_at(min(_CHUNK, end - start), start), found)
    if seal != _SEAL or zlib.crc32(ends, found).to_bytes(_SUM_BYTES, "little") != written:
        raise ValueError("its checksum is wrong")
