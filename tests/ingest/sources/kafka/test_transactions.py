"""Transactions of Kafka: readers see only committed messages, and reach the end nevertheless."""

from interbed.ingest.flow.messages import Positions
from tests.ingest.sources.kafka.topics import (
    DEADLINE_SECONDS,
    KafkaTopics,
    Open,
    read,
    read_to_end,
    read_until,
    records,
    wait_until,
)


def test_aborted_messages_are_invisible_and_the_end_is_reached(topics: KafkaTopics, opened: Open) -> None:
    topic = topics.create()
    producer = topics.transactions()
    producer.begin_transaction()
    producer.produce(topic, b"committed", partition=0)
    producer.commit_transaction(DEADLINE_SECONDS)
    producer.begin_transaction()
    producer.produce(topic, b"aborted", partition=0)
    producer.flush(DEADLINE_SECONDS)
    producer.abort_transaction(DEADLINE_SECONDS)
    source = opened(topic)
    # The message, its commit marker, the aborted message and its abort marker.
    wait_until(lambda: source.ends() == Positions({topic: {0: 4}}))

    received = read_until(source, lambda _: source.positions().has_reached(source.ends()))
    assert records(received) == [(0, 0, None, b"committed")]
    assert source.positions() == Positions({topic: {0: 4}})
    assert not Positions().after(received[0]).has_reached(source.ends())
    # An offset after a transaction marker is a valid position.
    source.seek(source.positions())
    topics.write(topic, [b"next"])
    assert read(source, 1) == [(0, 4, None, b"next")]


def test_messages_of_an_open_transaction_are_beyond_the_end(topics: KafkaTopics, opened: Open) -> None:
    topic = topics.create()
    topics.write(topic, [b"before"])
    producer = topics.transactions()
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    producer.flush(DEADLINE_SECONDS)
    source = opened(topic)
    assert source.ends() == Positions({topic: {0: 1}})
    assert [record[3] for record in read_to_end(source)] == [b"before"]
    producer.commit_transaction(DEADLINE_SECONDS)
    assert [record[3] for record in read(source, 1)] == [b"open"]
    wait_until(lambda: source.ends() == Positions({topic: {0: 3}}))
    assert read_to_end(source) == []
