"""The memory in which rows wait to be flushed, shared by all buckets of one writer.

A bucket's buffer keeps its rows as batches in order of arrival. The pool counts the bytes of all buffers; whenever
they exceed its capacity (`write-buffer-size`), the largest buffer is flushed, so that files become as large as memory
allows.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from interbed.storage.schema.table_schema import VALUE_KIND

Kinds: TypeAlias = "pa.Array[Any]"
"""Row kinds as int8."""
Join: TypeAlias = Callable[[Sequence[pa.RecordBatch]], pa.RecordBatch]

SMALL_CHUNKS = 32
"""That many small batches in a row are joined: it frees the larger batches that they are slices of."""
SMALL_ROWS = 4096
_COLUMN_OVERHEAD_BYTES = 256
"""What an Arrow array takes beside its values; it is most of the memory when many buckets get few rows each."""


class WriteBuffer:
    """Rows of one bucket in order of arrival; `join` makes one batch of several."""

    def __init__(self, join: Join) -> None:
        self.rows = 0
        self.bytes = 0
        self._join = join
        self._chunks: list[pa.RecordBatch] = []
        self._small = 0

    def append(self, batch: pa.RecordBatch) -> None:
        """Add rows; the batch is kept, not copied."""
        self._chunks.append(batch)
        self.rows += batch.num_rows
        self.bytes += _size(batch)
        self._small = self._small + 1 if batch.num_rows < SMALL_ROWS else 0
        if self._small == SMALL_CHUNKS:
            self._join_small()

    def take(self) -> list[pa.RecordBatch]:
        """All rows; the buffer is empty afterwards."""
        chunks, self._chunks = self._chunks, []
        self.rows = self.bytes = self._small = 0
        return chunks

    def _join_small(self) -> None:
        small = self._chunks[-SMALL_CHUNKS:]
        joined = self._join(small)
        self._chunks[-SMALL_CHUNKS:] = [joined]
        self.rows += joined.num_rows - sum(c.num_rows for c in small)
        self.bytes += _size(joined) - sum(_size(c) for c in small)
        self._small = 0


def concatenate(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """The rows of all batches in one; a batch without row kinds has insertions, if another one has kinds."""
    if len(batches) == 1:
        return batches[0]
    joined: pa.RecordBatch = pa.concat_batches(with_same_columns(batches))  # type: ignore[attr-defined]  # The stubs lack it.
    return joined


def with_same_columns(batches: Sequence[pa.RecordBatch]) -> Sequence[pa.RecordBatch]:
    """The batches, all with row kinds if any has them."""
    have = [b.schema.get_field_index(VALUE_KIND) >= 0 for b in batches]
    if all(have) or not any(have):
        return batches
    return [b if has else with_kinds(b, insertions(b.num_rows)) for b, has in zip(batches, have, strict=True)]


def with_kinds(batch: pa.RecordBatch, kinds: Kinds) -> pa.RecordBatch:
    """The batch with its row kinds as the last column."""
    return pa.RecordBatch.from_arrays([*batch.columns, kinds], names=[*batch.schema.names, VALUE_KIND])


def insertions(rows: int) -> "Kinds":
    """The row kinds of that many insertions."""
    return pa.array(np.zeros(rows, np.int8))


class WriteBufferPool:
    """Counts the bytes of the buffers that share a capacity, in bytes."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.bytes = 0
        self._members: dict[WriteBuffer, Callable[[], None]] = {}

    def register(self, buffer: WriteBuffer, flush: Callable[[], None]) -> None:
        """Let the buffer take part; `flush` empties it."""
        self._members[buffer] = flush

    def append(self, buffer: WriteBuffer, batch: pa.RecordBatch) -> None:
        """Add rows to a buffer and flush the largest ones while the pool is over its capacity."""
        before = buffer.bytes
        buffer.append(batch)
        self.bytes += buffer.bytes - before
        while self.bytes > self.capacity:
            self.flush(max(self._members, key=lambda b: b.bytes))

    def flush(self, buffer: WriteBuffer) -> None:
        """Flush one buffer."""
        self.bytes -= buffer.bytes
        self._members[buffer]()

    def clear(self) -> None:
        """Drop all buffers and their rows."""
        for buffer in self._members:
            buffer.take()
        self._members.clear()
        self.bytes = 0


def _size(batch: pa.RecordBatch) -> int:
    return batch.nbytes + _COLUMN_OVERHEAD_BYTES * batch.num_columns
