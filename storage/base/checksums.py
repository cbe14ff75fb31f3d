"""Checksums in files: the trailers of Avro heads and Parquet footers, the pages of Parquet, the tail of ORC.

The head of an Avro file and the footer of a Parquet file have room for keys and values of the writer's own, which other
readers skip. A checksum trailer is such a value: the CRC-32 of all the bytes in eight hexadecimal digits, computed with
eight zeros in its place.

Parquet: the header of a page has the CRC-32 of its bytes in the file; Arrow writes and verifies it. The footer says
where pages are, what their values mean and their bounds, and the format has no checksum of it. interbed writes one in
the field that the format leaves to extensions, which readers skip. As one of the file's keys and values it would be
copied when another writer rewrites the rows. Before it are the CRC-32 and the length of the bytes between the data and
the footer, the index of the pages, which is verified when it is used. Source: parquet-format, README (checksumming) and
BinaryProtocolExtensions.

ORC: the format has room for a checksum only in the postscript, the last part of a file. The postscript is a message of
Protocol Buffers, whose readers skip unknown fields. interbed adds a field with the CRC-32 of all bytes before it and of
the length of the postscript. Source: ORC specification v1, file tail; Protocol Buffers encoding.

Files of other writers have none of these and are not checked.
"""

import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    import pyarrow.parquet as pq


CHECKSUM_KEY = "interbed.crc32"
"""The key of the checksum."""
EMPTY_CHECKSUM = "0" * 8
"""The placeholder of the checksum while it is computed."""
_DIGITS = len(EMPTY_CHECKSUM)


def with_checksum(content: bytes, before: bytes) -> bytes:
    """Return the bytes with their checksum instead of the placeholder after the last `before`. Raises ValueError."""
    at = _place(content, before)
    if at is None or content[at : at + _DIGITS] != EMPTY_CHECKSUM.encode():
        raise ValueError("there is no placeholder of a checksum")
    return _with(content, at, f"{zlib.crc32(content):08x}".encode())


def verify_checksum(content: bytes, before: bytes) -> None:
    """Raise ValueError when the bytes do not match their checksum; bytes without a checksum pass."""
    at = _place(content, before)
    if at is None:
        return
    found = f"{zlib.crc32(_with(content, at, EMPTY_CHECKSUM.encode())):08x}".encode()
    if content[at : at + _DIGITS] != found:
        raise ValueError("its checksum is wrong")


def _place(content: bytes, before: bytes) -> int | None:
    """Return the position of the checksum, None without one. The last key counts: values may contain the key, too."""
    at = content.rfind(before)
    return None if at < 0 else at + len(before)


def _with(content: bytes, at: int, value: bytes) -> bytes:
    return content[:at] + value + content[at + _DIGITS :]


# -- ORC ---------------------------------------------------------------------------------------------------------------

_TRAILER_KEY = b"\xfd\xff\x07"
"""The key of field 16383 with four bytes, in Protocol Buffers; a little-endian CRC-32 follows."""
_SUM_BYTES = 4
ORC_TRAILER_BYTES = len(_TRAILER_KEY) + _SUM_BYTES
_MOST_POSTSCRIPT = 255
"""The file's last byte is the length of the postscript."""
_CHUNK = 1 << 20


class ChecksumSink:
    """Sink that writes an ORC file to a file object and adds its checksum; the caller closes the file object."""

    closed = False

    def __init__(self, sink: Any) -> None:
        self._sink = sink
        self._last = b""
        self._sum = 0

    def write(self, data: Any) -> int:
        """Write bytes, and return their number. The last byte is held back: it is the length of the postscript."""
        given = memoryview(data)
        if given.nbytes:
            head, self._last = self._last, bytes(given[-1:])
            for part in (head, given[:-1]):
                self._sum = zlib.crc32(part, self._sum)
                self._sink.write(part)
        return given.nbytes

    def write_checksum(self) -> int:
        """Write the checksum and the byte that was held back. Return the number of added bytes: 0 for an empty file."""
        if not self._last:
            return 0
        length = self._last[0] + ORC_TRAILER_BYTES
        if length > _MOST_POSTSCRIPT:
            self._sink.write(self._last)
            return 0
        ends = bytes([length])
        self._sink.write(_TRAILER_KEY + zlib.crc32(ends, self._sum).to_bytes(_SUM_BYTES, "little") + ends)
        return ORC_TRAILER_BYTES


def check_orc(file: pa.NativeFile) -> None:
    """Read a whole file, and raise ValueError when it does not match its checksum; without one it passes."""
    # The stubs of pyarrow lag behind what a file can do.
    source: Any = file
    end = source.size() - 1 - ORC_TRAILER_BYTES
    if end < 0:
        return
    tail = bytes(source.read_at(ORC_TRAILER_BYTES + 1, end))
    key, written, ends = tail[: len(_TRAILER_KEY)], tail[len(_TRAILER_KEY) : -1], tail[-1:]
    # The mark before the checksum may be damaged, too.
    if sum(a == b for a, b in zip(key, _TRAILER_KEY, strict=True)) < len(_TRAILER_KEY) - 1:
        return
    found = 0
    for start in range(0, end, _CHUNK):
        found = zlib.crc32(source.read_at(min(_CHUNK, end - start), start), found)
    if key != _TRAILER_KEY or zlib.crc32(ends, found).to_bytes(_SUM_BYTES, "little") != written:
        raise ValueError("its checksum is wrong")


MAGIC = b"PAR1"
_TAIL_BYTES = 4 + len(MAGIC)
"""The length of the footer and the magic number at the end of a file."""
_LIKELY_FOOTER = 64 << 10
"""Bytes of the first request for a file that is not mapped; they contain most footers."""
_EXTENSION = bytes([0x08, 0xFE, 0xFF, 0x03])
"""The header of field 32767 of type binary in Thrift's compact protocol; the length follows."""
_STOP = b"\0"
"""The byte at the end of a struct."""
_KEY = CHECKSUM_KEY.encode()
_INDEX_DIGITS = 16
"""The CRC-32 and the length of the page index, each in eight hexadecimal digits."""
_HEAD_WITHOUT_INDEX = _EXTENSION + bytes([len(CHECKSUM_KEY) + len(EMPTY_CHECKSUM)])
_HEAD = _EXTENSION + bytes([_INDEX_DIGITS + len(CHECKSUM_KEY) + len(EMPTY_CHECKSUM)])


def open_parquet(source: pa.NativeFile) -> "pq.ParquetFile":
    """Open a Parquet file and verify its footer; its pages are verified when they are read.

    Raises ValueError and Arrow's errors for bytes that are no Parquet file.
    """
    footer = footer_of(source)
    check_footer(footer)
    return opened(source, metadata_of(footer), verify=True)


def opened(
    source: Any,
    metadata: "pq.FileMetaData | None",
    *,
    verify: bool,
    buffer_size: int = 0,
    as_dictionaries: Sequence[str] = (),
) -> "pq.ParquetFile":
    """Open a Parquet file with a footer, its own when None; with `verify` pages are verified when they are read.

    The text columns `as_dictionaries` are returned as dictionaries.
    """
    import pyarrow.parquet as pq

    return pq.ParquetFile(
        source,
        metadata=metadata,
        pre_buffer=False,
        buffer_size=buffer_size,
        page_checksum_verification=verify,
        read_dictionary=list(as_dictionaries),
    )


def metadata_of(footer: bytes) -> "pq.FileMetaData":
    """Return the decoded FileMetaData. Raises Arrow's errors for damaged bytes."""
    import pyarrow.parquet as pq

    return pq.read_metadata(pa.BufferReader(b"".join((MAGIC, footer, len(footer).to_bytes(4, "little"), MAGIC))))


def with_footer_checksum(footer: bytes, index: bytes) -> bytes:
    """Return a footer with its checksum and the checksum of the page index before it. Raises ValueError."""
    if not footer.endswith(_STOP):
        raise ValueError("a Parquet footer that does not end as a struct does")
    of_index = f"{zlib.crc32(index):08x}{len(index):08x}".encode()
    return with_checksum(b"".join((footer[: -len(_STOP)], _HEAD, of_index, _KEY, EMPTY_CHECKSUM.encode(), _STOP)), _KEY)


def check_index(file: pa.NativeFile, footer: bytes) -> None:
    """Raise ValueError when the page index before the footer is damaged; files without its checksum pass."""
    at = _place_of_key(footer)
    if at is None or footer[at - _INDEX_DIGITS - len(_HEAD) : at - _INDEX_DIGITS] != _HEAD:
        return
    digits = footer[at - _INDEX_DIGITS : at]
    length = int(digits[8:], 16)
    # The stubs of pyarrow lag behind what a file can do.
    source: Any = file
    content = source.read_at(length, source.size() - _TAIL_BYTES - len(footer) - length)
    if zlib.crc32(content) != int(digits[:8], 16):
        raise ValueError("the index of its pages is damaged")


def _place_of_key(footer: bytes) -> int | None:
    """Return the position of the checksum's key, which may be damaged, too; None in files of other writers."""
    at = len(footer) - len(_STOP) - len(EMPTY_CHECKSUM) - len(_KEY)
    alike = sum(a == b for a, b in zip(footer[max(at, 0) : at + len(_KEY)], _KEY, strict=False))
    return at if at > 0 and alike >= len(_KEY) // 2 else None


def has_checksum(footer: bytes) -> bool:
    """Return whether the footer has a checksum of interbed."""
    return _place_of_key(footer) is not None


def check_footer(footer: bytes) -> None:
    """Raise ValueError for a damaged footer of interbed; footers of other writers pass."""
    at = _place_of_key(footer)
    if at is None:
        return
    before = footer[:at]
    is_whole = before[:-_INDEX_DIGITS].endswith(_HEAD) or before.endswith(_HEAD_WITHOUT_INDEX)
    if footer[at : at + len(_KEY)] != _KEY or not is_whole:
        raise ValueError("the end of its footer is damaged")
    verify_checksum(footer, _KEY)


def footer_of(file: pa.NativeFile) -> bytes:
    """Return the encoded FileMetaData of an open file. Raises ValueError for a file without a Parquet footer."""
    is_mapped = isinstance(file, pa.MemoryMappedFile)
    # The stubs of pyarrow lag behind what a file can do.
    source: Any = file
    size = source.size()
    held = min(size, _TAIL_BYTES if is_mapped else _LIKELY_FOOTER)
    tail = bytes(source.read_at(held, size - held))
    length = int.from_bytes(tail[-_TAIL_BYTES : -len(MAGIC)], "little")
    if not tail.endswith(MAGIC) or not 0 < length <= size - _TAIL_BYTES:
        raise ValueError("it does not end as a Parquet file does")
    if length > held - _TAIL_BYTES:
        return bytes(source.read_at(length, size - _TAIL_BYTES - length))
    return tail[-_TAIL_BYTES - length : -_TAIL_BYTES]
