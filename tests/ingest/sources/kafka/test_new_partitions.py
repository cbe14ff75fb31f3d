"""Partitions and topics that are created while a source is read."""

import uuid

from confluent_kafka.cimpl import NewPartitions

from interbed.ingest.flow.messages import Positions
from tests.ingest.sources.kafka.topics import (
    KafkaTopics,
    Open,
    numbered,
    read,
    read_to_end,
)
from tests.support.waits import at_most


def test_new_partitions_are_found_and_read_from_their_beginning(topics: KafkaTopics, opened: Open) -> None:
    topic = topics.create()
    topics.write(topic, numbered(0, 1))
    source = opened(topic, look_seconds=0.1, start="latest")
    source.seek(Positions())
    topics.admin.create_partitions([NewPartitions(topic, 2)])[topic].result()
    topics.write(topic, numbered(1, 3), partition=1)
    assert read(source, 2) == [(1, 0, None, b"1"), (1, 1, None, b"2")]
    assert source.positions() == Positions({topic: {0: 1, 1: 2}})


def test_end_offsets_include_new_partitions(topics: KafkaTopics, opened: Open) -> None:
    topic = topics.create()
    source = opened(topic)
    source.seek(Positions())
    topics.admin.create_partitions([NewPartitions(topic, 2)])[topic].result()
    topics.write(topic, numbered(0, 3), partition=1)
    assert len(read_to_end(source)) == 3


def test_a_pattern_finds_topics_that_are_created_later(topics: KafkaTopics, opened: Open) -> None:
    prefix = f"shop{uuid.uuid4().hex[:6]}"
    first = topics.create(f"{prefix}.first")
    other = topics.create(f"other.{prefix}")
    topics.write(first, [b"first"])
    topics.write(other, [b"other"])
    source = opened(topic_pattern=rf"{prefix}\..*", look_seconds=0.1)
    assert [record[3] for record in read(source, 1)] == [b"first"]
    second = topics.create(f"{prefix}.second")
    topics.write(second, [b"second"])
    assert [record[3] for record in read(source, 1)] == [b"second"]
    assert source.positions() == Positions({first: {0: 1}, second: {0: 1}})


def test_a_pattern_may_match_no_topic_yet(topics: KafkaTopics, opened: Open) -> None:
    prefix = uuid.uuid4().hex
    source = opened(topic_pattern=f"{prefix}.*", look_seconds=0.1)
    assert source.poll(timeout_seconds=0.01, most=10) == []
    assert source.ends() == Positions()
    topics.write(topics.create(prefix), [b"v"])
    assert [record[3] for record in read(source, 1)] == [b"v"]


def test_internal_topics_of_kafka_match_no_pattern(topics: KafkaTopics, opened: Open) -> None:
    topic = topics.create()
    topics.transactions()
    assert "__transaction_state" in topics.admin.list_topics(timeout=at_most(10)).topics
    source = opened(topic, topic_pattern="__.*")
    source.seek(Positions())
    assert set(source.positions().of) == {topic}
