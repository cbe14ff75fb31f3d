"""Many clients that request the same lock: it is granted in order of arrival, over several servers, and checks cost no
writes.
"""

import random
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from interbed.catalog.client.hive.client import HiveMetastoreClient
from interbed.catalog.server.service.lock_model import LockComponent, LockLevel, is_blocked_by
from interbed.catalog.server.service.lock_model import LockRequest as Asked
from interbed.catalog.server.service.lock_model import LockType as Kind
from interbed.thrift_idl.hive_metastore.ttypes import LockState, LockType
from tests.support.servers.metastore import (
    BACKENDS,
    lock_component,
    lock_request,
    metastore_under_test,
    migrated_database,
)
from tests.support.shares import each_run
from tests.support.waits import at_most, wait_until

WAITERS = 100


@pytest.fixture(scope="module", params=each_run(BACKENDS, lambda kind: kind == "postgresql"))
def servers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """Run two servers on one database and yield their addresses."""
    directory = tmp_path_factory.mktemp(request.param)
    if request.param == "sqlite":
        db = f"sqlite:///{directory / 'metastore.db'}"
    else:
        db = migrated_database(request.getfixturevalue("postgres_url"))
    with ExitStack() as stack:
        yield [stack.enter_context(metastore_under_test(db, directory)).uri for _ in range(2)]


def test_a_hundred_waiting_clients_get_the_lock_in_order_of_arrival(servers: list[str]) -> None:
    with HiveMetastoreClient(servers[0]) as first, HiveMetastoreClient(servers[1]) as second:
        clients = (first, second)
        started = time.monotonic()
        ids = [
            clients[number % 2].lock(lock_request(lock_component(LockType.EXCLUSIVE, "d", "queue"))).lockid
            for number in range(WAITERS)
        ]
        assert ids == sorted(ids)
        asked = 0
        for turn, lock_id in enumerate(ids):
            # All waiting clients check, by this server and the other in turn: only the oldest request is granted.
            for each in (lock_id, *ids[turn + 1 :: 10]):
                state = clients[(turn + each) % 2].check_lock(each).state
                assert state == (LockState.ACQUIRED if each == lock_id else LockState.WAITING)
                asked += 1
            [*_, last] = first.show_locks("d", "queue")
            first.unlock(lock_id)
        # The last client has checked dozens of times. A heartbeat is stored at most every five seconds.
        assert last.lockid == ids[-1]
        assert last.heartbeatCount <= (time.monotonic() - started) / 5 + 3
        assert asked > 500


@pytest.mark.long
def test_held_locks_never_conflict_and_every_request_is_granted(servers: list[str]) -> None:
    guard = threading.Lock()
    held: dict[int, tuple[LockComponent, ...]] = {}
    collisions: list[str] = []
    turns: list[int] = []

    def work(number: int) -> None:
        chance = random.Random(number)
        with HiveMetastoreClient(servers[number % 2], timeout_seconds=at_most(60)) as client:
            for _ in range(4):
                # Requests of several components in any order: locking them one by one would end in a deadlock.
                parts = [(chance.choice(list(Kind)), chance.choice("tuv")) for _ in range(chance.randint(1, 3))]
                lock = client.lock(lock_request(*(lock_component(kind, "d", name) for kind, name in parts)))
                if lock.state == LockState.WAITING:
                    wait_until(partial(_is_granted, client, lock.lockid), "the lock is granted", at_most(120))
                components = tuple(
                    LockComponent(type=kind, level=LockLevel.TABLE, database="d", table=name) for kind, name in parts
                )
                with guard:
                    asked = Asked(components=components, user="", host="")
                    collisions.extend(
                        f"{lock.lockid} and {other}" for other, theirs in held.items() if is_blocked_by(asked, theirs)
                    )
                    held[lock.lockid] = components
                with guard:
                    del held[lock.lockid]
                client.unlock(lock.lockid)
                turns.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=at_most(240))
    assert collisions == []
    assert sorted(turns) == sorted(list(range(12)) * 4)


@pytest.mark.parametrize("database_url", each_run(BACKENDS, lambda kind: kind == "sqlite"), indirect=True)
def test_a_silent_lock_of_another_server_is_dropped_after_its_lease(database_url: str, tmp_path: Path) -> None:
    lease = ("--lock-lease-seconds", "1", "--reaper-seconds", "0.2")
    with (
        metastore_under_test(database_url, tmp_path, *lease) as one,
        metastore_under_test(database_url, tmp_path, *lease) as other,
        HiveMetastoreClient(one.uri) as client,
        HiveMetastoreClient(other.uri) as waiting,
    ):
        client.lock(lock_request(lock_component(LockType.EXCLUSIVE, "d", "t")))
        lock = waiting.lock(lock_request(lock_component(LockType.EXCLUSIVE, "d", "t")))
        if lock.state == LockState.WAITING:
            wait_until(partial(_is_granted, waiting, lock.lockid), "the lock is granted")


def _is_granted(client: HiveMetastoreClient, lock_id: int) -> bool:
    return bool(client.check_lock(lock_id).state == LockState.ACQUIRED)
