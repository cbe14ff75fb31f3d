"""Operations on topics, and reads of sources, for the tests of Kafka as a source."""

import time
import uuid
from collections.abc import Callable, Iterable
from typing import Any

from confluent_kafka import KafkaException, Producer, TopicCollection
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from interbed.ingest.flow.messages import Messages, SourceUnavailableError
from interbed.ingest.sources.kafka.source import KafkaSource
from tests.support.servers.kafka import KafkaServer
from tests.support.waits import at_most

DEADLINE_SECONDS = at_most(60.0)

QUICK = {"reconnect.backoff.max.ms": "200", "fetch.wait.max.ms": "50", "fetch.error.backoff.ms": "50"}
"""Settings that let a consumer notice earlier what a test has done."""

Open = Callable[..., KafkaSource]
"""Factory of sources by topic names; each is closed after the test."""

Record = tuple[int, int, bytes | None, bytes | None]
"""Partition, offset, key and value."""


class KafkaTopics:
    """Topics of the tests, which get random suffixes to their names."""

    def __init__(self, kafka: KafkaServer) -> None:
        self._settings: dict[str, Any] = {"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0}
        self.admin = AdminClient(self._settings)

    def create(self, name: str = "orders", partitions: int = 1) -> str:
        """Create a topic and return its name."""
        topic = f"{name}-{uuid.uuid4().hex[:8]}"
        self.create_as(topic, partitions)
        return topic

    def create_as(self, topic: str, partitions: int = 1) -> None:
        """Create a topic of exactly this name, which may have been deleted a moment ago."""

        def is_created() -> bool:
            try:
                self.admin.create_topics([NewTopic(topic, partitions)])[topic].result()
            except KafkaException as error:
                if "EXISTS" not in error.args[0].name():
                    raise
                return False
            return True

        wait_until(is_created)
        wait_until(
            lambda: len(self.admin.list_topics(topic, timeout=at_most(10)).topics[topic].partitions) == partitions
        )

    def delete(self, topic: str) -> None:
        """Delete a topic, and wait until it is deleted."""
        self.admin.delete_topics([topic])[topic].result()
        wait_until(lambda: topic not in self.admin.list_topics(timeout=at_most(10)).topics)

    def recreate(self, topic: str, partitions: int = 1) -> None:
        """Delete a topic, and create another one of the same name."""
        self.delete(topic)
        self.create_as(topic, partitions)

    def id_of(self, topic: str) -> str:
        """Return its id, as Kafka's own tools show it."""
        described = self.admin.describe_topics(TopicCollection([topic]))[topic].result()
        return str(described.topic_id).replace("+", "-").replace("/", "_")

    def write(self, topic: str, values: Iterable[bytes | None], partition: int = 0, key: bytes | None = None) -> None:
        """Write messages to a partition; they have arrived on return."""
        producer = self.producer()
        for value in values:
            producer.produce(topic, value, key, partition)
        assert producer.flush(DEADLINE_SECONDS) == 0

    def producer(self) -> Producer:
        """Return a new producer without cached metadata: an older one may know fewer partitions than exist."""
        return Producer({**self._settings, "linger.ms": 0})

    def transactions(self) -> Producer:
        """Return a transactional producer that is ready to begin a transaction."""
        producer = Producer({**self._settings, "transactional.id": uuid.uuid4().hex})
        producer.init_transactions(DEADLINE_SECONDS)
        return producer


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, "it did not become so in time"


def records(received: Iterable[Messages]) -> list[Record]:
    return [
        record
        for messages in received
        for record in zip(
            messages.partitions.tolist(),
            messages.offsets.tolist(),
            messages.keys.to_pylist(),
            messages.values.to_pylist(),
            strict=True,
        )
    ]


def read_until(source: KafkaSource, is_enough: Callable[[list[Messages]], bool]) -> list[Messages]:
    received: list[Messages] = []

    def poll() -> bool:
        received.extend(source.poll(timeout_seconds=0.2, most=1000))
        return is_enough(received)

    wait_until(poll)
    return received


def read(source: KafkaSource, count: int) -> list[Record]:
    """Read `count` messages of one or several topics. AssertionError if there are more."""
    found = records(read_until(source, lambda received: sum(map(len, received)) >= count))
    assert len(found) == count
    return sorted(found, key=lambda record: record[:2])


def read_to_end(source: KafkaSource) -> list[Record]:
    ends = source.ends()
    return sorted(records(read_until(source, lambda _: source.positions().has_reached(ends))), key=lambda r: r[:2])


def is_answering(source: KafkaSource) -> bool:
    try:
        source.ends()
    except SourceUnavailableError:
        return False
    return True


def numbered(start: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(start, end)]
