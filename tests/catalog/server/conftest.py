"""Servers on both kinds of database. All modules share one of each; each test uses databases of its own in it."""

import itertools
from collections.abc import Iterator

import pytest

from interbed.catalog.client.hive.client import HiveMetastoreClient
from interbed.thrift_idl.hive_metastore import ThriftHiveMetastore, ttypes
from tests.support.servers.metastore import (
    BACKENDS,
    MetastoreUnderTest,
    metastore_under_test,
    migrated_database,
    plain_client,
)
from tests.support.waits import at_most

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def on_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MetastoreUnderTest]:
    """Run a catalog server on SQLite."""
    directory = tmp_path_factory.mktemp("sqlite")
    with metastore_under_test(f"sqlite:///{directory / 'metastore.db'}", directory) as running:
        yield running


@pytest.fixture(scope="session")
def on_postgresql(postgres_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MetastoreUnderTest]:
    """Run a catalog server on PostgreSQL."""
    directory = tmp_path_factory.mktemp("postgresql")
    with metastore_under_test(migrated_database(postgres_url), directory) as running:
        yield running


@pytest.fixture(scope="module", params=BACKENDS)
def metastore(request: pytest.FixtureRequest) -> MetastoreUnderTest:
    """Return a catalog server, once on SQLite and once on PostgreSQL; the session has one of each."""
    running: MetastoreUnderTest = request.getfixturevalue(f"on_{request.param}")
    return running


@pytest.fixture
def client(metastore: MetastoreUnderTest) -> Iterator[HiveMetastoreClient]:
    """Connect interbed's own client to the server."""
    with HiveMetastoreClient(metastore.uri, timeout_seconds=at_most(30)) as open_client:
        yield open_client


@pytest.fixture
def wire(metastore: MetastoreUnderTest) -> Iterator[ThriftHiveMetastore.Client]:
    """Connect the client generated from our interface definition."""
    with plain_client(metastore.port) as open_client:
        yield open_client


@pytest.fixture
def database(client: HiveMetastoreClient) -> Iterator[str]:
    """Return the name of an empty database, which is dropped after the test."""
    name = f"db_{next(_numbers)}"
    client.create_database(ttypes.Database(name=name))
    yield name
    client.drop_database(name, cascade=True)
