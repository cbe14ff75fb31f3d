"""What lookups keep in memory, for all tables of the process: decoded row groups, and what they know of files.

`lookup.cache-max-memory-size` bounds the bytes; what was used longest ago goes first.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Protocol, TypeVar, cast


class Sized(Protocol):
    """Something whose memory is known."""

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        ...


_S = TypeVar("_S", bound=Sized)


class MemoryCache:
    """Values by key, the least recently used of which go when there are too many bytes. Safe for several threads."""

    def __init__(self) -> None:
        self._values: OrderedDict[Hashable, Sized] = OrderedDict()
        self._lock = threading.Lock()
        self._bytes = 0

    @property
    def bytes(self) -> int:
        """Bytes of all values."""
        return self._bytes

    def __contains__(self, key: Hashable) -> bool:
        return key in self._values

    def get(self, key: Hashable, make: Callable[[], _S], *, limit: int) -> _S:
        """The value of the key, made when it is not there; then all are trimmed to `limit` bytes.

        Two threads that ask for the same at once may both make it.
        """
        with self._lock:
            known = self._values.get(key)
            if known is not None:
                self._values.move_to_end(key)
                return cast("_S", known)
        made = make()
        with self._lock:
            if key not in self._values and made.nbytes <= limit:
                self._values[key] = made
                self._bytes += made.nbytes
            while self._bytes > limit and self._values:
                _, gone = self._values.popitem(last=False)
                self._bytes -= gone.nbytes
        return made

    def clear(self) -> None:
        """Let go of everything."""
        with self._lock:
            self._values.clear()
            self._bytes = 0


class Recent:
    """The few values that were made last, by key. Safe for several threads."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: OrderedDict[Hashable, Any] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """The value of the key, made when it is not there."""
        with self._lock:
            known = self._values.get(key)
            if known is not None:
                self._values.move_to_end(key)
                return known
        made = make()
        with self._lock:
            self._values[key] = made
            while len(self._values) > self._most:
                self._values.popitem(last=False)
        return made


CACHE = MemoryCache()
"""The cache of the process."""
