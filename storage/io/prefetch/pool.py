"""The threads that fetch what files will be asked for, and how many bytes they may hold, for all files of the process.

Nobody waits for room: who gets none reads when the bytes are needed, as if nothing were read ahead.
"""

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from interbed.storage.io.prefetch.needs import ReadAhead

_LEAST_SHARE = 4 << 20
"""What each of several files may hold however short it is, unless they are so many that most of the room is less."""

_NEEDED_SHARE = 16
"""A reader that waits for bytes may hold that part of all room beyond it."""


class FetchPool:
    """Threads with a budget of bytes; safe for several threads. Use `pool_of`, so that all files share it."""

    def __init__(self, limits: ReadAhead) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._held = 0
        self._files = 0
        self._weight = 0
        # Its threads begin with the first request.
        self._threads = ThreadPoolExecutor(limits.threads, thread_name_prefix="interbed-fetch")

    @property
    def held(self) -> int:
        """Bytes that are fetched or on their way."""
        return self._held

    def share(self, weight: int) -> int:
        """About what one of the files that are read now may hold, which weighs so much."""
        most, files = self._limits.most_bytes, max(self._files, 1)
        least = min(_LEAST_SHARE, 3 * most // (4 * files))
        return least + (most - files * least) * weight // max(self._weight, weight, 1)

    def join(self, weight: int) -> None:
        """Count one more file, which weighs its size: of those that are merged, each is read as fast as it is long."""
        with self._lock:
            self._files += 1
            self._weight += weight

    def leave(self, weight: int) -> None:
        """Count one file less."""
        with self._lock:
            self._files -= 1
            self._weight -= weight

    def take(self, size: int, held: int, weight: int) -> bool:
        """Whether a file that holds so many bytes already may hold `size` more, which are counted then."""
        with self._lock:
            if self._held + size > self._limits.most_bytes:
                return False
            # A file that holds nothing gets its first piece even where shares are smaller.
            if held and held >= self.share(weight):
                return False
            self._held += size
            return True

    @property
    def needed_bytes(self) -> int:
        """What a file may take by `take_needed`."""
        return self._limits.most_bytes // _NEEDED_SHARE

    def take_needed(self, size: int) -> None:
        """Count what somebody waits for, whether there is room or not."""
        with self._lock:
            self._held += size

    def give_back(self, size: int) -> None:
        """Count so many bytes less."""
        with self._lock:
            self._held -= size

    def begin(self, work: Callable[[], Any]) -> "Future[Any]":
        """Have a thread do it."""
        return self._threads.submit(work)

    def start_threads(self) -> None:
        """Start all threads, so that the first requests need not: where much is going on each takes milliseconds."""
        all_there = threading.Event()
        try:
            # A thread is started for each piece of work as long as none of them is idle.
            for _ in range(self._limits.threads):
                self._threads.submit(all_there.wait)
        finally:
            all_there.set()


_pools: dict[ReadAhead, FetchPool] = {}
_pools_lock = threading.Lock()


def pool_of(limits: ReadAhead) -> FetchPool | None:
    """The pool of the process with these limits; None where nothing is to be read ahead."""
    if not limits.most_bytes:
        return None
    with _pools_lock:
        pool = _pools.get(limits)
        if pool is None:
            pool = _pools[limits] = FetchPool(limits)
        return pool


def _forget_pools() -> None:
    """In a forked process: the threads stayed with the parent."""
    global _pools_lock
    _pools.clear()
    _pools_lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pools)
