"""Settings that a source accepts and passes to the client, and its texts without secrets."""

import logging
import re
from contextlib import closing
from typing import Any

import pytest

from interbed.ingest.flow.messages import Positions, SourceUnavailableError
from interbed.ingest.sources.kafka.source import KafkaSource
from interbed.storage.base.errors import InvalidOptionError
from tests.ingest.sources.kafka.topics import (
    QUICK,
    KafkaTopics,
    read,
)
from tests.support.servers.kafka import PASSWORD, USER, KafkaServer


def logging_in(password: str) -> dict[str, str]:
    """Settings of a client with credentials."""
    return {
        **QUICK,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": USER,
        "sasl.password": password,
    }


def test_settings_reach_the_client(kafka: KafkaServer, topics: KafkaTopics) -> None:
    topic = topics.create()
    topics.write(topic, [b"v"])
    servers, settings = kafka.sasl_bootstrap_servers, logging_in(PASSWORD)
    with closing(KafkaSource(servers, [topic], group="g", settings=settings)) as source:
        assert [record[3] for record in read(source, 1)] == [b"v"]


def test_secrets_are_not_shown(kafka: KafkaServer, topics: KafkaTopics, caplog: pytest.LogCaptureFixture) -> None:
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
def test_invalid_settings_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidOptionError, match=message):
        KafkaSource("127.0.0.1:1", group="g", **arguments)


def test_a_source_name_contains_topics_and_pattern() -> None:
    with closing(KafkaSource("127.0.0.1:1", ["a", "b", "a"], r"c\..*", group="g")) as source:
        assert source.name == r"Kafka topics a, b, like 'c\\..*' at 127.0.0.1:1"
        assert source.positions() == Positions()
