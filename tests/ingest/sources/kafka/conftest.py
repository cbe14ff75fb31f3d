"""Topics on the broker, and sources that read them."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from interbed.ingest.sources.kafka.source import KafkaSource
from tests.ingest.sources.kafka.topics import QUICK, KafkaTopics
from tests.support.servers.kafka import KafkaServer


@pytest.fixture(scope="module")
def topics(kafka: KafkaServer) -> KafkaTopics:
    return KafkaTopics(kafka)


@pytest.fixture
def opened(kafka: KafkaServer) -> Iterator[Callable[..., KafkaSource]]:
    """Factory of sources that are closed after the test."""
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
