"""A file of a store as readers see it: a position in its content, and Arrow's input over that."""

import io
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from interbed.storage.io.api import FileIO, WrappedFileIO, open_sized
from interbed.storage.io.parallel import in_background
from interbed.storage.io.prefetch.content import WHOLE_BYTES, RangedContent, end_bytes
from interbed.storage.io.prefetch.needs import Range, ReadAhead, read_ahead_of
from interbed.storage.io.prefetch.pool import pool_of

if TYPE_CHECKING:
    from concurrent.futures import Future


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
        self.content.prefetch(steps)

    @staticmethod
    def over(content: RangedContent, *, borrowed: bool = False) -> "RangedInput":
        """An input over that content, which stays open after it where it is borrowed."""
        found = RangedInput(RangedFile(content, borrowed=borrowed), mode="r")
        found.content = content
        return found


def opened_by_ranges(fetch: Callable[[int, int], Any], size: int, limits: ReadAhead) -> pa.NativeFile:
    """An input of a file of that size; `fetch(start, end)` is the one request, and threads make several at once.

    Raises what it raises.
    """
    start = 0 if size <= WHOLE_BYTES else size - end_bytes(size)
    held = fetch(start, size) if size else b""
    return pa.BufferReader(held) if not start else opened_from(fetch, size, start, held, limits)


def opened_from(fetch: Callable[[int, int], Any], size: int, start: int, held: Any, limits: ReadAhead) -> pa.NativeFile:
    """The same where the bytes from `start` on, which are `held`, have come already."""
    return RangedInput.over(RangedContent(fetch, size, start, held, pool_of(limits)))


class PrefetchedInputs(WrappedFileIO):
    """A FileIO that is told which files will be opened soon; used by one thread, and as long as the `with` block lasts.

    What threads open holds bytes and nothing of Arrow's: each thread that decodes has memory of Arrow's to itself.
    """

    def __init__(self, inner: FileIO) -> None:
        super().__init__(inner)
        self._coming: dict[str, tuple[Future[pa.NativeFile], int]] = {}
        limits = read_ahead_of(inner)
        self._pool = None if limits is None else pool_of(limits)

    def begin(self, path: str, size: int) -> None:
        """Begin to open a file that is said to have so many bytes, and keep room for it among those that are read."""
        if path not in self._coming:
            if self._pool is not None:
                self._pool.join(size)
            self._coming[path] = in_background(lambda: open_sized(self.inner, path, size)), size

    def open_input(self, path: str) -> pa.NativeFile:
        return self.open_sized(path, None)

    def open_sized(self, path: str, size: int | None) -> pa.NativeFile:
        """See SizedOpening; raises what opening the file has raised."""
        coming = self._coming.pop(path, None)
        if coming is None:
            return open_sized(self.inner, path, size)
        future, weight = coming
        try:
            return future.result()
        finally:
            self._leave(weight)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        coming, self._coming = self._coming, {}
        for future, weight in coming.values():
            self._leave(weight)
            if not future.cancel() and future.exception() is None:
                future.result().close()

    def _leave(self, weight: int) -> None:
        if self._pool is not None:
            self._pool.leave(weight)


class SharedInputs(WrappedFileIO):
    """A FileIO that opens each file once, for as long as the `with` block lasts; threads may share it.

    It is for files that do not change. Those that are at hand, and those of stores without ranges, it opens as often as
    it is asked to.
    """

    def __init__(self, inner: FileIO) -> None:
        super().__init__(inner)
        self._lock = threading.Lock()
        self._held: dict[str, RangedInput | pa.Buffer] = {}

    def open_input(self, path: str) -> pa.NativeFile:
        """See FileIO; what is returned stays open in fact until the block ends."""
        return self.open_sized(path, None)

    def open_sized(self, path: str, size: int | None) -> pa.NativeFile:
        with self._lock:
            held = self._held.get(path)
        if held is not None:
            return _over(held)
        # Threads may do it twice at once, and then keep one.
        found = open_sized(self.inner, path, size)
        if isinstance(found, RangedInput):
            held = found
        elif isinstance(found, pa.BufferReader):
            held = found.read_buffer()
        else:
            return found
        with self._lock:
            known = self._held.setdefault(path, held)
        if known is not held and isinstance(held, RangedInput):
            held.close()
        return _over(known)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            held, self._held = list(self._held.values()), {}
        for each in held:
            if isinstance(each, RangedInput):
                each.close()


def _over(held: RangedInput | pa.Buffer) -> pa.NativeFile:
    return RangedInput.over(held.content, borrowed=True) if isinstance(held, RangedInput) else pa.BufferReader(held)
