"""The history of metadata in SQL.

A row has the body of a change as events have it, packed JSON. Ids grow with time, so that the oldest rows are those of
the smallest ids. The sequence `history` has the time since which all changes are kept.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, delete, func, insert, or_, select, update

from interbed.catalog.server.database.events import packed_body, unpacked_body
from interbed.catalog.server.database.models import HistoryRow, SequenceRow
from interbed.catalog.server.database.statement import Statement
from interbed.catalog.server.service.events import NotificationEvent
from interbed.catalog.server.service.history.changes import changes_of
from interbed.catalog.server.service.history.entries import (
    ACCESS_KINDS,
    ChangeOrigin,
    HistoryEntry,
    HistoryKind,
    HistoryPolicy,
    HistoryQuery,
)

HISTORY_SEQUENCE = "history"
EXPIRED_AT_ONCE = 5000

_ROWS_AT_ONCE = 100

_ROW = HistoryRow
_INSERT = Statement(insert(_ROW))


class SqlHistory:
    """Changes of metadata by id."""

    __slots__ = ("_clock", "_connection", "_origin")

    def __init__(self, connection: Connection, policy: HistoryPolicy) -> None:
        self._connection = connection
        self._origin = policy.origin
        self._clock = policy.clock or time.time

    def record(self, *changes: NotificationEvent) -> None:
        """Store changes without notification events."""
        self.record_packed(changes, {})

    def record_packed(self, changes: Sequence[NotificationEvent], packed: Mapping[int, bytes]) -> None:
        """Store changes; `packed` has the packed bodies of events, by the identity of the event."""
        if self._origin is None:
            return
        recorded = list(changes_of(changes))
        if not recorded:
            return
        origin = self._origin()
        now = int(self._clock() * 1000)
        rows = []
        for change in recorded:
            event = change.event
            body = packed.get(id(event)) if change.is_whole else None
            rows.append(
                {
                    "time_millis": now,
                    "kind": str(change.kind),
                    "change": str(event.type),
                    "catalog": event.catalog,
                    "database": event.database,
                    "name": event.body.function.name if event.body.function is not None else event.table,
                    "object_id": change.object_id,
                    "principal": origin.principal,
                    "interface": origin.interface,
                    "operation": origin.operation,
                    "request_id": origin.request_id,
                    "body": packed_body(change.body) if body is None else body,
                }
            )
        _INSERT.change_many(self._connection, rows)

    def select(self, query: HistoryQuery) -> list[HistoryEntry]:
        """Return the entries of a selection, oldest first; with a limit the latest ones."""
        statement = select(_ROW.__table__).where(*_conditions(query)).order_by(_ROW.id.desc()).limit(query.limit)
        return [_entry(row) for row in reversed(self._connection.execute(statement).all())]

    def iterate(self, query: HistoryQuery) -> Iterator[HistoryEntry]:
        """Yield the entries of a selection without a limit, oldest first, with few of them in memory."""
        statement = select(_ROW.__table__).where(*_conditions(query)).order_by(_ROW.id)
        for row in self._connection.execute(statement.execution_options(yield_per=_ROWS_AT_ONCE)):
            yield _entry(row)

    def table_ids(self, catalog: str, database: str, name: str) -> list[int]:
        """Return the numbers of the tables that ever had a name, the latest last."""
        statement = (
            select(_ROW.object_id, func.max(_ROW.id))
            .where(_ROW.catalog == catalog, _ROW.database == database, _ROW.name == name, _ROW.object_id.is_not(None))
            .group_by(_ROW.object_id)
            .order_by(func.max(_ROW.id))
        )
        return [number for number, _ in self._connection.execute(statement) if number is not None]

    def since_millis(self) -> int:
        """Return the time from which all changes are kept."""
        found = self._connection.execute(select(SequenceRow.value).where(SequenceRow.name == HISTORY_SEQUENCE))
        return int(found.scalar_one())

    def expire(self, before_millis: int, entries_max: int, limit: int = EXPIRED_AT_ONCE) -> int:
        """Remove up to `limit` entries that are older than a time, or more than the maximum; return their number."""
        newest: int | None = self._connection.execute(select(func.max(_ROW.id))).scalar_one()
        if newest is None:
            self._advance(before_millis)
            return 0
        oldest = self._connection.execute(select(_ROW.id, _ROW.time_millis).order_by(_ROW.id).limit(limit)).all()
        last, since = None, before_millis
        for number, time_millis in oldest:
            if time_millis >= before_millis and number > newest - entries_max:
                break
            last, since = number, max(since, time_millis + 1)
        self._advance(since)
        if last is None:
            return 0
        return self._connection.execute(delete(_ROW).where(_ROW.id <= last)).rowcount

    def _advance(self, since_millis: int) -> None:
        self._connection.execute(
            update(SequenceRow)
            .where(SequenceRow.name == HISTORY_SEQUENCE, SequenceRow.value < since_millis)
            .values(value=since_millis)
        )


def _conditions(query: HistoryQuery) -> list[ColumnElement[bool]]:
    of_access = _ROW.kind.in_([str(kind) for kind in ACCESS_KINDS])
    conditions: list[ColumnElement[bool]] = [of_access if query.of_access else ~of_access]
    if query.kind is not None:
        conditions.append(_ROW.kind == query.kind)
    if query.before_id is not None:
        conditions.append(_ROW.id < query.before_id)
    if query.after_millis is not None:
        conditions.append(_ROW.time_millis > query.after_millis)
    named = [
        column == wanted
        for column, wanted in (
            (_ROW.catalog, query.catalog),
            (_ROW.database, query.database),
            (_ROW.name, query.name),
        )
        if wanted is not None
    ]
    if query.object_ids:
        conditions.append(
            or_(_ROW.object_id.in_(query.object_ids), and_(_ROW.object_id.is_(None), *named))
            if named
            else _ROW.object_id.in_(query.object_ids)
        )
    else:
        conditions.extend(named)
    return conditions


def _entry(row: Any) -> HistoryEntry:
    return HistoryEntry(
        id=row.id,
        time_millis=row.time_millis,
        kind=HistoryKind(row.kind),
        change=row.change,
        catalog=row.catalog,
        database=row.database,
        name=row.name,
        object_id=row.object_id,
        origin=ChangeOrigin(
            principal=row.principal,
            interface=row.interface,
            operation=row.operation,
            request_id=row.request_id,
        ),
        body=unpacked_body(row.body),
    )
