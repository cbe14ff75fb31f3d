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
        self._buffer: pa.Buffer | None = None
        if isinstance(source, pa.MemoryMappedFile) and _ADVISE is not None:
            self._buffer = source.read_buffer(source.size())
            source.seek(0)

    def read(self, size: int) -> None:
        """Note that so many bytes were decoded; the pages behind them leave the process's memory now and then.

        Pages that are still needed are mapped again at the next touch, from the system's cache.
        """
        self._pending += size
        if self._buffer is not None and self._pending >= RELEASE_BYTES and _ADVISE is not None:
            self._pending = 0
            # A refusal does no harm: it is advice.
            _ADVISE(self._buffer.address, self._buffer.size, _DONT_NEED)
