"""Which requests get the ranges of a file that are needed: neighbours together, and what is large in several pieces."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from interbed.storage.base.fileio.ahead.needs import Range

GAP_BYTES = 512 << 10
"""What lies between two ranges is fetched along with them when it is not more: a request costs about as much."""

PIECE_BYTES = 4 << 20
"""A request for more takes longer than two that are sent at once."""

ALIGNED_BYTES = 1 << 20
"""Pieces of one range are multiples of this, so that reads of buffers of that size do not cross their borders."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """What one request gets, `wanted` bytes of which were asked for."""

    start: int
    end: int
    wanted: int


def stretches_of(ranges: Iterable[Range], *, gap: int = GAP_BYTES, most: int = PIECE_BYTES) -> list[Stretch]:
    """The requests for ranges that are read side by side, each from its beginning to its end, in the order of need.

    They do not overlap, hold all of the ranges, and are of at most `most` bytes. Neighbours with at most `gap` bytes
    between them are put together where that is not too much. Of several large ranges the beginnings come first.
    """
    found: list[tuple[float, Stretch]] = []
    together: list[Range] = []

    def flush() -> None:
        if together:
            wanted = sum(high - low for low, high in together)
            found.append((0.0, Stretch(together[0][0], together[-1][1], wanted)))
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


def _divided(low: int, high: int, most: int) -> Iterator[tuple[float, Stretch]]:
    count = -(-(high - low) // most)
    size = -(-(high - low) // count)
    size = min(most, -(-size // ALIGNED_BYTES) * ALIGNED_BYTES)
    for at in range(low, high, size):
        end = min(at + size, high)
        yield (at - low) / (high - low), Stretch(at, end, end - at)


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
