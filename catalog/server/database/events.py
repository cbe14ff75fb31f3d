"""The notification log in SQL.

Bodies of events are stored as packed JSON, because a partition's columns repeat those of its table.
"""

import json
import time
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, bindparam, delete, func, insert, select, update

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
from interbed.catalog.server.database.models import EventRow, SequenceRow
from interbed.catalog.server.database.statement import Statement
from interbed.catalog.server.service.events import ChangedName, EventBody, NotificationEvent
from interbed.catalog.server.service.model import Function, MetastoreCatalog, MetastoreDatabase, MetastoreTable
from interbed.catalog.server.service.requests.idempotency import current_claim

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
_INSERT = Statement(insert(EventRow))
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
        _INSERT.change_many(
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
        conditions = _conditions(last, catalog, database, tables)
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
        conditions = _conditions(last, catalog, database, tables)
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


def _conditions(
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
