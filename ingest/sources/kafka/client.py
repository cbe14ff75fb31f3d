"""Kafka's consumer with its settings, and what it says of errors.

`settings` are librdkafka's, for connections, security and sizes:
https://github.com/confluentinc/librdkafka/blob/master/CONFIGURATION.md
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from interbed.ingest.errors import SourceUnavailableError
from interbed.storage.base.errors import InterbedError, InvalidOptionError, load_extra
from interbed.storage.base.shown_text import secrets_of, shown_error

_log = logging.getLogger(__name__)

_DEFAULTS: Mapping[str, str] = {
    "isolation.level": "read_committed",
    # A full queue of messages pauses the reader for a second otherwise, even when it is empty again at once.
    "fetch.queue.backoff.ms": "20",
    # So long a broker waits for messages, and with it whatever else is asked: where a topic ends, before each commit.
    "fetch.wait.max.ms": "100",
    # A client's second connection, to the broker of a partition, waits so long after the first one.
    "reconnect.backoff.ms": "10",
}

_OWNED: Mapping[str, str] = {
    # What was read is known to the tables; Kafka learns it by `KafkaSource.note` alone.
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    # An offset that is not there is a gap. Going on somewhere else would hide it.
    "auto.offset.reset": "error",
    "enable.partition.eof": "true",
    "allow.auto.create.topics": "false",
}

_PASSING = """
    _ALL_BROKERS_DOWN _RESOLVE _TIMED_OUT _TRANSPORT _UNKNOWN_PARTITION _UNKNOWN_TOPIC COORDINATOR_NOT_AVAILABLE
    LEADER_NOT_AVAILABLE NOT_COORDINATOR NOT_LEADER_FOR_PARTITION THROTTLING_QUOTA_EXCEEDED UNKNOWN_TOPIC_OR_PART
"""
"""Errors after which a consumer tries again by itself; topics that are gone are noticed in the next look."""


class KafkaClient:
    """A consumer of the brokers at `servers`, which reads what `name` says; nothing is connected to yet.

    Raises MissingExtraError without confluent-kafka, and InvalidOptionError for settings that are none, or that decide
    about positions. Secrets among them are in no error or line of the log.
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
        """What happened when messages had been received already: they are returned first, and it is raised after them.
        """

    def consume(self, most: int, timeout_seconds: float) -> list[Any]:
        """What the consumer has: messages, and events with an error. A failure is kept, with nothing returned."""
        try:
            events: list[Any] = self.consumer.consume(most, timeout_seconds)
        except self.kafka.KafkaException as error:
            self.failure = self.unavailable("Messages can't be read", error)
            return []
        return events

    def assign(self, offsets: Mapping[tuple[str, int], int], *, also: bool = False) -> None:
        """Read these partitions from these offsets on, and with `also` those as well that are read already.

        Raises SourceUnavailableError.
        """
        assign: Callable[[list[Any]], None] = self.consumer.incremental_assign if also else self.consumer.assign
        try:
            assign([self.kafka.TopicPartition(topic, p, offset) for (topic, p), offset in offsets.items()])
        except self.kafka.KafkaException as error:
            raise self.unavailable("Partitions can't be assigned", error) from error

    def parted(self, received: list[Any]) -> tuple[list[Any], list[Any], Any]:
        """What was received: messages, ends of partitions that were reached, and the event at which both end, because a
        partition can't be read there; None without one.
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
                _log.warning("Reading %s goes on after an error: %s", self.name, self.shown(error))
            else:
                # What follows may be beyond what could not be read; the consumer goes back to it.
                return messages, ends, event
        return messages, ends, None

    def unavailable(self, what: str, error: Any) -> SourceUnavailableError:
        """The error that says what can't be done now."""
        return SourceUnavailableError(f"{what}: {self.shown(error)} ({self.name}). Try again when Kafka answers.")

    def shown(self, error: Any) -> str:
        """The text of an error without secrets; Kafka's own errors by what they say."""
        return shown_error(self.kafka, error, self._secrets)

    def note(self, offsets: Sequence[Any]) -> None:
        """Commit offsets of the group, without waiting; failures are only logged."""
        try:
            self.consumer.commit(offsets=offsets, asynchronous=True)
        except (self.kafka.KafkaException, RuntimeError) as error:
            _log.warning("The offsets of %s were not committed: %s", self.name, self.shown(error))

    def close(self) -> None:
        """Let go of connections, when offsets that were noted are with Kafka or `request_seconds` are over."""
        try:
            self.consumer.close()
        except self.kafka.KafkaException as error:
            _log.warning("The consumer of %s was not closed: %s", self.name, self.shown(error))

    def _new_consumer(self, group: str, settings: Mapping[str, str]) -> Any:
        owned = {**_OWNED, "bootstrap.servers": self.servers, "group.id": group}
        # A member of a group would be missed after so long. This one is none: it is only how long offsets that were
        # noted wait for a broker that takes them, and `close` with them.
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
        """Called while messages are waited for, with errors that concern connections."""
        if error.fatal() or error.code() == self.kafka.KafkaError._AUTHENTICATION:
            self.failure = self.unavailable("Kafka can't be read", error)
        else:
            _log.warning("%s: %s", self.name, self.shown(error))

    def _on_commit(self, error: Any, partitions: Sequence[Any]) -> None:
        """Called while messages are waited for, with the outcome of what was noted."""
        for failed in [error, *(partition.error for partition in partitions)]:
            if failed is not None:
                _log.warning("The offsets of %s were not committed: %s", self.name, self.shown(failed))
                return
