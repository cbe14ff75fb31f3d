"""BinaryRow: the encoding of partitions, keys and statistics in Paimon (paimon-common, data/BinaryRow).

    arity      4 bytes, big-endian; stored in files, and not part of the hash
    header     1 byte of row kind (0), then one null bit for each field, padded to 8 bytes
    slots      8 bytes a field, little-endian; unused bytes and the slots of nulls are zero
    variable   values that do not fit into a slot, each padded to 8 bytes

| type | slot | variable part |
|---|---|---|
| BOOLEAN, integers, floats, DATE (days), TIME (milliseconds) | the value | |
| DECIMAL(1..18) | the unscaled value | |
| DECIMAL(19..38) | offset << 32, length | 16 bytes: unscaled, big-endian, as short as its sign allows |
| strings and binary up to 7 bytes | the bytes, then 0x80 + length | |
| longer ones | offset << 32, length | the bytes |
| timestamps of 0 to 3 digits | milliseconds | |
| timestamps of 4 to 9 digits | offset << 32, nanoseconds of the millisecond | 8 bytes: milliseconds |

A null of a wide decimal or a fine timestamp keeps its variable part, zeroed, and the offset to it. Offsets count
from the header. Fields of nested types are always null: keys, partitions and statistics have no nested values.

Python values are those of interbed.storage.base.row.values.
"""

import struct
from collections.abc import Sequence
from decimal import Decimal
from itertools import pairwise

import numpy as np
import pyarrow as pa

from interbed.storage.base.arrays import Bytes, Ints, Mask, Words
from interbed.storage.base.arrow_values import from_numpy, nulls_of
from interbed.storage.base.errors import CorruptFileError, InvalidInputError, NotSupportedError
from interbed.storage.base.row.values import (
    coerce,
    days_to_value,
    exact_decimal,
    millis_to_time,
    ticks_to_value,
    type_name,
    unit_of,
    unscaled,
    value_to_days,
    value_to_millis,
    value_to_ticks,
)
from interbed.storage.base.row.words import (
    COMPACT_DECIMAL,
    COMPACT_TIMESTAMP,
    HEADER_BITS,
    INLINE_BYTES,
    Array,
    Column,
    columns_to_words,
    fixed_bytes,
    header_bytes,
    unaligned_words,
)
from interbed.storage.base.types.arrow import type_to_arrow
from interbed.storage.base.types.data_type import (
    BINARIES,
    STRINGS,
    TIMESTAMPS,
    AtomicType,
    DataType,
    TypeRoot,
)

_PER_MILLI = {"us": 1_000, "ns": 1_000_000}
_INTEGER_FORMAT = {
    TypeRoot.BOOLEAN: "<?",
    TypeRoot.TINYINT: "<b",
    TypeRoot.SMALLINT: "<h",
    TypeRoot.INT: "<i",
    TypeRoot.BIGINT: "<q",
    TypeRoot.DATE: "<i",
    TypeRoot.TIME: "<i",
    TypeRoot.FLOAT: "<f",
    TypeRoot.DOUBLE: "<d",
}


def encode_rows(columns: Sequence[Column], types: Sequence[DataType]) -> list[bytes]:
    """Return the rows of the columns, serialised with their arity. Vectorised.

    Without columns the list is empty. Raises InvalidInputError for columns that do not fit their types,
    NotSupportedError for nested values.
    """
    words = columns_to_words(columns, types)
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(words.size)])
    starts = ends[:-1]
    content = np.zeros(int(ends[-1]) // 8, np.uint64)
    for index, word in enumerate(words.fixed):
        content[starts // 8 + index] = word
    scattered = content.view(np.uint8)
    for part in words.variable:
        # The source and the target of every byte of every row.
        length = part.length
        before = np.cumsum(length) - length
        count = np.arange(int(length.sum()))
        scattered[np.repeat(starts + part.position - before, length) + count] = part.data[
            np.repeat(part.start - before, length) + count
        ]
    arity = struct.pack(">i", len(types))
    data = content.tobytes()
    # A loop over the rows: the result is a list of bytes objects.
    return [arity + data[begin:end] for begin, end in pairwise(ends.tolist())]


def decode_rows(rows: Sequence[bytes], types: Sequence[DataType]) -> list[Array]:
    """Return an Arrow array for each type. Vectorised.

    Raises CorruptFileError for bytes that are not rows of that many fields.
    """
    return rows_to_columns(rows, types)


def encode_row(values: Sequence[object], types: Sequence[DataType]) -> bytes:
    """Return one row of Python values, serialised with its arity.

    Raises InvalidInputError for values that do not fit their types, NotSupportedError for nested values.
    """
    if len(values) != len(types):
        raise InvalidInputError(f"{len(values)} values were given for {len(types)} types.")
    arity = len(types)
    fixed = bytearray(fixed_bytes(arity))
    variable = bytearray()
    for index, (value, data_type) in enumerate(zip(values, types, strict=True)):
        if value is None:
            bit = index + HEADER_BITS
            fixed[bit // 8] |= 1 << bit % 8
        position = header_bytes(arity) + 8 * index
        fixed[position : position + 8] = _encode_field(value, data_type, len(fixed), variable)
    return struct.pack(">i", arity) + bytes(fixed) + bytes(variable)


def _encode_field(value: object, data_type: DataType, fixed: int, variable: bytearray) -> bytes:
    """Return the slot of a value; a value that does not fit is appended to the variable part."""
    if not isinstance(data_type, AtomicType):
        if value is not None:
            raise NotSupportedError(f"A value of type {type_name(data_type)} can't be part of a key or of statistics.")
        return bytes(8)
    root = data_type.root
    offset = fixed + len(variable)
    if root is TypeRoot.DECIMAL and (data_type.precision or 0) > COMPACT_DECIMAL:
        content = b"" if value is None else _shortest(unscaled(_decimal(value, data_type), data_type.scale or 0))
        variable += content.ljust(16, b"\0")
        return struct.pack("<II", len(content), offset)
    if root in TIMESTAMPS and (data_type.precision or 0) > COMPACT_TIMESTAMP:
        per_milli = _PER_MILLI[unit_of(data_type)]
        millis, rest = divmod(0 if value is None else value_to_ticks(value, data_type), per_milli)
        variable += struct.pack("<q", millis)
        return struct.pack("<II", rest * (1_000_000 // per_milli), offset)
    if value is None:
        return bytes(8)
    if root in STRINGS or root in BINARIES:
        value = coerce(value, data_type)
        content = value.encode() if isinstance(value, str) else value if isinstance(value, bytes) else b""
        if len(content) <= INLINE_BYTES:
            return content.ljust(INLINE_BYTES, b"\0") + bytes([0x80 | len(content)])
        variable += content + bytes(-len(content) % 8)
        return struct.pack("<II", len(content), offset)
    if root is TypeRoot.DECIMAL:
        return struct.pack("<q", unscaled(_decimal(value, data_type), data_type.scale or 0))
    if root in TIMESTAMPS:
        return struct.pack("<q", value_to_ticks(value, data_type))
    number: object
    if root is TypeRoot.DATE:
        number = value_to_days(value)
    elif root is TypeRoot.TIME:
        number = value_to_millis(value)
    else:
        number = coerce(value, data_type)
    try:
        return struct.pack(_INTEGER_FORMAT[root], number).ljust(8, b"\0")
    except struct.error:
        raise InvalidInputError(f"{value!r} is not a value of type {type_name(data_type)}") from None


def decode_row(data: bytes, types: Sequence[DataType]) -> tuple[object, ...]:
    """Return the Python values of one serialised row.

    Raises CorruptFileError for bytes that are not a row of that many fields.
    """
    arity = len(types)
    if len(data) < 4 + fixed_bytes(arity):
        raise CorruptFileError(f"A row of {len(data)} bytes is too short for {arity} fields.")
    (found,) = struct.unpack_from(">i", data)
    if found != arity:
        raise CorruptFileError(f"A row has {found} fields instead of {arity}.")
    row = data[4:]
    values: list[object] = []
    for index, data_type in enumerate(types):
        bit = index + HEADER_BITS
        null = row[bit // 8] >> bit % 8 & 1
        position = header_bytes(arity) + 8 * index
        values.append(None if null else _decode_field(row, row[position : position + 8], data_type))
    return tuple(values)


def _decode_field(row: bytes, slot: bytes, data_type: DataType) -> object:
    if not isinstance(data_type, AtomicType):
        raise NotSupportedError(f"A value of type {type_name(data_type)} in a key or in statistics is not read.")
    root = data_type.root
    low, offset = struct.unpack("<II", slot)
    if root in STRINGS or root in BINARIES:
        content = slot[: slot[7] & 0x7F] if slot[7] & 0x80 else _stretch(row, offset, low)
        if root in BINARIES:
            return content
        try:
            return content.decode()
        except UnicodeDecodeError as error:
            raise CorruptFileError(f"A row holds a string that is not UTF-8: {error}") from error
    if root is TypeRoot.DECIMAL:
        if (data_type.precision or 0) > COMPACT_DECIMAL:
            whole = int.from_bytes(_stretch(row, offset, low), "big", signed=True)
        else:
            whole = struct.unpack("<q", slot)[0]
        return exact_decimal(whole, data_type.scale or 0)
    if root in TIMESTAMPS:
        if (data_type.precision or 0) <= COMPACT_TIMESTAMP:
            return ticks_to_value(struct.unpack("<q", slot)[0], data_type)
        (millis,) = struct.unpack("<q", _stretch(row, offset, 8))
        per_milli = _PER_MILLI[unit_of(data_type)]
        return ticks_to_value(millis * per_milli + low // (1_000_000 // per_milli), data_type)
    (number,) = struct.unpack_from(_INTEGER_FORMAT[root], slot)
    if root is TypeRoot.DATE:
        return days_to_value(number)
    return millis_to_time(number) if root is TypeRoot.TIME else number


def _stretch(row: bytes, offset: int, length: int) -> bytes:
    if offset + length > len(row):
        raise CorruptFileError("A row refers to bytes after its end.")
    return row[offset : offset + length]


def _decimal(value: object, data_type: AtomicType) -> Decimal:
    number = coerce(value, data_type)
    assert isinstance(number, Decimal)
    return number


def _shortest(number: int) -> bytes:
    """Return a number in two's complement, big-endian, in as few bytes as keep the sign."""
    magnitude = number if number >= 0 else ~number
    return number.to_bytes(magnitude.bit_length() // 8 + 1, "big", signed=True)


ARITY_BYTES = 4
_SPARE = 24
_LOW = np.uint64(0xFFFFFFFF)
_STORED = {
    TypeRoot.TINYINT: np.int8,
    TypeRoot.SMALLINT: np.int16,
    TypeRoot.INT: np.int32,
    TypeRoot.DATE: np.int32,
    TypeRoot.TIME: np.int32,
    TypeRoot.BIGINT: np.int64,
}
_FLOATS = {TypeRoot.FLOAT: (np.uint32, np.float32), TypeRoot.DOUBLE: (np.uint64, np.float64)}


class RowBuffer:
    """Buffer of many serialised rows, one after the other, with their offsets.

    Raises CorruptFileError for rows that are too short or have another number of fields.
    """

    def __init__(self, rows: Sequence[bytes], arity: int) -> None:
        sizes = np.fromiter((len(r) for r in rows), np.int64, len(rows))
        smallest = ARITY_BYTES + fixed_bytes(arity)
        if len(rows) and int(sizes.min()) < smallest:
            raise CorruptFileError(f"A row of {int(sizes.min())} bytes is too short for {arity} fields.")
        self.data: Bytes = np.frombuffer(b"".join(rows) + bytes(_SPARE), np.uint8)
        self.words: Words = unaligned_words(self.data)
        self.arity = arity
        self.end: Ints = np.cumsum(sizes)
        starts = self.end - sizes
        found = self.words[starts].astype(np.uint32).byteswap()
        if np.any(found != arity):
            raise CorruptFileError(f"A row has {int(found[found != arity][0])} fields instead of {arity}.")
        self.start: Ints = starts + ARITY_BYTES

    def slot(self, index: int) -> Words:
        """Return the 8 bytes of a field's slot in each row."""
        return self.words[self.start + (header_bytes(self.arity) + 8 * index)]

    def nulls(self, index: int) -> Mask:
        """Return for each row whether a field is null."""
        bit = index + HEADER_BITS
        return (self.data[self.start + bit // 8] >> np.uint8(bit % 8) & np.uint8(1)).astype(bool)

    def stretch(self, offset: Ints, length: Ints, used: Mask) -> Ints:
        """Return the position of a range of each row in the buffer; 0 for rows that are not `used`."""
        begin = self.start + offset
        if np.any(used & ((length < 0) | (begin + length > self.end))):
            raise CorruptFileError("A row refers to bytes after its end.")
        return np.where(used, begin, 0)


def rows_to_columns(rows: Sequence[bytes], types: Sequence[DataType]) -> list[Array]:
    """Return an Arrow array for each type. Raises CorruptFileError for rows that can't be decoded."""
    buffer = RowBuffer(rows, len(types))
    return [_column(buffer, index, data_type) for index, data_type in enumerate(types)]


def _column(buffer: RowBuffer, index: int, data_type: DataType) -> Array:
    null = buffer.nulls(index)
    target = type_to_arrow(data_type)
    if not isinstance(data_type, AtomicType):
        if not null.all():
            raise NotSupportedError(f"A value of type {type_name(data_type)} in a key or in statistics is not read.")
        return nulls_of(len(null), target)
    slot = buffer.slot(index)
    root = data_type.root
    if root in STRINGS or root in BINARIES:
        return _strings(buffer, index, slot, null, target)
    if root is TypeRoot.DECIMAL:
        return _decimals(buffer, slot, null, target, (data_type.precision or 0) > COMPACT_DECIMAL)
    if root in TIMESTAMPS:
        ticks: Array = from_numpy(_ticks(buffer, slot, null, data_type), null)
        return ticks.view(target)
    if root is TypeRoot.BOOLEAN:
        return from_numpy((slot & np.uint64(0xFF)) != 0, null)
    if root in _FLOATS:
        unsigned, floating = _FLOATS[root]
        return from_numpy(slot.astype(unsigned).view(floating), null)
    values = slot.view(np.int64).astype(_STORED[root])
    numbers: Array = from_numpy(values, null)
    return numbers.view(target)


def _ticks(buffer: RowBuffer, slot: Words, null: Mask, data_type: AtomicType) -> Ints:
    precision = data_type.precision or 0
    if precision <= COMPACT_TIMESTAMP:
        return slot.view(np.int64)
    begin = buffer.stretch((slot >> np.uint64(32)).astype(np.int64), np.full(len(slot), 8, np.int64), ~null)
    millis = buffer.words[begin].view(np.int64)
    nanos = (slot & _LOW).astype(np.int64)
    return millis * 1_000 + nanos // 1_000 if precision <= 6 else millis * 1_000_000 + nanos


def _decimals(buffer: RowBuffer, slot: Words, null: Mask, target: pa.DataType, wide: bool) -> Array:
    count = len(slot)
    halves = np.empty((count, 2), np.uint64)
    if not wide:
        halves[:, 0] = slot
        halves[:, 1] = (slot.view(np.int64) >> 63).view(np.uint64)
    else:
        length = np.where(null, 0, (slot & _LOW).astype(np.int64))
        if np.any(length > 16) or np.any((length == 0) & ~null):
            raise CorruptFileError("A row holds a decimal of an impossible length.")
        begin = buffer.stretch((slot >> np.uint64(32)).astype(np.int64), length, ~null)
        # The big-endian bytes are moved to the end of 16 bytes; the bytes before them repeat the sign.
        lag = np.arange(16)[None, :] - (16 - length)[:, None]
        sign = np.where(buffer.data[begin] >> 7, 255, 0).astype(np.uint8)
        content = np.where(lag >= 0, buffer.data[begin[:, None] + np.maximum(lag, 0)], sign[:, None])
        big = np.ascontiguousarray(content).view(">u8").astype(np.uint64).reshape(count, 2)
        halves = np.ascontiguousarray(big[:, ::-1])
    return pa.Array.from_buffers(target, count, [_bitmap(null), pa.py_buffer(halves.tobytes())])


def _strings(buffer: RowBuffer, index: int, slot: Words, null: Mask, target: pa.DataType) -> Array:
    inline = slot >> np.uint64(63) != 0
    short = ((slot >> np.uint64(56)) & np.uint64(0x7F)).astype(np.int64)
    if np.any(inline & ~null & (short > INLINE_BYTES)):
        raise CorruptFileError("A row holds a short string of an impossible length.")
    length = np.where(null, 0, np.where(inline, short, (slot & _LOW).astype(np.int64)))
    # An inline string is in its slot, which is a part of the row.
    offset = np.where(inline, header_bytes(buffer.arity) + 8 * index, (slot >> np.uint64(32)).astype(np.int64))
    begin = buffer.stretch(offset, length, ~null)
    ends = np.zeros(len(slot) + 1, np.int64)
    np.cumsum(length, out=ends[1:])
    if int(ends[-1]) > np.iinfo(np.int32).max:
        raise NotSupportedError("More than 2 GB of strings can't be decoded at once.")
    source = np.repeat(begin - ends[:-1], length) + np.arange(int(ends[-1]))
    content = buffer.data[source]
    offsets = pa.py_buffer(ends.astype(np.int32).tobytes())
    array = pa.Array.from_buffers(target, len(slot), [_bitmap(null), offsets, pa.py_buffer(content.tobytes())])
    if pa.types.is_string(target):
        try:
            array.validate(full=True)
        except pa.ArrowInvalid as error:
            raise CorruptFileError(f"A row holds a string that is not UTF-8: {error}") from error
    return array


def _bitmap(null: Mask) -> pa.Buffer | None:
    if not null.any():
        return None
    return pa.py_buffer(np.packbits(~null, bitorder="little").tobytes())
