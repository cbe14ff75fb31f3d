"""Content of one remote file: ranges that were fetched, ranges that are being fetched, and reads on demand.

Announced ranges become requests: neighbours are fetched together, large ranges by several requests.
"""

import os
import threading
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from interbed.storage.io.api import Range
from interbed.storage.io.prefetch.pool import FetchPool

GAP_BYTES = 512 << 10
"""Longest gap between two ranges that one request fetches: another request costs about as much as these bytes."""

PIECE_BYTES = 4 << 20
"""Most bytes of one request. A request for more takes longer than two that are sent in parallel."""

ALIGNED_BYTES = 1 << 20
"""Parts of one range are multiples of this, so that reads of buffers of that size do not cross their borders."""


@dataclass(frozen=True, slots=True)
class FetchRange:
    """Range that one request fetches; `wanted` bytes of it were announced, the others are gaps."""

    start: int
    end: int
    wanted: int


def fetch_ranges_of(ranges: Iterable[Range], *, gap: int = GAP_BYTES, most: int = PIECE_BYTES) -> list[FetchRange]:
    """Return the requests for ranges that are read side by side from their beginnings, in the order of need.

    They do not overlap, cover all ranges, and are of at most `most` bytes. Neighbours with at most `gap` bytes
    between them are joined if the sum is not too much. The beginnings of several large ranges come first.
    """
    found: list[tuple[float, FetchRange]] = []
    together: list[Range] = []

    def flush() -> None:
        if together:
            wanted = sum(high - low for low, high in together)
            found.append((0.0, FetchRange(together[0][0], together[-1][1], wanted)))
            together.clear()

    for low, high in united(ranges):
        if high - low > most:
            flush()
            found.extend(_divided(low, high, most))
            continue
        if together and (low - together[-1][1] > gap or high - together[0][0] > most):
            flush()
        together.append((low, high))
    flush()
    return [each for _, each in sorted(found, key=lambda one: (one[0], one[1].start))]


def _divided(low: int, high: int, most: int) -> Iterator[tuple[float, FetchRange]]:
    count = -(-(high - low) // most)
    size = -(-(high - low) // count)
    size = min(most, -(-size // ALIGNED_BYTES) * ALIGNED_BYTES)
    for at in range(low, high, size):
        end = min(at + size, high)
        yield (at - low) / (high - low), FetchRange(at, end, end - at)


def united(ranges: Iterable[Range]) -> list[Range]:
    """Return the ranges in order: overlapping ones joined, empty ones left out. Ranges that touch stay apart."""
    found: list[Range] = []
    for low, high in sorted(ranges):
        if low >= high:
            continue
        if found and low < found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], high))
        else:
            found.append((low, high))
    return found


def without(ranges: Iterable[Range], held: Sequence[Range]) -> list[Range]:
    """Return the parts of the ranges, in order, outside the `held` ranges, which ascend and do not overlap."""
    left: list[Range] = []
    # Consecutive edges enclose the gaps between the held ranges.
    for low, high in united(ranges):
        edges = [(low, low), *((max(a, low), min(b, high)) for a, b in held if a < high and b > low), (high, high)]
        left.extend((a, b) for (_, a), (b, _) in pairwise(edges) if a < b)
    return left


WINDOW_BYTES = 1 << 20
"""Least bytes of a request without an announcement: a request costs as much as some hundred KiB."""

FIRST_BYTES = 16 << 20
"""Bytes that are prefetched of a file at first. The limit doubles with each range that is read, so that a reader of a
few rows does not fetch a whole file."""

_AHEAD_MAX = 1 << 40
"""Upper bound of the limit above, which no pool reaches."""

_WINDOWS_MAX = 16
"""Windows that are kept: readers read the columns of a file at the same time, each in a window of its own."""

_ENOUGH_PIECES = 4
"""Requests per column that should fit into the share of a file; otherwise requests are smaller."""


@dataclass(slots=True, eq=False)
class _Plan:
    """Announcement of a reader: for each step the ranges that it reads side by side.

    `pulled` and `read` are the numbers of the last steps that became requests and that were read.
    """

    steps: Iterator[Sequence[Range]]
    pulled: int = 0
    read: int = 0


@dataclass(slots=True, eq=False)
class _PrefetchedRange:
    """Range of one request, which is sent or finished when it has a future. `unread` wanted bytes are not read yet."""

    start: int
    end: int
    unread: int
    plan: _Plan
    step: int
    future: "Future[Any] | None" = None
    counted: int = 0


@dataclass(slots=True)
class _PrefetchedRanges:
    """Prefetched ranges that do not overlap, by their starts."""

    starts: list[int] = field(default_factory=list[int])
    listed: list[_PrefetchedRange] = field(default_factory=list[_PrefetchedRange])

    def add(self, piece: _PrefetchedRange) -> None:
        place = bisect_left(self.starts, piece.start)
        self.starts.insert(place, piece.start)
        self.listed.insert(place, piece)

    def remove(self, piece: _PrefetchedRange) -> None:
        place = bisect_left(self.starts, piece.start)
        del self.starts[place], self.listed[place]

    def at(self, place: int) -> tuple[_PrefetchedRange | None, int | None]:
        """Return the range with a byte of the file, or None and the start of the next range."""
        after = bisect_right(self.starts, place)
        if after and place < self.listed[after - 1].end:
            return self.listed[after - 1], None
        return None, self.starts[after] if after < len(self.starts) else None


class RangedContent:
    """Content of a file of `size` bytes, of which ranges are fetched: in advance where a reader announces them.

    `fetch(start, end)` is one request. `held` are the bytes from `start` on, which were read when the file was opened
    and are kept. Safe for several threads, which read one after the other.
    """

    def __init__(
        self, fetch: Callable[[int, int], Any], size: int, start: int, held: Any, pool: FetchPool | None = None
    ) -> None:
        self.size = size
        self._fetch = fetch
        self._pool = pool
        self._process = os.getpid()
        self._lock = threading.Lock()
        # It has the footer, which readers read several times.
        self._opened = (start, memoryview(held))
        self._windows: list[tuple[int, memoryview]] = []
        self._pieces = _PrefetchedRanges()
        self._plans: list[_Plan] = []
        self._waiting: deque[_PrefetchedRange] = deque()
        self._counted = 0
        self._ahead_bytes = FIRST_BYTES
        self._joined = False
        self._closed = False

    def prefetch(self, steps: Iterable[Sequence[Range]]) -> None:
        """Begin to fetch announced ranges: the ranges of one step side by side, and one step after the other.

        The last of several announcements goes first. `steps` is consumed step by step during the reads.
        """
        with self._lock:
            if self._pool is None or self._closed or os.getpid() != self._process:
                return
            if not self._joined:
                self._pool.join(self.size)
                self._joined = True
            self._plans.append(_Plan(iter(steps)))
            self._begin_next()

    def between(self, start: int, end: int) -> memoryview:
        """Return the bytes from `start` to before `end`, which are in the file. Raises the errors of `fetch`."""
        parts: list[memoryview] = []
        with self._lock:
            self._begin_next()
            at = start
            while at < end:
                part = self._part(at, end)
                parts.append(part)
                at += len(part)
            self._begin_next()
        return parts[0] if len(parts) == 1 else memoryview(b"".join(parts))

    def close(self) -> None:
        """Free all memory, after the running requests have ended."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._plans.clear()
            self._waiting.clear()
            pieces, self._pieces = self._pieces.listed, _PrefetchedRanges()
            self._windows.clear()
            # Requests that have not begun are cancelled.
            running = [piece for piece in pieces if piece.future is not None and not piece.future.cancel()]
            if os.getpid() == self._process:
                for piece in running:
                    # An error of bytes that no reader has read needs no report.
                    assert piece.future is not None
                    piece.future.exception()
            for piece in pieces:
                self._uncount(piece)
            if self._joined and self._pool is not None:
                self._pool.leave(self.size)

    # -- prefetch --------------------------------------------------------------------------------------------------

    def _begin_next(self) -> None:
        """Begin the next requests, as far as the budget allows."""
        if self._pool is None or os.getpid() != self._process:
            return
        while self._waiting or self._pull():
            piece = self._waiting[0] if self._waiting else None
            if piece is None:
                continue
            size = piece.end - piece.start
            if self._counted and self._counted + size > self._ahead_bytes:
                return
            if not self._pool.take(size, self._counted, self.size):
                return
            self._waiting.popleft()
            self._begin(piece)

    def _begin(self, piece: _PrefetchedRange) -> None:
        """Begin to fetch a range whose bytes were taken from the budget of the pool."""
        assert self._pool is not None
        piece.counted = piece.end - piece.start
        self._counted += piece.counted
        piece.future = self._pool.begin(lambda: self._fetched(piece.start, piece.end))

    def _begin_needed(self, needed: _PrefetchedRange) -> None:
        """Begin a range that is read now, and the ranges of its step, although the budget is spent: they are decoded
        together. Ranges beyond `needed_bytes` of the pool still wait."""
        if self._pool is None or os.getpid() != self._process:
            return
        left = self._pool.needed_bytes
        beside = [p for p in self._waiting if p.plan is needed.plan and p.step == needed.step and p is not needed]
        for piece in (needed, *beside):
            size = piece.end - piece.start
            if size > left:
                return
            left -= size
            self._waiting.remove(piece)
            self._pool.take_needed(size)
            self._begin(piece)

    def _pull(self) -> bool:
        """Take the next step of the newest announcement that has one; return False without any."""
        while self._plans:
            plan = self._plans[-1]
            step = next(plan.steps, None)
            if step is None:
                self._plans.pop()
                continue
            plan.pulled += 1
            first, held = self._opened
            known = [(piece.start, piece.end) for piece in self._pieces.listed]
            left = without(step, sorted([*known, (first, first + len(held))]))
            for request in fetch_ranges_of(left, most=self._piece_bytes(left)):
                # Gaps between the ranges may be requested already.
                for low, high in without([(request.start, request.end)], known):
                    unread = request.wanted if (low, high) == (request.start, request.end) else high - low
                    piece = _PrefetchedRange(low, high, unread, plan, plan.pulled)
                    self._pieces.add(piece)
                    self._waiting.append(piece)
            return True
        return False

    def _piece_bytes(self, ranges: Sequence[Range]) -> int:
        assert self._pool is not None
        share = self._pool.share(self.size)
        if 2 * sum(high - low for low, high in ranges) <= share:
            return PIECE_BYTES
        fitting = share // (_ENOUGH_PIECES * max(len(ranges), 1))
        return max(WINDOW_BYTES, min(PIECE_BYTES, fitting // WINDOW_BYTES * WINDOW_BYTES))

    def _drop(self, piece: _PrefetchedRange) -> None:
        self._pieces.remove(piece)
        self._uncount(piece)

    def _uncount(self, piece: _PrefetchedRange) -> None:
        if piece.counted and self._pool is not None:
            self._pool.give_back(piece.counted)
            self._counted -= piece.counted
            piece.counted = 0

    # -- reads -----------------------------------------------------------------------------------------------------

    def _part(self, at: int, end: int) -> memoryview:
        """Return some of the bytes from `at` on, at least one."""
        opened, held = self._opened
        if opened <= at < opened + len(held):
            return held[at - opened : end - opened]
        piece, following = self._pieces.at(at)
        if piece is not None:
            return self._of_piece(piece, at, min(end, piece.end))
        for place, (first, window) in enumerate(self._windows):
            if first <= at < first + len(window):
                # Windows that are still read are kept.
                self._windows.insert(0, self._windows.pop(place))
                return window[at - first : end - first]
        # The bytes after the limit are held, or requested already.
        limit = min(place for place in (self.size, opened, following) if place is not None and place > at)
        return self._window(at, min(max(end, at + WINDOW_BYTES), limit))[: end - at]

    def _window(self, start: int, end: int) -> memoryview:
        window = self._fetched(start, end)
        if len(window) <= 2 * WINDOW_BYTES:
            self._windows = [(start, window), *self._windows[: _WINDOWS_MAX - 1]]
        return window

    def _of_piece(self, piece: _PrefetchedRange, at: int, end: int) -> memoryview:
        self._drop_before(piece)
        if piece.future is None:
            self._begin_needed(piece)
        if piece.future is None:
            return self._begin_with(piece, at, end)
        if piece.future.cancel() or os.getpid() != self._process:
            # It had not begun, or its thread belongs to the process that this one was forked from.
            content = self._fetched(piece.start, piece.end)
            piece.future = Future()
            piece.future.set_result(content)
        else:
            content = piece.future.result()
        piece.unread -= end - at
        if piece.unread <= 0:
            self._ahead_bytes = min(2 * self._ahead_bytes, _AHEAD_MAX)
            self._drop(piece)
            if piece.end - piece.start <= WINDOW_BYTES:
                # Some readers read a page twice.
                self._windows = [(piece.start, content), *self._windows[: _WINDOWS_MAX - 1]]
        return content[at - piece.start : end - piece.start]

    def _begin_with(self, piece: _PrefetchedRange, at: int, end: int) -> memoryview:
        """Fetch a window of a range for which there is no budget; the rest of the range still waits for it."""
        until = min(max(end, at + WINDOW_BYTES), piece.end)
        window = self._window(at, until)
        self._pieces.remove(piece)
        place = self._waiting.index(piece)
        del self._waiting[place]
        for low, high in ((until, piece.end), (piece.start, at)):
            if low < high:
                rest = _PrefetchedRange(low, high, high - low, piece.plan, piece.step)
                self._pieces.add(rest)
                self._waiting.insert(place, rest)
        return window[: end - at]

    def _drop_before(self, piece: _PrefetchedRange) -> None:
        """Free the unread ranges of earlier steps, except of the step before, which may still be read."""
        if piece.step <= piece.plan.read:
            return
        piece.plan.read = piece.step
        for other in [p for p in self._pieces.listed if p.plan is piece.plan and p.step < piece.step - 1]:
            if other.future is None:
                self._waiting.remove(other)
            else:
                other.future.cancel()
            self._drop(other)

    def _fetched(self, start: int, end: int) -> memoryview:
        content = memoryview(self._fetch(start, end))
        if len(content) != end - start:
            raise OSError(f"the store has sent {len(content)} of {end - start} bytes")
        return content


WHOLE_BYTES = 1 << 20
"""A file up to this size is read completely by the request that opens it; of a larger file the end with its footer."""

_LEAST_END_BYTES = 128 << 10
_END_SHARE = 256
"""The end of a file whose size is known is its size divided by this."""


def end_bytes(size: int) -> int:
    """Return the length of the end that is read when a file is opened: about that of its footer and page index."""
    return max(_LEAST_END_BYTES, min(size // _END_SHARE, WHOLE_BYTES))
