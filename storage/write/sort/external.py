"""Sort of more rows than fit in memory: a sample gives ranges, rows are spilled by range to local disk, and each range
is sorted in memory.

A range that is still too large is split again. Rows equal to a boundary are a range of their own, which needs no
sorting. So such a range may have any size, and splitting always makes progress.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
import pyarrow as pa

from interbed.storage.base.arrow_values import from_numpy
from interbed.storage.lsm.write_buffer import SpilledRun, SpillFiles
from interbed.storage.write.sort.key import Array, Sample, SortKey, chosen_rows, places

OUT_ROWS = 64 * 1024
"""Rows in a batch of sorted rows."""
_SAMPLED_ROWS = 20_000
_MOST_RANGES = 64
"""Maximum number of ranges of one split; with more, the batches that are spilled for each range get too small."""


class Rows(Protocol):
    """Rows that can be read more than once; `nbytes` is their approximate size in memory."""

    @property
    def nbytes(self) -> int: ...

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield all rows, in any order."""
        ...

    def sample(self) -> Sample:
        """Return an even sample of the rows."""
        ...


class ExternalSort:
    """Sort of rows by a key in about `memory` bytes, in addition to the memory of the reader of the rows.

    `spill` holds the rows that exceed memory. The context manager removes the spilled files.
    """

    def __init__(self, key: SortKey, spill: SpillFiles, *, memory: int) -> None:
        self._key = key
        self._spill = spill
        # Sorted rows are copies, so half of the memory holds the rows themselves.
        self._block = max(memory // 2, 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._spill.close()

    def sorted(self, rows: Rows, sample: Sample | None = None) -> Iterator[pa.RecordBatch]:
        """Yield all rows in order. `sample` saves taking one."""
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
        for number, runs in enumerate(self._split(rows, bounds)):
            # Ranges with odd numbers hold rows equal to a boundary.
            part = _SpilledRows(self._key, runs)
            yield from part.batches() if number % 2 else self.sorted(part)
            for run in runs:
                self._spill.delete(run)

    def _read(self, rows: Rows) -> list[pa.RecordBatch] | None:
        """Return all rows; None when they are far more than expected."""
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

    def _split(self, rows: Rows, bounds: Sequence[Array]) -> list[list[SpilledRun]]:
        """Spill the rows by range: less than the first boundary, equal to it, and so on, greater than the last one."""
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
                self._spill_parts(parts, runs)
                held = 0
        self._spill_parts(parts, runs)
        return runs

    def _spill_parts(self, parts: list[list[pa.RecordBatch]], runs: list[list[SpilledRun]]) -> None:
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
    """Return a sample of about such a part of the rows, at least one row if there are any, all of the same weight."""
    chosen: list[pa.RecordBatch] = []
    first: pa.RecordBatch | None = None
    for number, batch in enumerate(batches):
        if first is None and batch.num_rows:
            first = batch.slice(0, 1)
        kept = chosen_rows(batch.num_rows, part, number)
        chosen.append(batch if kept is None else batch.filter(from_numpy(kept)))
    rows = _joined(chosen)
    if first is not None and not rows.num_rows:
        # Without a sampled row, all rows would count as equal.
        rows = first
    return Sample(rows, np.full(rows.num_rows, weight))


def _joined(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    table = pa.Table.from_batches(list(batches)).combine_chunks()
    return table.to_batches()[0] if table.num_rows else batches[0].slice(0, 0)
