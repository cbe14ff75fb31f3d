"""Streams of rows that the server reads for its clients, in Arrow's IPC format.

A few threads of their own read, so that requests about metadata keep theirs. A stream holds no thread between two
parts: the next part is made when its client has taken the one before. The rows of a batch count as memory from before
they are read until the client has taken them. At the limit, streams wait until others have sent theirs. A client has at
most half of the places and of the memory, so that one that does not read its streams does not hold up others.

Whatever a stream depends on is checked again while it runs: the credentials of the client, its privileges, and the
policies of the table. A stream that fails ends with a part that names the reason, and without Arrow's mark of the end:

    schema | batch | batch | ... | batch without rows, metadata `interbed.error`: the reason
    schema | batch | batch | ... | end of stream (ff ff ff ff 00 00 00 00)
"""

import asyncio
import io
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from interbed.catalog.server.auth.principals import (
    AuthenticationError,
    AuthenticationUnavailableError,
    Principal,
)
from interbed.catalog.server.rest.endpoint import request_retries
from interbed.catalog.server.rest.interface import RestError
from interbed.catalog.server.thrift.edge.call import current_session
from interbed.catalog.server.thrift.edge.pool import RowFigures, WeightBudget

if TYPE_CHECKING:
    import pyarrow as pa

logger = logging.getLogger(__name__)

THREADS = 4
"""Threads that read rows in one process."""

PART_BYTES = 1 << 20
"""Bytes of rows in one part, unless a single row has more."""

CHECK_SECONDS = 0.5
"""Time after which the next part of a stream is made only if its client may still read the rows."""

REASON = b"interbed.error"
"""Key of the metadata of the last batch of a stream that has failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowLimits:
    """Limits of the streams of one process: streams at once, seconds and bytes of each, bytes of batches in memory."""

    streams_max: int = 16
    seconds_max: float = 3600.0
    bytes_max: int = 64 << 30
    memory_max: int = 256 << 20

    @property
    def of_client_max(self) -> int:
        """Streams of one principal at once: half of all, so that others get theirs."""
        return max(1, self.streams_max // 2)


class RowStreams:
    """The streams of one process: its threads, and what they share. Safe for many threads."""

    def __init__(self, limits: RowLimits | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self.limits = limits if limits is not None else RowLimits()
        self.clock = clock
        self.memory = WeightBudget(self.limits.memory_max)
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="rows")
        self._guard = threading.Lock()
        self._of_client: Counter[str] = Counter()
        self._memory_of: dict[str, WeightBudget] = {}
        self._open = self._rows = self._bytes = self._refused = 0

    @property
    def figures(self) -> RowFigures:
        """The figures for the metrics."""
        with self._guard:
            return RowFigures(
                open=self._open,
                memory_bytes=self.memory.taken,
                rows_total=self._rows,
                bytes_total=self._bytes,
                refused_total=self._refused,
            )

    def submit(self, work: Callable[[], "bytes | None"]) -> "Future[bytes | None]":
        """Run a function on one of the threads. RestError with status 503 when the server stops."""
        try:
            return self._threads.submit(work)
        except RuntimeError as error:
            raise RestError(HTTPStatus.SERVICE_UNAVAILABLE, "ServiceUnavailable", "The server stops.") from error

    def enter(self, client: str) -> WeightBudget:
        """Count a stream of a client, and return the memory of that client. RestError with status 503 if there are too
        many.
        """
        limits = self.limits
        with self._guard:
            if self._open >= limits.streams_max:
                self._refused += 1
                raise _too_many(f"{limits.streams_max} streams of rows", "rows_streams_max")
            if self._of_client[client] >= limits.of_client_max:
                self._refused += 1
                raise _too_many(f"{limits.of_client_max} streams of rows of {client}", "half of rows_streams_max")
            self._open += 1
            self._of_client[client] += 1
            return self._memory_of.setdefault(client, WeightBudget(max(1, limits.memory_max // 2)))

    def leave(self, client: str) -> None:
        """Count the end of a stream."""
        with self._guard:
            self._open -= 1
            self._of_client[client] -= 1
            if not self._of_client[client]:
                del self._of_client[client], self._memory_of[client]

    def count(self, rows: int, size: int) -> None:
        """Count what was sent."""
        with self._guard:
            self._rows += rows
            self._bytes += size

    def close(self) -> None:
        """End the threads; streams that are open end with an error."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _too_many(what: str, setting: str) -> RestError:
    return RestError(
        HTTPStatus.SERVICE_UNAVAILABLE,
        "TooManyStreams",
        f"{what} are open in this process of the server ({setting}): repeat the request later.",
    )


class RowStream:
    """The rows of one query, for one client; a body of a response.

    `read` opens the query, and `check` raises the error of a client that may not read the rows any more; both run on a
    thread of the streams, in the context of the request. `refused` returns the error for an exception.
    """

    def __init__(
        self,
        streams: RowStreams,
        client: str,
        read: "Callable[[], pa.RecordBatchReader]",
        check: Callable[[], None],
        refused: Callable[[Exception], RestError],
    ) -> None:
        self._streams = streams
        self._client = client
        self._read = read
        self._check = check
        self._refused = refused
        self._context = copy_context()
        # A retry must not end the attempt of a request that is being answered.
        self._context.run(request_retries.set, None)
        self._lock = threading.Lock()
        self._has_entered = self._is_closed = self._has_ended = False
        self._began_at = self._checked_at = streams.clock()
        self._reader: pa.RecordBatchReader | None = None
        self._sink = _PartSink()
        self._writer: Any = None
        self._pieces: Iterator[pa.RecordBatch] = iter(())
        self._is_open_batch = False
        self._budgets: Sequence[WeightBudget] = ()
        self._weights: list[tuple[WeightBudget, int]] = []
        self._batch_weight = 0
        self._next_weight = PART_BYTES
        self._rows = self._bytes = 0

    @property
    def subject(self) -> Mapping[str, object]:
        """Rows and bytes that were made for the client."""
        return {"rows": self._rows, "bytes": self._bytes}

    async def next_part(self) -> bytes | None:
        """Return the next part of the stream; None at the end. RestError."""
        if not self._has_entered:
            self._budgets = (self._streams.enter(self._client), self._streams.memory)
            self._has_entered = True
        if not self._is_open_batch:
            await self._take_memory()
        return await asyncio.wrap_future(self._streams.submit(partial(self._context.run, self._step)))

    def last_part(self, error: RestError) -> bytes:
        """Return a batch without rows that names the error, without the end of the stream."""
        import pyarrow as pa

        if self._reader is None or self._writer is None:
            return b""
        self._sink.take()
        schema = self._reader.schema
        empty = pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)
        self._writer.write_batch(empty, custom_metadata={REASON: str(error).encode(errors="replace")})
        return self._sink.take()

    def close(self) -> None:
        """End the stream; a part that is being made is finished first."""
        self._is_closed = True
        if self._has_entered:
            try:
                self._streams.submit(self._dispose)
            except RestError:
                # The server stops: a thread that makes a part ends by itself.
                self._streams.leave(self._client)
            self._has_entered = False

    # -- memory --------------------------------------------------------------------------------------------------------

    async def _take_memory(self) -> None:
        """Wait for the memory of the next batch, which is probably as large as the one before."""
        self._release()
        weight = self._batch_weight = self._next_weight
        for budget in self._budgets:
            await _taken(budget, weight)
            self._weights.append((budget, weight))

    def _release(self) -> None:
        weights, self._weights = self._weights, []
        for budget, weight in weights:
            budget.release(weight)

    # -- on a thread of the streams ------------------------------------------------------------------------------------

    def _step(self) -> bytes | None:
        with self._lock:
            if self._is_closed or self._has_ended:
                return None
            try:
                self._check_limits()
                part = self._part()
            except RestError:
                raise
            except Exception as error:
                # The client gets an answer, and the server goes on.
                raise self._refused(error) from error
            if self._bytes + len(part) > self._streams.limits.bytes_max:
                raise RestError(
                    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                    "StreamTooLong",
                    f"The stream has more than {self._streams.limits.bytes_max} bytes, the limit of the server "
                    "(rows_bytes_max): read fewer columns, or parts of the rows by filters.",
                )
            self._bytes += len(part)
            return part

    def _part(self) -> bytes:
        import pyarrow as pa

        if self._reader is None:
            self._check()
            self._reader = self._read()
            self._writer = pa.ipc.new_stream(self._sink, self._reader.schema)
        piece = next(self._pieces, None)
        while piece is None:
            batch = next(self._reader, None)
            if batch is None:
                self._has_ended, self._is_open_batch = True, False
                self._writer.close()
                return self._sink.take()
            self._weigh(batch.get_total_buffer_size())
            self._pieces = pieces_of(batch)
            piece = next(self._pieces, None)
        self._writer.write_batch(piece)
        self._rows += piece.num_rows
        part = self._sink.take()
        self._streams.count(piece.num_rows, len(part))
        following = next(self._pieces, None)
        self._is_open_batch = following is not None
        self._pieces = iter(()) if following is None else _with_first(following, self._pieces)
        return part

    def _weigh(self, size: int) -> None:
        """Count the bytes of a batch that is larger than expected, and expect the next one to be as large."""
        missing = size - self._batch_weight
        if missing > 0:
            self._batch_weight = size
            for budget in self._budgets:
                budget.take_at_once(missing)
                self._weights.append((budget, missing))
        self._next_weight = max(PART_BYTES, size)

    def _check_limits(self) -> None:
        now, limits = self._streams.clock(), self._streams.limits
        if now - self._began_at > limits.seconds_max:
            raise RestError(
                HTTPStatus.REQUEST_TIMEOUT,
                "StreamTooLong",
                f"The stream has lasted for more than {limits.seconds_max:.0f} s, the limit of the server "
                "(rows_seconds_max): read parts of the rows by filters.",
            )
        if self._reader is not None and now - self._checked_at >= CHECK_SECONDS:
            self._check()
            self._checked_at = now

    def _dispose(self) -> None:
        with self._lock:
            self._has_ended = True
            self._pieces = iter(())
            self._release()
            if self._reader is not None:
                # Readers end their own threads; an error of that is none of the client's.
                with suppress(Exception):
                    self._reader.close()
            self._streams.leave(self._client)


def verified(verify: Callable[[], Principal | None] | None) -> None:
    """Verify the credentials of a client again, and go on with the groups that it has by now. RestError with status 401
    if they are not accepted any more, and with status 503 if they cannot be verified: without its present groups a
    client could see rows that a filter for one of them hides.
    """
    session = current_session.get()
    if verify is None or session is None:
        return
    try:
        principal = verify()
    except AuthenticationUnavailableError as error:
        logger.warning("a stream of rows ends, because its client cannot be verified at present: %s", error)
        raise RestError(HTTPStatus.SERVICE_UNAVAILABLE, "ServiceUnavailable", str(error)) from error
    except AuthenticationError as error:
        raise RestError(HTTPStatus.UNAUTHORIZED, "NotAuthorized", str(error)) from error
    if principal is not None:
        current_session.set(session.of(principal))


def pieces_of(batch: "pa.RecordBatch") -> "Iterator[pa.RecordBatch]":
    """Yield the rows of a batch in pieces of about PART_BYTES."""
    count = batch.num_rows
    rows = max(1, count * PART_BYTES // max(batch.nbytes, 1))
    for start in range(0, count, rows):
        yield batch.slice(start, rows)


def _with_first(first: "pa.RecordBatch", others: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
    yield first
    yield from others


async def _taken(budget: WeightBudget, weight: int) -> None:
    """Wait until a weight of a budget has been taken."""
    loop = asyncio.get_running_loop()
    granted = loop.create_future()

    def grant() -> None:
        # The stream may have ended while it waited.
        if granted.done():
            budget.release(weight)
        else:
            granted.set_result(None)

    if not budget.take(weight, partial(_call_soon, loop, grant)):
        await granted


def _call_soon(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
    # The loop is closed when a server that stops has waited long enough.
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(call)


class _PartSink(io.RawIOBase):
    """A file that keeps what was written until it is taken."""

    def __init__(self) -> None:
        super().__init__()
        self._parts: list[bytes] = []

    def writable(self) -> bool:
        """Return that bytes may be written."""
        return True

    def write(self, data: Any) -> int:
        """Keep bytes until they are taken."""
        self._parts.append(bytes(data))
        return len(self._parts[-1])

    def take(self) -> bytes:
        """Return what was written since the last call."""
        parts, self._parts = self._parts, []
        return b"".join(parts)
