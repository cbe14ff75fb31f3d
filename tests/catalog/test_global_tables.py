"""System tables of a whole catalog, on the file system and on our server."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import interbed
from interbed.catalog.client.api import Catalog
from interbed.catalog.client.errors import TableNotFoundError
from interbed.storage.base.errors import NotSupportedError
from interbed.storage.base.shown_text import masked
from tests.support.servers.metastore import metastore

SECRETS = {"s3.access-key": "AKIA0123456789", "s3.secret-key": "of the house", "fs.azure.sas.token": "x"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with metastore(warehouse=f"file:{tmp_path_factory.mktemp('unused')}") as uri:
        yield uri


@pytest.fixture(params=["filesystem", "server"])
def catalog(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Catalog]:
    """Open a catalog with a partitioned table of three rows, and an empty table with a primary key."""
    options: dict[str, object] = {"warehouse": f"file:{tmp_path}/lake", **SECRETS}
    if request.param == "server":
        options |= {"metastore": "hive", "uri": request.getfixturevalue("server")}
    with interbed.load_catalog("lake", **options) as opened:
        opened.create_database("shop")
        rows = pa.table({"id": [1, 2, 3], "dt": ["x", "x", "y"]})
        sales = opened.create_table("shop.sales", rows.schema, partition_keys=["dt"], options={"owner": "ada"})
        sales.append(rows)
        opened.create_table("shop.users", rows.schema, primary_keys=["id"], options={"bucket": "1"})
        yield opened
        opened.drop_database("shop", cascade=True)


def test_the_tables_system_table_has_all_tables_with_their_statistics(catalog: Catalog) -> None:
    columns = ["database_name", "table_name", "table_type", "partitioned", "primary_key", "owner", "record_count"]
    shown = catalog.get_table("sys.tables").scan([*columns, "file_count"]).to_arrow()

    assert [tuple(row.values()) for row in shown.to_pylist()] == [
        ("shop", "sales", "table", True, False, "ada", 3, 2),
        ("shop", "users", "table", False, True, None, None, None),
    ]


def test_the_partitions_system_table_has_all_partitions(catalog: Catalog) -> None:
    shown = catalog.get_table("sys.partitions").scan(["table_name", "partition_name", "record_count"], "done = false")

    assert [tuple(row.values()) for row in shown.to_arrow().to_pylist()] == [("sales", "dt=x", 2), ("sales", "dt=y", 1)]


def test_the_all_table_options_system_table_has_the_options_of_all_tables(catalog: Catalog) -> None:
    shown = catalog.get_table("sys.all_table_options").scan(filter="key = 'bucket'").to_arrow()

    assert shown.to_pylist() == [{"database_name": "shop", "table_name": "users", "key": "bucket", "value": "1"}]


def test_the_table_health_system_table_has_the_health_of_all_tables(catalog: Catalog) -> None:
    sales = catalog.get_table("shop.sales")
    sales.append(pa.table({"id": [4], "dt": ["x"]}))
    health = sales.maintenance.health()
    shown = catalog.get_table("sys.table_health").scan().to_arrow().to_pylist()

    assert [(row["table_name"], row["score"], row["snapshot_id"]) for row in shown] == [
        ("sales", health.score, 2),
        ("users", 100, None),
    ]
    assert shown[0]["score"] < 100
    assert shown[0]["reasons"] == "; ".join(map(str, health.reasons))
    assert (shown[0]["files"], shown[0]["runs_max"], shown[0]["last_commit"]) == (3, 1, health.newest_millis)
    assert shown[1]["reasons"] == ""
    named = catalog.get_table("sys.table_health").scan(["table_name"], "score < 100").to_arrow()
    assert named.to_pylist() == [{"table_name": "sales"}]


def test_the_catalog_options_system_table_masks_secrets(catalog: Catalog) -> None:
    shown = {row["key"]: row["value"] for row in catalog.get_table("sys.catalog_options").scan().to_arrow().to_pylist()}

    assert shown["warehouse"] == catalog.options.warehouse
    assert {key: shown[key] for key in SECRETS} == {
        "s3.access-key": "******6789",
        "s3.secret-key": "******",
        "fs.azure.sas.token": "******",
    }


def test_a_password_in_an_address_is_masked() -> None:
    assert masked("uri", "thrift://ada:lovelace@host:9083") == "thrift://******@host:9083"
    assert masked("optimizer.db", "postgresql://ada:lovelace@db/metastore") == "postgresql://******@db/metastore"
    assert masked("path", "s3://bucket/a@b:c") == "s3://bucket/a@b:c"


def test_the_catalog_options_system_table_can_be_disabled(tmp_path: Path) -> None:
    with interbed.load_catalog("lake", warehouse=tmp_path, **{"catalog-options-table.enabled": "false"}) as hidden:
        names = ["all_table_options", "optimizing_processes", "partitions", "table_health", "tables"]
        assert hidden.list_tables("sys") == names
        with pytest.raises(TableNotFoundError, match=f"there are {', '.join(names)}"):
            hidden.get_table("sys.catalog_options")


def test_the_system_database_can_be_read_but_not_changed(catalog: Catalog) -> None:
    assert "sys" not in catalog.list_databases()
    assert catalog.get_database("sys").name == "sys"
    assert catalog.list_tables("sys") == [
        "all_table_options",
        "catalog_options",
        "optimizing_processes",
        "partitions",
        "table_health",
        "tables",
    ]
    assert catalog.table_exists("sys.TABLES")
    assert not catalog.table_exists("sys.nothing")
    for change in (
        lambda: catalog.create_database("sys", ignore_if_exists=True),
        lambda: catalog.drop_database("sys", ignore_if_not_exists=True),
        lambda: catalog.alter_database("sys", {"a": "b"}),
        lambda: catalog.create_table("sys.mine", pa.schema([("id", pa.int64())])),
        lambda: catalog.drop_table("sys.tables"),
        lambda: catalog.rename_table("shop.users", "sys.users"),
    ):
        with pytest.raises(NotSupportedError, match="sys"):
            change()
