"""How much of data files was decoded for a read, and why."""

import threading

import pyarrow as pa


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

    def add(self, reason: str, values: int, columns: int, nbytes: int) -> None:
        """Note so many values of so many columns together, and their bytes."""
        with self._lock:
            before, most, total = self._found.get(reason, (0, 0, 0))
            self._found[reason] = before + values, max(most, columns), total + nbytes

    def add_whole(self, batch: pa.RecordBatch) -> None:
        """Note rows of whole row groups."""
        self.add(self.WHOLE, batch.num_rows * batch.num_columns, batch.num_columns, batch.nbytes)

    def by_reason(self) -> dict[str, tuple[int, int, int]]:
        """Values, columns and bytes by reason."""
        with self._lock:
            return dict(self._found)
