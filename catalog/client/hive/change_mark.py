"""What a table's directory says of a change that a metastore has to be told of as well: `<table>/.metastore-change`.

    {"change": "drop", "table": "shop.orders", "snapshot": 7}
    {"change": "create", "table": "shop.orders"}
    {"change": "rename", "table": "shop.bills", "from": "file:/lake/shop.db/orders", "to": "file:/lake/shop.db/bills"}

It is written before the metastore is told, and deleted when the files have followed. A process that was killed between
the two leaves it: beside an entry of the metastore it means nothing, and where the entry is gone it says that nobody
misses the files (a drop; unless there is a newer snapshot), that they never were a table (a creation), or
where they went (a rename). No other program looks at it.
"""

import json
import uuid
from dataclasses import dataclass
from enum import StrEnum

from interbed.catalog.client.identifier import Identifier
from interbed.storage.io.api import FileIO

ASIDE = ".unfinished"
"""Beside the tables of a database: rows of tables that were never finished."""

_NAME = ".metastore-change"
_SNAPSHOT = "snapshot-"


class MarkedChange(StrEnum):
    """What was begun."""

    CREATE = "create"
    DROP = "drop"
    RENAME = "rename"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeMark:
    """The mark. `table` is the name that the files belong to afterwards, `snapshot` the newest one of a dropped table;
    `source` and `target` are the locations of a rename.
    """

    change: MarkedChange
    table: str
    snapshot: int | None = None
    source: str | None = None
    target: str | None = None

    def is_of(self, identifier: Identifier) -> bool:
        """Whether it is about the table of this name; metastores ignore the case."""
        return self.table.lower() == str(identifier).lower()

    def write(self, file_io: FileIO, location: str) -> None:
        """Put it into a table's directory, durably."""
        members = {
            "change": str(self.change),
            "table": self.table,
            "snapshot": self.snapshot,
            "from": self.source,
            "to": self.target,
        }
        given = {key: value for key, value in members.items() if value is not None}
        file_io.overwrite(f"{location}/{_NAME}", json.dumps(given).encode())


def read_mark(file_io: FileIO, location: str) -> ChangeMark | None:
    """The mark of a directory; None when there is none, or one that can't be read, which then says nothing."""
    try:
        found = json.loads(file_io.read_bytes(f"{location}/{_NAME}"))
        return ChangeMark(
            change=MarkedChange(found["change"]),
            table=str(found["table"]),
            snapshot=found.get("snapshot"),
            source=found.get("from"),
            target=found.get("to"),
        )
    except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
        return None


def remove_mark(file_io: FileIO, location: str) -> None:
    """Delete the mark of a directory; there may be none."""
    file_io.delete(f"{location}/{_NAME}")


def newest_snapshot(file_io: FileIO, location: str) -> int | None:
    """The id of the newest snapshot file in a directory that need not be a table; None when there is none."""
    names = [e.name.removeprefix(_SNAPSHOT) for e in file_io.list(f"{location}/snapshot") if _SNAPSHOT in e.name]
    return max((int(name) for name in names if name.isdigit()), default=None)


def aside_of(directory: str) -> str:
    """Where files go that are in the way of a new table, and that nobody may delete without a look."""
    parent, _, name = directory.rstrip("/").rpartition("/")
    return f"{parent}/{ASIDE}/{name}-{uuid.uuid4()}"


def was_dropped(file_io: FileIO, location: str, identifier: Identifier) -> bool:
    """Whether a directory without an entry is what a drop of this table has left, and nobody has written since."""
    mark = read_mark(file_io, location)
    if mark is None or mark.change is not MarkedChange.DROP or not mark.is_of(identifier):
        return False
    return (newest_snapshot(file_io, location) or 0) <= (mark.snapshot or 0)
