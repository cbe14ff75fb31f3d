"""Handing records to librdkafka, whose queue may be full."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from interbed.storage.base.errors import LogUnavailableError
from interbed.storage.log.kafka import LogConsumer, LogSettings, produce
from tests.storage.log.tables import create
from tests.support.servers.kafka import KafkaServer


class FullProducer:
    """A producer whose queue is full until it was polled a given number of times."""

    def __init__(self, polls: int) -> None:
        self.polls = polls
        self.taken: list[tuple[Any, ...]] = []

    def produce(self, topic: str, value: bytes | None, key: bytes | None, partition: int, **more: Any) -> None:
        if self.polls:
            raise BufferError
        self.taken.append((topic, partition, key, value, more["timestamp"]))

    def poll(self, timeout_seconds: float) -> None:
        assert timeout_seconds > 0
        self.polls -= 1


def test_a_record_waits_until_the_queue_has_room() -> None:
    producer = FullProducer(polls=3)
    produce(producer, "t", 1, b"k", b"v", None, time_millis=7)
    assert producer.taken == [("t", 1, b"k", b"v", 7)]


def test_waiting_ends_when_other_records_were_not_delivered() -> None:
    def fail() -> None:
        raise LogUnavailableError("The log was not written.")

    producer = FullProducer(polls=3)
    with pytest.raises(LogUnavailableError):
        produce(producer, "t", 1, b"k", b"v", None, check=fail)
    assert (producer.polls, producer.taken) == (2, [])


@pytest.mark.parametrize("consistency", ["transactional", "eventual"])
def test_more_rows_than_the_queue_holds_can_be_published(kafka: KafkaServer, tmp_path: Path, consistency: str) -> None:
    table = create(kafka, tmp_path, log__consistency=consistency, kafka__queue__buffering__max__messages="10")
    table.upsert(pa.table({"id": list(range(500)), "v": ["a"] * 500}))
    consumer = LogConsumer(LogSettings.of(table.options), request_seconds=30)
    consumer.begin({}, 2)
    keys: list[bytes] = []
    while consumer.at_end < {0, 1}:
        # The markers of a transactional log have no key.
        keys += [message.key() for message in consumer.take(30) if message.key() is not None]
    consumer.close()
    assert len(keys) == len(set(keys)) == 500
