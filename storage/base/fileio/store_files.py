"""A file of an object store that is open: it is read by ranges."""

import io
from collections.abc import Callable
from typing import Any

WHOLE_BYTES = 1 << 20
"""A file that is not larger is read whole by the request that opens it; of a larger one the end, with its footer."""

READ_AHEAD_BYTES = 1 << 20
"""The least that is asked for at once: a request costs what some hundred KiB cost."""

_WINDOWS_MAX = 16
"""Readers go through the columns of a file at the same time, each in a window of its own."""


class RangedFile(io.RawIOBase):
    """A file of `size` bytes of which windows are fetched; not safe for several threads, Arrow's input locks it.

    `fetch(start, end)` is the one request; `start` and `held` are what came when the file was opened.
    """

    def __init__(self, fetch: Callable[[int, int], Any], size: int, start: int, held: Any) -> None:
        self._fetch = fetch
        self._size = size
        # What was opened stays: it is the footer, which readers come back to.
        self._opened = (start, memoryview(held))
        self._windows: list[tuple[int, memoryview]] = []
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def size(self) -> int:
        """In bytes; Arrow asks for it."""
        return self._size

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        if base + offset < 0:
            raise ValueError(f"A file has no place {base + offset}.")
        self._position = base + offset
        return self._position

    def read(self, size: int | None = -1) -> bytes:
        """Up to that many bytes."""
        end = self._size if size is None or size < 0 else min(self._size, self._position + size)
        if end <= self._position:
            return b""
        content = bytes(self._between(self._position, end))
        self._position = end
        return content

    def readall(self) -> bytes:
        return self.read()

    def readinto(self, buffer: Any) -> int:
        target = memoryview(buffer).cast("B")
        end = min(self._size, self._position + len(target))
        count = max(0, end - self._position)
        if count:
            target[:count] = self._between(self._position, end)
            self._position = end
        return count

    def _between(self, start: int, end: int) -> memoryview:
        first, held = self._opened
        if first <= start and end <= first + len(held):
            return held[start - first : end - first]
        for place, (first, held) in enumerate(self._windows):
            if first <= start and end <= first + len(held):
                # Those that are read stay.
                self._windows.insert(0, self._windows.pop(place))
                return held[start - first : end - first]
        # What is at the end of the file is there already.
        first = self._opened[0]
        if start < first < end:
            return memoryview(
                bytes(self._fetched(start, first)[: first - start]) + bytes(self._opened[1][: end - first])
            )
        return self._fetched(start, end)[: end - start]

    def _fetched(self, start: int, end: int) -> memoryview:
        until = max(end, min(start + READ_AHEAD_BYTES, self._size))
        window = memoryview(self._fetch(start, until))
        if len(window) < end - start:
            raise OSError(f"the store has sent {len(window)} of {until - start} bytes")
        if len(window) <= 2 * READ_AHEAD_BYTES:
            self._windows = [(start, window), *self._windows[: _WINDOWS_MAX - 1]]
        return window
