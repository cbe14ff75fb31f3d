"""The peers, one process of each for the test session."""

from collections.abc import Iterator

import pytest

from tests.support.peers.flink import Flink
from tests.support.peers.java import JavaPaimon
from tests.support.peers.pypaimon import PyPaimon


@pytest.fixture(scope="session")
def java_paimon() -> Iterator[JavaPaimon]:
    """JVM with Java Paimon 1.4.2."""
    with JavaPaimon() as java:
        yield java


@pytest.fixture(scope="session")
def pypaimon() -> Iterator[PyPaimon]:
    """Process with pypaimon 2.1.0 and pypaimon-rust 0.4.0."""
    with PyPaimon() as python:
        yield python


@pytest.fixture(scope="session")
def flink() -> Iterator[Flink]:
    """JVM with Flink 1.20 and Paimon's connector 1.3.1."""
    with Flink() as peer:
        yield peer
