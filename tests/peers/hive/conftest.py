"""A catalog server on PostgreSQL, and a HiveServer2 that uses it as its only metastore: one of each for the session.

Tests use tables or databases of their own.
"""

from collections.abc import Iterator

import pytest

import interbed
from tests.support.peers.hive import HiveServer2
from tests.support.servers.metastore import MetastoreUnderTest, metastore_under_test, new_database
from tests.support.servers.postgres import postgres_server


@pytest.fixture(scope="session")
def metastore(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MetastoreUnderTest]:
    """Server on a PostgreSQL database."""
    directory = tmp_path_factory.mktemp("metastore")
    with postgres_server() as url, metastore_under_test(new_database(url), directory) as running:
        yield running


@pytest.fixture(scope="session")
def hive(metastore: MetastoreUnderTest) -> Iterator[HiveServer2]:
    """HiveServer2 4.0.1 with Paimon's connector."""
    with HiveServer2(metastore.uri, metastore.warehouse) as server:
        yield server


@pytest.fixture(scope="session")
def catalog(metastore: MetastoreUnderTest) -> Iterator[interbed.Catalog]:
    """interbed's Hive catalog on the same server, with the database `lake`."""
    with interbed.load_catalog("lake", metastore="hive", uri=metastore.uri) as opened:
        opened.create_database("lake")
        yield opened
