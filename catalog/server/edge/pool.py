"""Threads that serve requests: started when there is more to do than threads, gone when there is long nothing to do."""

import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable

from interbed.catalog.server.threads import SupervisedThread, ThreadDeaths

logger = logging.getLogger(__name__)

THREADS_MAX = 64
"""More than database connections: some requests wait for a file system."""

IDLE_SECONDS_MAX = 60.0
"""How long a thread stays without work."""


class ThreadPool:
    """Runs jobs, each on one of at most `threads_max` threads, in their order. A job takes care of its own errors: one
    that does not ends its thread, which is noted in `deaths`; others run the next jobs.
    """

    def __init__(self, threads_max: int = THREADS_MAX, *, deaths: ThreadDeaths | None = None) -> None:
        self._deaths = deaths if deaths is not None else ThreadDeaths()
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._submitted: deque[float] = deque()
        self._threads_max = threads_max
        self._guard = threading.Lock()
        self._threads = 0
        self._idle = 0

    @property
    def oldest_wait_seconds(self) -> float:
        """How long the oldest job has waited for a thread, 0 if none waits."""
        with self._guard:
            return time.monotonic() - self._submitted[0] if self._submitted else 0.0

    def submit(self, job: Callable[[], None]) -> None:
        """Run the job soon."""
        with self._guard:
            self._submitted.append(time.monotonic())
            self._jobs.put(job)
            # A thread that is idle may have been counted on by an earlier job: one thread too many does no harm.
            if self._idle >= self._jobs.qsize() or self._threads >= self._threads_max:
                return
            self._threads += 1
            number = self._threads
        SupervisedThread(self._work, name=f"requests {number}", deaths=self._deaths).start()

    def close(self) -> None:
        """Let the threads end when all jobs are done."""
        with self._guard:
            threads = self._threads
        for _ in range(threads):
            self._jobs.put(None)

    def _work(self) -> None:
        while True:
            with self._guard:
                self._idle += 1
            try:
                job = self._jobs.get(timeout=IDLE_SECONDS_MAX)
            except queue.Empty:
                job = None
            with self._guard:
                self._idle -= 1
                if job is None:
                    # A job that came in between finds another thread, or starts one.
                    self._threads -= 1
                else:
                    self._submitted.popleft()
            if job is None:
                return
            ended_well = False
            try:
                job()
                ended_well = True
            finally:
                if not ended_well:
                    with self._guard:
                        self._threads -= 1
