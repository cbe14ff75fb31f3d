"""One Spark session with Iceberg for the tests of all modules: it takes longer to start than most of them."""

from collections.abc import Iterator

import pytest

from tests.support.peers.iceberg import IcebergPeer


@pytest.fixture(scope="session")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IcebergPeer]:
    """Iceberg in Java, with a warehouse of its own."""
    with IcebergPeer(tmp_path_factory.mktemp("warehouse")) as running:
        yield running
