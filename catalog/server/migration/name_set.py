"""Names in a temporary database: as many as a table has partitions, in memory that does not grow with them."""

import sqlite3
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Self

_CACHE_KIB = 8192


class NameSet:
    """A set of names that is read in order. It lies in a file without a name, which SQLite makes when its cache is full
    and which goes with the process.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._database = sqlite3.connect("", isolation_level=None)
        self._database.execute(f"PRAGMA cache_size=-{_CACHE_KIB}").close()
        self._database.execute("PRAGMA journal_mode=OFF").close()
        self._database.execute("CREATE TABLE names (name TEXT PRIMARY KEY) WITHOUT ROWID").close()
        self.add(names)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._database.close()

    def __len__(self) -> int:
        count: int = self._database.execute("SELECT count(*) FROM names").fetchone()[0]
        return count

    def add(self, names: Iterable[str]) -> None:
        """Add names; those that are there already count once."""
        self._database.execute("BEGIN").close()
        self._database.executemany("INSERT OR IGNORE INTO names VALUES (?)", ((name,) for name in names)).close()
        self._database.execute("COMMIT").close()

    def batches(self, size: int) -> Iterator[list[str]]:
        """All names in the order of their code points, `size` at a time."""
        last = ""
        while True:
            rows = self._database.execute(
                "SELECT name FROM names WHERE name > ? ORDER BY name LIMIT ?", (last, size)
            ).fetchall()
            if not rows:
                return
            last = rows[-1][0]
            yield [row[0] for row in rows]
