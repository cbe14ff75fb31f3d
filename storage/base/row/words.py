"""Vectorised encoding of columns as the words of BinaryRows, and Paimon's hash of rows over these words.

A BinaryRow (see interbed.storage.base.row.binary_row) is a whole number of 8-byte words. Its fixed part has the same
words in every row, so each of them is one array over the rows; each column with values outside of its slot adds one
`VariablePart`.

The hash is murmur3 with seed 42 over the 32-bit words of the BinaryRow, without its arity prefix: 80 to 120 million
rows a second and core for integers, about 20 for short strings.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from interbed.storage.base.arrays import Bytes, Ints, Mask, Words
from interbed.storage.base.arrow_values import FALSE, cast_exactly, nulls_of, one_array, scalar_of, to_numpy
from interbed.storage.base.errors import InvalidInputError, NotSupportedError
from interbed.storage.base.row.values import type_name
from interbed.storage.base.types.arrow import type_to_arrow
from interbed.storage.base.types.data_type import (
    BINARIES,
    STRINGS,
    TIMESTAMPS,
    AtomicType,
    DataType,
    TypeRoot,
)

Array: TypeAlias = "pa.Array[Any]"
Column: TypeAlias = "pa.Array[Any] | pa.ChunkedArray[Any]"

HEADER_BITS = 8
INLINE_BYTES = 7
COMPACT_DECIMAL = 18
COMPACT_TIMESTAMP = 3
MAX_ROW_BYTES = 2**31 - 1
_EIGHT = np.uint64(8)
_SPARE = 16
_FILLED = {
    TypeRoot.TINYINT: (pa.int8(), np.uint8),
    TypeRoot.SMALLINT: (pa.int16(), np.uint16),
    TypeRoot.INT: (pa.int32(), np.uint32),
    TypeRoot.DATE: (pa.int32(), np.uint32),
    TypeRoot.TIME: (pa.int32(), np.uint32),
    TypeRoot.BIGINT: (pa.int64(), np.uint64),
    TypeRoot.FLOAT: (pa.float32(), np.uint32),
    TypeRoot.DOUBLE: (pa.float64(), np.uint64),
}


def header_bytes(arity: int) -> int:
    """Return the bytes of the header and the null bits, in whole words."""
    return (arity + 63 + HEADER_BITS) // 64 * 8


def fixed_bytes(arity: int) -> int:
    """Return the bytes of the fixed part of a row of that many fields."""
    return header_bytes(arity) + 8 * arity


@dataclass(frozen=True, slots=True)
class VariablePart:
    """Bytes of one column behind the fixed part: `data[start : start + length]` of each row, padded to whole words.

    `position` is the offset in the row; a row without bytes has length 0. `data` has spare bytes at its end, so that a
    word can be read at every start.
    """

    data: Bytes
    start: Ints
    length: Ints
    position: Ints

    def word(self, index: int, rows: slice | Ints) -> Words:
        """Return word `index` of the rows, which must have that many words."""
        start = self.start[rows] + 8 * index
        words = unaligned_words(self.data)[start]
        return keep_bytes(words, np.minimum(self.length[rows] - 8 * index, 8))

    def word_counts(self) -> Ints:
        """Return the number of words of each row."""
        counts: Ints = (self.length + 7) // 8
        return counts


@dataclass(frozen=True, slots=True)
class RowWords:
    """Words of rows: the words of the fixed part, then the variable parts in the columns' order."""

    fixed: list[Words]
    variable: list[VariablePart]
    size: Ints


def columns_to_words(columns: Sequence[Column], types: Sequence[DataType]) -> RowWords:
    """Return the words of the rows of the columns, which are cast to the Arrow form of their types.

    Raises InvalidInputError when columns do not match the types, or a row is too large.
    """
    if len(columns) != len(types):
        raise InvalidInputError(f"{len(columns)} columns were given for {len(types)} types.")
    count = len(columns[0]) if columns else 0
    arity = len(types)
    words = header_bytes(arity) // 8
    header = [np.zeros(count, np.uint64) for _ in range(words)]
    slots: list[Words] = []
    variable: list[VariablePart] = []
    cursor = np.full(count, fixed_bytes(arity), np.int64)
    for index, (column, data_type) in enumerate(zip(columns, types, strict=True)):
        array = in_arrow_form(column, data_type)
        if len(array) != count:
            raise InvalidInputError(f"The columns have {count} and {len(array)} rows.")
        valid = validity(array)
        if valid is not None:
            bit = index + HEADER_BITS
            header[bit // 64] |= (~valid).astype(np.uint64) << np.uint64(bit % 64)
        slot, part = _column(array, valid, data_type, cursor)
        slots.append(slot)
        if part is not None:
            variable.append(part)
            cursor = cursor + part.word_counts() * 8
    if count and int(cursor.max()) > MAX_ROW_BYTES:
        raise InvalidInputError("A row is larger than 2 GB, which BinaryRow can't hold.")
    return RowWords(header + slots, variable, cursor)


def in_arrow_form(column: Column, data_type: DataType) -> Array:
    """Return the column as one array of its type's Arrow form."""
    target = type_to_arrow(data_type)
    array: Any = one_array(column)
    if not array.type.equals(target) and isinstance(data_type, AtomicType):
        try:
            array = cast_exactly(array, target)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise InvalidInputError(f"A column of {array.type} is not {type_name(data_type)}: {error}") from error
    result: Array = array
    return result


def no_values(arrow: pa.DataType) -> Array:
    """Return an empty array of that type."""
    return nulls_of(0, arrow)


def validity(array: Array) -> Mask | None:
    """Return which values are not null; None when no value is null."""
    if not array.null_count:
        return None
    flags: Mask = to_numpy(array.is_valid())
    return flags


def unaligned_words(data: Bytes) -> Words:
    """Return the words of the bytes, one at every byte but the last seven."""
    view: Words = np.ndarray(shape=(len(data) - 7,), dtype="<u8", buffer=data, strides=(1,))
    return view


def keep_bytes(words: Words, count: Ints) -> Words:
    """Return the words with only their first `count` bytes, 0 to 8."""
    shift = (_EIGHT - count.astype(np.uint64)) * _EIGHT
    # A shift by 64 is undefined, so words of which no byte is kept are handled separately.
    kept: Words = np.where(count <= 0, np.uint64(0), (words << (shift & np.uint64(63))) >> (shift & np.uint64(63)))
    return kept


def _column(array: Array, valid: Mask | None, data_type: DataType, cursor: Ints) -> tuple[Words, VariablePart | None]:
    if not isinstance(data_type, AtomicType):
        if array.null_count < len(array):
            raise NotSupportedError(f"A value of type {type_name(data_type)} can't be part of a key or of statistics.")
        return np.zeros(len(array), np.uint64), None
    root = data_type.root
    if root in STRINGS or root in BINARIES:
        return _strings(array, valid, cursor)
    if root is TypeRoot.DECIMAL:
        return _decimals(array, valid, (data_type.precision or 0) > COMPACT_DECIMAL, cursor)
    if root in TIMESTAMPS:
        ticks = _filled(array.view(pa.int64()), valid).view(np.int64)
        if (data_type.precision or 0) <= COMPACT_TIMESTAMP:
            return ticks.view(np.uint64), None
        return _timestamps(ticks, valid, 1_000 if (data_type.precision or 0) <= 6 else 1_000_000, cursor)
    if root is TypeRoot.BOOLEAN:
        flags: Mask = to_numpy(array) if valid is None else to_numpy(array.fill_null(FALSE))
        return flags.astype(np.uint64), None
    stored, unsigned = _FILLED[root]
    return _filled(array.view(stored), valid).view(unsigned).astype(np.uint64), None


def _filled(array: Array, valid: Mask | None) -> npt.NDArray[np.generic]:
    filled = array if valid is None else array.fill_null(scalar_of(0, array.type))
    return to_numpy(filled)


def _strings(array: Array, valid: Mask | None, cursor: Ints) -> tuple[Words, VariablePart]:
    count = len(array)
    buffers = array.buffers()
    ends = np.zeros(count + 1, np.int64)
    if buffers[1] is not None and count:
        ends = np.frombuffer(memoryview(buffers[1]), np.int32)[array.offset : array.offset + count + 1].astype(np.int64)
    base = int(ends[0])
    content = (
        np.frombuffer(memoryview(buffers[2]), np.uint8)[base : int(ends[-1])]
        if buffers[2] is not None
        else np.zeros(0, np.uint8)
    )
    data = np.concatenate([content, np.zeros(_SPARE, np.uint8)])
    start = ends[:-1] - base
    length = ends[1:] - ends[:-1]
    if valid is not None:
        length = np.where(valid, length, 0)
    short = length <= INLINE_BYTES
    first = keep_bytes(unaligned_words(data)[start], np.minimum(length, 8))
    inline = first | ((np.uint64(0x80) | length.astype(np.uint64)) << np.uint64(56))
    slot = np.where(short, inline, _reference(cursor, length))
    if valid is not None:
        slot = np.where(valid, slot, np.uint64(0))
    return slot, VariablePart(data, start, np.where(short, 0, length), cursor)


def _timestamps(ticks: Ints, valid: Mask | None, per_milli: int, cursor: Ints) -> tuple[Words, VariablePart]:
    # A null keeps its variable part, as in Paimon's writer: the hash includes those bytes.
    millis = ticks // per_milli
    nanos = (ticks - millis * per_milli) * (1_000_000 // per_milli)
    return _reference(cursor, nanos), _words_part(millis.view(np.uint64).reshape(-1, 1), cursor)


def _decimals(array: Array, valid: Mask | None, wide: bool, cursor: Ints) -> tuple[Words, VariablePart | None]:
    count = len(array)
    buffer = array.buffers()[1]
    halves = (
        np.zeros((0, 2), np.uint64)
        if buffer is None or not count
        else np.frombuffer(memoryview(buffer), "<u8")[2 * array.offset : 2 * (array.offset + count)].reshape(count, 2)
    )
    if valid is not None:
        halves = np.where(valid[:, None], halves, np.uint64(0))
    if not wide:
        return np.ascontiguousarray(halves[:, 0]), None
    big_endian = np.ascontiguousarray(halves[:, ::-1]).astype(">u8").view(np.uint8).reshape(count, 16)
    negative = (halves[:, 1] >> np.uint64(63)).astype(bool)
    fill = np.where(negative, 255, 0).astype(np.uint8)
    # Two's complement in as few bytes as keep the sign bit.
    differs = big_endian != fill[:, None]
    lead = np.where(differs.any(axis=1), differs.argmax(axis=1), 15)
    sign_kept = (big_endian[np.arange(count), lead] >> 7).astype(bool) == negative
    lead = np.where(sign_kept, lead, lead - 1)
    padded = np.concatenate([big_endian, np.zeros((count, 16), np.uint8)], axis=1)
    shifted = np.take_along_axis(padded, lead[:, None] + np.arange(16)[None, :], axis=1)
    length = (16 - lead).astype(np.int64)
    if valid is not None:
        length = np.where(valid, length, 0)
    return _reference(cursor, length), _words_part(np.ascontiguousarray(shifted).view("<u8"), cursor)


def _words_part(words: npt.NDArray[np.uint64], cursor: Ints) -> VariablePart:
    count, width = words.shape
    data = np.concatenate([words.reshape(-1).view(np.uint8), np.zeros(_SPARE, np.uint8)])
    size = 8 * width
    return VariablePart(data, np.arange(count, dtype=np.int64) * size, np.full(count, size, np.int64), cursor)


def _reference(position: Ints, low: Ints) -> Words:
    """Return slots with the position of a value, and its length or its nanoseconds in the lower half."""
    slots: Words = (position.astype(np.uint64) << np.uint64(32)) | low.astype(np.uint64)
    return slots


_SEED = 42
_C1 = np.uint32(0xCC9E2D51)
_C2 = np.uint32(0x1B873593)
_LOW = np.uint64(0xFFFFFFFF)
_BLOCK = 65_536
"""Rows per block of the hash, so that the state stays in the processor's cache."""

Hash = npt.NDArray[np.uint32]


def murmur_hash(columns: Sequence[Column], types: Sequence[DataType]) -> npt.NDArray[np.int32]:
    """Return the hash of each row of the columns; an empty array without columns."""
    arrays = [in_arrow_form(c, t) for c, t in zip(columns, types, strict=True)]
    count = len(arrays[0]) if arrays else 0
    result = np.empty(count, np.int32)
    for start in range(0, count, _BLOCK):
        block = [a.slice(start, _BLOCK) for a in arrays]
        result[start : start + _BLOCK] = _hash_block(block, types).view(np.int32)
    return result


def _hash_block(columns: Sequence[Array], types: Sequence[DataType]) -> Hash:
    words = columns_to_words(columns, types)
    state = np.full(len(words.size), _SEED, np.uint32)
    for word in words.fixed:
        state = _feed(state, word)
    for part in words.variable:
        counts = part.word_counts()
        everywhere = int(counts.min())
        for index in range(everywhere):
            state = _feed(state, part.word(index, slice(None)))
        for index in range(everywhere, int(counts.max())):
            rows = np.flatnonzero(counts > index)
            state[rows] = _feed(state[rows], part.word(index, rows))
    return _finish(state, words.size.astype(np.uint32))


def _feed(state: Hash, word: Words) -> Hash:
    state = _mix(state, (word & _LOW).astype(np.uint32))
    return _mix(state, (word >> np.uint64(32)).astype(np.uint32))


def _mix(state: Hash, value: Hash) -> Hash:
    value *= _C1
    value = _rotate(value, 15)
    value *= _C2
    state = _rotate(state ^ value, 13)
    state *= np.uint32(5)
    state += np.uint32(0xE6546B64)
    return state


def _rotate(value: Hash, bits: int) -> Hash:
    return (value << np.uint32(bits)) | (value >> np.uint32(32 - bits))


def _finish(state: Hash, size: Hash) -> Hash:
    state = state ^ size
    state ^= state >> np.uint32(16)
    state *= np.uint32(0x85EBCA6B)
    state ^= state >> np.uint32(13)
    state *= np.uint32(0xC2B2AE35)
    state ^= state >> np.uint32(16)
    return state


def murmur_hash_bytes(row: bytes) -> int:
    """Return the hash of one BinaryRow without its arity prefix, as a signed 32-bit integer: the scalar form."""
    mask = 0xFFFFFFFF
    state = _SEED
    for start in range(0, len(row), 4):
        value = int.from_bytes(row[start : start + 4], "little") * 0xCC9E2D51 & mask
        value = (value << 15 | value >> 17) & mask
        state ^= value * 0x1B873593 & mask
        state = (state << 13 | state >> 19) & mask
        state = (state * 5 + 0xE6546B64) & mask
    state ^= len(row)
    state = (state ^ state >> 16) * 0x85EBCA6B & mask
    state = (state ^ state >> 13) * 0xC2B2AE35 & mask
    state ^= state >> 16
    return state - (1 << 32) if state >> 31 else state
