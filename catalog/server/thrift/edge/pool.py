"""Threads that serve requests: started when there is more to do than threads, gone when there is long nothing to do."""

import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from interbed.catalog.server.threads import SupervisedThread, ThreadDeaths
from interbed.catalog.server.thrift.edge.fair_queue import ClientShare, FairQueue

logger = logging.getLogger(__name__)

THREADS_MAX = 64
"""More than database connections: some requests wait for others that write."""

IDLE_SECONDS_MAX = 60.0
"""How long a thread stays without work."""


class ThreadPool:
    """Runs jobs, each on one of at most `threads_max` threads, clients taking turns. A job takes care of its own
    errors: one that does not ends its thread, which is noted in `deaths`; others run the next jobs.
    """

    def __init__(self, threads_max: int = THREADS_MAX, *, deaths: ThreadDeaths | None = None) -> None:
        self._deaths = deaths if deaths is not None else ThreadDeaths()
        # A permit for each job that waits; the jobs themselves are in the fair queue.
        self._permits: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._jobs = FairQueue()
        self._stalled_since = 0.0
        self._threads_max = threads_max
        self._guard = threading.Lock()
        self._threads = 0
        self._idle = 0
        self._blocked = 0

    @property
    def waiting(self) -> int:
        """Jobs that wait for a thread."""
        return len(self._jobs)

    @property
    def stalled_seconds(self) -> float:
        """How long jobs have waited without one being begun, 0 if none waits."""
        with self._guard:
            return time.monotonic() - self._stalled_since if len(self._jobs) else 0.0

    def client(self, host: str) -> ClientShare:
        """The share of a new connection from an address."""
        with self._guard:
            return self._jobs.client(host)

    def submit(self, job: Callable[[], None], client: ClientShare | None = None, *, is_heavy: bool = False) -> None:
        """Run the job when it is its client's turn."""
        with self._guard:
            if not len(self._jobs):
                self._stalled_since = time.monotonic()
            self._jobs.put(job, client, is_heavy=is_heavy)
            number = self._number_to_start(self._permits.qsize() + 1)
        # The last step, because the thread that takes the permit needs the lock.
        self._permits.put(True)
        self._start(number)

    def look_again(self) -> None:
        """Run jobs of kinds whose running jobs turned out to wait for something; now and then."""
        with self._guard:
            count = max(0, min(len(self._jobs), self._threads_max) - self._permits.qsize())
        for _ in range(count):
            self._permits.put(True)
        if count:
            self._start_if_needed()

    @contextmanager
    def blocked(self) -> Iterator[None]:
        """While a job waits for something outside of the server: another thread may serve meanwhile."""
        with self._guard:
            self._blocked += 1
        try:
            self._start_if_needed()
            yield
        finally:
            with self._guard:
                self._blocked -= 1

    def close(self) -> None:
        """Let the threads end when all jobs are done."""
        with self._guard:
            threads = self._threads
        for _ in range(threads):
            self._permits.put(False)

    def _start_if_needed(self) -> None:
        with self._guard:
            number = self._number_to_start(self._permits.qsize())
        self._start(number)

    def _number_to_start(self, permits: int) -> int:
        """Count one thread more if there are permits without a thread, and return its number, else 0. Locked."""
        # A thread that is idle may have been counted on by an earlier job: one thread too many does no harm.
        if self._idle >= permits or self._threads >= self._threads_max + self._blocked:
            return 0
        self._threads += 1
        return self._threads

    def _start(self, number: int) -> None:
        if number:
            SupervisedThread(self._work, name=f"requests {number}", deaths=self._deaths).start()

    def _work(self) -> None:
        with self._guard:
            stays = self._rests()
        while stays:
            try:
                permit = self._permits.get(timeout=IDLE_SECONDS_MAX)
            except queue.Empty:
                permit = False
            with self._guard:
                self._idle -= 1
                if not permit:
                    # A job that came in between finds another thread, or starts one.
                    self._threads -= 1
                    return
                job = self._jobs.take()
                if job is None:
                    # Only jobs of kinds of which enough run: the end of one, or `look_again`, gives the next permit.
                    stays = self._rests()
                    continue
                self._stalled_since = time.monotonic()
            ended_well = False
            try:
                job.run()
                ended_well = True
            finally:
                with self._guard:
                    another = self._jobs.ended(job)
                    if ended_well:
                        stays = self._rests()
                    else:
                        self._threads -= 1
                if another:
                    self._permits.put(True)
            del job

    def _rests(self) -> bool:
        """Count the thread as idle, or as ended if there are too many; whether it stays. Locked."""
        if self._threads > self._threads_max + self._blocked:
            self._threads -= 1
            return False
        self._idle += 1
        return True
