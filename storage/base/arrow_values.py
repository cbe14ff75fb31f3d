"""Arrow arrays and scalars of Python's values and numpy's arrays, without loading pandas; and exact decimals.

`pa.array` and `pa.scalar` import pandas where it is installed, to check whether they were given one of its objects.
That takes longer than opening a table and finding a row. The functions here build arrays of the common types from
buffers, and pass every other value to `pa.array`, with its rules and errors.

Arrow's own casts to DECIMAL wrap around where a number has no room for the digits of the scale. Arrow 23 makes
518445349204035176694863500022054643.44 of the `decimal128(38, 0)` 3921269018413419811328609574339736758, and of its
text, in a `decimal128(38, 2)`: it does not check whether the product has more than 128 bits.
"""

import sys
from collections.abc import Sequence
from datetime import date, datetime
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from interbed.storage.base.arrays import Mask

_INTEGERS = {
    pa.int8(): np.int8,
    pa.int16(): np.int16,
    pa.int32(): np.int32,
    pa.int64(): np.int64,
    pa.uint8(): np.uint8,
    pa.uint16(): np.uint16,
    pa.uint32(): np.uint32,
    pa.uint64(): np.uint64,
}
_ARROW: dict[np.dtype[Any], pa.DataType] = {
    **{np.dtype(plain): arrow for arrow, plain in _INTEGERS.items()},
    np.dtype(np.float32): pa.float32(),
    np.dtype(np.float64): pa.float64(),
}
_PLAIN: dict[pa.DataType, np.dtype[Any]] = {
    **{arrow: plain for plain, arrow in _ARROW.items()},
    pa.bool_(): np.dtype(np.bool_),
}
_PER_UNIT = {pa.timestamp("ms"): 1_000, pa.timestamp("us"): 1}
"""Microseconds in a unit of a type."""
_EPOCH = datetime(1970, 1, 1)
_INFERRED: dict[type, pa.DataType] = {
    int: pa.int64(),
    float: pa.float64(),
    bool: pa.bool_(),
    str: pa.string(),
    bytes: pa.binary(),
}
_COMMON = frozenset({*_INFERRED, date, datetime})


def array_of(values: Sequence[object], arrow: pa.DataType | None = None) -> "pa.Array[Any]":
    """Return the array that `pa.array(values, arrow)` makes, with None as null. Raises the same errors."""
    made = None if _is_pandas_check_free() else _made(values, arrow)
    return pa.array(values, arrow) if made is None else made


def one_array(column: Any) -> "pa.Array[Any]":
    """Return the values of a column as one array. Arrow's `combine_chunks` may return several chunks."""
    if isinstance(column, pa.Array):
        return column
    chunks = column.chunks
    return chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks) if chunks else nulls_of(0, column.type)


def _is_pandas_check_free() -> bool:
    """Return whether pandas is loaded already, or is not installed."""
    return "pandas" in sys.modules or not _has_pandas()


@cache
def _has_pandas() -> bool:
    try:
        return find_spec("pandas") is not None
    except ImportError:
        # An import hook may report a missing module by an error.
        return False


def _made(values: Sequence[object], arrow: pa.DataType | None) -> "pa.Array[Any] | None":
    """Return the array; None for uncommon types and values."""
    kinds = {type(value) for value in values}
    missing = np.fromiter((v is None for v in values), np.bool_, len(values)) if type(None) in kinds else None
    kinds.discard(type(None))
    if not kinds:
        return nulls_of(len(values), pa.null() if arrow is None else arrow)
    if missing is None and all(isinstance(v, pa.Scalar) and v.type == arrow for v in values):
        return _joined(values)
    kind = kinds.pop()
    if kinds or kind not in _COMMON or (arrow is None and kind not in _INFERRED):
        return None
    arrow = _INFERRED[kind] if arrow is None else arrow
    if kind is int and arrow in _INTEGERS:
        try:
            return from_numpy(np.array([0 if v is None else v for v in values], _INTEGERS[arrow]), missing)
        except OverflowError:
            return None
    if kind is float and arrow == pa.float64():
        return from_numpy(np.array([0.0 if v is None else v for v in values], np.float64), missing)
    if kind is bool and arrow == pa.bool_():
        return from_numpy(np.array([bool(v) for v in values], np.bool_), missing)
    if kind is date and arrow == pa.date32():
        days = np.array([_EPOCH.date() if v is None else v for v in values], "datetime64[D]")
        return from_numpy(days.astype(np.int32), missing).view(arrow)
    if kind is datetime and arrow in _PER_UNIT:
        return _of_moments(values, missing, arrow)
    if kind in (str, bytes) and arrow == _INFERRED[kind]:
        try:
            texts: list[Any] = [b"" if v is None else v.encode() if isinstance(v, str) else v for v in values]
        except UnicodeEncodeError:
            return None
        return _of_bytes(texts, missing, arrow)
    return None


def from_numpy(values: "npt.NDArray[Any]", missing: Mask | None = None) -> "pa.Array[Any]":
    """Return one-dimensional numbers or booleans as an array of the matching type, null where `missing` is true.

    The array shares the memory of contiguous numbers.
    """
    validity = None if missing is None or not missing.any() else _bits(~missing)
    if values.dtype == np.bool_:
        return pa.Array.from_buffers(pa.bool_(), len(values), [validity, _bits(values)])
    arrow = _ARROW.get(values.dtype)
    if arrow is None:
        found: pa.Array[Any] = pa.array(values, mask=missing, from_pandas=False)
        return found
    return pa.Array.from_buffers(arrow, len(values), [validity, _buffer(np.ascontiguousarray(values))])


def nulls_of(count: int, arrow: pa.DataType) -> "pa.Array[Any]":
    """Return an array of `count` nulls of a type."""
    kind: Any = arrow
    found: pa.Array[Any] = pa.nulls(count, kind)
    return found


def scalar_of(value: object, arrow: pa.DataType) -> "pa.Scalar[Any]":
    """Return the scalar that `pa.scalar(value, arrow)` makes. Raises the same errors."""
    found: pa.Scalar[Any] = array_of([value], arrow)[0]
    return found


def one_nan(values: "pa.Array[Any]") -> "pa.Array[Any]":
    """Return FLOAT or DOUBLE values with Java's NaN for every NaN.

    Processors and programs make NaN of other bits, which equals it but has another hash: the key would be in two
    buckets.
    """
    import pyarrow.compute as pc

    is_nan = pc.is_nan(values)
    if not pc.any(is_nan).as_py():
        return values
    found: pa.Array[Any] = pc.if_else(is_nan, scalar_of(float("nan"), values.type), values)
    return found


def taken(column: "pa.Array[Any]", places: "npt.NDArray[Any]") -> "pa.Array[Any]":
    """Return the result of `column.take` for numeric positions; consecutive values are copied without it.

    Loading Arrow's functions takes longer than finding a row.
    """
    run = run_of(places)
    if run is None:
        indices: Any = from_numpy(places)
        found: pa.Array[Any] = column.take(indices)
        return found
    copied: pa.Array[Any] = pa.concat_arrays([column.slice(*run)])
    return copied


def rows_taken(rows: pa.RecordBatch, places: "npt.NDArray[Any]") -> pa.RecordBatch:
    """Return the result of `rows.take`; consecutive rows are copied without it, as by `taken`."""
    if rows.num_columns == 0 or run_of(places) is None:
        indices: Any = from_numpy(places)
        return rows.take(indices)
    return pa.RecordBatch.from_arrays([taken(column, places) for column in rows.columns], schema=rows.schema)


def run_of(places: "npt.NDArray[Any]") -> tuple[int, int] | None:
    """Return the first of consecutive positions and their number; None for other positions, and for none."""
    count = len(places)
    if not count or places[0] < 0 or int(places[-1]) - int(places[0]) != count - 1:
        return None
    return (int(places[0]), count) if (places[1:] > places[:-1]).all() else None


def _of_moments(values: Sequence[Any], missing: Mask | None, arrow: pa.DataType) -> "pa.Array[Any] | None":
    if any(v is not None and v.tzinfo is not None for v in values):
        return None
    micros = np.array([_EPOCH if v is None else v for v in values], "datetime64[us]").astype(np.int64)
    counts, rest = np.divmod(micros, _PER_UNIT[arrow])
    return None if rest.any() else from_numpy(counts, missing).view(arrow)


def _joined(scalars: Sequence[Any]) -> "pa.Array[Any]":
    return pa.concat_arrays([pa.repeat(scalar, 1) for scalar in scalars])


def _of_bytes(texts: Sequence[bytes], missing: Mask | None, arrow: pa.DataType) -> "pa.Array[Any] | None":
    ends = np.zeros(len(texts) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)), out=ends[1:])
    if ends[-1] > np.iinfo(np.int32).max:
        return None
    validity = None if missing is None else _bits(~missing)
    buffers = [validity, _buffer(ends.astype(np.int32)), pa.py_buffer(b"".join(texts))]
    return pa.Array.from_buffers(arrow, len(texts), buffers)


def _bits(mask: Mask) -> pa.Buffer:
    return _buffer(np.packbits(mask, bitorder="little"))


def _buffer(values: Any) -> pa.Buffer:
    return pa.py_buffer(values)


def to_numpy(column: "pa.Array[Any] | pa.ChunkedArray[Any]") -> "npt.NDArray[Any]":
    """Return the result of `column.to_numpy(zero_copy_only=False)`; numbers without null share the column's memory."""
    array = _only_chunk(column)
    if array is None or array.null_count or array.type not in _PLAIN:
        return column.to_numpy() if isinstance(column, pa.ChunkedArray) else column.to_numpy(zero_copy_only=False)
    plain = _PLAIN[array.type]
    if len(array) == 0:
        return np.zeros(0, plain)
    values: Any = array.buffers()[1]
    if plain == np.bool_:
        first, end = array.offset // 8, (array.offset + len(array) + 7) // 8
        bits = np.unpackbits(np.frombuffer(values, np.uint8, end - first, first), bitorder="little")
        return bits[array.offset % 8 :][: len(array)].view(np.bool_)
    return np.frombuffer(values, plain, len(array), array.offset * plain.itemsize)


def _only_chunk(column: "pa.Array[Any] | pa.ChunkedArray[Any]") -> "pa.Array[Any] | None":
    whole: Any = column
    if isinstance(column, pa.ChunkedArray):
        return whole.chunk(0) if whole.num_chunks == 1 else None
    return whole  # type: ignore[no-any-return]


TRUE, FALSE, UNKNOWN = array_of([True, False, None], pa.bool_())
"""The values of a BOOLEAN column."""


# -- exact decimals ----------------------------------------------------------------------------------------------------

_DIGITS = 76
_TOLERANCE = 1e-9
"""Relative difference of two doubles of one number; a number that was wrapped around is far away."""


def cast_exactly(array: "pa.Array[Any]", target: pa.DataType) -> "pa.Array[Any]":
    """Return the array in another type by Arrow's safe cast; decimals from texts and decimals by `exact_decimals`."""
    kind = array.type
    is_exact = pa.types.is_decimal(target) and (pa.types.is_decimal(kind) or pa.types.is_string(kind))
    return exact_decimals(array, target) if is_exact else array.cast(target)


def exact_decimals(array: "pa.Array[Any]", target: pa.DataType) -> "pa.Array[Any]":
    """Return texts or decimals in a decimal type. Raises pa.ArrowInvalid for a number that does not fit."""
    kind: Any = target
    wide = array.cast(pa.decimal256(_DIGITS, kind.scale), safe=True)
    # Texts and decimals of up to 76 digits may not fit 256 bits either.
    if not isinstance(array.type, pa.Decimal128Type | pa.Decimal64Type | pa.Decimal32Type):
        # By use: reads need the types of Arrow, and none of its functions.
        import pyarrow.compute as pc

        given: Any = array.cast(pa.float64(), safe=False)
        difference: Any = pc.abs(pc.subtract(given, wide.cast(pa.float64(), safe=False)))
        if pc.any(pc.greater(difference, pc.multiply(pc.abs(given), pa.scalar(_TOLERANCE)))).as_py():
            raise pa.ArrowInvalid(f"a number has more digits than {target} holds")
    return wide.cast(target, safe=True)
