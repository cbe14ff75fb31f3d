"""What an eventual log has: rows as they were written, before it is known whether they are committed.

A record has the JSON of the primary key as its key, and as its value the row as `records` has it; a record of a deleted
key has no value. Its header `written` says of which table it is, and by which schema its row was written:

    {"table": 1718000000000, "schemaId": 0}

`TouchedKeys` are the keys of records since the last snapshot that a reader has seen. They are in a temporary database
of SQLite: in memory while it is small, then in a temporary file that is deleted with the process
(https://www.sqlite.org/inmemorydb.html#temp_db).
"""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from interbed.storage.base.errors import CorruptFileError
from interbed.storage.meta.json_object import read_object

WRITTEN_HEADER = "written"


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenBy:
    """Of which table a record is (when its first schema was made, in milliseconds since the epoch), and its schema."""

    table: int
    schema_id: int

    def to_json(self) -> bytes:
        """What the header holds."""
        return json.dumps({"table": self.table, "schemaId": self.schema_id}, separators=(",", ":")).encode()

    @staticmethod
    def from_json(content: bytes, *, place: str) -> "WrittenBy":
        """What a header says; raises CorruptFileError naming the place."""
        source = f"The header of a record of {place}"
        what = "one of a row of a table's log"
        value = read_object(content, {"table": int, "schemaId": int}, source=source, what=what)
        try:
            return WrittenBy(table=value["table"], schema_id=value["schemaId"])
        except KeyError as error:
            raise CorruptFileError(f"{source} is not {what}: it lacks {error}.") from error


class WrittenRow(NamedTuple):
    """A record: the key, the value (None when the key went), and where in the log it is."""

    key: bytes
    value: bytes | None
    by: WrittenBy
    partition: int
    offset: int


class WrittenRange(NamedTuple):
    """Where a log that was opened begins to be read and where it ended then, by partition."""

    begins: Mapping[int, int]
    ends: Mapping[int, int]


class WrittenReader(Protocol):
    """Reads an eventual log. Not for use by several threads."""

    @property
    def is_at_end(self) -> bool:
        """Whether all was handed out that the log had a moment ago."""
        ...

    def open(self, offsets: Mapping[int, int]) -> WrittenRange | None:
        """Read from these offsets on, where a partition has none or its own is not there from its beginning; None for a
        log that is not there yet. LogUnavailableError.
        """
        ...

    def poll(self, timeout_seconds: float) -> Sequence[WrittenRow]:
        """What came since the last call, waiting as long for the first of it. LogUnavailableError, after which the log
        has to be opened again; CorruptFileError.
        """
        ...

    def close(self) -> None:
        """Let go of connections."""
        ...


class WrittenRanges(Protocol):
    """Reads parts of an eventual log. Not for use by several threads."""

    def bounds(self) -> WrittenRange | None:
        """Where the log begins and ends now; None for a log that is not there. LogUnavailableError."""
        ...

    def between(self, partition: int, begin: int, end: int) -> Iterator[Sequence[WrittenRow]]:
        """The records of a partition from one offset to before the other, both of them within its bounds.

        LogUnavailableError, CorruptFileError.
        """
        ...

    def close(self) -> None:
        """Let go of connections."""
        ...


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
