"""Dead letter queue in a topic of Kafka."""

from collections.abc import Mapping
from typing import Any

from interbed.ingest.errors import SourceUnavailableError
from interbed.ingest.flow.messages import Messages
from interbed.storage.base.errors import InvalidInputError, load_extra

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
