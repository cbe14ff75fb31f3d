"""How much of data files was decoded for a read, and why."""

import threading


class DecodeTally:
    """How many values files gave, by why they were decoded. Threads add to it.

    What stands for a reason is the number of values of all columns, the number of columns, and the bytes in memory.
    """

    FILTER, REST, PAGES, WHOLE = (
        "pages of the filter's columns",
        "pages of the other columns",
        "pages of all columns",
        "whole row groups",
    )

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: dict[str, tuple[int, int, int]] = {}

    def add(self, reason: str, rows: int, columns: int, nbytes: int) -> None:
        """Note so many rows of so many columns."""
        with self._lock:
            values, most, total = self._found.get(reason, (0, 0, 0))
            self._found[reason] = values + rows * columns, max(most, columns), total + nbytes

    def by_reason(self) -> dict[str, tuple[int, int, int]]:
        """Values, columns and bytes by reason."""
        with self._lock:
            return dict(self._found)
