"""Messages that were deleted before they were read: topics that lost some, and recreated topics."""

import logging

import pytest
from confluent_kafka import TopicPartition

from interbed.ingest.flow.messages import Positions, SourceGapError
from tests.ingest.sources.kafka.topics import (
    KafkaTopics,
    Open,
    numbered,
    read,
)


def test_an_offset_before_the_first_message_is_a_gap(topics: KafkaTopics, opened: Open) -> None:
    topic = topics.create()
    topics.write(topic, numbered(0, 10))
    place = TopicPartition(topic, 0, 6)
    topics.admin.delete_records([place])[place].result()
    source = opened(topic)
    with pytest.raises(SourceGapError, match=f"{topic}, partition 0 .*offset 4 .*the earliest is 6.*[Ff]ill the table"):
        source.seek(Positions({topic: {0: 4}}))
    # A poll after the error does not skip the gap either.
    with pytest.raises(SourceGapError, match="offset 4 "):
        source.poll(timeout_seconds=1, most=1)
    source.seek(Positions({topic: {0: 6}}))
    assert [record[3] for record in read(source, 4)] == numbered(6, 10)
    source.seek(Positions())
    assert source.positions() == Positions({topic: {0: 6}})


def test_a_recreated_topic_is_a_gap(topics: KafkaTopics, opened: Open) -> None:
    topic = topics.create(partitions=2)
    topics.write(topic, numbered(0, 10))
    topics.delete(topic)
    topics.create_as(topic)
    topics.write(topic, numbered(0, 2))
    source = opened(topic)
    with pytest.raises(SourceGapError, match=f"{topic}, partition 0 .*offset 10 .*ends at offset 2, .*earliest is 0.*"):
        source.seek(Positions({topic: {0: 10}}))
    with pytest.raises(SourceGapError, match=f"{topic}, partition 1 .*has 1 partitions"):
        source.seek(Positions({topic: {0: 1, 1: 10}}))


def test_a_topic_recreated_while_it_is_read_is_a_gap(topics: KafkaTopics, opened: Open) -> None:
    topic = topics.create()
    topics.write(topic, numbered(0, 10))
    source = opened(topic)
    read(source, 10)
    topics.delete(topic)
    topics.create_as(topic)
    topics.write(topic, numbered(0, 2))
    with pytest.raises(SourceGapError, match=f"Topic {topic} .*was recreated since it was read"):
        read(source, 1)
    # The error persists until the source gets positions that exist.
    with pytest.raises(SourceGapError, match="was recreated"):
        source.poll(timeout_seconds=1, most=1)
    source.seek(Positions())
    assert [record[3] for record in read(source, 2)] == numbered(0, 2)


def test_a_recreated_topic_of_a_pattern_is_a_gap(
    topics: KafkaTopics, opened: Open, caplog: pytest.LogCaptureFixture
) -> None:
    topic = topics.create("lost")
    source = opened(topic_pattern=topic, look_seconds=0.1)
    with caplog.at_level(logging.WARNING):
        topics.delete(topic)
        source.seek(Positions({topic: {0: 10}}))
    assert f"Topic {topic} does not exist in Kafka any more" in caplog.text
    assert source.poll(timeout_seconds=0.1, most=1) == []
    assert source.ends() == Positions()
    topics.create_as(topic)
    topics.write(topic, numbered(0, 2))
    with pytest.raises(SourceGapError, match=f"{topic}, partition 0 .*offset 10 "):
        read(source, 1)
