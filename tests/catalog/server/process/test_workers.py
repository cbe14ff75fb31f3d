"""Several worker processes on one port: they share clients, changes and caches.

When a worker dies, only its connections are lost.
"""

import contextlib
import os
import re
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import psutil
import pytest

from interbed.catalog.client.errors import CatalogError
from interbed.catalog.client.hive.client import HiveMetastoreClient
from tests.catalog.server.raw_client import raw_client
from tests.support.servers.metastore import BACKENDS, MetastoreUnderTest, metastore_under_test, table
from tests.support.shares import each_run
from tests.support.waits import at_most, wait_until

WORKERS = 3
DEADLINE_SECONDS = at_most(120)
WRITERS = 4


@pytest.fixture
def server(database_url: str, tmp_path: Path) -> Iterator[MetastoreUnderTest]:
    """Run a server with several workers."""
    with metastore_under_test(database_url, tmp_path, "--workers", str(WORKERS)) as running:
        yield running


@pytest.mark.parametrize("database_url", each_run(BACKENDS, lambda kind: kind == "postgresql"), indirect=True)
def test_a_change_through_one_worker_is_visible_in_all_at_once(server: MetastoreUnderTest) -> None:
    """Every client reads each change at once; the clients are connected to different workers."""
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(raw_client(server.port)) for _ in range(2 * WORKERS)]
        changing = table("default", "t", parameters={"version": "-1"})
        clients[0].create_table(changing)
        changing = clients[0].get_table("default", "t")
        for version in range(100):
            changing.parameters["version"] = str(version)
            clients[version % len(clients)].alter_table("default", "t", changing)
            for client in clients:
                assert client.get_table("default", "t").parameters["version"] == str(version)


@pytest.mark.long
def test_connections_are_distributed_evenly(tmp_path: Path) -> None:
    db = f"sqlite:///{tmp_path / 'metastore.db'}"
    with metastore_under_test(db, tmp_path, "--workers", str(WORKERS)) as running, contextlib.ExitStack() as stack:
        links = [
            stack.enter_context(socket.create_connection(("127.0.0.1", running.port), timeout=at_most(60)))
            for _ in range(WORKERS * 10)
        ]
        _until(lambda: sorted(_connections(running).values())[-WORKERS:] == [10] * WORKERS)
        # Closed connections make room. The parent may notice them after the next connections have arrived.
        for link in links[:WORKERS]:
            link.close()
        for _ in range(WORKERS):
            stack.enter_context(socket.create_connection(("127.0.0.1", running.port), timeout=at_most(60)))

        def is_even() -> bool:
            counts = sorted(_connections(running).values())[-WORKERS:]
            return sum(counts) == WORKERS * 10 and counts[-1] - counts[0] <= 2

        _until(is_even)


@pytest.mark.parametrize("database_url", each_run(BACKENDS, lambda kind: kind == "postgresql"), indirect=True)
def test_killing_a_worker_under_load_loses_no_acknowledged_change(server: MetastoreUnderTest) -> None:
    acknowledged: set[str] = set()
    ending = threading.Event()
    enough = threading.Semaphore(0)

    def write(writer: int) -> None:
        turn = 0
        while not ending.is_set():
            with HiveMetastoreClient(server.uri, timeout_seconds=at_most(60)) as client:
                try:
                    while not ending.is_set():
                        turn += 1
                        name = f"t_{writer}_{turn}"
                        client.create_table(table("default", name))
                        acknowledged.add(name)
                        enough.release()
                except CatalogError:
                    # The worker of this client was killed; the client continues with another one.
                    continue

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(WRITERS)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(3):
            for _ in range(20):
                assert enough.acquire(timeout=DEADLINE_SECONDS)
            workers = _workers(server)
            os.kill(workers[0], signal.SIGKILL)
            # A new worker replaces it.
            _until(partial(_is_replaced, server, workers[0], WORKERS))
    finally:
        ending.set()
        for thread in threads:
            thread.join(timeout=DEADLINE_SECONDS)
            assert not thread.is_alive()
    with HiveMetastoreClient(server.uri) as client:
        assert acknowledged <= set(client.get_all_tables("default"))
        for name in sorted(acknowledged)[:20]:
            assert client.get_table("default", name).tableName == name


@pytest.mark.parametrize("number", each_run([signal.SIGTERM, signal.SIGINT], lambda number: number == signal.SIGTERM))
def test_a_signal_stops_all_processes_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    db = f"sqlite:///{tmp_path / 'metastore.db'}"
    with metastore_under_test(db, tmp_path, "--workers", str(WORKERS)) as running:
        process = psutil.Process(running.running.process.pid)
        children = process.children()
        with HiveMetastoreClient(running.uri) as client:
            client.create_table(table("default", "t"))
            # Every process gets the signal, as from a terminal or systemd.
            for each in [process, *children]:
                # A child may have ended already, because its parent has stopped it.
                with contextlib.suppress(psutil.NoSuchProcess):
                    each.send_signal(number)
            assert running.running.process.wait(timeout=at_most(60)) == 0
        _until(lambda: all(_has_ended(child) for child in children))
    assert "Traceback" not in (tmp_path / "server.log").read_text()


def test_workers_end_when_the_parent_is_killed(tmp_path: Path) -> None:
    db = f"sqlite:///{tmp_path / 'metastore.db'}"
    with metastore_under_test(db, tmp_path, "--workers", str(WORKERS)) as running:
        children = psutil.Process(running.running.process.pid).children()
        with HiveMetastoreClient(running.uri) as client:
            client.create_table(table("default", "t"))
            running.running.process.kill()
            running.running.process.wait(timeout=at_most(60))
            _until(lambda: all(_has_ended(child) for child in children))
        # The port is free, and the database is unchanged.
        with (
            metastore_under_test(db, tmp_path, "--port", str(running.port)) as second,
            HiveMetastoreClient(second.uri) as client,
        ):
            assert client.get_all_tables("default") == ["t"]


@pytest.mark.long
def test_clients_beyond_the_limit_of_all_workers_wait(tmp_path: Path) -> None:
    db = f"sqlite:///{tmp_path / 'metastore.db'}"
    arguments = ("--workers", "2", "--connections-max", "2")
    with metastore_under_test(db, tmp_path, *arguments) as running, contextlib.ExitStack() as stack:
        first = [stack.enter_context(socket.create_connection(("127.0.0.1", running.port))) for _ in range(4)]
        _until(lambda: sorted(_connections(running).values())[-2:] == [2, 2])
        with raw_client(running.port) as client:
            first[0].close()
            assert client.get_all_databases() == ["default"]
    assert "are in use, further clients wait" in (tmp_path / "server.log").read_text()


@pytest.mark.long
def test_a_worker_that_dies_repeatedly_is_restarted_each_time(tmp_path: Path) -> None:
    db = f"sqlite:///{tmp_path / 'metastore.db'}"
    with metastore_under_test(db, tmp_path, "--workers", "2") as running:
        for _ in range(3):
            workers = _workers(running)
            os.kill(workers[-1], signal.SIGKILL)
            # The other worker serves meanwhile.
            with raw_client(running.port) as client:
                assert client.get_all_databases() == ["default"]
            _until(partial(_is_replaced, running, workers[-1], 2))
    assert (tmp_path / "server.log").read_text().count("by signal SIGKILL; it is started again") == 3


def _workers(running: MetastoreUnderTest) -> list[int]:
    """Return the ids of the processes that serve clients now."""
    log = (running.warehouse.parent / "server.log").read_text()
    newest = dict(re.findall(r"(worker \d+) is process (\d+)", log))
    alive = {child.pid for child in psutil.Process(running.running.process.pid).children() if not _has_ended(child)}
    return [int(number) for number in newest.values() if int(number) in alive]


def _has_ended(process: psutil.Process) -> bool:
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def _connections(running: MetastoreUnderTest) -> dict[int, int]:
    """Return the number of clients of each process."""
    counts = {}
    for child in psutil.Process(running.running.process.pid).children():
        counts[child.pid] = sum(
            each.status == psutil.CONN_ESTABLISHED and each.laddr.port == running.port
            for each in child.net_connections()
        )
    return counts


def _is_replaced(running: MetastoreUnderTest, dead: int, workers: int) -> bool:
    """Return whether this number of workers serves again, without the dead one."""
    return dead not in _workers(running) and len(_workers(running)) == workers


def _until(holds: Callable[[], bool]) -> None:
    wait_until(lambda: _quietly(holds), seconds=DEADLINE_SECONDS)


def _quietly(holds: Callable[[], bool]) -> bool:
    try:
        return holds()
    except psutil.NoSuchProcess:
        return False
