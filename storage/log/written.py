"""What an eventual log has: rows as they were written, before anybody knows whether they are committed.

A record has the JSON of the primary key as its key, and as its value the row as `records` has it, none for a key that
went. Its header `written` says of which table it is, and by which schema its row was written:

    {"table": 1718000000000, "schemaId": 0}
"""

import json
from collections.abc import Iterator, Mapping, Sequence
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
