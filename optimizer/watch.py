"""Watches, which report the tables of a catalog that have changed.

`FilesWatch` watches the directories of a catalog: their names, and the snapshot hints of the tables. `HiveWatch` reads
the notification log of a Hive metastore: each commit through the metastore moves the table's snapshot pointer there,
which the log has as an alteration of the table. Commits of other writers are found by the snapshot hints. When events
are missing from the log, or the metastore keeps none, all tables are listed.

Hints are read in rounds: those of tables that changed lately in each round, those of the others once in `ROUNDS`
rounds. The cost of a round is proportional to the number of changes, and a change after a long pause is seen after at
most `ROUNDS` rounds.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from interbed.catalog.client.api import Catalog
from interbed.catalog.client.errors import CatalogError, CatalogUnavailableError, DatabaseNotFoundError
from interbed.catalog.client.identifier import SYSTEM_DATABASE
from interbed.optimizer.flow.tables import ChangedTables
from interbed.storage.base.errors import InterbedError
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.snapshot.manager import SnapshotManager

if TYPE_CHECKING:
    # The metastore's interface is large, and catalogs of directories do without it.
    from interbed.catalog.client.hive.client import HiveMetastoreClient

ROUNDS = 30
"""The hints of all tables without recent changes are read once in this number of rounds."""

_WARM_MILLIS = 300_000
"""For this time after its last change, a table's hint is read in each round."""


class SnapshotSweep:
    """Finds changes of the newest snapshots of tables that were opened before. Times are epoch milliseconds."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._managers: dict[str, SnapshotManager] = {}
        self._newest: dict[str, int | None] = {}
        self._warm: dict[str, int] = {}
        self._cold: deque[str] = deque()

    def remember(self, name: str, store: FileStore) -> None:
        """Record a table that was opened, and its newest snapshot."""
        # Without the pointer that the catalog had then: it becomes stale.
        manager = SnapshotManager(store.file_io, store.paths)
        is_new = name not in self._managers
        self._managers[name] = manager
        newest = manager.latest_id()
        if newest != self._newest.get(name):
            self._warm[name] = self._clock()
        elif is_new:
            self._cold.append(name)
        self._newest[name] = newest

    def forget(self, names: Iterable[str]) -> None:
        """Forget tables that were removed."""
        for name in names:
            self._managers.pop(name, None)
            self._newest.pop(name, None)
            self._warm.pop(name, None)

    def round(self) -> set[str]:
        """Return the tables of this round whose newest snapshot differs from the recorded one."""
        now = self._clock()
        for name in [n for n, since in self._warm.items() if now - since > _WARM_MILLIS]:
            del self._warm[name]
            self._cold.append(name)
        looked = list(self._warm)
        for _ in range(-(-len(self._cold) // ROUNDS)):
            name = self._cold.popleft()
            if name in self._managers and name not in self._warm:
                looked.append(name)
                self._cold.append(name)
        return {name for name in looked if self._has_changed(name)}

    def _has_changed(self, name: str) -> bool:
        try:
            return self._managers[name].latest_id() != self._newest.get(name)
        except (InterbedError, OSError):
            # The error is reported when the table is opened.
            return True


LIST_MILLIS = 5_000
"""Interval of listing the names of tables; new tables are found after this time."""

LISTED_PART = 20
"""At most one part in this number of the time is spent on listing: a slow listing is done less often."""


class FilesWatch:
    """Watch of any catalog that lists its tables; the caller records opened tables in `sweep`."""

    def __init__(self, catalog: Catalog, sweep: SnapshotSweep, clock: Callable[[], int]) -> None:
        self._catalog = catalog
        self._sweep = sweep
        self._clock = clock
        self._names: frozenset[str] = frozenset()
        self._listed: int | None = None
        self._took = 0

    def changes(self) -> ChangedTables:
        now = self._clock()
        new: frozenset[str] = frozenset()
        removed: frozenset[str] = frozenset()
        if self._listed is None or now - self._listed >= max(LIST_MILLIS, LISTED_PART * self._took):
            names = frozenset(self._list())
            self._took = self._clock() - now
            new, removed = names - self._names, self._names - names
            self._names, self._listed = names, now
            self._sweep.forget(removed)
        return ChangedTables(changed=sorted(new | self._sweep.round()), removed=sorted(removed))

    def _list(self) -> list[str]:
        found = []
        for database in self._catalog.list_databases():
            if database == SYSTEM_DATABASE:
                continue
            try:
                found += [f"{database}.{table}" for table in self._catalog.list_tables(database)]
            except DatabaseNotFoundError:
                # The database was dropped meanwhile.
                continue
        return found


_log = logging.getLogger(__name__)

METASTORE_LIST_MILLIS = 60_000
"""Interval of listing all names beside the log, which has a renamed table under its old name."""

_EVENTS_AT_ONCE = 5_000
_OF_TABLES = frozenset(
    {"CREATE_TABLE", "DROP_TABLE", "ALTER_TABLE", "INSERT", "ADD_PARTITION", "ALTER_PARTITION", "DROP_PARTITION"}
)
_OF_NAMES = frozenset({"CREATE_TABLE", "DROP_TABLE", "CREATE_DATABASE", "DROP_DATABASE", "ALTER_DATABASE"})


class HiveWatch:
    """Watch of a Hive metastore. Some names may be of foreign tables, which shows when they are opened."""

    def __init__(self, client: "HiveMetastoreClient", sweep: SnapshotSweep, clock: Callable[[], int]) -> None:
        self._client = client
        self._sweep = sweep
        self._clock = clock
        self._names: frozenset[str] = frozenset()
        self._listed: int | None = None
        self._took = 0
        self._last_event: int | None = None
        self._has_log = True

    def changes(self) -> ChangedTables:
        changed: set[str] = set()
        now = self._clock()
        # Without a log, new tables are found only by listing the names.
        pause = METASTORE_LIST_MILLIS if self._has_log else max(LIST_MILLIS, LISTED_PART * self._took)
        lists = self._listed is None or now - self._listed >= pause
        last = self._last_event
        if self._has_log:
            last, names, were_named = self._events()
            changed |= names
            lists |= were_named
        removed: frozenset[str] = frozenset()
        if lists:
            begun = self._clock()
            found = frozenset(self._list())
            self._took = self._clock() - begun
            changed |= found - self._names
            removed = self._names - found
            self._names, self._listed = found, now
            self._sweep.forget(removed)
        changed |= self._sweep.round()
        # Set last: after an error above, the next answer has to include these events.
        self._last_event = last
        return ChangedTables(changed=sorted(changed - removed), removed=sorted(removed))

    def _events(self) -> tuple[int | None, set[str], bool]:
        """Return the last event's id, the tables of new events, and whether names may have changed."""
        try:
            if self._last_event is None:
                return self._client.current_notification_id(), set(), True
            return self._events_after(self._last_event)
        except CatalogUnavailableError:
            raise
        except CatalogError as error:
            _log.warning("The notification log can't be read; tables are watched by their snapshot hints: %s", error)
            self._has_log = False
            return self._last_event, set(), True

    def _events_after(self, last: int) -> tuple[int, set[str], bool]:
        changed: set[str] = set()
        were_named = False
        while True:
            events = self._client.next_notifications(last, _EVENTS_AT_ONCE)
            if events and events[0].eventId != last + 1:
                _log.warning("Events of the notification log between %d and %d are missing", last, events[0].eventId)
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
                # The database was dropped meanwhile.
                continue
        return found
