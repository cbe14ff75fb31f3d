"""Locks as operators see them: the holder and lease of each, and the lock that it waits for.

They come from a metastore by its own interface (`show_locks`), so that a Java metastore works as well, or from the
database of an interbed server directly.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from interbed.catalog.client.errors import CatalogError
from interbed.catalog.client.hive.client import HiveMetastoreClient
from interbed.catalog.server.database import schema
from interbed.catalog.server.database.engine import check_exists
from interbed.catalog.server.database.session import SqlRepository
from interbed.catalog.server.service.lock_model import Lock, LockComponent, LockLevel, LockState, LockType
from interbed.catalog.server.service.locks import DISCONNECT_SECONDS, LEASE_SECONDS, LockService
from interbed.catalog.server.service.model import DEFAULT_CATALOG
from interbed.catalog.server.thrift.structs.convert import split_catalog

CHAIN_MAX = 1000
"""Locks in a chain of waiting: no two wait for each other, but the report of a foreign metastore can be wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LockView:
    """One lock. Times are milliseconds since the epoch, None where the metastore does not report them; `waits_for` is
    the id of the first lock in its way.

    `orphaned_ms` is when the last connection of its client broke, None while one is open or where that is unknown. The
    metastore drops such a lock after `disconnect_seconds`; with 0 only its lease counts.
    """

    id: int
    state: LockState
    components: tuple[LockComponent, ...]
    user: str
    host: str
    agent: str
    since_ms: int | None
    heartbeat_ms: int | None
    lease_seconds: float
    waits_for: int | None
    orphaned_ms: int | None = None
    disconnect_seconds: float = 0.0

    def age_seconds(self, now: float) -> float | None:
        """Return the time since it was granted; for a waiting lock, since it was requested."""
        return None if self.since_ms is None else max(0.0, now - self.since_ms / 1000)

    def lease_left_seconds(self, now: float) -> float | None:
        """Return how long its lease lasts without a heartbeat."""
        if self.heartbeat_ms is None:
            return None
        return max(0.0, self.heartbeat_ms / 1000 + self.lease_seconds - now)

    def orphaned_seconds(self, now: float) -> float | None:
        """Return how long its client has had no connection; None for a lock that is no orphan."""
        return None if self.orphaned_ms is None else max(0.0, now - self.orphaned_ms / 1000)

    def dropped_in_seconds(self, now: float) -> float | None:
        """Return the time until the metastore drops it, unless its client sends a heartbeat or reconnects."""
        left = self.lease_left_seconds(now)
        orphaned = self.orphaned_seconds(now)
        if orphaned is None or not self.disconnect_seconds:
            return left
        grace = max(0.0, self.disconnect_seconds - orphaned)
        return grace if left is None else min(left, grace)

    def to_json(self, now: float) -> dict[str, Any]:
        """Return the lock as JSON with times relative to now."""
        age, left = self.age_seconds(now), self.lease_left_seconds(now)
        orphaned, dropped_in = self.orphaned_seconds(now), self.dropped_in_seconds(now)
        return {
            "id": self.id,
            "state": self.state.name.lower(),
            "components": [
                {
                    "type": component.type.name.lower(),
                    "database": component.database,
                    "table": component.table,
                    "partition": component.partition,
                    **({} if component.catalog in (None, DEFAULT_CATALOG) else {"catalog": component.catalog}),
                }
                for component in self.components
            ],
            "user": self.user,
            "host": self.host,
            "agent": self.agent,
            "age_seconds": None if age is None else round(age, 1),
            "lease_left_seconds": None if left is None else round(left, 1),
            "orphaned_seconds": None if orphaned is None else round(orphaned, 1),
            "dropped_in_seconds": None if dropped_in is None else round(dropped_in, 1),
            "waits_for": self.waits_for,
        }


class LockSource(Protocol):
    """A metastore whose locks are listed and released."""

    def locks(self) -> list[LockView]:
        """Return all locks, oldest first."""
        ...

    def release(self, lock_id: int) -> None:
        """Release a lock, or withdraw a waiting request."""
        ...


@contextmanager
def open_source(
    uri: str | None, db: str | None, lease_seconds: float | None, disconnect_seconds: float | None = None
) -> Iterator[LockSource]:
    """Return the locks of a metastore at a uri, or of an interbed server's database. CatalogError, MetastoreError."""
    if db is not None:
        check_exists(db)
        store = SqlRepository(db)
        try:
            schema.check_current(store.engine)
            yield _Database(
                LockService(store, lease_seconds=lease_seconds or LEASE_SECONDS), lease_seconds, disconnect_seconds
            )
        finally:
            store.close()
        return
    assert uri is not None
    with HiveMetastoreClient(uri, timeout_seconds=30) as client:
        yield _RemoteLocks(client, lease_seconds, disconnect_seconds)


class _Database:
    def __init__(self, locks: LockService, lease_seconds: float | None, disconnect_seconds: float | None) -> None:
        self._locks = locks
        self._lease_seconds = lease_seconds or LEASE_SECONDS
        self._disconnect_seconds = DISCONNECT_SECONDS if disconnect_seconds is None else disconnect_seconds

    def locks(self) -> list[LockView]:
        return [self._view(lock, blocker) for lock, blocker in self._locks.show()]

    def release(self, lock_id: int) -> None:
        self._locks.unlock(lock_id)

    def _view(self, lock: Lock, blocker: Lock | None) -> LockView:
        request = lock.request
        return LockView(
            id=lock.id,
            state=lock.state,
            components=request.components,
            user=request.user,
            host=request.host,
            agent=request.agent,
            since_ms=lock.acquired_at_ms if lock.acquired_at_ms is not None else lock.requested_at_ms,
            heartbeat_ms=lock.heartbeat_at_ms,
            lease_seconds=self._lease_seconds,
            waits_for=None if blocker is None else blocker.id,
            orphaned_ms=lock.orphaned_at_ms,
            disconnect_seconds=self._disconnect_seconds,
        )


class _RemoteLocks:
    def __init__(
        self, client: HiveMetastoreClient, lease_seconds: float | None, disconnect_seconds: float | None
    ) -> None:
        self._client = client
        self._lease_seconds = lease_seconds
        self._disconnect_seconds = disconnect_seconds

    def locks(self) -> list[LockView]:
        elements: dict[int, list[Any]] = {}
        for element in self._client.show_locks():
            elements.setdefault(element.lockid, []).append(element)
        lease_seconds = self._lease_seconds if self._lease_seconds is not None else self._server_lease_seconds()
        disconnect_seconds = self._disconnect_seconds
        if disconnect_seconds is None:
            disconnect_seconds = self._server_disconnect_seconds()
        views: list[LockView] = []
        for lock_id in sorted(elements):
            view = _view(lock_id, elements[lock_id], lease_seconds, views)
            views.append(dataclasses.replace(view, disconnect_seconds=disconnect_seconds))
        return views

    def release(self, lock_id: int) -> None:
        self._client.unlock(lock_id)

    def _server_lease_seconds(self) -> float:
        try:
            said = self._client.lock_lease_seconds()
        except CatalogError:
            said = None
        return LEASE_SECONDS if said is None else said

    def _server_disconnect_seconds(self) -> float:
        try:
            return self._client.lock_disconnect_seconds()
        except CatalogError:
            return 0.0


def _view(lock_id: int, elements: Sequence[Any], lease_seconds: float, earlier: Sequence[LockView]) -> LockView:
    first = elements[0]
    components = tuple(_component(element) for element in elements)
    # A lock is granted when all of its components are; Hive reports the state of each.
    state = max((LockState(element.state) for element in elements), default=LockState.WAITING)
    view = LockView(
        id=lock_id,
        state=state,
        components=components,
        user=first.user or "",
        host=first.hostname or "",
        agent=first.agentInfo or "",
        since_ms=first.acquiredat or None,
        # Hive reports no heartbeats of locks that belong to a transaction.
        heartbeat_ms=first.lastheartbeat or None,
        lease_seconds=lease_seconds,
        waits_for=next((element.blockedByExtId for element in elements if element.blockedByExtId), None),
        orphaned_ms=first.orphanedAt or None,
    )
    if state == LockState.WAITING and view.waits_for is None:
        # Hive notices only when the client asks again.
        in_the_way = (each for each in earlier if any(_conflict(part, each) for part in components))
        return dataclasses.replace(view, waits_for=next((each.id for each in in_the_way), None))
    return view


def _conflict(component: LockComponent, other: LockView) -> bool:
    return any(component.conflicts_with(each) for each in other.components)


def _component(element: Any) -> LockComponent:
    catalog, database = split_catalog(element.dbname)
    level = LockLevel.PARTITION if element.partname else LockLevel.TABLE if element.tablename else LockLevel.DB
    return LockComponent(
        type=LockType(element.type),
        level=level,
        database=database or "",
        table=element.tablename or None,
        partition=element.partname or None,
        catalog=catalog,
    )


def chain_of(lock: LockView, locks: Sequence[LockView]) -> list[LockView]:
    """Return the lock, the one that it waits for, the one that this waits for, and so on to one that does not wait."""
    by_id = {each.id: each for each in locks}
    chain = [lock]
    while chain[-1].waits_for is not None and len(chain) < CHAIN_MAX:
        following = by_id.get(chain[-1].waits_for)
        if following is None or following in chain:
            break
        chain.append(following)
    return chain


def waiters_of(lock: LockView, locks: Sequence[LockView]) -> list[LockView]:
    """Return the later locks that have to wait for this one, whether or not for others as well."""
    return [
        each
        for each in locks
        if each.id > lock.id and each.state == LockState.WAITING and (each.waits_for == lock.id or _waits(each, lock))
    ]


def blockers_of(lock: LockView, locks: Sequence[LockView]) -> list[LockView]:
    """Return all locks that this one has to wait for."""
    if lock.state != LockState.WAITING:
        return []
    return [each for each in locks if each.id < lock.id and (each.id == lock.waits_for or _waits(lock, each))]


def _waits(later: LockView, earlier: LockView) -> bool:
    return any(_conflict(component, earlier) for component in later.components)
