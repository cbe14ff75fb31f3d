"""`interbed metastore dropped | undrop | purge` beside a running server, whose clients drop by Thrift."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from interbed.catalog.client.hive.client import HiveMetastoreClient
from interbed.thrift_idl.hive_metastore import ttypes
from tests.catalog.server.migration.commands import run, run_json
from tests.support.servers.metastore import MetastoreUnderTest, table
from tests.support.waits import at_most


@pytest.fixture
def client(server: MetastoreUnderTest) -> Iterator[HiveMetastoreClient]:
    """Connect to the server, with the table `shop.orders`."""
    with HiveMetastoreClient(server.uri, timeout_seconds=at_most(30)) as opened:
        opened.create_database(ttypes.Database(name="shop"))
        opened.create_table(table("shop", "orders"))
        (server.warehouse / "shop.db" / "orders" / "part-0").write_text("data")
        yield opened
        opened.drop_database("shop", cascade=True)
    run("purge", "--all", *where(server))


def where(server: MetastoreUnderTest) -> list[str]:
    """Return the options of the server's database and warehouse."""
    return ["--db", server.db, "--warehouse", f"file:{server.warehouse}"]


def test_a_table_dropped_by_a_client_is_listed_and_put_back(
    server: MetastoreUnderTest, client: HiveMetastoreClient
) -> None:
    before = client.get_table("shop", "orders")
    client.drop_table("shop", "orders", delete_data=True)
    assert client.get_all_tables("shop") == []
    (entry,) = run_json("dropped", "--database", "shop", *where(server))
    assert (entry["database"], entry["name"], entry["kind"], entry["state"]) == ("shop", "orders", "table", "dropped")
    assert entry["expires_at"] - entry["dropped_at"] == 7 * 86400
    assert "shop.orders" in run("dropped", *where(server))
    assert "table shop.orders is back" in run("undrop", "shop.orders", *where(server))
    assert client.get_table("shop", "orders") == before
    assert (server.warehouse / "shop.db" / "orders" / "part-0").read_text() == "data"
    assert "No dropped objects." in run("dropped", *where(server))


def test_a_taken_name_is_refused_and_another_one_accepted(
    server: MetastoreUnderTest, client: HiveMetastoreClient
) -> None:
    client.drop_table("shop", "orders", delete_data=True)
    client.create_table(table("shop", "orders"))
    assert "--as" in run("undrop", "shop.orders", *where(server), code=1)
    assert "no dropped object shop.never" in run("undrop", "shop.never", *where(server), code=1)
    run("undrop", "shop.orders", "--as", "old_orders", *where(server))
    assert client.get_all_tables("shop") == ["old_orders", "orders"]
    assert (server.warehouse / "shop.db" / "old_orders" / "part-0").read_text() == "data"


def test_a_database_is_put_back_with_its_tables(server: MetastoreUnderTest, client: HiveMetastoreClient) -> None:
    client.drop_database("shop", cascade=True)
    assert not (server.warehouse / "shop.db").exists()
    assert "create it" in run("undrop", "shop.orders", *where(server), code=1)
    run("undrop", "shop", *where(server))
    assert client.get_all_tables("shop") == ["orders"]
    assert (server.warehouse / "shop.db" / "orders" / "part-0").read_text() == "data"


def test_a_purged_table_is_gone(server: MetastoreUnderTest, client: HiveMetastoreClient) -> None:
    client.drop_table("shop", "orders", delete_data=True)
    (entry,) = run_json("dropped", *where(server))
    place = Path(entry["present_location"].removeprefix("file:"))
    assert (place / "part-0").exists()
    assert "give a name" in run("purge", *where(server), code=2)
    assert "purged 1" in run("purge", "shop.orders", "--id", str(entry["id"]), *where(server))
    assert not place.exists()
    assert run_json("dropped", *where(server)) == []


def test_a_drop_with_purge_keeps_nothing(server: MetastoreUnderTest, client: HiveMetastoreClient) -> None:
    client.drop_table("shop", "orders", delete_data=True, properties={"ifPurge": "TRUE"})
    assert run_json("dropped", *where(server)) == []
    assert not (server.warehouse / "shop.db" / "orders").exists()


def test_a_database_that_does_not_exist_is_not_created(tmp_path: Path) -> None:
    file = tmp_path / "missing.db"
    assert "there is no database" in run("dropped", "--db", f"sqlite:///{file}", code=1)
    assert not file.exists()
