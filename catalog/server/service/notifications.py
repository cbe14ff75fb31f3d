"""The notification log as clients read it, and the events that clients write."""

import time
from collections.abc import Callable, Collection, Sequence

from interbed.catalog.server.service import events
from interbed.catalog.server.service.errors import NoSuchObjectError
from interbed.catalog.server.service.events import NotificationEvent
from interbed.catalog.server.service.names import LISTED_MAX, check_number, normalized, partition_name, shortened
from interbed.catalog.server.service.repository import Repository, Transaction
from interbed.catalog.server.service.tables.rules import table_not_found

EVENTS_TTL_SECONDS = 86_400
"""How long events are kept by default; a day, as in Hive."""

EVENTS_MAX = 10_000
"""Events in one answer. A client continues after the last one that it got."""

EVENTS_BYTES_MAX = 4 * 1024 * 1024
"""Stored bytes of the events in one answer: as text they take about ten times as much memory."""


class NotificationService:
    """The calls about notification events."""

    def __init__(self, store: Repository, *, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock

    def current(self) -> int:
        """Return the id of the last event, 0 before the first."""
        return self._store.read(lambda transaction: transaction.events.current())

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
        return self._store.read(
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

    def expire(self, keep_seconds: float = EVENTS_TTL_SECONDS) -> int:
        """Remove the events that are older, and return their number. Called periodically."""
        before = int(self._clock() - keep_seconds)
        return self._store.write(lambda transaction: transaction.events.expire(before))


def _check_listed(tables: Collection[str], *types: Collection[str]) -> None:
    check_number("names of tables", len(tables), LISTED_MAX)
    for each in types:
        check_number("types of events", len(each), LISTED_MAX)
