"""A watch that is asked at intervals, however often the engine takes a step: with each task that a worker completes."""

from collections.abc import Callable

from interbed.optimizer.flow.tables import ChangedTables, Watch


class PacedWatch:
    """See Watch. `has_answered` says whether all tables are known."""

    def __init__(self, watch: Watch, interval_millis: int, clock: Callable[[], int]) -> None:
        self._watch = watch
        self._interval_millis = interval_millis
        self._clock = clock
        self._asked: int | None = None
        self.has_answered = False

    def changes(self) -> ChangedTables:
        """See Watch; nothing within the interval."""
        now = self._clock()
        if self._asked is not None and now - self._asked < self._interval_millis:
            return ChangedTables()
        self._asked = now
        found = self._watch.changes()
        self.has_answered = True
        return found
