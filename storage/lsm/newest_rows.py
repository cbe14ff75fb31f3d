"""The newest record of each key without a sort, where keys are integers that lie close together.

Such a key is a place in an array. Records are put there, the older ones first, so that what is found in the end is the
newest; in the order of places it is in the order of keys, too. That takes a fraction of the time of a sort as long as
the array, which is as long as the keys are apart, stays in the processor's caches.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from interbed.storage.base.arrays import Mask
from interbed.storage.lsm.key_words import Order, integers

_PLACES_OF_A_ROW = 8
"""With more places for each row of a block the array is too long for the caches, and a sort is as fast."""
_PLACES_OF_A_COUNTED_ROW = 64
"""The same where a place is a single byte."""

_Columns = Sequence["pa.Array[Any]"]


def newest_rows(columns: _Columns) -> Order | None:
    """The number of each key's last row, in key order; None for keys that have to be sorted.

    The columns hold keys, those of older records first. Each ascends strictly; rows are numbered through all of them.
    """
    placed = _Places.of(columns, _PLACES_OF_A_ROW)
    if placed is None:
        return None
    # Zero is no row's number, so that the array begins as memory that nothing was written to yet.
    found = np.zeros(placed.count, np.int32)
    first = 1
    for places in placed.of_columns():
        found[places] = np.arange(first, first + len(places), dtype=np.int32)
        first += len(places)
    numbers = found.compress(found != 0).astype(np.int64)
    numbers -= 1
    return numbers


def count_newest(columns: _Columns, adds: Mask | None) -> int | None:
    """How many keys have a last row that adds, of columns as in newest_rows; None for keys that have to be sorted.

    `adds` says so of all rows, one column after the other; without it every row adds.
    """
    placed = _Places.of(columns, _PLACES_OF_A_COUNTED_ROW)
    if placed is None:
        return None
    there = np.zeros(placed.count, np.bool_)
    first = 0
    for places in placed.of_columns():
        there[places] = True if adds is None else adds[first : first + len(places)]
        first += len(places)
    return int(np.count_nonzero(there))


class _Places:
    """Integers as places in an array of `count`, from the least of them on."""

    def __init__(self, numbers: Sequence["npt.NDArray[Any]"], least: int, count: int) -> None:
        self._numbers = numbers
        self._least = least
        self.count = count

    @staticmethod
    def of(columns: _Columns, places_of_a_row: int) -> "_Places | None":
        numbers = []
        for column in columns:
            values = integers(column)
            if values is None:
                return None
            if len(values):
                numbers.append(values)
        if not numbers:
            return _Places([], 0, 0)
        # As Python's integers: the distance may not fit into the column's type.
        least, greatest = min(int(n[0]) for n in numbers), max(int(n[-1]) for n in numbers)
        count = greatest - least + 1
        return _Places(numbers, least, count) if count <= places_of_a_row * sum(map(len, numbers)) else None

    def of_columns(self) -> Iterator["npt.NDArray[np.int64]"]:
        """The places of each column's keys; all of one column's are different."""
        for numbers in self._numbers:
            yield np.subtract(numbers, self._least, dtype=np.int64)
