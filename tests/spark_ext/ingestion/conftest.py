"""A Kafka broker and a schema registry, for ingestion on Spark."""

from collections.abc import Iterator

import pytest

from tests.ingest.conftest import registry
from tests.support.servers.kafka import KafkaServer, running_kafka

__all__ = ["registry"]


@pytest.fixture(scope="session")
def kafka() -> Iterator[KafkaServer]:
    """A broker of its own: topics of the documentation have the same names as those of ingestion without Spark."""
    with running_kafka() as server:
        yield server
