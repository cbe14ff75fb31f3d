"""Between which keys the rows of a data file lie: those of its row groups, and those of the pages of a group."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from interbed.storage.base.arrays import Mask, Positions
from interbed.storage.base.arrow_values import to_numpy
from interbed.storage.files.format.pages.footer import Footer
from interbed.storage.files.format.pages.index import GroupPages
from interbed.storage.lsm.key_words import row_ranks
from interbed.storage.lsm.lookup.sorted_keys import KeyColumns

_OVERHEAD = 512
"""Bytes that a cached object takes besides its buffers, about."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The least and greatest value of one key column, by stretch; null where they are not known."""

    least: "pa.Array[Any]"
    greatest: "pa.Array[Any]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretches:
    """Stretches of rows, one behind the other.

    `starts` are the positions in the file at which they begin, and the end of the last; `bounds` what is known of the
    key columns, by their place in the key.
    """

    starts: Positions
    bounds: Mapping[int, Bounds]

    @property
    def nbytes(self) -> int:
        """Bytes in memory, about."""
        arrays = sum(b.least.nbytes + b.greatest.nbytes for b in self.bounds.values())
        return _OVERHEAD + self.starts.nbytes + arrays

    def __len__(self) -> int:
        return len(self.starts) - 1

    def holding(self, keys: KeyColumns) -> list[tuple[int, Positions]]:
        """The stretches that may hold some of the keys, with the numbers of those."""
        may = np.ones((len(self), len(keys[0])), np.bool_)
        for place, bounds in self.bounds.items():
            may &= _inside(bounds, keys[place])
        return [(number, np.flatnonzero(row)) for number, row in enumerate(may) if row.any()]


def whole_file(rows: int) -> Stretches:
    """One stretch of which nothing is known."""
    return Stretches(starts=np.array([0, rows]), bounds={})


def stretches_of_groups(footer: Footer, names: Sequence[str | None]) -> Stretches:
    """The row groups of a file; `names` are its names of the key columns, None for one that it does not have."""
    found: dict[int, Bounds] = {}
    for place, name in enumerate(names):
        known = None if name is None else footer.groups.bounds(name)
        # Of floats nobody can tell whether a NaN is beside their bounds.
        if known is not None and not pa.types.is_floating(known[0].type):
            found[place] = Bounds(*known)
    return Stretches(starts=np.array(footer.groups.starts), bounds=found)


def stretches_of_pages(group: GroupPages, start: int, names: Sequence[str | None], schema: pa.Schema) -> Stretches:
    """The pages of a row group that begins at a position: those of the first key column that has bounds.

    `schema` is the file's.
    """
    rows: Positions | None = None
    found: dict[int, Bounds] = {}
    for place, name in enumerate(names):
        leaf = None if name is None else group.by_name[name][0]
        known = None if leaf is None or name is None else leaf.bounds(schema.field(name).type)
        if leaf is None or known is None or not (rows is None or np.array_equal(leaf.rows, rows)):
            continue
        rows = leaf.rows
        found[place] = Bounds(known.least, known.greatest)
    return Stretches(starts=start + (np.array([0, group.rows]) if rows is None else rows), bounds=found)


def _inside(bounds: Bounds, keys: "pa.Array[Any]") -> Mask:
    """Which keys (in columns) may be within the bounds (in rows); all where a bound is not known."""
    count = len(bounds.least)
    arrow = bounds.least.type
    joined: Any = pa.concat_arrays([bounds.least, bounds.greatest, keys if keys.type == arrow else keys.cast(arrow)])
    ranks = row_ranks([joined]).values
    low, high, asked = ranks[:count], ranks[count : 2 * count], ranks[2 * count :]
    inside = (asked >= low[:, None]) & (asked <= high[:, None])
    if bounds.least.null_count or bounds.greatest.null_count:
        unknown = to_numpy(bounds.least.is_null()) | to_numpy(bounds.greatest.is_null())
        inside |= unknown[:, None]
    return inside
