"""The clients of locks that have a connection to this process: which connection spoke of which lock, and who waits.

A connection speaks of a lock when it asks for it, checks it or renews it. When the last one of this process has ended,
the database is informed (LockService.disconnect), which knows those of other processes.

`check_lock` of a waiting lock is answered when it is granted, or after a bounded wait. One thread of the process asks
the database for all that wait here, by one query, whether the lock directly before each is still there; only a request
for which it is not is served again. So the order of arrival stays what lock_model.py says, and many that wait cost
little. A connection that speaks of several locks is not kept waiting: it may hold the very lock that it waits for.
"""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from interbed.catalog.metastore.errors import MetastoreError
from interbed.catalog.metastore.lock_model import Lock
from interbed.catalog.metastore.locks import LEASE_ONLY, LockService
from interbed.catalog.server.session import AnswerLaterError, ClientLink, current_link, may_answer_later
from interbed.catalog.server.threads import SupervisedThread, ThreadDeaths

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.02
"""Time between two looks of the thread while requests wait: locks are released by other processes, too."""

FAILURE_PAUSE_SECONDS = 1.0
"""Time until the database is asked again after an error."""

STOP_SECONDS_MAX = 5.0

_PRUNED_AT_LEAST = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiter:
    """A request that is served again when the lock before it is gone, or at a time of the monotonic clock."""

    link: ClientLink
    blocked_by: int
    until: float
    serve: Callable[[], None]


class LockConnections:
    """Which open connections have spoken of which locks. Safe for many threads."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._locks: dict[ClientLink, set[int]] = {}
        self._links: dict[int, set[ClientLink]] = {}
        self._orphans: set[int] = set()

    def __len__(self) -> int:
        return len(self._links)

    def touch(self, link: ClientLink, lock_id: int) -> None:
        """The connection speaks of the lock. It may have ended meanwhile."""
        with self._guard:
            if link.is_closed:
                if lock_id not in self._links:
                    self._orphans.add(lock_id)
                return
            self._locks.setdefault(link, set()).add(lock_id)
            self._links.setdefault(lock_id, set()).add(link)

    def close(self, link: ClientLink) -> None:
        """The connection has ended."""
        with self._guard:
            for lock_id in self._locks.pop(link, ()):
                links = self._links[lock_id]
                links.discard(link)
                if not links:
                    del self._links[lock_id]
                    self._orphans.add(lock_id)

    def orphan(self, lock_id: int) -> None:
        """The last connection that spoke of the lock has ended."""
        with self._guard:
            self._orphans.add(lock_id)

    def forget(self, lock_id: int) -> None:
        """The lock is gone."""
        with self._guard:
            self._orphans.discard(lock_id)
            for link in self._links.pop(lock_id, ()):
                locks = self._locks[link]
                locks.discard(lock_id)
                if not locks:
                    del self._locks[link]

    def known(self) -> list[int]:
        """All locks that an open connection spoke of."""
        with self._guard:
            return list(self._links)

    def has(self, lock_id: int) -> bool:
        """Whether an open connection spoke of the lock."""
        with self._guard:
            return lock_id in self._links

    def speaks_of_one(self, link: ClientLink) -> bool:
        """Whether there is one lock at most that the connection spoke of."""
        with self._guard:
            return len(self._locks.get(link, ())) <= 1

    def take_orphans(self) -> list[int]:
        """The locks whose last connection has ended since this was asked last."""
        with self._guard:
            orphans, self._orphans = self._orphans, set()
        return [lock_id for lock_id in orphans if not self.has(lock_id)]


class LockClients:
    """The connections of this process that speak of locks, and the thread that serves those that wait.

    With `wait_seconds` 0 nobody waits. `clock` is monotonic and there for tests, as is `step`.
    """

    def __init__(
        self,
        locks: LockService,
        *,
        wait_seconds: float = 0.0,
        deaths: ThreadDeaths | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._locks = locks
        self._wait_seconds = wait_seconds
        self._clock = clock
        self._connections = LockConnections()
        self._prune_at = _PRUNED_AT_LEAST
        self._guard = threading.Lock()
        self._waiters: list[Waiter] = []
        self._stirred = threading.Event()
        self._ending = threading.Event()
        self._thread: SupervisedThread | None = None
        self._deaths = deaths if deaths is not None else ThreadDeaths()

    def process(self) -> str:
        """The mark that the current call leaves on a lock; see LockService."""
        link = current_link.get()
        if link is None:
            return ""
        return self._locks.mark if link.speaks_for_client else LEASE_ONLY

    def touch(self, lock_id: int) -> None:
        """The connection of the current call speaks of the lock: for a lock that is known, before the database learns
        of it, so that the end of another connection in between is put right (`step`).
        """
        link = current_link.get()
        if link is None or not link.speaks_for_client:
            return
        self._connections.touch(link, lock_id)
        if link.is_closed:
            self._stir()

    def closed(self, link: ClientLink) -> None:
        """A connection has ended; from any thread."""
        self._connections.close(link)
        with self._guard:
            self._waiters = [each for each in self._waiters if each.link is not link]
        self._stir()

    def released(self, lock_id: int) -> None:
        """A lock is gone; the next one is served at once."""
        self._connections.forget(lock_id)
        if self._waiters:
            self._stir()

    def wait(self, lock: Lock, until: float | None) -> None:
        """Have the current call of `check_lock` served again later, unless it has waited long enough (`until`, None for
        one that comes for the first time) or cannot wait. Raises AnswerLaterError.
        """
        link = current_link.get()
        if link is None or lock.blocked_by is None or not self._wait_seconds or not may_answer_later.get():
            return
        now = self._clock()
        if until is None:
            if not self._connections.speaks_of_one(link):
                return
            until = now + self._wait_seconds
        if now >= until:
            return
        link.waits_until = until
        raise AnswerLaterError(partial(self._add, link, lock.blocked_by, until))

    def step(self) -> None:
        """One look of the thread: inform the database of ended connections, and wake who need not wait any more.
        MetastoreError; what could not be done is done by the next one.
        """
        self._disconnect()
        self._prune()
        with self._guard:
            waiters = list(self._waiters)
        if not waiters:
            return
        fresh = self._locks.fresh({each.blocked_by for each in waiters})
        now = self._clock()
        self._wake([each for each in waiters if each.blocked_by not in fresh or now >= each.until])

    def stop(self) -> None:
        """End the thread. Connections that end from now on are not noted: it is the server that ends."""
        self._ending.set()
        self._stirred.set()
        thread = self._thread
        if thread is not None:
            thread.join(timeout=STOP_SECONDS_MAX)

    def _disconnect(self) -> None:
        orphans = self._connections.take_orphans()
        if not orphans:
            return
        try:
            self._locks.disconnect(orphans)
        except MetastoreError:
            for lock_id in orphans:
                if not self._connections.has(lock_id):
                    self._connections.orphan(lock_id)
            raise
        for lock_id in orphans:
            # Another connection may have spoken of it in between, and its mark would be missing now.
            if self._connections.has(lock_id):
                self._locks.reconnect(lock_id)

    def _prune(self) -> None:
        """Forget locks that other processes have released."""
        if len(self._connections) < self._prune_at:
            return
        known = self._connections.known()
        for lock_id in set(known) - self._locks.fresh(known):
            self._connections.forget(lock_id)
        self._prune_at = max(_PRUNED_AT_LEAST, 2 * len(self._connections))

    def _add(self, link: ClientLink, blocked_by: int, until: float, serve: Callable[[], None]) -> None:
        with self._guard:
            self._waiters.append(Waiter(link=link, blocked_by=blocked_by, until=until, serve=serve))
        self._stir()

    def _wake(self, due: list[Waiter]) -> None:
        with self._guard:
            woken = [each for each in due if each in self._waiters]
            self._waiters = [each for each in self._waiters if each not in woken]
        for each in woken:
            each.serve()

    def _stir(self) -> None:
        """Have the thread look at once; it starts with the first reason."""
        self._stirred.set()
        if self._thread is None:
            with self._guard:
                if self._thread is None and not self._ending.is_set():
                    self._thread = SupervisedThread(self._run, name="lock clients", deaths=self._deaths)
                    self._thread.start()

    def _run(self) -> None:
        while not self._ending.is_set():
            self._stirred.wait(POLL_SECONDS if self._waiters else None)
            self._stirred.clear()
            if self._ending.is_set():
                return
            try:
                self.step()
            except MetastoreError as error:
                logger.warning("could not look after the clients of locks, will try again: %s", error)
                self._give_up_waiting()
                self._ending.wait(FAILURE_PAUSE_SECONDS)
                self._stirred.set()

    def _give_up_waiting(self) -> None:
        """Serve those again whose time is over; they get the database's error."""
        now = self._clock()
        with self._guard:
            due = [each for each in self._waiters if now >= each.until]
        self._wake(due)
