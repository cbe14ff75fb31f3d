"""Dead letters: messages that could not be ingested, in a separate topic."""

from contextlib import closing

import pytest

from interbed.ingest.sources.kafka.client import KafkaDeadLetters
from interbed.storage.base.errors import InvalidInputError
from tests.ingest.memory_source import messages_of
from tests.ingest.sources.kafka.topics import KafkaTopics, Open, read
from tests.support.servers.kafka import KafkaServer


def test_more_letters_than_the_producer_buffers_are_delivered(
    kafka: KafkaServer, topics: KafkaTopics, opened: Open
) -> None:
    topic = topics.create("letters")
    messages = messages_of([b"%d" % i for i in range(5)])
    few = {"queue.buffering.max.messages": "1", "linger.ms": "0"}
    with closing(KafkaDeadLetters(kafka.bootstrap_servers, topic, settings=few)) as letters:
        for i in range(5):
            letters.put(messages, i, "why")
        letters.flush()
    assert [value for _, _, _, value in read(opened(topic), 5)] == [b"0", b"1", b"2", b"3", b"4"]


def test_a_letter_that_is_too_large_is_named(kafka: KafkaServer, topics: KafkaTopics) -> None:
    topic = topics.create("letters")
    messages = messages_of([b"x" * 5000], topic="orders", first=7)
    small = {"message.max.bytes": "1000"}
    with (
        closing(KafkaDeadLetters(kafka.bootstrap_servers, topic, settings=small)) as letters,
        pytest.raises(
            InvalidInputError, match=r"topic orders, partition 0, offset 7, .* into the topic letters-.*skip"
        ),
    ):
        letters.put(messages, 0, "why")
