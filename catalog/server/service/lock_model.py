"""Locks as values, the rule by which they exclude each other, and the operations of the repository on them.

A lock is a list of components (a database, a table of it or a partition of that, with a type) that are granted together
or not at all. Measured against Hive 2.3.10: a shared read is compatible with everything but exclusive; a shared write
excludes shared writes; a component on a database covers its tables, except that a shared read of a database (a session
that merely uses it) is compatible with any component on a table in it. Types 1 to 3 are Hive 2's; exclusive write (4)
came with Hive 4 and is compatible with readers alone.

Interbed grants strictly in order of arrival: a lock waits for every earlier lock that it conflicts with, whether that
is held or waiting. (In Hive new readers overtake a waiting writer, which may starve.) Since all components are granted
at once and always behind earlier locks, no two locks can wait for each other.

Components in different catalogs never exclude each other. Hive's interface has no field for the catalog of a component:
it is that of the connection, or the one in a name such as `@catalog#database`.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

from interbed.catalog.server.service.model import DEFAULT_CATALOG


class LockType(IntEnum):
    """Degree of sharing that a component allows."""

    SHARED_READ = 1
    SHARED_WRITE = 2
    EXCLUSIVE = 3
    EXCL_WRITE = 4


class LockLevel(IntEnum):
    """Kind of object that a component names."""

    DB = 1
    TABLE = 2
    PARTITION = 3


class LockState(IntEnum):
    """State of a lock request."""

    ACQUIRED = 1
    WAITING = 2
    ABORT = 3
    NOT_ACQUIRED = 4


_COMPATIBLE = {
    (LockType.SHARED_READ, LockType.SHARED_READ),
    (LockType.SHARED_READ, LockType.SHARED_WRITE),
    (LockType.SHARED_WRITE, LockType.SHARED_READ),
    (LockType.SHARED_READ, LockType.EXCL_WRITE),
    (LockType.EXCL_WRITE, LockType.SHARED_READ),
}


IN_PROCESS = "inside   "
"""The mark of a client in the process of the server: its lock is an orphan after each heartbeat, so that it ends soon
after the process.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LockComponent:
    """One thing to lock. `table` is None for a whole database, `partition` for a whole table. `catalog` is None for a
    component whose catalog is unknown, because an older server stored it: it excludes those in any catalog.
    """

    type: LockType
    level: LockLevel
    database: str
    table: str | None = None
    partition: str | None = None
    operation: int | None = None
    catalog: str | None = None

    @property
    def text(self) -> str:
        """Return the type and the locked object, as text for users."""
        catalog = None if self.catalog == DEFAULT_CATALOG else self.catalog
        name = ".".join(filter(None, (catalog, self.database, self.table)))
        return f"{self.type.name.lower()} {name}{f'/{self.partition}' if self.partition else ''}"

    def is_in_catalog(self, catalog: str | None) -> bool:
        """Return whether the component may be in a catalog; None is any."""
        return self.catalog is None or catalog is None or self.catalog == catalog

    def lies_in(
        self, database: str | None, table: str | None, partition: str | None, catalog: str | None = None
    ) -> bool:
        """Return whether the component names this catalog, database, table and partition; None matches any."""
        return (
            self.is_in_catalog(catalog)
            and (database is None or self.database == database)
            and (table is None or self.table == table)
            and (partition is None or self.partition == partition)
        )

    def conflicts_with(self, other: "LockComponent") -> bool:
        """Return whether the two components exclude each other. Symmetric."""
        if self.database != other.database or (self.type, other.type) in _COMPATIBLE:
            return False
        if not self.is_in_catalog(other.catalog):
            return False
        if self.table is None or other.table is None:
            whole, part = (self, other) if self.table is None else (other, self)
            return part.table is None or whole.type != LockType.SHARED_READ
        if self.table != other.table:
            return False
        return self.partition is None or other.partition is None or self.partition == other.partition


@dataclass(frozen=True, slots=True, kw_only=True)
class LockRequest:
    """Request for a lock. `user`, `host` and `agent` identify its holder to administrators."""

    components: tuple[LockComponent, ...]
    user: str
    host: str
    agent: str = "Unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    """A lock held or waited for. Times are milliseconds since the epoch.

    `processes` are the marks of the server's processes that have an open connection of its client. `orphaned_at_ms` is
    when the last such connection broke; None while one is open or none is known. `blocked_by` is the newest lock in the
    way, if the caller asked for it.
    """

    id: int
    request: LockRequest
    state: LockState
    requested_at_ms: int
    acquired_at_ms: int | None = None
    heartbeat_at_ms: int
    heartbeat_count: int = 0
    processes: str = ""
    orphaned_at_ms: int | None = None
    blocked_by: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierLock:
    """The components and state of an earlier lock, as far as a request needs them."""

    id: int
    components: tuple[LockComponent, ...]
    heartbeat_at_ms: int
    orphaned_at_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LockCutoff:
    """Limits beyond which a lock is stale: its last heartbeat came before `heartbeat_ms`, or its last connection broke
    before `orphaned_ms` and was not replaced. With None broken connections do not count.
    """

    heartbeat_ms: int
    orphaned_ms: int | None = None

    def excludes(self, lock: Lock | EarlierLock) -> bool:
        """Return whether the lock is stale."""
        return lock.heartbeat_at_ms < self.heartbeat_ms or self.is_orphan(lock)

    def is_orphan(self, lock: Lock | EarlierLock) -> bool:
        """Return whether the lock is stale because its client's connections have broken."""
        broken = lock.orphaned_at_ms
        return broken is not None and self.orphaned_ms is not None and broken < self.orphaned_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class LockFigures:
    """Numbers of locks: held, waiting, stale but not removed yet, and removed as stale since the database was made."""

    acquired: int
    waiting: int
    stale: int
    expired_total: int


_PAIRS_MAX = 64
"""Pairs of components up to which they are compared one by one; above it the earlier lock's components are indexed."""


def is_blocked_by(request: LockRequest, components: tuple[LockComponent, ...]) -> bool:
    """Return whether the request has to wait for an earlier lock with these components."""
    if len(request.components) * len(components) <= _PAIRS_MAX:
        return any(mine.conflicts_with(theirs) for mine in request.components for theirs in components)
    index = _ComponentIndex(components)
    return any(index.conflicts_with(mine) for mine in request.components)


_Index = dict[tuple[str | None, ...], dict[LockType, LockComponent]]
_Found = dict[LockType, LockComponent] | None


def _add(index: _Index, key: tuple[str | None, ...], component: LockComponent) -> None:
    index.setdefault(key, {}).setdefault(component.type, component)


class _ComponentIndex:
    """Index of a lock's components by the object that they name, one for each type: the time to compare two locks grows
    with the sum of their sizes, not with the product.
    """

    def __init__(self, components: Iterable[LockComponent]) -> None:
        self._catalogs: set[str | None] = set()
        self._databases: _Index = {}
        self._within_databases: _Index = {}
        self._tables: _Index = {}
        self._within_tables: _Index = {}
        self._partitions: _Index = {}
        for each in components:
            self._catalogs.add(each.catalog)
            database = (each.catalog, each.database)
            if each.table is None:
                _add(self._databases, database, each)
                continue
            _add(self._within_databases, database, each)
            if each.partition is None:
                _add(self._tables, (*database, each.table), each)
            else:
                _add(self._within_tables, (*database, each.table), each)
                _add(self._partitions, (*database, each.table, each.partition), each)

    def conflicts_with(self, mine: LockComponent) -> bool:
        """Return whether one of the indexed components excludes this one."""
        catalogs = [each for each in self._catalogs if each is None or mine.is_in_catalog(each)]
        found = [some for catalog in catalogs for some in self._in_catalog(catalog, mine)]
        return any(mine.conflicts_with(theirs) for some in found if some for theirs in some.values())

    def _in_catalog(self, catalog: str | None, mine: LockComponent) -> list[_Found]:
        database = (catalog, mine.database)
        found = [self._databases.get(database)]
        if mine.table is None:
            found.append(self._within_databases.get(database))
        else:
            table = (*database, mine.table)
            found.append(self._tables.get(table))
            if mine.partition is None:
                found.append(self._within_tables.get(table))
            else:
                found.append(self._partitions.get((*table, mine.partition)))
        return found


def blocking(request: LockRequest, earlier: Iterable[Lock]) -> Lock | None:
    """Return the first of the earlier locks that the request has to wait for, or None if it may be granted."""
    return next((lock for lock in earlier if is_blocked_by(request, lock.request.components)), None)


class Locks(Protocol):
    """Locks in order of arrival; an id is never used again."""

    def next_id(self) -> int:
        """Return the next lock id. Blocks other callers until the end of the transaction, so that ids are the order of
        arrival.
        """
        ...

    def hold_back(self) -> int:
        """Return the id that the next lock gets. Blocks other callers as `next_id`."""
        ...

    def add(self, lock: Lock) -> None: ...
    def find(self, lock_id: int) -> Lock | None: ...
    def earlier(self, lock_id: int, request: LockRequest) -> list[EarlierLock]:
        """Locks that arrived before this one and may touch what the request names, oldest first."""
        ...

    def select(self) -> list[Lock]: ...
    def fresh(self, lock_ids: Collection[int], cutoff: LockCutoff) -> set[int]:
        """Return those of these locks that exist and are not stale."""
        ...

    def acquire(self, lock_id: int, now_ms: int) -> bool:
        """Store that the lock is held from now on, and renew its lease; False if it does not exist."""
        ...

    def renew(self, lock_id: int, now_ms: int, heartbeat_after_ms: int, process: str = "") -> bool:
        """Renew the lease and clear the orphan state; False if the lock does not exist or its last heartbeat is older.
        A process that has a connection of the lock's client passes its mark.
        """
        ...

    def disconnect(self, lock_id: int, now_ms: int, process: str) -> bool:
        """Store that the process has no connection of the lock's client any more; the lock is an orphan when no other
        process has one. False if the process had none.
        """
        ...

    def remove(self, lock_id: int) -> bool: ...
    def expire(self, cutoff: LockCutoff, lock_ids: Collection[int] | None = None) -> list[Lock]:
        """Remove, count and return the locks (of these, or of all) that are stale."""
        ...

    def count(self, cutoff: LockCutoff) -> LockFigures:
        """Return the numbers of locks, stale ones apart from the others."""
        ...
