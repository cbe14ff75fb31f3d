"""Locks in SQL: a row for each, with what it covers as a JSON document in it.

The document is a list of `[type, level, database, table, partition, operation]`, numbers as in Hive's interface. To
ask for a lock and to release it are the commonest writes of a metastore, so that each takes as few statements as can
be: id, conflicts, insert; and one delete. On SQLite these go to the driver directly, in the text that SQLAlchemy made
of them when the module was loaded: its way to a cursor would take longer than the statement.
"""

import json
import sqlite3
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, bindparam, case, delete, func, insert, or_, select, update
from sqlalchemy.dialects import sqlite
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql import Executable

from interbed.catalog.metastore.lock_model import (
    EarlierLock,
    Lock,
    LockComponent,
    LockFigures,
    LockLevel,
    LockRequest,
    LockState,
    LockType,
)
from interbed.catalog.repository.models import LockRow, SequenceRow

LOCK_SEQUENCE = "lock"
EXPIRED_SEQUENCE = "lock_expired"

_SQLITE = sqlite.dialect(paramstyle="named")


class _Statement:
    """A statement for both kinds of database, with its text and constants for SQLite's driver."""

    __slots__ = ("constants", "core", "text")

    def __init__(self, core: Executable) -> None:
        self.core = core
        compiled = core.compile(dialect=_SQLITE)  # type: ignore[attr-defined]
        self.text = str(compiled)
        self.constants = dict(compiled.params)


_NEXT_ID = _Statement(
    update(SequenceRow)
    .where(SequenceRow.name == LOCK_SEQUENCE)
    .values(value=SequenceRow.value + 1)
    .returning(SequenceRow.value)
)
_INSERT = _Statement(insert(LockRow))
_FIND = _Statement(select(*LockRow.__table__.columns).where(LockRow.id == bindparam("lock_id")))
_EARLIER = (
    select(LockRow.id, LockRow.components, LockRow.heartbeat_at_ms)
    .where(LockRow.id < bindparam("before"))
    .order_by(LockRow.id)
)
# Each is one range of the index, or two: a lock without a database or table stands for many.
_EARLIER_OF_TABLE = _Statement(
    _EARLIER.where(
        or_(
            LockRow.database_name.is_(None),
            (LockRow.database_name == bindparam("database"))
            & (LockRow.table_name.is_(None) | (LockRow.table_name == bindparam("table"))),
        )
    )
)
_EARLIER_OF_DATABASE = _Statement(
    _EARLIER.where(or_(LockRow.database_name.is_(None), LockRow.database_name == bindparam("database")))
)
_EARLIER_OF_DATABASES = _EARLIER.where(
    or_(LockRow.database_name.is_(None), LockRow.database_name.in_(bindparam("databases", expanding=True)))
)
_ACQUIRE = _Statement(
    update(LockRow)
    .where(LockRow.id == bindparam("lock_id"))
    .values(
        state=int(LockState.ACQUIRED),
        acquired_at_ms=bindparam("now"),
        heartbeat_at_ms=bindparam("now"),
        heartbeat_count=LockRow.heartbeat_count + 1,
    )
)
_RENEW = _Statement(
    update(LockRow)
    .where(LockRow.id == bindparam("lock_id"), LockRow.heartbeat_at_ms >= bindparam("oldest"))
    .values(heartbeat_at_ms=bindparam("now"), heartbeat_count=LockRow.heartbeat_count + 1)
)
_REMOVE = _Statement(delete(LockRow).where(LockRow.id == bindparam("lock_id")))


class SqlLocks:
    """Locks in order of arrival."""

    __slots__ = ("_connection", "_sqlite")

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._sqlite: sqlite3.Connection | None = None

    def next_id(self) -> int:
        """The next lock id; the counter's row stays locked until the end of the transaction, so that ids are the
        order of arrival.
        """
        [(number,)] = self._rows(_NEXT_ID, {})
        return int(number)

    def add(self, lock: Lock) -> None:
        """Store a new lock."""
        request = lock.request
        database, table = _names(request.components)
        self._change(
            _INSERT,
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
            },
        )

    def find(self, lock_id: int) -> Lock | None:
        """The lock, or None if it was released or has expired."""
        rows = self._rows(_FIND, {"lock_id": lock_id})
        return _lock(rows[0]) if rows else None

    def earlier(self, lock_id: int, request: LockRequest) -> list[EarlierLock]:
        """Locks that arrived before this one and may touch what the request names, oldest first."""
        database, table = _names(request.components)
        rows: Sequence[Sequence[Any]]
        if database is None:
            databases = sorted({component.database for component in request.components})
            rows = self._connection.execute(_EARLIER_OF_DATABASES, {"before": lock_id, "databases": databases}).all()
        elif table is None:
            rows = self._rows(_EARLIER_OF_DATABASE, {"before": lock_id, "database": database})
        else:
            rows = self._rows(_EARLIER_OF_TABLE, {"before": lock_id, "database": database, "table": table})
        return [
            EarlierLock(id=number, components=_components(document), heartbeat_at_ms=heartbeat)
            for number, document, heartbeat in rows
        ]

    def select(self) -> list[Lock]:
        """All locks, oldest first."""
        return [_lock(row) for row in self._connection.execute(select(*LockRow.__table__.columns).order_by(LockRow.id))]

    def acquire(self, lock_id: int, now_ms: int) -> bool:
        """Store that the lock is held from now on, and renew its lease; False if it is gone."""
        return self._change(_ACQUIRE, {"lock_id": lock_id, "now": now_ms})

    def renew(self, lock_id: int, now_ms: int, heartbeat_after_ms: int) -> bool:
        """Renew the lease; False if the lock is gone or its last heartbeat is older."""
        return self._change(_RENEW, {"lock_id": lock_id, "now": now_ms, "oldest": heartbeat_after_ms})

    def remove(self, lock_id: int) -> bool:
        """Remove the lock; False if it is gone already."""
        return self._change(_REMOVE, {"lock_id": lock_id})

    def expire(self, heartbeat_before_ms: int, lock_ids: Collection[int] | None = None) -> list[Lock]:
        """Remove, count and return the locks (of these, or of all) whose last heartbeat is older."""
        statement = delete(LockRow).where(LockRow.heartbeat_at_ms < heartbeat_before_ms)
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

    def count(self, heartbeat_before_ms: int) -> LockFigures:
        """How many locks there are, those with an older heartbeat apart from the others."""
        kind = case((LockRow.heartbeat_at_ms < heartbeat_before_ms, 0), else_=LockRow.state)
        rows = self._connection.execute(select(kind.label("kind"), func.count().label("number")).group_by(kind))
        numbers: dict[int, int] = {row.kind: row.number for row in rows}
        expired = self._connection.scalar(select(SequenceRow.value).where(SequenceRow.name == EXPIRED_SEQUENCE))
        return LockFigures(
            acquired=numbers.get(LockState.ACQUIRED, 0),
            waiting=numbers.get(LockState.WAITING, 0),
            stale=numbers.get(0, 0),
            expired_total=expired or 0,
        )

    def _rows(self, statement: _Statement, values: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
        if self._driver() is None:
            return self._connection.execute(statement.core, values).all()
        return self._on_sqlite(statement, values).fetchall()

    def _change(self, statement: _Statement, values: Mapping[str, Any]) -> bool:
        """Whether a row was changed."""
        if self._driver() is None:
            return self._connection.execute(statement.core, values).rowcount == 1
        return self._on_sqlite(statement, values).rowcount == 1

    def _driver(self) -> sqlite3.Connection | None:
        if self._sqlite is None and self._connection.dialect.name == "sqlite":
            self._sqlite = self._connection.connection.driver_connection
        return self._sqlite

    def _on_sqlite(self, statement: _Statement, values: Mapping[str, Any]) -> sqlite3.Cursor:
        assert self._sqlite is not None
        try:
            return self._sqlite.execute(statement.text, {**statement.constants, **values})
        except sqlite3.Error as error:
            # As it would come through SQLAlchemy: the store knows by it what may be tried again.
            raise DBAPIError.instance(statement.text, None, error, sqlite3.Error) from error


def _names(components: tuple[LockComponent, ...]) -> tuple[str | None, str | None]:
    """The database that all components are in, and the table that all are about; None where there is no such."""
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
            [int(each.type), int(each.level), each.database, each.table, each.partition, each.operation]
            for each in components
        ]
    )


# Those who wait for one table all have the same document.
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
        )
        for kind, level, database, table, partition, operation in json.loads(document)
    )


def _lock(row: Sequence[Any]) -> Lock:
    number, state, user, host, agent, requested, acquired, heartbeat, heartbeats, _database, _table, document = row
    return Lock(
        id=number,
        request=LockRequest(components=_components(document), user=user, host=host, agent=agent),
        state=LockState(state),
        requested_at_ms=requested,
        acquired_at_ms=acquired,
        heartbeat_at_ms=heartbeat,
        heartbeat_count=heartbeats,
    )
