"""Records of an eventual log: rows as they were written, before it is known whether they are committed.

A record has the JSON of the primary key as its key, and as its value the row as in `api`; a record of a deleted key
has no value. Its header `written` has the table and the schema of the row:

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

from interbed.storage.base.decoding import read_object
from interbed.storage.base.errors import CorruptFileError

WRITTEN_HEADER = "written"


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenBy:
    """Table of a record (creation time of its first schema, in milliseconds since the epoch), and its schema."""

    table: int
    schema_id: int

    def to_json(self) -> bytes:
        """Return the content of the header."""
        return json.dumps({"table": self.table, "schemaId": self.schema_id}, separators=(",", ":")).encode()

    @staticmethod
    def from_json(content: bytes, *, place: str) -> "WrittenBy":
        """Read a header; raises CorruptFileError naming the place."""
        source = f"The header of a record of {place}"
        what = "one of a row of a table's log"
        value = read_object(content, {"table": int, "schemaId": int}, source=source, what=what)
        try:
            return WrittenBy(table=value["table"], schema_id=value["schemaId"])
        except KeyError as error:
            raise CorruptFileError(f"{source} is not {what}: it lacks {error}.") from error


class WrittenRow(NamedTuple):
    """Record: the key, the value (None when the key was deleted), and its location in the log."""

    key: bytes
    value: bytes | None
    by: WrittenBy
    partition: int
    offset: int


class WrittenRange(NamedTuple):
    """Range of a log by partition: the offsets at which reading begins, and the end offsets at that time."""

    begins: Mapping[int, int]
    ends: Mapping[int, int]


class WrittenReader(Protocol):
    """Reader of an eventual log. Not thread-safe."""

    @property
    def is_at_end(self) -> bool:
        """Whether all records were returned that the log had recently."""
        ...

    def open(self, offsets: Mapping[int, int]) -> WrittenRange | None:
        """Read from these offsets. Return the range, or None for a log that does not exist yet.

        A partition without an offset, or whose offset is no longer valid, is read from its beginning. Raises
        LogUnavailableError.
        """
        ...

    def poll(self, timeout_seconds: float) -> Sequence[WrittenRow]:
        """Return the rows since the last call, waiting at most for the timeout for the first of them.

        After LogUnavailableError the log has to be opened again. Raises CorruptFileError.
        """
        ...

    def close(self) -> None:
        """Close the connections of this object."""
        ...


class WrittenRanges(Protocol):
    """Reader of parts of an eventual log. Not thread-safe."""

    def bounds(self) -> WrittenRange | None:
        """Return the current range of the log; None if it does not exist. Raises LogUnavailableError."""
        ...

    def between(self, partition: int, begin: int, end: int) -> Iterator[Sequence[WrittenRow]]:
        """Yield the records of a partition from offset `begin` to before `end`, both within its bounds.

        Raises LogUnavailableError, CorruptFileError.
        """
        ...

    def close(self) -> None:
        """Close the connections of this object."""
        ...


CACHE_KIBIBYTES = 65_536
_KEYS_AT_ONCE = 500


class TouchedKeys:
    """Last returned value of each key, None for a deleted key; and the keys to check. Not thread-safe."""

    def __init__(self) -> None:
        # A dropped generator may be closed by another thread than its reader.
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
        """Return the values of those keys that are touched."""
        found: dict[bytes, bytes | None] = {}
        for start in range(0, len(keys), _KEYS_AT_ONCE):
            some = keys[start : start + _KEYS_AT_ONCE]
            marks = ",".join("?" * len(some))
            found.update(self._database.execute(f"SELECT key, value FROM touched WHERE key IN ({marks})", some))
        return found

    def put(self, rows: Iterable[WrittenRow]) -> None:
        """Store the returned values of the keys of these records, which are the newest of their keys."""
        with self._at_once():
            self._database.executemany(
                "INSERT OR REPLACE INTO touched VALUES (?, ?, ?, ?)",
                ((row.key, row.value, row.partition, row.offset) for row in rows),
            )

    def judge(self, keys: Iterable[bytes]) -> None:
        """Add keys to the keys to check."""
        with self._at_once():
            self._database.executemany("INSERT OR IGNORE INTO judged VALUES (?)", ((key,) for key in keys))

    def judge_all(self) -> None:
        """Add all touched keys to the keys to check."""
        self._database.execute("INSERT OR IGNORE INTO judged SELECT key FROM touched")

    def keys(self) -> Iterator[bytes]:
        """Return the keys that are touched."""
        return (key for (key,) in self._database.execute("SELECT key FROM touched"))

    def judge_before(self, offsets: Mapping[int, int]) -> None:
        """Check all keys with records before the offsets by partition, and no keys with records after them."""
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
        """Yield the keys to check in order, in chunks, with the values of those that are touched."""
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
        """Remove the checked keys: their returned values are in the snapshot."""
        with self._at_once():
            self._database.execute("DELETE FROM touched WHERE key IN (SELECT key FROM judged)")
            self._database.execute("DELETE FROM judged")

    def close(self) -> None:
        """Free the memory and delete the file."""
        self._database.close()

    def _at_once(self) -> "_Transaction":
        return _Transaction(self._database)


class _Transaction:
    """Database transaction around a block, which is faster; the database is discarded when a change fails."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database

    def __enter__(self) -> None:
        self._database.execute("BEGIN")

    def __exit__(self, *_: object) -> None:
        self._database.execute("COMMIT")
