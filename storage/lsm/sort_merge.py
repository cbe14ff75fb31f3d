"""The streaming merge: K sorted runs in, merged rows in key order out, in memory bounded by one block.

Each run is read in batches whose size is in proportion to the run's, so that all runs advance through the key space at
about the same pace. One round takes from the buffer of every run the rows up to a common key, the cut: the least of the
last buffered keys of the runs with more rows to come. No file can still bring a key up to the cut, so those rows make a
block that is merged as a whole, with vectorised operations. A block of a single run is not sorted and, unless rows of
it delete, not copied.

Integer keys that lie close together are not sorted where only the newest record of a key counts. Such a key is an index
of an array: records are written to it from the oldest to the newest, so that the newest record of each key remains, in
key order. That takes a fraction of the time of a sort while the array fits in the processor's caches.

Sequence numbers say which record of a key is newest. The sequence ranges of files rarely overlap. Where they do not,
the age of the files gives the same order, and sequence numbers are not read: rows are lined up by `RunBatch.age` before
a stable sort.
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
    no_columns,
    take_rows,
)
from interbed.storage.lsm.merge_function.whole_record import is_retract
from interbed.storage.meta.schema.table_schema import SEQUENCE_NUMBER, VALUE_KIND

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


BLOCK_ROWS = 131_072
"""Rows of a block over all runs: larger ones fall out of the processor's caches, smaller ones pay more overhead."""
NARROW_BLOCK_ROWS = 2 * BLOCK_ROWS
"""The same of rows of at most NARROW_BYTES, which stay in the caches."""
NARROW_BYTES = 32
MIN_BATCH_ROWS = 2_048
"""A small run is read in batches of at least this size."""

_Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class RunBatch:
    """Consecutive rows of a run, in key order; `age` grows with newness and orders equal keys of different runs."""

    rows: pa.RecordBatch
    age: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInput:
    """One sorted run to merge: `open(batch_rows)` reads it; keys ascend strictly over all its batches."""

    row_count: int
    open: Callable[[int], Iterator[RunBatch]]


@dataclass(frozen=True, slots=True, kw_only=True)
class MergePlan:
    """What the batches of all runs have in common.

    `keys` are the columns to merge by, `output` those to hand out. `sequence` are the columns that order records of one
    key before their age does, the most significant first; a batch holds them all. A batch may hold `_VALUE_KIND`;
    one that does not has no record that deletes. Where `ordered` is false, rows of a block may come in any order, which
    saves copying. The first `descending` columns of `sequence` order from the greatest value to the least. Where
    `unique` is false a run may hold several rows of a key, but no two batches of a run hold the same key.
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
    """The merged rows of sorted runs in key order, block by block; blocks without rows are left out."""
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
            # Buffers that ran dry are done, because fill() stops only at the target or the end.
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
    """The rows of one run that are read but not merged yet."""

    def __init__(self, batches: Iterator[RunBatch], keys: Sequence[str], target_rows: int) -> None:
        self._batches = batches
        self._keys = keys
        self._target_rows = target_rows
        self._buffered: list[RunBatch] = []
        self.rows = 0
        self.exhausted = False

    def begin(self) -> None:
        """Open the run's first file, if that is a step of its own."""
        begin = getattr(self._batches, "begin", None)
        if begin is not None:
            begin()

    def fill(self) -> None:
        """Read until the target is reached or the run ends."""
        while not self.exhausted and self.rows < self._target_rows:
            batch = next(self._batches, None)
            if batch is None:
                self.exhausted = True
            elif batch.rows.num_rows:
                self._buffered.append(batch)
                self.rows += batch.rows.num_rows

    def last_key(self) -> _Key:
        """The greatest key in the buffer."""
        rows = self._buffered[-1].rows
        return self._key(rows, rows.num_rows - 1)

    def take_through(self, cut: _Key | None) -> list[RunBatch]:
        """Remove the rows up to and including the key `cut` (all rows when it is None), without copying them."""
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
        """Close the run's files, if it was not read to its end."""
        close = getattr(self._batches, "close", None)
        if close is not None:
            close()

    def _key(self, rows: pa.RecordBatch, row: int) -> _Key:
        return comparable_key([rows.column(k) for k in self._keys], row)


def _next_block(buffers: Sequence[_RunBuffer]) -> list[list[RunBatch]]:
    """What each run contributes to the next block; runs that contribute nothing are left out."""
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
    batches, head_batches = _line_up(block)
    kinds = _kinds(batches)
    one_key = plan.unique and len(plan.keys) == 1
    newest_only = function if one_key and isinstance(function, PicksNewest) and function.is_newest(kinds) else None
    if newest_only is not None and not plan.output and (kinds is None or not plan.sequence):
        # Of equal records that all add it does not matter which one is the newest.
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
    """The order of the rows, and where keys begin in it; see sort_groups."""
    ties: list[pa.Array[Any]] = [rows.column(s) for s in plan.sequence]
    if SEQUENCE_NUMBER in plan.sequence and kinds is not None:
        # Where sequence numbers are equal, too, an added row counts as newer than a deletion.
        ties.append(from_numpy(~is_retract(kinds)))
    keys = [rows.column(k) for k in plan.keys]
    return sort_groups(keys, ties, sorted_head=head, descending_ties=plan.descending)


def _line_up(block: Sequence[Sequence[RunBatch]]) -> tuple[list[pa.RecordBatch], int]:
    """All batches of a block, older ones first, and how many at their head ascend because they are of one run."""
    placed = [(batch.age, run, place) for run, taken in enumerate(block) for place, batch in enumerate(taken)]
    placed.sort()
    head = 0
    for i, (_, run, place) in enumerate(placed):
        if (run, place) != (placed[0][1], i):
            break
        head += 1
    return [block[run][place].rows for _, run, place in placed], head


def _is_wide(rows: pa.RecordBatch, columns: Sequence[str]) -> bool:
    # Columns of fixed width are lined up faster than their rows are picked from two places.
    return any(not pa.types.is_primitive(rows.schema.field(c).type) for c in columns)


def _take_apart(
    batches: Sequence[pa.RecordBatch], head_batches: int, picked: Order, output: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """The rows picked, those of the head's batches before the others: the long head is not copied to be lined up."""
    head_rows = sum(b.num_rows for b in batches[:head_batches])
    from_head = picked < head_rows
    # The head's rows are in key order, so the numbers picked of it ascend and each batch's are a stretch of them.
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
    # Only what is merged by or handed out is copied; the kinds were taken out before, if they are not wanted.
    wanted = list(dict.fromkeys(columns))
    selected = [b.select(wanted) for b in batches]
    if len(selected) == 1:
        return selected[0]
    merged: pa.RecordBatch = pa.concat_batches(selected, block_memory_pool())  # type: ignore[attr-defined]  # The stubs lack it.
    return merged


def _kinds(batches: Sequence[pa.RecordBatch]) -> Kinds | None:
    """The row kinds of the batches one after the other; None when no row deletes."""
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
