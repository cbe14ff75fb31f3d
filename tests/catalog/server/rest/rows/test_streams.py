"""Streams of rows: their limits, their memory, their order, and how they end."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from functools import partial
from http import HTTPStatus
from itertools import pairwise

import pyarrow as pa
import pytest

from interbed.catalog.server.rest.interface import RestError
from interbed.catalog.server.rest.rows.streams import (
    CHECK_SECONDS,
    PART_BYTES,
    REASON,
    THREADS,
    RowLimits,
    RowStream,
    RowStreams,
    pieces_of,
)
from tests.support.waits import at_most, wait_until

SCHEMA = pa.schema((pa.field("id", pa.int64()), pa.field("text", pa.string())))


class _Clock:
    """A clock that stands still until it is set."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def _batch(start: int, count: int = 10, width: int = 10) -> pa.RecordBatch:
    numbers = list(range(start, start + count))
    return pa.record_batch([pa.array(numbers, pa.int64()), pa.array(["x" * width] * count)], schema=SCHEMA)


def _refused(error: Exception) -> RestError:
    return RestError(HTTPStatus.INTERNAL_SERVER_ERROR, "Broken", f"cannot be read ({type(error).__name__})")


def _stream(
    streams: RowStreams,
    batches: Callable[[], Iterator[pa.RecordBatch]],
    check: Callable[[], None] = lambda: None,
    client: str = "ann",
) -> RowStream:
    return RowStream(
        streams,
        client,
        read=lambda: pa.RecordBatchReader.from_batches(SCHEMA, batches()),
        check=check,
        refused=_refused,
    )


async def _parts(stream: RowStream) -> list[bytes]:
    found = []
    while (part := await stream.next_part()) is not None:
        found.append(part)
    return found


def _run(streams: RowStreams, *bodies: RowStream) -> list[bytes]:
    async def read() -> list[bytes]:
        try:
            return [b"".join(each) for each in await asyncio.gather(*map(_parts, bodies))]
        finally:
            for body in bodies:
                body.close()

    return asyncio.run(read())


def _table(body: bytes) -> pa.Table:
    return pa.ipc.open_stream(body).read_all()


def test_parts_are_arrows_stream_format() -> None:
    streams = RowStreams()
    stream = _stream(streams, lambda: iter([_batch(0), _batch(10, 0), _batch(10)]))
    (body,) = _run(streams, stream)
    assert _table(body)["id"].to_pylist() == list(range(20))
    assert stream.subject == {"rows": 20, "bytes": len(body)}
    wait_until(lambda: streams.figures.open == 0)
    assert (streams.figures.rows_total, streams.figures.memory_bytes) == (20, 0)


def test_no_rows_are_a_complete_stream() -> None:
    streams = RowStreams()
    (body,) = _run(streams, _stream(streams, lambda: iter(())))
    assert _table(body) == SCHEMA.empty_table()


def test_a_large_batch_is_sent_in_pieces_without_the_bytes_of_others() -> None:
    batch = _batch(0, 5000, 1000)
    pieces = list(pieces_of(batch))
    assert len(pieces) > 4
    assert pa.Table.from_batches(pieces) == pa.Table.from_batches([batch])
    streams = RowStreams()
    stream = _stream(streams, lambda: iter([batch]))
    parts = asyncio.run(_parts(stream))
    assert max(map(len, parts)) < 1.1 * PART_BYTES
    assert _table(b"".join(parts)) == pa.Table.from_batches([batch])
    stream.close()


def test_a_single_large_row_is_one_piece() -> None:
    assert [piece.num_rows for piece in pieces_of(_batch(0, 2, 2 * PART_BYTES))] == [1, 1]


def _first_and_error(streams: RowStreams, stream: RowStream) -> tuple[list[bytes], RestError, bytes]:
    async def read() -> tuple[list[bytes], RestError, bytes]:
        found: list[bytes] = []
        try:
            while (part := await stream.next_part()) is not None:
                found.append(part)
        except RestError as error:
            return found, error, stream.last_part(error)
        finally:
            stream.close()
        raise AssertionError("the stream is complete")

    return asyncio.run(read())


def test_an_error_between_batches_is_named_and_does_not_complete_the_stream() -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield _batch(0)
        raise OSError("the value secret-66 does not fit")

    streams = RowStreams()
    parts, error, last = _first_and_error(streams, _stream(streams, batches))
    assert len(parts) == 1
    assert "secret-66" not in str(error)
    reader = pa.ipc.open_stream(b"".join(parts) + last)
    assert reader.read_next_batch().num_rows == 10
    batch, metadata = reader.read_next_batch_with_custom_metadata()
    assert (batch.num_rows, metadata[REASON]) == (0, str(error).encode())
    assert not (b"".join(parts) + last).endswith(b"\xff\xff\xff\xff\0\0\0\0")
    wait_until(lambda: streams.figures.open == 0)


def test_an_error_before_the_first_batch_has_no_part() -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        raise OSError("no files")

    streams = RowStreams()
    parts, error, last = _first_and_error(streams, _stream(streams, lambda: batches()))
    assert (parts, error.kind) == ([], "Broken")
    assert b"Broken" not in last


def test_a_stream_ends_at_its_limit_of_bytes() -> None:
    streams = RowStreams(RowLimits(bytes_max=3000))
    parts, error, _ = _first_and_error(streams, _stream(streams, lambda: map(_batch, range(1000))))
    assert 0 < sum(map(len, parts)) <= 3000
    assert "(rows_bytes_max)" in str(error)


def test_a_stream_ends_at_its_limit_of_time() -> None:
    clock = _Clock()

    def batches() -> Iterator[pa.RecordBatch]:
        yield _batch(0)
        clock.now += 11
        yield _batch(1)
        yield _batch(2)

    streams = RowStreams(RowLimits(seconds_max=10), clock)
    parts, error, _ = _first_and_error(streams, _stream(streams, batches))
    assert len(parts) == 2
    assert "(rows_seconds_max)" in str(error)


def test_what_the_reader_may_see_is_checked_again_before_a_part() -> None:
    clock, checks = _Clock(), []

    def check() -> None:
        checks.append(clock.now)
        if clock.now > 102:
            raise PermissionError("ann lacks the privilege SELECT")

    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(100):
            clock.now += CHECK_SECONDS / 2
            yield _batch(number)

    streams = RowStreams(clock=clock)
    parts, error, _ = _first_and_error(streams, _stream(streams, batches, check))
    assert error.kind == "Broken"
    assert all(after - before >= CHECK_SECONDS for before, after in pairwise(checks))
    assert len(parts) <= 12


def test_streams_at_once_are_limited_and_one_client_gets_half_of_them() -> None:
    streams = RowStreams(RowLimits(streams_max=4))

    def opened(client: str) -> RowStream:
        stream = _stream(streams, lambda: iter([_batch(0)]), client=client)
        assert asyncio.run(stream.next_part())
        return stream

    of_ann = [opened("ann"), opened("ann")]
    with pytest.raises(RestError, match="2 streams of rows of ann") as refused:
        opened("ann")
    assert refused.value.status == HTTPStatus.SERVICE_UNAVAILABLE
    of_others = [opened("bea"), opened("eve")]
    with pytest.raises(RestError, match="4 streams of rows are open"):
        opened("sue")
    assert (streams.figures.open, streams.figures.refused_total) == (4, 2)
    of_ann[0].close()
    wait_until(lambda: streams.figures.open == 3)
    of_ann.append(opened("ann"))
    for stream in (*of_ann[1:], *of_others):
        stream.close()
    wait_until(lambda: streams.figures.open == 0)
    assert streams.figures.memory_bytes == 0


def test_memory_is_taken_until_the_client_has_the_rows_and_others_wait_for_it() -> None:
    streams = RowStreams(RowLimits(memory_max=4 * PART_BYTES))
    read: list[str] = []

    def batches(name: str) -> Iterator[pa.RecordBatch]:
        for number in range(3):
            read.append(name)
            yield _batch(number, 3000, 1000)

    async def run() -> None:
        bodies = {name: _stream(streams, partial(batches, name), client=name) for name in ("a", "b", "c")}
        # The first two have batches that are not sent: no memory is left.
        for name in ("a", "b"):
            assert await bodies[name].next_part()
        waiting = asyncio.ensure_future(bodies["c"].next_part())
        done, _ = await asyncio.wait([waiting], timeout=0)
        assert not done
        assert read == ["a", "b"]
        bodies["a"].close()
        assert await asyncio.wait_for(waiting, at_most(30))
        bodies["b"].close()
        assert len(await asyncio.wait_for(_parts(bodies["c"]), at_most(30))) > 6
        bodies["c"].close()

    asyncio.run(run())
    wait_until(lambda: (streams.figures.open, streams.figures.memory_bytes) == (0, 0))


def test_a_client_that_does_not_read_leaves_half_of_the_memory_to_others() -> None:
    streams = RowStreams(RowLimits(memory_max=12 * PART_BYTES))

    def batches() -> Iterator[pa.RecordBatch]:
        return (_batch(number, 3000, 1000) for number in range(3))

    async def run() -> None:
        held = [_stream(streams, batches) for _ in range(4)]
        for body in held[:2]:
            assert await body.next_part()
        waiting = [asyncio.ensure_future(body.next_part()) for body in held[2:]]
        other = _stream(streams, batches, client="bea")
        assert len(await asyncio.wait_for(_parts(other), at_most(30))) > 6
        assert not all(each.done() for each in waiting)
        other.close()
        for body in held[:2]:
            body.close()
        assert all(await asyncio.wait_for(asyncio.gather(*waiting), at_most(30)))
        for body in held[2:]:
            body.close()

    asyncio.run(run())
    wait_until(lambda: (streams.figures.open, streams.figures.memory_bytes) == (0, 0))


def test_a_stream_that_waits_for_memory_and_ends_gives_it_back() -> None:
    streams = RowStreams(RowLimits(memory_max=PART_BYTES))

    async def run() -> None:
        first, second = (_stream(streams, lambda: iter([_batch(0)]), client=name) for name in ("a", "b"))
        assert await first.next_part()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(second.next_part(), 0.01)
        second.close()
        first.close()
        third = _stream(streams, lambda: iter([_batch(0)]))
        assert await asyncio.wait_for(third.next_part(), at_most(30))
        third.close()

    asyncio.run(run())
    wait_until(lambda: (streams.figures.open, streams.figures.memory_bytes) == (0, 0))


def test_a_stream_that_is_closed_while_it_reads_frees_its_place_afterwards() -> None:
    streams = RowStreams()
    begun, may_go_on = threading.Event(), threading.Event()

    def batches() -> Iterator[pa.RecordBatch]:
        begun.set()
        assert may_go_on.wait(at_most(30))
        yield _batch(0)

    stream = _stream(streams, batches)

    async def run() -> None:
        reading = asyncio.ensure_future(stream.next_part())
        await asyncio.to_thread(begun.wait, at_most(30))
        stream.close()
        reading.cancel()
        assert streams.figures.open == 1
        may_go_on.set()

    asyncio.run(run())
    wait_until(lambda: (streams.figures.open, streams.figures.memory_bytes) == (0, 0))


def test_streams_take_turns_on_the_threads() -> None:
    streams = RowStreams()
    order: list[str] = []

    def batches(name: str) -> Iterator[pa.RecordBatch]:
        for number in range(20):
            order.append(name)
            yield _batch(number)

    names = [str(number) for number in range(2 * THREADS)]
    bodies = [_stream(streams, partial(batches, name), client=name) for name in names]
    for body in _run(streams, *bodies):
        assert _table(body).num_rows == 200
    # None is read to its end before all others have begun.
    assert set(order[: 10 * THREADS]) == set(names)


def test_a_stopped_server_reads_no_further_parts() -> None:
    streams = RowStreams()
    streams.close()
    with pytest.raises(RestError, match="The server stops"):
        asyncio.run(_stream(streams, lambda: iter(())).next_part())
