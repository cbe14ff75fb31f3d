"""Drops that a metastore of interbed's refuses: the refusal is raised, and no file is deleted."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from thrift.Thrift import TApplicationException

import interbed
from interbed.catalog.client.errors import CatalogError, TableNotFoundError
from interbed.cli import main
from interbed.spark_ext.process.planner import PlannerHandler
from interbed.storage.base.errors import NotSupportedError
from interbed.thrift_idl.hive_metastore import ThriftHiveMetastore, ttypes
from interbed.thrift_idl.planner.ttypes import CatalogRef, TableRef
from tests.support.servers.metastore import MetastoreUnderTest, metastore_under_test
from tests.support.servers.relay import Relay

KEY: "pa.Field[Any]" = pa.field("id", pa.int64(), nullable=False)
COLUMNS = pa.schema([KEY, pa.field("v", pa.string())])
DropResult = ThriftHiveMetastore.drop_table_with_environment_context_result
ConfigResult = ThriftHiveMetastore.get_config_value_result
DROP, CONFIG = "drop_table_with_environment_context", "get_config_value"

REFUSALS: dict[str, tuple[str, Any]] = {
    "changed": (DROP, DropResult(o3=ttypes.MetaException(message="d.t could not be dropped: others keep changing it"))),
    "database": (DROP, DropResult(o3=ttypes.MetaException(message="the database of the metastore does not answer"))),
    "misleading": (
        DROP,
        DropResult(o3=ttypes.MetaException(message="t cannot be kept when it is dropped: it has a lock")),
    ),
    "empty": (DROP, DropResult(o3=ttypes.MetaException(message=None))),
    "internal": (DROP, TApplicationException(TApplicationException.INTERNAL_ERROR, "Internal error")),
    "unknown-call": (DROP, TApplicationException(TApplicationException.UNKNOWN_METHOD, "Invalid method name")),
    "question": (CONFIG, TApplicationException(TApplicationException.INTERNAL_ERROR, "Internal error")),
    "secret": (CONFIG, ConfigResult(o1=ttypes.ConfigValSecurityException(message="not for clients"))),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MetastoreUnderTest]:
    directory = tmp_path_factory.mktemp("server")
    with metastore_under_test(f"sqlite:///{directory / 'metastore.db'}", directory) as running:
        yield running


@pytest.fixture
def relay(server: MetastoreUnderTest) -> Iterator[Relay]:
    with Relay(server.port) as running:
        yield running


@pytest.fixture
def table(server: MetastoreUnderTest) -> Iterator[interbed.Table]:
    """Make the table d.t, with rows."""
    with interbed.load_catalog("lake", metastore="hive", uri=server.uri) as catalog:
        catalog.create_database("d")
        made = catalog.create_table("d.t", COLUMNS, primary_keys=["id"])
        made.upsert([{"id": 1, "v": "a"}])
        yield made
        catalog.drop_database("d", ignore_if_not_exists=True, cascade=True)


def _by_python(uri: str, statement: str) -> None:
    with interbed.load_catalog("lake", metastore="hive", uri=uri) as catalog:
        if statement == "table":
            catalog.drop_table("d.t")
        else:
            catalog.drop_database("d", cascade=True)


def _by_command(uri: str, statement: str) -> None:
    words = ["table", "drop", "d.t", "--yes"] if statement == "table" else ["catalog", "drop-database", "d"]
    cascade = [] if statement == "table" else ["--cascade"]
    group, *rest = words
    done = CliRunner().invoke(main, [group, "-o", "metastore=hive", "-o", f"uri={uri}", *rest, *cascade])
    if done.exit_code:
        raise CatalogError(done.output)


def _by_spark(uri: str, statement: str) -> None:
    handler = PlannerHandler()
    lake = CatalogRef(name="lake", options={"metastore": "hive", "uri": uri})
    try:
        if statement == "table":
            handler.dropTable(TableRef(catalog=lake, database="d", table="t"))
        else:
            handler.dropNamespace(lake, "d", True)
    finally:
        handler.close()


WAYS: dict[str, Callable[[str, str], None]] = {"python": _by_python, "command": _by_command, "spark": _by_spark}


def _files(location: str) -> set[Path]:
    return {path for path in Path(location).rglob("*") if path.is_file()}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("statement", ["table", "database"])
def test_a_refusal_is_raised_and_deletes_nothing(relay: Relay, table: interbed.Table, statement: str, way: str) -> None:
    before = _files(table.location)
    for refusal, (method, answer) in REFUSALS.items():
        relay.answer(method, answer, to="interbed.undrop")
        with pytest.raises(CatalogError, match=r"refused to"):
            WAYS[way](relay.uri, statement)
        assert _files(table.location) == before, refusal
        assert table.to_arrow().to_pylist() == [{"id": 1, "v": "a"}], refusal
    # The same statement is repeated.
    WAYS[way](relay.uri, statement)
    assert not Path(table.location).exists()


def test_a_table_that_the_metastore_does_not_know_is_not_deleted(relay: Relay, table: interbed.Table) -> None:
    before = _files(table.location)
    relay.answer(DROP, DropResult(o1=ttypes.NoSuchObjectException(message="d.t table not found")))
    with interbed.load_catalog("lake", metastore="hive", uri=relay.uri) as catalog, pytest.raises(TableNotFoundError):
        catalog.drop_table("d.t")
    assert _files(table.location) == before


def test_only_a_table_that_cannot_be_kept_is_deleted_by_the_client(
    server: MetastoreUnderTest, relay: Relay, table: interbed.Table
) -> None:
    kept = sorted((server.warehouse / ".dropped").glob("*"))
    relay.answer(DROP, DropResult(o3=ttypes.MetaException(message="d.t cannot be kept when it is dropped")))
    with interbed.load_catalog("lake", metastore="hive", uri=relay.uri) as catalog:
        catalog.drop_table("d.t")
    assert not Path(table.location).exists()
    assert sorted((server.warehouse / ".dropped").glob("*")) == kept


def test_a_metastore_without_configuration_keeps_nothing(relay: Relay, table: interbed.Table) -> None:
    unknown = TApplicationException(TApplicationException.UNKNOWN_METHOD, "Invalid method name")
    relay.answer(CONFIG, unknown, to="interbed.undrop")
    with interbed.load_catalog("lake", metastore="hive", uri=relay.uri) as catalog:
        catalog.drop_table("d.t")
        with pytest.raises(NotSupportedError, match="keeps no dropped tables"):
            catalog.undrop_table("d.t")
    assert not Path(table.location).exists()


def test_a_metastore_is_asked_once_for_each_connection(relay: Relay, table: interbed.Table) -> None:
    with interbed.load_catalog("lake", metastore="hive", uri=relay.uri) as catalog:
        catalog.drop_table("d.t")
        catalog.undrop_table("d.t")
        relay.answer(CONFIG, TApplicationException(TApplicationException.INTERNAL_ERROR), to="interbed.undrop")
        catalog.drop_table("d.t")
        catalog.undrop_table("d.t")
        assert relay.is_waiting
    assert table.to_arrow().num_rows == 1
