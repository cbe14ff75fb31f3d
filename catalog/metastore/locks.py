"""Locks: granted in order of arrival, held on a lease.

A lock whose holder is silent for the length of the lease is dropped, so that a dead client never blocks others for
longer. Heartbeats and check_lock renew the lease. Leases are looked at when somebody waits for the lock, and by the
server's reaper. The rule who waits for whom is in lock_model.py.

Whether a lock may be granted depends on earlier locks alone, and of those there are only ever fewer. So a request is
decided once, when all earlier ones are visible (`Locks.next_id` sees to that); after that, clients that ask again and
again are answered by reading. What must be written is written when something changes: the lock is granted, a lease has
run out, or a waiting lock's lease has to be renewed, which is done now and then and not at every question.
"""

import logging
import time
from collections.abc import Callable, Iterable

from interbed.catalog.metastore.errors import InvalidObjectError, NoSuchLockError
from interbed.catalog.metastore.lock_model import (
    EarlierLock,
    Lock,
    LockFigures,
    LockLevel,
    LockRequest,
    LockState,
    blocking,
    is_blocked_by,
)
from interbed.catalog.metastore.store import Store, Transaction

logger = logging.getLogger(__name__)

LEASE_SECONDS = 300
"""Hive's default (`hive.txn.timeout`): clients send heartbeats with it in mind, Iceberg's every 240 s."""

WAITING_RENEWAL_SECONDS_MAX = 5.0
"""A waiting lock's lease is written anew after this time, or after a twentieth of the lease if that is less: a hundred
clients that ask ten times a second would be a thousand commits a second.
"""


class LockService:
    """The lock calls. `clock` gives seconds since the epoch and is there for tests."""

    def __init__(
        self, store: Store, *, lease_seconds: float = LEASE_SECONDS, clock: Callable[[], float] = time.time
    ) -> None:
        self._store = store
        self._lease_ms = int(lease_seconds * 1000)
        self._renewal_ms = int(min(lease_seconds / 20, WAITING_RENEWAL_SECONDS_MAX) * 1000)
        self._clock = clock

    def lock(self, request: LockRequest) -> Lock:
        """Ask for a lock; it is acquired or waits. The things it names need not exist. InvalidObjectError if it names
        none.
        """
        if not request.components:
            raise InvalidObjectError("a lock needs at least one component")
        for component in request.components:
            if not component.database or (component.level != LockLevel.DB and not component.table):
                raise InvalidObjectError(
                    "a lock's component needs a database name, and a table name below the level of databases"
                )

        def work(transaction: Transaction) -> tuple[Lock, list[Lock]]:
            # First the id: it makes other callers wait, so that everything earlier is visible and nothing later is.
            lock_id = transaction.locks.next_id()
            now = self._now_ms()
            blocked, expired = self._is_blocked(transaction, lock_id, request, now)
            lock = Lock(
                id=lock_id,
                request=request,
                state=LockState.WAITING if blocked else LockState.ACQUIRED,
                requested_at_ms=now,
                acquired_at_ms=None if blocked else now,
                heartbeat_at_ms=now,
            )
            transaction.locks.add(lock)
            return lock, expired

        lock, expired = self._store.write(work)
        self._tell_expired(expired)
        return lock

    def check_lock(self, lock_id: int) -> Lock:
        """Renew the lease, and grant a waiting lock if nothing is in its way any more. NoSuchLockError."""
        lock = self._store.read(lambda transaction: self._unchanged(transaction, lock_id))
        if lock is not None:
            return lock

        def work(transaction: Transaction) -> tuple[Lock | None, list[Lock]]:
            now = self._now_ms()
            expired: list[Lock] = []
            if not transaction.locks.renew(lock_id, now, now - self._lease_ms):
                return None, transaction.locks.expire(now - self._lease_ms, [lock_id])
            lock = transaction.locks.find(lock_id)
            if lock is not None and lock.state == LockState.WAITING:
                blocked, expired = self._is_blocked(transaction, lock_id, lock.request, now)
                if not blocked and transaction.locks.acquire(lock_id, now):
                    lock = transaction.locks.find(lock_id)
            return lock, expired

        # The expiry of other locks is kept even if this one is gone, so that the error is raised after the commit.
        lock, expired = self._store.write(work)
        self._tell_expired(expired)
        if lock is None:
            raise NoSuchLockError(f"No such lock lockid:{lock_id}")
        return lock

    def heartbeat(self, lock_id: int) -> None:
        """Renew the lease of a lock held or waited for. NoSuchLockError if it is gone or the lease has run out."""

        def work(transaction: Transaction) -> bool:
            now = self._now_ms()
            return transaction.locks.renew(lock_id, now, now - self._lease_ms)

        if not self._store.write(work):
            raise NoSuchLockError(f"No such lock: lockid:{lock_id}")

    def unlock(self, lock_id: int) -> None:
        """Release a lock, or give up waiting for it. A lock that is gone already is no error, as with Hive."""
        self._store.write(lambda transaction: transaction.locks.remove(lock_id))

    def show(
        self, database: str | None = None, table: str | None = None, partition: str | None = None
    ) -> list[tuple[Lock, Lock | None]]:
        """The locks that touch the database, table or partition (any, if None), oldest first, each with the one it
        waits for.
        """
        oldest = self._now_ms() - self._lease_ms
        locks = self._store.read(lambda transaction: transaction.locks.select())
        alive = [lock for lock in locks if lock.heartbeat_at_ms >= oldest]
        shown = []
        for position, lock in enumerate(alive):
            if any(component.lies_in(database, table, partition) for component in lock.request.components):
                blocker = blocking(lock.request, alive[:position]) if lock.state == LockState.WAITING else None
                shown.append((lock, blocker))
        return shown

    def expire(self) -> int:
        """Remove all locks whose lease has run out, and return their number."""
        oldest = self._now_ms() - self._lease_ms
        # Mostly there are none, and a look is no write.
        if self._store.read(lambda transaction: transaction.locks.count(oldest)).stale == 0:
            return 0
        expired = self._store.write(lambda transaction: transaction.locks.expire(oldest))
        self._tell_expired(expired)
        return len(expired)

    def figures(self) -> LockFigures:
        """How many locks there are, for whoever watches the server."""
        return self._store.read(lambda transaction: transaction.locks.count(self._now_ms() - self._lease_ms))

    def _unchanged(self, transaction: Transaction, lock_id: int) -> Lock | None:
        """The lock if it waits and nothing has to be written: it still has to wait, and its lease is young."""
        now = self._now_ms()
        lock = transaction.locks.find(lock_id)
        if lock is None or lock.state != LockState.WAITING or lock.heartbeat_at_ms < now - self._renewal_ms:
            return None
        earlier = transaction.locks.earlier(lock_id, lock.request)
        blockers = [each for each in earlier if is_blocked_by(lock.request, each.components)]
        return lock if blockers and not self._stale(blockers, now) else None

    def _is_blocked(
        self, transaction: Transaction, lock_id: int, request: LockRequest, now_ms: int
    ) -> tuple[bool, list[Lock]]:
        """Whether the request has to wait, and the locks that were in its way and have been removed for their age."""
        earlier = transaction.locks.earlier(lock_id, request)
        blockers = [each for each in earlier if is_blocked_by(request, each.components)]
        stale = self._stale(blockers, now_ms)
        expired = transaction.locks.expire(now_ms - self._lease_ms, stale) if stale else []
        # A heartbeat may have come in between: only what was removed is out of the way.
        return len(blockers) > len(expired), expired

    def _stale(self, locks: Iterable[EarlierLock], now_ms: int) -> list[int]:
        return [lock.id for lock in locks if lock.heartbeat_at_ms < now_ms - self._lease_ms]

    def _tell_expired(self, expired: Iterable[Lock]) -> None:
        for lock in expired:
            logger.warning(
                "lock %d of %s on host %s expired: no heartbeat for %d s",
                lock.id,
                lock.request.user,
                lock.request.host,
                (self._now_ms() - lock.heartbeat_at_ms) // 1000,
            )

    def _now_ms(self) -> int:
        return int(self._clock() * 1000)
