"""How much of the workers' time tables have used over the last window, from which shares are held."""

from collections import deque

from interbed.optimizer.flow.task import TaskRef


class Usage:
    """Seconds of workers by table; times are epoch milliseconds. What ended before the window is forgotten."""

    def __init__(self) -> None:
        self._ended: dict[str, deque[tuple[int, int]]] = {}
        self._running: dict[str, dict[TaskRef, int]] = {}

    def begin(self, table: str, ref: TaskRef, now: int) -> None:
        """A worker begins with an attempt."""
        self._running.setdefault(table, {})[ref] = now

    def finish(self, table: str, ref: TaskRef, now: int) -> float:
        """A worker is done with an attempt, or lost it; the seconds that it took, 0 for one that is not known."""
        started = self._running.get(table, {}).pop(ref, None)
        if started is None:
            return 0.0
        self.add(table, started, now)
        return (now - started) / 1000

    def add(self, table: str, started: int, ended: int) -> None:
        """Time that was used."""
        self._ended.setdefault(table, deque()).append((started, ended))

    def used(self, table: str, now: int, window: int) -> float:
        """Seconds within the last `window` milliseconds, what still runs included."""
        since = now - window
        ended = self._ended.get(table)
        total = 0
        if ended:
            while ended and ended[0][1] <= since:
                ended.popleft()
            total = sum(end - max(start, since) for start, end in ended if end > since)
            if not ended:
                del self._ended[table]
        total += sum(now - max(start, since) for start in self._running.get(table, {}).values())
        return total / 1000

    def forget(self, table: str) -> None:
        """Forget a table that is gone."""
        self._ended.pop(table, None)
        self._running.pop(table, None)
