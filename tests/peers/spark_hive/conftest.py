"""Catalog servers on both kinds of database, and Spark sessions on them with three versions of Hive's client."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.support.peers.spark import BUNDLED_CLIENT, HIVE_3_CLIENT, HIVE_4_CLIENT, Rows, SparkPeer, hive_settings
from tests.support.servers.metastore import MetastoreUnderTest, metastore_under_test, new_database
from tests.support.servers.postgres import postgres_server
from tests.support.shares import each_run


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkOnMetastore:
    """A session and the server that it works on."""

    peer: SparkPeer
    metastore: MetastoreUnderTest

    def run(self, statement: str) -> Rows:
        """Return the answer of one statement."""
        return self.peer.run(statement)

    def column(self, statement: str, place: int = 0) -> list[str | None]:
        """Return one column of the answer."""
        return [row[place] for row in self.peer.run(statement)]

    def described(self, thing: str) -> dict[str | None, str | None]:
        """Return the output of DESCRIBE, the second column by the first; a later line wins."""
        return {row[0]: row[1] for row in self.peer.run(f"DESCRIBE {thing}")}


@pytest.fixture(scope="module")
def metastore(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MetastoreUnderTest]:
    """Server on the requested kind of database."""
    directory = tmp_path_factory.mktemp("metastore")
    if request.param == "sqlite":
        with metastore_under_test(f"sqlite:///{directory / 'metastore.db'}", directory) as running:
            yield running
    else:
        with postgres_server() as url, metastore_under_test(new_database(url), directory) as running:
            yield running


@pytest.fixture(scope="module")
def spark(request: pytest.FixtureRequest, metastore: MetastoreUnderTest) -> Iterator[SparkOnMetastore]:
    """Spark 4.1 with Hive support, with the requested client."""
    with SparkPeer(hive_settings(metastore.uri, metastore.warehouse, request.param)) as peer:
        yield SparkOnMetastore(peer=peer, metastore=metastore)


@pytest.fixture
def database(spark: SparkOnMetastore, request: pytest.FixtureRequest) -> Iterator[str]:
    """A database for one test, which is the current one of the session."""
    name = request.node.name.partition("[")[0].removeprefix("test_")[:40]
    spark.run(f"CREATE DATABASE {name}")
    spark.run(f"USE {name}")
    yield name
    spark.run("USE default")
    spark.run(f"DROP DATABASE {name} CASCADE")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run every test with each client, the newest two on different kinds of databases; a run takes one pair for each
    module.
    """
    if "spark" in metafunc.fixturenames:
        pairs = [(HIVE_4_CLIENT, "sqlite"), (BUNDLED_CLIENT, "postgresql"), (HIVE_3_CLIENT, "sqlite")]
        partitions = metafunc.module.__name__.endswith("partitions")
        marked = each_run(pairs, lambda pair: pair[0] == (BUNDLED_CLIENT if partitions else HIVE_4_CLIENT))
        metafunc.parametrize(
            ("spark", "metastore"), marked, ids=["-".join(pair) for pair in pairs], indirect=True, scope="module"
        )
