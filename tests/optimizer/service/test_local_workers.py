"""Local workers of an optimizer: their number, and the end of all of them."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import psutil
import pytest

from interbed.optimizer.flow.tables import ResourceGroup
from interbed.optimizer.service.local_workers import LocalWorkers
from tests.optimizer.service.processes import DEADLINE_SECONDS, is_alive, until

NOBODY = "thrift://127.0.0.1:9"
GROUP = ResourceGroup(workers=2)
PARENT = """
import sys, time
from interbed.optimizer.flow.tables import ResourceGroup
from interbed.optimizer.service.local_workers import LocalWorkers
workers = LocalWorkers("thrift://127.0.0.1:9", {"warehouse": "/tmp", "s3.secret-key": "hidden"})
workers.reconcile({"default": ResourceGroup(workers=2)})
print(*workers.process_ids, flush=True)
sys.stdin.read()
"""


class ManualClock:
    """Seconds that the test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@contextmanager
def kept(clock: ManualClock) -> Iterator[LocalWorkers]:
    workers = LocalWorkers(NOBODY, {"warehouse": "/tmp"}, log_level="ERROR", clock=clock)
    try:
        yield workers
    finally:
        workers.end()


def kill(workers: LocalWorkers, number: int) -> str:
    """Kill a worker and wait until the exit is noticed; return its place."""
    pid = workers.process_ids[number]
    os.kill(pid, signal.SIGKILL)
    until(lambda: psutil.Process(pid).status() == psutil.STATUS_ZOMBIE, "the worker is dead")
    return str(pid)


def test_a_killed_worker_is_restarted_after_a_growing_pause(clock: ManualClock) -> None:
    with kept(clock) as workers:
        assert workers.reconcile({"default": GROUP}) == []
        first = set(workers.process_ids)
        assert len(first) == 2
        pid = kill(workers, 0)
        (ended,) = workers.reconcile({"default": GROUP})
        assert ended.rpartition(":")[2] == pid
        assert len(workers.process_ids) == 1
        clock.now += 1
        workers.reconcile({"default": GROUP})
        assert len(workers.process_ids) == 2
        kill(workers, 1)
        workers.reconcile({"default": GROUP})
        clock.now += 1
        workers.reconcile({"default": GROUP})
        assert len(workers.process_ids) == 1
        clock.now += 60
        workers.reconcile({"default": GROUP})
        clock.now += 60
        kill(workers, 0)
        workers.reconcile({"default": GROUP})
        # It lived long enough for a restart without a pause.
        assert len(workers.process_ids) == 2


def test_changed_and_removed_groups_end_their_workers(clock: ManualClock) -> None:
    with kept(clock) as workers:
        groups = {"default": GROUP, "night": replace(GROUP, name="night", workers=1)}
        workers.reconcile(groups)
        assert len(workers.process_ids) == 3
        workers.reconcile({"default": replace(GROUP, workers=1)})
        until(
            lambda: not workers.reconcile({"default": replace(GROUP, workers=1)}) and len(workers.process_ids) == 1,
            "one",
        )
        (before,) = workers.process_ids
        changed = {"default": replace(GROUP, workers=1, threads=3)}
        workers.reconcile(changed)
        assert len(workers.process_ids) == 2
        until(lambda: not workers.reconcile(changed) and len(workers.process_ids) == 1, "the one with other threads")
        assert before not in workers.process_ids


def test_local_workers_end_with_their_parent_and_show_no_secrets() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        children = [psutil.Process(int(pid)) for pid in parent.stdout.readline().split()]
        assert len(children) == 2
        assert all(is_alive(child) for child in children)
        assert not any("hidden" in json.dumps(child.cmdline()) for child in children)
        parent.kill()
        parent.wait(DEADLINE_SECONDS)
        until(lambda: not any(is_alive(child) for child in children), "the workers have ended")
