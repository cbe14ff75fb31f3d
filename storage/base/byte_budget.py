"""Work of known cost: its distribution over workers, and its admission within a budget of bytes.

`spread` gives the longest piece first, each to the worker with the least work. The busiest worker then takes at most
4/3 - 1/(3m) of the time of the best possible distribution over m workers (R. L. Graham, Bounds on Multiprocessing
Timing Anomalies, 1969); in the order of arrival it may be 2 - 1/m. `ByteBudget` is a weighted semaphore.
"""

import heapq
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate


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
