"""Kafka's consumer: its settings and errors, and its messages as columns.

A poll brings many thousands of messages, each an object of the client. They become columns in small steps, and the
objects are freed at once: Python's garbage collector would visit all objects that stay, again and again.

`settings` are librdkafka's, for connections, security and sizes:
https://github.com/confluentinc/librdkafka/blob/master/CONFIGURATION.md
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from interbed.ingest.flow.messages import Messages, SourceUnavailableError
from interbed.ingest.formats.arrays import Array, buffer_of
from interbed.storage.base.errors import InterbedError, InvalidInputError, InvalidOptionError, load_extra
from interbed.storage.base.shown_text import secrets_of, shown_error

_log = logging.getLogger(__name__)

_DEFAULTS: Mapping[str, str] = {
    "isolation.level": "read_committed",
    # With the default, a full queue of messages pauses the reader for a second, even if it is empty again at once.
    "fetch.queue.backoff.ms": "20",
    # A broker waits so long for messages; other requests wait behind it, such as for the ends before each commit.
    "fetch.wait.max.ms": "100",
    # The delay before a client's second connection, to the broker of a partition.
    "reconnect.backoff.ms": "10",
}

_OWNED: Mapping[str, str] = {
    # Positions are kept by the tables; only `KafkaSource.note` reports them to Kafka.
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    # A missing offset is a gap. Reading on at another offset would hide it.
    "auto.offset.reset": "error",
    "enable.partition.eof": "true",
    "allow.auto.create.topics": "false",
}

_PASSING = """
    _ALL_BROKERS_DOWN _RESOLVE _TIMED_OUT _TRANSPORT _UNKNOWN_PARTITION _UNKNOWN_TOPIC COORDINATOR_NOT_AVAILABLE
    LEADER_NOT_AVAILABLE NOT_COORDINATOR NOT_LEADER_FOR_PARTITION THROTTLING_QUOTA_EXCEEDED UNKNOWN_TOPIC_OR_PART
"""
"""Errors after which a consumer retries by itself; missing topics are found by the next check of topics."""


_OLD_KEY = "__debezium.oldkey"
"""Debezium writes an update of a primary key as a deletion and an insertion; the insertion has this header."""


Partition = tuple[str, int]
"""A topic, and the number of a partition."""


@dataclass(frozen=True, slots=True)
class _Columns:
    """The messages of a topic, by column."""

    partitions: list[int] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    keys: list[bytes | None] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    rekeyed: list[bool] = field(default_factory=list)


class KafkaMessages:
    """The messages received so far, and the positions after them."""

    def __init__(self) -> None:
        self._of_topics: dict[str, _Columns] = {}
        self.positions: dict[Partition, int] = {}
        """The offset after the last message, or after an end that was reached."""
        self.bytes = 0
        """The bytes of all values."""
        self.largest = 0
        """The bytes of the largest value."""

    def add(self, messages: Sequence[Any]) -> None:
        """Add objects of the client that are messages, without errors."""
        topics = [message.topic() for message in messages]
        if len(set(topics)) == 1:
            self._add(topics[0], messages)
        else:
            # A loop over messages, because the client returns objects, not columns.
            by_topic: dict[str, list[Any]] = {}
            for topic, message in zip(topics, messages, strict=True):
                by_topic.setdefault(topic, []).append(message)
            for topic, group in by_topic.items():
                self._add(topic, group)

    def reached(self, topic: str, partition: int, end: int) -> None:
        """Record the end of a partition: the offset after everything in it, whether readers see it or not."""
        self.positions[topic, partition] = max(self.positions.get((topic, partition), 0), end)

    def by_topic(self) -> list[Messages]:
        """Return all messages as columns."""
        return [
            Messages(
                topic=topic,
                partitions=np.array(columns.partitions, np.int32),
                offsets=np.array(columns.offsets, np.int64),
                keys=_binary(columns.keys),
                values=_binary(columns.values),
                rekeyed=np.array(columns.rekeyed, bool) if any(columns.rekeyed) else None,
            )
            for topic, columns in self._of_topics.items()
        ]

    def _add(self, topic: str, messages: Sequence[Any]) -> None:
        columns = self._of_topics.setdefault(topic, _Columns())
        partitions = [message.partition() for message in messages]
        offsets = [message.offset() for message in messages]
        values = [message.value() for message in messages]
        columns.partitions.extend(partitions)
        columns.offsets.extend(offsets)
        columns.keys.extend([message.key() for message in messages])
        columns.values.extend(values)
        columns.rekeyed.extend([_is_rekeyed(message.headers()) for message in messages])
        # The dictionary keeps the last offset of each partition.
        last: Mapping[int, int] = dict(zip(partitions, offsets, strict=True))
        self.positions |= {(topic, partition): offset + 1 for partition, offset in last.items()}
        sizes = [len(value) for value in values if value is not None]
        self.bytes += sum(sizes)
        self.largest = max([self.largest, *sizes])


def _is_rekeyed(headers: Sequence[tuple[str, bytes | None]] | None) -> bool:
    """Return whether Debezium names the earlier key of the inserted row."""
    return headers is not None and any(name == _OLD_KEY for name, _ in headers)


def _binary(values: Sequence[bytes | None]) -> Array:
    """Return the values as an array, in half the time that Arrow takes to append them one after the other."""
    present = [value for value in values if value is not None]
    if len(present) < len(values):
        return pa.array(values, pa.binary())
    ends = np.zeros(len(values) + 1, np.int64)
    np.cumsum([len(value) for value in present], out=ends[1:])
    # A poll has some hundred megabytes at most, far below the two gigabytes that these offsets can address.
    buffers = [None, buffer_of(ends.astype(np.int32)), pa.py_buffer(b"".join(present))]
    found: Array = pa.Array.from_buffers(pa.binary(), len(values), buffers)
    return found


class KafkaClient:
    """A consumer of the brokers at `servers`; `name` names the topics in errors. The first request connects.

    Raises MissingExtraError without confluent-kafka, and InvalidOptionError for invalid settings and for those of
    positions. Secrets in the settings are in no error or log line.
    """

    def __init__(
        self, servers: str, group: str, settings: Mapping[str, str], *, name: str, request_seconds: float
    ) -> None:
        self.servers = servers
        self.name = name
        self.request_seconds = request_seconds
        self._secrets = secrets_of(settings)
        self.kafka: Any = load_extra("confluent_kafka", needed_by="A Kafka source")
        self._passing_codes = [getattr(self.kafka.KafkaError, name) for name in _PASSING.split()]
        self.consumer: Any = self._new_consumer(group, settings)
        self.failure: InterbedError | None = None
        """An error that came after messages had been received: the messages are returned first, then it is raised."""

    def consume(self, most: int, timeout_seconds: float) -> list[Any]:
        """Return messages, and events with an error. A failure is stored, and nothing is returned then."""
        try:
            events: list[Any] = self.consumer.consume(most, timeout_seconds)
        except self.kafka.KafkaException as error:
            self.failure = self.unavailable("Messages can't be read", error)
            return []
        return events

    def assign(self, offsets: Mapping[tuple[str, int], int], *, also: bool = False) -> None:
        """Read these partitions from these offsets on; with `also`, in addition to the assigned ones.

        Raises SourceUnavailableError.
        """
        assign: Callable[[list[Any]], None] = self.consumer.incremental_assign if also else self.consumer.assign
        try:
            assign([self.kafka.TopicPartition(topic, p, offset) for (topic, p), offset in offsets.items()])
        except self.kafka.KafkaException as error:
            raise self.unavailable("Partitions can't be assigned", error) from error

    def split_events(self, received: list[Any]) -> tuple[list[Any], list[Any], Any]:
        """Return the messages, the ends of partitions that were reached, and the event that stops both.

        The event is the first error because of which a partition cannot be read; None if there is none.
        """
        if not [event for event in received if event.error() is not None]:
            return received, [], None
        messages: list[Any] = []
        ends: list[Any] = []
        for event in received:
            error = event.error()
            if error is None:
                messages.append(event)
            elif error.code() == self.kafka.KafkaError._PARTITION_EOF:
                ends.append(event)
            elif error.retriable() or error.code() in self._passing_codes:
                _log.warning("Reading %s continues after an error: %s", self.name, self.shown(error))
            else:
                # Later messages may be after the unread ones; the consumer seeks back.
                return messages, ends, event
        return messages, ends, None

    def unavailable(self, what: str, error: Any) -> SourceUnavailableError:
        """Return the error of an operation that failed and may be retried."""
        return SourceUnavailableError(f"{what}: {self.shown(error)} ({self.name}). Try again when Kafka answers.")

    def shown(self, error: Any) -> str:
        """Return the text of an error without secrets; of Kafka's own errors their message."""
        return shown_error(self.kafka, error, self._secrets)

    def note(self, offsets: Sequence[Any]) -> None:
        """Commit offsets of the group, without waiting. Failures are only logged."""
        try:
            self.consumer.commit(offsets=offsets, asynchronous=True)
        except (self.kafka.KafkaException, RuntimeError) as error:
            _log.warning("The offsets of %s were not committed: %s", self.name, self.shown(error))

    def close(self) -> None:
        """Close the connections, after reported offsets were sent to Kafka or `request_seconds` are over."""
        try:
            self.consumer.close()
        except self.kafka.KafkaException as error:
            _log.warning("The consumer of %s was not closed: %s", self.name, self.shown(error))

    def _new_consumer(self, group: str, settings: Mapping[str, str]) -> Any:
        owned = {**_OWNED, "bootstrap.servers": self.servers, "group.id": group}
        # The session timeout has no other effect here, because this consumer is no member of a group: it limits how
        # long reported offsets, and `close`, wait for a broker.
        waits = {"session.timeout.ms": str(max(1, int(self.request_seconds * 1000)))}
        for name in settings:
            if name in owned:
                raise InvalidOptionError(f"The setting {name} of a Kafka source is its own; leave it out.")
        callbacks = {"error_cb": self._on_error, "on_commit": self._on_commit}
        try:
            return self.kafka.Consumer({**_DEFAULTS, **waits, **settings, **owned, **callbacks}, logger=_log)
        except (self.kafka.KafkaException, TypeError, ValueError) as error:
            # The cause is left out: it may quote a secret.
            raise InvalidOptionError(f"Kafka does not take these settings: {self.shown(error)}") from None

    def _on_error(self, error: Any) -> None:
        """Handle errors of connections; a callback of the client while it waits for messages."""
        if error.fatal() or error.code() == self.kafka.KafkaError._AUTHENTICATION:
            self.failure = self.unavailable("Kafka can't be read", error)
        else:
            _log.warning("%s: %s", self.name, self.shown(error))

    def _on_commit(self, error: Any, partitions: Sequence[Any]) -> None:
        """Log failed commits of offsets; a callback of the client while it waits for messages."""
        for failed in [error, *(partition.error for partition in partitions)]:
            if failed is not None:
                _log.warning("The offsets of %s were not committed: %s", self.name, self.shown(failed))
                return


FLUSH_SECONDS_MAX = 60.0
HEADER = "interbed."


class KafkaDeadLetters:
    """Writes messages to a topic as they are, with their origin and the reason in headers: interbed.topic,
    interbed.partition, interbed.offset, interbed.reason. After a failure some messages may be written again.
    """

    def __init__(self, bootstrap_servers: str, topic: str, *, settings: Mapping[str, str]) -> None:
        """Raise MissingExtraError without confluent-kafka."""
        kafka = load_extra("confluent_kafka", needed_by="A topic for bad messages")
        own = {"bootstrap.servers": bootstrap_servers, "enable.idempotence": True, "acks": "all"}
        self._kafka = kafka
        self._topic = topic
        self._failures: list[Any] = []
        self._producer = kafka.Producer({**settings, **own})

    def put(self, messages: Messages, index: int, reason: str) -> None:
        """Write one message. Raises InvalidInputError if it is too large."""
        headers = {
            "topic": messages.topic,
            "partition": str(messages.partitions[index]),
            "offset": str(messages.offsets[index]),
            "reason": reason,
        }
        letter = {
            "key": messages.keys[index].as_py(),
            "value": messages.values[index].as_py(),
            "headers": {f"{HEADER}{name}": value.encode() for name, value in headers.items()},
        }
        try:
            try:
                self._producer.produce(self._topic, **letter, on_delivery=self._delivered)
            except BufferError:
                # The queue of the client is full.
                self.flush()
                self._producer.produce(self._topic, **letter, on_delivery=self._delivered)
        except self._kafka.KafkaException as error:
            raise InvalidInputError(
                f"The message at {messages.place(index)}, which is bad, can't be put into the topic {self._topic}: "
                f"{error.args[0].str()}. Let that topic take it (max.message.bytes, and message.max.bytes in "
                "--kafka-conf), or skip bad messages."
            ) from error
        self._producer.poll(0)

    def flush(self) -> None:
        """Wait until all messages are in the topic. Raises SourceUnavailableError after a minute."""
        left = self._producer.flush(FLUSH_SECONDS_MAX)
        if left or self._failures:
            why = self._failures[0] if self._failures else f"{left} messages are on their way"
            self._failures.clear()
            raise SourceUnavailableError(f"Bad messages can't be put into the topic {self._topic}: {why}.")

    def close(self) -> None:
        """Close the connection, without waiting for unsent messages."""
        self._producer.purge()
        self._producer.flush(1)

    def _delivered(self, error: Any, _: object) -> None:
        if error is not None:
            self._failures.append(error)
