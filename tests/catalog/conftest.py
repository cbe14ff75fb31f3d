"""Databases of a metastore, and every kind of catalog with the servers that it needs."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.servers.java_metastore import java_metastore
from tests.support.servers.metastore import (
    BACKENDS,
    MetastoreUnderTest,
    metastore,
    metastore_under_test,
    migrated_database,
    new_database,
)
from tests.support.servers.paimon_rest import PaimonRestServers, rest_options
from tests.support.servers.postgres import postgres_server
from tests.support.shares import each_run

OURS = ("filesystem", "hive_server", "rest_server")
"""Kinds of catalogs that need no JVM."""
JAVAS = ("java_hive_2", "java_hive_4", "java_rest")


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """Run a PostgreSQL server and yield its address."""
    with postgres_server() as url:
        yield url


@pytest.fixture(params=BACKENDS)
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the address of a database without objects, once on SQLite and once on PostgreSQL, which is migrated."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'metastore.db'}"
    return migrated_database(request.getfixturevalue("postgres_url"))


@pytest.fixture(params=BACKENDS)
def empty_database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the address of a database without tables, once on SQLite and once on PostgreSQL."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'metastore.db'}"
    return new_database(request.getfixturevalue("postgres_url"))


@pytest.fixture(scope="module")
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MetastoreUnderTest]:
    """Run a server on SQLite for the module, with the arguments SERVER_ARGUMENTS of the module, if it has some."""
    directory = tmp_path_factory.mktemp("server")
    arguments: tuple[str, ...] = getattr(request.module, "SERVER_ARGUMENTS", ())
    with metastore_under_test(f"sqlite:///{directory / 'metastore.db'}", directory, *arguments) as running:
        yield running


@pytest.fixture(scope="module")
def hive_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run one catalog server for the module, on a warehouse that no test uses."""
    with metastore(warehouse=f"file:{tmp_path_factory.mktemp('unused')}") as uri:
        yield uri


@pytest.fixture(scope="module")
def rest_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run a catalog server with a warehouse of its own; yield the address of its Paimon REST catalog."""
    with metastore(warehouse=f"file:{tmp_path_factory.mktemp('served')}/lake") as uri:
        yield uri.paimon


@pytest.fixture(scope="module")
def java_hive_2() -> Iterator[str]:
    """Run Hive's own metastore 2.3.10, in Java."""
    with java_metastore("2.3.10") as uri:
        yield uri


@pytest.fixture(scope="module")
def java_hive_4() -> Iterator[str]:
    """Run Hive's own metastore 4.0.1, in Java."""
    with java_metastore("4.0.1") as uri:
        yield uri


@pytest.fixture(scope="module")
def java_rest() -> Iterator[PaimonRestServers]:
    """Run the JVM of Paimon's reference server of REST catalogs."""
    with PaimonRestServers() as servers:
        yield servers


# tests/catalog/differential compares Hive's own metastores with our server, call by call.
@pytest.fixture(params=each_run([*OURS, *JAVAS], lambda kind: kind in OURS))
def kind_of_catalog(request: pytest.FixtureRequest) -> str:
    """Return every kind of catalog: the Hive catalog on our server and on Hive's own, the REST catalog on our server
    and on Java's reference server.
    """
    return str(request.param)


@pytest.fixture
def options_of_catalog(
    kind_of_catalog: str, request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[dict[str, object]]:
    """Return the options of every kind of catalog, on a warehouse of its own."""
    if kind_of_catalog == "java_rest":
        with request.getfixturevalue("java_rest").server(tmp_path / "lake", "lake") as url:
            yield dict(rest_options(url))
        return
    if kind_of_catalog == "rest_server":
        yield dict(rest_options(request.getfixturevalue("rest_server"), "hive"))
        return
    options: dict[str, object] = {"warehouse": f"file:{tmp_path}/lake"}
    if kind_of_catalog != "filesystem":
        options |= {"metastore": "hive", "uri": request.getfixturevalue(kind_of_catalog)}
    if kind_of_catalog == "java_hive_4":
        # Its locks need tables that only a manual installation creates.
        options |= {"lock.enabled": False}
    yield options
