"""A Kafka broker for the tests of logs."""

from collections.abc import Iterator

import pytest

from interbed.storage.log.bounds import forget_bounds
from interbed.storage.log.publisher import forget_writers
from interbed.storage.log.sender import forget_senders
from tests.interop.conftest import java_paimon
from tests.storage.log.tables import warm_up
from tests.support.servers.kafka import KafkaServer, running_kafka

__all__ = ["java_paimon", "kafka"]


@pytest.fixture(scope="session")
def kafka() -> Iterator[KafkaServer]:
    """One broker for all tests of a process; each takes topics of its own. A test that kills it starts it again."""
    with running_kafka() as server:
        warm_up(server)
        yield server
        forget_writers()
        forget_senders()
        forget_bounds()
