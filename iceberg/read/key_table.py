"""The keys of equality deletes, against which whole columns are matched at once.

A row is deleted by a key that is newer than the row. So of each key only its newest sequence number counts, and one
table answers for data files of any age. Nulls are equal to each other, as is NaN; -0.0 and 0.0 are two values. Source:
Iceberg's table specification, "Equality Delete Files".

The values of each column are numbered; the numbers of a row's columns, one after the other, make the number of its key.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from interbed.iceberg.read.key_places import Array, KeyPlaces, find_slowly
from interbed.storage.base.arrays import Ints, Mask

_ABSENT = -1


@dataclass(frozen=True, slots=True, eq=False)
class KeyTable:
    """Distinct keys with the sequence number of the newest delete of each.

    `values` are the distinct values of each column, `places` how they are found where that is quicker than by Arrow;
    `numbers` those of the first columns' combinations, ascending, for each column but the first.
    """

    values: tuple[Array, ...]
    places: tuple[KeyPlaces | None, ...]
    numbers: tuple[Ints, ...]
    newest: Ints

    @staticmethod
    def of(columns: Sequence[Array], sequence_numbers: Ints) -> "KeyTable":
        """The table of keys, given by columns, and of the deletes that brought them; neither need be distinct."""
        plain = [_comparable(column) for column in columns]
        values = tuple(pc.unique(column) for column in plain)
        keys = _place_of_each(plain[0], values[0])
        numbers: list[Ints] = []
        for column, known in zip(plain[1:], values[1:], strict=True):
            keys = keys * len(known) + _place_of_each(column, known)
            combined = np.unique(keys)
            numbers.append(combined)
            # Dense again, lest the numbers of many columns outgrow 64 bits.
            keys = np.searchsorted(combined, keys)
        newest = np.full(len(numbers[-1]) if numbers else len(values[0]), _ABSENT, np.int64)
        np.maximum.at(newest, keys, sequence_numbers)
        return KeyTable(values, tuple(map(KeyPlaces.of, values)), tuple(numbers), newest)

    def deletes(self, columns: Sequence[Array], sequence_number: int) -> Mask | None:
        """Which rows of that age are deleted, the rows given by their keys' columns; None when none of them is."""
        rows, keys = self._find(0, columns[0])
        for column, combined in enumerate(self.numbers, 1):
            if not len(rows):
                return None
            # Of rows alone whose first columns are those of a key.
            among, here = self._find(column, columns[column].take(pa.array(rows)))
            pairs = keys[among] * len(self.values[column]) + here
            found = np.minimum(np.searchsorted(combined, pairs), len(combined) - 1)
            is_key = combined[found] == pairs
            rows, keys = rows[among[is_key]], found[is_key]
        rows = rows[self.newest[keys] > sequence_number]
        if not len(rows):
            return None
        deleted = np.zeros(len(columns[0]), np.bool_)
        deleted[rows] = True
        return deleted

    def _find(self, number: int, column: Array) -> tuple[Ints, Ints]:
        """The rows whose value in the column of that number is known, and the place of each."""
        plain, places = _comparable(column), self.places[number]
        return find_slowly(self.values[number], plain) if places is None else places.find(plain)


def _place_of_each(column: Array, values: Array) -> Ints:
    """The place of each value among the values, which have all of them."""
    found: Any = pc.index_in(column, value_set=values)
    places: Ints = found.to_numpy(zero_copy_only=False).astype(np.int64)
    return places


def _comparable(column: Array) -> Array:
    """The column with floats as their bits, of which NaN has but one form."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if not pa.types.is_floating(column.type):
        return column
    bits = pa.int64() if column.type.bit_width == 64 else pa.int32()
    one_nan = pc.if_else(pc.is_nan(column), pa.scalar(float("nan"), column.type), column)
    return one_nan.view(bits)
