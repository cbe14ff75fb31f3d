"""What lookups keep in memory, for all tables of the process: decoded row groups, and what they know of files.

`lookup.cache-max-memory-size` bounds the bytes; what was used longest ago goes first.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any

from interbed.storage.base.memory_cache import MemoryCache


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
