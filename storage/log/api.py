"""Log of a table as its publishers and readers see it: groups of records, each ended by the marker of its snapshot.

`kafka_log` implements `LogWriter` and `LogReader`. A `LogMarker` is a record in every partition, without key and value;
readers of Flink's formats skip it. Its header `interbed` has, among other members of `LogMarker.to_json`:

    {"from": 7, "to": 8, "uuid": "…", "line": 0, "table": 1718000000000, "records": 3, "schemaId": 0}

The records between the previous marker and this one are the changes of snapshots `from` to `to`; of these only `from`
may have changes. `records` counts the records in the marker's own partition: when retention has deleted some of them,
readers notice that the rest is incomplete. A flag marks snapshots whose changes are not in the log: readers have to
read the table's files for them.

`GroupAssembler` combines the records of one snapshot from all partitions.
"""

import json
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from interbed.storage.base.errors import CorruptFileError
from interbed.storage.log.records import LogRecords
from interbed.storage.meta.json_object import read_object

MARKER_HEADER = "interbed"
_MEMBERS = {
    "from": int,
    "to": int,
    "uuid": str,
    "line": int,
    "table": int,
    "records": int,
    "schemaId": int,
    "told": bool,
    "replaces": bool,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LogMarker:
    """End of the changes of snapshots `first` to `last` in one partition. The uuid is that of `last`.

    `line` counts how often the table was rolled back to an earlier snapshot after later ones had been published.
    `table` identifies the table: the creation time of its first schema, in milliseconds since the epoch. With
    `replaces` rows were replaced by an overwrite whose changes are not in the stream of the table.
    """

    first: int
    last: int
    uuid: str | None
    line: int
    table: int
    schema_id: int
    records: int = 0
    told: bool = True
    replaces: bool = False

    @property
    def order(self) -> tuple[int, int]:
        """Sort key of the markers of one log."""
        return self.line, self.last

    def with_records(self, records: int) -> "LogMarker":
        """Return the marker of a partition with this number of records."""
        return replace(self, records=records)

    def to_json(self) -> bytes:
        """Return the content of the marker's header."""
        value: dict[str, Any] = {
            "from": self.first,
            "to": self.last,
            "uuid": self.uuid,
            "line": self.line,
            "table": self.table,
            "records": self.records,
            "schemaId": self.schema_id,
            "told": self.told,
            "replaces": self.replaces,
        }
        return json.dumps(value, separators=(",", ":")).encode()

    @staticmethod
    def from_json(content: bytes, *, place: str) -> "LogMarker":
        """Read a marker from a header; raises CorruptFileError naming the place."""
        what = "a marker of a table's log"
        value = read_object(content, _MEMBERS, source=f"The header of a record of {place}", what=what)
        try:
            return LogMarker(
                first=value["from"],
                last=value["to"],
                uuid=value.get("uuid"),
                line=value["line"],
                table=value["table"],
                schema_id=value["schemaId"],
                records=value["records"],
                told=value["told"],
                replaces=value.get("replaces", False),
            )
        except KeyError as error:
            raise CorruptFileError(f"The header of a record of {place} is not {what}: it lacks {error}.") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class LogGroup:
    """Changes of the snapshots of a marker, by partition; `offsets` are those after the marker.

    `is_whole` is false when some of them are missing: retention deleted them, or the publisher skipped them.
    """

    marker: LogMarker
    records: Mapping[int, LogRecords]
    offsets: Mapping[int, int]
    is_whole: bool


@dataclass(frozen=True, slots=True)
class _Part:
    marker: LogMarker
    records: LogRecords
    offset: int


class GroupAssembler:
    """Combination of the parts of groups, which arrive in order from each partition of a log."""

    def __init__(self, partitions: int) -> None:
        self._parts: list[deque[_Part]] = [deque() for _ in range(partitions)]

    def add(self, partition: int, marker: LogMarker, records: LogRecords, offset: int) -> None:
        """Add the records of a partition before a marker; `offset` follows the marker."""
        self._parts[partition].append(_Part(marker, records, offset))

    def complete(self) -> Iterator[LogGroup]:
        """Yield the groups of which every partition has its part by now, in order.

        A publisher writes the parts in one transaction. A part that only some partitions have was deleted in the
        others, so it is left out.
        """
        while all(self._parts):
            newest = max(parts[0].marker.order for parts in self._parts)
            outdated = [parts for parts in self._parts if parts[0].marker.order < newest]
            if outdated:
                for parts in outdated:
                    parts.popleft()
                continue
            heads = [parts.popleft() for parts in self._parts]
            yield LogGroup(
                marker=heads[0].marker,
                records={p: part.records for p, part in enumerate(heads) if len(part.records)},
                offsets={p: part.offset for p, part in enumerate(heads)},
                is_whole=all(part.marker.told and part.marker.records == len(part.records) for part in heads),
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedMarker:
    """Last marker in a log, and the offsets after it by partition."""

    marker: LogMarker
    offsets: Mapping[int, int]


class LogTakenOverError(Exception):
    """Error of a publisher whose log another publisher has taken over; nothing was appended."""


class LogWriter(Protocol):
    """Writer of a log; only the writer that took the log over last can append. Not thread-safe."""

    @property
    def partitions(self) -> int:
        """Number of partitions of the log."""
        ...

    def published(self) -> PublishedMarker | None:
        """Return the last marker of the log, or None. Raises LogUnavailableError."""
        ...

    def append(
        self, marker: LogMarker, records: Iterable[tuple[int, LogRecords]], time_millis: int
    ) -> Mapping[int, int]:
        """Append records (each with its partition) and after them the marker to all partitions, all or nothing.

        Return the offsets after it. Raises LogTakenOverError, LogUnavailableError.
        """
        ...

    def close(self) -> None:
        """Close the connections of this object."""
        ...


class LogReader(Protocol):
    """Reader of a log. Not thread-safe."""

    def open(self, offsets: Mapping[int, int]) -> bool:
        """Read from these offsets. Return False for a log that does not exist yet.

        A partition without an offset, or whose offset is no longer valid, is read from its beginning. Raises
        LogUnavailableError.
        """
        ...

    def poll(self, timeout_seconds: float) -> Sequence[LogGroup]:
        """Return the groups since the last call, waiting at most for the timeout for the first of them.

        After LogUnavailableError the log has to be opened again.
        """
        ...

    def close(self) -> None:
        """Close the connections of this object."""
        ...
