"""A file of a store as readers see it: a position in its content, and Arrow's input over that."""

import io
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from interbed.storage.io.ahead.content import RangedContent
from interbed.storage.io.ahead.needs import Range


class RangedFile(io.RawIOBase):
    """A file that is read by ranges; not safe for several threads, Arrow's input locks it.

    Closing it closes the content, unless it is `borrowed`.
    """

    def __init__(self, content: RangedContent, *, borrowed: bool = False) -> None:
        self._content = content
        self._borrowed = borrowed
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def size(self) -> int:
        """In bytes; Arrow asks for it."""
        return self._content.size

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self.size()}[whence]
        if base + offset < 0:
            raise ValueError(f"A file has no place {base + offset}.")
        self._position = base + offset
        return self._position

    def read(self, size: int | None = -1) -> bytes:
        """Up to that many bytes."""
        return bytes(self.read_buffer(size))

    def read_buffer(self, size: int | None = -1) -> memoryview:
        """The same without a copy; Arrow asks for it where it can."""
        end = self.size() if size is None or size < 0 else min(self.size(), self._position + size)
        if end <= self._position:
            return memoryview(b"")
        content = self._content.between(self._position, end)
        self._position = end
        return content

    def readall(self) -> bytes:
        return self.read()

    def readinto(self, buffer: Any) -> int:
        target = memoryview(buffer).cast("B")
        content = self.read_buffer(len(target))
        target[: len(content)] = content
        return len(content)

    def close(self) -> None:
        """Let go of what was fetched, and of what is on its way."""
        if not self.closed and not self._borrowed:
            self._content.close()
        super().close()


class RangedInput(pa.PythonFile):
    """Arrow's input over a file that is read by ranges, which readers may tell what they will need."""

    content: RangedContent

    def prefetch(self, steps: Iterable[Sequence[Range]]) -> None:
        """See RangedContent."""
        self.content.prefetch(steps)

    @staticmethod
    def over(content: RangedContent, *, borrowed: bool = False) -> "RangedInput":
        """An input over that content, which stays open after it where it is borrowed."""
        found = RangedInput(RangedFile(content, borrowed=borrowed), mode="r")
        found.content = content
        return found
