"""What a store must tell so that its files can be cached: versions, by which it is seen that a file is the same."""

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from interbed.storage.io.ahead.needs import ReadAhead


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEnd:
    """The end of a file, or all of it: where that begins, the bytes, the size of the file, and its version."""

    size: int
    start: int
    held: Any
    version: str


@runtime_checkable
class VersionedFiles(Protocol):
    """A FileIO that can say of a file that it has not changed, without sending it."""

    read_ahead: ReadAhead

    def end_of(self, path: str, *, unless: str | None = None, size: int | None = None) -> StoredEnd | None:
        """The end of a file by one request; None where it has that version still. Raises FileNotFoundError.

        The `size` is what it is said to have, which need not be right.
        """
        ...

    def range_of(self, path: str, start: int, end: int) -> Any:
        """The bytes from one place to before another by one request."""
        ...
