"""Conditions other than database and warehouse that make a server unready: each in a real process,
and its rule without a process.
"""

import errno
import http.client
import json
import re
import resource
import signal
import socket
import sqlite3
import struct
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

from interbed.catalog.client.errors import CatalogError
from interbed.catalog.client.hive.client import HiveMetastoreClient
from interbed.catalog.server.ops.vital_signs import (
    HANDLES_LEFT_MIN,
    SILENT_SECONDS_MAX,
    WAIT_SECONDS_MAX,
    HandleReserve,
    SharedBoard,
    VitalSigns,
    handles_left,
)
from interbed.catalog.server.thrift.edge.pool import ThreadPool
from interbed.thrift_idl.hive_metastore import ttypes
from tests.support.servers.metastore import MetastoreUnderTest, metastore_under_test
from tests.support.waits import at_most, wait_until

BUSY_CLIENTS = 80
"""Number of clients, more than the server has threads."""


def probe(log: Path, page: str = "/health/ready") -> tuple[int, str]:
    """Return status and body of a page of the health port, whose address is in the log."""
    pattern = re.compile(r"http://([\d.]+):(\d+)/health")
    wait_until(lambda: pattern.search(log.read_text()) is not None, "the address of the health port is logged")
    found = pattern.search(log.read_text())
    assert found is not None
    connection = http.client.HTTPConnection(found[1], int(found[2]), timeout=at_most(30))
    try:
        connection.request("GET", page)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def wait_for(log: Path, status: int, reason: str = "") -> str:
    """Return the body of the first answer of /health/ready with this status and reason."""
    answers: list[tuple[int, str]] = []

    def is_given() -> bool:
        answers.append(probe(log))
        found, body = answers[-1]
        return found == status and reason in body

    wait_until(is_given, lambda: f"{status} with {reason!r}, but the last answer was {answers[-1]}")
    return answers[-1][1]


@pytest.fixture
def single_process_server(tmp_path: Path) -> Iterator[MetastoreUnderTest]:
    """Run a server of one process."""
    with metastore_under_test(f"sqlite:///{tmp_path / 'metastore.db'}", tmp_path, "--health-port", "0") as running:
        yield running


def test_a_silent_stalled_or_exhausted_process_is_reported() -> None:
    well = {"at": 100.0, "wait_seconds": 0.0, "handles_left": 500}
    assert VitalSigns(**well).problem(101.0) is None  # type: ignore[arg-type]
    assert VitalSigns(**{**well, "handles_left": -1}).problem(101.0) is None  # type: ignore[arg-type]
    silent = VitalSigns(**well).problem(101.0 + SILENT_SECONDS_MAX)  # type: ignore[arg-type]
    assert silent is not None
    assert "has not answered for 6 s" in silent
    waiting = VitalSigns(**{**well, "wait_seconds": WAIT_SECONDS_MAX + 1}).problem(101.0)  # type: ignore[arg-type]
    assert waiting is not None
    assert "a request has waited for 6 s" in waiting
    few = VitalSigns(**{**well, "handles_left": HANDLES_LEFT_MIN - 1}).problem(101.0)  # type: ignore[arg-type]
    assert few is not None
    assert "RLIMIT_NOFILE" in few


def test_the_board_has_the_vital_signs_of_workers_and_of_the_parent() -> None:
    board = SharedBoard(2)
    assert board.problem() is None
    board.parent_beat()
    board.place(2).beat(WAIT_SECONDS_MAX + 10)
    assert board.problem() == "worker 2: a request has waited for 15 s: all threads are busy"
    board.place(2).clear()
    assert board.problem() is None
    board.write(1, "it is ill")
    assert board.problem() == "worker 1: it is ill"


def test_the_pool_reports_how_long_queued_jobs_have_not_been_started() -> None:
    pool = ThreadPool(threads_max=1)
    assert pool.stalled_seconds == 0.0
    begun, go, done = threading.Event(), threading.Event(), threading.Event()

    def hold() -> None:
        begun.set()
        go.wait(at_most(30))

    pool.submit(hold)
    assert begun.wait(at_most(30))
    assert pool.stalled_seconds == 0.0
    pool.submit(done.set)
    first = pool.stalled_seconds
    assert first > 0
    assert pool.stalled_seconds > first
    go.set()
    assert done.wait(at_most(30))
    assert pool.stalled_seconds == 0.0
    pool.close()


def test_the_reserve_provides_a_handle_when_none_is_left() -> None:
    reserve = HandleReserve(1)
    before = handles_left()
    assert before is not None
    tries: list[int] = []

    def opened() -> str:
        tries.append(1)
        if len(tries) == 1:
            raise OSError(errno.EMFILE, "too many open files")
        return "opened"

    assert reserve.use(opened) == "opened"
    assert handles_left() == before + 1
    reserve.refill()
    assert handles_left() == before
    tries.clear()
    reserve.close()
    with pytest.raises(OSError, match="too many"):
        reserve.use(opened)


def test_a_deleted_database_file_makes_the_server_unready(
    single_process_server: MetastoreUnderTest, tmp_path: Path
) -> None:
    log = tmp_path / "server.log"
    with HiveMetastoreClient(single_process_server.uri) as client:
        client.create_database(ttypes.Database(name="kept"))
        assert probe(log)[0] == 200
        (tmp_path / "metastore.db").unlink()
        body = wait_for(log, 503, "was deleted")
        assert json.loads(body)["reasons"]
        with pytest.raises(CatalogError, match="was deleted"):
            client.create_database(ttypes.Database(name="lost"))
    assert probe(log, "/health/live")[0] == 200
    assert not (tmp_path / "metastore.db").exists()


def test_a_server_without_free_handles_reports_it(single_process_server: MetastoreUnderTest, tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    process = psutil.Process(single_process_server.running.process.pid)
    assert probe(log)[0] == 200
    few = process.num_fds() + 20
    resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (few, few))
    with ExitStack() as stack:
        for _ in range(40):
            stack.enter_context(
                socket.create_connection(("127.0.0.1", single_process_server.port), timeout=at_most(30))
            )
        wait_for(log, 503, "RLIMIT_NOFILE")
        assert probe(log, "/health/live")[0] == 200
    wait_for(log, 200)


@pytest.mark.long
def test_a_stopped_worker_makes_the_server_unready(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    db = f"sqlite:///{tmp_path / 'metastore.db'}"
    with metastore_under_test(db, tmp_path, "--health-port", "0", "--workers", "2"):
        wait_for(log, 200)
        found = re.search(r"worker 2 is process (\d+)", log.read_text())
        assert found is not None
        worker = psutil.Process(int(found[1]))
        worker.send_signal(signal.SIGSTOP)
        try:
            wait_for(log, 503, "worker 2: has not answered")
        finally:
            worker.send_signal(signal.SIGCONT)
        wait_for(log, 200)


@pytest.mark.long
def test_a_pool_without_free_threads_makes_the_server_unready(
    single_process_server: MetastoreUnderTest, tmp_path: Path
) -> None:
    log = tmp_path / "server.log"
    assert probe(log)[0] == 200
    writer = sqlite3.connect(tmp_path / "metastore.db", isolation_level=None)
    with ExitStack() as stack:
        stack.callback(writer.close)
        writer.execute("BEGIN IMMEDIATE")
        name = b"create_database"
        for number in range(BUSY_CLIENTS):
            # Each call has a connection of its own, as clients have.
            connection = stack.enter_context(
                socket.create_connection(("127.0.0.1", single_process_server.port), timeout=at_most(30))
            )
            text = b"d%d" % number
            database = b"\x0c\0\1\x0b\0\1" + struct.pack("!i", len(text)) + text + b"\0\0"
            connection.sendall(struct.pack("!Ii", 0x80010001, len(name)) + name + struct.pack("!i", 1) + database)
        wait_for(log, 503, "a request has waited")
        writer.execute("ROLLBACK")
        wait_for(log, 200)
