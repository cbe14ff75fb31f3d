"""The notification log and the history of metadata in SQL.

Bodies of events are stored as packed JSON, because a partition's columns repeat those of its table. A row of the
history has the body of a change as events have it. Its ids grow with time, so that the oldest rows are those of the
smallest ids. The sequence `history` has the time since which all changes are kept.
"""

import json
import time
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, bindparam, delete, func, insert, or_, select, update

from interbed.catalog.server.database.client_keys import SqlIdempotencyKeys
from interbed.catalog.server.database.documents import (
    compact_json,
    constraint_document,
    constraint_from,
    database_document,
    database_from,
    function_document,
    function_from,
    name_from,
    name_text,
    partition_document,
    partition_from,
    table_document,
    table_from,
)
from interbed.catalog.server.database.engine import Statement
from interbed.catalog.server.database.models import EventRow, HistoryRow, SequenceRow
from interbed.catalog.server.service.events import ChangedName, EventBody, NotificationEvent
from interbed.catalog.server.service.history.entries import (
    ACCESS_KINDS,
    ChangeOrigin,
    HistoryEntry,
    HistoryKind,
    HistoryPolicy,
    HistoryQuery,
    changes_of,
)
from interbed.catalog.server.service.idempotency import current_claim
from interbed.catalog.server.service.model import Function, MetastoreCatalog, MetastoreDatabase, MetastoreTable

_PACKING = 1
"""zlib's fastest level: the log is written with every change and mostly never read."""

EVENT_SEQUENCE = "event"

RecordPacked = Callable[[Sequence[NotificationEvent], Mapping[int, bytes]], None]
"""Function that writes the history of events, with their packed bodies by the identity of the event."""

_TAKE = Statement(
    update(SequenceRow)
    .where(SequenceRow.name == EVENT_SEQUENCE)
    .values(value=SequenceRow.value + bindparam("count"))
    .returning(SequenceRow.value)
)
_CURRENT = Statement(select(SequenceRow.value).where(SequenceRow.name == EVENT_SEQUENCE))
_INSERT_EVENT = Statement(insert(EventRow))
_TOUCHED = (
    select(EventRow.id, EventRow.type, EventRow.catalog, EventRow.database, EventRow.table, EventRow.previous)
    .where(EventRow.id > bindparam("after"))
    .order_by(EventRow.id)
)


def packed_body(body: EventBody) -> bytes:
    """Return the packed bytes of an event's row."""
    fields: dict[str, Any] = {}
    for key, catalog in (("catalog", body.catalog), ("catalog_before", body.catalog_before)):
        if catalog is not None:
            fields[key] = [
                catalog.name,
                catalog.description,
                catalog.location,
                catalog.create_time,
                dict(catalog.parameters),
            ]
    for key, database in (("database", body.database), ("database_before", body.database_before)):
        if database is not None:
            fields[key] = [database.catalog, database.name, database_document(database)]
    for key, table in (("table", body.table), ("table_before", body.table_before)):
        if table is not None:
            fields[key] = [table.catalog, table.database, table.name, table.table_type, table_document(table)]
    for key, partitions in (("partitions", body.partitions), ("partitions_before", body.partitions_before)):
        if partitions:
            fields[key] = [partition_document(partition) for partition in partitions]
    if body.function is not None:
        function = body.function
        fields["function"] = [function.catalog, function.database, function.name, function_document(function)]
    if body.constraints:
        fields["constraints"] = [
            [each.catalog, each.database, each.table, each.name, int(each.kind), constraint_document(each)]
            for each in body.constraints
        ]
    if body.details:
        fields["details"] = dict(body.details)
    # Statistics in the details are floats.
    return zlib.compress(compact_json(fields, has_floats=bool(body.details)).encode("ascii"), _PACKING)


def unpacked_body(packed: bytes) -> EventBody:
    """Return the body that a row holds."""
    fields = json.loads(zlib.decompress(packed))
    return EventBody(
        catalog=_catalog(fields.get("catalog")),
        catalog_before=_catalog(fields.get("catalog_before")),
        database=_database(fields.get("database")),
        database_before=_database(fields.get("database_before")),
        table=_table(fields.get("table")),
        table_before=_table(fields.get("table_before")),
        partitions=tuple(partition_from(each) for each in fields.get("partitions", ())),
        partitions_before=tuple(partition_from(each) for each in fields.get("partitions_before", ())),
        function=_function(fields.get("function")),
        constraints=tuple(constraint_from(*each) for each in fields.get("constraints", ())),
        details=fields.get("details", {}),
    )


def _catalog(fields: Any) -> MetastoreCatalog | None:
    if fields is None:
        return None
    name, description, location, create_time, parameters = fields
    return MetastoreCatalog(
        name=name, description=description, location=location, create_time=create_time, parameters=parameters
    )


def _database(fields: Any) -> MetastoreDatabase | None:
    return None if fields is None else database_from(*fields)


def _table(fields: Any) -> MetastoreTable | None:
    return None if fields is None else table_from(*fields)


def _function(fields: Any) -> Function | None:
    return None if fields is None else function_from(*fields)


class SqlEvents:
    """Notification events by id."""

    __slots__ = ("_connection", "_record")

    def __init__(self, connection: Connection, record: RecordPacked = lambda changes, packed: None) -> None:
        """Write the events also to the history, by `record`."""
        self._connection = connection
        self._record = record

    def append(self, *events: NotificationEvent) -> int:
        """Store events under the next ids and return the last one; the counter's row stays locked until the end of
        the transaction. KeyTakenError if another request has the idempotency key of this one.
        """
        if not events:
            return self.current()
        # A change and the key of its request are stored together.
        claim = current_claim.get()
        if claim is not None:
            SqlIdempotencyKeys(self._connection).claim(claim)
        packed = {id(event): packed_body(event.body) for event in events}
        # The history is not in the order of the counter, on which other writers wait.
        self._record(events, packed)
        [(last,)] = _TAKE.rows(self._connection, {"count": len(events)})
        now = int(time.time())
        _INSERT_EVENT.change_many(
            self._connection,
            [
                {
                    "id": number,
                    "time": event.time or now,
                    "type": str(event.type),
                    "catalog": event.catalog,
                    "database": event.database,
                    "table": event.table,
                    "previous": name_text(event.previous),
                    "body": packed[id(event)],
                }
                for number, event in enumerate(events, start=last - len(events) + 1)
            ],
        )
        return int(last)

    def current(self) -> int:
        """Return the id of the last event, 0 before the first."""
        [(last,)] = _CURRENT.rows(self._connection, {})
        return int(last)

    def after(
        self,
        last: int,
        limit: int | None = None,
        *,
        catalog: str | None = None,
        database: str | None = None,
        tables: Collection[str] = (),
        types: Collection[str] = (),
        skipped_types: Collection[str] = (),
        bytes_max: int | None = None,
    ) -> list[NotificationEvent]:
        """Return the events with larger ids, in order, at most `bytes_max` as they are stored, but at least one."""
        conditions = _event_conditions(last, catalog, database, tables)
        if types:
            conditions.append(EventRow.type.in_(sorted(types)))
        if skipped_types:
            conditions.append(EventRow.type.not_in(sorted(skipped_types)))
        if bytes_max is not None:
            sizes = self._connection.execute(
                select(EventRow.id, func.length(EventRow.body)).where(*conditions).order_by(EventRow.id).limit(limit)
            )
            fitting = _fitting(sizes, bytes_max)
            if fitting is None:
                return []
            conditions.append(EventRow.id <= fitting)
        rows = self._connection.execute(
            select(*EventRow.__table__.columns).where(*conditions).order_by(EventRow.id).limit(limit)
        )
        return [_event(row) for row in rows]

    def count(
        self,
        last: int,
        *,
        up_to: int | None = None,
        catalog: str | None = None,
        database: str | None = None,
        tables: Collection[str] = (),
    ) -> int:
        """Return the number of events that `after` would give, with ids of at most `up_to`."""
        conditions = _event_conditions(last, catalog, database, tables)
        if up_to is not None:
            conditions.append(EventRow.id <= up_to)
        return self._connection.execute(select(func.count()).select_from(EventRow).where(*conditions)).scalar_one()

    def touched(self, last: int, limit: int = 1000) -> list[ChangedName]:
        """Return the names that the events with larger ids changed, in order, for at most `limit` events."""
        touched: list[ChangedName] = []
        for row in self._connection.execute(_TOUCHED.limit(limit), {"after": last}):
            previous = name_from(row.previous)
            if previous is not None:
                catalog, database, table = previous
                touched.append(ChangedName(id=row.id, type=row.type, catalog=catalog, database=database, table=table))
            touched.append(
                ChangedName(id=row.id, type=row.type, catalog=row.catalog, database=row.database, table=row.table)
            )
        return touched

    def expire(self, before: int) -> int:
        """Remove the events that are older than a time, in seconds since the epoch, and return their number."""
        return self._connection.execute(delete(EventRow).where(EventRow.time < before)).rowcount


def _event_conditions(
    last: int, catalog: str | None, database: str | None, tables: Collection[str]
) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = [EventRow.id > last]
    if catalog is not None:
        conditions.append(EventRow.catalog == catalog)
    if database is not None:
        conditions.append(EventRow.database == database)
    if tables:
        conditions.append(EventRow.table.in_(sorted(set(tables))))
    return conditions


def _fitting(sizes: Iterable[Any], bytes_max: int) -> int | None:
    """Return the last of some (id, size) that fits together with those before it; None if there is none at all."""
    last = None
    total = 0
    for number, size in sizes:
        total += size
        if last is not None and total > bytes_max:
            break
        last = number
    return last


def _event(row: Any) -> NotificationEvent:
    return NotificationEvent(
        id=row.id,
        time=row.time,
        type=row.type,
        catalog=row.catalog,
        database=row.database,
        table=row.table,
        previous=name_from(row.previous),
        body=unpacked_body(row.body),
    )


HISTORY_SEQUENCE = "history"
EXPIRED_AT_ONCE = 5000

_ROWS_AT_ONCE = 100

_HISTORY = HistoryRow
_INSERT_HISTORY = Statement(insert(_HISTORY))


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
        _INSERT_HISTORY.change_many(self._connection, rows)

    def select(self, query: HistoryQuery) -> list[HistoryEntry]:
        """Return the entries of a selection, oldest first; with a limit the latest ones."""
        statement = (
            select(_HISTORY.__table__)
            .where(*_history_conditions(query))
            .order_by(_HISTORY.id.desc())
            .limit(query.limit)
        )
        return [_history_entry(row) for row in reversed(self._connection.execute(statement).all())]

    def iterate(self, query: HistoryQuery) -> Iterator[HistoryEntry]:
        """Yield the entries of a selection without a limit, oldest first, with few of them in memory."""
        statement = select(_HISTORY.__table__).where(*_history_conditions(query)).order_by(_HISTORY.id)
        for row in self._connection.execute(statement.execution_options(yield_per=_ROWS_AT_ONCE)):
            yield _history_entry(row)

    def table_ids(self, catalog: str, database: str, name: str) -> list[int]:
        """Return the numbers of the tables that ever had a name, the latest last."""
        statement = (
            select(_HISTORY.object_id, func.max(_HISTORY.id))
            .where(
                _HISTORY.catalog == catalog,
                _HISTORY.database == database,
                _HISTORY.name == name,
                _HISTORY.object_id.is_not(None),
            )
            .group_by(_HISTORY.object_id)
            .order_by(func.max(_HISTORY.id))
        )
        return [number for number, _ in self._connection.execute(statement) if number is not None]

    def since_millis(self) -> int:
        """Return the time from which all changes are kept."""
        found = self._connection.execute(select(SequenceRow.value).where(SequenceRow.name == HISTORY_SEQUENCE))
        return int(found.scalar_one())

    def expire(self, before_millis: int, entries_max: int, limit: int = EXPIRED_AT_ONCE) -> int:
        """Remove up to `limit` entries that are older than a time, or more than the maximum; return their number."""
        newest: int | None = self._connection.execute(select(func.max(_HISTORY.id))).scalar_one()
        if newest is None:
            self._advance(before_millis)
            return 0
        oldest = self._connection.execute(
            select(_HISTORY.id, _HISTORY.time_millis).order_by(_HISTORY.id).limit(limit)
        ).all()
        last, since = None, before_millis
        for number, time_millis in oldest:
            if time_millis >= before_millis and number > newest - entries_max:
                break
            last, since = number, max(since, time_millis + 1)
        self._advance(since)
        if last is None:
            return 0
        return self._connection.execute(delete(_HISTORY).where(_HISTORY.id <= last)).rowcount

    def _advance(self, since_millis: int) -> None:
        self._connection.execute(
            update(SequenceRow)
            .where(SequenceRow.name == HISTORY_SEQUENCE, SequenceRow.value < since_millis)
            .values(value=since_millis)
        )


def _history_conditions(query: HistoryQuery) -> list[ColumnElement[bool]]:
    of_access = _HISTORY.kind.in_([str(kind) for kind in ACCESS_KINDS])
    conditions: list[ColumnElement[bool]] = [of_access if query.of_access else ~of_access]
    if query.kind is not None:
        conditions.append(_HISTORY.kind == query.kind)
    if query.before_id is not None:
        conditions.append(_HISTORY.id < query.before_id)
    if query.after_millis is not None:
        conditions.append(_HISTORY.time_millis > query.after_millis)
    named = [
        column == wanted
        for column, wanted in (
            (_HISTORY.catalog, query.catalog),
            (_HISTORY.database, query.database),
            (_HISTORY.name, query.name),
        )
        if wanted is not None
    ]
    if query.object_ids:
        conditions.append(
            or_(_HISTORY.object_id.in_(query.object_ids), and_(_HISTORY.object_id.is_(None), *named))
            if named
            else _HISTORY.object_id.in_(query.object_ids)
        )
    else:
        conditions.extend(named)
    return conditions


def _history_entry(row: Any) -> HistoryEntry:
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
