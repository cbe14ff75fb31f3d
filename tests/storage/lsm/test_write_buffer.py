"""The write buffer: what it counts, when it flushes, and what it keeps of small batches."""

import pyarrow as pa

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


def test_the_largest_buffer_is_flushed_when_the_pool_is_full() -> None:
    small, large = WriteBuffer(concatenate), WriteBuffer(concatenate)
    flushed: list[list[int]] = []
    pool = WriteBufferPool(5_000)
    for buffer in (small, large):
        pool.register(
            buffer, lambda b=buffer: flushed.append([i for c in b.take() for i in c.column("id").to_pylist()])
        )
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
    assert joined.column("id").to_pylist() == list(range(SMALL_CHUNKS))


def test_joining_counts_what_is_left_of_the_rows() -> None:
    buffer = WriteBuffer(lambda batches: batches[-1])
    for i in range(SMALL_CHUNKS):
        buffer.append(rows(i))
    assert buffer.rows == 1
    first = buffer.bytes
    buffer.append(rows(1))
    assert buffer.bytes == 2 * first


def test_batches_without_kinds_are_insertions_beside_those_with() -> None:
    joined = concatenate([rows(1, 2), with_kinds(rows(3), pa.array([3], pa.int8()))])
    assert joined.column("_VALUE_KIND").to_pylist() == [0, 0, 3]
    assert concatenate([rows(1), rows(2)]).schema.names == ["id"]
    assert insertions(2).to_pylist() == [0, 0]
