"""LRU caches in memory, safe for several threads: of a few values by number, of many values by their bytes."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, Protocol, TypeVar, cast

_T = TypeVar("_T")


class LruCache(Generic[_T]):
    """At most so many values; the one that was used longest ago goes first. Safe for several threads."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: OrderedDict[Hashable, _T] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], _T]) -> _T:
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

    def discard(self, key: Hashable) -> None:
        """Let go of the value of the key, if it is there."""
        with self._lock:
            gone = self._values.pop(key, None)
            if gone is not None:
                self._bytes -= gone.nbytes

    def clear(self) -> None:
        """Let go of everything."""
        with self._lock:
            self._values.clear()
            self._bytes = 0
