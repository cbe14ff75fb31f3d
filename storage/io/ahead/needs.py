"""Reading ahead: its limits by the options of a catalog, and the ranges of an open file that a reader announces.

This module is loaded with any FileIO, so it imports little.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from interbed.storage.base.errors import InvalidOptionError
from interbed.storage.base.quantities import parse_memory
from interbed.storage.io.api import FileIO

READ_AHEAD = "store.read-ahead"
READ_THREADS = "store.read-threads"
PREFIX = "store."
"""How the options of reading ahead begin."""

MOST_THREADS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadAhead:
    """What may be read before it is needed: so many bytes, none for 0, by so many requests at once."""

    most_bytes: int = 64 << 20
    threads: int = 32

    @staticmethod
    def of(options: Mapping[str, str]) -> "ReadAhead":
        """Those that options name; raises InvalidOptionError for one that begins with `store.` and is not known."""
        known = ReadAhead()
        most, threads = known.most_bytes, known.threads
        for key, value in options.items():
            if key == READ_AHEAD:
                most = parse_memory(key, value)
            elif key == READ_THREADS:
                if not value.strip().isdecimal() or not 1 <= int(value) <= MOST_THREADS:
                    raise InvalidOptionError(f"The option '{key}' is a number from 1 to {MOST_THREADS}, not '{value}'.")
                threads = int(value)
            elif key.startswith(PREFIX):
                raise InvalidOptionError(
                    f"Nothing is known of the option '{key}'. Known are {READ_AHEAD} and {READ_THREADS}."
                )
        return ReadAhead(most_bytes=most, threads=threads)


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
