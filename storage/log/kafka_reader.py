"""Reading a log in Kafka: what was committed, as groups of records that belong to one snapshot each.

Offsets are those of Kafka's protocol, in which the end of a transaction has one, too: after a marker comes the end of
its transaction, which readers do not see.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from interbed.storage.base.errors import LogUnavailableError
from interbed.storage.log.api import Published
from interbed.storage.log.groups import GroupAssembler, LogGroup
from interbed.storage.log.marker import MARKER_HEADER, LogMarker
from interbed.storage.log.records import LogRecords
from interbed.storage.log.settings import LogSettings, kafka_library, kept_settings

_log = logging.getLogger(__name__)

_MESSAGES_AT_ONCE = 1_000
_FIRST_WINDOW = 16
"""How many offsets before the end are looked through for a marker at first; then many times more."""

_PASSING = """
    _ALL_BROKERS_DOWN _RESOLVE _TIMED_OUT _TRANSPORT COORDINATOR_NOT_AVAILABLE
    LEADER_NOT_AVAILABLE NOT_COORDINATOR NOT_LEADER_FOR_PARTITION THROTTLING_QUOTA_EXCEEDED
"""
"""Errors after which a consumer tries again by itself."""


class KafkaLogReader:
    """A LogReader of a topic. Raises MissingExtraError; nothing is connected to before `open`."""

    def __init__(self, settings: LogSettings, *, request_seconds: float = 10.0, committed: bool = True) -> None:
        self._settings = settings
        self._kafka = kafka_library()
        self._seconds = request_seconds
        self._consumer = new_consumer(settings, committed=committed)
        self._passing = [getattr(self._kafka.KafkaError, name) for name in _PASSING.split()]
        self._assembler = GroupAssembler(0)
        self._buffers: dict[int, PartBuffer] = {}

    def open(self, offsets: Mapping[int, int]) -> bool:
        """See LogReader."""
        partitions = self.partitions()
        if partitions is None:
            return False
        lows = self.offsets_at(range(partitions), self._kafka.OFFSET_BEGINNING)
        highs = self.offsets_at(range(partitions), self._kafka.OFFSET_END)
        begins = {}
        for partition, low in lows.items():
            wanted = offsets.get(partition, low)
            # Beyond the end are the offsets of a topic that was deleted meanwhile and made anew.
            begins[partition] = wanted if low <= wanted <= highs[partition] else low
        self._assign(begins)
        return True

    def poll(self, timeout_seconds: float) -> Sequence[LogGroup]:
        """See LogReader."""
        received = self._consume(_MESSAGES_AT_ONCE, 0.0) or self._consume(1, timeout_seconds)
        while received:
            for message in received:
                self._take(message)
            # What is complete is handed out before more is taken into memory.
            groups = list(self._assembler.complete())
            if groups:
                return groups
            received = self._consume(_MESSAGES_AT_ONCE, 0.0)
        return []

    def close(self) -> None:
        """See LogReader."""
        self._consumer.close()

    def partitions(self) -> int | None:
        """How many partitions the topic has; None when there is none. LogUnavailableError."""
        topic = self._settings.topic
        try:
            found = self._consumer.list_topics(topic, timeout=self._seconds).topics[topic]
        except self._kafka.KafkaException as error:
            raise self._settings.unavailable("The log can't be read", error) from error
        if found.error is not None and found.error.code() != self._kafka.KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise self._settings.unavailable("The log can't be read", found.error)
        return len(found.partitions) or None

    def offsets_at(self, partitions: Iterable[int], when: int) -> dict[int, int]:
        """The first offset of each partition of a time, in milliseconds since the epoch; OFFSET_END when all is older.

        OFFSET_BEGINNING and OFFSET_END are times, too. LogUnavailableError.
        """
        asked = [self._kafka.TopicPartition(self._settings.topic, p, when) for p in partitions]
        try:
            answers = self._consumer.offsets_for_times(asked, timeout=self._seconds)
        except self._kafka.KafkaException as error:
            raise self._settings.unavailable("The log can't be read", error) from error
        for answer in answers:
            if answer.error is not None:
                raise self._settings.unavailable("The log can't be read", answer.error)
        return {answer.partition: answer.offset for answer in answers}

    def _assign(self, begins: Mapping[int, int]) -> None:
        topic = self._settings.topic
        self._assembler = GroupAssembler(len(begins))
        self._buffers = {p: PartBuffer(f"partition {p} of {self._settings.place}") for p in begins}
        try:
            self._consumer.assign([self._kafka.TopicPartition(topic, p, o) for p, o in begins.items()])
        except self._kafka.KafkaException as error:
            raise self._settings.unavailable("The log can't be read", error) from error

    def _consume(self, most: int, timeout_seconds: float) -> list[Any]:
        try:
            messages: list[Any] = self._consumer.consume(most, timeout_seconds)
        except self._kafka.KafkaException as error:
            raise self._settings.unavailable("The log can't be read", error) from error
        return messages

    def _take(self, message: Any) -> None:
        error = message.error()
        if error is not None:
            if error.code() == self._kafka.KafkaError._PARTITION_EOF:
                return
            if error.retriable() or error.code() in self._passing:
                _log.info("Reading %s goes on after an error: %s", self._settings.place, self._settings.shown(error))
                return
            raise self._settings.unavailable("The log can't be read on", error)
        part = self._buffers[message.partition()].take(message)
        if part is not None:
            self._assembler.add(message.partition(), *part, message.offset() + 1)


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


def new_consumer(settings: LogSettings, *, committed: bool = True) -> Any:
    """A consumer that keeps no offsets in Kafka; `committed` hides what is in no committed transaction."""
    kafka = kafka_library()
    return kafka.Consumer(
        {
            # A record is handed out as soon as it is there, and an empty queue is filled again at once.
            "fetch.wait.max.ms": "100",
            "fetch.queue.backoff.ms": "20",
            **kept_settings(settings),
            # Without a group a consumer can't be made; nothing is kept under this name.
            "group.id": f"interbed-log-{settings.topic}",
            "isolation.level": "read_committed" if committed else "read_uncommitted",
            "enable.auto.commit": "false",
            "enable.auto.offset.store": "false",
            # An offset that is not there is a gap. Going on somewhere else would hide it.
            "auto.offset.reset": "error",
            "enable.partition.eof": "true",
        },
        logger=_log,
    )


def read_last_marker(settings: LogSettings, partitions: int, seconds: float) -> Published | None:
    """What the log ends with: its last marker, with the offsets after it; None where there is none.

    Raises LogUnavailableError, CorruptFileError for a marker that is none.
    """
    kafka = kafka_library()
    reader = KafkaLogReader(settings, request_seconds=seconds)
    try:
        lows = reader.offsets_at(range(partitions), kafka.OFFSET_BEGINNING)
        highs = reader.offsets_at(range(partitions), kafka.OFFSET_END)
        found: dict[int, tuple[LogMarker, int]] = {}
        window = _FIRST_WINDOW
        missing = [p for p in lows if lows[p] < highs[p]]
        while missing:
            begins = {p: max(lows[p], highs[p] - window) for p in missing}
            found |= _last_markers(reader, begins, seconds)
            missing = [p for p in missing if p not in found and begins[p] > lows[p]]
            window *= 64
    finally:
        reader.close()
    if not found:
        return None
    newest = max(marker.order for marker, _ in found.values())
    marker = next(m for m, _ in found.values() if m.order == newest)
    # A partition whose marker was cut off by retention is empty.
    ends = {p: found[p][1] if p in found else highs[p] for p in range(partitions)}
    return Published(marker=marker, offsets=ends)


def _last_markers(
    reader: KafkaLogReader, begins: Mapping[int, int], seconds: float
) -> dict[int, tuple[LogMarker, int]]:
    """The last marker of each partition and the offset after it, of what comes after the offsets."""
    kafka = kafka_library()
    reader._assign(begins)
    found: dict[int, tuple[LogMarker, int]] = {}
    open_partitions = set(begins)
    while open_partitions:
        messages = reader._consume(_MESSAGES_AT_ONCE, 0.0) or reader._consume(1, seconds)
        if not messages:
            raise LogUnavailableError(
                f"The end of {reader._settings.place} was not reached within {seconds:g} s. Try again when it answers."
            )
        for message in messages:
            error = message.error()
            if error is None:
                for name, content in message.headers() or ():
                    if name == MARKER_HEADER:
                        place = f"partition {message.partition()} of {reader._settings.place}"
                        marker = LogMarker.from_json(content or b"", place=place)
                        found[message.partition()] = (marker, message.offset() + 1)
            elif error.code() == kafka.KafkaError._PARTITION_EOF:
                open_partitions.discard(message.partition())
            elif not error.retriable() and error.code() not in reader._passing:
                raise reader._settings.unavailable("The log can't be read", error)
    return found
