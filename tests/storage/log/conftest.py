"""The Kafka broker for the tests of logs."""

from collections.abc import Iterator

import pytest

from interbed.storage.log import kafka_eventual, kafka_log, publisher
from interbed.storage.log.kafka import LogConsumer
from interbed.storage.log.kafka_eventual import forget_bounds, forget_senders
from interbed.storage.log.publisher import forget_writers
from tests.interop.conftest import java_paimon
from tests.storage.log.tables import warm_up
from tests.support.servers.kafka import KafkaServer

__all__ = ["java_paimon"]

SOON = 2.0


@pytest.fixture
def answered_soon_or_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limit the wait of readers and commits for a broker that is down to two seconds instead of ten."""
    for module in (kafka_log, kafka_eventual):
        monkeypatch.setattr(module, "LogConsumer", lambda settings, **_: LogConsumer(settings, request_seconds=SOON))
    monkeypatch.setattr(publisher, "SECONDS_AFTER_COMMIT", SOON)


@pytest.fixture(name="kafka", scope="session")
def _kafka(kafka: KafkaServer) -> Iterator[KafkaServer]:
    """The broker of all tests, which has created what the first message needs."""
    warm_up(kafka)
    yield kafka
    forget_writers()
    forget_senders()
    forget_bounds()
