"""The shares of clients in what a process has: budgets of memory, threads, and the fair queue of the jobs that wait for
a thread.

Threads start when there are more jobs than threads, and end after a long time without a job.

Addresses are scheduled fairly, and so are the connections of an address: the next job is that of the client that was
served for the shortest time since it began to compete (start-time fair queueing). Jobs of clients with large messages
or replies are heavy, those of connections that were never served are new, all others light. Only some heavy and some
new jobs run at once, so that they leave the interpreter to the light ones. A job that has run for a while waits for
something and does not count. Of many new jobs the newest and the oldest are served alternately, so that a crowd that
came at once does not keep the next client waiting until all of it is served.
"""

import heapq
import itertools
import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum
from weakref import WeakValueDictionary

from interbed.catalog.server.threads import SupervisedThread, ThreadDeaths

MESSAGE_BYTES_MAX = 16 * 1024 * 1024
"""The longest message by default; Hive's default is 100 MB."""

LIGHT_BYTES_MAX = 16 * 1024
"""Messages up to this length are decoded without a budget: all threads together cannot hold much of them."""

HEAVY_BYTES_MIN = 256 * 1024
"""A client with such a message, or such a reply before, has a heavy request: few of them run at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeLimits:
    """The limits of a process; sizes in bytes. See the settings of the same names."""

    message_seconds: float = 60.0
    message_bytes_max: int = MESSAGE_BYTES_MAX
    partial_bytes_max: int = 256 << 20
    decoded_bytes_max: int = 512 << 20
    reply_bytes_max: int = 128 << 20

    @property
    def request_weight_max(self) -> int:
        """Memory that one request may take when it is decoded."""
        return self.decoded_bytes_max // 2


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeFigures:
    """Resources used by the clients of a process: bytes of partial messages, of decoded requests and of unsent replies;
    requests that wait for a thread; clients dropped and requests refused since the start.
    """

    partial_bytes: int
    decoded_bytes: int
    reply_bytes: int
    waiting: int
    dropped_total: int
    refused_total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFigures:
    """Streams that are open, bytes of their batches in memory; rows, bytes and refused streams since the start."""

    open: int
    memory_bytes: int
    rows_total: int
    bytes_total: int
    refused_total: int


class WeightBudget:
    """A weighted semaphore without blocking: a caller passes a function that runs when its weight is free.
    Thread-safe.
    """

    def __init__(self, total: int) -> None:
        self._total = total
        self._guard = threading.Lock()
        self._taken = 0
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()

    @property
    def taken(self) -> int:
        """The weight that is taken now."""
        return self._taken

    def take(self, weight: int, when_free: Callable[[], None]) -> bool:
        """Take a weight and return True; if not enough is left, return False, and call `when_free` once it has been
        taken. A weight is limited to the total, so that every one is granted at some time.
        """
        weight = min(weight, self._total)
        with self._guard:
            if not self._waiting and self._taken + weight <= self._total:
                self._taken += weight
                return True
            self._waiting.append((weight, when_free))
            return False

    def take_at_once(self, weight: int) -> None:
        """Take a weight that is in use already, also beyond the total: others wait until it is released."""
        with self._guard:
            self._taken += min(weight, self._total)

    def release(self, weight: int) -> None:
        """Release a weight that was taken."""
        weight = min(weight, self._total)
        due = []
        with self._guard:
            self._taken -= weight
            while self._waiting and self._taken + self._waiting[0][0] <= self._total:
                next_weight, when_free = self._waiting.popleft()
                self._taken += next_weight
                due.append(when_free)
        for when_free in due:
            when_free()


Job = Callable[[], None]

CROWD = 16
"""Number of new clients from which on they are a crowd."""

BUSY_SECONDS = 0.5
"""A job that runs for longer waits for something, and does not keep others of its kind from running."""

logger = logging.getLogger(__name__)

THREADS_MAX = 64
"""More than database connections: some requests wait for others that write."""

IDLE_SECONDS_MAX = 60.0
"""Time that a thread stays without work."""


class JobKind(IntEnum):
    """Kind of a job, as known before it runs."""

    LIGHT = 0
    NEW = 1
    HEAVY = 2


RUNNING_MAX = {JobKind.NEW: 8, JobKind.HEAVY: 4}
"""Maximum of running jobs of a kind."""


class AddressShare:
    """Service time of an address's connections, and their waiting jobs."""

    __slots__ = ("__weakref__", "heavy", "light", "new", "served", "virtual")

    def __init__(self) -> None:
        self.served = 0.0
        self.virtual = 0.0
        self.light: list[QueuedJob] = []
        self.new: deque[QueuedJob] = deque()
        self.heavy: list[QueuedJob] = []

    def head(self, kind: JobKind) -> "QueuedJob | None":
        """Return the first waiting job of a kind."""
        queue = self.light if kind is JobKind.LIGHT else self.new if kind is JobKind.NEW else self.heavy
        return queue[0] if queue else None

    @property
    def is_waiting(self) -> bool:
        """Whether a job of the address is waiting."""
        return bool(self.light or self.new or self.heavy)


class ClientShare:
    """The serving time of one connection, which has one job at a time."""

    __slots__ = ("address", "served")

    def __init__(self, address: AddressShare) -> None:
        self.address = address
        self.served = 0.0


class QueuedJob:
    """A job that waits for a thread, with its client and address."""

    __slots__ = ("address", "began_at", "client", "kind", "number", "run", "start")

    def __init__(
        self, run: Job, client: ClientShare | None, address: AddressShare, start: float, number: int, kind: JobKind
    ) -> None:
        self.run = run
        self.client = client
        self.address = address
        self.start = start
        self.number = number
        self.kind = kind
        self.began_at = 0.0

    def __lt__(self, other: "QueuedJob") -> bool:
        return (self.start, self.number) < (other.start, other.number)


class FairQueue:
    """Fair queue of the jobs. Not thread-safe: the caller holds a lock."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._running: dict[JobKind, set[QueuedJob]] = {kind: set() for kind in RUNNING_MAX}
        self._virtual = 0.0
        self._numbers = itertools.count()
        self._newest_is_next = True
        self._addresses: WeakValueDictionary[str, AddressShare] = WeakValueDictionary()
        self._own = AddressShare()
        self._active: set[AddressShare] = set()
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def client(self, host: str) -> ClientShare:
        """Return the share of a new connection from an address."""
        address = self._addresses.get(host)
        if address is None:
            address = self._addresses[host] = AddressShare()
        return ClientShare(address)

    def put(self, run: Job, client: ClientShare | None, *, is_heavy: bool) -> None:
        """Queue a job of a client; jobs of no client, which are the server's own, share an address."""
        address = self._own if client is None else client.address
        if address not in self._active:
            # Idle time is no credit.
            address.served = max(address.served, self._virtual)
            self._active.add(address)
        start = address.virtual if client is None else max(address.virtual, client.served)
        is_new = client is not None and client.served == 0.0
        kind = JobKind.HEAVY if is_heavy else JobKind.NEW if is_new else JobKind.LIGHT
        job = QueuedJob(run, client, address, start, next(self._numbers), kind)
        if kind is JobKind.NEW:
            address.new.append(job)
        else:
            heapq.heappush(address.heavy if is_heavy else address.light, job)
        self._size += 1

    def take(self) -> QueuedJob | None:
        """Return the next job; None if there is none that may run now."""
        kinds = [kind for kind in JobKind if self._may_run(kind)]
        eligible = (each for each in self._active if any(each.head(kind) is not None for kind in kinds))
        address = min(eligible, key=lambda each: each.served, default=None)
        if address is None:
            return None
        first = min(head for kind in kinds if (head := address.head(kind)) is not None)
        job = self._taken(address, first.kind)
        self._size -= 1
        self._virtual = address.served
        if not address.is_waiting:
            self._active.discard(address)
        job.began_at = self._clock()
        if job.kind in self._running:
            self._running[job.kind].add(job)
        return job

    def ended(self, job: QueuedJob) -> bool:
        """Record the service time of a job; return whether another of its kind may run now that could not before."""
        seconds = self._clock() - job.began_at
        job.address.served += seconds
        if job.client is not None:
            # Never 0 again, which means a client that was never served.
            job.client.served = job.start + seconds + 1e-9
        if job.kind not in self._running:
            return False
        self._running[job.kind].discard(job)
        return any(each.head(job.kind) is not None for each in self._active)

    def _taken(self, address: AddressShare, kind: JobKind) -> QueuedJob:
        if kind is JobKind.NEW:
            if len(address.new) >= CROWD:
                self._newest_is_next = not self._newest_is_next
                if self._newest_is_next:
                    return address.new.pop()
            job = address.new.popleft()
        else:
            job = heapq.heappop(address.heavy if kind is JobKind.HEAVY else address.light)
        address.virtual = job.start
        return job

    def _may_run(self, kind: JobKind) -> bool:
        running = self._running.get(kind)
        if running is None or len(running) < RUNNING_MAX[kind]:
            return True
        since = self._clock() - BUSY_SECONDS
        return sum(job.began_at > since for job in running) < RUNNING_MAX[kind]


class ThreadPool:
    """Runs jobs, each on one of at most `threads_max` threads, scheduled fairly among clients. A job handles its own
    errors: an unhandled one ends its thread, which is recorded in `deaths`; other threads run the next jobs.
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
        """Number of jobs that wait for a thread."""
        return len(self._jobs)

    @property
    def stalled_seconds(self) -> float:
        """Return how long jobs have waited without one being begun, 0 if none waits."""
        with self._guard:
            return time.monotonic() - self._stalled_since if len(self._jobs) else 0.0

    def client(self, host: str) -> ClientShare:
        """Return the share of a new connection from an address."""
        with self._guard:
            return self._jobs.client(host)

    def submit(self, job: Callable[[], None], client: ClientShare | None = None, *, is_heavy: bool = False) -> None:
        """Queue the job; it runs when the scheduler selects its client."""
        with self._guard:
            if not len(self._jobs):
                self._stalled_since = time.monotonic()
            self._jobs.put(job, client, is_heavy=is_heavy)
            number = self._number_to_start(self._permits.qsize() + 1)
        # The last step, because the thread that takes the permit needs the lock.
        self._permits.put(True)
        self._start(number)

    def look_again(self) -> None:
        """Run jobs of kinds whose running jobs turned out to wait for something; called periodically."""
        with self._guard:
            count = max(0, min(len(self._jobs), self._threads_max) - self._permits.qsize())
        for _ in range(count):
            self._permits.put(True)
        if count:
            self._start_if_needed()

    @contextmanager
    def blocked(self) -> Iterator[None]:
        """Mark a job as waiting for something outside of the server: another thread may serve meanwhile."""
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
        """Count one thread more if there are permits without a thread, and return its number, otherwise 0. Locked."""
        # An earlier job may have counted on an idle thread: one thread too many does no harm.
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
                    # Another thread, idle or new, runs a job that came in between.
                    self._threads -= 1
                    return
                job = self._jobs.take()
                if job is None:
                    # Only jobs of kinds at their limit wait: the end of one, or `look_again`, gives the next permit.
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
        """Count the thread as idle, or as ended if there are too many; return whether it stays. Locked."""
        if self._threads > self._threads_max + self._blocked:
            self._threads -= 1
            return False
        self._idle += 1
        return True
