"""Small steps between Arrow's arrays and numpy's that decoders share."""

from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from interbed.storage.base.arrays import Mask as Mask
from interbed.storage.base.arrow_values import one_array as one_array

Array: TypeAlias = "pa.Array[Any]"
Indices: TypeAlias = npt.NDArray[np.int64]
Rows = TypeVar("Rows", bound=Any)


def mask_of(booleans: Any) -> Mask:
    """Arrow's booleans, without nulls, as numpy's."""
    found: Mask = booleans.to_numpy(zero_copy_only=False)
    return found


def valid(array: Array) -> Mask:
    """Which values are not null."""
    return mask_of(array.is_valid())


def true_of(booleans: Any) -> Mask:
    """Where Arrow's booleans are true; nulls are not."""
    return mask_of(booleans.fill_null(False))


def taken(values: Rows, numbers: Indices) -> Rows:
    """The values, or rows of a table, with these indices."""
    found: Rows = values.take(pa.array(numbers))
    return found


def kept(values: Rows, chosen: Mask) -> Rows:
    """The values, or rows of a table, for which it is true; the same object when it is true of all."""
    if chosen.all():
        return values
    found: Rows = values.filter(pa.array(chosen))
    return found


def buffer_of(numbers: "npt.NDArray[Any]") -> Any:
    """The bytes of numbers as a buffer of Arrow, which shares them."""
    whole: Any = np.ascontiguousarray(numbers)
    return pa.py_buffer(whole)
