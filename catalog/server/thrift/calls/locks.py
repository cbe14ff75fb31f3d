"""The calls about locks, which connections of this process use which locks, and the `check_lock` requests that wait.

A connection uses a lock when it requests it, checks it or renews it. When the last such connection of this process has
ended, that is recorded in the database (LockService.disconnect), which knows the connections of other processes.

`check_lock` of a waiting lock is answered when the lock is granted, or after a bounded wait. One thread of the process
serves all waiting requests: it asks the database in one query whether the lock directly before each of them still
exists, and only a request whose predecessor is gone is served again. So locks are granted in the order of
service/lock_model.py, and many waiting requests cost little. A connection that uses several locks is answered without
waiting, because it may hold the lock that it waits for.
"""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from interbed.catalog.server.service.errors import (
    InvalidObjectError,
    MetastoreError,
    NoSuchLockError,
    NoSuchTransactionError,
)
from interbed.catalog.server.service.lock_model import IN_PROCESS, Lock, LockComponent, LockState
from interbed.catalog.server.service.locks import LEASE_ONLY, LockService
from interbed.catalog.server.service.model import DEFAULT_CATALOG
from interbed.catalog.server.service.names import normalized
from interbed.catalog.server.service.service import Metastore
from interbed.catalog.server.threads import (
    AnswerLaterError,
    ClientLink,
    SupervisedThread,
    ThreadDeaths,
    current_link,
    may_answer_later,
)
from interbed.catalog.server.thrift.structs import convert
from interbed.catalog.server.thrift.structs.convert import split_catalog
from interbed.catalog.server.thrift.structs.requests import UndeclaredError
from interbed.thrift_idl.hive_metastore import ttypes

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.02
"""Time between two queries of the thread while requests wait: other processes release locks, too."""

FAILURE_PAUSE_SECONDS = 1.0
"""Time between an error of the database and the next query."""

STOP_SECONDS_MAX = 5.0

_PRUNED_AT_LEAST = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingRequest:
    """A waiting request, which is served again once lock `blocked_by` is released, or at `until` (monotonic clock)."""

    link: ClientLink
    blocked_by: int
    until: float
    serve: Callable[[], None]


class LockConnections:
    """Open connections by the locks that they use, and the reverse. Thread-safe."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._locks: dict[ClientLink, set[int]] = {}
        self._links: dict[int, set[ClientLink]] = {}
        self._orphans: set[int] = set()

    def __len__(self) -> int:
        return len(self._links)

    def touch(self, link: ClientLink, lock_id: int) -> None:
        """Record that the connection uses the lock. The connection may have ended meanwhile."""
        with self._guard:
            if link.is_closed:
                if lock_id not in self._links:
                    self._orphans.add(lock_id)
                return
            self._locks.setdefault(link, set()).add(lock_id)
            self._links.setdefault(lock_id, set()).add(link)

    def close(self, link: ClientLink) -> None:
        """Remove a connection that has ended; locks without another one become orphans."""
        with self._guard:
            for lock_id in self._locks.pop(link, ()):
                links = self._links[lock_id]
                links.discard(link)
                if not links:
                    del self._links[lock_id]
                    self._orphans.add(lock_id)

    def orphan(self, lock_id: int) -> None:
        """Record that no connection uses the lock any more."""
        with self._guard:
            self._orphans.add(lock_id)

    def forget(self, lock_id: int) -> None:
        """Remove a lock that was released or has expired."""
        with self._guard:
            self._orphans.discard(lock_id)
            for link in self._links.pop(lock_id, ()):
                locks = self._locks[link]
                locks.discard(lock_id)
                if not locks:
                    del self._locks[link]

    def known(self) -> list[int]:
        """Return the locks that open connections use."""
        with self._guard:
            return list(self._links)

    def has(self, lock_id: int) -> bool:
        """Return whether an open connection uses the lock."""
        with self._guard:
            return lock_id in self._links

    def uses_one_lock(self, link: ClientLink) -> bool:
        """Return whether the connection uses at most one lock."""
        with self._guard:
            return len(self._locks.get(link, ())) <= 1

    def take_orphans(self) -> list[int]:
        """Return and clear the locks whose last connection has ended since the previous call."""
        with self._guard:
            orphans, self._orphans = self._orphans, set()
        return [lock_id for lock_id in orphans if not self.has(lock_id)]


class LockClients:
    """The connections of this process that use locks, and the thread that serves waiting requests.

    With `wait_seconds` 0 no request waits. `clock` is monotonic; tests inject it, and call `step` themselves.
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
        self._waiters: list[WaitingRequest] = []
        self._wakeup = threading.Event()
        self._stopping = threading.Event()
        self._thread: SupervisedThread | None = None
        self._deaths = deaths if deaths is not None else ThreadDeaths()

    def process(self) -> str:
        """Return the mark of the current call for its lock; see LockService."""
        link = current_link.get()
        if link is None:
            return ""
        if link.is_in_process:
            return IN_PROCESS
        return self._locks.mark if link.speaks_for_client else LEASE_ONLY

    def touch(self, lock_id: int) -> None:
        """Record that the connection of the current call uses the lock.

        For an existing lock this happens before the database is updated, so that `step` repairs the mark when another
        connection ends in between.
        """
        link = current_link.get()
        if link is None or not link.speaks_for_client:
            return
        self._connections.touch(link, lock_id)
        if link.is_closed:
            self._wake_thread()

    def closed(self, link: ClientLink) -> None:
        """Remove a connection that has ended, and its waiting requests. Thread-safe."""
        self._connections.close(link)
        with self._guard:
            self._waiters = [each for each in self._waiters if each.link is not link]
        self._wake_thread()

    def released(self, lock_id: int) -> None:
        """Remove a lock that was released or has expired, and serve the next request at once."""
        self._connections.forget(lock_id)
        if self._waiters:
            self._wake_thread()

    def wait(self, lock: Lock, until: float | None) -> None:
        """Raise AnswerLaterError, so that the current call of `check_lock` is served again later.

        Return at once for a call that cannot wait, or has waited until `until`, which is None at its first try.
        """
        link = current_link.get()
        if link is None or lock.blocked_by is None or not self._wait_seconds or not may_answer_later.get():
            return
        now = self._clock()
        if until is None:
            if not self._connections.uses_one_lock(link):
                return
            until = now + self._wait_seconds
        if now >= until:
            return
        link.waits_until = until
        raise AnswerLaterError(partial(self._add, link, lock.blocked_by, until))

    def step(self) -> None:
        """Do one round of the thread: record ended connections, and serve the requests that need not wait any more.

        Raises MetastoreError; the next round repeats the steps that failed.
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
        """End the thread. Connections that end later are not recorded, because the server closes them."""
        self._stopping.set()
        self._wakeup.set()
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
            # Another connection may have used it in between, and its mark would be missing now.
            if self._connections.has(lock_id):
                self._locks.reconnect(lock_id)

    def _prune(self) -> None:
        """Remove locks that other processes have released."""
        if len(self._connections) < self._prune_at:
            return
        known = self._connections.known()
        for lock_id in set(known) - self._locks.fresh(known):
            self._connections.forget(lock_id)
        self._prune_at = max(_PRUNED_AT_LEAST, 2 * len(self._connections))

    def _add(self, link: ClientLink, blocked_by: int, until: float, serve: Callable[[], None]) -> None:
        with self._guard:
            self._waiters.append(WaitingRequest(link=link, blocked_by=blocked_by, until=until, serve=serve))
        self._wake_thread()

    def _wake(self, due: list[WaitingRequest]) -> None:
        with self._guard:
            woken = [each for each in due if each in self._waiters]
            self._waiters = [each for each in self._waiters if each not in woken]
        for each in woken:
            each.serve()

    def _wake_thread(self) -> None:
        """Wake the thread, or start it at the first call."""
        self._wakeup.set()
        if self._thread is None:
            with self._guard:
                if self._thread is None and not self._stopping.is_set():
                    self._thread = SupervisedThread(self._run, name="lock clients", deaths=self._deaths)
                    self._thread.start()

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._wakeup.wait(POLL_SECONDS if self._waiters else None)
            self._wakeup.clear()
            if self._stopping.is_set():
                return
            try:
                self.step()
            except MetastoreError as error:
                logger.warning(
                    "The round for the clients of locks failed and is repeated in %g s: %s",
                    FAILURE_PAUSE_SECONDS,
                    error,
                )
                self._give_up_waiting()
                self._stopping.wait(FAILURE_PAUSE_SECONDS)
                self._wakeup.set()

    def _give_up_waiting(self) -> None:
        """Serve the requests that have reached their deadline; they get the database's error."""
        now = self._clock()
        with self._guard:
            due = [each for each in self._waiters if now >= each.until]
        self._wake(due)


class LockHandler:
    """The calls about locks. Interbed has no transactions, so that a request which names one is refused."""

    def __init__(self, metastore: Metastore, clients: LockClients) -> None:
        self._locks = metastore.locks
        self._clients = clients

    def lock(self, rqst: Any) -> Any:
        _refuse_transaction(rqst.txnid)
        try:
            # Before the components are decoded, which takes longer than to count them.
            self._locks.check_size(len(rqst.component or ()))
            request = convert.lock_request_from_thrift(rqst)
        except ValueError as error:
            raise MetastoreError(f"a lock with an unknown type or level: {error}") from error
        except InvalidObjectError as error:
            # The call does not declare this exception.
            raise UndeclaredError(str(error)) from error
        lock = self._locks.lock(request, process=self._clients.process())
        self._clients.touch(lock.id)
        return _lock_response(lock)

    def check_lock(self, rqst: Any) -> Any:
        _refuse_transaction(rqst.txnid)
        link = current_link.get()
        until = None
        if link is not None:
            until, link.waits_until = link.waits_until, None
        if not self._locks.is_own(rqst.lockid):
            raise NoSuchLockError(f"No such lock lockid:{rqst.lockid}")
        self._clients.touch(rqst.lockid)
        try:
            lock = self._locks.check_lock(rqst.lockid, process=self._clients.process())
        except NoSuchLockError:
            self._clients.released(rqst.lockid)
            raise
        # Checked again for a connection that has ended meanwhile.
        self._clients.touch(rqst.lockid)
        if lock.state == LockState.WAITING:
            self._clients.wait(lock, until)
        return _lock_response(lock)

    def unlock(self, rqst: Any) -> None:
        if self._locks.is_own(rqst.lockid):
            self._locks.unlock(rqst.lockid)
            self._clients.released(rqst.lockid)

    def heartbeat(self, ids: Any) -> None:
        _refuse_transaction(ids.txnid)
        if ids.lockid:
            if not self._locks.is_own(ids.lockid):
                raise NoSuchLockError(f"No such lock: lockid:{ids.lockid}")
            self._clients.touch(ids.lockid)
            try:
                self._locks.heartbeat(ids.lockid, process=self._clients.process())
            except NoSuchLockError:
                self._clients.released(ids.lockid)
                raise
            self._clients.touch(ids.lockid)

    def show_locks(self, rqst: Any) -> Any:
        catalog, name = split_catalog(rqst.dbname)
        database = normalized(name) or None
        # Without a name the locks in all catalogs are asked for.
        wanted = (
            database,
            normalized(rqst.tablename) or None,
            rqst.partname or None,
            None if rqst.dbname is None else catalog,
        )
        return ttypes.ShowLocksResponse(
            locks=[
                _lock_element(lock, number, component, blocker)
                for lock, blocker in self._locks.show(*wanted[:3], catalog=wanted[3])
                for number, component in enumerate(lock.request.components, start=1)
                # Of a lock with several components only those that match the request are listed.
                if component.lies_in(*wanted)
            ]
        )


def _refuse_transaction(transaction_id: int | None) -> None:
    if transaction_id:
        raise NoSuchTransactionError(f"No such transaction txnid:{transaction_id}")


def _lock_response(lock: Lock) -> Any:
    return ttypes.LockResponse(lockid=lock.id, state=int(lock.state))


def _database_name(component: LockComponent) -> str:
    """Return the database of a component; with its catalog, in Hive's form, if that is not `hive`."""
    if component.catalog in (None, DEFAULT_CATALOG):
        return component.database
    return f"@{component.catalog}#{component.database}"


def _lock_element(lock: Lock, number: int, component: LockComponent, blocker: Lock | None) -> Any:
    request = lock.request
    return ttypes.ShowLocksResponseElement(
        lockid=lock.id,
        dbname=_database_name(component),
        tablename=component.table,
        partname=component.partition,
        state=int(lock.state),
        type=int(component.type),
        txnid=0,
        lastheartbeat=lock.heartbeat_at_ms,
        acquiredat=lock.acquired_at_ms,
        user=request.user,
        hostname=request.host,
        heartbeatCount=lock.heartbeat_count,
        agentInfo=request.agent,
        blockedByExtId=None if blocker is None else blocker.id,
        lockIdInternal=number,
        orphanedAt=lock.orphaned_at_ms,
    )
