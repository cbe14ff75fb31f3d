"""Random changes through Thrift, Iceberg REST and Paimon REST: the history gives the metadata at each time."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.catalog import Catalog as IcebergCatalog
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import (
    NoSuchNamespaceError,
    NoSuchTableError,
    RESTError,
    TableAlreadyExistsError,
)
from thrift.Thrift import TException

import interbed
from interbed.catalog.client.api import Catalog
from interbed.catalog.client.hive.client import HiveMetastoreClient
from interbed.catalog.server.database.session import SqlRepository
from interbed.catalog.server.service.history.entries import MetadataValue, ObjectKey, key_of
from interbed.catalog.server.service.service import Metastore
from interbed.storage.base.errors import InterbedError
from interbed.thrift_idl.hive_metastore import ThriftHiveMetastore, ttypes
from tests.support.examples import examples
from tests.support.servers.metastore import metastore_under_test, migrated_database, plain_client, storage, table
from tests.support.servers.paimon_rest import rest_options
from tests.support.waits import at_most, past_millisecond

DATABASES = ("hist_a", "hist_b")
COLUMNS = pa.schema([("id", pa.int64())])

REFUSALS = (
    InterbedError,
    TException,
    RESTError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
    ValueError,
)

databases = st.sampled_from(DATABASES)
names = st.sampled_from(["s", "t"])
number = st.integers(0, 99).map(str)
changes = st.one_of(
    st.tuples(st.sampled_from(["create_database", "drop_database", "alter_database"]), databases, number),
    st.tuples(st.sampled_from(["create_function", "drop_function"]), databases, names),
    st.tuples(st.just("rename_table"), databases, names, databases, names),
    st.tuples(st.just("add_partitions"), databases, names, number),
    st.tuples(
        st.sampled_from(["create_table", "create_table", "alter_table", "alter_table", "drop_table"]),
        st.sampled_from(["thrift", "iceberg", "paimon"]),
        databases,
        names,
        number,
    ),
)


class HistoryUnderTest:
    """A server with clients of its interfaces, and its database read past it."""

    def __init__(
        self,
        hive: HiveMetastoreClient,
        wire: ThriftHiveMetastore.Client,
        iceberg: IcebergCatalog,
        paimon: Catalog,
        metastore: Metastore,
    ) -> None:
        self.hive = hive
        self.iceberg = iceberg
        self.paimon = paimon
        self.metastore = metastore
        self.wire = wire

    def state(self) -> dict[ObjectKey, MetadataValue]:
        """Return the present databases, tables and functions, as the services have them."""
        found: list[MetadataValue] = [*self.metastore.functions.select("hive")]
        for database in self.metastore.databases.select("hive"):
            found.append(database)
            found.extend(self.metastore.tables.matching("hive", database.name, "*"))
        return {key_of(value): value for value in found}

    def apply(self, change: tuple[Any, ...]) -> None:
        """Make a change; one that is refused changes nothing."""
        with suppress(*REFUSALS):
            getattr(self, change[0])(*change[1:])

    def create_database(self, database: str, text: str) -> None:
        """Create a database with a description."""
        self.hive.create_database(ttypes.Database(name=database, description=text))

    def drop_database(self, database: str, _text: str) -> None:
        """Drop a database with its tables."""
        self.hive.drop_database(database, cascade=True)

    def alter_database(self, database: str, text: str) -> None:
        """Change the properties of a database by Iceberg's interface."""
        self.iceberg.update_namespace_properties(database, updates={"n": text})

    def create_function(self, database: str, name: str) -> None:
        """Create a function of a name."""
        self.wire.create_function(_function(database, name))

    def drop_function(self, database: str, name: str) -> None:
        """Drop a function of a name."""
        self.wire.drop_function(database, name)

    def rename_table(self, database: str, name: str, to_database: str, to_name: str) -> None:
        """Rename a table by Thrift."""
        found = self.hive.get_table(database, name)
        found.dbName, found.tableName = to_database, to_name
        self.hive.alter_table(database, name, found)

    def add_partitions(self, database: str, name: str, text: str) -> None:
        """Add a partition to a table that has a key."""
        part = ttypes.Partition(values=[text], dbName=database, tableName=name, sd=storage(), parameters={})
        self.wire.add_partitions([part])

    def create_table(self, interface: str, database: str, name: str, text: str) -> None:
        """Create a table by one of the interfaces."""
        if interface == "thrift":
            self.hive.create_table(table(database, name, parameters={"n": text}, partition_keys=(("dt", "string"),)))
        elif interface == "iceberg":
            self.iceberg.create_table(f"{database}.{name}", COLUMNS, properties={"n": text})
        else:
            self.paimon.create_table(f"{database}.{name}", COLUMNS, options={"n": text})

    def alter_table(self, interface: str, database: str, name: str, text: str) -> None:
        """Change a table by one of the interfaces."""
        if interface == "thrift":
            found = self.hive.get_table(database, name)
            found.parameters["m"] = text
            self.hive.alter_table(database, name, found)
        elif interface == "iceberg":
            with self.iceberg.load_table(f"{database}.{name}").transaction() as transaction:
                transaction.set_properties(m=text)
        else:
            self.paimon.alter_table(f"{database}.{name}", [interbed.SchemaChange.set_option("m", text)])

    def drop_table(self, interface: str, database: str, name: str, _text: str) -> None:
        """Drop a table by one of the interfaces."""
        if interface == "thrift":
            self.hive.drop_table(database, name, delete_data=True)
        elif interface == "iceberg":
            self.iceberg.drop_table(f"{database}.{name}")
        else:
            self.paimon.drop_table(f"{database}.{name}")


def _function(database: str, name: str) -> ttypes.Function:
    return ttypes.Function(
        functionName=name,
        dbName=database,
        className="org.example.F",
        ownerName="ann",
        ownerType=ttypes.PrincipalType.USER,
        createTime=1,
        functionType=ttypes.FunctionType.JAVA,
        resourceUris=[],
    )


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgresql", marks=pytest.mark.long)])
def history(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HistoryUnderTest]:
    """Run a server on each kind of database, with clients of its interfaces."""
    directory = tmp_path_factory.mktemp("history")
    db = f"sqlite:///{directory / 'metastore.db'}"
    if request.param == "postgresql":
        db = migrated_database(request.getfixturevalue("postgres_url"))
    with (
        metastore_under_test(db, directory, "--http-port", "0") as server,
        HiveMetastoreClient(server.uri, timeout_seconds=at_most(30)) as hive,
        plain_client(server.port) as wire,
        load_catalog("ice", type="rest", uri=f"{server.http}/iceberg") as iceberg,
        interbed.load_catalog("pai", **rest_options(f"{server.http}/paimon", "hive")) as paimon,
    ):
        store = SqlRepository(db)
        yield HistoryUnderTest(hive, wire, iceberg, paimon, Metastore(store, f"file:{server.warehouse}"))
        store.close()


@settings(max_examples=examples(25), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(changes, min_size=8, max_size=25))
def test_the_history_gives_the_metadata_at_each_time(history: HistoryUnderTest, steps: list[tuple[Any, ...]]) -> None:
    for database in DATABASES:
        history.apply(("drop_database", database, ""))
    history.create_database(DATABASES[0], "first")
    states = [(past_millisecond(), history.state())]
    for step in steps:
        history.apply(step)
        states.append((past_millisecond(), history.state()))
    assert len(states[-1][1]) > 0
    for moment, expected in states:
        assert history.metastore.history.states_at("hive", moment) == expected
