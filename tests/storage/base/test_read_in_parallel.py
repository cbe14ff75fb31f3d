"""Streams read by several threads: the order is fixed, memory is bounded, and threads end with the stream."""

import threading
from collections.abc import Iterator
from functools import partial
from itertools import islice

import pyarrow as pa
import pytest

from interbed.storage.base.prefetch import QUEUED_BATCHES, read_in_parallel
from tests.support.waits import at_most, wait_until


def _batch(value: int) -> pa.RecordBatch:
    return pa.record_batch({"x": pa.array([value])})


def _numbers(start: int, count: int) -> Iterator[pa.RecordBatch]:
    for i in range(count):
        yield _batch(start + i)


def _values(batches: Iterator[pa.RecordBatch]) -> list[int]:
    return [batch.column(0)[0].as_py() for batch in batches]


def _wait_until(condition: "threading.Event") -> None:
    assert condition.wait(timeout=at_most(30))


def test_batches_of_several_sources_alternate_in_a_fixed_order() -> None:
    sources = [partial(_numbers, 100 * i, count) for i, count in enumerate((3, 1, 2, 0, 2))]
    for _ in range(5):
        assert _values(read_in_parallel(sources, 2)) == [0, 100, 1, 2, 200, 201, 400, 401]
    assert _values(read_in_parallel(sources, 1)) == [0, 1, 2, 100, 200, 201, 400, 401]
    assert sorted(_values(read_in_parallel(sources, 99))) == [0, 1, 2, 100, 200, 201, 400, 401]
    assert _values(read_in_parallel([], 4)) == []


def test_a_source_is_read_ahead_no_further_than_the_queue() -> None:
    made = []
    full = threading.Event()

    def counted() -> Iterator[pa.RecordBatch]:
        for i in range(1000):
            made.append(i)
            if len(made) == QUEUED_BATCHES + 2:
                full.set()
            yield _batch(i)

    stream = read_in_parallel([counted, partial(_numbers, 0, 1000)], 2)
    next(stream)
    _wait_until(full)
    assert len(made) <= QUEUED_BATCHES + 2
    stream.close()


def test_an_error_is_raised_after_the_batches_before_it() -> None:
    def failing() -> Iterator[pa.RecordBatch]:
        yield _batch(1)
        raise ValueError("broken")

    stream = read_in_parallel([failing, partial(_numbers, 10, 2)], 2)
    assert _values(islice(stream, 2)) == [1, 10]
    with pytest.raises(ValueError, match="broken"):
        list(stream)


def test_closing_a_stream_closes_its_sources_and_ends_its_threads() -> None:
    closed = [threading.Event(), threading.Event()]

    def endless(event: threading.Event) -> Iterator[pa.RecordBatch]:
        try:
            while True:
                yield _batch(0)
        finally:
            event.set()

    stream = read_in_parallel([partial(endless, event) for event in closed], 2)
    next(stream)
    stream.close()
    for event in closed:
        _wait_until(event)
    wait_until(lambda: all(t.name != "interbed-read" for t in threading.enumerate()), "the threads have ended")
