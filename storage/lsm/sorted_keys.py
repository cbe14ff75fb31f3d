"""Search for many keys at once in unique keys in ascending order.

Every SAMPLE_EVERY-th key is a sample. All requested keys are compared with the samples, and then with the keys of the
blocks that may contain them, by the same sort of words as in the merge.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from interbed.storage.base.arrays import Positions, distinct
from interbed.storage.base.arrow_values import taken, to_numpy
from interbed.storage.lsm.key_words import sort_groups

KeyColumns = Sequence["pa.Array[Any]"]

SAMPLE_EVERY = 512
"""The distance of two samples, in keys."""


class SortedKeys:
    """Key columns whose rows ascend, which `find` searches without copying them. Safe for several threads."""

    def __init__(self, columns: KeyColumns) -> None:
        self._columns = list(columns)
        self._count = len(self._columns[0])
        self._numbers = _numbers(self._columns[0]) if len(self._columns) == 1 else None

    def __len__(self) -> int:
        return self._count

    @cached_property
    def _samples(self) -> KeyColumns:
        # Computed on first use: integers are found without samples.
        every = np.arange(0, self._count, SAMPLE_EVERY)
        return [taken(c, every) for c in self._columns]

    def find(self, keys: KeyColumns) -> Positions:
        """Return for each key its position, -1 if it is missing. Keys are columns, in any order of rows."""
        asked = len(keys[0])
        found = np.full(asked, -1, np.int64)
        if not asked or not self._count:
            return found
        if self._numbers is not None:
            wanted_numbers = _numbers(_as(keys[0], self._columns[0].type))
            if wanted_numbers is not None:
                places = np.minimum(np.searchsorted(self._numbers, wanted_numbers), self._count - 1)
                return np.where(self._numbers[places] == wanted_numbers, places, -1)
        blocks = count_below(self._samples, keys, or_equal=True) - 1
        wanted = distinct(blocks[blocks >= 0])
        if not len(wanted):
            return found
        near = (wanted[:, None] * SAMPLE_EVERY + np.arange(SAMPLE_EVERY)).reshape(-1)
        near = near[near < self._count]
        candidates = [taken(c, near) for c in self._columns]
        order, starts = sort_groups([_joined(c, k) for c, k in zip(candidates, keys, strict=True)])
        # The sort is stable, so the first of equal keys is one of ours.
        first = order[np.flatnonzero(starts)][np.cumsum(starts) - 1]
        hit = (order >= len(near)) & (first < len(near))
        found[order[hit] - len(near)] = near[first[hit]]
        return found


def count_below(samples: KeyColumns, keys: KeyColumns, *, or_equal: bool) -> Positions:
    """Return for each key the number of samples (which ascend) less than it, with `or_equal` at most it."""
    count = len(keys[0])
    # The sort is stable, so of equal keys the first operand counts as less.
    pairs = zip(samples, keys, strict=True)
    order, _ = sort_groups([_joined(s, k) if or_equal else _joined(_as(k, s.type), s) for s, k in pairs])
    is_key = order >= len(samples[0]) if or_equal else order < count
    below = np.cumsum(~is_key)
    ranks = np.empty(count, np.int64)
    ranks[order[is_key] - (len(samples[0]) if or_equal else 0)] = below[is_key]
    return ranks


def _numbers(column: "pa.Array[Any]") -> "npt.NDArray[Any] | None":
    """Return the values of a column of integers, dates or timestamps without a copy; None for other types or nulls."""
    if column.null_count:
        return None
    if pa.types.is_date32(column.type):
        column = column.view(pa.int32())
    elif pa.types.is_timestamp(column.type):
        column = column.view(pa.int64())
    return to_numpy(column) if pa.types.is_signed_integer(column.type) else None


def _as(column: "pa.Array[Any]", arrow: pa.DataType) -> "pa.Array[Any]":
    return column if column.type == arrow else column.cast(arrow)


def _joined(left: "pa.Array[Any]", right: "pa.Array[Any]") -> "pa.Array[Any]":
    joined: pa.Array[Any] = pa.concat_arrays([left, _as(right, left.type)])
    return joined
