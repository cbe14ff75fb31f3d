"""Versions of files in object stores: a value, and the protocol of file systems that know them."""

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from interbed.storage.io.prefetch.needs import ReadAhead


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
