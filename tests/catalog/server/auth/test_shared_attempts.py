"""Failed authentications that the workers of a server count together."""

import base64
import fcntl
import http.client
import logging
import os
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path

import psutil
import pytest

from interbed.catalog.server.auth.attempts import (
    ENTRIES_MAX,
    AttemptLimits,
    FailedAttempts,
    FailureCount,
    SharedMemory,
    TooManyAttemptsError,
)
from tests.catalog.server.auth.test_ldap import PATTERN
from tests.support.servers.ldap_directory import PASSWORDS, ldap_directory
from tests.support.servers.metastore import metastore_under_test
from tests.support.waits import at_most, wait_until

pytestmark = pytest.mark.attack("guessing")

HERE = "192.0.2.1"
LIMITS = AttemptLimits(user_failures_max=8, address_failures_max=1000)
WORKERS = 4


def in_processes(count: int, work: Callable[[int], int]) -> list[int]:
    """Run a function in forked processes at the same time, and return their exit codes."""
    children = []
    for number in range(count):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                code = work(number)
            finally:
                os._exit(code)
        children.append(child)
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]


def test_processes_count_together_and_forget_together() -> None:
    attempts = FailedAttempts(LIMITS, memory=SharedMemory())

    def fail(_: int) -> int:
        attempts.failed(HERE, "ann")
        attempts.failed(HERE, "ann")
        return 0

    assert in_processes(WORKERS, fail) == [0] * WORKERS
    with pytest.raises(TooManyAttemptsError):
        attempts.begin(HERE, "ann", b"a secret")

    def succeed(_: int) -> int:
        attempts.succeeded(HERE, "ann", b"a secret")
        return 0

    assert in_processes(1, succeed) == [0]
    assert attempts.is_proven(b"a secret")
    attempts.begin(HERE, "ann", b"another secret")


def test_no_count_is_lost_between_processes() -> None:
    memory = SharedMemory()
    attempts = FailedAttempts(AttemptLimits(user_failures_max=1_000_000), memory=memory)

    def fail(_: int) -> int:
        for _number in range(250):
            attempts.failed(HERE, "ann")
        return 0

    assert in_processes(WORKERS, fail) == [0] * WORKERS
    found = memory.tables[0].get((HERE, "ann"))
    assert found is not None
    assert found.count == WORKERS * 250


def test_a_table_keeps_what_was_used_last_within_its_bounds() -> None:
    table = SharedMemory().tables[0]
    for number in range(3 * ENTRIES_MAX):
        table.put((f"user{number}",), FailureCount(1, float(number + 1), 0.0))
    assert len(table) == ENTRIES_MAX
    assert table.get((f"user{3 * ENTRIES_MAX - 1}",)) == FailureCount(1, 3.0 * ENTRIES_MAX, 0.0)
    assert table.get(("user0",)) is None
    table.forget((f"user{3 * ENTRIES_MAX - 1}",))
    assert len(table) == ENTRIES_MAX - 1


def test_the_memory_has_neither_names_nor_secrets() -> None:
    memory = SharedMemory()
    attempts = FailedAttempts(LIMITS, memory=memory)
    attempts.failed(HERE, "a-name-of-a-user")
    attempts.succeeded(HERE, "a-name-of-a-user", b"a hash of a secret")
    content = memory._memory[:]
    assert any(content)
    assert b"a-name" not in content
    assert b"a hash" not in content


def test_a_process_that_holds_the_lock_does_not_stop_the_others(caplog: pytest.LogCaptureFixture) -> None:
    memory = SharedMemory()
    attempts = FailedAttempts(LIMITS, memory=memory)
    ours, theirs = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        try:
            fcntl.lockf(memory._file, fcntl.LOCK_EX)
            os.write(theirs[1], b"x")
            os.read(ours[0], 1)
        finally:
            os._exit(0)
    try:
        assert os.read(theirs[0], 1) == b"x"
        with caplog.at_level(logging.WARNING):
            attempts.failed(HERE, "ann")
        assert "holds the lock of failed authentications" in caplog.text
    finally:
        os.write(ours[1], b"x")
        os.waitpid(child, 0)
        for each in (*ours, *theirs):
            os.close(each)
    found = memory.tables[0].get((HERE, "ann"))
    assert found is not None
    assert found.count == 1


def test_threads_and_processes_may_work_at_once() -> None:
    memory = SharedMemory()
    attempts = FailedAttempts(AttemptLimits(user_failures_max=1_000_000), memory=memory)

    def fail() -> None:
        for _ in range(100):
            attempts.failed(HERE, "ann")

    threads = [threading.Thread(target=fail) for _ in range(WORKERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(at_most(30))
    found = memory.tables[0].get((HERE, "ann"))
    assert found is not None
    assert found.count == WORKERS * 100


def test_guesses_over_all_workers_of_a_server_are_counted_together(tmp_path: Path) -> None:
    free = 10
    with ExitStack() as stack:
        directory = stack.enter_context(ldap_directory())
        arguments = (
            *("--http-port", "0", "--workers", str(WORKERS), "--authentication", "ldap", "--ldap-url", directory.url),
            *("--ldap-user-dn", PATTERN["user_dn"], "--authentication-failures-max", str(free)),
        )
        database = f"sqlite:///{tmp_path / 'metastore.db'}"
        server = stack.enter_context(metastore_under_test(database, tmp_path, *arguments))
        processes = psutil.Process(server.running.process.pid).children()

        def worker_of(client: http.client.HTTPConnection) -> int:
            """Return the process that serves a connection."""
            assert client.sock is not None
            port = client.sock.getsockname()[1]

            def owners() -> list[int]:
                return [
                    process.pid
                    for process in processes
                    if any(each.raddr and each.raddr.port == port for each in process.net_connections("tcp"))
                ]

            wait_until(lambda: len(owners()) == 1, "a worker has the connection")
            return owners()[0]

        def answer(client: http.client.HTTPConnection, user: str, password: str) -> int:
            given = base64.b64encode(f"{user}:{password}".encode()).decode()
            client.request("GET", "/iceberg/v1/config", headers={"Authorization": f"Basic {given}"})
            response = client.getresponse()
            response.read()
            return response.status

        def connected() -> list[http.client.HTTPConnection]:
            """Connect a client to each worker: the parent gives a connection to the worker that has the fewest."""
            made = [http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=at_most(30)) for _ in range(8)]
            for client in made:
                stack.enter_context(closing(client))
                client.connect()
            by_worker = {worker_of(client): client for client in made}
            assert len(by_worker) == WORKERS
            return list(by_worker.values())

        assert [answer(client, "bob", PASSWORDS["bob"]) for client in connected()] == [200] * WORKERS
        answers = [
            [answer(client, "ann", f"guess {number} of {place}") for place, client in enumerate(connected())]
            for number in range(free // WORKERS + 3)
        ]
        # Each wait that has ended lets one more through. Workers that count alone would take all of these.
        counted = Counter(status for each in answers for status in each)
        assert set(counted) == {401, 429}
        assert counted[401] >= free
        assert answers[0] == [401] * WORKERS
        assert 429 in answers[-1]
        assert [answer(client, "bob", PASSWORDS["bob"]) for client in connected()] == [200] * WORKERS
