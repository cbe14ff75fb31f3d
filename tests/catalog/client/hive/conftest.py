"""Fixtures for the tests of the Hive catalog: a server and a catalog on it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import interbed
from interbed.catalog.client.hive.catalog import HiveCatalog
from tests.support.servers.metastore import metastore


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run one server for the module, on a warehouse that no test uses."""
    with metastore(warehouse=f"file:{tmp_path_factory.mktemp('unused')}") as uri:
        yield uri


@pytest.fixture
def options(server: str, tmp_path: Path) -> dict[str, str]:
    """Options of the catalog under test."""
    return {
        "metastore": "hive",
        "uri": server,
        "warehouse": f"file:{tmp_path}/lake",
        "lock-check-max-sleep": "50 ms",
        "lock-acquire-timeout": "30 s",
    }


@pytest.fixture
def catalog(options: dict[str, str]) -> Iterator[HiveCatalog]:
    """Open a catalog with the database `shop`; drop the database afterwards."""
    with interbed.CatalogFactory.create(options) as opened:
        assert isinstance(opened, HiveCatalog)
        opened.create_database("shop")
        yield opened
        for name in opened.list_databases():
            if name != "default":
                opened.drop_database(name, cascade=True)
