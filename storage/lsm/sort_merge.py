"""The streaming merge: K sorted runs in, merged rows in key order out, in memory bounded by one block.

Each run is read in batches whose size is in proportion to the size of the run, so that all runs advance through the key
space at about the same pace. One round takes from the buffer of every run the rows up to a common key, the cut: the
smallest of the last buffered keys of the runs that have more rows. No unread row has a key up to the cut, so these rows
are a block that is merged as a whole, with vectorised operations. A block of a single run is not sorted and, unless it
has delete records, not copied.

Dense integer keys are not sorted if only the newest record of a key counts. Such a key is an index into an array:
records are written to it from the oldest to the newest, so that the newest record of each key remains, in key order.
That takes a fraction of the time of a sort while the array fits in the processor's caches.

Sequence numbers decide which record of a key is newest. The sequence ranges of files rarely overlap. If they do not,
the age of the files gives the same order, and sequence numbers are not read: rows are concatenated by `RunBatch.age`
before a stable sort.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from interbed.storage.base.arrays import Mask
from interbed.storage.base.arrow_values import from_numpy, to_numpy
from interbed.storage.lsm.key_words import Order, comparable_key, integers, rows_through, sort_groups
from interbed.storage.lsm.merge_function.api import (
    KeyGroups,
    Kinds,
    MergeFunction,
    PicksNewest,
    PicksRows,
    block_memory_pool,
    is_retract,
    no_columns,
    take_rows,
)
from interbed.storage.meta.schema.table_schema import SEQUENCE_NUMBER, VALUE_KIND

_SLOTS_PER_ROW = 8
"""With more array slots for each row of a block the array exceeds the caches, and a sort is as fast."""
_SLOTS_PER_COUNTED_ROW = 64
"""The same limit for slots of a single byte."""

_Columns = Sequence["pa.Array[Any]"]


def newest_rows(columns: _Columns) -> Order | None:
    """Return the row number of the newest record of each key, in key order; None for keys that must be sorted.

    The columns hold keys, older records first. Each column ascends strictly. Rows are numbered through all columns.
    """
    placed = _KeyIndexes.of(columns, _SLOTS_PER_ROW)
    if placed is None:
        return None
    # Zero is not a row number, so that the array starts as memory that the system has not touched.
    found = np.zeros(placed.count, np.int32)
    first = 1
    for places in placed.of_columns():
        found[places] = np.arange(first, first + len(places), dtype=np.int32)
        first += len(places)
    numbers = found.compress(found != 0).astype(np.int64)
    numbers -= 1
    return numbers


def count_newest(columns: _Columns, adds: Mask | None) -> int | None:
    """Return the number of keys whose newest record adds; None for keys that must be sorted.

    The columns are those of newest_rows. `adds` is a mask of all rows, one column after the other; None if all add.
    """
    placed = _KeyIndexes.of(columns, _SLOTS_PER_COUNTED_ROW)
    if placed is None:
        return None
    present = np.zeros(placed.count, np.bool_)
    first = 0
    for places in placed.of_columns():
        present[places] = True if adds is None else adds[first : first + len(places)]
        first += len(places)
    return int(np.count_nonzero(present))


class _KeyIndexes:
    """Integer keys as indexes into an array of `count` slots, relative to the smallest key."""

    def __init__(self, numbers: Sequence["npt.NDArray[Any]"], least: int, count: int) -> None:
        self._numbers = numbers
        self._least = least
        self.count = count

    @staticmethod
    def of(columns: _Columns, slots_per_row: int) -> "_KeyIndexes | None":
        numbers = []
        for column in columns:
            values = integers(column)
            if values is None:
                return None
            if len(values):
                numbers.append(values)
        if not numbers:
            return _KeyIndexes([], 0, 0)
        # In Python integers, because the difference may exceed the type of the column.
        least, greatest = min(int(n[0]) for n in numbers), max(int(n[-1]) for n in numbers)
        count = greatest - least + 1
        return _KeyIndexes(numbers, least, count) if count <= slots_per_row * sum(map(len, numbers)) else None

    def of_columns(self) -> Iterator["npt.NDArray[np.int64]"]:
        """Yield the indexes of the keys of each column; within a column they are unique."""
        for numbers in self._numbers:
            yield np.subtract(numbers, self._least, dtype=np.int64)


BLOCK_ROWS = 131_072
"""Rows of a block over all runs. Larger blocks exceed the processor's caches, smaller ones have more overhead."""
NARROW_BLOCK_ROWS = 2 * BLOCK_ROWS
"""The same for rows of at most NARROW_BYTES, which fit in the caches."""
NARROW_BYTES = 32
MIN_BATCH_ROWS = 2_048
"""The smallest batch in which a run is read."""

_Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class RunBatch:
    """Consecutive rows of a run, in key order. Of equal keys in different runs the larger `age` is newer."""

    rows: pa.RecordBatch
    age: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInput:
    """One sorted run to merge. `open(batch_rows)` reads it; keys ascend strictly over all its batches."""

    row_count: int
    open: Callable[[int], Iterator[RunBatch]]


@dataclass(frozen=True, slots=True, kw_only=True)
class MergePlan:
    """Properties that the batches of all runs share.

    `keys` are the columns to merge by, `output` the columns of the result. `sequence` are the columns that order the
    records of one key before their age does, most significant first; every batch has them. A batch may have
    `_VALUE_KIND`; without it the batch has no delete records. If `ordered` is false, the rows of a block may be in any
    order, which saves copying. The first `descending` columns of `sequence` are in descending order. If `unique` is
    false, a run may have several rows of a key, but all of them in one batch.
    """

    keys: tuple[str, ...]
    output: tuple[str, ...]
    sequence: tuple[str, ...] = ()
    ordered: bool = True
    descending: int = 0
    unique: bool = True


def merge_runs(
    runs: Sequence[RunInput], plan: MergePlan, function: MergeFunction, *, block_rows: int = BLOCK_ROWS
) -> Iterator[pa.RecordBatch]:
    """Yield the merged rows of sorted runs in key order, block by block; empty blocks are left out."""
    total = sum(r.row_count for r in runs)
    buffers: list[_RunBuffer] = []
    try:
        for run in runs:
            share = block_rows if len(runs) == 1 else block_rows * run.row_count // max(total, 1)
            batch_rows = max(min(MIN_BATCH_ROWS, block_rows), share)
            buffers.append(_RunBuffer(run.open(batch_rows), plan.keys, batch_rows))
        for buffer in buffers:
            buffer.begin()
        while True:
            for buffer in buffers:
                buffer.fill()
            # An empty buffer is at its end, because fill() stops only at the target or the end.
            buffers = [b for b in buffers if b.rows]
            if not buffers:
                return
            for merged in _merge_block(_next_block(buffers), plan, function):
                if merged.num_rows:
                    yield merged
    finally:
        for buffer in buffers:
            buffer.close()


class _RunBuffer:
    """The rows of one run that were read but not merged yet."""

    def __init__(self, batches: Iterator[RunBatch], keys: Sequence[str], target_rows: int) -> None:
        self._batches = batches
        self._keys = keys
        self._target_rows = target_rows
        self._buffered: list[RunBatch] = []
        self.rows = 0
        self.exhausted = False

    def begin(self) -> None:
        """Open the first file of the run, if its iterator supports that."""
        begin = getattr(self._batches, "begin", None)
        if begin is not None:
            begin()

    def fill(self) -> None:
        """Read batches until the target is reached or the run ends."""
        while not self.exhausted and self.rows < self._target_rows:
            batch = next(self._batches, None)
            if batch is None:
                self.exhausted = True
            elif batch.rows.num_rows:
                self._buffered.append(batch)
                self.rows += batch.rows.num_rows

    def last_key(self) -> _Key:
        """Return the largest key in the buffer."""
        rows = self._buffered[-1].rows
        return self._key(rows, rows.num_rows - 1)

    def take_through(self, cut: _Key | None) -> list[RunBatch]:
        """Remove and return the rows up to and including the key `cut` (all rows if None), without copying them."""
        if cut is None:
            taken, self._buffered, self.rows = self._buffered, [], 0
            return taken
        taken = []
        while self._buffered:
            batch = self._buffered[0]
            rows = batch.rows
            if self._key(rows, rows.num_rows - 1) <= cut:
                taken.append(self._buffered.pop(0))
                continue
            end = rows_through([rows.column(k) for k in self._keys], cut)
            if end:
                taken.append(RunBatch(rows.slice(0, end), batch.age))
                self._buffered[0] = RunBatch(rows.slice(end), batch.age)
            break
        self.rows -= sum(b.rows.num_rows for b in taken)
        return taken

    def close(self) -> None:
        """Close the files of a run that was not read to its end."""
        close = getattr(self._batches, "close", None)
        if close is not None:
            close()

    def _key(self, rows: pa.RecordBatch, row: int) -> _Key:
        return comparable_key([rows.column(k) for k in self._keys], row)


def _next_block(buffers: Sequence[_RunBuffer]) -> list[list[RunBatch]]:
    """Return the batches that each run contributes to the next block; runs without any are left out."""
    if len(buffers) == 1:
        return [buffers[0].take_through(None)]
    ends = [b.last_key() for b in buffers if not b.exhausted]
    cut = min(ends) if ends else None
    return [taken for taken in (b.take_through(cut) for b in buffers) if taken]


def _merge_block(
    block: Sequence[Sequence[RunBatch]], plan: MergePlan, function: MergeFunction
) -> Iterator[pa.RecordBatch]:
    if len(block) == 1 and plan.unique:
        for batch in block[0]:
            yield function.merge_single(batch.rows, _kinds([batch.rows]), plan.output)
        return
    batches, head_batches = _by_age(block)
    kinds = _kinds(batches)
    one_key = plan.unique and len(plan.keys) == 1
    newest_only = function if one_key and isinstance(function, PicksNewest) and function.is_newest(kinds) else None
    if newest_only is not None and not plan.output and (kinds is None or not plan.sequence):
        # If all records of a key add, it does not matter which one is the newest.
        count = count_newest([b.column(plan.keys[0]) for b in batches], newest_only.kept(kinds))
        if count is not None:
            yield no_columns(count)
            return
    head = sum(b.num_rows for b in batches[:head_batches]) if plan.unique else 0
    long_head = 2 * head > sum(b.num_rows for b in batches)
    apart = not plan.ordered and long_head and isinstance(function, PicksRows) and _is_wide(batches[0], plan.output)
    seen = () if apart else function.columns(plan.output)
    if newest_only is not None and not plan.sequence:
        newest = newest_rows([b.column(plan.keys[0]) for b in batches])
        if newest is not None:
            kept = newest_only.kept(kinds)
            picked = newest if kept is None else newest.compress(kept[newest])
            if apart:
                yield from _take_apart(batches, head_batches, picked, plan.output)
            else:
                yield take_rows(_concatenate(batches, plan.output), plan.output, picked)
            return
    rows = _concatenate(batches, (*seen, *plan.keys, *plan.sequence))
    order, starts = _sorted(rows, plan, kinds, head)
    if apart and isinstance(function, PicksRows):
        yield from _take_apart(batches, head_batches, function.pick(order, starts, kinds), plan.output)
    else:
        yield function.merge(KeyGroups(rows=rows, order=order, starts=starts, kinds=kinds), plan.output)


def _sorted(rows: pa.RecordBatch, plan: MergePlan, kinds: Kinds | None, head: int) -> tuple[Order, Mask]:
    """Return the order of the rows and the first rows of the keys in it; see sort_groups."""
    ties: list[pa.Array[Any]] = [rows.column(s) for s in plan.sequence]
    if SEQUENCE_NUMBER in plan.sequence and kinds is not None:
        # If sequence numbers are equal, too, an added row counts as newer than a deletion.
        ties.append(from_numpy(~is_retract(kinds)))
    keys = [rows.column(k) for k in plan.keys]
    return sort_groups(keys, ties, sorted_head=head, descending_ties=plan.descending)


def _by_age(block: Sequence[Sequence[RunBatch]]) -> tuple[list[pa.RecordBatch], int]:
    """Return the batches of a block, oldest first, and how many at the head ascend because they are of one run."""
    placed = [(batch.age, run, place) for run, taken in enumerate(block) for place, batch in enumerate(taken)]
    placed.sort()
    head = 0
    for i, (_, run, place) in enumerate(placed):
        if (run, place) != (placed[0][1], i):
            break
        head += 1
    return [block[run][place].rows for _, run, place in placed], head


def _is_wide(rows: pa.RecordBatch, columns: Sequence[str]) -> bool:
    # Columns of fixed width are concatenated faster than their rows are picked from two batches.
    return any(not pa.types.is_primitive(rows.schema.field(c).type) for c in columns)


def _take_apart(
    batches: Sequence[pa.RecordBatch], head_batches: int, picked: Order, output: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Yield the picked rows, those of the head first, so that the long head is not copied into one batch."""
    head_rows = sum(b.num_rows for b in batches[:head_batches])
    from_head = picked < head_rows
    # The rows of the head are in key order, so their picked numbers ascend, and those of a batch are contiguous.
    numbers = picked.compress(from_head)
    start = 0
    for batch in batches[:head_batches]:
        end = start + batch.num_rows
        low, high = np.searchsorted(numbers, (start, end))
        if high - low == batch.num_rows:
            yield batch.select(list(output))
        elif high > low:
            yield take_rows(batch, output, numbers[low:high] - start)
        start = end
    tail = picked.compress(~from_head)
    if len(tail):
        yield take_rows(_concatenate(batches[head_batches:], output), output, tail - head_rows)


def _concatenate(batches: Sequence[pa.RecordBatch], columns: Sequence[str]) -> pa.RecordBatch:
    # Only the columns that the merge and the output need are copied.
    wanted = list(dict.fromkeys(columns))
    selected = [b.select(wanted) for b in batches]
    if len(selected) == 1:
        return selected[0]
    merged: pa.RecordBatch = pa.concat_batches(selected, block_memory_pool())  # type: ignore[attr-defined]  # The stubs lack it.
    return merged


def _kinds(batches: Sequence[pa.RecordBatch]) -> Kinds | None:
    """Return the row kinds of all batches, concatenated; None if no row deletes."""
    parts: list[Kinds] = []
    deletes = False
    for batch in batches:
        index = batch.schema.get_field_index(VALUE_KIND)
        part = np.zeros(batch.num_rows, np.int8) if index < 0 else to_numpy(batch.column(index))
        deletes = deletes or (index >= 0 and bool(is_retract(part).any()))
        parts.append(part)
    if not deletes:
        return None
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
