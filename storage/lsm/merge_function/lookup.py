"""Merging where compactions look up older rows: of the levels above 0 the lowest alone counts.

Such a compaction merges new records with the row that the key has in older levels, so that the lowest level above 0
holds all that older ones do. Merge functions that add up would count those twice.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from interbed.storage.base.arrays import Mask
from interbed.storage.base.arrow_values import to_numpy
from interbed.storage.lsm.merge_function.api import LEVEL, KeyGroups, Kinds, MergeFunction

NO_LEVEL = 127
"""Greater than any level."""

Levels = npt.NDArray[np.int8]


@dataclass(frozen=True, slots=True, kw_only=True)
class LowestLevel:
    """Leaves out the records that another record of a lower level above 0 stands for, and merges the others."""

    inner: MergeFunction

    def columns(self, output: Sequence[str]) -> tuple[str, ...]:
        """What the merge function sees, and the levels."""
        return tuple(dict.fromkeys((*self.inner.columns(output), LEVEL)))

    def merge(self, groups: KeyGroups, output: Sequence[str]) -> pa.RecordBatch:
        """The merged rows."""
        return self.inner.merge(without_older(groups), output)

    def merge_single(self, rows: pa.RecordBatch, kinds: Kinds | None, output: Sequence[str]) -> pa.RecordBatch:
        """The rows as the merge function has them: each key has one record."""
        return self.inner.merge_single(rows, kinds, output)


def levels_of(rows: pa.RecordBatch) -> Levels:
    """The level of each row."""
    levels: Levels = to_numpy(rows.column(LEVEL))
    return levels


def lowest_above_0(levels: Levels, starts: Mask) -> Levels:
    """For each key the lowest level above 0, NO_LEVEL when it has none; `levels` are in sorted order."""
    lowest: Levels = np.minimum.reduceat(np.where(levels > 0, levels, NO_LEVEL), np.flatnonzero(starts))
    return lowest


def without_older(groups: KeyGroups) -> KeyGroups:
    """The groups with at most one record of a level above 0 each, that of the lowest."""
    levels = levels_of(groups.rows)[groups.order]
    keys = np.cumsum(groups.starts) - 1
    kept = (levels <= 0) | (levels == lowest_above_0(levels, groups.starts)[keys])
    if kept.all():
        return groups
    keys = keys[kept]
    starts = np.ones(len(keys), np.bool_)
    np.not_equal(keys[1:], keys[:-1], out=starts[1:])
    return replace(groups, order=groups.order[kept], starts=starts)
