"""The bytes of one file of an object store: those that were fetched, those on their way, and those fetched on demand.

Announced ranges become requests: neighbours are fetched together, large ranges in several pieces.
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

from interbed.storage.io.prefetch.needs import Range
from interbed.storage.io.prefetch.pool import FetchPool

GAP_BYTES = 512 << 10
"""What lies between two ranges is fetched along with them when it is not more: a request costs about as much."""

PIECE_BYTES = 4 << 20
"""A request for more takes longer than two that are sent at once."""

ALIGNED_BYTES = 1 << 20
"""Pieces of one range are multiples of this, so that reads of buffers of that size do not cross their borders."""


@dataclass(frozen=True, slots=True)
class FetchRange:
    """What one request gets, `wanted` bytes of which were asked for."""

    start: int
    end: int
    wanted: int


def fetch_ranges_of(ranges: Iterable[Range], *, gap: int = GAP_BYTES, most: int = PIECE_BYTES) -> list[FetchRange]:
    """The requests for ranges that are read side by side, each from its beginning to its end, in the order of need.

    They do not overlap, hold all of the ranges, and are of at most `most` bytes. Neighbours with at most `gap` bytes
    between them are put together where that is not too much. Of several large ranges the beginnings come first.
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
    return [stretch for _, stretch in sorted(found, key=lambda each: (each[0], each[1].start))]


def _divided(low: int, high: int, most: int) -> Iterator[tuple[float, FetchRange]]:
    count = -(-(high - low) // most)
    size = -(-(high - low) // count)
    size = min(most, -(-size // ALIGNED_BYTES) * ALIGNED_BYTES)
    for at in range(low, high, size):
        end = min(at + size, high)
        yield (at - low) / (high - low), FetchRange(at, end, end - at)


def united(ranges: Iterable[Range]) -> list[Range]:
    """The ranges in order; those that overlap as one, empty ones left out. Those that touch stay apart."""
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
    """What of the ranges, in order, is not in those that are `held`, which ascend and do not overlap."""
    left: list[Range] = []
    # The gaps between what is held; the last one goes on for ever.
    for low, high in united(ranges):
        edges = [(low, low), *((max(a, low), min(b, high)) for a, b in held if a < high and b > low), (high, high)]
        left.extend((a, b) for (_, a), (b, _) in pairwise(edges) if a < b)
    return left


WINDOW_BYTES = 1 << 20
"""The least that is asked for at once where nothing was said before: a request costs what some hundred KiB cost."""

FIRST_BYTES = 16 << 20
"""What is fetched ahead of a file at first; it doubles with each piece that is read, so that a look at a few rows does
not fetch a whole file."""

_AHEAD_MAX = 1 << 40
"""More than any pool has."""

_WINDOWS_MAX = 16
"""Readers go through the columns of a file at the same time, each in a window of its own."""

_ENOUGH_PIECES = 4
"""Where less than that many pieces for each column fit into the share of a file, pieces are smaller."""


@dataclass(slots=True, eq=False)
class _Plan:
    """What a reader said that it will read: step after step, the ranges of each side by side.

    `pulled` and `read` are the numbers of the last steps that were asked for and read.
    """

    steps: Iterator[Sequence[Range]]
    pulled: int = 0
    read: int = 0


@dataclass(slots=True, eq=False)
class _PrefetchedRange:
    """What one request is to get; it is on its way, or there, when it has a future. `unread` bytes are wanted yet."""

    start: int
    end: int
    unread: int
    plan: _Plan
    step: int
    future: "Future[Any] | None" = None
    counted: int = 0


@dataclass(slots=True)
class _PrefetchedRanges:
    """Pieces that do not overlap, by where they begin."""

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
        """The piece that holds a place of the file, or None and where the next one begins."""
        after = bisect_right(self.starts, place)
        if after and place < self.listed[after - 1].end:
            return self.listed[after - 1], None
        return None, self.starts[after] if after < len(self.starts) else None


class RangedContent:
    """A file of `size` bytes of which ranges are fetched, ahead of need where a reader says what it will need.

    `fetch(start, end)` is the one request; `start` and `held` are what came when the file was opened, which stay. Safe
    for several threads, which read one after the other.
    """

    def __init__(
        self, fetch: Callable[[int, int], Any], size: int, start: int, held: Any, pool: FetchPool | None = None
    ) -> None:
        self.size = size
        self._fetch = fetch
        self._pool = pool
        self._process = os.getpid()
        self._lock = threading.Lock()
        # What was opened stays: it is the footer, which readers come back to.
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
        """Begin to fetch what will be read: the ranges of one step side by side, and one step after the other.

        Of several such plans the last one goes first. `steps` are asked for by and by, while reads go on.
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
        """The bytes from one place to before another, which are in the file. Raises what fetching them raises."""
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
        """Let go of everything, once the requests that are on their way have ended."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._plans.clear()
            self._waiting.clear()
            pieces, self._pieces = self._pieces.listed, _PrefetchedRanges()
            self._windows.clear()
            # Those that have not begun never do.
            running = [piece for piece in pieces if piece.future is not None and not piece.future.cancel()]
            if os.getpid() == self._process:
                for piece in running:
                    # What went wrong with bytes that nobody has read is nobody's concern.
                    assert piece.future is not None
                    piece.future.exception()
            for piece in pieces:
                self._uncount(piece)
            if self._joined and self._pool is not None:
                self._pool.leave(self.size)

    # -- ahead of need ---------------------------------------------------------------------------------------------

    def _begin_next(self) -> None:
        """Begin the next requests, as far as there is room for what they bring."""
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
        """Begin to fetch a piece that was taken from the pool's room."""
        assert self._pool is not None
        piece.counted = piece.end - piece.start
        self._counted += piece.counted
        piece.future = self._pool.begin(lambda: self._fetched(piece.start, piece.end))

    def _begin_needed(self, needed: _PrefetchedRange) -> None:
        """Begin a piece that is read now, and what is read beside it, though there is no room: all of it is decoded
        together. What would be too much still waits."""
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
        """Take a step of the newest plan that has one."""
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
            for stretch in fetch_ranges_of(left, most=self._piece_bytes(left)):
                # What lies between the ranges may be on its way already.
                for low, high in without([(stretch.start, stretch.end)], known):
                    unread = stretch.wanted if (low, high) == (stretch.start, stretch.end) else high - low
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

    # -- when it is read -------------------------------------------------------------------------------------------

    def _part(self, at: int, end: int) -> memoryview:
        """Some of the bytes from `at` on, at least one."""
        opened, held = self._opened
        if opened <= at < opened + len(held):
            return held[at - opened : end - opened]
        piece, following = self._pieces.at(at)
        if piece is not None:
            return self._of_piece(piece, at, min(end, piece.end))
        for place, (first, window) in enumerate(self._windows):
            if first <= at < first + len(window):
                # Those that are read stay.
                self._windows.insert(0, self._windows.pop(place))
                return window[at - first : end - first]
        # What begins there is known, or on its way.
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
            # It stood behind others, or stayed in the process that this one was forked from.
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
                # Pages are looked at twice now and then.
                self._windows = [(piece.start, content), *self._windows[: _WINDOWS_MAX - 1]]
        return content[at - piece.start : end - piece.start]

    def _begin_with(self, piece: _PrefetchedRange, at: int, end: int) -> memoryview:
        """Fetch a window of a piece that there was no room for; the rest of it still waits for room."""
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
        """Let go of what earlier steps have left unread, but for the last one, which may be read yet."""
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
"""A file that is not larger is read whole by the request that opens it; of a larger one the end, with its footer."""

_LEAST_END_BYTES = 128 << 10
_END_SHARE = 256
"""The end of a file whose size is known is a part of it like that."""


def end_bytes(size: int) -> int:
    """How much of the end of a file is read when it is opened: about what its footer and its index of pages take."""
    return max(_LEAST_END_BYTES, min(size // _END_SHARE, WHOLE_BYTES))
