"""Prefetching: sources are opened ahead, returned in order, and closed when they are no longer needed."""

import threading
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from interbed.storage.base.prefetch import PrefetchingIterator, chain_prefetched, map_in_threads, read_ahead
from tests.support.waits import at_most

SECONDS_MAX = at_most(60)


class RecordedSources:
    """Iterators of three items each, which record when they are opened and closed. `together` of them open at the same
    time.
    """

    def __init__(self, together: int = 1) -> None:
        self.begun: list[int] = []
        self.closed: list[int] = []
        self._together = threading.Barrier(together)

    def of(self, number: int) -> Iterator[tuple[int, int]]:
        self.begun.append(number)
        try:
            self._together.wait(SECONDS_MAX)
            for item in range(3):
                yield number, item
        finally:
            self.closed.append(number)


def test_sources_are_opened_together_and_returned_in_order() -> None:
    sources = RecordedSources(together=4)
    found = chain_prefetched([partial(sources.of, i) for i in range(8)], [1] * 8, most=4, weight=4)
    assert list(found) == [(number, item) for number in range(8) for item in range(3)]
    assert sorted(sources.closed) == list(range(8))


def test_heavy_sources_are_opened_two_at_a_time() -> None:
    sources = RecordedSources()
    found = chain_prefetched([partial(sources.of, i) for i in range(5)], [100] * 5, most=4, weight=10)
    assert next(found) == (0, 0)
    found.close()
    assert sorted(sources.begun) == [0, 1]
    assert sorted(sources.closed) == [0, 1]


def test_a_single_source_needs_no_thread() -> None:
    threads = threading.active_count()
    found = chain_prefetched([partial(RecordedSources().of, 0)], [1], most=4, weight=4)
    next(found)
    assert threading.active_count() == threads
    assert len(list(found)) == 2


def test_an_error_of_a_source_is_raised_by_next_and_the_others_are_closed() -> None:
    sources = RecordedSources()

    def failed(_: int) -> tuple[int, int]:
        raise ValueError("no such file")

    def failing() -> Iterator[tuple[int, int]]:
        return map(failed, [0])

    given: list[Callable[[], Iterator[tuple[int, int]]]] = [partial(sources.of, 0), failing, partial(sources.of, 2)]
    found = chain_prefetched(given, [1] * 3, most=3, weight=3)
    assert [next(found) for _ in range(3)] == [(0, 0), (0, 1), (0, 2)]
    with pytest.raises(ValueError, match="no such file"):
        next(found)
    assert list(found) == []
    assert sorted(sources.closed) == [0, 2]


def test_an_error_while_opening_a_source_is_raised() -> None:
    def make() -> Iterator[int]:
        raise ValueError("no")

    begun = PrefetchingIterator(make)
    with pytest.raises(ValueError, match="no"):
        next(begun)
    assert list(begun) == []
    begun.close()


def test_an_empty_iterator_ends() -> None:
    assert list(PrefetchingIterator(lambda: iter(()))) == []


def test_items_are_requested_ahead() -> None:
    asked: list[int] = []

    def items() -> Iterator[int]:
        for number in range(5):
            asked.append(number)
            yield number

    found = read_ahead(items(), 2)
    assert (next(found), asked) == (0, [0, 1, 2])
    assert (list(found), asked) == ([1, 2, 3, 4], [0, 1, 2, 3, 4])
    assert list(read_ahead(iter([1, 2]), 0)) == [1, 2]


def test_work_runs_concurrently_and_results_keep_their_order() -> None:
    together = threading.Barrier(3)

    def work(item: int) -> int:
        together.wait(SECONDS_MAX)
        return 2 * item

    assert map_in_threads(work, [1, 2, 3], most=3) == [2, 4, 6]
    assert map_in_threads(lambda item: item, [1, 2], most=1) == [1, 2]
    assert map_in_threads(lambda item: item, [1], most=9) == [1]
