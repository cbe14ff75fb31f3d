"""What readers of a log get: the records of one snapshot, put together from all partitions. Pure."""

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from interbed.storage.log.marker import LogMarker
from interbed.storage.log.records import LogRecords


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
