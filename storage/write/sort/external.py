"""Sorting more rows than memory holds: by a sample they are parted into ranges, on local disk, that it does hold.

A range that turns out too large is parted again. Rows that equal a boundary are a range of their own, which needs no
sorting, so that it may be as large as it likes and parting always gets on.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
import pyarrow as pa

from interbed.storage.base.arrow_values import from_numpy
from interbed.storage.lsm.spill import SpilledRun, SpillFiles
from interbed.storage.write.sort.key import Array, Sample, SortKey, chosen_rows, places

OUT_ROWS = 64 * 1024
"""Rows of a batch of sorted rows."""
_SAMPLED_ROWS = 20_000
_MOST_RANGES = 64
"""Ranges that rows are parted into at once: with more, what of each is put aside together would get too little."""


class Rows(Protocol):
    """Rows that can be read more than once; `nbytes` is about what they take in memory."""

    @property
    def nbytes(self) -> int: ...

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All rows, in some order."""
        ...

    def sample(self) -> Sample:
        """Some of the rows, evenly chosen."""
        ...


class ExternalSort:
    """Sorts rows by a key in about `memory` bytes, and beside them what the reader of the rows holds.

    `spill` takes what does not fit. Used as a context manager it removes that.
    """

    def __init__(self, key: SortKey, spill: SpillFiles, *, memory: int) -> None:
        self._key = key
        self._spill = spill
        # Sorted rows are copied, so half of the memory holds the rows themselves.
        self._block = max(memory // 2, 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._spill.close()

    def sorted(self, rows: Rows, sample: Sample | None = None) -> Iterator[pa.RecordBatch]:
        """All rows in order. `sample` saves taking one."""
        if rows.nbytes <= self._block:
            block = self._read(rows)
            if block is not None:
                yield from self._sorted_block(block)
                return
        taken = rows.sample() if sample is None else sample
        bounds = self._key.boundaries(taken, min(2 * -(-rows.nbytes // self._block), _MOST_RANGES))
        del taken
        if not len(bounds[0]):
            yield from rows.batches()
            return
        for number, runs in enumerate(self._parted(rows, bounds)):
            # Odd ranges hold rows that are equal to a boundary.
            part = _SpilledRows(self._key, runs)
            yield from part.batches() if number % 2 else self.sorted(part)
            for run in runs:
                self._spill.delete(run)

    def _read(self, rows: Rows) -> list[pa.RecordBatch] | None:
        """All rows; None when they are far more than was expected."""
        block, held = [], 0
        for batch in rows.batches():
            block.append(batch)
            held += batch.nbytes
            if held > 2 * self._block:
                return None
        return block

    def _sorted_block(self, block: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if not block:
            return
        rows = _joined(block)
        block.clear()
        order = self._key.sorted(rows)
        for start in range(0, rows.num_rows, OUT_ROWS):
            yield rows.take(order[start : start + OUT_ROWS])

    def _parted(self, rows: Rows, bounds: Sequence[Array]) -> list[list[SpilledRun]]:
        """The rows less than each boundary, those equal to it, and so on; at last those greater than all."""
        count = 2 * len(bounds[0]) + 1
        runs: list[list[SpilledRun]] = [[] for _ in range(count)]
        parts: list[list[pa.RecordBatch]] = [[] for _ in range(count)]
        held = 0
        for batch in rows.batches():
            less, not_greater = places(self._key.columns(batch), bounds)
            ranges = less + not_greater
            order = np.argsort(ranges, kind="stable")
            moved = batch.take(order)
            cuts = np.searchsorted(ranges[order], np.arange(count + 1)).tolist()
            for number in np.unique(ranges).tolist():
                parts[number].append(moved.slice(cuts[number], cuts[number + 1] - cuts[number]))
            held += moved.nbytes
            if held > self._block:
                self._put_aside(parts, runs)
                held = 0
        self._put_aside(parts, runs)
        return runs

    def _put_aside(self, parts: list[list[pa.RecordBatch]], runs: list[list[SpilledRun]]) -> None:
        for part, spilled in zip(parts, runs, strict=True):
            if part:
                rows = _joined(part)
                part.clear()
                run = self._spill.write(rows.slice(i, OUT_ROWS) for i in range(0, rows.num_rows, OUT_ROWS))
                if run is not None:
                    spilled.append(run)


@dataclass(frozen=True, slots=True)
class _SpilledRows:
    key: SortKey
    runs: list[SpilledRun]

    @property
    def nbytes(self) -> int:
        return sum(run.nbytes for run in self.runs)

    def batches(self) -> Iterator[pa.RecordBatch]:
        for run in self.runs:
            yield from run.batches()

    def sample(self) -> Sample:
        part = _SAMPLED_ROWS / max(1, sum(run.num_rows for run in self.runs))
        return sample_of((b.select(list(self.key.order.columns)) for b in self.batches()), part)


def sample_of(batches: Iterator[pa.RecordBatch], part: float, weight: float = 1.0) -> Sample:
    """About such a part of the rows of at least one batch, at least one row if there are any, all of one weight."""
    chosen: list[pa.RecordBatch] = []
    first: pa.RecordBatch | None = None
    for number, batch in enumerate(batches):
        if first is None and batch.num_rows:
            first = batch.slice(0, 1)
        kept = chosen_rows(batch.num_rows, part, number)
        chosen.append(batch if kept is None else batch.filter(from_numpy(kept)))
    rows = _joined(chosen)
    if first is not None and not rows.num_rows:
        # Without any, the rows would be taken for equal ones.
        rows = first
    return Sample(rows, np.full(rows.num_rows, weight))


def _joined(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    table = pa.Table.from_batches(list(batches)).combine_chunks()
    return table.to_batches()[0] if table.num_rows else batches[0].slice(0, 0)
