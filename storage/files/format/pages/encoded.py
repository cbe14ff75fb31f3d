"""The encoded values of one data page: its header, its checksum, its compression and its levels.

A page is a header in Thrift's compact protocol and a body. In the first version the body is compressed as a whole, in
the second what stands in it before the values is not. Before the values of a flat column that may be null stands for
each whether it is there, as runs. Source: parquet-format, parquet.thrift and Encodings.md.

Only the pages are understood here that most files consist of; of any other nothing is said, and Arrow decodes it.
"""

import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from interbed.storage.files.format.pages.compact import CompactReader, Struct

PLAIN, DELTA_BINARY_PACKED = 0, 5
"""Encodings of values."""
_RLE = 3
_UNCOMPRESSED = 0
_CODECS = {1: "snappy", 6: "zstd", 7: "lz4_raw"}
"""Codecs by number that refuse what does not give as many bytes as were announced."""
_KIND, _RAW_SIZE, _SIZE, _CHECKSUM, _V1, _V2 = 1, 2, 3, 4, 5, 8
"""Fields of PageHeader."""
_DATA_PAGE, _DATA_PAGE_V2 = 0, 3
_MOST_OF_HEADER = 1 << 10
"""Longer headers are not understood: they have long texts as statistics."""
_LENGTH_BYTES = 4

Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class EncodedValues:
    """As many values as the page has rows, none of them null; `raw_size` are the bytes that were decompressed."""

    encoding: int
    data: Bytes
    raw_size: int


def encoded_values(page: memoryview, *, rows: int, may_be_null: bool, codec: int, verify: bool) -> EncodedValues | None:
    """What is encoded in a page of a flat column; None for pages that Arrow is to decode, or to refuse.

    `page` begins with the header and has `rows` rows; `verify` compares the checksum. Raises ValueError, LookupError
    and what Arrow raises for damaged bytes.
    """
    reader = CompactReader(bytes(page[:_MOST_OF_HEADER]))
    header = reader.struct()
    body = page[reader.position :]
    if len(body) != header[_SIZE]:
        return None
    if verify and _CHECKSUM in header and zlib.crc32(body) != header[_CHECKSUM] & 0xFFFFFFFF:
        return None
    if header[_KIND] == _DATA_PAGE:
        return _of_first_version(header, body, rows, may_be_null, codec)
    return _of_second_version(header, body, rows, may_be_null, codec) if header[_KIND] == _DATA_PAGE_V2 else None


def _of_first_version(
    header: Struct, body: memoryview, rows: int, may_be_null: bool, codec: int
) -> EncodedValues | None:
    of_data = header[_V1]
    count, encoding, levels = of_data[1], of_data[2], of_data[3]
    if count != rows or (may_be_null and levels != _RLE):
        return None
    data = _decompressed(body, header[_RAW_SIZE], codec)
    if data is None or not may_be_null:
        return None if data is None else EncodedValues(encoding, data, len(data))
    length = int.from_bytes(data[:_LENGTH_BYTES].tobytes(), "little")
    behind = _LENGTH_BYTES + length
    if not _are_all_there(data[_LENGTH_BYTES:behind].tobytes(), length, rows):
        return None
    return EncodedValues(encoding, data[behind:], len(data))


def _of_second_version(
    header: Struct, body: memoryview, rows: int, may_be_null: bool, codec: int
) -> EncodedValues | None:
    of_data = header[_V2]
    count, nulls, of_rows, encoding, length, repetition = (of_data[number] for number in range(1, 7))
    if (count, nulls, of_rows, repetition) != (rows, 0, rows, 0):
        return None
    if not (_are_all_there(bytes(body[:length]), length, rows) if may_be_null else length == 0):
        return None
    # It is compressed where nothing else is said.
    used = codec if of_data.get(7, True) else _UNCOMPRESSED
    data = _decompressed(body[length:], header[_RAW_SIZE] - length, used)
    return None if data is None else EncodedValues(encoding, data, length + len(data))


def _decompressed(body: memoryview, size: int, codec: int) -> Bytes | None:
    if codec == _UNCOMPRESSED:
        return np.frombuffer(body, np.uint8) if len(body) == size else None
    if codec not in _CODECS or size < 0:
        return None
    name: Any = _CODECS[codec]
    # The stubs of pyarrow lag behind what a codec takes.
    decoder: Any = pa.Codec(name)
    return np.frombuffer(decoder.decompress(body, size), np.uint8)


def _are_all_there(levels: bytes, length: int, rows: int) -> bool:
    """Whether the levels say in one run that no value is null: its length, doubled, and the level."""
    if len(levels) != length:
        return False
    reader = CompactReader(levels)
    return reader.varint() == rows << 1 and levels[reader.position :] == b"\x01"
