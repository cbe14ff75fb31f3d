"""Reading an eventual log in Kafka: each record as soon as it is there."""

from collections.abc import Mapping, Sequence
from typing import Any

from interbed.storage.log.kafka_consumer import LogConsumer
from interbed.storage.log.settings import LogSettings
from interbed.storage.log.written import WRITTEN_HEADER, WrittenBy, WrittenRange, WrittenRow


class KafkaWrittenReader:
    """A WrittenReader of a topic. Raises MissingExtraError; nothing is connected to before `open`."""

    def __init__(self, settings: LogSettings, *, request_seconds: float = 10.0) -> None:
        self._settings = settings
        self._consumer = LogConsumer(settings, request_seconds=request_seconds)
        self._partitions = 0
        self._known: dict[bytes, WrittenBy] = {}

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
        return [row for message in self._consumer.take(timeout_seconds) if (row := self._row(message)) is not None]

    def close(self) -> None:
        """See WrittenReader."""
        self._consumer.close()

    def _row(self, message: Any) -> WrittenRow | None:
        """The record; None for one that is none of an eventual log, as from when the log was a transactional one."""
        by = next((content for name, content in message.headers() or () if name == WRITTEN_HEADER), None)
        key = message.key()
        if by is None or key is None:
            return None
        known = self._known.get(by)
        if known is None:
            place = f"partition {message.partition()} of {self._settings.place}"
            known = self._known[by] = WrittenBy.from_json(by, place=place)
        return WrittenRow(key, message.value(), known, message.partition(), message.offset())
