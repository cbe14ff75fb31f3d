"""Prefetching iterators: open the next sources, such as files in an object store, while one is read."""

import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Generic, TypeVar

_T = TypeVar("_T")
_R = TypeVar("_R")


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
