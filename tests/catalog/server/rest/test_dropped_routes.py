"""Dropped objects listed and put back by REST and by Thrift, past the command line."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

import interbed
from interbed.catalog.client.errors import TableExistsError, TableNotFoundError
from interbed.catalog.client.hive.client import HiveMetastoreClient
from interbed.thrift_idl.hive_metastore import ttypes
from tests.support.servers.metastore import MetastoreUnderTest, table
from tests.support.waits import at_most

SERVER_ARGUMENTS = ("--http-port", "0")


@pytest.fixture
def client(server: MetastoreUnderTest) -> Iterator[HiveMetastoreClient]:
    """Connect to the server, with the dropped table `shop.orders`, which has a file."""
    with HiveMetastoreClient(server.uri, timeout_seconds=at_most(30)) as opened:
        opened.create_database(ttypes.Database(name="shop"))
        opened.create_table(table("shop", "orders"))
        (server.warehouse / "shop.db" / "orders" / "part-0").write_text("data")
        opened.drop_table("shop", "orders", delete_data=True)
        yield opened
        opened.drop_database("shop", cascade=True)


def call(
    server: MetastoreUnderTest, path: str, body: Any = None, method: str = "POST", catalog: str = "hive"
) -> tuple[int, Any]:
    """Return status and body of the response for a path of a catalog."""
    content = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{server.http}/interbed/v1/{catalog}/{path}", content, method=method)
    try:
        with urllib.request.urlopen(request, timeout=at_most(60)) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)["error"]


def test_a_table_is_listed_and_put_back_by_rest(server: MetastoreUnderTest, client: HiveMetastoreClient) -> None:
    status, listed = call(server, "dropped?database=shop", method="GET")
    (entry, *_) = listed["dropped"]
    assert (status, entry["database"], entry["name"], entry["kind"]) == (200, "shop", "orders", "table")
    answer = call(server, "databases/shop/tables/orders/undrop", {"id": entry["id"]})
    location = client.get_table("shop", "orders").sd.location
    assert answer == (200, {"kind": "table", "database": "shop", "name": "orders", "location": location})
    assert (server.warehouse / "shop.db" / "orders" / "part-0").read_text() == "data"


def test_a_table_gets_another_name_and_a_taken_one_is_refused(
    server: MetastoreUnderTest, client: HiveMetastoreClient
) -> None:
    client.create_table(table("shop", "orders"))
    status, error = call(server, "databases/shop/tables/orders/undrop")
    assert (status, error["type"], error["code"]) == (409, "AlreadyExists", 409)
    assert call(server, "databases/shop/tables/orders/undrop", {"as": "old"})[0] == 200
    assert client.get_all_tables("shop") == ["old", "orders"]


def test_a_database_is_put_back_with_its_tables(server: MetastoreUnderTest, client: HiveMetastoreClient) -> None:
    client.create_table(table("shop", "items"))
    client.drop_database("shop", cascade=True)
    assert call(server, "databases/shop/undrop", {})[0] == 200
    assert client.get_all_tables("shop") == ["items"]


def test_a_dropped_table_is_purged_once(server: MetastoreUnderTest, client: HiveMetastoreClient) -> None:
    entries = call(server, "dropped?database=shop", method="GET")[1]["dropped"]
    [entry] = [each for each in entries if each["name"] == "orders"][:1]
    expected = {"kind": "table", "database": "shop", "name": "orders", "purged": True}
    assert call(server, "databases/shop/tables/orders/purge", {"id": entry["id"]}) == (200, expected)
    left = [each["id"] for each in call(server, "dropped?database=shop", method="GET")[1]["dropped"]]
    assert entry["id"] not in left
    assert call(server, "databases/shop/tables/orders/purge", {"id": entry["id"]})[0] == 404
    assert client.get_all_tables("shop") == []


@pytest.mark.parametrize(
    ("path", "body", "status", "kind"),
    [
        ("databases/shop/tables/none/undrop", {}, 404, "NoSuchObject"),
        ("databases/shop/tables/none/purge", {}, 404, "NoSuchObject"),
        ("databases/shop/purge", {"id": 10**6}, 404, "NoSuchObject"),
        ("databases/shop/tables/orders/purge", {"as": "x"}, 400, "BadRequestException"),
        ("databases/shop/tables/orders/undrop", {"id": -1}, 404, "NoSuchObject"),
        ("databases/shop/tables/orders/undrop", {"name": "x"}, 400, "BadRequestException"),
        ("databases/shop/tables/orders/undrop", {"as": "a.b"}, 400, "InvalidObject"),
        ("databases/shop/tables/orders", {}, 404, "NoSuchRoute"),
    ],
)
def test_a_wrong_request_is_refused(
    server: MetastoreUnderTest, client: HiveMetastoreClient, path: str, body: Any, status: int, kind: str
) -> None:
    found, error = call(server, path, body)
    assert (found, error["type"]) == (status, kind)
    assert client.get_all_tables("shop") == []


def test_a_catalog_puts_a_table_back_by_thrift(server: MetastoreUnderTest, client: HiveMetastoreClient) -> None:
    with interbed.load_catalog("lake", metastore="hive", uri=server.uri) as catalog:
        catalog.undrop_table("shop.orders")
        assert (server.warehouse / "shop.db" / "orders" / "part-0").read_text() == "data"
        client.drop_table("shop", "orders", delete_data=True)
        catalog.undrop_table("shop.orders", new_name="old")
        assert client.get_all_tables("shop") == ["old"]
        client.drop_table("shop", "old", delete_data=True)
        client.create_table(table("shop", "old"))
        with pytest.raises(TableExistsError, match=r"Table shop\.old already exists"):
            catalog.undrop_table("shop.old")
        with pytest.raises(TableNotFoundError, match=r"there is no dropped object shop\.none"):
            catalog.undrop_table("shop.none")
