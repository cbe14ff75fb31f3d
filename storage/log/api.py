"""What a log is for those who publish a table's changes in it and those who read them. Kafka is behind it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from interbed.storage.log.groups import LogGroup
from interbed.storage.log.marker import LogMarker
from interbed.storage.log.records import LogRecords


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
