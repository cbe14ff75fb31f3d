"""Locks of a table where the metastore answers at once, as Hive's does: waiting requests are withdrawn and repeated."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from interbed.catalog.client.errors import CatalogError, LockError
from interbed.catalog.client.hive import lock as lock_module
from interbed.catalog.client.hive.client import HiveMetastoreClient
from interbed.catalog.client.hive.lock import REFUSALS_MAX, UNLOCKS, HiveCatalogLock
from interbed.thrift_idl.hive_metastore.ttypes import LockType
from tests.support.servers.metastore import lock_component, lock_request
from tests.support.waits import at_most

EXCLUSIVE = lock_request(lock_component(LockType.EXCLUSIVE, "shop", "t"))
WAIT_SECONDS_MAX = at_most(60.0)


class ImpatientMetastoreClient(HiveMetastoreClient):
    """Client of a metastore that does not wait; it counts the calls.

    `refused_requests` requests and `refused_unlocks` unlocks fail without effect. `lost_unlocks` unlocks report success
    without effect.
    """

    def __init__(self, uri: str, *, refused_requests: int = 0, refused_unlocks: int = 0, lost_unlocks: int = 0) -> None:
        super().__init__(uri)
        self.requests: list[int] = []
        self.checks: list[int] = []
        self._refused_requests = refused_requests
        self._refused_unlocks = refused_unlocks
        self._lost_unlocks = lost_unlocks

    def lock_wait_seconds(self) -> float:
        return 0.0

    def lock(self, request: Any) -> Any:
        if self._refused_requests:
            self._refused_requests -= 1
            raise CatalogError("a deadlock in the metastore's database")
        response = super().lock(request)
        self.requests.append(response.lockid)
        return response

    def check_lock(self, lock_id: int) -> Any:
        self.checks.append(lock_id)
        return super().check_lock(lock_id)

    def unlock(self, lock_id: int) -> None:
        if self._refused_unlocks:
            self._refused_unlocks -= 1
            raise CatalogError("a deadlock in the metastore's database")
        if self._lost_unlocks:
            self._lost_unlocks -= 1
            return
        super().unlock(lock_id)


@pytest.fixture
def holder(server: str) -> Iterator[HiveMetastoreClient]:
    """Connect another client; its locks are released afterwards."""
    with HiveMetastoreClient(server) as client:
        yield client
        assert client.show_locks() == []


def until(condition: Any) -> None:
    """Wait until a condition holds, for a bounded time."""
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not condition():
        assert time.monotonic() < deadline


def table_lock(client: HiveMetastoreClient, **options: float) -> HiveCatalogLock:
    given: dict[str, Any] = {"check_max_sleep_seconds": 0.01, "acquire_timeout_seconds": WAIT_SECONDS_MAX, **options}
    return HiveCatalogLock(client, "shop", "t", **given)


def test_a_waiting_request_is_withdrawn_and_repeated(server: str, holder: HiveMetastoreClient) -> None:
    held = holder.lock(EXCLUSIVE)
    with ImpatientMetastoreClient(server) as client, ThreadPoolExecutor(1) as pool:
        lock = table_lock(client)
        waiting = pool.submit(lock.acquire)
        until(lambda: len(client.requests) >= 3)
        assert len(holder.show_locks()) <= 2
        holder.unlock(held.lockid)
        waiting.result(timeout=WAIT_SECONDS_MAX)
        lock.ensure_held()
        assert [each.lockid for each in holder.show_locks()] == client.requests[-1:]
        assert client.checks == []
        lock.release()


@pytest.mark.long
def test_a_request_stays_in_the_queue_after_the_maximum_time(
    server: str, holder: HiveMetastoreClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock_module, "REQUEST_SECONDS_MAX", 0.0)
    held = holder.lock(EXCLUSIVE)
    with ImpatientMetastoreClient(server) as client, ThreadPoolExecutor(1) as pool:
        lock = table_lock(client)
        waiting = pool.submit(lock.acquire)
        until(lambda: len(client.checks) >= 3)
        holder.unlock(held.lockid)
        waiting.result(timeout=WAIT_SECONDS_MAX)
        assert len(client.requests) == 1
        assert set(client.checks) == set(client.requests)
        lock.release()


@pytest.mark.long
def test_a_request_that_cannot_be_withdrawn_stays_in_the_queue(server: str, holder: HiveMetastoreClient) -> None:
    held = holder.lock(EXCLUSIVE)
    with (
        ImpatientMetastoreClient(server, refused_unlocks=REFUSALS_MAX + 1) as client,
        ThreadPoolExecutor(1) as pool,
    ):
        lock = table_lock(client)
        waiting = pool.submit(lock.acquire)
        until(lambda: client.checks)
        holder.unlock(held.lockid)
        waiting.result(timeout=WAIT_SECONDS_MAX)
        assert len(client.requests) == 1
        lock.release()


def test_an_unlock_without_effect_is_repeated(server: str, holder: HiveMetastoreClient) -> None:
    held = holder.lock(EXCLUSIVE)
    with ImpatientMetastoreClient(server, lost_unlocks=UNLOCKS - 1) as client, ThreadPoolExecutor(1) as pool:
        lock = table_lock(client)
        waiting = pool.submit(lock.acquire)
        until(lambda: len(client.requests) >= 2)
        holder.unlock(held.lockid)
        waiting.result(timeout=WAIT_SECONDS_MAX)
        lock.release()


def test_a_refused_request_that_was_not_stored_is_repeated(server: str, holder: HiveMetastoreClient) -> None:
    with ImpatientMetastoreClient(server, refused_requests=2) as client, table_lock(client) as lock:
        lock.ensure_held()
        assert len(holder.show_locks()) == 1


def test_a_writer_that_gives_up_leaves_no_request(server: str, holder: HiveMetastoreClient) -> None:
    held = holder.lock(EXCLUSIVE)
    with ImpatientMetastoreClient(server) as client:
        with pytest.raises(LockError, match=rf"shop\.t within 0\.2 s: lock {held.lockid} is held by tester on here"):
            table_lock(client, acquire_timeout_seconds=0.2).acquire()
        assert len(client.requests) >= 2
    assert [each.lockid for each in holder.show_locks()] == [held.lockid]
    holder.unlock(held.lockid)
