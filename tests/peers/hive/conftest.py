"""A catalog server, and a HiveServer2 that uses it as its only metastore."""

from collections.abc import Iterator

import pytest

import interbed
from tests.support.peers.hive import HiveServer2
from tests.support.servers.metastore import MetastoreUnderTest, metastore_under_test


@pytest.fixture(scope="module")
def metastore(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MetastoreUnderTest]:
    """Server on a SQLite database."""
    directory = tmp_path_factory.mktemp("metastore")
    with metastore_under_test(f"sqlite:///{directory / 'metastore.db'}", directory) as running:
        yield running


@pytest.fixture(scope="module")
def hive(metastore: MetastoreUnderTest) -> Iterator[HiveServer2]:
    """HiveServer2 4.0.1 with Paimon's connector."""
    with HiveServer2(metastore.uri, metastore.warehouse) as server:
        yield server


@pytest.fixture(scope="module")
def catalog(metastore: MetastoreUnderTest) -> Iterator[interbed.Catalog]:
    """interbed's Hive catalog on the same server, with the database `lake`."""
    with interbed.load_catalog("lake", metastore="hive", uri=metastore.uri) as opened:
        opened.create_database("lake")
        yield opened
