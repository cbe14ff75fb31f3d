"""Letting go of the pages of mapped files that were read.

The pages of a file that is mapped into memory count as the process's memory from the first touch on, although the
system could take them back at any time. A merge that reads many large files at once would seem to need as much memory
as they have bytes.
"""

import ctypes
import sys
from collections.abc import Callable
from typing import Any

import pyarrow as pa

RELEASE_BYTES = 4 << 20
"""After decoding about so many bytes pages are released: often enough to be few, rarely enough to cost nothing."""
_DONT_NEED = 4


def _madvise() -> Callable[[int, int, int], int] | None:
    # Elsewhere the advice has another number, or drops what was written.
    if not sys.platform.startswith("linux"):
        return None
    function: Any = ctypes.CDLL(None).madvise
    function.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    found: Callable[[int, int, int], int] = function
    return found


_ADVISE = _madvise()


class MappedPages:
    """The pages of one open file; does nothing for files that are not mapped."""

    def __init__(self, source: pa.NativeFile) -> None:
        self._pending = 0
        self._source = source if isinstance(source, pa.MemoryMappedFile) else None
        self._buffer: pa.Buffer | None = None

    def read(self, size: int) -> None:
        """Note that so many bytes were decoded; the pages behind them leave the process's memory now and then.

        Pages that are still needed are mapped again at the next touch, from the system's cache.
        """
        self._pending += size
        if self._source is None or self._pending < RELEASE_BYTES or _ADVISE is None:
            return
        self._pending = 0
        if self._buffer is None:
            # Asked for late: the system is told then that the whole file is needed, which few reads are worth.
            before = self._source.tell()
            self._source.seek(0)
            self._buffer = self._source.read_buffer(self._source.size())
            self._source.seek(before)
        # A refusal does no harm: it is advice.
        _ADVISE(self._buffer.address, self._buffer.size, _DONT_NEED)
