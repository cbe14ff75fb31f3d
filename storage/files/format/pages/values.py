"""Decoder of the values of some rows of a page, without Arrow's reader.

A page is a header in Thrift's compact protocol and a body. In the first version the body is compressed as a whole, in
the second the levels before the values are not compressed. The levels of a flat nullable column are runs that show
which values are null. Source: parquet-format, parquet.thrift and Encodings.md.

Arrow decodes pages from their first row to their last, and its set-up for one page takes longer than decoding it. Plain
numbers can be decoded from any row; deltas need all values before them; texts can be decoded from any row once their
offsets are known. Only the most common kinds of pages are decoded here, all others by Arrow.
"""

import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from interbed.storage.base.arrow_values import from_numpy
from interbed.storage.files.format.pages.compact import CompactReader, Struct

PLAIN, DELTA_BINARY_PACKED = 0, 5
"""Encodings of values."""
_RLE = 3
_UNCOMPRESSED = 0
_CODECS = {1: "snappy", 6: "zstd", 7: "lz4_raw"}
"""Codecs by number whose decoders check the announced number of decompressed bytes."""
_KIND, _RAW_SIZE, _SIZE, _CHECKSUM, _V1, _V2 = 1, 2, 3, 4, 5, 8
"""Fields of PageHeader."""
_DATA_PAGE, _DATA_PAGE_V2 = 0, 3
_MOST_OF_HEADER = 1 << 10
"""Longer headers are not supported: they have long texts as statistics."""
_LENGTH_BYTES = 4

Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class EncodedValues:
    """Encoded values of a page, one for each row and none null; `raw_size` is the number of decompressed bytes."""

    encoding: int
    data: Bytes
    raw_size: int


def encoded_values(page: memoryview, *, rows: int, may_be_null: bool, codec: int, verify: bool) -> EncodedValues | None:
    """Return the encoded values of a page of a flat column; None for pages that are left to Arrow.

    `page` begins with the header and has `rows` rows; `verify` checks the checksum. Raises ValueError, LookupError and
    Arrow's errors for damaged bytes.
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
    # The default of the field is true: the values are compressed.
    used = codec if of_data.get(7, True) else _UNCOMPRESSED
    data = _decompressed(body[length:], header[_RAW_SIZE] - length, used)
    return None if data is None else EncodedValues(encoding, data, length + len(data))


def _decompressed(body: memoryview, size: int, codec: int) -> Bytes | None:
    if codec == _UNCOMPRESSED:
        return np.frombuffer(body, np.uint8) if len(body) == size else None
    if codec not in _CODECS or size < 0:
        return None
    name: Any = _CODECS[codec]
    # The stubs of pyarrow lack some of a codec's arguments.
    decoder: Any = pa.Codec(name)
    return np.frombuffer(decoder.decompress(body, size), np.uint8)


def _are_all_there(levels: bytes, length: int, rows: int) -> bool:
    """Return whether the levels are one run of values that are not null: the doubled length, and the level."""
    if len(levels) != length:
        return False
    reader = CompactReader(levels)
    return reader.varint() == rows << 1 and levels[reader.position :] == b"\x01"


INT32, INT64, FLOAT, DOUBLE, BYTE_ARRAY = 1, 2, 4, 5, 6
"""Physical types."""
_FIXED: dict[int, np.dtype[Any]] = {
    INT32: np.dtype("<i4"),
    INT64: np.dtype("<i8"),
    FLOAT: np.dtype("<f4"),
    DOUBLE: np.dtype("<f8"),
}
_ARROW: dict[int, frozenset[Any]] = {
    INT32: frozenset({pa.int32(), pa.date32(), pa.time32("ms")}),
    INT64: frozenset({pa.int64(), pa.time64("us")}),
    FLOAT: frozenset({pa.float32()}),
    DOUBLE: frozenset({pa.float64()}),
    BYTE_ARRAY: frozenset({pa.string(), pa.binary()}),
}
"""Arrow types with the same form in memory as in the file, by physical type; timestamps are handled separately."""
_NARROW: dict[Any, np.dtype[Any]] = {pa.int8(): np.dtype("i1"), pa.int16(): np.dtype("i2")}
"""Narrow types that files store as INT32."""
_LENGTH = np.dtype("<i4")
_MOST_BITS = 57
"""The most bits of a number that begins inside a byte and is certain to fit eight bytes."""
_MOST_OF_BLOCK = 1 << 12
"""The most numbers of a block that are accepted; writers use 128."""

_Numbers = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class MadeValues:
    """Values of some rows, and the number of values of the page that were decoded for them."""

    array: "pa.Array[Any]"
    made: int


def is_known(physical: int, arrow: pa.DataType) -> bool:
    """Return whether values of the physical type can be converted to the Arrow type here."""
    if isinstance(arrow, pa.TimestampType):
        return physical == INT64 and str(arrow.unit) in ("ms", "us")
    return arrow in _ARROW.get(physical, ()) or (physical == INT32 and arrow in _NARROW)


def values_of(
    page: EncodedValues, physical: int, arrow: pa.DataType, *, rows: int, start: int, end: int
) -> MadeValues | None:
    """Return the values of the rows from `start` to before `end` of a page of `rows` rows; None to leave it to Arrow.

    The types must be supported (is_known). Raises ValueError, LookupError and OverflowError for damaged bytes.
    """
    if physical == BYTE_ARRAY:
        texts = _texts(page.data, rows, start, end, arrow) if page.encoding == PLAIN else None
        return None if texts is None else MadeValues(texts, end - start)
    fixed, made = _FIXED[physical], end - start
    if page.encoding == PLAIN:
        if len(page.data) != rows * fixed.itemsize:
            return None
        # A copy, so that a few values do not hold the page in memory.
        numbers = page.data.view(np.uint8)[start * fixed.itemsize : end * fixed.itemsize].copy().view(fixed)
    elif page.encoding == DELTA_BINARY_PACKED and physical in (INT32, INT64):
        differences, made = _summed(page.data.tobytes(), rows, end), end
        if differences is None:
            return None
        numbers = differences[start:].astype(fixed)
    else:
        return None
    if arrow in _NARROW:
        return MadeValues(from_numpy(numbers.astype(_NARROW[arrow])), made)
    array: Any = from_numpy(numbers)
    return MadeValues(array if array.type == arrow else array.view(arrow), made)


# -- numbers as deltas ------------------------------------------------------------------------------------------------


def _summed(data: bytes, rows: int, end: int) -> _Numbers | None:
    """Return the first `end` of the numbers, as 64 bits.

    The first number is followed by blocks of deltas. A block has the least delta, the width in bits of each of its
    parts, and the parts: the deltas minus the least delta.
    """
    reader = CompactReader(data)
    of_block, parts, count = reader.varint(), reader.varint(), reader.varint()
    first = reader.integer()
    if count != rows or not parts or of_block % (parts * 8) or of_block > _MOST_OF_BLOCK:
        return None
    of_part = of_block // parts
    numbers = np.empty(end, np.uint64)
    numbers[0] = first & 0xFFFFFFFFFFFFFFFF
    if end == 1:
        return numbers.view(np.int64)
    least, places, widths = [], [], []
    # A loop over blocks, mostly of 128 rows: the position of a block is known after the block before it.
    for _ in range(-(-(end - 1) // of_block)):
        least.append(reader.varint())
        behind = reader.position + parts
        of_parts = data[reader.position : behind]
        widths.append(of_parts)
        places.append(behind)
        reader.position = behind + sum(of_parts) * of_part // 8
    bits = np.frombuffer(b"".join(widths), np.uint8).reshape(-1, parts).astype(np.int64)
    sizes = bits * of_part
    begins = np.array(places)[:, None] * 8 + np.cumsum(sizes, axis=1) - sizes
    place = (begins[:, :, None] + bits[:, :, None] * np.arange(of_part)).reshape(-1)[: end - 1]
    needed = bits.reshape(-1)[: -(-(end - 1) // of_part)]
    if needed.max() > _MOST_BITS or (place[-1] + needed[-1]) > len(data) * 8:
        return None
    padded = np.frombuffer(data + bytes(8), np.uint8)
    words = np.ndarray((len(data) + 1,), np.dtype("<u8"), padded, strides=(1,))
    found = words[place >> 3] >> (place & 7).astype(np.uint64)
    found &= np.repeat((np.uint64(1) << needed.astype(np.uint64)) - np.uint64(1), of_part)[: end - 1]
    signed = np.array(least, np.uint64)
    signed = (signed >> np.uint64(1)) ^ -(signed & np.uint64(1))
    found += np.repeat(signed, of_block)[: end - 1]
    # Sums are modulo 2 ** 64, as are the deltas of writers.
    numbers[1:] = found
    return np.cumsum(numbers, dtype=np.uint64).view(np.int64)


# -- texts ------------------------------------------------------------------------------------------------------------


def _texts(data: Bytes, rows: int, start: int, end: int, arrow: pa.DataType) -> "pa.Array[Any] | None":
    """Return consecutive texts, each preceded by its length of four bytes; None to leave the page to Arrow."""
    if end == start or len(data) < _LENGTH.itemsize:
        return None
    step = int(data[: _LENGTH.itemsize].view(_LENGTH)[0]) + _LENGTH.itemsize
    if step * rows == len(data) and _have_one_length(data, step, end):
        texts = data[start * step : end * step].reshape(-1, step)[:, _LENGTH.itemsize :]
        offsets = np.arange(end - start + 1) * (step - _LENGTH.itemsize)
    else:
        begins = _behind_zeros(data, rows)
        if begins is None:
            return None
        low, high = int(begins[start]), int(begins[end])
        is_text = np.ones(high - low, np.bool_)
        for place in range(_LENGTH.itemsize):
            is_text[begins[start:end] - low + place] = False
        texts = data[low:high][is_text]
        offsets = begins[start : end + 1] - low - _LENGTH.itemsize * np.arange(end - start + 1)
    # The stubs of pyarrow do not accept numpy's type of a buffer.
    parts: tuple[Any, Any] = (offsets.astype(np.int32), np.ascontiguousarray(texts))
    buffers = [None, *map(pa.py_buffer, parts)]
    return pa.Array.from_buffers(arrow, end - start, buffers)


def _have_one_length(data: Bytes, step: int, end: int) -> bool:
    """Return whether the first `end` texts are as long as the first; `step` is the distance of two texts in bytes."""
    if step < _LENGTH.itemsize:
        return False
    # If all texts so far have that length, the next begins at the expected position.
    lengths = np.ndarray((end,), _LENGTH, data, strides=(step,))
    return bool((lengths == step - _LENGTH.itemsize).all())


def _behind_zeros(data: Bytes, rows: int) -> _Numbers | None:
    """Return the positions of texts of less than 256 bytes, and the end of the last; None for other texts.

    Three bytes of such a length are zero, which is rare in texts. Each group of three zeros is assumed to be the start
    of a text. If each text then ends where the next begins, from the first byte to the last, the assumption is right.
    """
    is_zero = data == 0
    begins = np.flatnonzero(is_zero[1:-2] & is_zero[2:-1] & is_zero[3:])
    if len(begins) != rows or begins[0] != 0:
        return None
    ends = begins + data[begins] + _LENGTH.itemsize
    if ends[-1] != len(data) or not np.array_equal(ends[:-1], begins[1:]):
        return None
    return np.append(begins, len(data))
