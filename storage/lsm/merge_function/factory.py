"""The merge function of a table by its options, and its form where compactions look up older rows.

A compaction that looks up older rows merges new records with the row that the key has in older levels. The lowest level
above 0 then holds all that older levels do. A merge function that adds up values would count those twice, so that
`LowestLevel` drops all but the lowest.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import assert_never

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from interbed.storage.base.arrays import Mask
from interbed.storage.base.arrow_values import to_numpy
from interbed.storage.lsm.merge_function.api import LEVEL, DeduplicateMerge, FirstRow, KeyGroups, Kinds, MergeFunction
from interbed.storage.meta.options.core import CoreOptions
from interbed.storage.meta.options.lsm import MergeEngine
from interbed.storage.meta.schema.table_schema import TableSchema

NO_LEVEL = 127
"""A number greater than any level."""

Levels = npt.NDArray[np.int8]


@dataclass(frozen=True, slots=True, kw_only=True)
class LowestLevel:
    """Drops the records above level 0 that a record of a lower level above 0 includes, and merges the others."""

    inner: MergeFunction

    def columns(self, output: Sequence[str]) -> tuple[str, ...]:
        """Return the columns of the inner function, and LEVEL."""
        return tuple(dict.fromkeys((*self.inner.columns(output), LEVEL)))

    def merge(self, groups: KeyGroups, output: Sequence[str]) -> pa.RecordBatch:
        return self.inner.merge(without_older(groups), output)

    def merge_single(self, rows: pa.RecordBatch, kinds: Kinds | None, output: Sequence[str]) -> pa.RecordBatch:
        return self.inner.merge_single(rows, kinds, output)


def levels_of(rows: pa.RecordBatch) -> Levels:
    """Return the level of each row."""
    levels: Levels = to_numpy(rows.column(LEVEL))
    return levels


def lowest_above_0(levels: Levels, starts: Mask) -> Levels:
    """Return for each key the lowest level above 0, or NO_LEVEL; `levels` are in sorted order."""
    lowest: Levels = np.minimum.reduceat(np.where(levels > 0, levels, NO_LEVEL), np.flatnonzero(starts))
    return lowest


def without_older(groups: KeyGroups) -> KeyGroups:
    """Return the groups without records above level 0, except the one of the lowest such level."""
    levels = levels_of(groups.rows)[groups.order]
    keys = np.cumsum(groups.starts) - 1
    kept = (levels <= 0) | (levels == lowest_above_0(levels, groups.starts)[keys])
    if kept.all():
        return groups
    keys = keys[kept]
    starts = np.ones(len(keys), np.bool_)
    np.not_equal(keys[1:], keys[:-1], out=starts[1:])
    return replace(groups, order=groups.order[kept], starts=starts)


def merge_function_for(
    schema: TableSchema,
    options: CoreOptions,
    *,
    drop_deletes: bool,
    looked_up: bool = True,
    merges_alone: bool = False,
) -> MergeFunction:
    """Return the merge function of a table with a primary key.

    With `drop_deletes` keys whose merged record is a delete are left out. `looked_up` is false for records that are not
    in files yet. With `merges_alone` functions also merge keys with a single row, as in compactions that look up older
    rows; otherwise such rows are unchanged. Raises InvalidOptionError for options that contradict each other or the
    schema, NotSupportedError for functions that this version lacks.
    """
    function: MergeFunction
    match options.merge_engine:
        case MergeEngine.DEDUPLICATE:
            return DeduplicateMerge(drop_deletes=drop_deletes, ignore_delete=options.ignore_delete)
        case MergeEngine.FIRST_ROW:
            return FirstRow(ignore_delete=options.ignore_delete, drop_deletes=drop_deletes)
        # The others are imported by use: most tables need none of the functions over columns.
        case MergeEngine.PARTIAL_UPDATE:
            from interbed.storage.lsm.merge_function.aggregate import partial_update

            function = partial_update(schema, options, drop_deletes=drop_deletes, merges_alone=merges_alone)
        case MergeEngine.AGGREGATION:
            from interbed.storage.lsm.merge_function.aggregate import aggregation

            function = aggregation(schema, options, drop_deletes=drop_deletes, merges_alone=merges_alone)
        case other:
            assert_never(other)
    return LowestLevel(inner=function) if looked_up and options.compactions_look_up else function


def check_merge_options(schema: TableSchema, options: CoreOptions) -> None:
    """Check the merge options of a table; raises InvalidOptionError or NotSupportedError, naming the option."""
    if not schema.has_primary_key:
        return
    merge_function_for(schema, options, drop_deletes=False)
