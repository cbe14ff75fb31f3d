"""The metastore client and the lock of a table over a real server: errors, broken connections, several addresses."""

import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from interbed.catalog.client.errors import (
    CatalogError,
    CatalogUnavailableError,
    DatabaseExistsError,
    DatabaseNotEmptyError,
    DatabaseNotFoundError,
    LockError,
    TableExistsError,
    TableModifiedError,
    TableNotFoundError,
)
from interbed.catalog.client.hive.client import HiveMetastoreClient
from interbed.catalog.client.hive.connection import CallStateUnknownError, parse_uri
from interbed.catalog.client.hive.lock import CHECK_FAILURES_MAX, HiveCatalogLock
from interbed.catalog.server.process.command import metastore
from interbed.storage.base.errors import InvalidOptionError
from interbed.thrift_idl.hive_metastore import ttypes
from tests.support.servers.metastore import (
    MetastoreUnderTest,
    lock_component,
    lock_request,
    metastore_under_test,
    table,
)
from tests.support.servers.relay import Relay
from tests.support.waits import at_most


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MetastoreUnderTest]:
    """Run a server on SQLite."""
    directory = tmp_path_factory.mktemp("server")
    with metastore_under_test(f"sqlite:///{directory / 'metastore.db'}", directory) as running:
        yield running


@pytest.fixture
def client(server: MetastoreUnderTest) -> Iterator[HiveMetastoreClient]:
    """Connect a client to it, and create an empty database `work`."""
    with HiveMetastoreClient(server.uri, timeout_seconds=at_most(30)) as open_client:
        open_client.create_database(ttypes.Database(name="work"))
        yield open_client
        open_client.drop_database("work", cascade=True)


def test_an_embedded_server_runs_for_the_length_of_a_block() -> None:
    with metastore() as uri, HiveMetastoreClient(uri) as client:
        assert client.get_all_databases() == ["default"]
        warehouse = Path(client.get_database("default").locationUri.removeprefix("file:"))
        assert warehouse.is_dir()
    assert not warehouse.exists()
    with HiveMetastoreClient(uri) as client, pytest.raises(CatalogUnavailableError, match=uri):
        client.get_all_databases()


def test_errors_are_interbed_errors_and_name_the_object(
    server: MetastoreUnderTest, client: HiveMetastoreClient
) -> None:
    client.create_table(table("work", "t"))
    with pytest.raises(DatabaseExistsError, match="work"):
        client.create_database(ttypes.Database(name="work"))
    with pytest.raises(DatabaseNotFoundError, match="nowhere"):
        client.get_database("nowhere")
    with pytest.raises(DatabaseNotFoundError, match="nowhere"):
        client.alter_database("nowhere", ttypes.Database(name="nowhere"))
    with pytest.raises(DatabaseNotFoundError, match="nowhere"):
        client.drop_database("nowhere")
    with pytest.raises(DatabaseNotFoundError, match="nowhere"):
        client.create_table(table("nowhere", "t"))
    with pytest.raises(DatabaseNotFoundError, match="nowhere"):
        client.get_table_objects("nowhere", ["t"])
    with pytest.raises(DatabaseNotEmptyError, match="work"):
        client.drop_database("work")
    with pytest.raises(TableExistsError, match=r"work\.t"):
        client.create_table(table("work", "t"))
    with pytest.raises(TableNotFoundError, match=r"work\.nope"):
        client.get_table("work", "nope")
    with pytest.raises(TableNotFoundError, match=r"work\.nope"):
        client.alter_table("work", "nope", table("work", "nope"))
    with pytest.raises(TableNotFoundError, match=r"work\.nope"):
        client.drop_table("work", "nope")
    client.create_table(table("work", "u"))
    with pytest.raises(TableExistsError, match=r"work\.t"):
        client.alter_table("work", "t", table("work", "u"))
    with pytest.raises(CatalogError, match="not a valid object name"):
        client.create_table(table("work", "no-good"))
    assert client.get_tables("work", "t|u") == ["t", "u"]


def test_compare_and_swap_reports_a_lost_race(client: HiveMetastoreClient) -> None:
    client.create_table(table("work", "t", parameters={"pointer": "1"}))
    changed = client.get_table("work", "t")
    changed.parameters["pointer"] = "2"
    client.alter_table("work", "t", changed, expected_parameter=("pointer", "1"))
    changed.parameters["pointer"] = "3"
    with pytest.raises(TableModifiedError, match=r"work\.t.*'2'"):
        client.alter_table("work", "t", changed, expected_parameter=("pointer", "1"))
    assert client.get_table("work", "t").parameters["pointer"] == "2"


def test_a_client_is_shared_by_threads(client: HiveMetastoreClient) -> None:
    def work(number: int) -> None:
        for turn in range(10):
            client.create_table(table("work", f"t_{number}_{turn}"))
            assert client.get_table("work", f"t_{number}_{turn}").tableName == f"t_{number}_{turn}"

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=at_most(60))
    assert len(client.get_all_tables("work")) == 80


def test_a_call_whose_reply_is_lost_is_repeated_only_if_it_is_idempotent(server: MetastoreUnderTest) -> None:
    with Relay(server.port) as relay, HiveMetastoreClient(f"thrift://127.0.0.1:{relay.port}") as client:
        assert client.get_all_databases() == ["default"]
        relay.lose_reply_of()
        assert client.get_all_databases() == ["default"]
        relay.lose_reply_of()
        with pytest.raises(CallStateUnknownError, match="not known whether"):
            client.create_database(ttypes.Database(name="ghost"))
        assert client.get_database("ghost").name == "ghost"
        client.drop_database("ghost")


def test_a_lock_whose_reply_is_lost_is_found_again(server: MetastoreUnderTest) -> None:
    with Relay(server.port) as relay, HiveMetastoreClient(f"thrift://127.0.0.1:{relay.port}") as client:
        client.lock_lease_seconds()
        relay.lose_reply_of()
        with HiveCatalogLock(client, "default", "t") as lock:
            lock.ensure_held()
            assert len(client.show_locks("default", "t")) == 1
        assert client.show_locks("default", "t") == []


def test_a_server_that_is_down_is_reported_with_its_address(server: MetastoreUnderTest) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        uri = f"thrift://127.0.0.1:{unused.getsockname()[1]}"
        with HiveMetastoreClient(uri) as client, pytest.raises(CatalogUnavailableError, match=uri):
            client.get_all_databases()
        with HiveMetastoreClient(f"{uri},{server.uri}") as client:
            assert client.get_all_databases() == ["default"]


@pytest.mark.parametrize(
    ("uri", "addresses"),
    [
        ("thrift://h:1", [("h", 1)]),
        ("thrift://h", [("h", 9083)]),
        ("h:2", [("h", 2)]),
        ("thrift://a:1, thrift://b:2", [("a", 1), ("b", 2)]),
        ("thrift://[::1]:5", [("::1", 5)]),
    ],
)
def test_addresses_are_parsed(uri: str, addresses: list[tuple[str, int]]) -> None:
    assert parse_uri(uri) == addresses


@pytest.mark.parametrize(
    "uri", ["", "http://h:1", "thrift://", "thrift://h:port", "thrift://h:1/path", "thrift://h:99999"]
)
def test_bad_addresses_are_refused(uri: str) -> None:
    with pytest.raises(InvalidOptionError, match="thrift://host:9083"):
        HiveMetastoreClient(uri)


def test_a_lock_timeout_reports_the_table_and_the_holder(client: HiveMetastoreClient) -> None:
    holder = client.lock(lock_request(lock_component(ttypes.LockType.EXCLUSIVE, "work", "t"), user="anna", host="far"))
    with pytest.raises(LockError, match=rf"table work\.t within 0\.3 s: lock {holder.lockid} is held by anna on far"):
        HiveCatalogLock(client, "work", "t", acquire_timeout_seconds=0.3).acquire()
    assert [each.lockid for each in client.show_locks("work")] == [holder.lockid]
    client.unlock(holder.lockid)


def test_a_lock_that_was_lost_is_noticed(client: HiveMetastoreClient) -> None:
    def held(lock: HiveCatalogLock) -> bool:
        try:
            lock.ensure_held()
        except LockError:
            return False
        return True

    with HiveCatalogLock(client, "work", "t", heartbeat_seconds=0.05) as lock:
        client.unlock(client.show_locks("work", "t")[0].lockid)
        deadline = time.monotonic() + at_most(30)
        while held(lock) and time.monotonic() < deadline:
            client.show_locks("work", "t")
        with pytest.raises(LockError, match="was lost"):
            lock.ensure_held()
    with pytest.raises(LockError, match="is not held"):
        lock.ensure_held()


@pytest.mark.parametrize(
    ("said", "seconds"),
    [("300s", 300), ("300", 300), ("90 sec", 90), ("250ms", 0.25), ("1h", 3600), ("", None), ("a while", None)],
)
def test_the_lease_of_locks_is_requested_once(said: str, seconds: float | None) -> None:
    class ConfiguredClient(HiveMetastoreClient):
        asked = 0

        def get_config_value(self, name: str, default: str) -> str:
            self.asked += 1
            return said

    with ConfiguredClient("thrift://127.0.0.1:1") as client:
        assert [client.lock_lease_seconds() for _ in range(2)] == [seconds] * 2
        assert client.asked == 1


def test_a_lock_is_released_when_its_block_fails(client: HiveMetastoreClient) -> None:
    with pytest.raises(ZeroDivisionError), HiveCatalogLock(client, "work", "t"):
        raise ZeroDivisionError
    assert client.show_locks("work") == []


class FailingLockClient(HiveMetastoreClient):
    """Client of a metastore that executes lock requests, but answers some calls with an error."""

    def __init__(self, uri: str, *, failing_checks: int = 0, failing_releases: int = 0) -> None:
        super().__init__(uri)
        self._failing_checks = failing_checks
        self._failing_releases = failing_releases

    def lock(self, request: Any) -> Any:
        """Execute the lock request, then fail."""
        super().lock(request)
        raise CatalogError("a deadlock in the metastore's database")

    def check_lock(self, lock_id: int) -> Any:
        """Fail as often as configured."""
        if self._failing_checks:
            self._failing_checks -= 1
            raise CatalogError("a deadlock in the metastore's database")
        return super().check_lock(lock_id)

    def unlock(self, lock_id: int) -> None:
        """Fail as often as configured."""
        if self._failing_releases:
            self._failing_releases -= 1
            raise CatalogError("a deadlock in the metastore's database")
        super().unlock(lock_id)


def test_a_lock_request_that_was_stored_although_it_failed_is_used(
    client: HiveMetastoreClient, server: MetastoreUnderTest
) -> None:
    holder = client.lock(lock_request(lock_component(ttypes.LockType.EXCLUSIVE, "work", "t")))
    with FailingLockClient(server.uri, failing_checks=CHECK_FAILURES_MAX) as faltering, ThreadPoolExecutor(1) as pool:
        lock = HiveCatalogLock(
            faltering, "work", "t", acquire_timeout_seconds=at_most(60), check_max_sleep_seconds=0.05
        )
        waiting = pool.submit(lock.acquire)
        while len(client.show_locks("work")) < 2:
            assert not waiting.done()
        client.unlock(holder.lockid)
        waiting.result(timeout=at_most(60))
        lock.ensure_held()
        lock.release()
    assert client.show_locks("work") == []


def test_a_lock_that_cannot_be_checked_is_released(client: HiveMetastoreClient, server: MetastoreUnderTest) -> None:
    holder = client.lock(lock_request(lock_component(ttypes.LockType.EXCLUSIVE, "work", "t")))
    with (
        FailingLockClient(server.uri, failing_checks=1000, failing_releases=2) as faltering,
        pytest.raises(CatalogError, match="a deadlock"),
    ):
        HiveCatalogLock(faltering, "work", "t", check_max_sleep_seconds=0.01).acquire()
    assert [each.lockid for each in client.show_locks("work")] == [holder.lockid]
    client.unlock(holder.lockid)
