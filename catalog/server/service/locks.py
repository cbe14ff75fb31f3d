"""Locks: granted in order of arrival, held on a lease.

A lock whose holder is silent for the length of the lease is dropped, so that a dead client never blocks others for
longer. Heartbeats and check_lock renew the lease. Leases are checked when another request waits for the lock, and by
the server's reaper. lock_model.py holds the rule by which requests wait for each other.

A client that dies closes its connections, which the server sees long before the lease has run out. So a lock also
records which processes of the server have an open connection that asked for it, checked it or renewed it. When the last
of them has closed, the lock is an orphan; it is dropped after `disconnect_seconds` unless its client reconnects. A
process of the server that is killed removes no mark of its own: then only the lease decides, for the state of its
clients is unknown. The same holds for connections that do not identify their client, which leave LEASE_ONLY. A client
inside of a process of the server, such as that of REST, has no connection: its lock is an orphan from the beginning,
again after each heartbeat.

Whether a lock may be granted depends on earlier locks alone, and their number only shrinks. So a request is decided
once, when all earlier ones are visible (`Locks.next_id` ensures that). Clients that poll after that are answered by
reading. Writes happen only on a change: the lock is granted, a lease has run out, or a waiting lock's lease is due for
renewal, which is done at intervals and not at every poll.
"""

import logging
import os
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace

from interbed.catalog.server.service.access.guard import WRITE
from interbed.catalog.server.service.access.objects import (
    SERVER,
    Privilege,
    SecuredKind,
    SecuredObject,
    column_object,
    database_object,
    table_object,
)
from interbed.catalog.server.service.access.secured import SecuredService, filtered, secured_inside, unhidden, unsecured
from interbed.catalog.server.service.errors import InvalidObjectError, NoSuchLockError
from interbed.catalog.server.service.lock_model import (
    IN_PROCESS,
    EarlierLock,
    Lock,
    LockComponent,
    LockCutoff,
    LockFigures,
    LockLevel,
    LockRequest,
    LockState,
    LockType,
    blocking,
    is_blocked_by,
)
from interbed.catalog.server.service.lock_views import LockView, view_of
from interbed.catalog.server.service.model import DEFAULT_CATALOG
from interbed.catalog.server.service.names import normalized
from interbed.catalog.server.service.repository import Repository, Transaction

logger = logging.getLogger(__name__)

LEASE_SECONDS = 300
"""Hive's default (`hive.txn.timeout`): clients send heartbeats with it in mind, Iceberg's every 240 s."""

COMPONENTS_MAX = 10_000
"""Components of one lock by default. Hive sends one for each partition that a query reads, unless
`hive.locks.max.partitions` limits them.
"""

DISCONNECT_SECONDS = 5.0
"""Default of the time that a server keeps a lock whose client has no connection any more."""

WAITING_RENEWAL_SECONDS_MAX = 5.0
"""A waiting lock's lease is renewed after this time, or after a twentieth of the lease if that is less: a hundred
clients that poll ten times a second would be a thousand commits a second.
"""

LEASE_ONLY = "leased   "
"""The mark of connections that do not identify their client, such as HTTP's: no process ever removes it."""

_MARK_CHARACTERS = len(LEASE_ONLY)
_COMPONENTS_LOGGED_MAX = 10


_EXCLUDES = (*WRITE, Privilege.ALTER, Privilege.DROP)


def _locked(component: LockComponent) -> SecuredObject:
    catalog = component.catalog or DEFAULT_CATALOG
    if component.table is None:
        return database_object(catalog, component.database)
    return table_object(catalog, component.database, component.table)


class LockService(SecuredService):
    """The lock calls. `clock` gives seconds since the epoch and is there for tests.

    `mark` is this process's own. A call that comes by a connection passes it as `process`, or LEASE_ONLY; one of a
    client in this process passes IN_PROCESS, any other call nothing. With `disconnect_seconds` 0 broken connections do
    not count.
    """

    def __init__(
        self,
        store: Repository,
        *,
        lease_seconds: float = LEASE_SECONDS,
        disconnect_seconds: float = 0.0,
        components_max: int = COMPONENTS_MAX,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._lease_ms = int(lease_seconds * 1000)
        self._disconnect_ms = int(disconnect_seconds * 1000)
        self._components_max = components_max
        self._renewal_ms = int(min(lease_seconds / 20, WAITING_RENEWAL_SECONDS_MAX) * 1000)
        self._clock = clock
        self.mark = f"{os.urandom(4).hex()} "
        # Marks are concatenated in a column, and none may match across the boundary of two of them.
        assert len(self.mark) == len(IN_PROCESS) == _MARK_CHARACTERS

    @unsecured("compares a number with a setting")
    def check_size(self, components: int) -> None:
        """Refuse a lock of more components than are allowed. InvalidObjectError that names the limit."""
        if components > self._components_max:
            raise InvalidObjectError(
                f"a lock of {components} components is too large: {self._components_max} are allowed "
                "(lock_components_max of the server). Lock whole tables instead of their partitions: Hive does where a "
                "query has more than hive.locks.max.partitions"
            )

    @secured_inside(
        "SELECT, also on a column, for shared components, a privilege of a change for others; the holder is the caller"
    )
    def lock(self, request: LockRequest, *, process: str = "") -> Lock:
        """Request a lock; it is acquired or waits. The objects it names need not exist. InvalidObjectError if it names
        none.
        """
        if not request.components:
            raise InvalidObjectError("a lock needs at least one component")
        self.check_size(len(request.components))
        for component in request.components:
            if not component.database or (component.level != LockLevel.DB and not component.table):
                raise InvalidObjectError(
                    "a lock's component needs a database name, and a table name below the level of databases"
                )

        request = self._allowed(request)

        def work(transaction: Transaction) -> tuple[Lock, list[Lock]]:
            # The id comes first: it blocks other callers, so that everything earlier is visible and nothing later is.
            lock_id = transaction.locks.next_id()
            now = self._now_ms()
            blocker, expired = self._blocker(transaction, lock_id, request, now)
            lock = Lock(
                id=lock_id,
                request=request,
                state=LockState.ACQUIRED if blocker is None else LockState.WAITING,
                requested_at_ms=now,
                acquired_at_ms=now if blocker is None else None,
                heartbeat_at_ms=now,
                orphaned_at_ms=now if process == IN_PROCESS else None,
                processes=process,
                blocked_by=blocker,
            )
            transaction.locks.add(lock)
            return lock, expired

        lock, expired = self._store.write(work)
        self._announce_expired(expired)
        return lock

    @unsecured("part of a change that asks for its privileges")
    def blocker(self, transaction: Transaction, request: LockRequest) -> int | None:
        """Return the newest lock that a request has to wait for, None if there is none: then no lock that excludes it
        is granted before the end of the transaction, which is as good as the lock itself.
        """
        lock_id = transaction.locks.hold_back()
        now = self._now_ms()
        earlier = transaction.locks.earlier(lock_id, request)
        blockers = [each for each in earlier if is_blocked_by(request, each.components)]
        stale = set(self._stale(blockers, now))
        return max((lock.id for lock in blockers if lock.id not in stale), default=None)

    @secured_inside("the caller holds the lock, or is an administrator")
    def check_lock(self, lock_id: int, *, process: str = "") -> Lock:
        """Renew the lease, and grant a waiting lock if nothing is in its way any more. NoSuchLockError."""
        if not self.is_own(lock_id):
            raise NoSuchLockError(f"No such lock lockid:{lock_id}")
        lock = self._store.read(lambda transaction: self._unchanged(transaction, lock_id, process))
        if lock is not None:
            return lock

        def work(transaction: Transaction) -> tuple[Lock | None, list[Lock]]:
            now = self._now_ms()
            expired: list[Lock] = []
            if not transaction.locks.renew(lock_id, now, now - self._lease_ms, process):
                return None, transaction.locks.expire(self._cutoff(now), [lock_id])
            lock = transaction.locks.find(lock_id)
            if lock is not None and lock.state == LockState.WAITING:
                blocker, expired = self._blocker(transaction, lock_id, lock.request, now)
                lock = replace(lock, blocked_by=blocker)
                if blocker is None and transaction.locks.acquire(lock_id, now):
                    lock = transaction.locks.find(lock_id)
            return lock, expired

        # The removal of stale locks is committed even if this lock is missing, so that the error is raised after the
        # commit.
        lock, expired = self._store.write(work)
        self._announce_expired(expired)
        if lock is None:
            raise NoSuchLockError(f"No such lock lockid:{lock_id}")
        return lock

    @secured_inside("the caller holds the lock, or is an administrator")
    def heartbeat(self, lock_id: int, *, process: str = "") -> None:
        """Renew the lease of a lock held or waited for. NoSuchLockError if it does not exist or the lease
        has run out.
        """

        def work(transaction: Transaction) -> bool:
            now = self._now_ms()
            return transaction.locks.renew(lock_id, now, now - self._lease_ms, process)

        if not self.is_own(lock_id) or not self._store.write(work):
            raise NoSuchLockError(f"No such lock: lockid:{lock_id}")

    @unsecured("the server calls it for a connection that has ended")
    def disconnect(self, lock_ids: Collection[int]) -> None:
        """Record that no open connection of this process refers to these locks any more."""

        def work(transaction: Transaction) -> None:
            now = self._now_ms()
            for lock_id in sorted(lock_ids):
                transaction.locks.disconnect(lock_id, now, self.mark)

        self._store.write(work)

    @unsecured("the server calls it for a connection")
    def reconnect(self, lock_id: int) -> None:
        """Record that a connection of this process refers to the lock again. The lock may not exist any more."""
        now = self._now_ms()
        oldest = now - self._lease_ms
        self._store.write(lambda transaction: transaction.locks.renew(lock_id, now, oldest, self.mark))

    @unsecured("the server calls it for requests that wait")
    def fresh(self, lock_ids: Collection[int]) -> set[int]:
        """Return those of these locks that exist and are not stale."""
        return self._store.read(lambda transaction: transaction.locks.fresh(lock_ids, self._cutoff(self._now_ms())))

    @secured_inside("the caller holds the lock, or is an administrator")
    def unlock(self, lock_id: int) -> None:
        """Release a lock, or stop waiting for it. A lock that does not exist is no error, as in Hive."""
        if self.is_own(lock_id):
            self._store.write(lambda transaction: transaction.locks.remove(lock_id))

    @secured_inside("it says whether the caller holds the lock")
    def is_own(self, lock_id: int) -> bool:
        """Return whether the caller holds the lock, if it exists, or is an administrator."""
        caller = self._access.caller()
        if caller is None:
            return True
        lock = self._store.read(lambda transaction: transaction.locks.find(lock_id))
        return lock is None or lock.request.user == caller.name or self._access.may((Privilege.ALL,), SERVER)

    @filtered("locks of objects that the caller sees")
    def show(
        self,
        database: str | None = None,
        table: str | None = None,
        partition: str | None = None,
        *,
        catalog: str | None = None,
    ) -> list[tuple[Lock, Lock | None]]:
        """Return the locks that touch the catalog, database, table or partition (any, if None), oldest first, each with
        the lock it waits for.
        """
        cutoff = self._cutoff(self._now_ms())
        locks = self._store.read(lambda transaction: transaction.locks.select())
        alive = [lock for lock in locks if not cutoff.excludes(lock)]
        shown = []
        for position, lock in enumerate(alive):
            if any(component.lies_in(database, table, partition, catalog) for component in lock.request.components):
                blocker = blocking(lock.request, alive[:position]) if lock.state == LockState.WAITING else None
                shown.append((lock, blocker))
        if self._access.caller() is None:
            return shown
        components = {component for lock in locks for component in lock.request.components}
        seen = set(self._access.visible(components, _locked, SERVER))

        def is_seen(lock: Lock | None) -> bool:
            return lock is not None and seen.issuperset(lock.request.components)

        return [(lock, blocker if is_seen(blocker) else None) for lock, blocker in shown if is_seen(lock)]

    @filtered("locks of objects that the caller sees")
    def views(self) -> list[LockView]:
        """Return all locks as operators see them, oldest first."""
        return [view_of(*each, self._lease_ms / 1000, self._disconnect_ms / 1000) for each in self.show()]

    @unsecured("the reaper calls it")
    def expire(self) -> int:
        """Remove all locks whose lease has run out or whose client has disconnected, and return their number."""
        cutoff = self._cutoff(self._now_ms())
        # Mostly there are none, and a read suffices to see that.
        if self._store.read(lambda transaction: transaction.locks.count(cutoff)).stale == 0:
            return 0
        expired = self._store.write(lambda transaction: transaction.locks.expire(cutoff))
        self._announce_expired(expired)
        return len(expired)

    @unsecured("numbers for monitoring")
    def figures(self) -> LockFigures:
        """Return the numbers of locks, for monitoring."""
        return self._store.read(lambda transaction: transaction.locks.count(self._cutoff(self._now_ms())))

    def _allowed(self, request: LockRequest) -> LockRequest:
        """Return the request as that of the caller. AccessDeniedError for a component that it may not lock."""
        caller = self._access.caller()
        if caller is None:
            return request
        for component in request.components:
            on = _locked(component)
            if self._may_create(component, component.catalog or DEFAULT_CATALOG):
                continue
            if component.type != LockType.SHARED_READ:
                self._access.require(_EXCLUDES, on)
                continue
            # Readers of some columns lock the table, too.
            reads = (Privilege.SELECT,)
            reads_columns = on.kind is SecuredKind.TABLE and self._access.may(reads, column_object(on, None))
            if not reads_columns:
                self._access.require((*reads, *_EXCLUDES), on)
        return replace(request, user=caller.name)

    def _may_create(self, component: LockComponent, catalog: str) -> bool:
        """Return whether the caller may create the missing table of a component: clients do so under its lock."""
        name = component.table
        if name is None or not self._access.may((Privilege.CREATE,), database_object(catalog, component.database)):
            return False
        key = (catalog, normalized(component.database), normalized(name))
        with unhidden():
            return self._store.read(lambda transaction: transaction.tables.find(*key) is None)

    def _unchanged(self, transaction: Transaction, lock_id: int, process: str) -> Lock | None:
        """Return the lock if it still has to wait and nothing must be written: its lease is young, and this process is
        recorded as having a connection of its client. None otherwise.
        """
        now = self._now_ms()
        lock = transaction.locks.find(lock_id)
        if lock is None or lock.state != LockState.WAITING or lock.heartbeat_at_ms < now - self._renewal_ms:
            return None
        orphaned, kept_ms = lock.orphaned_at_ms, self._disconnect_ms // 5
        is_kept = orphaned is None or (
            # Without a time for broken connections orphans are kept.
            process == IN_PROCESS and (not self._disconnect_ms or orphaned >= now - kept_ms)
        )
        if not is_kept or process not in lock.processes:
            return None
        earlier = transaction.locks.earlier(lock_id, lock.request)
        blockers = [each for each in earlier if is_blocked_by(lock.request, each.components)]
        if not blockers or self._stale(blockers, now):
            return None
        return replace(lock, blocked_by=blockers[-1].id)

    def _blocker(
        self, transaction: Transaction, lock_id: int, request: LockRequest, now_ms: int
    ) -> tuple[int | None, list[Lock]]:
        """Return the newest lock that the request has to wait for, and the locks that blocked it and were removed as
        stale.
        """
        earlier = transaction.locks.earlier(lock_id, request)
        blockers = [each for each in earlier if is_blocked_by(request, each.components)]
        stale = self._stale(blockers, now_ms)
        expired = transaction.locks.expire(self._cutoff(now_ms), stale) if stale else []
        # A heartbeat may have come in between: only a removed lock no longer blocks.
        removed = {lock.id for lock in expired}
        return max((lock.id for lock in blockers if lock.id not in removed), default=None), expired

    def _stale(self, locks: Iterable[EarlierLock], now_ms: int) -> list[int]:
        cutoff = self._cutoff(now_ms)
        return [lock.id for lock in locks if cutoff.excludes(lock)]

    def _cutoff(self, now_ms: int) -> LockCutoff:
        return LockCutoff(
            heartbeat_ms=now_ms - self._lease_ms,
            orphaned_ms=now_ms - self._disconnect_ms if self._disconnect_ms else None,
        )

    def _announce_expired(self, expired: Iterable[Lock]) -> None:
        now = self._now_ms()
        cutoff = self._cutoff(now)
        for lock in expired:
            is_orphan = lock.orphaned_at_ms is not None and cutoff.is_orphan(lock)
            since = lock.orphaned_at_ms if is_orphan and lock.orphaned_at_ms is not None else lock.heartbeat_at_ms
            logger.warning(
                "lock %d (%s, %s) of %s on host %s expired: %s for %.1f s",
                lock.id,
                lock.state.name.lower(),
                ", ".join(component.text for component in lock.request.components[:_COMPONENTS_LOGGED_MAX]),
                lock.request.user,
                lock.request.host,
                "its client's last connection has been broken" if is_orphan else "no heartbeat",
                (now - since) / 1000,
            )

    def _now_ms(self) -> int:
        return int(self._clock() * 1000)
