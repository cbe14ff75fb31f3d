"""The notification log as clients read it, and the events that clients write."""

import time
from collections.abc import Callable, Collection, Sequence

from interbed.catalog.server.service import events
from interbed.catalog.server.service.access.guard import READ_ALL, WRITE
from interbed.catalog.server.service.access.objects import (
    SERVER,
    SecuredObject,
    catalog_object,
    database_object,
    function_object,
    table_object,
)
from interbed.catalog.server.service.access.secured import (
    SecuredService,
    filtered,
    needs,
    secured,
    the_table,
    unsecured,
)
from interbed.catalog.server.service.errors import NoSuchObjectError
from interbed.catalog.server.service.events import EventType, NotificationEvent
from interbed.catalog.server.service.model import DEFAULT_CATALOG
from interbed.catalog.server.service.names import LISTED_MAX, check_number, normalized, partition_name, shortened
from interbed.catalog.server.service.repository import Repository, Transaction
from interbed.catalog.server.service.tables.rules import table_not_found

EVENTS_TTL_SECONDS = 86_400
"""How long events are kept by default; a day, as in Hive."""

EVENTS_MAX = 10_000
"""Events in one answer. A client continues after the last one that it got."""

EVENTS_BYTES_MAX = 4 * 1024 * 1024
"""Stored bytes of the events in one answer: as text they take about ten times as much memory."""


HIDDEN_EVENT = "HIDDEN"
"""The type of an event about an object that the caller does not see. It has an id and a time, and nothing else: Hive's
clients expect ids without gaps.
"""


_WITH_STATISTICS = frozenset((EventType.UPDATE_TABLE_COLUMN_STAT, EventType.UPDATE_PARTITION_COLUMN_STAT))
"""Types of events that have the least and greatest values of columns."""


class NotificationService(SecuredService):
    """The calls about notification events."""

    def __init__(
        self,
        store: Repository,
        *,
        clock: Callable[[], float] = time.time,
        is_bound: Callable[[SecuredObject], bool] = lambda _table: False,
    ) -> None:
        """Make the service. `is_bound` returns whether row filters or column masks of a table bind the caller."""
        self._store = store
        self._clock = clock
        self._is_bound = is_bound

    @unsecured("the number of the last event names no object")
    def current(self) -> int:
        """Return the id of the last event, 0 before the first."""
        return self._store.read(lambda transaction: transaction.events.current())

    @filtered("events of objects that the caller sees; others keep only their id and time")
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
    ) -> list[NotificationEvent]:
        """Return the next events, in order, at most EVENTS_MAX of them and EVENTS_BYTES_MAX in all.

        If the requested events have expired, the first id is not `last + 1`: Hive's clients treat that as an error, and
        interbed's must start again.
        """
        _check_listed(tables, types, skipped_types)
        bound = EVENTS_MAX if limit is None or limit <= 0 else min(limit, EVENTS_MAX)
        found = self._store.read(
            lambda transaction: transaction.events.after(
                last,
                bound,
                catalog=normalized(catalog) or None,
                database=normalized(database) or None,
                tables=[normalized(table) for table in tables],
                types=types,
                skipped_types=skipped_types,
                bytes_max=EVENTS_BYTES_MAX,
            )
        )
        # A selection has gaps in any case, and must not show what it has selected.
        return self._shown(found, with_gaps=any((catalog, database, tables, types, skipped_types)))

    @filtered("events of tables that the caller sees, if a database is given")
    def count(
        self,
        last: int,
        *,
        up_to: int | None = None,
        catalog: str | None = None,
        database: str | None = None,
        tables: Collection[str] = (),
        limit: int | None = None,
    ) -> int:
        """Return the number of events after one, up to another if that is given, and never more than `limit`."""
        _check_listed(tables)
        chosen = self._visible_tables(catalog, database, tables)
        if chosen is None:
            return 0
        tables = chosen
        found = self._store.read(
            lambda transaction: transaction.events.count(
                last,
                up_to=up_to,
                catalog=normalized(catalog) or None,
                database=normalized(database) or None,
                tables=[normalized(table) for table in tables],
            )
        )
        return found if limit is None or limit <= 0 else min(found, limit)

    @secured(needs(WRITE, the_table))
    def insert(
        self,
        catalog: str,
        database: str,
        table: str,
        inserts: Sequence[tuple[Sequence[str], Sequence[str], bool]],
    ) -> list[int]:
        """Append the events of a client's writes: (values of the partition, files, whether they replace others) for
        each partition. Returns the ids of the events. NoSuchObjectError.
        """
        key = (catalog, normalized(database), normalized(table))

        def work(transaction: Transaction) -> list[int]:
            stored = transaction.tables.find(*key)
            if stored is None:
                raise table_not_found(database, table)
            written = []
            for values, files, replaces in inserts:
                partition = None
                if values:
                    name = partition_name(stored.value.partition_keys, values)
                    found = transaction.partitions.find(stored.id, name)
                    if found is None:
                        raise NoSuchObjectError(f"partition values=[{shortened(', '.join(values))}]")
                    partition = found.value
                written.append(events.insert(stored.value, partition, files=files, replace=replaces))
            last = transaction.events.append(*written)
            return list(range(last - len(written) + 1, last + 1))

        return self._store.write(work) if inserts else []

    def _shown(self, found: list[NotificationEvent], *, with_gaps: bool) -> list[NotificationEvent]:
        """Return the events without what the caller does not see, and without statistics of tables whose policies bind
        it.
        """
        if self._access.caller() is None:
            return found
        named = {each.id: _objects(each) for each in found}
        objects = list(dict.fromkeys(on for each in named.values() for on in each))
        sees_all = self._access.may(READ_ALL, SERVER)
        seen = set(objects if sees_all else self._access.visible(objects, lambda each: each))
        measured = {on for each in found if each.type in _WITH_STATISTICS for on in named[each.id]}
        bound = {on for on in measured if self._is_bound(on)}
        shown = [
            each
            if seen.issuperset(named[each.id])
            and not (each.type in _WITH_STATISTICS and bound.intersection(named[each.id]))
            else NotificationEvent(id=each.id, time=each.time, type=HIDDEN_EVENT, catalog=None)
            for each in found
        ]
        return [each for each in shown if each.type != HIDDEN_EVENT] if with_gaps else shown

    def _visible_tables(
        self, catalog: str | None, database: str | None, tables: Collection[str]
    ) -> Collection[str] | None:
        """Return the tables whose events are counted, none for all; None if the caller sees none of them."""
        if database is None or self._access.caller() is None:
            return tables
        home = database_object(normalized(catalog) or DEFAULT_CATALOG, normalized(database))
        if self._access.may(READ_ALL, home):
            return tables
        names = [normalized(each) for each in tables] or self._store.read(
            lambda transaction: transaction.tables.names(home.catalog or "", home.database or "")
        )
        return (
            self._access.visible(names, lambda name: table_object(home.catalog or "", home.database or "", name), home)
            or None
        )

    @unsecured("the reaper calls it")
    def expire(self, keep_seconds: float = EVENTS_TTL_SECONDS) -> int:
        """Remove the events that are older, and return their number. Called periodically."""
        before = int(self._clock() - keep_seconds)
        return self._store.write(lambda transaction: transaction.events.expire(before))


def _objects(event: NotificationEvent) -> list[SecuredObject]:
    """Return the objects that an event names."""
    if event.catalog is None:
        return [SERVER]
    if event.database is None:
        return [catalog_object(event.catalog)]
    if event.body.function is not None:
        return [function_object(event.catalog, event.database, event.body.function.name)]
    if event.table is None:
        return [database_object(event.catalog, event.database)]
    found = [table_object(event.catalog, event.database, event.table)]
    return found if event.previous is None else [*found, table_object(*event.previous)]


def _check_listed(tables: Collection[str], *types: Collection[str]) -> None:
    check_number("names of tables", len(tables), LISTED_MAX)
    for each in types:
        check_number("types of events", len(each), LISTED_MAX)
