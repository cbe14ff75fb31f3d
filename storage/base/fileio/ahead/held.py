"""Files that are opened once for several who read them one after the other, such as the steps of a lookup."""

import threading
from typing import Self

import pyarrow as pa

from interbed.storage.base.fileio.ahead.file import RangedInput
from interbed.storage.base.fileio.ahead.needs import open_sized
from interbed.storage.base.fileio.api import FileIO
from interbed.storage.base.fileio.wrapped import WrappedFileIO


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
