"""Reading an eventual log in Kafka: each record as soon as it is there, or those between two offsets."""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from interbed.storage.base.errors import LogUnavailableError
from interbed.storage.log.kafka_consumer import LogConsumer
from interbed.storage.log.settings import LogSettings
from interbed.storage.log.written import WRITTEN_HEADER, WrittenBy, WrittenRange, WrittenRow

_STEP_SECONDS = 0.5


class KafkaWrittenReader:
    """A WrittenReader of a topic. Raises MissingExtraError; nothing is connected to before `open`."""

    def __init__(self, settings: LogSettings, *, request_seconds: float = 10.0) -> None:
        self._consumer = LogConsumer(settings, request_seconds=request_seconds)
        self._rows = _Rows(settings)
        self._partitions = 0

    @property
    def is_at_end(self) -> bool:
        """See WrittenReader."""
        return len(self._consumer.at_end) >= self._partitions

    def open(self, offsets: Mapping[int, int]) -> WrittenRange | None:
        """See WrittenReader."""
        partitions = self._consumer.partitions()
        if partitions is None:
            return None
        self._partitions = partitions
        begins, ends = self._consumer.begin(offsets, partitions)
        return WrittenRange(begins, ends)

    def poll(self, timeout_seconds: float) -> Sequence[WrittenRow]:
        """See WrittenReader."""
        return self._rows.of(self._consumer.take(timeout_seconds))

    def close(self) -> None:
        """See WrittenReader."""
        self._consumer.close()


class KafkaWrittenRanges:
    """A WrittenRanges of a topic. Raises MissingExtraError; nothing is connected to before the first question."""

    def __init__(self, settings: LogSettings, *, request_seconds: float = 10.0) -> None:
        self._settings = settings
        self._seconds = request_seconds
        self._consumer = LogConsumer(settings, request_seconds=request_seconds)
        self._rows = _Rows(settings)

    def bounds(self) -> WrittenRange | None:
        """See WrittenRanges."""
        self._consumer.log_what_waits()
        partitions = self._consumer.partitions()
        if partitions is None:
            return None
        return WrittenRange(self._consumer.lowest(range(partitions)), self._consumer.highest(range(partitions)))

    def between(self, partition: int, begin: int, end: int) -> Iterator[Sequence[WrittenRow]]:
        """See WrittenRanges."""
        if begin >= end:
            return
        self._consumer.assign({partition: begin})
        give_up = time.monotonic() + self._seconds
        while True:
            messages = self._consumer.take(_STEP_SECONDS)
            inside = [message for message in messages if message.offset() < end]
            if inside:
                yield self._rows.of(inside)
            # The last offset may be that of no record.
            if len(inside) < len(messages) or (messages and messages[-1].offset() >= end - 1):
                return
            if partition in self._consumer.at_end:
                return
            if messages:
                give_up = time.monotonic() + self._seconds
            elif time.monotonic() >= give_up:
                raise LogUnavailableError(
                    f"Records {begin} to {end} of partition {partition} of {self._settings.place} did not come within "
                    f"{self._seconds:g} s."
                )

    def close(self) -> None:
        """See WrittenRanges."""
        self._consumer.close()


class _Rows:
    """Makes rows of Kafka's messages."""

    def __init__(self, settings: LogSettings) -> None:
        self._place = settings.place
        self._known: dict[bytes, WrittenBy] = {}

    def of(self, messages: Sequence[Any]) -> Sequence[WrittenRow]:
        """The records; without those of no eventual log, as from when the log was a transactional one."""
        return [row for message in messages if (row := self._row(message)) is not None]

    def _row(self, message: Any) -> WrittenRow | None:
        by = next((content for name, content in message.headers() or () if name == WRITTEN_HEADER), None)
        key = message.key()
        if by is None or key is None:
            return None
        known = self._known.get(by)
        if known is None:
            place = f"partition {message.partition()} of {self._place}"
            known = self._known[by] = WrittenBy.from_json(by, place=place)
        return WrittenRow(key, message.value(), known, message.partition(), message.offset())
