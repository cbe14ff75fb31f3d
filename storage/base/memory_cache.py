"""LRU caches in memory, safe for use by several threads: one bounded by the number of values, one by their bytes."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, Protocol, TypeVar, cast

_T = TypeVar("_T")


class LruCache(Generic[_T]):
    """LRU cache of a bounded number of values. Safe for use by several threads."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: OrderedDict[Hashable, _T] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], _T]) -> _T:
        """Return the value of the key; `make` creates it when it is not cached."""
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


class HasByteSize(Protocol):
    """A value that knows its size in memory."""

    @property
    def nbytes(self) -> int:
        """The size of the value in memory, in bytes."""
        ...


_S = TypeVar("_S", bound=HasByteSize)


class MemoryCache:
    """LRU cache whose values have a bounded total size in bytes. Safe for use by several threads."""

    def __init__(self) -> None:
        self._values: OrderedDict[Hashable, HasByteSize] = OrderedDict()
        self._lock = threading.Lock()
        self._bytes = 0

    @property
    def bytes(self) -> int:
        """The total size of the cached values, in bytes."""
        return self._bytes

    def __contains__(self, key: Hashable) -> bool:
        return key in self._values

    def get(self, key: Hashable, make: Callable[[], _S], *, limit: int) -> _S:
        """Return the value of the key, created by `make` when it is not cached; evict values above `limit` bytes.

        Two threads that request the same key at once may both create its value.
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
                _, evicted = self._values.popitem(last=False)
                self._bytes -= evicted.nbytes
        return made

    def discard(self, key: Hashable) -> None:
        """Remove the value of the key, if it is cached."""
        with self._lock:
            evicted = self._values.pop(key, None)
            if evicted is not None:
                self._bytes -= evicted.nbytes

    def clear(self) -> None:
        """Remove all values from the cache."""
        with self._lock:
            self._values.clear()
            self._bytes = 0
