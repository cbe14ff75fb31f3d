"""Telling an open file what will be read of it."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

Range = tuple[int, int]
"""From one byte to before another."""


STEP_BYTES = 4 << 20
"""Of a file that is read as it lies, so many bytes are a step."""


@runtime_checkable
class FetchesAhead(Protocol):
    """An input whose bytes come from elsewhere."""

    def prefetch(self, steps: Iterable[Sequence[Range]]) -> None:
        """See RangedContent.prefetch."""
        ...


def prefetch(source: Any, steps: Callable[[], Iterable[Sequence[Range]]]) -> None:
    """Tell the file what will be read of it: step after step the ranges that are read side by side.

    Of a file that is at hand nobody asks for the steps.
    """
    if isinstance(source, FetchesAhead):
        source.prefetch(steps())


def whole_file(size: int) -> Iterator[list[Range]]:
    """The steps of whoever reads a file of so many bytes from its beginning to its end."""
    for start in range(0, size, STEP_BYTES):
        yield [(start, min(start + STEP_BYTES, size))]
