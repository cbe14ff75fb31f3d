"""Spark session with Iceberg that the tests of all modules share, because it takes longer to start than most tests."""

from collections.abc import Iterator

import pytest

from tests.support.peers.iceberg import IcebergPeer


@pytest.fixture(scope="session")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IcebergPeer]:
    """Iceberg in Java, with its own warehouse."""
    with IcebergPeer(tmp_path_factory.mktemp("warehouse")) as running:
        yield running
