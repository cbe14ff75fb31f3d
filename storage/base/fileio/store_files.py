"""Files of an object store that are open: one that is read by ranges, one that is uploaded while it is written."""

import io
from collections.abc import Callable
from contextlib import suppress
from typing import Any

WHOLE_BYTES = 1 << 20
"""A file that is not larger is read whole by the request that opens it; of a larger one the end, with its footer."""

READ_AHEAD_BYTES = 1 << 20
"""The least that is asked for at once: a request costs what some hundred KiB cost."""

PART_BYTES = 8 << 20
"""The parts of an upload; 10,000 of them, the most that S3 takes, are 80 GB."""

PARTS_AT_ONCE = 4

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


class UploadedFile(io.RawIOBase):
    """A file that is there, whole, once it is closed; after an error in its `with`, or if it is left open, it never is.

    `upload` is obstore's writer; `call` runs one step of it and translates its errors.
    """

    def __init__(self, upload: Any, call: Callable[[Callable[[], Any]], Any]) -> None:
        self._upload = upload
        self._call = call
        self._written = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._written

    def write(self, content: Any) -> int:
        """Take the bytes; a part is sent when it is full."""
        if self.closed:
            raise ValueError("The file is closed.")
        view = memoryview(content)
        flat = view if view.ndim == 1 and view.format == "B" else view.cast("B")
        if len(flat):
            self._call(lambda: self._upload.write(flat))
            self._written += len(flat)
        return len(flat)

    def close(self) -> None:
        """Send the rest and let the file appear."""
        if self.closed:
            return
        try:
            self._call(self._upload.close)
        except BaseException:
            self.abort()
            raise
        super().close()

    def abort(self) -> None:
        """End the upload without a file."""
        if self.closed:
            return
        super().close()
        reason = InterruptedError("the upload was given up")
        # Whatever the store says to it, the error that led here is the one to report.
        with suppress(OSError):
            self._call(lambda: self._upload.__exit__(InterruptedError, reason, None))

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if error is None:
            self.close()
        else:
            self.abort()

    def __del__(self) -> None:
        # io would close it, and half a file would appear.
        if not self.closed:
            self.abort()
