"""Locks over the wire, by hmsclient and by interbed's client, on SQLite and PostgreSQL."""

import itertools
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from hmsclient.genthrift.hive_metastore import ttypes as foreign

from interbed.catalog.client.errors import LockGoneError, TableModifiedError
from interbed.catalog.client.hive.client import HiveMetastoreClient
from interbed.catalog.client.hive.lock import HiveCatalogLock
from interbed.thrift_idl.hive_metastore import ttypes
from interbed.thrift_idl.hive_metastore.ttypes import LockState, LockType
from tests.support.servers.metastore import (
    BACKENDS,
    MetastoreUnderTest,
    foreign_client,
    lock_component,
    lock_request,
    metastore_under_test,
    plain_client,
    table,
)
from tests.support.shares import each_run
from tests.support.waits import at_most

READ, WRITE, EXCLUSIVE = LockType.SHARED_READ, LockType.SHARED_WRITE, LockType.EXCLUSIVE
ACQUIRED, WAITING = LockState.ACQUIRED, LockState.WAITING


@pytest.mark.sample(10)
@pytest.mark.parametrize(
    ("held", "asked", "state"),
    [
        ((READ, "t"), (READ, "t"), ACQUIRED),
        ((READ, "t"), (WRITE, "t"), ACQUIRED),
        ((READ, "t"), (EXCLUSIVE, "t"), WAITING),
        ((WRITE, "t"), (WRITE, "t"), WAITING),
        ((WRITE, "t"), (READ, "t"), ACQUIRED),
        ((EXCLUSIVE, "t"), (READ, "t"), WAITING),
        ((EXCLUSIVE, "t"), (EXCLUSIVE, "t"), WAITING),
        ((EXCLUSIVE, "t"), (EXCLUSIVE, "other"), ACQUIRED),
        ((EXCLUSIVE, "t"), (EXCLUSIVE, None), WAITING),
        ((EXCLUSIVE, None), (READ, "t"), WAITING),
        ((READ, None), (EXCLUSIVE, "t"), ACQUIRED),
        ((EXCLUSIVE, "t"), (READ, None), ACQUIRED),
        ((WRITE, None), (EXCLUSIVE, "t"), WAITING),
    ],
)
def test_lock_types_conflict_as_in_hive(
    metastore: MetastoreUnderTest,
    database: str,
    held: tuple[int, str | None],
    asked: tuple[int, str | None],
    state: int,
) -> None:
    with foreign_client(metastore.port) as client:
        first = client.lock(_foreign(held[0], database, held[1]))
        second = client.lock(_foreign(asked[0], database, asked[1]))
        assert (first.state, second.state) == (ACQUIRED, state)
        client.unlock(foreign.UnlockRequest(first.lockid))
        assert client.check_lock(foreign.CheckLockRequest(second.lockid)).state == ACQUIRED
        client.unlock(foreign.UnlockRequest(second.lockid))


def test_locks_are_granted_in_order_of_arrival(client: HiveMetastoreClient, database: str) -> None:
    kinds = (READ, EXCLUSIVE, READ, EXCLUSIVE)
    locks = [client.lock(lock_request(lock_component(kind, database, "t"))) for kind in kinds]
    assert [lock.state for lock in locks] == [ACQUIRED, WAITING, WAITING, WAITING]
    shown = client.show_locks(database, "t")
    assert [(each.lockid, each.state) for each in shown] == [(lock.lockid, lock.state) for lock in locks]
    assert [each.blockedByExtId for each in shown] == [None, locks[0].lockid, locks[1].lockid, locks[0].lockid]
    for lock, following in itertools.pairwise(locks):
        client.unlock(lock.lockid)
        states = [client.check_lock(each.lockid).state for each in locks[locks.index(following) :]]
        assert states == [ACQUIRED] + [WAITING] * (len(states) - 1)
    client.unlock(locks[-1].lockid)
    assert client.show_locks(database) == []


def test_components_are_granted_together_or_not_at_all(client: HiveMetastoreClient, database: str) -> None:
    blocker = client.lock(lock_request(lock_component(EXCLUSIVE, database, "b")))
    both = client.lock(lock_request(lock_component(EXCLUSIVE, database, "a"), lock_component(EXCLUSIVE, database, "b")))
    behind = client.lock(lock_request(lock_component(READ, database, "a")))
    assert (both.state, behind.state) == (WAITING, WAITING)
    client.unlock(blocker.lockid)
    assert client.check_lock(both.lockid).state == ACQUIRED
    client.unlock(both.lockid)
    client.unlock(behind.lockid)


def test_unknown_locks_are_answered_as_in_hive(metastore: MetastoreUnderTest) -> None:
    with foreign_client(metastore.port) as client:
        client.unlock(foreign.UnlockRequest(10**9))
        with pytest.raises(foreign.NoSuchLockException):
            client.check_lock(foreign.CheckLockRequest(10**9))
        with pytest.raises(foreign.NoSuchLockException):
            client.heartbeat(foreign.HeartbeatRequest(10**9))
        with pytest.raises(foreign.NoSuchTxnException):
            client.heartbeat(foreign.HeartbeatRequest(txnid=5))


@pytest.mark.parametrize("metastore", each_run(BACKENDS, lambda kind: kind == "postgresql"), indirect=True)
def test_eight_clients_hold_one_lock_one_after_another(metastore: MetastoreUnderTest, database: str) -> None:
    holders: list[int] = []
    turns: list[int] = []
    collisions: list[int] = []

    def work(number: int) -> None:
        with HiveMetastoreClient(metastore.uri, timeout_seconds=at_most(60)) as own:
            for _ in range(5):
                with HiveCatalogLock(
                    own, database, "t", check_max_sleep_seconds=0.1, acquire_timeout_seconds=at_most(60)
                ):
                    holders.append(number)
                    collisions.extend(holders[:-1])
                    turns.append(number)
                    holders.remove(number)

    _in_threads([partial(work, number) for number in range(8)])
    assert collisions == []
    assert sorted(turns) == sorted(list(range(8)) * 5)


def test_exactly_one_of_eight_concurrent_swaps_wins_each_round(metastore: MetastoreUnderTest, database: str) -> None:
    rounds = 10
    with HiveMetastoreClient(metastore.uri) as setup:
        setup.create_table(table(database, "t", parameters={"pointer": "0"}))
    lost: list[str] = []
    winners: list[list[int]] = [[] for _ in range(rounds)]
    barrier = threading.Barrier(8, timeout=at_most(60))

    def work(number: int) -> None:
        with HiveMetastoreClient(metastore.uri) as own:
            for turn in range(rounds):
                changed = own.get_table(database, "t")
                changed.parameters = {"pointer": str(turn + 1), "winner": str(number)}
                barrier.wait()
                try:
                    own.alter_table(database, "t", changed, expected_parameter=("pointer", str(turn)))
                except TableModifiedError as error:
                    lost.append(str(error))
                else:
                    winners[turn].append(number)
                barrier.wait()
                assert own.get_table(database, "t").parameters["winner"] == str(winners[turn][0])
                barrier.wait()

    _in_threads([partial(work, number) for number in range(8)])
    assert [len(each) for each in winners] == [1] * rounds
    assert len(lost) == 7 * rounds
    assert all("The table has been modified" in message for message in lost)


@pytest.mark.long
@pytest.mark.parametrize("database_url", each_run(BACKENDS, lambda kind: kind == "postgresql"), indirect=True)
def test_a_lock_of_a_silent_holder_expires_with_its_lease(database_url: str, tmp_path: Path) -> None:
    with (
        metastore_under_test(database_url, tmp_path, "--lock-lease-seconds", "1") as running,
        HiveMetastoreClient(running.uri) as client,
    ):
        silent = client.lock(lock_request(lock_component(EXCLUSIVE, "default", "t")))
        started = time.monotonic()
        with HiveCatalogLock(
            client, "default", "t", check_max_sleep_seconds=0.2, acquire_timeout_seconds=at_most(30)
        ) as lock:
            assert 0.5 < time.monotonic() - started < 10
            with pytest.raises(LockGoneError):
                client.heartbeat(silent.lockid)
            lock.ensure_held()
        assert "expired: no heartbeat" in (tmp_path / "server.log").read_text()


@pytest.mark.long
@pytest.mark.parametrize("database_url", each_run(BACKENDS, lambda kind: kind == "sqlite"), indirect=True)
def test_heartbeats_keep_a_lock_beyond_its_lease(database_url: str, tmp_path: Path) -> None:
    with (
        metastore_under_test(database_url, tmp_path, "--lock-lease-seconds", "1") as running,
        HiveMetastoreClient(running.uri) as client,
        HiveCatalogLock(client, "default", "t") as lock,
    ):
        assert client.lock_lease_seconds() == 1
        started = time.monotonic()
        while time.monotonic() - started < 2.5:
            other = client.lock(lock_request(lock_component(READ, "default", "t")))
            assert other.state == WAITING
            client.unlock(other.lockid)
        lock.ensure_held()


@pytest.mark.parametrize("database_url", each_run(BACKENDS, lambda kind: kind == "sqlite"), indirect=True)
def test_locks_survive_a_restart_of_the_server(database_url: str, tmp_path: Path) -> None:
    with metastore_under_test(database_url, tmp_path) as first, HiveMetastoreClient(first.uri) as client:
        held = client.lock(lock_request(lock_component(EXCLUSIVE, "default", "t")))
        waiting = client.lock(lock_request(lock_component(EXCLUSIVE, "default", "t")))
    with metastore_under_test(database_url, tmp_path) as second, HiveMetastoreClient(second.uri) as client:
        assert client.check_lock(held.lockid).state == ACQUIRED
        assert client.check_lock(waiting.lockid).state == WAITING
        assert client.lock(lock_request(lock_component(READ, "default", "u"))).lockid > waiting.lockid
        client.unlock(held.lockid)
        assert client.check_lock(waiting.lockid).state == ACQUIRED


def _foreign(kind: int, database: str, name: str | None) -> foreign.LockRequest:
    level = foreign.LockLevel.DB if name is None else foreign.LockLevel.TABLE
    component = foreign.LockComponent(type=kind, level=level, dbname=database.upper(), tablename=name)
    return foreign.LockRequest(component=[component], user="tester", hostname="here")


def _in_threads(works: list[Callable[[], None]]) -> None:
    failures: list[BaseException] = []

    def run(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            failures.append(error)
            raise

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=at_most(120))
    assert not any(thread.is_alive() for thread in threads)
    assert failures == []


def test_tables_of_one_name_in_two_catalogs_are_locked_apart(
    metastore: MetastoreUnderTest, client: HiveMetastoreClient, database: str
) -> None:
    def request(catalog: str | None) -> ttypes.LockRequest:
        name = database if catalog is None else f"@{catalog}#{database}"
        return lock_request(lock_component(EXCLUSIVE, name, "t"))

    held = [client.lock(request(catalog)) for catalog in (None, "spark", "third")]
    assert [each.state for each in held] == [ACQUIRED] * 3
    waiting = [client.lock(request(catalog)) for catalog in ("hive", "spark")]
    assert [each.state for each in waiting] == [WAITING] * 2
    with plain_client(metastore.port) as wire:
        shown = {each.lockid: each for each in wire.show_locks(ttypes.ShowLocksRequest()).locks}
        names = [shown[each.lockid].dbname for each in (*held, *waiting)]
        assert names == [database, f"@spark#{database}", f"@third#{database}", database, f"@spark#{database}"]
        assert [shown[each.lockid].blockedByExtId for each in waiting] == [held[0].lockid, held[1].lockid]
        of_spark = wire.show_locks(ttypes.ShowLocksRequest(dbname=f"@spark#{database}")).locks
        assert [each.lockid for each in of_spark] == [held[1].lockid, waiting[1].lockid]
        of_hive = wire.show_locks(ttypes.ShowLocksRequest(dbname=database)).locks
        assert [each.lockid for each in of_hive] == [held[0].lockid, waiting[0].lockid]
    client.unlock(held[1].lockid)
    assert client.check_lock(waiting[1].lockid).state == ACQUIRED
    assert client.check_lock(waiting[0].lockid).state == WAITING
    for each in (*held, *waiting):
        client.unlock(each.lockid)
