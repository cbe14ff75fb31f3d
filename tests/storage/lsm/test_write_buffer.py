"""The write buffer: its accounting, its flushes, and the memory of small batches."""

from typing import Any

import pyarrow as pa
import pytest

from interbed.storage.lsm import write_buffer
from interbed.storage.lsm.write_buffer import (
    SMALL_CHUNKS,
    WriteBuffer,
    WriteBufferPool,
    concatenate,
    insertions,
    with_kinds,
)


def rows(*ids: int) -> pa.RecordBatch:
    return pa.record_batch({"id": pa.array(ids, pa.int64())})


def taken(buffer: WriteBuffer) -> list[int]:
    columns: list[Any] = [run.column("id") for run in buffer.take() if isinstance(run, pa.RecordBatch)]
    return [i for column in columns for i in column.to_pylist()]


def test_the_largest_buffer_is_flushed_when_the_pool_is_full() -> None:
    small, large = WriteBuffer(concatenate), WriteBuffer(concatenate)
    flushed: list[list[int]] = []
    pool = WriteBufferPool(5_000)
    for buffer in (small, large):

        def flush(of: WriteBuffer = buffer) -> None:
            flushed.append(taken(of))

        pool.register(buffer, flush)
    pool.append(small, rows(1))
    pool.append(large, rows(*range(300)))
    assert flushed == []
    pool.append(small, rows(*range(300)))
    assert flushed == [[1, *range(300)]]
    assert pool.bytes == large.bytes
    assert (small.rows, small.bytes) == (0, 0)
    pool.append(small, rows(*range(1000)))
    assert flushed[1:] == [list(range(1000))]
    pool.clear()
    assert (pool.bytes, large.rows) == (0, 0)


def test_many_small_batches_become_one_in_their_order() -> None:
    buffer = WriteBuffer(concatenate)
    for i in range(SMALL_CHUNKS):
        buffer.append(rows(i))
    (joined,) = buffer.take()
    assert isinstance(joined, pa.RecordBatch)
    assert joined.column("id").to_pylist() == list(range(SMALL_CHUNKS))


def test_joining_batches_counts_the_remaining_rows() -> None:
    buffer = WriteBuffer(lambda batches: batches[-1])
    for i in range(SMALL_CHUNKS):
        buffer.append(rows(i))
    assert buffer.rows == 1
    first = buffer.bytes
    buffer.append(rows(1))
    assert buffer.bytes == 2 * first


def test_batches_without_row_kinds_count_as_insertions() -> None:
    joined = concatenate([rows(1, 2), with_kinds(rows(3), pa.array([3], pa.int8()))])
    assert joined.column("_VALUE_KIND").to_pylist() == [0, 0, 3]
    assert concatenate([rows(1), rows(2)]).schema.names == ["id"]
    assert insertions(2).to_pylist() == [0, 0]


def test_small_slices_are_copied_before_they_keep_many_large_batches_in_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(write_buffer, "MAX_SLICED_BYTES", 3000)
    pool = WriteBufferPool(1 << 30)
    buffers = [WriteBuffer(concatenate) for _ in range(10)]
    for buffer in buffers:
        pool.register(buffer, lambda: None)
    held = pa.total_allocated_bytes()
    for turn in range(20):
        large = rows(*range(turn * 10_000, turn * 10_000 + 10_000))
        for i, buffer in enumerate(buffers):
            pool.append(buffer, large.slice(i, 8))
    del large
    # Of 20 batches of 80 kB, only those of the last slices are still in memory.
    assert pa.total_allocated_bytes() - held < 6 * 80_000
    assert pool.bytes == sum(b.bytes for b in buffers)
    assert taken(buffers[3]) == [turn * 10_000 + 3 + i for turn in range(20) for i in range(8)]
