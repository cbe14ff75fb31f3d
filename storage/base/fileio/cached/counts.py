"""How often a cache had what was asked for."""

import threading
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheCounts:
    """Blocks that were there (hits) or not (misses), the bytes of both, files that were thrown away because they were
    damaged, and those that made room for others.
    """

    hits: int = 0
    misses: int = 0
    hit_bytes: int = 0
    missed_bytes: int = 0
    damaged: int = 0
    evicted: int = 0

    @property
    def hit_rate(self) -> float:
        """The share of blocks that were there; 0 where none was asked for."""
        asked = self.hits + self.misses
        return self.hits / asked if asked else 0.0


class CacheCounter:
    """Counts for all caches of the process; safe for several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = dict.fromkeys(CacheCounts.__dataclass_fields__, 0)

    def add(self, **more: int) -> None:
        """Count by the names of CacheCounts."""
        with self._lock:
            for name, count in more.items():
                self._counts[name] += count

    @property
    def counts(self) -> CacheCounts:
        """What was counted by now."""
        with self._lock:
            return CacheCounts(**self._counts)


COUNTER = CacheCounter()
"""That of the process."""
