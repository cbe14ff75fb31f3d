"""Limits of prefetching, from the options of a catalog, and the announcement of the ranges that a reader needs.

This module is loaded with every FileIO, so it imports little.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from interbed.storage.base.errors import InvalidOptionError
from interbed.storage.base.quantities import parse_memory
from interbed.storage.io.api import FileIO

READ_AHEAD = "store.read-ahead"
READ_THREADS = "store.read-threads"
PREFIX = "store."
"""Prefix of the options of prefetching."""

MOST_THREADS = 256

Range = tuple[int, int]
"""First byte of a range, and the byte after its last one."""

STEP_BYTES = 4 << 20
"""Length of a step of a reader that reads a file from its beginning to its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadAhead:
    """Limits of prefetching: bytes that may be fetched before they are needed (0 for none), and parallel requests."""

    most_bytes: int = 64 << 20
    threads: int = 32

    @staticmethod
    def of(options: Mapping[str, str]) -> "ReadAhead":
        """Return the limits that options name; raises InvalidOptionError for an unknown option of this prefix."""
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


@runtime_checkable
class PrefetchingInput(Protocol):
    """Input of a remote file, which fetches announced ranges before they are read."""

    def prefetch(self, steps: Iterable[Sequence[Range]]) -> None:
        """Fetch the ranges of the steps in order; see RangedContent.prefetch."""
        ...


def read_ahead_of(file_io: FileIO) -> ReadAhead | None:
    """Return the limits of prefetching of a FileIO; None where it has none."""
    limits: ReadAhead | None = getattr(file_io, "read_ahead", None)
    return limits


def prefetch(source: Any, steps: Callable[[], Iterable[Sequence[Range]]]) -> None:
    """Announce what will be read of an input: for each step the ranges that are read side by side.

    `steps` is not called for inputs that don't prefetch, such as those of local files.
    """
    if isinstance(source, PrefetchingInput):
        source.prefetch(steps())


def whole_file(size: int) -> Iterator[list[Range]]:
    """Yield the steps of a reader that reads a file of `size` bytes from its beginning to its end."""
    for start in range(0, size, STEP_BYTES):
        yield [(start, min(start + STEP_BYTES, size))]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEnd:
    """End of a file, or all of it: the bytes from `start` on, the size of the file, and its version."""

    size: int
    start: int
    held: Any
    version: str


@runtime_checkable
class VersionedFiles(Protocol):
    """FileIO that can report without sending a file that it has not changed."""

    read_ahead: ReadAhead

    def end_of(self, path: str, *, unless: str | None = None, size: int | None = None) -> StoredEnd | None:
        """Return the end of a file by one request; None if its version is `unless`. Raises FileNotFoundError.

        `size` is the assumed size in bytes, which may be wrong.
        """
        ...

    def range_of(self, path: str, start: int, end: int) -> Any:
        """Return the bytes from `start` to before `end` by one request."""
        ...
