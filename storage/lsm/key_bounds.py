"""Single keys as tuples that Python compares: the bounds of batches and blocks (words are made of whole columns)."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from interbed.storage.lsm.key_words import Column, float_words, integers


def comparable_key(columns: Sequence[Column], row: int) -> tuple[Any, ...]:
    """One row's key as a tuple that Python compares as the words do; for bisecting and comparing bounds."""
    return tuple(_comparable(column[row]) for column in columns)


def rows_through(columns: Sequence["pa.Array[Any]"], key: tuple[Any, ...]) -> int:
    """How many rows have a key up to that one, made by comparable_key of the same types; the rows' keys ascend."""
    low, high = 0, len(columns[0])
    numbers = integers(columns[0])
    if numbers is not None and key[0] != (0,):
        # A bisection in Python costs more than all else that is done to a block's bounds.
        first = numbers.dtype.type(key[0][1])
        high = int(np.searchsorted(numbers, first, side="right"))
        low = high if len(columns) == 1 else int(np.searchsorted(numbers, first, side="left"))
    while low < high:
        middle = (low + high) // 2
        if comparable_key(columns, middle) <= key:
            low = middle + 1
        else:
            high = middle
    return low


def comparable_value(value: object) -> Any:
    """A Python value of a key column (int, str, bytes, Decimal, date, float …) in a form that compares as keys do."""
    if value is None:
        return (0,)
    if isinstance(value, str):
        return (1, value.encode())
    if isinstance(value, float):
        return (1, int(float_words(np.array([value], np.float64))[0]))
    return (1, value)


def _comparable(scalar: "pa.Scalar[Any]") -> Any:
    if not scalar.is_valid:
        return (0,)
    if isinstance(scalar, pa.TimestampScalar | pa.Date32Scalar | pa.Time32Scalar | pa.Time64Scalar):
        # The bare number keeps nanoseconds and far years, which datetime has not.
        number: Any = scalar
        return (1, number.value)
    return comparable_value(scalar.as_py())
