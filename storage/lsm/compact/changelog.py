"""What a compaction changed, key by key: the row before and the row after as changelog records.

Source: documentation page `primary-key-table/changelog-producer`.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from interbed.storage.base.arrays import Ints, Mask
from interbed.storage.base.arrow_values import from_numpy, to_numpy
from interbed.storage.base.row.kind import RowKind
from interbed.storage.base.row.python_values import python_values
from interbed.storage.lsm.merge_function.api import take_rows
from interbed.storage.meta.schema.table_schema import VALUE_KIND


def change_records(
    before: pa.RecordBatch,
    after: pa.RecordBatch,
    before_of: Ints,
    after_of: Ints,
    *,
    compared: Sequence[str] | None,
) -> pa.RecordBatch:
    """The changelog records of some keys, in the order of the keys; both batches have the same columns.

    `before_of[k]` and `after_of[k]` are the numbers of the rows that key k had and has, -1 where it had or has none. An
    unchanged row is in it, too, unless its columns `compared` are all as they were; None compares nothing.
    """
    was, is_now = before_of >= 0, after_of >= 0
    both = was & is_now
    if compared is not None and both.any():
        same = same_rows(before, after, before_of[both], after_of[both], compared)
        both[np.flatnonzero(both)[same]] = False
    inserted, deleted = is_now & ~was, was & ~is_now
    keys = np.arange(len(was))
    # Of one key the row before comes first; even places are of the batch before, odd ones of that after.
    places = np.concatenate([2 * keys[both | deleted], 2 * keys[both | inserted] + 1])
    places.sort()
    of_key, from_after = places >> 1, (places & 1).astype(np.bool_)
    kinds = np.where(
        from_after,
        np.where(both[of_key], RowKind.UPDATE_AFTER, RowKind.INSERT),
        np.where(both[of_key], RowKind.UPDATE_BEFORE, RowKind.DELETE),
    ).astype(np.int8)
    numbers = np.where(from_after, before.num_rows + after_of[of_key], before_of[of_key])
    columns = [n for n in before.schema.names if n != VALUE_KIND]
    joined: Any = pa.concat_batches([before.select(columns), after.select(columns)])  # type: ignore[attr-defined]  # The stubs lack it.
    taken = take_rows(joined, columns, numbers)
    kind_column: pa.Array[Any] = from_numpy(kinds)
    arrays = [kind_column if n == VALUE_KIND else taken.column(n) for n in before.schema.names]
    return pa.RecordBatch.from_arrays(arrays, names=before.schema.names)


def same_rows(before: pa.RecordBatch, after: pa.RecordBatch, left: Ints, right: Ints, columns: Sequence[str]) -> Mask:
    """Which of the rows `left` of one batch have the same values in the columns as those `right` of the other."""
    same = np.ones(len(left), np.bool_)
    for name in columns:
        a, b = (_taken(batch.column(name), n) for batch, n in ((before, left), (after, right)))
        same &= _equal(a, b)
    return same


def _taken(column: "pa.Array[Any]", numbers: Ints) -> "pa.Array[Any]":
    indices: Any = from_numpy(numbers)
    taken: pa.Array[Any] = pc.take(column, indices, boundscheck=False)
    return taken


def _equal(a: "pa.Array[Any]", b: "pa.Array[Any]") -> Mask:
    if pa.types.is_nested(a.type):
        # Arrow compares no nested values; they are few in changelogs, and compared as Python's.
        pairs = zip(python_values(a), python_values(b), strict=True)
        return np.fromiter((x == y for x, y in pairs), np.bool_, len(a))
    nulls = [np.asarray(to_numpy(pc.is_null(x))) for x in (a, b)]
    both: Any = pc.equal(a, b)
    values = np.asarray(to_numpy(pc.fill_null(both, False)))
    equal: Mask = np.where(nulls[0] | nulls[1], nulls[0] & nulls[1], values)
    return equal
