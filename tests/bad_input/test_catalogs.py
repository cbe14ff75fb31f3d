"""Invalid names, options and schemas, and unreachable servers."""

import socket
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import interbed
from interbed.catalog.client.errors import (
    CatalogError,
    CatalogUnavailableError,
    NotAnInterbedTableError,
    TableExistsError,
)
from interbed.catalog.client.hive.catalog import HiveCatalog
from interbed.storage.base.errors import (
    InvalidInputError,
    InvalidOptionError,
    NotSupportedError,
)
from interbed.storage.base.types.data_type import AtomicType, TypeRoot
from interbed.storage.meta.schema.change import AddColumn, SetOption
from tests.bad_input.tables import GOOD, SCHEMA, unchanged
from tests.support.servers.metastore import metastore
from tests.support.servers.metastore import table as hive_table


@pytest.mark.parametrize("name", ["", ".", "shop.", ".orders", "orders", "shop.a.b", "shop.a/b", "shop. a", "a\x00.b"])
def test_invalid_table_names_are_refused(catalog: interbed.Catalog, name: str) -> None:
    for call in (catalog.get_table, catalog.drop_table, lambda n: catalog.create_table(n, SCHEMA)):
        with pytest.raises(InvalidInputError, match="name"):
            call(name)
    assert catalog.list_tables("shop") == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bucket": "0"}, "bucket"),
        ({"bucket": "-7"}, "bucket"),
        ({"bucket": "two"}, "bucket.*two"),
        ({"write-buffer-size": "much"}, "write-buffer-size.*much"),
        ({"target-file-size": "-1 mb"}, "target-file-size"),
        ({"file.format": "csv"}, "file.format.*csv"),
        ({"file.compression": "best"}, "file.compression.*best"),
        ({"merge-engine": "magic"}, "merge-engine"),
        ({"bucket-key": "colour"}, "bucket-key|colour"),
        ({"sequence.field": "colour"}, "colour"),
        ({"write-only": "maybe"}, "write-only.*maybe"),
        ({"commit.max-retries": "often"}, "commit.max-retries.*often"),
        ({"num-sorted-run.compaction-trigger": "x"}, "num-sorted-run.compaction-trigger.*x"),
    ],
)
def test_invalid_options_are_named(
    catalog: interbed.Catalog, orders: interbed.Table, options: dict[str, str], message: str
) -> None:
    with pytest.raises((InvalidInputError, NotSupportedError), match=message):
        catalog.create_table("shop.t", SCHEMA, primary_keys=["id"], options={"bucket": "1"} | options)
    assert catalog.list_tables("shop") == ["orders"]
    with unchanged(orders), pytest.raises((InvalidInputError, NotSupportedError), match=message):
        catalog.alter_table("shop.orders", [SetOption(k, v) for k, v in options.items()])
    assert orders.scan().count() == 3


@pytest.mark.parametrize(
    ("schema", "keys", "message"),
    [
        (pa.schema([]), [], "column"),
        (pa.schema([("a", pa.int32()), ("a", pa.int32())]), [], "'a'"),
        (pa.schema([("_KEY_a", pa.int32())]), [], "_KEY_a"),
        (pa.schema([("_SEQUENCE_NUMBER", pa.int32())]), [], "_SEQUENCE_NUMBER"),
        (pa.schema([("a", pa.uint64())]), [], "uint64"),
        (pa.schema([("a", pa.float16())]), [], "halffloat"),
        (pa.schema([("a", pa.decimal256(50, 2))]), [], r"decimal256\(50, 2\)"),
        (pa.schema([("a", pa.list_(pa.decimal256(50, 2)))]), [], r"decimal256\(50, 2\)"),
        (pa.schema([("a", pa.list_(pa.int32()))]), ["a"], "a"),
        (pa.schema([("a", pa.int32())]), ["b"], "'?b'?"),
        (pa.schema([("a", pa.int32())]), ["a", "a"], "a"),
    ],
)
def test_invalid_schemas_are_named(catalog: interbed.Catalog, schema: pa.Schema, keys: list[str], message: str) -> None:
    with pytest.raises((InvalidInputError, NotSupportedError), match=message):
        catalog.create_table("shop.t", schema, primary_keys=keys or None, options={"bucket": "1" if keys else "-1"})
    assert catalog.list_tables("shop") == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"warehouse": ""}, "warehouse"),
        ({"lock.enabled": "maybe", "metastore": "hive", "uri": "thrift://127.0.0.1:1"}, "lock.enabled.*maybe"),
        ({"lock-acquire-timeout": "soon", "metastore": "hive", "uri": "thrift://127.0.0.1:1"}, "lock-acquire-timeout"),
        ({"client-timeout": "-", "metastore": "hive", "uri": "thrift://127.0.0.1:1"}, "client-timeout"),
        ({"metastore": "hive", "uri": "127.0.0.1:port"}, "127.0.0.1:port"),
        ({"metastore": "hive", "hive-conf-dir": "/no/such/directory"}, "/no/such/directory"),
        ({"metastore": "jdbc"}, "metastore.*jdbc"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_invalid_options_of_catalogs_are_named(tmp_path: Path, options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidOptionError, match=message):
        interbed.CatalogFactory.create({"warehouse": str(tmp_path / "lake")} | options)
    assert list(tmp_path.iterdir()) == []


def test_an_unreachable_server_is_named(tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        uri = f"thrift://127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(CatalogUnavailableError, match=uri):
            interbed.load_catalog(metastore="hive", uri=uri, warehouse=f"file:{tmp_path}/lake")


def test_a_server_that_stops_is_named_and_the_table_is_unchanged(tmp_path: Path) -> None:
    with metastore() as uri:
        catalog = interbed.load_catalog(metastore="hive", uri=uri, warehouse=f"file:{tmp_path}/lake")
        catalog.create_database("shop")
        table = catalog.create_table("shop.orders", SCHEMA, primary_keys=["id"], options={"bucket": "1"})
        table.upsert(GOOD)
    with unchanged(table), pytest.raises(CatalogUnavailableError, match=uri):
        table.upsert(GOOD)
    with unchanged(table), pytest.raises(CatalogUnavailableError, match=uri):
        catalog.drop_table("shop.orders")
    # Reading needs only the files.
    assert table.scan().count() == 3
    with pytest.raises(CatalogUnavailableError, match=uri):
        catalog.list_databases()
    catalog.close()


def test_a_metastore_table_of_another_format_is_named_and_unchanged(tmp_path: Path) -> None:
    with metastore() as uri, interbed.load_catalog(metastore="hive", uri=uri) as catalog:
        assert isinstance(catalog, HiveCatalog)
        catalog.create_database("shop")
        catalog.client.create_table(hive_table("shop", "foreign"))
        before = catalog.client.get_table("shop", "foreign")
        calls: list[Callable[[], object]] = [
            lambda: catalog.get_table("shop.foreign"),
            lambda: catalog.drop_table("shop.foreign"),
            lambda: catalog.rename_table("shop.foreign", "shop.other"),
            lambda: catalog.alter_table("shop.foreign", AddColumn("a", AtomicType(TypeRoot.INT))),
            lambda: catalog.table_exists("shop.foreign"),
        ]
        for call in calls:
            with pytest.raises(NotAnInterbedTableError, match=r"shop\.foreign.*org\.example\.Input"):
                call()
        with pytest.raises(TableExistsError, match=r"shop\.foreign"):
            catalog.create_table("shop.foreign", SCHEMA)
        assert catalog.list_tables("shop") == []
        assert catalog.client.get_table("shop", "foreign") == before
        with pytest.raises(CatalogError, match=r"shop"):
            catalog.drop_database("shop")
