"""A worker with real tables and a scheduler that loses connections, restarts, and reassigns tasks."""

import itertools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from interbed.catalog.client.api import Catalog
from interbed.catalog.client.factory import open_catalog
from interbed.optimizer.flow.process import (
    NoSchedulerError,
    Process,
    ProcessState,
    ResultStatus,
    TaskAssignment,
    TaskOutcome,
    TaskRef,
    WorkerRefusedError,
)
from interbed.optimizer.flow.tables import ResourceGroup
from interbed.optimizer.journal.api import MemoryJournal
from interbed.optimizer.scheduling.engine import Engine
from interbed.optimizer.scheduling.needs import SchedulerSettings
from interbed.optimizer.scheduling.scheduler import Scheduler
from interbed.optimizer.service import worker as module
from interbed.optimizer.service.port import CatalogForWorkers, SchedulerCalls, WorkerPort
from interbed.optimizer.service.scheduler_client import SchedulerClient
from interbed.optimizer.service.service import Leadership
from interbed.optimizer.service.worker import OptimizerWorker, WorkerSettings
from interbed.optimizer.watch import FilesWatch, SnapshotSweep
from interbed.optimizer.work.lake_tables import LakeTables, carry_out
from interbed.optimizer.work.lake_tables import delete_result as delete
from tests.optimizer.service import lake
from tests.optimizer.service.processes import until
from tests.support.waits import at_most

pytestmark = pytest.mark.integration

LEASE = 3_000
SETTINGS = SchedulerSettings(lease=LEASE, pause_first=100, orphans_interval=None)


class WorkerHarness:
    """A scheduler with its engine and a port; the test makes the steps and sets the clock."""

    def __init__(self, catalog: Catalog) -> None:
        self.now = 1_000_000
        self.catalog = catalog
        self.journal = MemoryJournal()
        self.leadership = Leadership()
        self.ended: list[Process] = []
        self.calls = SchedulerCalls(self.leadership, CatalogForWorkers.of("lake", catalog.options.raw), LEASE)
        self.port = WorkerPort("127.0.0.1", 0, self.calls)
        self.engine = self.restart()

    def restart(self) -> Engine:
        """Start a scheduler that resumes from the journal."""
        lease = self.journal.acquire("me", self.now, self.now + LEASE)
        assert lease is not None
        numbers = itertools.count(lease.number * 1000)
        sweep = SnapshotSweep(self.clock)
        scheduler = Scheduler(
            self.journal,
            lease,
            {"default": ResourceGroup()},
            SETTINGS,
            clock=self.clock,
            new_id=lambda: f"process-{next(numbers)}",
        )
        self.engine = Engine(
            scheduler,
            LakeTables(self.catalog, sweep.remember),
            FilesWatch(self.catalog, sweep, self.clock),
            clock=self.clock,
            lock=self.leadership.lock,
            on_ended=self.ended.append,
        )
        self.leadership.begin(scheduler)
        return self.engine

    def clock(self) -> int:
        return self.now

    def is_done(self) -> bool:
        """Return whether each table was compacted, and no process runs."""
        compacted = {p.table for p in self.ended if p.kind.is_compaction and p.state is ProcessState.SUCCEEDED}
        return compacted == set(lake.TABLES) and not self.leadership.ask(lambda s: s.processes())

    def steps_until(self, condition: Callable[[], bool], what: str) -> None:
        def step() -> bool:
            self.engine.step()
            return condition()

        until(step, what)

    @contextmanager
    def worker(self, **settings: Any) -> Iterator[OptimizerWorker]:
        """Run a worker in a thread of this process."""
        with closing(SchedulerClient(self.port.uri)) as client:
            made = OptimizerWorker(client, opened, WorkerSettings(place="here:1", **settings))
            thread = threading.Thread(target=made.run, name="worker")
            thread.start()
            try:
                yield made
            finally:
                made.stop()
                thread.join(at_most(30))
                assert not thread.is_alive()


def opened(name: str, options: Mapping[str, str]) -> Catalog:
    return open_catalog(name, options)


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[WorkerHarness]:
    with open_catalog("lake", {"warehouse": str(tmp_path)}) as catalog:
        lake.make_tables(catalog)
        for number in range(8):
            lake.write_round(catalog, number)
        made = WorkerHarness(catalog)
        yield made
        made.port.close()


class BlockingHook:
    """Wrapper of a function of the worker; the first call waits until the test releases it."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self.reached, self.go_on = threading.Event(), threading.Event()
        self.refs: list[TaskRef] = []

    def __call__(self, catalog: Catalog, assignment: TaskAssignment, **more: Any) -> Any:
        self.refs.append(assignment.ref)
        found = self._function(catalog, assignment, **more)
        if not self.reached.is_set():
            self.reached.set()
            assert self.go_on.wait(at_most(30))
        return found


def test_files_of_a_superseded_result_are_deleted(harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    hook, taken_back = BlockingHook(carry_out), []
    monkeypatch.setattr(module, "carry_out", hook)

    def delete_result(catalog: Catalog, assignment: TaskAssignment, outcome: TaskOutcome) -> None:
        delete(catalog, assignment, outcome)
        taken_back.append((assignment.ref, outcome))

    monkeypatch.setattr(module, "delete_result", delete_result)
    with harness.worker():
        harness.steps_until(hook.reached.is_set, "a task was carried out")
        (running,) = harness.leadership.ask(lambda s: s.workers())
        assert running.running == 1
        # It sent no heartbeat for longer than its lease, and the task waits again.
        harness.now += LEASE + 1
        harness.engine.step()
        harness.leadership.ask(lambda s: s.register("default", 1, 1, "there:2"))
        hook.go_on.set()
        until(lambda: len(taken_back) == 1, "the files were deleted")
        harness.steps_until(harness.is_done, "all tables were compacted")
    assert taken_back[0][1].figures.files_out
    lake.check_rows(harness.catalog, 8)


def test_a_result_delivered_during_a_heartbeat_is_not_reported_as_lost(
    harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    hook, spoken_of = BlockingHook(carry_out), threading.Event()
    monkeypatch.setattr(module, "carry_out", hook)
    beat = SchedulerClient.beat

    def late(self: SchedulerClient, worker_id: str, running: Sequence[TaskRef]) -> list[TaskRef]:
        """Deliver the heartbeat only after the process of the task has ended."""
        if running and not spoken_of.is_set():
            hook.go_on.set()
            until(lambda: running[0].process in {process.id for process in harness.ended}, "the process has ended")
            found = beat(self, worker_id, running)
            assert found == list(running)
            spoken_of.set()
            return found
        return beat(self, worker_id, running)

    monkeypatch.setattr(SchedulerClient, "beat", late)
    with harness.worker():
        harness.steps_until(spoken_of.is_set, "a task was spoken of when its process had ended")
        harness.steps_until(harness.is_done, "all tables were compacted")
    assert not [record for record in caplog.messages if "will be refused" in record]


def test_a_worker_continues_after_a_restart_of_the_scheduler(
    harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = BlockingHook(carry_out)
    monkeypatch.setattr(module, "carry_out", hook)
    with harness.worker():
        harness.steps_until(hook.reached.is_set, "a task was carried out")
        harness.leadership.end()
        hook.go_on.set()
        harness.restart()
        harness.steps_until(harness.is_done, "all tables were compacted")
    assert {process.state.value for process in harness.ended} == {"succeeded"}
    lake.check_rows(harness.catalog, 8)
    lake.check_shape(harness.catalog)


@pytest.mark.long
def test_a_result_is_sent_until_it_is_answered(harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[ResultStatus | None] = []
    complete = SchedulerClient.complete

    def losing(self: SchedulerClient, ref: TaskRef, outcome: TaskOutcome) -> ResultStatus:
        """Lose the first answer and the second request."""
        if len(answers) == 0:
            answers.append(complete(self, ref, outcome))
            raise NoSchedulerError("lost")
        if len(answers) == 1:
            answers.append(None)
            raise NoSchedulerError("lost")
        answers.append(complete(self, ref, outcome))
        return answers[-1] or ResultStatus.UNKNOWN

    monkeypatch.setattr(SchedulerClient, "complete", losing)
    with harness.worker():
        harness.steps_until(lambda: len(answers) >= 1, "a task was completed")
        until(lambda: len(answers) >= 3, "the verdict has come")
        harness.steps_until(harness.is_done, "all tables were compacted")
    assert answers[0] is ResultStatus.ACCEPTED
    lake.check_rows(harness.catalog, 8)
    lake.check_shape(harness.catalog)


def test_a_failed_task_is_reported_with_its_error(harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(catalog: Catalog, assignment: TaskAssignment, *, memory: int) -> TaskOutcome:
        raise ValueError("the disk is made of cheese")

    monkeypatch.setattr(module, "carry_out", broken)
    with harness.worker(threads=2):
        harness.steps_until(lambda: len(harness.ended) >= len(lake.TABLES), "all processes have ended")
    assert {process.failure for process in harness.ended} == {"ValueError: the disk is made of cheese"}
    assert {process.state.value for process in harness.ended} == {"failed"}


def test_a_worker_that_is_stopped_finishes_its_running_tasks(
    harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = BlockingHook(carry_out)
    monkeypatch.setattr(module, "carry_out", hook)
    with harness.worker() as worker:
        harness.steps_until(hook.reached.is_set, "a task was carried out")
        worker.stop()
        hook.go_on.set()
        until(lambda: not harness.leadership.ask(lambda s: s.workers()), "the worker has left")
    with harness.worker():
        harness.steps_until(harness.is_done, "all tables were compacted")
    assert {ref.attempt for ref in hook.refs} == {1}
    lake.check_rows(harness.catalog, 8)


@pytest.mark.long
def test_a_worker_stopped_without_a_grace_period_leaves_its_tasks_to_others(
    harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = BlockingHook(carry_out)
    monkeypatch.setattr(module, "carry_out", hook)
    with harness.worker(drain_seconds=0) as worker:
        harness.steps_until(hook.reached.is_set, "a task was carried out")
        worker.stop()
        until(lambda: not harness.leadership.ask(lambda s: s.workers()), "the worker has left")
    hook.go_on.set()
    with harness.worker():
        harness.steps_until(harness.is_done, "all tables were compacted")
    lake.check_rows(harness.catalog, 8)


def test_a_worker_of_an_unknown_group_ends_with_the_reason(harness: WorkerHarness) -> None:
    with closing(SchedulerClient(harness.port.uri)) as client:
        worker = OptimizerWorker(client, opened, WorkerSettings(group="night"))
        with pytest.raises(WorkerRefusedError, match="no group 'night'"):
            worker.run()


def test_a_worker_can_end_when_it_is_idle(harness: WorkerHarness) -> None:
    with closing(SchedulerClient(harness.port.uri)) as client:
        worker = OptimizerWorker(client, opened, WorkerSettings(place="here:1", idle_seconds=0.3))
        thread = threading.Thread(target=worker.run, name="worker")
        thread.start()
        harness.steps_until(harness.is_done, "all tables were compacted")
        thread.join(at_most(30))
        assert not thread.is_alive()
    assert not harness.leadership.ask(lambda s: s.workers())
