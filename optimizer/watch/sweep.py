"""Looking at the snapshot hints of tables, in turns: those that changed lately in each round, the others now and then.

So a round costs in proportion to what changes, and what changes after a long rest is seen after `ROUNDS` rounds.
"""

from collections import deque
from collections.abc import Callable, Iterable

from interbed.storage.base.errors import InterbedError
from interbed.storage.meta.snapshot.manager import SnapshotManager
from interbed.storage.meta.store import TableStore

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

    def remember(self, name: str, store: TableStore) -> None:
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
