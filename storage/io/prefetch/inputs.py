"""Inputs of remote files: a position in a content, Arrow's input over it, and inputs that are opened in advance.

PrefetchedInputs are opened by threads that only send requests. SharedInputs are opened once for several readers, such
as the steps of a lookup.
"""

import io
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from interbed.storage.io.api import FileIO, Range, ReadAhead, WrappedFileIO, open_sized, read_ahead_of
from interbed.storage.io.parallel import in_background
from interbed.storage.io.prefetch.content import WHOLE_BYTES, RangedContent, end_bytes
from interbed.storage.io.prefetch.pool import pool_of

if TYPE_CHECKING:
    from concurrent.futures import Future

    from interbed.storage.io.api import VersionedFiles


class RangedFile(io.RawIOBase):
    """File that is read by ranges; not safe for several threads, but Arrow's input locks it.

    Closing it closes the content, unless that is `borrowed`.
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
        """Return the size in bytes; Arrow calls this."""
        return self._content.size

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self.size()}[whence]
        if base + offset < 0:
            raise ValueError(f"A file has no position {base + offset}.")
        self._position = base + offset
        return self._position

    def read(self, size: int | None = -1) -> bytes:
        """Return at most `size` bytes, all bytes that are left without it."""
        return bytes(self.read_buffer(size))

    def read_buffer(self, size: int | None = -1) -> memoryview:
        """Return the same without a copy; Arrow calls this where it can."""
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
        """Free the content, unless it is borrowed."""
        if not self.closed and not self._borrowed:
            self._content.close()
        super().close()


class RangedInput(pa.PythonFile):
    """Arrow's input over a file that is read by ranges; readers may announce ranges."""

    content: RangedContent

    def prefetch(self, steps: Iterable[Sequence[Range]]) -> None:
        self.content.prefetch(steps)

    @staticmethod
    def over(content: RangedContent, *, borrowed: bool = False) -> "RangedInput":
        """Return an input over the content, which stays open after the input is closed if it is borrowed."""
        found = RangedInput(RangedFile(content, borrowed=borrowed), mode="r")
        found.content = content
        return found


def opened_by_ranges(fetch: Callable[[int, int], Any], size: int, limits: ReadAhead) -> pa.NativeFile:
    """Return an input of a file of `size` bytes. `fetch(start, end)` is one request, and threads send several.

    Raises the errors of `fetch`.
    """
    start = 0 if size <= WHOLE_BYTES else size - end_bytes(size)
    held = fetch(start, size) if size else b""
    return pa.BufferReader(held) if not start else opened_from(fetch, size, start, held, limits)


def opened_from(fetch: Callable[[int, int], Any], size: int, start: int, held: Any, limits: ReadAhead) -> pa.NativeFile:
    """Return an input of a file of which the bytes from `start` on, which are `held`, were read already."""
    return RangedInput.over(RangedContent(fetch, size, start, held, pool_of(limits)))


def opened_by_end(files: "VersionedFiles", path: str, size: int | None) -> pa.NativeFile:
    """Return an input of a file, opened by the request that reads its end; `size` is in bytes, and may be wrong."""
    end = files.end_of(path, size=size)
    assert end is not None
    if len(end.held) == end.size:
        return pa.BufferReader(end.held)
    return opened_from(partial(files.range_of, path), end.size, end.start, end.held, files.read_ahead)


class PrefetchedInputs(WrappedFileIO):
    """FileIO that opens announced files in advance, by threads; for one thread, within a `with` block.

    The opening threads hold only bytes, and no memory of Arrow: each decoding thread has its own memory of Arrow.
    """

    def __init__(self, inner: FileIO) -> None:
        super().__init__(inner)
        self._opening: dict[str, tuple[Future[pa.NativeFile], int]] = {}
        limits = read_ahead_of(inner)
        self._pool = None if limits is None else pool_of(limits)

    def begin(self, path: str, size: int) -> None:
        """Begin to open a file whose size in bytes is known, and reserve its share of the budget."""
        if path not in self._opening:
            if self._pool is not None:
                self._pool.join(size)
            self._opening[path] = in_background(lambda: open_sized(self.inner, path, size)), size

    def open_input(self, path: str) -> pa.NativeFile:
        return self.open_sized(path, None)

    def open_sized(self, path: str, size: int | None) -> pa.NativeFile:
        """Open the file like SizedOpening; raises the error of the thread that opened it."""
        opening = self._opening.pop(path, None)
        if opening is None:
            return open_sized(self.inner, path, size)
        future, weight = opening
        try:
            return future.result()
        finally:
            self._leave(weight)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        opening, self._opening = self._opening, {}
        for future, weight in opening.values():
            self._leave(weight)
            if not future.cancel() and future.exception() is None:
                future.result().close()

    def _leave(self, weight: int) -> None:
        if self._pool is not None:
            self._pool.leave(weight)


class SharedInputs(WrappedFileIO):
    """FileIO that opens each file once within a `with` block; threads may share it.

    It is for files that do not change. Local files, and remote ones that can't be read by ranges, are opened by each
    call.
    """

    def __init__(self, inner: FileIO) -> None:
        super().__init__(inner)
        self._lock = threading.Lock()
        self._held: dict[str, RangedInput | pa.Buffer] = {}

    def open_input(self, path: str) -> pa.NativeFile:
        """Open the file like FileIO; its content stays open until the block ends."""
        return self.open_sized(path, None)

    def open_sized(self, path: str, size: int | None) -> pa.NativeFile:
        with self._lock:
            held = self._held.get(path)
        if held is not None:
            return _over(held)
        # Two threads may open it at the same time; one of the two inputs is kept.
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
