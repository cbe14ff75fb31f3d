"""Fixtures for the tests of the REST catalog: Java's reference server, and a catalog on it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import interbed
from interbed.catalog.client.rest.catalog import RestCatalog
from tests.support.servers.paimon_rest import PaimonRestServers, rest_options


@pytest.fixture(scope="module")
def servers() -> Iterator[PaimonRestServers]:
    """Run the JVM of the reference servers for the module."""
    with PaimonRestServers() as running:
        yield running


@pytest.fixture
def url(servers: PaimonRestServers, tmp_path: Path) -> Iterator[str]:
    """Run a server with an empty catalog whose files are in `lake`."""
    with servers.server(tmp_path / "lake") as address:
        yield address


@pytest.fixture
def catalog(url: str) -> Iterator[RestCatalog]:
    """Open a catalog with the database `shop`."""
    with interbed.load_catalog("lake", **rest_options(url)) as opened:
        assert isinstance(opened, RestCatalog)
        opened.create_database("shop")
        yield opened
