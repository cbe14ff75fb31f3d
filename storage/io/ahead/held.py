"""Inputs that are opened for later: ahead of their turn, or once for several readers.

`ComingInputs` are opened by threads that only send requests. `HeldInputs` are read several times, such as by the steps
of a lookup.
"""

import threading
from typing import TYPE_CHECKING, Self

import pyarrow as pa

from interbed.storage.io.ahead.file import RangedInput
from interbed.storage.io.ahead.needs import open_sized, read_ahead_of
from interbed.storage.io.ahead.pool import pool_of
from interbed.storage.io.api import FileIO
from interbed.storage.io.at_once import begun
from interbed.storage.io.wrapped import WrappedFileIO

if TYPE_CHECKING:
    from concurrent.futures import Future


class ComingInputs(WrappedFileIO):
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
            self._coming[path] = begun(lambda: open_sized(self.inner, path, size)), size

    def open_input(self, path: str) -> pa.NativeFile:
        """See FileIO."""
        return self.open_sized(path, None)

    def open_sized(self, path: str, size: int | None) -> pa.NativeFile:
        """See OpensSized; raises what opening the file has raised."""
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


class HeldInputs(WrappedFileIO):
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
        """See OpensSized."""
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
