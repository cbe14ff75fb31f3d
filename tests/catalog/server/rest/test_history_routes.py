"""The history of metadata by REST, and tables put back to an older entry."""

import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from interbed.catalog.client.hive.client import HiveMetastoreClient
from interbed.catalog.server.service.history.shown import moment_of, moment_text
from interbed.thrift_idl.hive_metastore import ttypes
from tests.catalog.server.rest.test_dropped_routes import call
from tests.support.servers.metastore import (
    MetastoreUnderTest,
    lock_component,
    lock_request,
    metastore_under_test,
    table,
)
from tests.support.waits import at_most, wait_until

ORDERS = "databases/shop/tables/orders"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MetastoreUnderTest]:
    """Run a server with all interfaces."""
    directory = tmp_path_factory.mktemp("history-rest")
    with metastore_under_test(f"sqlite:///{directory / 'metastore.db'}", directory, "--http-port", "0") as running:
        yield running


@pytest.fixture
def client(server: MetastoreUnderTest) -> Iterator[HiveMetastoreClient]:
    """Connect to the server, with the table `shop.orders`, whose parameter `a` was 1 and is 2."""
    with HiveMetastoreClient(server.uri, timeout_seconds=at_most(30)) as opened:
        opened.create_database(ttypes.Database(name="shop"))
        opened.create_table(table("shop", "orders", parameters={"a": "1", "api.token": "old"}))
        # The changes are of different milliseconds.
        created = time.time()
        wait_until(lambda: time.time() > created + 0.001)
        entry = opened.get_table("shop", "orders")
        entry.parameters = {**entry.parameters, "a": "2", "api.token": "new"}
        opened.alter_table("shop", "orders", entry)
        yield opened
        opened.drop_database("shop", cascade=True)


def _get(server: MetastoreUnderTest, path: str) -> Any:
    status, body = call(server, path, method="GET")
    assert status == 200, body
    return body


def _created(server: MetastoreUnderTest) -> str:
    """Return the time of the creation of the table."""
    (made,) = [each for each in _get(server, f"{ORDERS}/history")["changes"] if each["change"] == "CREATE_TABLE"]
    return str(made["time"])


def test_changes_are_listed_without_secrets(server: MetastoreUnderTest, client: HiveMetastoreClient) -> None:
    found = _get(server, f"{ORDERS}/history")
    first, second = found["changes"]
    assert (first["change"], second["change"], second["interface"]) == ("CREATE_TABLE", "ALTER_TABLE", "thrift")
    assert [each["after"]["parameters"]["a"] for each in (first, second)] == ["1", "2"]
    assert second["before"]["parameters"]["api.token"] == "******"
    assert found["id"] == second["object_id"]
    assert _get(server, f"{ORDERS}/history?limit=1")["changes"] == [second]
    assert _get(server, f"{ORDERS}/history?before={second['id']}")["changes"] == [first]
    assert _get(server, f"databases/shop/history?limit=1&before={second['id']}")["changes"] == [first]
    assert second in _get(server, "databases/shop/history")["changes"]
    # That is the present entry, which the metastore has with its secrets.
    now = _get(server, f"{ORDERS}/entry?at=4000000000")["table"]
    assert (now["parameters"]["a"], now["parameters"]["api.token"]) == ("2", "******")


def test_a_table_gets_an_older_entry(server: MetastoreUnderTest, client: HiveMetastoreClient) -> None:
    moment = _created(server)
    shown = _get(server, f"{ORDERS}/entry?at={quote(moment)}")["table"]
    assert shown["parameters"]["a"] == "1"
    status, checked = call(server, f"{ORDERS}/restore", {"at": moment, "dry-run": True})
    assert (status, checked["table"]["parameters"]["a"], checked["kept"]) == (200, "1", ["api.token"])
    assert client.get_table("shop", "orders").parameters["a"] == "2"
    assert "new" not in str(checked)
    status, plan = call(server, f"{ORDERS}/restore", {"at": moment})
    assert (status, plan["kept"], plan["missing"]) == (200, ["api.token"], [])
    parameters = client.get_table("shop", "orders").parameters
    assert (parameters["a"], parameters["api.token"]) == ("1", "new")
    last = _get(server, f"{ORDERS}/history")["changes"][-1]
    assert (last["interface"], last["operation"]) == ("interbed", "restoreTable")


def test_a_renamed_table_is_found_by_its_older_name(server: MetastoreUnderTest, client: HiveMetastoreClient) -> None:
    entry = client.get_table("shop", "orders")
    entry.tableName = "renamed"
    client.alter_table("shop", "orders", entry)
    moment = _get(server, "databases/shop/tables/renamed/history")["changes"][-1]["time"]
    assert _get(server, f"{ORDERS}/entry?at={quote(moment)}")["table"]["name"] == "renamed"


def test_a_locked_table_is_not_restored(server: MetastoreUnderTest, client: HiveMetastoreClient) -> None:
    moment = _created(server)
    lock = client.lock(lock_request(lock_component(ttypes.LockType.EXCLUSIVE, "shop", "orders")))
    status, error = call(server, f"{ORDERS}/restore", {"at": moment})
    assert (status, error["type"]) == (409, "TableLocked")
    client.unlock(lock.lockid)


@pytest.mark.parametrize(
    ("path", "body", "status", "kind"),
    [
        ("databases/shop/tables/none/history", None, 404, "NoSuchObject"),
        (f"{ORDERS}/history?limit=0", None, 400, "BadRequest"),
        (f"{ORDERS}/history?id=1", None, 404, "NoSuchObject"),
        (f"{ORDERS}/entry?at=yesterday", None, 400, "BadRequest"),
        (f"{ORDERS}/entry?at=1", None, 409, "InvalidOperation"),
        (f"{ORDERS}/restore", {}, 400, "BadRequestException"),
        (f"{ORDERS}/restore", {"at": "inf"}, 400, "BadRequest"),
        (f"{ORDERS}/restore", {"at": 1}, 409, "InvalidOperation"),
        (f"{ORDERS}/restore", {"at": 1, "to": 2}, 400, "BadRequestException"),
    ],
    ids=lambda value: str(value) if isinstance(value, str | int) else None,
)
def test_a_wrong_request_is_refused(
    server: MetastoreUnderTest, client: HiveMetastoreClient, path: str, body: Any, status: int, kind: str
) -> None:
    found, error = call(server, path, body, "GET" if body is None else "POST")
    assert (found, error["type"]) == (status, kind)


def test_an_unknown_catalog_is_refused(server: MetastoreUnderTest, client: HiveMetastoreClient) -> None:
    for path in ("dropped", f"{ORDERS}/history"):
        status, error = call(server, path, method="GET", catalog="none")
        assert (status, error["type"]) == (404, "NoSuchObject")
    assert call(server, "dropped", method="GET", catalog="HIVE")[0] == 200


@pytest.mark.parametrize("text", ["nan", "-1", "1e300", "inf", "9999-99-99", "", "300000000000"])
def test_an_impossible_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        moment_of(text)


def test_a_time_is_read_as_it_is_shown() -> None:
    for text in ("2026-11-29T12:00:00.250Z", "1970-01-01T00:00:00.000Z"):
        assert moment_text(moment_of(text)) == text
    assert moment_of("2026-11-29T12:00:00") == moment_of("2026-11-29T13:00:00+01:00") == moment_of("1795953600")
