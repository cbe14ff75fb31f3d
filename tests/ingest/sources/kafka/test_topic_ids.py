"""Topics that are deleted and recreated under the same name are different topics, whatever their offsets."""

import re
from contextlib import suppress

import pytest

from interbed.ingest.flow.messages import Positions, SourceGapError, SourceUnavailableError
from interbed.ingest.sources.kafka.source import KafkaSource
from interbed.ingest.sources.kafka.topics import KafkaTopicIds, check_same
from tests.ingest.sources.kafka.topics import KafkaTopics, Open, numbered, read, read_to_end
from tests.support.servers.kafka import KafkaServer


def test_positions_have_the_ids_of_their_topics(topics: KafkaTopics, opened: Open) -> None:
    one, other = topics.create("one"), topics.create("other")
    source = opened(one, other)
    source.seek(Positions({one: {0: 0}}))
    assert source.positions().ids == {one: topics.id_of(one), other: topics.id_of(other)}
    source.check({"shop.orders": source.positions()})


def test_a_recreated_topic_that_has_the_offset_is_a_gap(topics: KafkaTopics, opened: Open) -> None:
    topic = topics.create()
    topics.write(topic, numbered(0, 10))
    source = opened(topic)
    read(source, 10)
    positions, before = source.positions(), topics.id_of(topic)
    source.close()
    topics.recreate(topic)
    topics.write(topic, numbered(0, 30))

    expected_message = (
        f"Topic {topic} .*its id was {re.escape(before)}, and is {re.escape(topics.id_of(topic))} now.*--group"
    )
    later = opened(topic)
    with pytest.raises(SourceGapError, match=expected_message):
        later.seek(positions)
    with pytest.raises(SourceGapError, match=f"the table shop.orders was filled from it: its id was {before}"):
        later.check({"shop.items": Positions({topic: {0: 10}}), "shop.orders": positions})
    # Positions of earlier versions have no ids, nor have those of brokers without topic ids.
    later.seek(Positions(positions.of))
    assert [record[3] for record in read(later, 20)] == numbered(10, 30)


def test_the_check_finds_a_topic_recreated_while_it_is_read(topics: KafkaTopics, opened: Open) -> None:
    """The consumer itself notices nothing, and continues at its offset, unless it asks for the topic meanwhile."""
    topic = topics.create()
    topics.write(topic, numbered(0, 10))
    source = opened(topic)
    read(source, 10)
    source.check({"shop.orders": source.positions()})
    topics.recreate(topic)
    topics.write(topic, numbered(0, 30))
    with suppress(SourceGapError):
        assert [record[3] for record in read_to_end(source)] == numbered(10, 30)
    with pytest.raises(SourceGapError, match=f"Topic {topic} .* since the table shop.orders was filled"):
        source.check({"shop.orders": source.positions()})
    with pytest.raises(SourceGapError, match=f"Topic {topic} .* since it was read"):
        source.seek(source.positions())


def test_the_error_beyond_the_end_of_a_recreated_topic_names_the_ids(topics: KafkaTopics, opened: Open) -> None:
    topic = topics.create()
    topics.write(topic, numbered(0, 10))
    source = opened(topic)
    read(source, 10)
    source.check({"shop.orders": source.positions()})
    topics.recreate(topic)
    topics.write(topic, numbered(0, 2))
    with pytest.raises(SourceGapError, match=f"{topic} .* since the table shop.orders was filled from it: its id was"):
        read(source, 1)


def test_a_recreated_topic_of_a_pattern_keeps_the_id_that_was_read(topics: KafkaTopics, opened: Open) -> None:
    topic = topics.create("lost")
    topics.write(topic, numbered(0, 2))
    source = opened(topic_pattern=topic, look_seconds=0.1)
    read(source, 2)
    kept = source.positions()
    topics.delete(topic)
    source.check({"shop.orders": kept})
    source.seek(kept)
    assert source.positions().ids == kept.ids
    topics.create_as(topic, 2)
    topics.write(topic, numbered(0, 5))
    topics.write(topic, numbered(5, 6), partition=1)
    with pytest.raises(SourceGapError, match=f"Topic {topic} "):
        read_and_check(source, 4)


def read_and_check(source: KafkaSource, count: int) -> None:
    """Read this number of messages, and check that they are of the topic that was read.

    The read may already fail, if the broker answers that the old topic is unknown.
    """
    read(source, count)
    source.check({"shop.orders": source.positions()})


def test_topics_that_are_no_longer_read_may_be_recreated(topics: KafkaTopics, opened: Open) -> None:
    topic = topics.create()
    source = opened(topic)
    source.check({"shop.orders": Positions({"left": {0: 5}}, {"left": "an-id-of-before"})})
    source.seek(Positions({topic: {0: 0}, "left": {0: 5}}, {"left": "an-id-of-before"}))
    assert set(source.positions().ids) == {topic}


def test_an_unknown_topic_id_is_no_difference() -> None:
    known = {"t": Positions({"a": {0: 1}, "b": {0: 1}}, {"a": "one"}), "u": Positions()}
    check_same("k", known, {"b": "two"})
    check_same("k", known, {"a": "one", "b": "two"})
    with pytest.raises(SourceGapError, match="Topic a in Kafka at k was recreated since the table t"):
        check_same("k", known, {"a": "other"})


def test_an_unavailable_broker_returns_no_topic_ids() -> None:
    ids = KafkaTopicIds("127.0.0.1:1", {}, request_seconds=0.3)
    assert ids.of([]) == {}
    with pytest.raises(SourceUnavailableError, match=r"ids of topics can't be asked for: .*127\.0\.0\.1:1"):
        ids.of(["orders"])


def test_topic_ids_are_requested_with_the_settings_of_the_source(kafka: KafkaServer, topics: KafkaTopics) -> None:
    topic, secret = topics.create(), "a-wrong-secret"
    login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "reader"}
    source = KafkaSource(
        kafka.sasl_bootstrap_servers,
        [topic],
        group="g",
        settings={**login, "sasl.password": secret},
        request_seconds=1.0,
    )
    with pytest.raises(SourceUnavailableError, match="uthentication failed") as raised:
        source.check({"shop.orders": Positions({topic: {0: 1}}, {topic: "an-id"})})
    assert secret not in str(raised.value)
    source.close()
