"""Reading a log in Kafka: what was committed, as groups of records that belong to one snapshot each.

After a marker comes the end of its transaction, which has an offset that readers do not see.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from interbed.storage.base.errors import LogUnavailableError
from interbed.storage.log.api import Published
from interbed.storage.log.groups import GroupAssembler, LogGroup
from interbed.storage.log.kafka_consumer import LogConsumer
from interbed.storage.log.marker import MARKER_HEADER, LogMarker
from interbed.storage.log.records import LogRecords
from interbed.storage.log.settings import LogSettings

_FIRST_WINDOW = 16
"""How many offsets before the end are looked through for a marker at first; then many times more."""


class KafkaLogReader:
    """A LogReader of a topic. Raises MissingExtraError; nothing is connected to before `open`."""

    def __init__(self, settings: LogSettings, *, request_seconds: float = 10.0) -> None:
        self._settings = settings
        self._consumer = LogConsumer(settings, request_seconds=request_seconds)
        self._assembler = GroupAssembler(0)
        self._buffers: dict[int, PartBuffer] = {}

    def open(self, offsets: Mapping[int, int]) -> bool:
        """See LogReader."""
        partitions = self._consumer.partitions()
        if partitions is None:
            return False
        self._assembler = GroupAssembler(partitions)
        self._buffers = {p: PartBuffer(f"partition {p} of {self._settings.place}") for p in range(partitions)}
        self._consumer.begin(offsets, partitions)
        return True

    def poll(self, timeout_seconds: float) -> Sequence[LogGroup]:
        """See LogReader."""
        received = self._consumer.take(timeout_seconds)
        while received:
            for message in received:
                part = self._buffers[message.partition()].take(message)
                if part is not None:
                    self._assembler.add(message.partition(), *part, message.offset() + 1)
            # What is complete is handed out before more is taken into memory.
            groups = list(self._assembler.complete())
            if groups:
                return groups
            received = self._consumer.take(0.0)
        return []

    def close(self) -> None:
        """See LogReader."""
        self._consumer.close()


class PartBuffer:
    """Collects the messages of one partition up to the next marker."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._keys: list[bytes | None] = []
        self._values: list[bytes | None] = []
        self._kinds: list[int] = []

    def take(self, message: Any) -> tuple[LogMarker, LogRecords] | None:
        """Take a message; at a marker it is returned with the records before it."""
        kind = -1
        for name, content in message.headers() or ():
            if name == MARKER_HEADER:
                marker = LogMarker.from_json(content or b"", place=self._place)
                records = LogRecords(keys=self._keys, values=self._values, kinds=np.array(self._kinds, np.int8))
                self._keys, self._values, self._kinds = [], [], []
                return marker, records
            if name == "kind" and content in (b"1", b"2"):
                kind = int(content)
        self._keys.append(message.key())
        self._values.append(message.value())
        self._kinds.append(kind)
        return None


def read_last_marker(settings: LogSettings, partitions: int, seconds: float) -> Published | None:
    """What the log ends with: its last marker, with the offsets after it; None where there is none.

    Raises LogUnavailableError, CorruptFileError for a marker that is none.
    """
    consumer = LogConsumer(settings, request_seconds=seconds)
    try:
        lows, highs = consumer.lowest(range(partitions)), consumer.highest(range(partitions))
        found: dict[int, tuple[LogMarker, int]] = {}
        window = _FIRST_WINDOW
        missing = [p for p in lows if lows[p] < highs[p]]
        while missing:
            begins = {p: max(lows[p], highs[p] - window) for p in missing}
            found |= _last_markers(consumer, begins, settings, seconds)
            missing = [p for p in missing if p not in found and begins[p] > lows[p]]
            window *= 64
    finally:
        consumer.close()
    if not found:
        return None
    newest = max(marker.order for marker, _ in found.values())
    marker = next(m for m, _ in found.values() if m.order == newest)
    # A partition whose marker was cut off by retention is empty.
    ends = {p: found[p][1] if p in found else highs[p] for p in range(partitions)}
    return Published(marker=marker, offsets=ends)


def _last_markers(
    consumer: LogConsumer, begins: Mapping[int, int], settings: LogSettings, seconds: float
) -> dict[int, tuple[LogMarker, int]]:
    """The last marker of each partition and the offset after it, of what comes after the offsets."""
    consumer.assign(begins)
    found: dict[int, tuple[LogMarker, int]] = {}
    give_up = time.monotonic() + seconds
    while not consumer.at_end >= begins.keys():
        before = len(consumer.at_end)
        messages = consumer.take(max(0.0, give_up - time.monotonic()))
        if messages or len(consumer.at_end) > before:
            give_up = time.monotonic() + seconds
        elif time.monotonic() >= give_up:
            # Till then an error may have come after which the consumer goes on by itself.
            raise LogUnavailableError(
                f"The end of {settings.place} was not reached within {seconds:g} s. Try again when it answers."
            )
        for message in messages:
            for name, content in message.headers() or ():
                if name == MARKER_HEADER:
                    place = f"partition {message.partition()} of {settings.place}"
                    marker = LogMarker.from_json(content or b"", place=place)
                    found[message.partition()] = (marker, message.offset() + 1)
    return found
