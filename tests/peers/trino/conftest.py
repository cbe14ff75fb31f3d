"""Trino's server, one for the test session; each module makes catalogs over a metastore of its own."""

from collections.abc import Iterator

import pytest

from tests.support.peers.trino import Trino


@pytest.fixture(scope="session")
def trino() -> Iterator[Trino]:
    """Run Trino with its catalogs."""
    with Trino() as server:
        yield server
