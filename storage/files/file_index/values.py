"""Values in the form of indexes: integers of their type's width, or bytes.

Booleans are 0 and 1, dates days, times milliseconds, timestamps milliseconds up to three fractional digits and
microseconds beyond, floats their IEEE bits with a single NaN (as Java's `floatToIntBits`), texts UTF-8.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from interbed.storage.base.arrow_values import array_of, from_numpy, scalar_of, to_numpy
from interbed.storage.base.predicate.operands import literal
from interbed.storage.base.row.words import Array, in_arrow_form
from interbed.storage.base.types.arrow import type_to_arrow
from interbed.storage.base.types.data_type import (
    BINARIES,
    INTEGERS,
    STRINGS,
    TIMESTAMPS,
    AtomicType,
    DataType,
    TypeRoot,
)

Key = int | bytes

_WIDTHS = {
    TypeRoot.BOOLEAN: 1,
    TypeRoot.TINYINT: 1,
    TypeRoot.SMALLINT: 2,
    TypeRoot.INT: 4,
    TypeRoot.BIGINT: 8,
    TypeRoot.FLOAT: 4,
    TypeRoot.DOUBLE: 8,
    TypeRoot.DATE: 4,
    TypeRoot.TIME: 4,
    TypeRoot.TIMESTAMP: 8,
    TypeRoot.TIMESTAMP_LTZ: 8,
    TypeRoot.DECIMAL: 8,
}
_INTEGERS = {1: pa.int8(), 2: pa.int16(), 4: pa.int32(), 8: pa.int64()}
_FLOATS = frozenset({TypeRoot.FLOAT, TypeRoot.DOUBLE})
_MICROSECOND_DIGITS = 6
MAX_LONG_DECIMAL = 18
"""Digits of a DECIMAL whose unscaled value always fits 64 bits."""

ATOMS = INTEGERS | STRINGS | _FLOATS | TIMESTAMPS | {TypeRoot.DATE, TypeRoot.TIME}
"""The types that every kind of index but `bsi` supports; each kind adds some."""


@dataclass(frozen=True, slots=True)
class ValueForm:
    """Form of an atomic type's values in indexes. `width` is their size in bytes, 0 for texts and binaries."""

    type: AtomicType
    width: int

    @staticmethod
    def of(data_type: DataType) -> "ValueForm | None":
        """Return the form of a type; None for a type that no index supports."""
        if not isinstance(data_type, AtomicType):
            return None
        if data_type.root in STRINGS or data_type.root in BINARIES:
            return ValueForm(data_type, 0)
        return ValueForm(data_type, _WIDTHS[data_type.root])

    @property
    def is_float(self) -> bool:
        """Whether the integers are the bits of floats."""
        return self.type.root in _FLOATS

    @property
    def is_exact(self) -> bool:
        """Whether different values stay different: timestamps lose digits beyond microseconds."""
        return self.type.root not in TIMESTAMPS or (self.type.precision or 0) <= _MICROSECOND_DIGITS

    @property
    def arrow(self) -> pa.DataType:
        """The Arrow type of the values in indexes."""
        return _INTEGERS[self.width] if self.width else pa.binary()

    def convert(self, values: Array) -> Array:
        """Return a column, in its type's Arrow form or castable to it, in the form of indexes; nulls stay."""
        array: Any = in_arrow_form(values, self.type)
        if not self.width:
            return array.cast(pa.binary())  # type: ignore[no-any-return]
        if self.is_float:
            import pyarrow.compute as pc

            nan = pc.is_nan(array)
            if pc.any(nan).as_py():
                array = pc.if_else(nan, scalar_of(float("nan"), array.type), array)
            return array.view(self.arrow)  # type: ignore[no-any-return]
        if self.type.root is TypeRoot.DECIMAL:
            return _unscaled(array)
        if self.type.root is TypeRoot.BOOLEAN:
            return array.cast(pa.int8())  # type: ignore[no-any-return]
        if not self.is_exact:
            return _microseconds(array)
        return array.view(self.arrow)  # type: ignore[no-any-return]

    def keys(self, value: object) -> list[Key]:
        """Return the keys of the values that equal the literal, which is bound and not null.

        Zero has the keys of both signs, because filters treat them as equal.
        """
        scalars = [value]
        if self.is_float and value == 0:
            scalars = [0.0, -0.0]
        made: Any = array_of([literal(v, type_to_arrow(self.type)) for v in scalars], type_to_arrow(self.type))
        return keys_of(self.convert(made))


def float_order(bits: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return bits of floats (int32 or int64) as integers in the order of Java's `compare`. Its own inverse."""
    shift = bits.dtype.itemsize * 8 - 1
    ordered: npt.NDArray[Any] = bits ^ ((bits >> shift) & np.iinfo(bits.dtype).max)
    return ordered


def float_order_key(key: int, width: int) -> int:
    """Return the bits of one float as an integer in that order."""
    return int(float_order(np.array([key], np.dtype(f"i{width}")))[0])


@dataclass(frozen=True, slots=True)
class SortedCodes:
    """Dictionary-encoded column: `values` are distinct and ascend (signed integers, floats, unsigned bytes).

    `codes` has a number for each row, -1 for null.
    """

    values: Array
    codes: npt.NDArray[np.int64]

    def by_value(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return the positions of the nulls, then of each value's rows, ascending, and the end of each group."""
        order = np.argsort(self.codes, kind="stable")
        return order, np.cumsum(np.bincount(self.codes + 1, minlength=len(self.values) + 1))


class CodeCollector:
    """Collector of a column's values batch by batch; each batch adds its distinct values once."""

    def __init__(self, form: ValueForm) -> None:
        self._form = form
        self._parts: list[Any] = []
        self.row_count = 0

    def add(self, values: Array) -> None:
        """Add the next values of the column."""
        self._parts.append(self._form.convert(values).dictionary_encode())
        self.row_count += len(values)

    def finish(self) -> SortedCodes:
        """Return all rows that were collected."""
        arrow: Any = self._form.arrow
        kind: Any = pa.dictionary(pa.int32(), arrow)
        unified: Any = pa.chunked_array(self._parts, kind).unify_dictionaries()
        if not unified.num_chunks:
            return SortedCodes(array_of([], self._form.arrow), np.empty(0, np.int64))
        dictionary: Array = unified.chunk(0).dictionary
        indices = np.concatenate([to_numpy(c.indices.fill_null(-1)) for c in unified.chunks])
        if self._form.is_float:
            order = np.argsort(float_order(to_numpy(dictionary)))
        else:
            import pyarrow.compute as pc

            order = to_numpy(pc.sort_indices(dictionary))
        # The last position is that of the nulls, whose index is -1.
        ranks = np.full(len(order) + 1, -1, np.int64)
        ranks[order] = np.arange(len(order))
        places: Any = from_numpy(order)
        return SortedCodes(dictionary.take(places), ranks[indices])


def keys_of(values: Array) -> list[Key]:
    """Return values in the form of indexes, none of them null, as Python values."""
    keys: list[Any] = values.to_pylist()
    return keys


def write_key(key: Key, width: int) -> bytes:
    """Return a value in the form of index headers: a big-endian integer, or the length as 4 bytes and the bytes."""
    if isinstance(key, bytes):
        return len(key).to_bytes(4, "big") + key
    return key.to_bytes(width, "big", signed=True)


def read_key(content: bytes | memoryview, offset: int, width: int) -> tuple[Key, int]:
    """Return the value at the offset, and the offset after it. Raises ValueError when the content ends before."""
    if width:
        return int.from_bytes(_exactly(content, offset, width), "big", signed=True), offset + width
    length = int.from_bytes(_exactly(content, offset, 4), "big")
    return bytes(_exactly(content, offset + 4, length)), offset + 4 + length


def key_rank(key: Key, form: ValueForm) -> Key:
    """Return the sort key of a value in the order of `SortedCodes.values`."""
    return float_order_key(key, form.width) if form.is_float and isinstance(key, int) else key


def join_keys(keys: Sequence[Key], width: int) -> list[bytes]:
    """Return many values in the form of index headers."""
    if not width:
        return [write_key(k, 0) for k in keys]
    packed = np.array(keys, np.dtype(f">i{width}")).tobytes()
    return [packed[i : i + width] for i in range(0, len(packed), width)]


def _exactly(content: bytes | memoryview, offset: int, length: int) -> bytes | memoryview:
    part = content[offset : offset + length]
    if len(part) != length:
        raise ValueError(f"it ends at {len(content)} where {length} bytes from {offset} should be")
    return part


def _microseconds(array: Any) -> Array:
    nulls = to_numpy(array.is_null())
    # Rounded down, as in Java Paimon: it keeps milliseconds and the nanoseconds in them, which are never negative.
    micros = to_numpy(array.view(pa.int64()).fill_null(0)) // 1000
    made: Array = pa.array(micros, pa.int64(), mask=nulls)
    return made


def _unscaled(array: Any) -> Array:
    nulls = to_numpy(array.is_null())
    words = np.frombuffer(array.buffers()[1], np.int64).reshape(-1, 2)[array.offset : array.offset + len(array), 0]
    made: Array = pa.array(words, pa.int64(), mask=nulls)
    return made
