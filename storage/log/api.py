"""The log of a table as its publishers and readers see it: groups of records, each ended by the marker of its snapshot.

`kafka_log` implements `LogWriter` and `LogReader`. A `LogMarker` is a record in every partition, without key and value;
readers of Flink's formats pass over it. Its header `interbed` says:

    {"from": 7, "to": 8, "uuid": "…", "line": 0, "table": 1718000000000, "records": 3, "schemaId": 0, "told": true}

The records between the marker before it and this one are what snapshots `from` to `to` changed; of these only `from`
may have changed something. `records` counts the records in the marker's own partition: when retention has deleted some
of them, readers notice that the rest is not all. Without `told` the snapshots are passed over: their changes are not in
the log, and only the files hold what became of the table.

`GroupAssembler` puts the records of one snapshot together from all partitions.
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
    """The end of the changes of snapshots `first` to `last`, the uuid of which it has, in one partition.

    `line` counts how often the table was taken back to an earlier snapshot after later ones had been published.
    `table` identifies the table: when its first schema was made, in milliseconds since the epoch. `replaces` says that
    rows were replaced by an overwrite whose changes a stream of the table does not tell.
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
        """Markers of one log in their order."""
        return self.line, self.last

    def with_records(self, records: int) -> "LogMarker":
        """The marker of a partition with so many records."""
        return replace(self, records=records)

    def to_json(self) -> bytes:
        """What its header holds."""
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
        """The marker that a header holds; raises CorruptFileError naming the place."""
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
    """The changes of the snapshots of a marker, by partition; `offsets` are those after it.

    `is_whole` is false when some of them are gone: retention cut them off, or the publisher passed them over.
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
    """Puts together what comes from the partitions of a log, each in its own order."""

    def __init__(self, partitions: int) -> None:
        self._parts: list[deque[_Part]] = [deque() for _ in range(partitions)]

    def add(self, partition: int, marker: LogMarker, records: LogRecords, offset: int) -> None:
        """The records of a partition before a marker, after which comes the offset."""
        self._parts[partition].append(_Part(marker, records, offset))

    def complete(self) -> Iterator[LogGroup]:
        """The groups of which every partition has its part by now, in order.

        A publisher writes the parts in one transaction, so that a part which only some partitions have was cut off in
        the others: it is left out.
        """
        while all(self._parts):
            newest = max(parts[0].marker.order for parts in self._parts)
            behind = [parts for parts in self._parts if parts[0].marker.order < newest]
            if behind:
                for parts in behind:
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
class Published:
    """The last marker in a log, and the offsets after it by partition."""

    marker: LogMarker
    offsets: Mapping[int, int]


class LogTakenOverError(Exception):
    """Another publisher has taken over the log since this one did; nothing was appended."""


class LogWriter(Protocol):
    """Appends to a log; of all writers of a log only the one that took it over last can. Not for several threads."""

    @property
    def partitions(self) -> int:
        """How many partitions the log has."""
        ...

    def published(self) -> Published | None:
        """What the log ends with; None for one without a marker. LogUnavailableError."""
        ...

    def append(
        self, marker: LogMarker, records: Iterable[tuple[int, LogRecords]], time_millis: int
    ) -> Mapping[int, int]:
        """Append records (each with its partition) and after them the marker to all partitions, all or nothing; the
        offsets after it. LogTakenOverError, LogUnavailableError.
        """
        ...

    def close(self) -> None:
        """Let go of connections."""
        ...


class LogReader(Protocol):
    """Reads a log. Not for use by several threads."""

    def open(self, offsets: Mapping[int, int]) -> bool:
        """Read from these offsets on, where a partition has none or its own is not there from its beginning; False for
        a log that is not there yet. LogUnavailableError.
        """
        ...

    def poll(self, timeout_seconds: float) -> Sequence[LogGroup]:
        """What came since the last call, waiting as long for the first of it. LogUnavailableError, after which the log
        has to be opened again.
        """
        ...

    def close(self) -> None:
        """Let go of connections."""
        ...
