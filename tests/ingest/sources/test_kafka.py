"""Kafka as a source, against a real broker: positions, gaps, transactions, new partitions, and brokers that end."""

import logging
import re
import socket
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic

from interbed.ingest.errors import SourceGapError, SourceUnavailableError
from interbed.ingest.flow.messages import Messages, Positions
from interbed.ingest.sources.kafka import KafkaSource
from interbed.storage.base.errors import InvalidOptionError
from tests.support.servers.kafka import PASSWORD, USER, KafkaServer

DEADLINE_SECONDS = 60.0

QUICK = {"reconnect.backoff.max.ms": "200", "fetch.wait.max.ms": "50", "fetch.error.backoff.ms": "50"}
"""Settings that let a consumer notice sooner what a test has done."""

Record = tuple[int, int, bytes | None, bytes | None]
"""Partition, offset, key and value."""


class Topics:
    """What tests do with topics, whose names they get with a random end."""

    def __init__(self, kafka: KafkaServer) -> None:
        self._settings: dict[str, Any] = {"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0}
        self.admin = AdminClient(self._settings)

    def create(self, name: str = "orders", partitions: int = 1) -> str:
        """A new topic, whose name is returned."""
        topic = f"{name}-{uuid.uuid4().hex[:8]}"
        self.create_as(topic, partitions)
        return topic

    def create_as(self, topic: str, partitions: int = 1) -> None:
        """A topic of just this name, which may have been deleted a moment ago."""

        def is_created() -> bool:
            try:
                self.admin.create_topics([NewTopic(topic, partitions)])[topic].result()
            except KafkaException as error:
                if "EXISTS" not in error.args[0].name():
                    raise
                return False
            return True

        wait_until(is_created)
        wait_until(lambda: len(self.admin.list_topics(topic, timeout=10).topics[topic].partitions) == partitions)

    def delete(self, topic: str) -> None:
        """Delete it, and wait until it is gone."""
        self.admin.delete_topics([topic])[topic].result()
        wait_until(lambda: topic not in self.admin.list_topics(timeout=10).topics)

    def write(self, topic: str, values: Iterable[bytes | None], partition: int = 0, key: bytes | None = None) -> None:
        """Messages for a partition, which have arrived on return."""
        producer = self.producer()
        for value in values:
            producer.produce(topic, value, key, partition)
        assert producer.flush(DEADLINE_SECONDS) == 0

    def producer(self) -> Producer:
        """A producer that remembers nothing: an older one may know less partitions than there are."""
        return Producer({**self._settings, "linger.ms": 0})

    def transactions(self) -> Producer:
        """A producer of transactions that is ready to begin one."""
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
    """So many messages, of one topic or several; it fails when there are more."""
    found = records(read_until(source, lambda received: sum(map(len, received)) >= count))
    assert len(found) == count
    return sorted(found, key=lambda record: record[:2])


def read_to_the_end(source: KafkaSource) -> list[Record]:
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


@pytest.fixture(scope="module")
def topics(kafka: KafkaServer) -> Topics:
    return Topics(kafka)


@pytest.fixture
def unused_port() -> int:
    """A port that nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


@pytest.fixture
def opened(kafka: KafkaServer) -> Iterator[Callable[..., KafkaSource]]:
    """Makes sources, which are closed after the test."""
    sources: list[KafkaSource] = []

    def make(*topics: str, **arguments: Any) -> KafkaSource:
        settings = {**QUICK, **arguments.pop("settings", {})}
        group = arguments.pop("group", "readers")
        source = KafkaSource(kafka.bootstrap_servers, topics, group=group, settings=settings, **arguments)
        sources.append(source)
        return source

    yield make
    for source in sources:
        source.close()


Open = Callable[..., KafkaSource]


# Positions


def test_messages_are_read_from_positions_on(topics: Topics, opened: Open) -> None:
    topic = topics.create(partitions=2)
    topics.write(topic, numbered(0, 5))
    topics.write(topic, numbered(10, 12), partition=1, key=b"k")
    source = opened(topic)
    source.seek(Positions({topic: {0: 3, 1: 1}}))

    assert read(source, 3) == [(0, 3, None, b"3"), (0, 4, None, b"4"), (1, 1, b"k", b"11")]
    assert source.positions() == Positions({topic: {0: 5, 1: 2}}) == source.ends()


def test_columns_have_the_types_of_messages(topics: Topics, opened: Open) -> None:
    topic = topics.create()
    topics.write(topic, numbered(0, 3))
    (messages,) = read_until(opened(topic), lambda received: sum(map(len, received)) == 3)

    assert messages.topic == topic
    assert (str(messages.partitions.dtype), str(messages.offsets.dtype)) == ("int32", "int64")
    assert messages.keys.type == messages.values.type == pa.binary()


def test_a_position_can_be_gone_back_to(topics: Topics, opened: Open) -> None:
    topic = topics.create()
    topics.write(topic, numbered(0, 50))
    source = opened(topic)
    first = read(source, 50)
    source.seek(Positions({topic: {0: 20}}))
    assert source.positions() == Positions({topic: {0: 20}})
    assert read(source, 30) == first[20:]


def test_a_position_at_the_end_waits_for_the_next_message(topics: Topics, opened: Open) -> None:
    topic = topics.create()
    topics.write(topic, numbered(0, 3))
    source = opened(topic)
    source.seek(Positions({topic: {0: 3}}))
    assert source.positions().has_reached(source.ends())
    topics.write(topic, numbered(3, 4))
    assert read(source, 1) == [(0, 3, None, b"3")]


def test_partitions_without_a_position_are_read_from_their_beginning(topics: Topics, opened: Open) -> None:
    topic = topics.create(partitions=2)
    topics.write(topic, numbered(0, 2))
    topics.write(topic, numbered(0, 2), partition=1)
    source = opened(topic, start="latest")
    source.seek(Positions({topic: {0: 2}}))
    assert read(source, 2) == [(1, 0, None, b"0"), (1, 1, None, b"1")]


def test_a_start_at_the_latest_message_leaves_out_what_is_there(topics: Topics, opened: Open) -> None:
    topic = topics.create(partitions=2)
    topics.write(topic, numbered(0, 2))
    source = opened(topic, start="latest")
    source.seek(Positions())
    # The partition that has no messages has a position, too: a later run must not take it for a new one.
    assert source.positions() == Positions({topic: {0: 2, 1: 0}})
    topics.write(topic, numbered(2, 3))
    assert read(source, 1) == [(0, 2, None, b"2")]


def test_a_start_at_a_time_begins_with_the_first_message_since(topics: Topics, opened: Open) -> None:
    topic = topics.create(partitions=2)
    producer = topics.producer()
    for second in range(4):
        producer.produce(topic, b"%d" % second, partition=0, timestamp=1_700_000_000_000 + 1000 * second)
    producer.produce(topic, b"old", partition=1, timestamp=1_600_000_000_000)
    assert producer.flush(DEADLINE_SECONDS) == 0
    source = opened(topic, start="timestamp:1700000001500")
    assert read(source, 2) == [(0, 2, None, b"2"), (0, 3, None, b"3")]
    assert source.positions() == Positions({topic: {0: 4, 1: 1}})


def test_a_poll_returns_no_more_than_asked_for_and_one_table_for_each_topic(topics: Topics, opened: Open) -> None:
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


def test_tombstones_and_messages_without_a_key_are_null(topics: Topics, opened: Open) -> None:
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


def test_a_poll_that_was_interrupted_loses_no_messages(topics: Topics, opened: Open) -> None:
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
    """A consumer that once gives an error in the place of the message with an offset, and goes on after it."""

    def __init__(self, consumer: Any, offset: int, code: int) -> None:
        self._consumer = consumer
        self._offset: int | None = offset
        self._code = code

    def __getattr__(self, name: str) -> Any:
        return getattr(self._consumer, name)

    def consume(self, most: int, timeout: float) -> list[Message]:
        """What the consumer has, with the error."""
        return [self._faulty(message) for message in self._consumer.consume(most, timeout)]

    def _faulty(self, message: Message) -> Message:
        if message.error() or message.offset() != self._offset:
            return message
        self._offset = None
        error = KafkaError(self._code, "it is broken")
        return Message(topic=message.topic(), partition=message.partition(), offset=message.offset(), error=error)


def test_a_message_that_could_not_be_read_is_asked_for_again(topics: Topics, opened: Open) -> None:
    topic = topics.create()
    topics.write(topic, numbered(0, 10))
    source = opened(topic)
    source._consumer = FaultyConsumer(source._consumer, 4, KafkaError._BAD_MSG)
    assert [record[3] for record in read(source, 4)] == numbered(0, 4)
    with pytest.raises(SourceUnavailableError, match=f"{topic}, partition 0 .*_BAD_MSG: it is broken"):
        source.poll(timeout_seconds=1, most=10)
    assert [record[3] for record in read(source, 6)] == numbered(4, 10)


def test_an_error_after_which_kafka_tries_again_is_only_logged(
    topics: Topics, opened: Open, caplog: pytest.LogCaptureFixture
) -> None:
    topic = topics.create()
    topics.write(topic, numbered(0, 10))
    source = opened(topic)
    source._consumer = FaultyConsumer(source._consumer, 4, KafkaError.NOT_LEADER_FOR_PARTITION)
    with caplog.at_level(logging.WARNING):
        assert [record[3] for record in read(source, 9)] == [*numbered(0, 4), *numbered(5, 10)]
    assert "goes on after an error: NOT_LEADER_FOR_PARTITION" in caplog.text


# New partitions and topics


def test_new_partitions_are_found_and_read_from_their_beginning(topics: Topics, opened: Open) -> None:
    topic = topics.create()
    topics.write(topic, numbered(0, 1))
    source = opened(topic, look_seconds=0.1, start="latest")
    source.seek(Positions())
    topics.admin.create_partitions([NewPartitions(topic, 2)])[topic].result()
    topics.write(topic, numbered(1, 3), partition=1)
    assert read(source, 2) == [(1, 0, None, b"1"), (1, 1, None, b"2")]
    assert source.positions() == Positions({topic: {0: 1, 1: 2}})


def test_ends_include_partitions_that_are_new(topics: Topics, opened: Open) -> None:
    topic = topics.create()
    source = opened(topic)
    source.seek(Positions())
    topics.admin.create_partitions([NewPartitions(topic, 2)])[topic].result()
    topics.write(topic, numbered(0, 3), partition=1)
    assert len(read_to_the_end(source)) == 3


def test_a_pattern_finds_topics_that_are_made_later(topics: Topics, opened: Open) -> None:
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


def test_a_pattern_may_match_nothing_yet(topics: Topics, opened: Open) -> None:
    prefix = uuid.uuid4().hex
    source = opened(topic_pattern=f"{prefix}.*", look_seconds=0.1)
    assert source.poll(timeout_seconds=0.01, most=10) == []
    assert source.ends() == Positions()
    topics.write(topics.create(prefix), [b"v"])
    assert [record[3] for record in read(source, 1)] == [b"v"]


def test_topics_of_kafka_itself_match_no_pattern(topics: Topics, opened: Open) -> None:
    topic = topics.create()
    topics.transactions()
    assert "__transaction_state" in topics.admin.list_topics(timeout=10).topics
    source = opened(topic, topic_pattern="__.*")
    source.seek(Positions())
    assert set(source.positions().of) == {topic}


# Transactions


def test_messages_of_an_aborted_transaction_are_not_seen_and_the_end_is_reached(topics: Topics, opened: Open) -> None:
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
    # The message, the end of its transaction, the aborted message and the end of that one.
    wait_until(lambda: source.ends() == Positions({topic: {0: 4}}))

    received = read_until(source, lambda _: source.positions().has_reached(source.ends()))
    assert records(received) == [(0, 0, None, b"committed")]
    assert source.positions() == Positions({topic: {0: 4}})
    assert not Positions().after(received[0]).has_reached(source.ends())
    # A position behind the end of a transaction is one like any other.
    source.seek(source.positions())
    topics.write(topic, [b"next"])
    assert read(source, 1) == [(0, 4, None, b"next")]


def test_a_transaction_that_is_not_finished_is_beyond_the_end(topics: Topics, opened: Open) -> None:
    topic = topics.create()
    topics.write(topic, [b"before"])
    producer = topics.transactions()
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    producer.flush(DEADLINE_SECONDS)
    source = opened(topic)
    assert source.ends() == Positions({topic: {0: 1}})
    assert [record[3] for record in read_to_the_end(source)] == [b"before"]
    producer.commit_transaction(DEADLINE_SECONDS)
    assert [record[3] for record in read(source, 1)] == [b"open"]
    wait_until(lambda: source.ends() == Positions({topic: {0: 3}}))
    assert read_to_the_end(source) == []


# Gaps


def test_a_position_before_the_first_message_is_a_gap(topics: Topics, opened: Open) -> None:
    topic = topics.create()
    topics.write(topic, numbered(0, 10))
    place = TopicPartition(topic, 0, 6)
    topics.admin.delete_records([place])[place].result()
    source = opened(topic)
    with pytest.raises(SourceGapError, match=f"{topic}, partition 0 .*offset 4 .*the earliest is 6.*[Ff]ill the table"):
        source.seek(Positions({topic: {0: 4}}))
    # Who polls all the same is not led past the gap.
    with pytest.raises(SourceGapError, match="offset 4 "):
        source.poll(timeout_seconds=1, most=1)
    source.seek(Positions({topic: {0: 6}}))
    assert [record[3] for record in read(source, 4)] == numbered(6, 10)
    source.seek(Positions())
    assert source.positions() == Positions({topic: {0: 6}})


def test_a_topic_that_was_made_anew_is_a_gap(topics: Topics, opened: Open) -> None:
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


def test_a_topic_that_is_made_anew_while_it_is_read_is_a_gap(topics: Topics, opened: Open) -> None:
    topic = topics.create()
    topics.write(topic, numbered(0, 10))
    source = opened(topic)
    read(source, 10)
    topics.delete(topic)
    topics.create_as(topic)
    topics.write(topic, numbered(0, 2))
    with pytest.raises(SourceGapError, match=f"{topic}, partition 0 .*offset 10 "):
        read(source, 1)
    # It stays one, until positions are given that it has.
    with pytest.raises(SourceGapError, match="offset 10 "):
        source.poll(timeout_seconds=1, most=1)
    source.seek(Positions())
    assert [record[3] for record in read(source, 2)] == numbered(0, 2)


def test_a_topic_of_a_pattern_that_comes_back_is_a_gap(
    topics: Topics, opened: Open, caplog: pytest.LogCaptureFixture
) -> None:
    topic = topics.create("lost")
    source = opened(topic_pattern=topic, look_seconds=0.1)
    with caplog.at_level(logging.WARNING):
        topics.delete(topic)
        source.seek(Positions({topic: {0: 10}}))
    assert f"Topic {topic} is not in Kafka any more" in caplog.text
    assert source.poll(timeout_seconds=0.1, most=1) == []
    assert source.ends() == Positions()
    topics.create_as(topic)
    topics.write(topic, numbered(0, 2))
    with pytest.raises(SourceGapError, match=f"{topic}, partition 0 .*offset 10 "):
        read(source, 1)


# What is not there


def test_a_missing_topic_is_named_and_not_made(topics: Topics, opened: Open) -> None:
    near = topics.create("customers")
    source = opened(near + "x")
    with pytest.raises(SourceUnavailableError, match=f"no topic {near}x in Kafka at .*among them {near}[.,]") as raised:
        source.seek(Positions())
    assert "__" not in str(raised.value)
    assert near + "x" not in topics.admin.list_topics(timeout=10).topics


def test_a_broker_that_is_not_there_is_said_to_be(unused_port: int, caplog: pytest.LogCaptureFixture) -> None:
    source = KafkaSource(f"127.0.0.1:{unused_port}", ["orders"], group="readers", request_seconds=0.3, settings=QUICK)
    with closing(source), caplog.at_level(logging.WARNING):
        with pytest.raises(SourceUnavailableError, match=f"orders at 127.0.0.1:{unused_port}"):
            source.seek(Positions())
        with pytest.raises(SourceUnavailableError):
            source.poll(timeout_seconds=0.1, most=1)


def test_reading_goes_on_when_a_broker_was_killed_and_has_started_again(
    kafka: KafkaServer, topics: Topics, opened: Open
) -> None:
    topic = topics.create()
    topics.write(topic, numbered(0, 10))
    source = opened(topic)
    looking = opened(topic, look_seconds=0.0, request_seconds=0.2)
    assert len(read(source, 10)) == len(read(looking, 10)) == 10
    kafka.kill()
    try:
        assert source.poll(timeout_seconds=0.3, most=10) == []
        # One look for new partitions may fail, and is logged; the next one is not passed over.
        assert looking.poll(timeout_seconds=0.1, most=10) == []
        with pytest.raises(SourceUnavailableError):
            looking.poll(timeout_seconds=0.1, most=10)
    finally:
        kafka.start()
    topics.write(topic, numbered(10, 20))
    assert [record[3] for record in read(source, 10)] == numbered(10, 20)
    wait_until(lambda: is_answering(looking))
    assert [record[3] for record in read(looking, 10)] == numbered(10, 20)


# Kafka's own tools


def test_noted_positions_are_the_offsets_of_the_group(topics: Topics, opened: Open) -> None:
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


def test_offsets_that_are_not_committed_are_logged(
    topics: Topics, opened: Open, caplog: pytest.LogCaptureFixture
) -> None:
    topic = topics.create()
    source = opened(topic)
    source.seek(Positions())
    with caplog.at_level(logging.WARNING):
        source.note(Positions({"no-such-topic": {0: 1}}))
        wait_until(lambda: not source.poll(timeout_seconds=0.05, most=1) and "not committed" in caplog.text)
    source.close()
    source.close()
    source.note(Positions({topic: {0: 1}}))


# Settings


def logging_in(password: str) -> dict[str, str]:
    """Settings of one who authenticates himself."""
    return {
        **QUICK,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": USER,
        "sasl.password": password,
    }


def test_settings_reach_the_client(kafka: KafkaServer, topics: Topics) -> None:
    topic = topics.create()
    topics.write(topic, [b"v"])
    servers, settings = kafka.sasl_bootstrap_servers, logging_in(PASSWORD)
    with closing(KafkaSource(servers, [topic], group="g", settings=settings)) as source:
        assert [record[3] for record in read(source, 1)] == [b"v"]


def test_secrets_are_not_shown(kafka: KafkaServer, topics: Topics, caplog: pytest.LogCaptureFixture) -> None:
    topic, servers, secret = topics.create(), kafka.sasl_bootstrap_servers, "a-wrong-secret"
    shown = []
    with caplog.at_level(logging.DEBUG):
        source = KafkaSource(servers, [topic], group="g", settings=logging_in(secret), request_seconds=0.5)
        with closing(source):
            shown += [source.name, repr(source), str(source)]
            for ask in (lambda: source.seek(Positions()), source.ends, lambda: source.poll(timeout_seconds=1, most=1)):
                with pytest.raises(SourceUnavailableError) as raised:
                    ask()
                shown.append(str(raised.value))
            source.note(Positions({topic: {0: 1}}))
        wrong = {"sasl.password": secret, "security.protocol": secret}
        with pytest.raises(InvalidOptionError, match=re.escape('"***" for configuration property')) as refused:
            KafkaSource(servers, [topic], group="g", settings=wrong)
    assert secret not in " ".join([*shown, str(refused.value), caplog.text])
    assert refused.value.__suppress_context__
    assert source.name == f"Kafka topics {topic} at {servers}"
    assert "uthentication failed" in shown[3]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "names of its topics"),
        ({"topics": "orders"}, "in a list"),
        ({"topics": ["a"], "start": "yesterday"}, "yesterday"),
        ({"topics": ["a"], "start": "timestamp:-1"}, "milliseconds"),
        ({"topic_pattern": "(a"}, "no regular expression"),
        ({"topics": ["a"], "settings": {"auto.offset.reset": "latest"}}, "auto.offset.reset"),
        ({"topics": ["a"], "settings": {"no.such.thing": "1"}}, "no.such.thing"),
    ],
)
def test_what_a_source_does_not_take_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidOptionError, match=message):
        KafkaSource("127.0.0.1:1", group="g", **arguments)


def test_a_name_tells_topics_and_pattern() -> None:
    with closing(KafkaSource("127.0.0.1:1", ["a", "b", "a"], r"c\..*", group="g")) as source:
        assert source.name == r"Kafka topics a, b, like 'c\\..*' at 127.0.0.1:1"
        assert source.positions() == Positions()
