"""The keys of which an eventual log has told something since the last snapshot that was looked at.

They are in a database of SQLite that has no name: it is in memory while it is small, and in a temporary file beyond
that, which is gone with the process (https://www.sqlite.org/inmemorydb.html#temp_db).
"""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence

from interbed.storage.log.written import WrittenRow

CACHE_KIBIBYTES = 65_536
_KEYS_AT_ONCE = 500


class TouchedKeys:
    """By key, the value that was handed out last, None for a key that went; and the keys that are to be judged.

    Not for use by several threads.
    """

    def __init__(self) -> None:
        # A generator that is dropped may be closed by another thread than the one that read from it.
        self._database = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        for statement in (
            f"PRAGMA cache_size = -{CACHE_KIBIBYTES}",
            "PRAGMA journal_mode = OFF",
            "PRAGMA synchronous = OFF",
            "CREATE TABLE touched (key BLOB PRIMARY KEY, value BLOB, part INTEGER NOT NULL, place INTEGER NOT NULL)"
            " WITHOUT ROWID",
            "CREATE TABLE judged (key BLOB PRIMARY KEY) WITHOUT ROWID",
        ):
            self._database.execute(statement)

    def __len__(self) -> int:
        count: int = self._database.execute("SELECT count(*) FROM touched").fetchone()[0]
        return count

    def find(self, keys: Sequence[bytes]) -> dict[bytes, bytes | None]:
        """The values of those of the keys that are touched."""
        found: dict[bytes, bytes | None] = {}
        for start in range(0, len(keys), _KEYS_AT_ONCE):
            some = keys[start : start + _KEYS_AT_ONCE]
            marks = ",".join("?" * len(some))
            found.update(self._database.execute(f"SELECT key, value FROM touched WHERE key IN ({marks})", some))
        return found

    def put(self, rows: Iterable[WrittenRow]) -> None:
        """Keep what was handed out of the keys of these records, which are the newest of their keys."""
        with self._at_once():
            self._database.executemany(
                "INSERT OR REPLACE INTO touched VALUES (?, ?, ?, ?)",
                ((row.key, row.value, row.partition, row.offset) for row in rows),
            )

    def judge(self, keys: Iterable[bytes]) -> None:
        """Let these keys be judged next."""
        with self._at_once():
            self._database.executemany("INSERT OR IGNORE INTO judged VALUES (?)", ((key,) for key in keys))

    def judge_all(self) -> None:
        """Let all keys be judged that are touched."""
        self._database.execute("INSERT OR IGNORE INTO judged SELECT key FROM touched")

    def keys(self) -> Iterator[bytes]:
        """The keys that are touched."""
        return (key for (key,) in self._database.execute("SELECT key FROM touched"))

    def judge_before(self, offsets: Mapping[int, int]) -> None:
        """Let all keys be judged whose records are before the offsets by partition, and none whose are after them."""
        with self._at_once():
            for (partition,) in self._database.execute("SELECT DISTINCT part FROM touched").fetchall():
                place = (partition, offsets.get(partition, 0))
                self._database.execute(
                    "INSERT OR IGNORE INTO judged SELECT key FROM touched WHERE part = ? AND place < ?", place
                )
                self._database.execute(
                    "DELETE FROM judged WHERE key IN (SELECT key FROM touched WHERE part = ? AND place >= ?)", place
                )

    def judged(self, at_once: int) -> Iterator[tuple[list[bytes], dict[bytes, bytes | None]]]:
        """The keys to be judged, so many at a time in order, and the values of those that are touched."""
        last = b""
        while True:
            rows = self._database.execute(
                "SELECT j.key, t.value, t.key IS NOT NULL FROM judged j LEFT JOIN touched t ON t.key = j.key "
                "WHERE j.key > ? ORDER BY j.key LIMIT ?",
                (last, at_once),
            ).fetchall()
            if not rows:
                return
            last = rows[-1][0]
            yield [key for key, _, _ in rows], {key: value for key, value, is_touched in rows if is_touched}

    def settle(self) -> None:
        """Forget the keys that were judged: what was handed out of them is in the snapshot."""
        with self._at_once():
            self._database.execute("DELETE FROM touched WHERE key IN (SELECT key FROM judged)")
            self._database.execute("DELETE FROM judged")

    def close(self) -> None:
        """Give the memory and the file back."""
        self._database.close()

    def _at_once(self) -> "_Transaction":
        return _Transaction(self._database)


class _Transaction:
    """All changes of a block at once, which is faster; the database is thrown away when one fails."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database

    def __enter__(self) -> None:
        self._database.execute("BEGIN")

    def __exit__(self, *_: object) -> None:
        self._database.execute("COMMIT")
