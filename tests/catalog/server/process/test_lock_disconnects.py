"""Locks of clients that die or reconnect, with real processes and a real server."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from interbed.catalog.client.hive.client import HiveMetastoreClient
from interbed.catalog.client.hive.connection import ConnectionPool
from interbed.catalog.server.process.command import stop_server
from interbed.catalog.server.thrift.edge.transport import listen, prepare
from interbed.thrift_idl.hive_metastore.ttypes import CheckLockRequest, LockState, LockType
from tests.support.servers.metastore import BACKENDS, lock_component, lock_request, metastore_under_test
from tests.support.shares import each_run
from tests.support.waits import at_most

ROOT = Path(__file__).resolve().parents[4]
LONG_SECONDS = at_most(60)
HOLD = """
import signal, sys
from interbed.catalog.client.hive.client import HiveMetastoreClient
from tests.support.servers.metastore import lock_component, lock_request
client = HiveMetastoreClient(sys.argv[1])
print(client.lock(lock_request(lock_component(3, "d", "t"))).lockid, flush=True)
signal.pause()
"""


@contextmanager
def client_process(uri: str) -> Iterator[tuple["subprocess.Popen[str]", int]]:
    """Start a process that requests the lock of d.t and then does nothing; yield it with the id of the lock."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, uri],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": ":".join([str(ROOT), *(p for p in sys.path if p)])},
    )
    assert process.stdout is not None
    try:
        yield process, int(process.stdout.readline())
    finally:
        process.kill()
        process.wait(timeout=LONG_SECONDS)
        process.stdout.close()


def granted(client: HiveMetastoreClient, lock_id: int) -> int:
    """Check the lock until it is granted, and return the number of checks."""
    deadline = time.monotonic() + LONG_SECONDS
    for asked in range(1, 10_000):
        if client.check_lock(lock_id).state == LockState.ACQUIRED:
            return asked
        assert time.monotonic() < deadline
    raise AssertionError("asked ten thousand times")


@pytest.mark.parametrize("database_url", each_run(BACKENDS, lambda kind: kind == "sqlite"), indirect=True)
@pytest.mark.parametrize("workers", ["1", "2"])
def test_locks_of_a_killed_holder_and_a_killed_waiter_are_dropped(
    database_url: str, tmp_path: Path, workers: str
) -> None:
    settings = ("--lock-disconnect-seconds", "0.3", "--workers", workers, "--reaper-seconds", "600")
    with (
        metastore_under_test(database_url, tmp_path, *settings) as running,
        HiveMetastoreClient(running.uri) as client,
        client_process(running.uri) as (holder, _),
        client_process(running.uri) as (queued, _),
    ):
        lock = client.lock(lock_request(lock_component(LockType.EXCLUSIVE, "d", "t")))
        assert lock.state == LockState.WAITING
        for process in (holder, queued):
            process.send_signal(signal.SIGKILL)
        # Each check waits, so that a few checks are enough; the lease is 300 s.
        assert granted(client, lock.lockid) <= 10
        assert [each.lockid for each in client.show_locks("d", "t")] == [lock.lockid]
        log = (tmp_path / "server.log").read_text()
        assert log.count("its client's last connection has been broken for") == 2


@pytest.mark.long
def test_a_lock_survives_its_first_connection_while_another_one_is_open(tmp_path: Path) -> None:
    with (
        metastore_under_test(
            f"sqlite:///{tmp_path / 'metastore.db'}", tmp_path, "--lock-disconnect-seconds", "0.2", "--workers", "2"
        ) as running,
        HiveMetastoreClient(running.uri) as other,
        HiveMetastoreClient(running.uri) as waiting,
    ):
        with HiveMetastoreClient(running.uri) as asking:
            held = asking.lock(lock_request(lock_component(LockType.EXCLUSIVE, "d", "t"))).lockid
            other.heartbeat(held)
        lock = waiting.lock(lock_request(lock_component(LockType.EXCLUSIVE, "d", "t")))
        # The check waits for longer than the grace period.
        assert waiting.check_lock(lock.lockid).state == LockState.WAITING
        other.heartbeat(held)
        other.unlock(held)
        assert granted(waiting, lock.lockid) == 1


def test_stopping_a_server_drops_no_locks(tmp_path: Path) -> None:
    db = f"sqlite:///{tmp_path / 'metastore.db'}"
    with metastore_under_test(db, tmp_path) as running:
        client = HiveMetastoreClient(running.uri)
        held = client.lock(lock_request(lock_component(LockType.EXCLUSIVE, "d", "t"))).lockid
        stop_server(running.running)
        client.close()
    settings = ("--lock-disconnect-seconds", "0.001", "--reaper-seconds", "0.05")
    with metastore_under_test(db, tmp_path, *settings) as running, HiveMetastoreClient(running.uri) as client:
        lock = client.lock(lock_request(lock_component(LockType.EXCLUSIVE, "d", "t")))
        assert lock.state == LockState.WAITING
        client.heartbeat(held)


def test_waiting_checks_hold_no_thread_and_are_answered_in_order(tmp_path: Path) -> None:
    waiters = 80
    order: list[int] = []
    with (
        metastore_under_test(
            f"sqlite:///{tmp_path / 'metastore.db'}", tmp_path, "--lock-wait-seconds", str(LONG_SECONDS)
        ) as running,
        ExitStack() as stack,
    ):
        clients = [
            stack.enter_context(HiveMetastoreClient(running.uri, timeout_seconds=at_most(90))) for _ in range(waiters)
        ]
        request = lock_request(lock_component(LockType.EXCLUSIVE, "d", "t"))
        ids = [client.lock(request).lockid for client in clients]
        first, *others = zip(clients, ids, strict=True)

        def wait(client: HiveMetastoreClient, lock_id: int) -> None:
            assert client.check_lock(lock_id).state == LockState.ACQUIRED
            order.append(lock_id)
            client.unlock(lock_id)

        threads = [threading.Thread(target=wait, args=each) for each in others]
        for thread in threads:
            thread.start()
        # More clients wait than the 64 threads of the pool; others are served nevertheless.
        with HiveMetastoreClient(running.uri) as other:
            assert len(other.show_locks("d", "t")) == waiters
            assert order == []
            first[0].unlock(first[1])
        for thread in threads:
            thread.join(timeout=LONG_SECONDS)
        assert order == ids[1:]


@pytest.mark.long
def test_a_client_that_dies_during_a_waiting_check_is_noticed(tmp_path: Path) -> None:
    settings = ("--lock-wait-seconds", str(LONG_SECONDS), "--lock-disconnect-seconds", "0.1")
    with (
        metastore_under_test(f"sqlite:///{tmp_path / 'metastore.db'}", tmp_path, *settings) as running,
        HiveMetastoreClient(running.uri) as holder,
        HiveMetastoreClient(running.uri, timeout_seconds=at_most(90)) as behind,
    ):
        request = lock_request(lock_component(LockType.EXCLUSIVE, "d", "t"))
        held = holder.lock(request).lockid
        with HiveMetastoreClient(running.uri) as dying:
            lock_id = dying.lock(request).lockid
            pool = dying._pool
            assert isinstance(pool, ConnectionPool)
            [connection] = pool._state.idle
            connection.client.send_check_lock(CheckLockRequest(lockid=lock_id))
            last = behind.lock(request).lockid
            raw: socket.socket = connection._socket.handle
            raw.close()
        holder.unlock(held)
        assert granted(behind, last) == 1
        assert [each.lockid for each in behind.show_locks("d", "t")] == [last]


def test_keep_alive_of_the_kernel_is_configured() -> None:
    with listen("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname()):
        listener.setblocking(True)
        connected, _ = listener.accept()
        with connected:
            prepare(connected)
            options = [
                connected.getsockopt(socket.IPPROTO_TCP, option)
                for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
            ]
            assert connected.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    assert options[0] + options[1] * options[2] <= 15
