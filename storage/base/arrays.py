"""Type aliases of the numpy arrays that pass between modules, by the meaning of their elements."""

from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

_Integer = TypeVar("_Integer", bound=np.integer[Any])

Mask: TypeAlias = npt.NDArray[np.bool_]
"""One element for each row: whether the row is selected."""

Ints: TypeAlias = npt.NDArray[np.int64]
"""Signed integers of 64 bits: row numbers, group numbers, counts."""

Positions: TypeAlias = npt.NDArray[np.int64]
"""Positions of rows in a file or a batch, counted from 0."""

Words: TypeAlias = npt.NDArray[np.uint64]
"""Eight bytes of each value, as an unsigned number."""

Bytes: TypeAlias = npt.NDArray[np.uint8]
"""A buffer, byte by byte."""


def distinct(values: npt.NDArray[_Integer]) -> npt.NDArray[_Integer]:
    """Return the distinct values, ascending. `numpy.unique` would load numpy's masked arrays, which takes a while."""
    ordered = np.sort(values)
    return ordered[np.concatenate(([True], ordered[1:] != ordered[:-1]))] if len(ordered) else ordered
