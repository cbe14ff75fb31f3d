"""Doing what takes long to begin, such as opening files of a store, before it is its turn."""

import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Generic, TypeVar

_T = TypeVar("_T")
_R = TypeVar("_R")


def ahead_of(items: Iterator[_T], count: int) -> Iterator[_T]:
    """The same items, each asked for when `count` are still to be handed out before it."""
    known: deque[_T] = deque()
    for item in items:
        known.append(item)
        if len(known) > count:
            yield known.popleft()
    yield from known


def at_once(work: Callable[[_T], _R], items: Sequence[_T], *, most: int) -> list[_R]:
    """What comes of each item, `most` of them at the same time; raises what the first that failed has raised.

    For work that reads and decodes, and may do several things at once itself; for small requests and nothing else there
    is `io.at_once`, whose threads stay.
    """
    if len(items) < 2 or most < 2:
        return [work(item) for item in items]
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(min(most, len(items)), thread_name_prefix="interbed-at-once") as pool:
        return list(pool.map(work, items))


class Begun(Generic[_T]):
    """An iterator whose first item a thread asks for meanwhile; the others are asked for when they are needed.

    `make` gives the iterator, which is used by one thread at a time. What it raises is raised by `next`.
    """

    def __init__(self, make: Callable[[], Iterator[_T]]) -> None:
        self._iterator: Iterator[_T] | None = None
        self._first: list[_T] = []
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = threading.Thread(
            target=self._begin, args=(make,), name="interbed-begin", daemon=True
        )
        self._thread.start()

    def __iter__(self) -> "Begun[_T]":
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
        """Close the iterator, once its first item has come."""
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
        except BaseException as error:  # noqa: BLE001 - whatever it is, the thread that takes the items raises it
            self._error = error

    def _join(self) -> None:
        if self._thread is not None:
            self._thread.join()
            self._thread = None


class Unopened(Generic[_T]):
    """An iterator that is made by `begin`, or else when its first item is asked for. Used by one thread at a time."""

    def __init__(self, make: Callable[[], Iterator[_T]]) -> None:
        self._make = make
        self._iterator: Iterator[_T] | None = None

    def begin(self) -> None:
        """Make the iterator; raises what that raises."""
        if self._iterator is None:
            self._iterator = self._make()

    def __iter__(self) -> "Unopened[_T]":
        return self

    def __next__(self) -> _T:
        self.begin()
        assert self._iterator is not None
        return next(self._iterator)

    def close(self) -> None:
        """Close the iterator, if it was made."""
        close = getattr(self._iterator, "close", None)
        if close is not None:
            close()


def one_after_another(
    sources: Sequence[Callable[[], Iterator[_T]]], weights: Sequence[int], *, most: int, weight: int
) -> Generator[_T, None, None]:
    """The items of all sources in order, the next ones of which are begun while one is read.

    With the one that is read these are at most `most` sources that weigh at most `weight` together, or two.
    """
    if len(sources) == 1:
        yield from sources[0]()
        return
    waiting = deque(zip(sources, weights, strict=True))
    begun: deque[tuple[Begun[_T], int]] = deque()
    try:
        while waiting or begun:
            while waiting and (
                len(begun) < 2 or (len(begun) < most and sum(w for _, w in begun) + waiting[0][1] <= weight)
            ):
                source, size = waiting.popleft()
                begun.append((Begun(source), size))
            yield from begun[0][0]
            begun.popleft()[0].close()
    finally:
        for each, _ in begun:
            each.close()
