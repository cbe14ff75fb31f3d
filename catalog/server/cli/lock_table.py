"""Sources of the locks that operators look at (service/lock_views.py).

Locks come from a metastore by its own interface (`show_locks`), so that a Java metastore works as well, or from the
database of an interbed server directly.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from interbed.catalog.client.errors import CatalogError
from interbed.catalog.client.hive.client import HiveMetastoreClient
from interbed.catalog.server.database import schema
from interbed.catalog.server.database.engine import check_exists
from interbed.catalog.server.database.session import SqlRepository
from interbed.catalog.server.service.lock_model import LockComponent, LockLevel, LockState, LockType
from interbed.catalog.server.service.lock_views import LockView, conflicts, view_of
from interbed.catalog.server.service.locks import DISCONNECT_SECONDS, LEASE_SECONDS, LockService
from interbed.catalog.server.thrift.structs.convert import split_catalog


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
        lease, disconnect = self._lease_seconds, self._disconnect_seconds
        return [view_of(lock, blocker, lease, disconnect) for lock, blocker in self._locks.show()]

    def release(self, lock_id: int) -> None:
        self._locks.unlock(lock_id)


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
        in_the_way = (each for each in earlier if any(conflicts(part, each) for part in components))
        return dataclasses.replace(view, waits_for=next((each.id for each in in_the_way), None))
    return view


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
