"""Locks in SQL: a row for each, with a JSON document of its components.

The document is a list of `[type, level, database, table, partition, operation, catalog]`, numbers as in Hive's
interface. The catalog is null in locks that an older server stored.
Requests and releases of locks are the most frequent writes of a metastore, so that each takes as few statements as
possible: id, conflicts, insert; and one delete. On SQLite the driver executes these directly, with the text that
SQLAlchemy compiled when the module was loaded: SQLAlchemy's execution would take longer than the statement.
"""

import json
from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import Any

from sqlalchemy import ColumnElement, Connection, Text, bindparam, case, delete, func, insert, or_, select, update

from interbed.catalog.server.database.engine import Statement
from interbed.catalog.server.database.models import LockRow, SequenceRow
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
)

LOCK_SEQUENCE = "lock"
EXPIRED_SEQUENCE = "lock_expired"

_NEXT_ID = Statement(
    update(SequenceRow)
    .where(SequenceRow.name == LOCK_SEQUENCE)
    .values(value=SequenceRow.value + 1)
    .returning(SequenceRow.value)
)
_HOLD_BACK = Statement(
    select(SequenceRow.value + 1).where(SequenceRow.name == LOCK_SEQUENCE).with_for_update(of=SequenceRow)
)
_INSERT = Statement(insert(LockRow))
_FIND = Statement(select(*LockRow.__table__.columns).where(LockRow.id == bindparam("lock_id")))
_EARLIER = (
    select(LockRow.id, LockRow.components, LockRow.heartbeat_at_ms, LockRow.orphaned_at_ms)
    .where(LockRow.id < bindparam("before"))
    .order_by(LockRow.id)
)
# Each is one or two ranges of the index: a lock without a database or table may conflict with any.
_EARLIER_OF_TABLE = Statement(
    _EARLIER.where(
        or_(
            LockRow.database_name.is_(None),
            (LockRow.database_name == bindparam("database"))
            & (LockRow.table_name.is_(None) | (LockRow.table_name == bindparam("table"))),
        )
    )
)
_EARLIER_OF_DATABASE = Statement(
    _EARLIER.where(or_(LockRow.database_name.is_(None), LockRow.database_name == bindparam("database")))
)
_EARLIER_OF_DATABASES = _EARLIER.where(
    or_(LockRow.database_name.is_(None), LockRow.database_name.in_(bindparam("databases", expanding=True)))
)
_ACQUIRE = Statement(
    update(LockRow)
    .where(LockRow.id == bindparam("lock_id"))
    .values(
        state=int(LockState.ACQUIRED),
        acquired_at_ms=bindparam("now"),
        heartbeat_at_ms=bindparam("now"),
        heartbeat_count=LockRow.heartbeat_count + 1,
    )
)
_PROCESS = bindparam("process", type_=Text)
_RENEW = Statement(
    update(LockRow)
    .where(LockRow.id == bindparam("lock_id"), LockRow.heartbeat_at_ms >= bindparam("oldest"))
    .values(
        heartbeat_at_ms=bindparam("now"),
        heartbeat_count=LockRow.heartbeat_count + 1,
        orphaned_at_ms=bindparam("orphaned"),
        processes=case((LockRow.processes.contains(_PROCESS), LockRow.processes), else_=LockRow.processes + _PROCESS),
    )
)
_OTHER_PROCESSES = func.replace(LockRow.processes, _PROCESS, "")
_DISCONNECT = Statement(
    update(LockRow)
    .where(LockRow.id == bindparam("lock_id"), LockRow.processes.contains(_PROCESS))
    .values(
        processes=_OTHER_PROCESSES,
        orphaned_at_ms=case((_OTHER_PROCESSES == "", bindparam("now")), else_=LockRow.orphaned_at_ms),
    )
)
_REMOVE = Statement(delete(LockRow).where(LockRow.id == bindparam("lock_id")))


class SqlLocks:
    """Repository of locks in order of arrival."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def next_id(self) -> int:
        """Return the next lock id; the counter's row stays locked until the end of the transaction, so that ids are the
        order of arrival.
        """
        [(number,)] = _NEXT_ID.rows(self._connection, {})
        return int(number)

    def hold_back(self) -> int:
        """Return the id that the next lock gets; no lock gets one before the end of the transaction."""
        [(number,)] = _HOLD_BACK.rows(self._connection, {})
        return int(number)

    def add(self, lock: Lock) -> None:
        """Store a new lock with its components."""
        request = lock.request
        database, table = _names(request.components)
        _INSERT.change(
            self._connection,
            {
                "id": lock.id,
                "state": int(lock.state),
                "user_name": request.user,
                "host": request.host,
                "agent": request.agent,
                "requested_at_ms": lock.requested_at_ms,
                "acquired_at_ms": lock.acquired_at_ms,
                "heartbeat_at_ms": lock.heartbeat_at_ms,
                "heartbeat_count": lock.heartbeat_count,
                "database_name": database,
                "table_name": table,
                "components": _document(request.components),
                "processes": lock.processes,
                "orphaned_at_ms": lock.orphaned_at_ms,
            },
        )

    def find(self, lock_id: int) -> Lock | None:
        """Return the lock, or None if it was released or has expired."""
        row = _FIND.row(self._connection, {"lock_id": lock_id})
        return None if row is None else _lock(row)

    def earlier(self, lock_id: int, request: LockRequest) -> list[EarlierLock]:
        """Locks that arrived before this one and may touch what the request names, oldest first."""
        database, table = _names(request.components)
        rows: Sequence[Sequence[Any]]
        if database is None:
            databases = sorted({component.database for component in request.components})
            rows = self._connection.execute(_EARLIER_OF_DATABASES, {"before": lock_id, "databases": databases}).all()
        elif table is None:
            rows = _EARLIER_OF_DATABASE.rows(self._connection, {"before": lock_id, "database": database})
        else:
            rows = _EARLIER_OF_TABLE.rows(self._connection, {"before": lock_id, "database": database, "table": table})
        return [
            EarlierLock(id=number, components=_components(document), heartbeat_at_ms=heartbeat, orphaned_at_ms=orphaned)
            for number, document, heartbeat, orphaned in rows
        ]

    def select(self) -> list[Lock]:
        """Return all locks, oldest first."""
        return [_lock(row) for row in self._connection.execute(select(*LockRow.__table__.columns).order_by(LockRow.id))]

    def fresh(self, lock_ids: Collection[int], cutoff: LockCutoff) -> set[int]:
        """Return those of these locks that exist and are not stale."""
        statement = select(LockRow.id).where(LockRow.id.in_(sorted(lock_ids)), ~_is_stale(cutoff))
        return set(self._connection.scalars(statement))

    def acquire(self, lock_id: int, now_ms: int) -> bool:
        """Store that the lock is held from now on, and renew its lease; False if it does not exist."""
        return _ACQUIRE.change(self._connection, {"lock_id": lock_id, "now": now_ms}) == 1

    def renew(self, lock_id: int, now_ms: int, heartbeat_after_ms: int, process: str = "") -> bool:
        """Renew the lease and record the process that has a connection of the client; False if the lock does not exist
        or its last heartbeat is older.
        """
        values = {
            "lock_id": lock_id,
            "now": now_ms,
            "oldest": heartbeat_after_ms,
            "process": process,
            "orphaned": now_ms if process == IN_PROCESS else None,
        }
        return _RENEW.change(self._connection, values) == 1

    def disconnect(self, lock_id: int, now_ms: int, process: str) -> bool:
        """Store that the process has no connection of the client any more; False if it had none."""
        return _DISCONNECT.change(self._connection, {"lock_id": lock_id, "now": now_ms, "process": process}) == 1

    def remove(self, lock_id: int) -> bool:
        """Remove the lock; False if it does not exist."""
        return _REMOVE.change(self._connection, {"lock_id": lock_id}) == 1

    def expire(self, cutoff: LockCutoff, lock_ids: Collection[int] | None = None) -> list[Lock]:
        """Remove, count and return the locks (of these, or of all) that are stale."""
        statement = delete(LockRow).where(_is_stale(cutoff))
        if lock_ids is not None:
            statement = statement.where(LockRow.id.in_(sorted(lock_ids)))
        removed = [_lock(row) for row in self._connection.execute(statement.returning(*LockRow.__table__.columns))]
        if removed:
            self._connection.execute(
                update(SequenceRow)
                .where(SequenceRow.name == EXPIRED_SEQUENCE)
                .values(value=SequenceRow.value + len(removed))
            )
        return sorted(removed, key=lambda lock: lock.id)

    def count(self, cutoff: LockCutoff) -> LockFigures:
        """Return the numbers of locks, stale ones apart from the others."""
        kind = case((_is_stale(cutoff), 0), else_=LockRow.state)
        rows = self._connection.execute(select(kind.label("kind"), func.count().label("number")).group_by(kind))
        numbers: dict[int, int] = {row.kind: row.number for row in rows}
        expired = self._connection.scalar(select(SequenceRow.value).where(SequenceRow.name == EXPIRED_SEQUENCE))
        return LockFigures(
            acquired=numbers.get(LockState.ACQUIRED, 0),
            waiting=numbers.get(LockState.WAITING, 0),
            stale=numbers.get(0, 0),
            expired_total=expired or 0,
        )


def _is_stale(cutoff: LockCutoff) -> ColumnElement[bool]:
    silent = LockRow.heartbeat_at_ms < cutoff.heartbeat_ms
    if cutoff.orphaned_ms is None:
        return silent
    # A comparison with null is null, and its negation as well.
    return or_(silent, LockRow.orphaned_at_ms.is_not(None) & (LockRow.orphaned_at_ms < cutoff.orphaned_ms))


def _names(components: tuple[LockComponent, ...]) -> tuple[str | None, str | None]:
    """Return the database that all components are in, and the table that all are on; None where they differ."""
    first = components[0]
    if len(components) == 1:
        return first.database, first.table
    same_database = all(component.database == first.database for component in components)
    same_table = same_database and all(component.table == first.table for component in components)
    return first.database if same_database else None, first.table if same_table else None


@lru_cache(maxsize=1024)
def _document(components: tuple[LockComponent, ...]) -> str:
    return json.dumps(
        [
            [int(each.type), int(each.level), each.database, each.table, each.partition, each.operation, each.catalog]
            for each in components
        ]
    )


# Requests that wait for one table all have the same document.
@lru_cache(maxsize=1024)
def _components(document: str) -> tuple[LockComponent, ...]:
    return tuple(
        LockComponent(
            type=LockType(kind),
            level=LockLevel(level),
            database=database,
            table=table,
            partition=partition,
            operation=operation,
            catalog=catalog,
        )
        for kind, level, database, table, partition, operation, catalog in json.loads(document)
    )


def _lock(row: Sequence[Any]) -> Lock:
    number, state, user, host, agent, requested, acquired, heartbeat, heartbeats, *covers = row
    _database, _table, document, processes, orphaned = covers
    return Lock(
        id=number,
        request=LockRequest(components=_components(document), user=user, host=host, agent=agent),
        state=LockState(state),
        requested_at_ms=requested,
        acquired_at_ms=acquired,
        heartbeat_at_ms=heartbeat,
        heartbeat_count=heartbeats,
        processes=processes,
        orphaned_at_ms=orphaned,
    )
