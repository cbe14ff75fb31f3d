"""Missing topics, and brokers that are unavailable for a while."""

import logging
from contextlib import closing

import pytest

from interbed.ingest.flow.messages import Positions, SourceUnavailableError
from interbed.ingest.sources.kafka.source import KafkaSource
from tests.ingest.sources.kafka.topics import (
    QUICK,
    KafkaTopics,
    Open,
    is_answering,
    numbered,
    read,
    wait_until,
)
from tests.support.servers.kafka import KafkaServer
from tests.support.servers.ports import free_port
from tests.support.waits import at_most


@pytest.fixture
def unused_port() -> int:
    """A port without a listener."""
    return free_port()


def test_a_missing_topic_is_named_and_not_created(topics: KafkaTopics, opened: Open) -> None:
    near = topics.create("customers")
    source = opened(near + "x")
    with pytest.raises(SourceUnavailableError, match=f"no topic {near}x in Kafka at .*among them {near}[.,]") as raised:
        source.seek(Positions())
    assert "__" not in str(raised.value)
    assert near + "x" not in topics.admin.list_topics(timeout=at_most(10)).topics


def test_an_unavailable_broker_is_reported(unused_port: int, caplog: pytest.LogCaptureFixture) -> None:
    source = KafkaSource(f"127.0.0.1:{unused_port}", ["orders"], group="readers", request_seconds=0.3, settings=QUICK)
    with closing(source), caplog.at_level(logging.WARNING):
        with pytest.raises(SourceUnavailableError, match=f"orders at 127.0.0.1:{unused_port}"):
            source.seek(Positions())
        with pytest.raises(SourceUnavailableError):
            source.poll(timeout_seconds=0.1, most=1)


def test_reading_continues_after_a_broker_restart(kafka: KafkaServer, topics: KafkaTopics, opened: Open) -> None:
    topic = topics.create()
    topics.write(topic, numbered(0, 10))
    source = opened(topic)
    looking = opened(topic, look_seconds=0.0, request_seconds=0.2)
    assert len(read(source, 10)) == len(read(looking, 10)) == 10
    kafka.kill()
    try:
        assert source.poll(timeout_seconds=0.3, most=10) == []
        # One failed look-up of new partitions is logged and tolerated; the next failure is raised.
        assert looking.poll(timeout_seconds=0.1, most=10) == []
        with pytest.raises(SourceUnavailableError):
            looking.poll(timeout_seconds=0.1, most=10)
    finally:
        kafka.start()
    topics.write(topic, numbered(10, 20))
    assert [record[3] for record in read(source, 10)] == numbered(10, 20)
    wait_until(lambda: is_answering(looking))
    assert [record[3] for record in read(looking, 10)] == numbered(10, 20)
