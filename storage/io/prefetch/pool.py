"""Threads that prefetch, and their budget of bytes, for all files of the process.

No reader waits for the budget: without it a file is read on demand.
"""

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from interbed.storage.io.api import ReadAhead

_LEAST_SHARE = 4 << 20
"""Least share of a file, even of a small one, unless these shares together exceed most of the budget."""

_NEEDED_SHARE = 16
"""A reader that waits for bytes may exceed the budget by 1/16 of it."""


class FetchPool:
    """Threads with a budget of bytes; safe for several threads. All files share the one of `pool_of`."""

    def __init__(self, limits: ReadAhead) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._held = 0
        self._files = 0
        self._weight = 0
        # The first request starts the threads.
        self._threads = ThreadPoolExecutor(limits.threads, thread_name_prefix="interbed-fetch")

    @property
    def held(self) -> int:
        """Bytes that were fetched or requested and are not freed yet."""
        return self._held

    def share(self, weight: int) -> int:
        """Return about how many bytes a file of this weight may hold among the files that are read now."""
        most, files = self._limits.most_bytes, max(self._files, 1)
        least = min(_LEAST_SHARE, 3 * most // (4 * files))
        return least + (most - files * least) * weight // max(self._weight, weight, 1)

    def join(self, weight: int) -> None:
        """Count one more file, weighted by its size: files that are merged are read in proportion to their sizes."""
        with self._lock:
            self._files += 1
            self._weight += weight

    def leave(self, weight: int) -> None:
        """Count one file less."""
        with self._lock:
            self._files -= 1
            self._weight -= weight

    def take(self, size: int, held: int, weight: int) -> bool:
        """Take `size` bytes of the budget for a file that holds `held` bytes; return whether it got them."""
        with self._lock:
            if self._held + size > self._limits.most_bytes:
                return False
            # A file that holds nothing gets its first range even where shares are smaller.
            if held and held >= self.share(weight):
                return False
            self._held += size
            return True

    @property
    def needed_bytes(self) -> int:
        """Bytes that a file may take by `take_needed`."""
        return self._limits.most_bytes // _NEEDED_SHARE

    def take_needed(self, size: int) -> None:
        """Take bytes that a reader waits for, even beyond the budget."""
        with self._lock:
            self._held += size

    def give_back(self, size: int) -> None:
        """Return bytes to the budget."""
        with self._lock:
            self._held -= size

    def begin(self, work: Callable[[], Any]) -> "Future[Any]":
        """Run the work in a thread of the pool."""
        return self._threads.submit(work)

    def start_threads(self) -> None:
        """Start all threads before the first requests: on a busy machine each start takes milliseconds."""
        all_there = threading.Event()
        try:
            # The executor starts a thread for each piece of work while no thread is idle.
            for _ in range(self._limits.threads):
                self._threads.submit(all_there.wait)
        finally:
            all_there.set()


_pools: dict[ReadAhead, FetchPool] = {}
_pools_lock = threading.Lock()


def pool_of(limits: ReadAhead) -> FetchPool | None:
    """Return the pool of the process with these limits; None where they allow no prefetch."""
    if not limits.most_bytes:
        return None
    with _pools_lock:
        pool = _pools.get(limits)
        if pool is None:
            pool = _pools[limits] = FetchPool(limits)
        return pool


def _forget_pools() -> None:
    """Drop the pools in a forked process, in which their threads don't run."""
    global _pools_lock
    _pools.clear()
    _pools_lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pools)
