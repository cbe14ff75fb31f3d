"""`interbed metastore history | restore` beside a running server, whose clients use all of its interfaces."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog as IcebergCatalog
from pyiceberg.catalog import load_catalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

import interbed
from interbed.catalog.client.hive.client import HiveMetastoreClient
from interbed.catalog.client.hive.connection import current_user
from interbed.thrift_idl.hive_metastore import ttypes
from tests.catalog.server.migration.commands import run, run_json
from tests.support.servers.metastore import MetastoreUnderTest, table
from tests.support.servers.paimon_rest import rest_options
from tests.support.waits import at_most, past_millisecond

ROWS = pa.table({"id": [1, 2], "v": ["a", "b"]})
COLUMNS = pa.schema((pa.field("id", pa.int64()), pa.field("v", pa.string())))
SERVER_ARGUMENTS = ("--http-port", "0")


@pytest.fixture
def client(server: MetastoreUnderTest) -> Iterator[HiveMetastoreClient]:
    """Connect to the server as the user ann, with the empty database `shop`."""
    with HiveMetastoreClient(server.uri, timeout_seconds=at_most(30)) as opened:
        opened.create_database(ttypes.Database(name="shop"))
        yield opened
        opened.drop_database("shop", cascade=True)


@pytest.fixture
def iceberg(server: MetastoreUnderTest, client: HiveMetastoreClient) -> Iterator[IcebergCatalog]:
    """Connect pyiceberg by REST."""
    with load_catalog("rest", type="rest", uri=f"{server.http}/iceberg") as catalog:
        yield catalog


def where(server: MetastoreUnderTest) -> list[str]:
    """Return the options of the server's database and warehouse."""
    return ["--db", server.db, "--warehouse", f"file:{server.warehouse}"]


def history(server: MetastoreUnderTest, name: str, *options: str) -> list[dict[str, Any]]:
    """Return the changes of a table."""
    found: list[dict[str, Any]] = run_json("history", name, *options, *where(server))
    return found


def now() -> str:
    """Return the time as the command takes it, after all changes so far and before the next one."""
    return datetime.fromtimestamp(past_millisecond() / 1000, UTC).isoformat(timespec="milliseconds")


def test_changes_of_each_interface_have_their_origin(
    server: MetastoreUnderTest, client: HiveMetastoreClient, iceberg: IcebergCatalog
) -> None:
    client.create_table(table("shop", "orders"))
    iceberg.create_table("shop.ice", schema=pa.schema([("id", pa.int64())]))
    with interbed.load_catalog("rest", **rest_options(f"{server.http}/paimon", "hive")) as by_paimon:
        by_paimon.create_table("shop.pai", pa.schema([("id", pa.int64())]))
    client.drop_table("shop", "orders", delete_data=True)
    run("undrop", "shop.orders", *where(server))
    created, dropped, undropped = history(server, "shop.orders")
    assert (created["interface"], created["operation"]) == ("thrift", "create_table")
    assert dropped["change"] == "DROP_TABLE"
    assert dropped["before"]["name"] == "orders"
    assert (undropped["interface"], undropped["operation"], undropped["principal"]) == (
        "command",
        "undrop",
        current_user(),
    )
    (ice,) = history(server, "shop.ice")
    assert (ice["interface"], ice["operation"]) == ("iceberg", "createTable")
    (pai,) = history(server, "shop.pai")
    assert (pai["interface"], pai["operation"]) == ("paimon", "createTable")
    assert len({each["request_id"] for each in (created, ice, pai)}) == 3
    shown = run("history", "--database", "shop", *where(server))
    assert "thrift.create_table" in shown
    assert "iceberg.createTable" in shown
    everything = run_json("history", "--database", "shop", "--at", now(), *where(server))
    assert [(each["kind"], each["name"]) for each in everything] == [
        ("database", "shop"),
        ("table", "ice"),
        ("table", "orders"),
        ("table", "pai"),
    ]


def test_an_iceberg_table_gets_its_older_snapshot_and_schema_back(
    server: MetastoreUnderTest, iceberg: IcebergCatalog
) -> None:
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "v", StringType()))
    made = iceberg.create_table("shop.ice", schema=schema)
    made.append(ROWS)
    moment = now()
    with made.update_schema() as update:
        update.add_column("w", LongType())
    made.delete("id = 1")
    iceberg.rename_table("shop.ice", "shop.other")
    assert iceberg.load_table("shop.other").scan().to_arrow().num_rows == 1
    assert "has its entry of" in run("restore", "shop.other", "--at", moment, *where(server))
    back = iceberg.load_table("shop.other")
    assert sorted(back.scan().to_arrow().to_pylist(), key=str) == ROWS.to_pylist()
    assert back.schema().column_names == ["id", "v"]
    back.append(ROWS)
    assert iceberg.load_table("shop.other").scan().to_arrow().num_rows == 4
    changes = history(server, "shop.other")
    assert changes[-2]["operation"] == "restore"
    assert changes[-1]["operation"] == "updateTable"
    (then,) = [each for each in changes if each["operation"] == "createTable"]
    assert then["after"]["name"] == "ice"


@pytest.mark.parametrize("missing", ["metadata", "snap"])
def test_an_iceberg_table_whose_files_were_expired_is_not_restored(
    server: MetastoreUnderTest, iceberg: IcebergCatalog, missing: str
) -> None:
    made = iceberg.create_table("shop.ice", schema=COLUMNS)
    made.append(ROWS)
    moment = now()
    manifest_list = Path(str(made.current_snapshot().manifest_list).removeprefix("file:"))  # type: ignore[union-attr]
    metadata = Path(made.metadata_location.removeprefix("file:"))
    made.append(ROWS)
    (metadata if missing == "metadata" else manifest_list).unlink()
    refused = run("restore", "shop.ice", "--at", moment, *where(server), code=1)
    shown = {"metadata": "the metadata file file:", "snap": "its manifest list file:"}
    assert shown[missing] in " ".join(refused.split())
    assert iceberg.load_table("shop.ice").metadata_location == made.metadata_location


def test_a_table_has_its_columns_back(server: MetastoreUnderTest, client: HiveMetastoreClient) -> None:
    client.create_table(table("shop", "orders", ("id", "int"), ("v", "string"), parameters={"a": "1"}))
    moment = now()
    changed = client.get_table("shop", "orders")
    changed.sd.cols = changed.sd.cols[:1]
    changed.parameters["a"] = "2"
    client.alter_table("shop", "orders", changed)
    shown = run("history", "shop.orders", *where(server))
    (what,) = [line.split("  ")[-1].split(", ") for line in shown.splitlines() if "alter_table" in line]
    assert {"columns", "a"} <= set(what)
    before = run_json("history", "shop.orders", "--at", moment, *where(server))
    assert [column["name"] for column in before["storage"]["columns"]] == ["id", "v"]
    preview = run("restore", "shop.orders", "--at", moment, "--dry-run", *where(server))
    assert '"a": "1"' in preview
    assert client.get_table("shop", "orders").parameters["a"] == "2"
    run("restore", "shop.orders", "--at", moment, *where(server))
    after = client.get_table("shop", "orders")
    assert ([column.name for column in after.sd.cols], after.parameters["a"]) == (["id", "v"], "1")


def test_wrong_arguments_are_refused(server: MetastoreUnderTest, client: HiveMetastoreClient) -> None:
    for arguments in (["shop"], [], ["shop.orders", "--database", "shop"], ["shop.orders", "--at", "yesterday"]):
        run("history", *arguments, *where(server), code=2)
    assert "the history has no table shop.none" in run("history", "shop.none", *where(server), code=1)
    assert "the history has the changes since" in run("history", "shop.none", "--at", "1000", *where(server), code=1)
    client.create_table(table("shop", "orders"))
    client.drop_table("shop", "orders", delete_data=True)
    client.create_table(table("shop", "orders"))
    first = history(server, "shop.orders")
    assert len(first) == 1
    everything = run_json("history", "--database", "shop", *where(server))
    other = [each["object_id"] for each in everything if each["change"] == "DROP_TABLE"][-1]
    assert [each["change"] for each in history(server, "shop.orders", "--id", str(other))] == [
        "CREATE_TABLE",
        "DROP_TABLE",
    ]
