"""A consumer of a log's topic, for whoever reads it: where its partitions begin and end, and what comes from them.

Offsets are those of Kafka's protocol, in which the end of a transaction has one, too.
"""

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from interbed.storage.log.settings import LogSettings, kafka_library, kept_settings

_log = logging.getLogger(__name__)

_MESSAGES_AT_ONCE = 1_000
_PASSING = """
    _ALL_BROKERS_DOWN _RESOLVE _TIMED_OUT _TRANSPORT COORDINATOR_NOT_AVAILABLE
    LEADER_NOT_AVAILABLE NOT_COORDINATOR NOT_LEADER_FOR_PARTITION THROTTLING_QUOTA_EXCEEDED
"""
"""Errors after which a consumer tries again by itself."""


class LogConsumer:
    """Reads the topic of a log. Raises MissingExtraError; nothing is connected to before the first request.

    `committed` hides what is in no committed transaction. `at_end` are the partitions of which all was taken. Not for
    use by several threads.
    """

    def __init__(self, settings: LogSettings, *, request_seconds: float, committed: bool = True) -> None:
        self._settings = settings
        self._kafka = kafka_library()
        self._seconds = request_seconds
        self._passing = [getattr(self._kafka.KafkaError, name) for name in _PASSING.split()]
        self._consumer = self._kafka.Consumer(
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
        self.at_end: set[int] = set()

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

    def lowest(self, partitions: Iterable[int]) -> dict[int, int]:
        """The first offset of each partition that is still there. LogUnavailableError."""
        return self._offsets(partitions, self._kafka.OFFSET_BEGINNING)

    def highest(self, partitions: Iterable[int]) -> dict[int, int]:
        """The offset after the last one of each partition. LogUnavailableError."""
        return self._offsets(partitions, self._kafka.OFFSET_END)

    def begin(self, offsets: Mapping[int, int], partitions: int) -> tuple[dict[int, int], dict[int, int]]:
        """Read from these offsets on, where a partition has none or its own is not there from its beginning; where
        each of them begins and ends. LogUnavailableError.
        """
        lows, highs = self.lowest(range(partitions)), self.highest(range(partitions))
        begins = {}
        for partition, low in lows.items():
            wanted = offsets.get(partition, low)
            # Beyond the end are the offsets of a topic that was deleted meanwhile and made anew.
            begins[partition] = wanted if low <= wanted <= highs[partition] else low
        self.assign(begins)
        return begins, highs

    def assign(self, begins: Mapping[int, int]) -> None:
        """Read these partitions from these offsets on. LogUnavailableError."""
        topic = self._settings.topic
        self.at_end = set()
        try:
            self._consumer.assign([self._kafka.TopicPartition(topic, p, o) for p, o in begins.items()])
        except self._kafka.KafkaException as error:
            raise self._settings.unavailable("The log can't be read", error) from error

    def take(self, timeout_seconds: float) -> list[Any]:
        """The messages that are there, waiting as long for the first; none also when a partition came to its end.

        LogUnavailableError for an error after which a consumer does not go on by itself.
        """
        received = self._consume(_MESSAGES_AT_ONCE, 0.0)
        if not received:
            received = self._consume(1, timeout_seconds)
            # Of records that were sent together the others are mostly there, too.
            received += self._consume(_MESSAGES_AT_ONCE, 0.0) if received else []
        return self._good(received)

    def log_what_waits(self) -> None:
        """Have librdkafka's messages logged, which wait for `take` otherwise: for who takes nothing for long."""
        self._consumer.poll(0)

    def close(self) -> None:
        """Let go of connections."""
        self._consumer.close()

    def _offsets(self, partitions: Iterable[int], when: int) -> dict[int, int]:
        asked = [self._kafka.TopicPartition(self._settings.topic, p, when) for p in partitions]
        try:
            answers = self._consumer.offsets_for_times(asked, timeout=self._seconds)
        except self._kafka.KafkaException as error:
            raise self._settings.unavailable("The log can't be read", error) from error
        for answer in answers:
            if answer.error is not None:
                raise self._settings.unavailable("The log can't be read", answer.error)
        return {answer.partition: answer.offset for answer in answers}

    def _consume(self, most: int, timeout_seconds: float) -> list[Any]:
        try:
            messages: list[Any] = self._consumer.consume(most, timeout_seconds)
        except self._kafka.KafkaException as error:
            raise self._settings.unavailable("The log can't be read", error) from error
        return messages

    def _good(self, received: list[Any]) -> list[Any]:
        """The messages without errors, which are looked at."""
        messages = []
        for message in received:
            error = message.error()
            if error is None:
                self.at_end.discard(message.partition())
                messages.append(message)
            elif error.code() == self._kafka.KafkaError._PARTITION_EOF:
                self.at_end.add(message.partition())
            elif error.retriable() or error.code() in self._passing:
                _log.info("Reading %s goes on after an error: %s", self._settings.place, self._settings.shown(error))
            else:
                raise self._settings.unavailable("The log can't be read on", error)
        return messages
