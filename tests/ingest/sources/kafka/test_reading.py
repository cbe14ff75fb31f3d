"""Messages of a real broker are read from given positions, completely and in order."""

import logging
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, Message

from interbed.ingest.flow.messages import Messages, Positions, SourceUnavailableError
from tests.ingest.sources.kafka.topics import (
    DEADLINE_SECONDS,
    KafkaTopics,
    Open,
    numbered,
    read,
    read_until,
    records,
    wait_until,
)


def test_messages_are_read_from_given_positions(topics: KafkaTopics, opened: Open) -> None:
    topic = topics.create(partitions=2)
    topics.write(topic, numbered(0, 5))
    topics.write(topic, numbered(10, 12), partition=1, key=b"k")
    source = opened(topic)
    source.seek(Positions({topic: {0: 3, 1: 1}}))

    assert read(source, 3) == [(0, 3, None, b"3"), (0, 4, None, b"4"), (1, 1, b"k", b"11")]
    assert source.positions() == Positions({topic: {0: 5, 1: 2}}) == source.ends()


def test_columns_have_the_types_of_messages(topics: KafkaTopics, opened: Open) -> None:
    topic = topics.create()
    topics.write(topic, numbered(0, 3))
    (messages,) = read_until(opened(topic), lambda received: sum(map(len, received)) == 3)

    assert messages.topic == topic
    assert (str(messages.partitions.dtype), str(messages.offsets.dtype)) == ("int32", "int64")
    assert messages.keys.type == messages.values.type == pa.binary()


def test_a_source_can_seek_back(topics: KafkaTopics, opened: Open) -> None:
    topic = topics.create()
    topics.write(topic, numbered(0, 50))
    source = opened(topic)
    first = read(source, 50)
    source.seek(Positions({topic: {0: 20}}))
    assert source.positions() == Positions({topic: {0: 20}})
    assert read(source, 30) == first[20:]


def test_a_position_at_the_end_waits_for_the_next_message(topics: KafkaTopics, opened: Open) -> None:
    topic = topics.create()
    topics.write(topic, numbered(0, 3))
    source = opened(topic)
    source.seek(Positions({topic: {0: 3}}))
    assert source.positions().has_reached(source.ends())
    topics.write(topic, numbered(3, 4))
    assert read(source, 1) == [(0, 3, None, b"3")]


def test_partitions_without_a_position_are_read_from_their_beginning(topics: KafkaTopics, opened: Open) -> None:
    topic = topics.create(partitions=2)
    topics.write(topic, numbered(0, 2))
    topics.write(topic, numbered(0, 2), partition=1)
    source = opened(topic, start="latest")
    source.seek(Positions({topic: {0: 2}}))
    assert read(source, 2) == [(1, 0, None, b"0"), (1, 1, None, b"1")]


def test_a_start_at_latest_skips_existing_messages(topics: KafkaTopics, opened: Open) -> None:
    topic = topics.create(partitions=2)
    topics.write(topic, numbered(0, 2))
    source = opened(topic, start="latest")
    source.seek(Positions())
    # The partition without messages has a position, too: a later run must not take it for a new partition.
    assert source.positions() == Positions({topic: {0: 2, 1: 0}})
    topics.write(topic, numbered(2, 3))
    assert read(source, 1) == [(0, 2, None, b"2")]


def test_a_start_at_a_time_begins_with_the_first_message_since(topics: KafkaTopics, opened: Open) -> None:
    topic = topics.create(partitions=2)
    producer = topics.producer()
    for second in range(4):
        producer.produce(topic, b"%d" % second, partition=0, timestamp=1_700_000_000_000 + 1000 * second)
    producer.produce(topic, b"old", partition=1, timestamp=1_600_000_000_000)
    assert producer.flush(DEADLINE_SECONDS) == 0
    source = opened(topic, start="timestamp:1700000001500")
    assert read(source, 2) == [(0, 2, None, b"2"), (0, 3, None, b"3")]
    assert source.positions() == Positions({topic: {0: 4, 1: 1}})


def test_a_poll_returns_at_most_the_requested_messages_in_one_table_per_topic(
    topics: KafkaTopics, opened: Open
) -> None:
    names = [topics.create("a"), topics.create("b")]
    for name in names:
        topics.write(name, numbered(0, 30))
    source = opened(*names)
    received: list[Messages] = []

    def poll() -> bool:
        batches = source.poll(timeout_seconds=1, most=7)
        assert sum(map(len, batches)) <= 7
        assert len({messages.topic for messages in batches}) == len(batches)
        received.extend(batches)
        return sum(map(len, received)) == 60

    wait_until(poll)
    for name in names:
        assert [r[3] for r in records(m for m in received if m.topic == name)] == numbered(0, 30)


def test_tombstones_and_messages_without_a_key_are_null(topics: KafkaTopics, opened: Open) -> None:
    topic = topics.create()
    topics.write(topic, [None, b""], key=b"k")
    topics.write(topic, [b"v"])
    topics.write(topic, [None], key=b"")
    assert read(opened(topic), 4) == [
        (0, 0, b"k", None),
        (0, 1, b"k", b""),
        (0, 2, None, b"v"),
        (0, 3, b"", None),
    ]


def test_an_interrupted_poll_loses_no_messages(topics: KafkaTopics, opened: Open) -> None:
    topic = topics.create()
    topics.write(topic, numbered(0, 5))
    interrupts = iter([False, False, False, True])

    def clock() -> float:
        if next(interrupts, False):
            raise KeyboardInterrupt
        return 0.0

    source = opened(topic, clock=clock)
    with pytest.raises(KeyboardInterrupt):
        read(source, 5)
    assert [record[3] for record in read(source, 5)] == numbered(0, 5)


class FaultyConsumer:
    """Consumer that once returns an error in the place of the message at an offset, and continues after it."""

    def __init__(self, consumer: Any, offset: int, code: int) -> None:
        self._consumer = consumer
        self._offset: int | None = offset
        self._code = code

    def __getattr__(self, name: str) -> Any:
        return getattr(self._consumer, name)

    def consume(self, most: int, timeout: float) -> list[Message]:
        """Return the messages of the wrapped consumer, with the error."""
        return [self._faulty(message) for message in self._consumer.consume(most, timeout)]

    def _faulty(self, message: Message) -> Message:
        if message.error() or message.offset() != self._offset:
            return message
        self._offset = None
        error = KafkaError(self._code, "it is broken")
        return Message(topic=message.topic(), partition=message.partition(), offset=message.offset(), error=error)


def test_a_message_that_could_not_be_read_is_fetched_again(topics: KafkaTopics, opened: Open) -> None:
    topic = topics.create()
    topics.write(topic, numbered(0, 10))
    source = opened(topic)
    source._client.consumer = FaultyConsumer(source._client.consumer, 4, KafkaError._BAD_MSG)
    assert [record[3] for record in read(source, 4)] == numbered(0, 4)
    with pytest.raises(SourceUnavailableError, match=f"{topic}, partition 0 .*_BAD_MSG: it is broken"):
        source.poll(timeout_seconds=1, most=10)
    assert [record[3] for record in read(source, 6)] == numbered(4, 10)


def test_retriable_errors_of_kafka_are_only_logged(
    topics: KafkaTopics, opened: Open, caplog: pytest.LogCaptureFixture
) -> None:
    topic = topics.create()
    topics.write(topic, numbered(0, 10))
    source = opened(topic)
    source._client.consumer = FaultyConsumer(source._client.consumer, 4, KafkaError.NOT_LEADER_FOR_PARTITION)
    with caplog.at_level(logging.WARNING):
        assert [record[3] for record in read(source, 9)] == [*numbered(0, 4), *numbered(5, 10)]
    assert "continues after an error: NOT_LEADER_FOR_PARTITION" in caplog.text


def test_a_source_that_does_not_fetch_returns_end_offsets(topics: KafkaTopics, opened: Open) -> None:
    topic = topics.create(partitions=2)
    topics.write(topic, numbered(0, 5))
    # A request for end offsets would wait behind a fetch for as long as the broker waits for messages.
    source = opened(topic, fetches=False, settings={"fetch.wait.max.ms": "20000"})
    source.seek(Positions({topic: {0: 3}}))
    assert source.ends() == Positions({topic: {0: 5, 1: 0}})
    topics.write(topic, numbered(5, 6))
    assert source.ends() == Positions({topic: {0: 6, 1: 0}})
    assert source.positions() == Positions({topic: {0: 3, 1: 0}})
