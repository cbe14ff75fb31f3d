"""Columns as NumPy arrays and back, nulls kept beside them; and casts of a few values one by one."""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from interbed.storage.base import arrow_values
from interbed.storage.base.arrow_values import array_of, scalar_of

Array: TypeAlias = "pa.Array[Any]"
Int64s: TypeAlias = npt.NDArray[np.int64]


def to_numpy(array: Array) -> npt.NDArray[Any]:
    """The values of a column of numbers; those of nulls are 0."""
    filled: Any = array.fill_null(0) if array.null_count else array
    values: npt.NDArray[Any] = arrow_values.to_numpy(filled)
    return values


def to_counts(array: Array) -> Int64s:
    """The integers that a column of times is kept as; those of nulls are 0."""
    width = pa.int32() if array.type.bit_width == 32 else pa.int64()
    return to_numpy(array.view(width)).astype(np.int64)


def from_numpy(values: npt.NDArray[Any], like: Array) -> Array:
    """The values as a column of their own type, null where the other column is."""
    mask = arrow_values.to_numpy(like.is_null()) if like.null_count else None
    made: Array = pa.array(values, mask=mask)
    return made


def cast_few(array: Array, arrow: pa.DataType, cast: Callable[[Any], Any]) -> Array:
    """Each distinct value cast by a function; for forms that are rare, because the values become Python's."""
    encoded: Any = array.dictionary_encode()
    # One by one: a loop over the distinct values alone, which meets the forms that Arrow has no function for.
    distinct = array_of([cast(value) for value in encoded.dictionary.to_pylist()], arrow)
    result: Array = distinct.take(encoded.indices)
    return result


def cast_where(common: Array, array: Array, many: Callable[[Array], Array], few: Callable[[Array], Array]) -> Array:
    """The values for which `common` (BOOLEAN, no nulls) is true by the one function, the others by the other."""
    if pc.all(common).as_py() in (True, None):
        return many(array)
    rest = few(array.filter(pc.invert(common)))
    kept = many(pc.if_else(common, array, scalar_of(None, array.type)))
    result: Array = pc.replace_with_mask(kept, pc.invert(common), rest)
    return result
