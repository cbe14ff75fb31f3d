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

from interbed.storage.base.arrays import Ints, Mask

Array = Any
"""An Arrow array; the stubs of pyarrow want the type of its values."""

_ABSENT = -1


@dataclass(frozen=True, slots=True, eq=False)
class KeyTable:
    """Distinct keys with the sequence number of the newest delete of each.

    `values` are the distinct values of each column; `numbers` those of the first columns' combinations, ascending, for
    each column but the first.
    """

    values: tuple[Array, ...]
    numbers: tuple[Ints, ...]
    newest: Ints

    @staticmethod
    def of(columns: Sequence[Array], sequence_numbers: Ints) -> "KeyTable":
        """The table of keys, given by columns, and of the deletes that brought them; neither need be distinct."""
        plain = [_comparable(column) for column in columns]
        values = tuple(pc.unique(column) for column in plain)
        keys = _places(plain[0], values[0])
        numbers: list[Ints] = []
        for column, known in zip(plain[1:], values[1:], strict=True):
            keys = keys * len(known) + _places(column, known)
            combined = np.unique(keys)
            numbers.append(combined)
            # Dense again, lest the numbers of many columns outgrow 64 bits.
            keys = np.searchsorted(combined, keys)
        newest = np.full(len(numbers[-1]) if numbers else len(values[0]), _ABSENT, np.int64)
        np.maximum.at(newest, keys, sequence_numbers)
        return KeyTable(values, tuple(numbers), newest)

    def deletes(self, columns: Sequence[Array], sequence_number: int) -> Mask | None:
        """Which rows of that age are deleted, the rows given by their keys' columns; None when none of them is."""
        plain = [_comparable(column) for column in columns]
        keys = _places(plain[0], self.values[0])
        for column, known, combined in zip(plain[1:], self.values[1:], self.numbers, strict=True):
            here = _places(column, known)
            pairs = np.where((keys < 0) | (here < 0), _ABSENT, keys * len(known) + here)
            found = np.minimum(np.searchsorted(combined, pairs), len(combined) - 1)
            keys = np.where(combined[found] == pairs, found, _ABSENT)
        # What is in no key comes last, where nothing is newer.
        newest = np.append(self.newest, np.int64(_ABSENT))
        deleted: Mask = newest[keys] > sequence_number
        return deleted if deleted.any() else None


def _places(column: Array, values: Array) -> Ints:
    """The place of each value among the values, -1 where it is not there."""
    found: Any = pc.index_in(column, value_set=values)
    places: Ints = found.fill_null(_ABSENT).to_numpy(zero_copy_only=False).astype(np.int64)
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
