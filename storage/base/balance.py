"""Work of known cost dealt out: the longest first, each piece to whoever has the least. Pure.

The one who is busy longest is so for at most 4/3 - 1/(3m) of the time that the best way to deal it out takes, with m
who share it (R. L. Graham, Bounds on Multiprocessing Timing Anomalies, 1969); in the order in which the work comes it
may be 2 - 1/m.
"""

import heapq
from collections.abc import Iterable, Sequence
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
