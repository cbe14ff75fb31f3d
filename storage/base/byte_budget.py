"""Work of known cost: spread over workers, and admitted while there is room for it.

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
    """The indexes of the costs, greatest first; of equal ones in their order."""
    return sorted(range(len(costs)), key=lambda index: -costs[index])


def first_within(costs: Iterable[float], most: float) -> int:
    """How many of the first costs, none of which is below zero, are at most `most` together."""
    return sum(total <= most for total in accumulate(costs))


def spread(costs: Sequence[float], bins: int) -> list[list[int]]:
    """The indexes of the costs in at most `bins` lists, each with the longest first; none is empty.

    Depends on the costs alone; work without cost is spread by number.
    """
    found: list[list[int]] = [[] for _ in range(min(bins, len(costs)))]
    loads = [(0.0, 0, number) for number in range(len(found))]
    for index in longest_first(costs):
        load, count, number = loads[0]
        found[number].append(index)
        heapq.heapreplace(loads, (load + costs[index], count + 1, number))
    return found


class NoRoomError(Exception):
    """The room was closed before the work had begun."""


class ByteBudget:
    """Room for `count` pieces of work whatever they weigh, and for more while all of them weigh at most `weight`."""

    def __init__(self, count: int, weight: int) -> None:
        self._count = count
        self._weight = weight
        self._pieces = 0
        self._weighs = 0
        self._is_closed = False
        self._changed = threading.Condition()

    @contextmanager
    def taken(self, weight: int) -> Iterator[None]:
        """Wait for room for work of that weight, which is done in the `with` block; raises NoRoomError once closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed or self._has_room(weight))
            if self._is_closed:
                raise NoRoomError("The work before it has failed.")
            self._pieces += 1
            self._weighs += weight
        try:
            yield
        finally:
            with self._changed:
                self._pieces -= 1
                self._weighs -= weight
                self._changed.notify_all()

    def close(self) -> None:
        """Let nothing more begin; what has begun goes on."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def _has_room(self, weight: int) -> bool:
        return self._pieces < self._count or self._weighs + weight <= self._weight
