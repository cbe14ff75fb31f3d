"""Remote file systems that do not answer: callers wait for a bounded time, and other callers are served."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from interbed.catalog.server.service.directories.remote_files import (
    CALLERS_OF_AUTHORITY_MAX,
    SUSPENDED_SECONDS,
    THREADS_OF_AUTHORITY_MAX,
    THREADS_OF_UNPROVEN_AUTHORITY_MAX,
    THREADS_OF_UNPROVEN_MAX,
    MissedDeadlines,
    RemoteFiles,
    StoreUnavailableError,
    missed_deadlines,
)
from interbed.catalog.server.service.errors import MetastoreError
from tests.support.waits import at_most

SECONDS_MAX = at_most(60)


class SilentStore:
    """File system whose operations end when the test wakes it."""

    def __init__(self) -> None:
        self.woken = threading.Event()
        self.begun = threading.Semaphore(0)

    def __call__(self) -> str:
        self.begun.release()
        assert self.woken.wait(SECONDS_MAX)
        return "late"


@pytest.fixture
def silent() -> Iterator[SilentStore]:
    """Return a silent file system that is woken after the test."""
    store = SilentStore()
    yield store
    store.woken.set()


@contextmanager
def no_missed_deadlines() -> Iterator[MissedDeadlines]:
    """Begin a request without missed deadlines."""
    missed = MissedDeadlines()
    token = missed_deadlines.set(missed)
    try:
        yield missed
    finally:
        missed_deadlines.reset(token)


class FixedClock:
    """Clock whose time is set by the test."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_results_and_errors_are_passed_on() -> None:
    files = RemoteFiles(SECONDS_MAX)
    assert files.run("hdfs://a:1/x", lambda: 7) == 7

    def refuse() -> None:
        raise FileNotFoundError("no x")

    with pytest.raises(FileNotFoundError, match="no x"):
        files.run("hdfs://a:1/x", refuse)


def test_a_silent_file_system_times_out_and_is_suspended_for_a_while(silent: SilentStore) -> None:
    clock = FixedClock()
    files = RemoteFiles(0.02, clock=clock)
    with pytest.raises(StoreUnavailableError, match=r"hdfs://a:1 did not answer within 0\.02 s .*store_seconds"):
        files.run("hdfs://a:1/x", silent)
    with pytest.raises(StoreUnavailableError, match="asked again in 10 s"):
        files.run("HDFS://A:1/y", lambda: 1)
    # Another port is another name node.
    assert files.run("hdfs://a:2/y", lambda: 2) == 2
    clock.now += SUSPENDED_SECONDS + 1
    assert files.run("hdfs://a:1/y", lambda: 1) == 1
    assert files.figures.timeouts_total == 1
    assert files.figures.refused_total == 1
    assert files.figures.given_up == 1


def test_all_callers_of_a_silent_file_system_fail_at_the_first_timeout(silent: SilentStore) -> None:
    files = RemoteFiles(0.2)
    failures = threading.Semaphore(0)

    def ask() -> None:
        try:
            files.run("hdfs://a:1/x", silent)
        except MetastoreError:
            failures.release()

    callers = [threading.Thread(target=ask) for _ in range(20)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(SECONDS_MAX)
        assert not caller.is_alive()
    assert failures.acquire(blocking=False)
    assert files.figures.waiting == 0
    assert files.figures.given_up <= THREADS_OF_UNPROVEN_AUTHORITY_MAX


def test_silent_file_systems_leave_threads_to_one_that_answers(silent: SilentStore) -> None:
    files = RemoteFiles(0.05)
    assert files.run("hdfs://good:1/x", lambda: 1) == 1
    numbers = range(2 * THREADS_OF_UNPROVEN_MAX)

    def ask(number: int) -> None:
        with pytest.raises(StoreUnavailableError):
            files.run(f"hdfs://silent:{number + 1}/x", silent)

    callers = [threading.Thread(target=ask, args=(number,)) for number in numbers]
    for caller in callers:
        caller.start()
    for number in range(50):
        assert files.run("hdfs://good:1/x", lambda: 1) == 1, number
    for caller in callers:
        caller.join(SECONDS_MAX)
    assert files.run("hdfs://good:1/x", lambda: 1) == 1
    assert files.figures.given_up == THREADS_OF_UNPROVEN_MAX


def test_a_file_system_that_answers_gets_more_threads_but_not_all(silent: SilentStore) -> None:
    files = RemoteFiles(SECONDS_MAX)
    files.run("hdfs://a:1/x", lambda: 1)
    callers = [threading.Thread(target=files.run, args=("hdfs://a:1/x", silent)) for _ in range(20)]
    for caller in callers:
        caller.start()
    for _ in range(THREADS_OF_AUTHORITY_MAX):
        assert silent.begun.acquire(timeout=SECONDS_MAX)
    assert not silent.begun.acquire(blocking=False)
    silent.woken.set()
    for caller in callers:
        caller.join(SECONDS_MAX)


def test_the_number_of_waiting_callers_is_limited(silent: SilentStore) -> None:
    files = RemoteFiles(SECONDS_MAX)
    callers = [
        threading.Thread(target=files.run, args=("hdfs://a:1/x", silent)) for _ in range(CALLERS_OF_AUTHORITY_MAX)
    ]
    for caller in callers:
        caller.start()
    refused = False
    for _ in range(100_000):
        if files.figures.waiting == CALLERS_OF_AUTHORITY_MAX:
            with pytest.raises(StoreUnavailableError, match="128 requests wait for file systems already"):
                files.run("hdfs://a:1/x", lambda: 1)
            refused = True
            break
    assert refused
    silent.woken.set()
    for caller in callers:
        caller.join(SECONDS_MAX)


def test_one_request_waits_for_few_silent_file_systems(silent: SilentStore) -> None:
    files = RemoteFiles(0.01)
    with no_missed_deadlines() as missed:
        for number in range(2):
            with pytest.raises(StoreUnavailableError, match="did not answer"):
                files.run(f"hdfs://silent:{number}/x", silent)
        assert missed.timeouts == 2
        with pytest.raises(StoreUnavailableError, match="waited for 2 file systems in vain"):
            files.run("hdfs://silent:3/x", silent)
    assert files.run("hdfs://silent:4/x", lambda: 1) == 1


@pytest.mark.parametrize("other", ["hdfs://a:1/w/t", "hdfs://a:1/w/t/p=1", "hdfs://a:1/w/", "hdfs://a:1//w//t/"])
def test_a_late_deletion_blocks_its_directory_until_it_ends(silent: SilentStore, other: str) -> None:
    clock = FixedClock()
    files = RemoteFiles(0.02, clock=clock)
    with pytest.raises(StoreUnavailableError, match="the change may still be made"):
        files.run("hdfs://a:1/w/t", silent, changes=True)
    clock.now += SUSPENDED_SECONDS + 1
    with pytest.raises(StoreUnavailableError, match="an earlier operation on hdfs://a:1/w/t has not ended"):
        files.run(other, lambda: 1)
    with pytest.raises(StoreUnavailableError, match="has not ended"):
        files.check_free(other)
    assert files.run("hdfs://a:1/w/t2", lambda: 1) == 1
    silent.woken.set()
    _wait_for_the_end(files)
    assert files.run(other, lambda: 1) == 1


def _wait_for_the_end(files: RemoteFiles) -> None:
    """Wait until all operations that timed out have ended."""
    for thread in threading.enumerate():
        if thread.name.startswith("store "):
            thread.join(SECONDS_MAX)
    assert files.figures.given_up == 0
