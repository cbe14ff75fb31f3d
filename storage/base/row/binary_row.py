"""BinaryRow: the bytes in which Paimon keeps partitions, keys and statistics (paimon-common, data/BinaryRow).

    arity      4 bytes, big-endian; only where a row is stored in a file, not under its hash
    header     1 byte of row kind (0), then one null bit for each field, padded to 8 bytes
    slots      8 bytes a field, little-endian; unused bytes and the slots of nulls are zero
    variable   what does not fit into a slot, each value padded to 8 bytes

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
from the header. Fields of nested types are only ever null here: keys, partitions and statistics have none.

Python values are those of interbed.storage.base.row.values.
"""

import struct
from collections.abc import Sequence
from decimal import Decimal
from itertools import pairwise

import numpy as np

from interbed.storage.base.errors import CorruptFileError, InvalidInputError, NotSupportedError
from interbed.storage.base.row.decode import rows_to_columns
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
)
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
    """The rows of the columns, serialised with their arity; vectorised.

    An empty list without columns. Raises InvalidInputError for columns that do not fit their types, NotSupportedError
    for nested values.
    """
    words = columns_to_words(columns, types)
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(words.size)])
    starts = ends[:-1]
    content = np.zeros(int(ends[-1]) // 8, np.uint64)
    for index, word in enumerate(words.fixed):
        content[starts // 8 + index] = word
    scattered = content.view(np.uint8)
    for part in words.variable:
        # Every byte of every row's stretch gets its source and its target.
        length = part.length
        before = np.cumsum(length) - length
        count = np.arange(int(length.sum()))
        scattered[np.repeat(starts + part.position - before, length) + count] = part.data[
            np.repeat(part.start - before, length) + count
        ]
    arity = struct.pack(">i", len(types))
    data = content.tobytes()
    # The result is a list of bytes objects, so there is a step for every row.
    return [arity + data[begin:end] for begin, end in pairwise(ends.tolist())]


def decode_rows(rows: Sequence[bytes], types: Sequence[DataType]) -> list[Array]:
    """One Arrow array for each type, in its Arrow form; vectorised.

    Raises CorruptFileError for bytes that are not rows of that many fields.
    """
    return rows_to_columns(rows, types)


def encode_row(values: Sequence[object], types: Sequence[DataType]) -> bytes:
    """One row of Python values, serialised with its arity.

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
    """The slot of a value; what does not fit into it is added to the variable part."""
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
    """The Python values of one serialised row.

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
        raise CorruptFileError("A row refers to bytes behind its end.")
    return row[offset : offset + length]


def _decimal(value: object, data_type: AtomicType) -> Decimal:
    number = coerce(value, data_type)
    assert isinstance(number, Decimal)
    return number


def _shortest(number: int) -> bytes:
    """Two's complement, big-endian, in as few bytes as keep the sign."""
    magnitude = number if number >= 0 else ~number
    return number.to_bytes(magnitude.bit_length() // 8 + 1, "big", signed=True)
