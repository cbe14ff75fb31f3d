"""A catalog of directories, watched by the names in them and by the snapshot hints of tables."""

from collections.abc import Callable

from interbed.catalog.client.api import Catalog
from interbed.catalog.client.errors import DatabaseNotFoundError
from interbed.catalog.client.identifier import SYSTEM_DATABASE
from interbed.optimizer.flow.tables import ChangedTables
from interbed.optimizer.watch.sweep import SnapshotSweep

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
