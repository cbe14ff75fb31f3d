"""Write buffers: the memory in which rows wait to be flushed, shared by all buckets of one writer.

The buffer of a bucket keeps its rows as batches in order of arrival. The pool counts the bytes of all buffers. Whenever
they exceed its capacity (`write-buffer-size`), the largest buffer is spilled to local disk (`write-buffer-spillable`)
or flushed, so that files become large although many buckets share little memory.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from interbed.storage.base.arrow_values import from_numpy
from interbed.storage.base.errors import StorageAccessError
from interbed.storage.lsm.spill import SpilledRun, SpillFiles
from interbed.storage.meta.schema.table_schema import VALUE_KIND

_log = logging.getLogger(__name__)

Kinds: TypeAlias = "pa.Array[Any]"
"""Row kinds as int8."""
Join: TypeAlias = Callable[[Sequence[pa.RecordBatch]], pa.RecordBatch]
Run: TypeAlias = pa.RecordBatch | SpilledRun
"""Rows that wait to be flushed, in memory or on local disk."""

SMALL_CHUNKS = 32
"""After this many small batches in succession they are joined, which frees the larger batches they are slices of."""
SMALL_ROWS = 4096
RUN_ROWS = 32_768
"""A batch of at least this many rows is spilled as its own run; the flush merges it with others."""
MAX_SLICED_BYTES = 64 << 20
"""Bytes of small batches that may be slices of larger ones. Above it all of them are copied to their own memory.

Until then the pool also holds the larger batches, in excess of its capacity."""
_COLUMN_OVERHEAD_BYTES = 256
"""The overhead of an Arrow array beside its values: most of the memory if many buckets get few rows each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spill:
    """How a buffer spills: `arrange` merges several runs, oldest first, into one run of small batches.

    At most `fan_in` runs are left when the buffer is flushed; more runs are merged before. None is no limit.
    """

    files: SpillFiles
    arrange: Callable[[Sequence[Run]], Iterator[pa.RecordBatch]]
    fan_in: int | None = None


class WriteBuffer:
    """Buffered rows of one bucket in order of arrival; `join` makes one batch of several.

    `rows` counts all rows, `bytes` is the size of those in memory.
    """

    def __init__(self, join: Join, spill: Spill | None = None) -> None:
        self.rows = 0
        self.bytes = 0
        self._join = join
        self._spill = spill
        self._spilled: list[SpilledRun] = []
        self._chunks: list[pa.RecordBatch] = []
        self._small = 0

    def append(self, batch: pa.RecordBatch) -> None:
        """Add a batch of rows, without copying it."""
        self._chunks.append(batch)
        self.rows += batch.num_rows
        self.bytes += _size(batch)
        self._small = self._small + 1 if batch.num_rows < SMALL_ROWS else 0
        if self._small == SMALL_CHUNKS:
            self.join_small()

    def spill(self) -> bool:
        """Spill the rows in memory to local disk; return False, and keep them, if spilling is off or at its limit."""
        if self._spill is None or not self._chunks or not self._spill.files.has_room:
            return False
        try:
            for group in _spill_groups(self._chunks):
                run = self._spill.files.write(self._spill.arrange(group))
                self._chunks = self._chunks[len(group) :]
                self.rows -= sum(c.num_rows for c in group)
                if run is not None:
                    self.rows += run.num_rows
                    self._spilled.append(run)
        except StorageAccessError as error:
            _log.warning("%s The buffered rows are flushed to the table instead.", error)
            return False
        self.bytes = self._small = 0
        return True

    def take(self) -> list[Run]:
        """Remove and return all rows, oldest first. `release` deletes the spilled runs."""
        if self._spill is not None and self._spill.fan_in is not None:
            self._reduce(self._spill, self._spill.fan_in)
        runs: list[Run] = [*self._spilled, *self._chunks]
        self._spilled, self._chunks = [], []
        self.rows = self.bytes = self._small = 0
        return runs

    def clear(self) -> None:
        """Drop all rows of the buffer; never raises."""
        self.release(self._spilled)
        self._spilled, self._chunks = [], []
        self.rows = self.bytes = self._small = 0

    def release(self, runs: Sequence[Run]) -> None:
        """Delete spilled runs that `take` returned; never raises."""
        for run in runs:
            if isinstance(run, SpilledRun) and self._spill is not None:
                self._spill.files.delete(run)

    def _reduce(self, spill: Spill, fan_in: int) -> None:
        while len(self._spilled) > fan_in:
            old, self._spilled = self._spilled, []
            for start in range(0, len(old), fan_in):
                group = old[start : start + fan_in]
                merged = spill.files.write(spill.arrange(group))
                self._spilled += [] if merged is None else [merged]
                self.release(group)

    def join_small(self) -> None:
        """Join the small batches at the end into one batch with its own memory."""
        if not self._small:
            return
        small = self._chunks[-self._small :]
        joined = self._join(small) if len(small) > 1 else _copied(small[0])
        self._chunks[-self._small :] = [joined]
        self.rows += joined.num_rows - sum(c.num_rows for c in small)
        self.bytes += _size(joined) - sum(_size(c) for c in small)
        self._small = 0


def concatenate(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Concatenate batches. If some batches have row kinds, those without consist of insertions."""
    if len(batches) == 1:
        return batches[0]
    joined: pa.RecordBatch = pa.concat_batches(with_same_columns(batches))  # type: ignore[attr-defined]  # The stubs lack it.
    return joined


def with_same_columns(batches: Sequence[pa.RecordBatch]) -> Sequence[pa.RecordBatch]:
    """Return the batches, all of them with row kinds if any has them."""
    have = [b.schema.get_field_index(VALUE_KIND) >= 0 for b in batches]
    if all(have) or not any(have):
        return batches
    return [b if has else with_kinds(b, insertions(b.num_rows)) for b, has in zip(batches, have, strict=True)]


def with_kinds(batch: pa.RecordBatch, kinds: Kinds) -> pa.RecordBatch:
    """Return the batch with row kinds as its last column."""
    return pa.RecordBatch.from_arrays([*batch.columns, kinds], names=[*batch.schema.names, VALUE_KIND])


def insertions(rows: int) -> "Kinds":
    """Return the row kinds of this many insertions."""
    return from_numpy(np.zeros(rows, np.int8))


class WriteBufferPool:
    """Accounts for the buffers that share a capacity in bytes."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.bytes = 0
        self._sliced_bytes = 0
        self._members: dict[WriteBuffer, Callable[[], None]] = {}

    def register(self, buffer: WriteBuffer, relieve: Callable[[], None]) -> None:
        """Add a buffer to the pool; `relieve` spills or flushes it."""
        self._members[buffer] = relieve

    def append(self, buffer: WriteBuffer, batch: pa.RecordBatch) -> None:
        """Add rows to a buffer; relieve the largest buffers while the pool exceeds its capacity."""
        before = buffer.bytes
        buffer.append(batch)
        self.bytes += buffer.bytes - before
        if batch.num_rows < SMALL_ROWS:
            self._sliced_bytes += batch.nbytes
            if self._sliced_bytes > MAX_SLICED_BYTES:
                self._copy_slices()
        while self.bytes > self.capacity:
            self._relieve(max(self._members, key=lambda b: b.bytes))

    def _copy_slices(self) -> None:
        for member in self._members:
            before = member.bytes
            member.join_small()
            self.bytes += member.bytes - before
        self._sliced_bytes = 0

    def _relieve(self, buffer: WriteBuffer) -> None:
        self.bytes -= buffer.bytes
        self._members[buffer]()

    def clear(self) -> None:
        """Drop all buffers and their rows."""
        for buffer in self._members:
            buffer.clear()
        self._members.clear()
        self.bytes = self._sliced_bytes = 0


def _spill_groups(chunks: Sequence[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    """Group batches into runs: a large batch is a run of its own, consecutive small ones make one run."""
    small: list[pa.RecordBatch] = []
    for chunk in chunks:
        if chunk.num_rows < RUN_ROWS:
            small.append(chunk)
            continue
        if small:
            yield small
            small = []
        yield [chunk]
    if small:
        yield small


def _copied(batch: pa.RecordBatch) -> pa.RecordBatch:
    copied: pa.RecordBatch = pa.concat_batches([batch])  # type: ignore[attr-defined]  # The stubs lack it.
    return copied


def _size(batch: pa.RecordBatch) -> int:
    return batch.nbytes + _COLUMN_OVERHEAD_BYTES * batch.num_columns
