"""Offsets of the consumer group, as Kafka's own tools show them."""

import logging
import uuid

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions

from interbed.ingest.flow.messages import Positions
from tests.ingest.sources.kafka.topics import (
    KafkaTopics,
    Open,
    numbered,
    read,
    wait_until,
)


def test_noted_positions_are_committed_as_offsets_of_the_group(topics: KafkaTopics, opened: Open) -> None:
    topic = topics.create(partitions=2)
    topics.write(topic, numbered(0, 10))
    group = f"readers-{uuid.uuid4().hex}"
    source = opened(topic, group=group)
    read(source, 10)
    source.note(Positions({topic: {0: 7, 1: 0}}))
    source.note(Positions())

    def committed() -> dict[int, int]:
        asked = ConsumerGroupTopicPartitions(group)
        answer = topics.admin.list_consumer_group_offsets([asked])[group].result()
        return {place.partition: place.offset for place in answer.topic_partitions}

    wait_until(lambda: committed() == {0: 7, 1: 0})
    source.note(Positions({topic: {0: 10}}))
    source.close()
    wait_until(lambda: committed() == {0: 10, 1: 0})


def test_failed_offset_commits_are_logged(topics: KafkaTopics, opened: Open, caplog: pytest.LogCaptureFixture) -> None:
    topic = topics.create()
    source = opened(topic)
    source.seek(Positions())
    with caplog.at_level(logging.WARNING):
        source.note(Positions({"no-such-topic": {0: 1}}))
        wait_until(lambda: not source.poll(timeout_seconds=0.05, most=1) and "not committed" in caplog.text)
    source.close()
    source.close()
    source.note(Positions({topic: {0: 1}}))
