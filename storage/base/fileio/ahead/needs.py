"""Telling a store what is known of a file, and an open file what will be read of it."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from interbed.storage.base.fileio.ahead.limits import ReadAhead
from interbed.storage.base.fileio.api import FileIO

if TYPE_CHECKING:
    import pyarrow as pa

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


@runtime_checkable
class OpensSized(Protocol):
    """A FileIO that sends less where it is known how large a file is."""

    def open_sized(self, path: str, size: int | None) -> "pa.NativeFile":
        """As open_input; where the size, which need not be right, is not known, it is None."""
        ...


def read_ahead_of(file_io: FileIO) -> ReadAhead | None:
    """How much of the files of a FileIO is read before it is needed; None where that is not told."""
    limits: ReadAhead | None = getattr(file_io, "read_ahead", None)
    return limits


def open_sized(file_io: FileIO, path: str, size: int | None) -> "pa.NativeFile":
    """A seekable input of a file that is said to have so many bytes; raises FileNotFoundError."""
    return file_io.open_sized(path, size) if isinstance(file_io, OpensSized) else file_io.open_input(path)


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
