"""A Hive metastore, watched by its notification log; what writers do that do not speak to it, by snapshot hints.

Each commit through the metastore moves the table's pointer there, which the log tells as a change of the table. A log
that was cut, or that the metastore does not keep, is made up for by listing all tables.
"""

import logging
from collections.abc import Callable

from interbed.catalog.client.errors import CatalogError, CatalogUnavailableError, DatabaseNotFoundError
from interbed.catalog.client.hive.client import HiveMetastoreClient
from interbed.optimizer.flow.tables import ChangedTables
from interbed.optimizer.watch import files_watch
from interbed.optimizer.watch.files_watch import SnapshotSweep

_log = logging.getLogger(__name__)

LIST_MILLIS = 60_000
"""How often all names are listed, whatever the log says: it has a renamed table under its old name."""

_EVENTS_AT_ONCE = 5_000
_OF_TABLES = frozenset(
    {"CREATE_TABLE", "DROP_TABLE", "ALTER_TABLE", "INSERT", "ADD_PARTITION", "ALTER_PARTITION", "DROP_PARTITION"}
)
_OF_NAMES = frozenset({"CREATE_TABLE", "DROP_TABLE", "CREATE_DATABASE", "DROP_DATABASE", "ALTER_DATABASE"})


class HiveWatch:
    """See Watch. Its names may be those of other tables than interbed's, which is found out when they are opened."""

    def __init__(self, client: HiveMetastoreClient, sweep: SnapshotSweep, clock: Callable[[], int]) -> None:
        self._client = client
        self._sweep = sweep
        self._clock = clock
        self._names: frozenset[str] = frozenset()
        self._listed: int | None = None
        self._took = 0
        self._last_event: int | None = None
        self._has_log = True

    def changes(self) -> ChangedTables:
        """See Watch."""
        changed: set[str] = set()
        now = self._clock()
        # Without a log a new table is seen when names are listed, and only then.
        pause = LIST_MILLIS if self._has_log else max(files_watch.LIST_MILLIS, files_watch.LISTED_PART * self._took)
        lists = self._listed is None or now - self._listed >= pause
        last = self._last_event
        if self._has_log:
            last, names, were_named = self._events()
            changed |= names
            lists |= were_named
        gone: frozenset[str] = frozenset()
        if lists:
            begun = self._clock()
            found = frozenset(self._list())
            self._took = self._clock() - begun
            changed |= found - self._names
            gone = self._names - found
            self._names, self._listed = found, now
            self._sweep.forget(gone)
        changed |= self._sweep.round()
        # Only now: what was not told has to be told by the next answer.
        self._last_event = last
        return ChangedTables(changed=sorted(changed - gone), gone=sorted(gone))

    def _events(self) -> tuple[int | None, set[str], bool]:
        """The last event now, tables that events since are about, and whether names may have changed."""
        try:
            if self._last_event is None:
                return self._client.current_notification_id(), set(), True
            return self._events_after(self._last_event)
        except CatalogUnavailableError:
            raise
        except CatalogError as error:
            _log.warning("Tables are watched by their snapshot hints alone: %s", error)
            self._has_log = False
            return self._last_event, set(), True

    def _events_after(self, last: int) -> tuple[int, set[str], bool]:
        changed: set[str] = set()
        were_named = False
        while True:
            events = self._client.next_notifications(last, _EVENTS_AT_ONCE)
            if events and events[0].eventId != last + 1:
                _log.warning("The notification log was cut between the events %d and %d.", last, events[0].eventId)
                were_named = True
                changed |= self._names
            for event in events:
                if event.eventType in _OF_TABLES and event.dbName and event.tableName:
                    changed.add(f"{event.dbName}.{event.tableName}".lower())
                were_named |= event.eventType in _OF_NAMES
                last = event.eventId
            if not events:
                return last, changed, were_named

    def _list(self) -> list[str]:
        found = []
        for database in self._client.get_all_databases():
            try:
                found += [f"{database}.{table}".lower() for table in self._client.get_all_tables(database)]
            except DatabaseNotFoundError:
                # Dropped between the two.
                continue
        return found
