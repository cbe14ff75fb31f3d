"""Watch of a catalog of directories, by the names in them and the snapshot hints of tables.

Hints are read in rounds: those of tables that changed lately in each round, the others once in `ROUNDS` rounds. So a
round costs in proportion to the changes, and a change after a long rest is seen after `ROUNDS` rounds.
"""

from collections import deque
from collections.abc import Callable, Iterable

from interbed.catalog.client.api import Catalog
from interbed.catalog.client.errors import DatabaseNotFoundError
from interbed.catalog.client.identifier import SYSTEM_DATABASE
from interbed.optimizer.flow.tables import ChangedTables
from interbed.storage.base.errors import InterbedError
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.snapshot.manager import SnapshotManager

ROUNDS = 30
"""All tables at rest are looked at once in so many rounds."""

_WARM_MILLIS = 300_000
"""So long after its last change a table is looked at in each round."""


class SnapshotSweep:
    """Knows the newest snapshots of tables, by name, once these were opened. Times are epoch milliseconds."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._managers: dict[str, SnapshotManager] = {}
        self._newest: dict[str, int | None] = {}
        self._warm: dict[str, int] = {}
        self._cold: deque[str] = deque()

    def remember(self, name: str, store: FileStore) -> None:
        """A table was opened, and its newest snapshot seen."""
        # Without what the catalog knew then, which grows old.
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
        """These tables are gone."""
        for name in names:
            self._managers.pop(name, None)
            self._newest.pop(name, None)
            self._warm.pop(name, None)

    def round(self) -> set[str]:
        """The tables of this round that have another newest snapshot than when they were last opened."""
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
            # Whoever opens the table is told what is wrong with it.
            return True


LIST_MILLIS = 5_000
"""How often names are listed: new tables are seen after so long."""

LISTED_PART = 20
"""Of so much time a part is spent on listing: where it takes long, it is done less often."""


class FilesWatch:
    """See Watch. Works for every catalog that can list its tables; `sweep` is told of tables as they are opened."""

    def __init__(self, catalog: Catalog, sweep: SnapshotSweep, clock: Callable[[], int]) -> None:
        self._catalog = catalog
        self._sweep = sweep
        self._clock = clock
        self._names: frozenset[str] = frozenset()
        self._listed: int | None = None
        self._took = 0

    def changes(self) -> ChangedTables:
        """See Watch."""
        now = self._clock()
        new: frozenset[str] = frozenset()
        gone: frozenset[str] = frozenset()
        if self._listed is None or now - self._listed >= max(LIST_MILLIS, LISTED_PART * self._took):
            names = frozenset(self._list())
            self._took = self._clock() - now
            new, gone = names - self._names, self._names - names
            self._names, self._listed = names, now
            self._sweep.forget(gone)
        return ChangedTables(changed=sorted(new | self._sweep.round()), gone=sorted(gone))

    def _list(self) -> list[str]:
        found = []
        for database in self._catalog.list_databases():
            if database == SYSTEM_DATABASE:
                continue
            try:
                found += [f"{database}.{table}" for table in self._catalog.list_tables(database)]
            except DatabaseNotFoundError:
                # Dropped between the two.
                continue
        return found
