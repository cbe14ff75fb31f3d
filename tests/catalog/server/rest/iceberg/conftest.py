"""Servers with Iceberg's REST interface on both kinds of database; each test uses a namespace of its own."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyiceberg.catalog import Catalog, load_catalog

from interbed.catalog.server.service.service import Metastore
from tests.catalog.server.rest.iceberg.local_requests import LocalRequests
from tests.catalog.server.rest.iceberg.rest_server import IcebergRest, rest_server
from tests.support.databases import open_migrated
from tests.support.servers.metastore import BACKENDS, migrated_database

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def rest_on_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IcebergRest]:
    """Run a server with REST on SQLite."""
    directory = tmp_path_factory.mktemp("rest-sqlite")
    with rest_server(f"sqlite:///{directory / 'metastore.db'}", directory) as running:
        yield running


@pytest.fixture(scope="session")
def rest_on_postgresql(postgres_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[IcebergRest]:
    """Run a server with REST on PostgreSQL."""
    with rest_server(migrated_database(postgres_url), tmp_path_factory.mktemp("rest-postgresql")) as running:
        yield running


@pytest.fixture(scope="module", params=BACKENDS)
def server(request: pytest.FixtureRequest) -> IcebergRest:
    """Return a server with REST, once on SQLite and once on PostgreSQL."""
    running: IcebergRest = request.getfixturevalue(f"rest_on_{request.param}")
    return running


@pytest.fixture
def catalog(server: IcebergRest) -> Catalog:
    """Connect pyiceberg's client of REST catalogs."""
    return load_catalog("rest", type="rest", uri=server.uri)


@pytest.fixture
def hive(server: IcebergRest) -> Catalog:
    """Connect pyiceberg's client of Hive metastores to the same server."""
    return load_catalog("hive", type="hive", uri=server.metastore.uri)


@pytest.fixture
def namespace(server: IcebergRest) -> str:
    """Return the name of an empty namespace."""
    name = f"ns_{next(_numbers)}"
    server.call("POST", "namespaces", {"namespace": [name]}).expect(200)
    return name


@pytest.fixture
def metastore_services(tmp_path: Path) -> Iterator[Metastore]:
    """Return the services of a metastore in this process."""
    store = open_migrated(f"sqlite:///{tmp_path / 'metastore.db'}")
    services = Metastore(store, f"file:{tmp_path / 'warehouse'}")
    services.databases.bootstrap()
    yield services
    store.close()


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a migrated database without tables."""
    directory = tmp_path_factory.mktemp("template")
    LocalRequests(directory).repository.close()
    return directory / "metastore.db"
