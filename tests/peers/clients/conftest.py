"""A catalog server for Python's clients of a Hive Metastore, once on SQLite and once on PostgreSQL."""

import itertools
from collections.abc import Iterator

import pytest
from hmsclient.genthrift.hive_metastore import ttypes
from hmsclient.hmsclient import HMSClient

from tests.support.servers.metastore import (
    BACKENDS,
    MetastoreUnderTest,
    foreign_client,
    metastore_under_test,
    new_database,
)
from tests.support.servers.postgres import postgres_server
from tests.support.shares import each_run

_numbers = itertools.count(1)


@pytest.fixture(scope="module", params=each_run(BACKENDS, lambda kind: kind == "postgresql"))
def metastore(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MetastoreUnderTest]:
    """Catalog server on each kind of database."""
    directory = tmp_path_factory.mktemp(request.param)
    if request.param == "sqlite":
        with metastore_under_test(f"sqlite:///{directory / 'metastore.db'}", directory) as running:
            yield running
    else:
        with postgres_server() as url, metastore_under_test(new_database(url), directory) as running:
            yield running


@pytest.fixture
def hms(metastore: MetastoreUnderTest) -> Iterator[HMSClient]:
    """Connected client of hmsclient."""
    with foreign_client(metastore.port) as client:
        yield client


@pytest.fixture
def database(hms: HMSClient) -> Iterator[str]:
    """A database that is dropped after the test."""
    name = f"db_{next(_numbers)}"
    hms.create_database(ttypes.Database(name=name))
    yield name
    hms.drop_database(name, True, True)
