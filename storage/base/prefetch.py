"""Work in threads: prefetching iterators open the next sources, such as files in an object store, while one is read;
streams of batches are read at once, in an order that does not depend on their speed; work of known cost is distributed
over workers, and admitted within a budget of bytes.

`spread` gives the longest piece first, each to the worker with the least work. The busiest worker then takes at most
4/3 - 1/(3m) of the time of the best possible distribution over m workers (R. L. Graham, Bounds on Multiprocessing
Timing Anomalies, 1969); in the order of arrival it may be 2 - 1/m. `ByteBudget` is a weighted semaphore.
"""

import heapq
import queue
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from typing import Generic, TypeVar

import pyarrow as pa

_T = TypeVar("_T")
_R = TypeVar("_R")

QUEUED_BATCHES = 1
"""The number of batches that each thread reads ahead."""
_POLL_SECONDS = 0.2

Source = Callable[[], Iterator[pa.RecordBatch]]


def read_ahead(items: Iterator[_T], count: int) -> Iterator[_T]:
    """Yield the items, each requested while `count` items before it are still to be yielded."""
    known: deque[_T] = deque()
    for item in items:
        known.append(item)
        if len(known) > count:
            yield known.popleft()
    yield from known


def map_in_threads(work: Callable[[_T], _R], items: Sequence[_T], *, most: int) -> list[_R]:
    """Return the results of the work for each item, in order, with at most `most` threads.

    Raises the error of the first item that failed. For work that reads and decodes, and may use threads itself; small
    requests go to the permanent threads of `io.parallel`.
    """
    if len(items) < 2 or most < 2:
        return [work(item) for item in items]
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(min(most, len(items)), thread_name_prefix="interbed-at-once") as pool:
        return list(pool.map(work, items))


class PrefetchingIterator(Generic[_T]):
    """Iterator whose first item is prefetched by a thread; the others are requested when they are needed.

    `make` returns the underlying iterator, which is used by one thread at a time. Its errors are raised by `next`.
    """

    def __init__(self, make: Callable[[], Iterator[_T]]) -> None:
        self._iterator: Iterator[_T] | None = None
        self._first: list[_T] = []
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = threading.Thread(
            target=self._begin, args=(make,), name="interbed-begin", daemon=True
        )
        self._thread.start()

    def __iter__(self) -> "PrefetchingIterator[_T]":
        return self

    def __next__(self) -> _T:
        self._join()
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        if self._first:
            return self._first.pop()
        if self._iterator is None:
            raise StopIteration
        return next(self._iterator)

    def close(self) -> None:
        """Close the iterator, after its first item has arrived."""
        self._join()
        self._first.clear()
        iterator, self._iterator = self._iterator, None
        close = getattr(iterator, "close", None)
        if close is not None:
            close()

    def _begin(self, make: Callable[[], Iterator[_T]]) -> None:
        try:
            self._iterator = make()
            for item in self._iterator:
                self._first.append(item)
                return
        except BaseException as error:  # noqa: BLE001 - the consuming thread raises every error
            self._error = error

    def _join(self) -> None:
        if self._thread is not None:
            self._thread.join()
            self._thread = None


class LazyIterator(Generic[_T]):
    """Iterator that is created by `begin` or by the request for its first item. Used by one thread at a time."""

    def __init__(self, make: Callable[[], Iterator[_T]]) -> None:
        self._make = make
        self._iterator: Iterator[_T] | None = None

    def begin(self) -> None:
        """Create the iterator. Raises the errors of its creation."""
        if self._iterator is None:
            self._iterator = self._make()

    def __iter__(self) -> "LazyIterator[_T]":
        return self

    def __next__(self) -> _T:
        self.begin()
        assert self._iterator is not None
        return next(self._iterator)

    def close(self) -> None:
        """Close the iterator, if it was created."""
        close = getattr(self._iterator, "close", None)
        if close is not None:
            close()


def chain_prefetched(
    sources: Sequence[Callable[[], Iterator[_T]]], weights: Sequence[int], *, most: int, weight: int
) -> Generator[_T, None, None]:
    """Yield the items of all sources in order, and prefetch the next sources while one is read.

    At most `most` sources of a total weight of at most `weight` are open at a time, but always two if there are two.
    """
    if len(sources) == 1:
        yield from sources[0]()
        return
    waiting = deque(zip(sources, weights, strict=True))
    prefetched: deque[tuple[PrefetchingIterator[_T], int]] = deque()
    try:
        while waiting or prefetched:
            while waiting and (
                len(prefetched) < 2
                or (len(prefetched) < most and sum(w for _, w in prefetched) + waiting[0][1] <= weight)
            ):
                source, size = waiting.popleft()
                prefetched.append((PrefetchingIterator(source), size))
            yield from prefetched[0][0]
            prefetched.popleft()[0].close()
    finally:
        for each, _ in prefetched:
            each.close()


def read_in_parallel(
    sources: Sequence[Source], threads: int, *, ahead: int = 0
) -> Generator[pa.RecordBatch, None, None]:
    """Yield the batches of all sources. `threads` sources are read at once, and their batches alternate.

    After the first batch, up to `ahead` of the next sources are prefetched up to their first batch, before a thread is
    free for them, so that their requests do not delay the current sources. The batches of a source stay in order; the
    order of sources depends on the number of threads only. An error of a source is raised after the batches before it.
    Threads end soon after the iterator is closed or exhausted.
    """
    if threads <= 1 or len(sources) <= 1:
        if ahead:
            yield from chain_prefetched(sources, [0] * len(sources), most=ahead + 1, weight=0)
            return
        for source in sources:
            yield from source()
        return
    pending = _PendingSources(sources[threads:], ahead)
    cancelled = threading.Event()
    readers = [_SourceReader(source, cancelled) for source in sources[:threads]]
    try:
        while readers:
            remaining = []
            for reader in readers:
                batch = reader.next()
                pending.begin()
                if batch is not None:
                    yield batch
                    remaining.append(reader)
                    continue
                following = pending.next()
                if following is not None:
                    remaining.append(_SourceReader(following, cancelled))
            readers = remaining
    finally:
        cancelled.set()
        for reader in readers:
            reader.join()
        pending.close()


def longest_first(costs: Sequence[float]) -> list[int]:
    """Return the indexes of the costs, greatest cost first; equal costs keep their order."""
    return sorted(range(len(costs)), key=lambda index: -costs[index])


def first_within(costs: Iterable[float], most: float) -> int:
    """Return the number of leading costs whose sum is at most `most`; no cost is negative."""
    return sum(total <= most for total in accumulate(costs))


def spread(costs: Sequence[float], bins: int) -> list[list[int]]:
    """Return the indexes of the costs in at most `bins` lists, each with the greatest cost first; no list is empty.

    The result depends on the costs alone. Work of cost 0 is distributed by the number of pieces.
    """
    found: list[list[int]] = [[] for _ in range(min(bins, len(costs)))]
    loads = [(0.0, 0, number) for number in range(len(found))]
    for index in longest_first(costs):
        load, count, number = loads[0]
        found[number].append(index)
        heapq.heapreplace(loads, (load + costs[index], count + 1, number))
    return found


class BudgetClosedError(Exception):
    """The budget was closed before the work was admitted."""


class ByteBudget:
    """Weighted semaphore: admits `count` pieces of work of any weight, and more up to a total of `weight` bytes."""

    def __init__(self, count: int, weight: int) -> None:
        self._count = count
        self._weight = weight
        self._pieces = 0
        self._reserved = 0
        self._is_closed = False
        self._changed = threading.Condition()

    @contextmanager
    def reserve(self, weight: int) -> Iterator[None]:
        """Wait until work of that weight is admitted, and hold its share for the `with` block.

        Raises BudgetClosedError after `close`.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed or self._admits(weight))
            if self._is_closed:
                raise BudgetClosedError("The work before it has failed.")
            self._pieces += 1
            self._reserved += weight
        try:
            yield
        finally:
            with self._changed:
                self._pieces -= 1
                self._reserved -= weight
                self._changed.notify_all()

    def close(self) -> None:
        """Admit no more work. Work that was admitted continues."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def _admits(self, weight: int) -> bool:
        return self._pieces < self._count or self._reserved + weight <= self._weight


class _PendingSources:
    """The sources that no thread reads yet; the first `ahead` of them are prefetched."""

    def __init__(self, sources: Sequence[Source], ahead: int) -> None:
        self._sources = deque(sources)
        self._ahead = ahead
        self._prefetched: deque[PrefetchingIterator[pa.RecordBatch]] = deque()

    def begin(self) -> None:
        """Prefetch sources up to the limit."""
        while self._sources and len(self._prefetched) < self._ahead:
            self._prefetched.append(PrefetchingIterator(self._sources.popleft()))

    def next(self) -> Source | None:
        """Return the next source; None after the last."""
        if self._prefetched:
            batches = self._prefetched.popleft()
            self.begin()
            return lambda: batches
        return self._sources.popleft() if self._sources else None

    def close(self) -> None:
        """Close the prefetched sources that were not read."""
        while self._prefetched:
            self._prefetched.popleft().close()


@dataclass(frozen=True, slots=True)
class _Failure:
    error: BaseException


class _SourceReader:
    """One source, which a thread reads into a bounded queue."""

    def __init__(self, source: Source, cancelled: threading.Event) -> None:
        self._source = source
        self._cancelled = cancelled
        self._queue: queue.Queue[pa.RecordBatch | _Failure | None] = queue.Queue(QUEUED_BATCHES)
        self._thread = threading.Thread(target=self._run, name="interbed-read", daemon=True)
        self._thread.start()

    def next(self) -> pa.RecordBatch | None:
        """Return the next batch, None at the end; raises what the source raised."""
        while True:
            try:
                item = self._queue.get(timeout=_POLL_SECONDS)
            except queue.Empty:
                # The thread always puts an item before it ends, so an empty queue of a dead thread is a bug.
                if self._thread.is_alive() or not self._queue.empty():
                    continue
                raise RuntimeError("a reading thread ended without a result") from None
            if isinstance(item, _Failure):
                raise item.error
            return item

    def join(self) -> None:
        """Wait for the thread, which ends at its next batch after cancellation."""
        self._thread.join(timeout=30)

    def _run(self) -> None:
        batches: Iterator[pa.RecordBatch] | None = None
        try:
            batches = self._source()
            for batch in batches:
                if not self._put(batch):
                    return
            self._put(None)
        except BaseException as error:  # noqa: BLE001 - the consuming thread raises every error
            self._put(_Failure(error))
        finally:
            close = getattr(batches, "close", None)
            if close is not None:
                close()

    def _put(self, item: "pa.RecordBatch | _Failure | None") -> bool:
        while not self._cancelled.is_set():
            try:
                self._queue.put(item, timeout=_POLL_SECONDS)
            except queue.Full:
                continue
            return True
        return False
