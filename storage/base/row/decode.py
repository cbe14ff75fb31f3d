"""BinaryRows to columns, all rows at once: the other way of interbed.storage.base.row.words."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from interbed.storage.base.arrays import Bytes, Ints, Mask, Words
from interbed.storage.base.arrow_values import from_numpy, nulls_of
from interbed.storage.base.errors import CorruptFileError, NotSupportedError
from interbed.storage.base.row.values import type_name
from interbed.storage.base.row.words import (
    COMPACT_DECIMAL,
    COMPACT_TIMESTAMP,
    HEADER_BITS,
    INLINE_BYTES,
    Array,
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
    """Many serialised rows, one behind the other, and where each begins and ends.

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
        """The 8 bytes of a field in each row."""
        return self.words[self.start + (header_bytes(self.arity) + 8 * index)]

    def nulls(self, index: int) -> Mask:
        """Whether a field is null in each row."""
        bit = index + HEADER_BITS
        return (self.data[self.start + bit // 8] >> np.uint8(bit % 8) & np.uint8(1)).astype(bool)

    def stretch(self, offset: Ints, length: Ints, used: Mask) -> Ints:
        """Where a stretch of each row begins in the buffer; those that are not used begin at 0."""
        begin = self.start + offset
        if np.any(used & ((length < 0) | (begin + length > self.end))):
            raise CorruptFileError("A row refers to bytes behind its end.")
        return np.where(used, begin, 0)


def rows_to_columns(rows: Sequence[bytes], types: Sequence[DataType]) -> list[Array]:
    """One Arrow array for each type, in its Arrow form. Raises CorruptFileError for rows that can't be decoded."""
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
        # The big-endian bytes are moved to the end of 16 bytes, what is before them repeats the sign.
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
    # An inline string lies in its slot, which is part of the row as well.
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
