"""A worker against a scheduler that loses connections, restarts, and gives its tasks to others; tables are real."""

import itertools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from interbed.catalog.client.api import Catalog
from interbed.catalog.client.factory import open_catalog
from interbed.optimizer.errors import NoSchedulerError, WorkerRefusedError
from interbed.optimizer.flow.group import ResourceGroup
from interbed.optimizer.flow.process import Process, ProcessState, ResultStatus, TaskAssignment, TaskOutcome, TaskRef
from interbed.optimizer.journal.api import MemoryJournal
from interbed.optimizer.scheduling.engine import Engine
from interbed.optimizer.scheduling.scheduler import Scheduler
from interbed.optimizer.scheduling.settings import SchedulerSettings
from interbed.optimizer.service import worker as module
from interbed.optimizer.service.leadership import Leadership
from interbed.optimizer.service.port import CatalogForWorkers, SchedulerCalls, WorkerPort
from interbed.optimizer.service.scheduler_client import SchedulerClient
from interbed.optimizer.service.worker import OptimizerWorker, WorkerSettings
from interbed.optimizer.watch import FilesWatch, SnapshotSweep
from interbed.optimizer.work.lake_tables import LakeTables, carry_out
from interbed.optimizer.work.lake_tables import delete_result as delete
from tests.optimizer.service import lake
from tests.optimizer.service.processes import until

pytestmark = pytest.mark.integration

LEASE = 3_000
SETTINGS = SchedulerSettings(lease=LEASE, pause_first=100, orphans_interval=None)


class Bench:
    """A scheduler with its engine, whose steps a test takes, and a port; time is what the test says."""

    def __init__(self, catalog: Catalog) -> None:
        self.now = 1_000_000
        self.catalog = catalog
        self.journal = MemoryJournal()
        self.leadership = Leadership()
        self.ended: list[Process] = []
        self.calls = SchedulerCalls(self.leadership, CatalogForWorkers.of("lake", catalog.options.raw), LEASE)
        self.port = WorkerPort("127.0.0.1", 0, self.calls)
        self.engine = self.restarted()

    def restarted(self) -> Engine:
        """A scheduler that goes on from the journal."""
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
        """Whether each table was compacted, and nothing runs."""
        compacted = {p.table for p in self.ended if p.kind.is_compaction and p.state is ProcessState.SUCCEEDED}
        return compacted == set(lake.TABLES) and not self.leadership.ask(lambda s: s.processes())

    def steps_until(self, condition: Callable[[], bool], what: str) -> None:
        def step() -> bool:
            self.engine.step()
            return condition()

        until(step, what)

    @contextmanager
    def worker(self, **settings: Any) -> Iterator[OptimizerWorker]:
        """A worker in a thread of this process."""
        with closing(SchedulerClient(self.port.uri)) as client:
            made = OptimizerWorker(client, opened, WorkerSettings(place="here:1", **settings))
            thread = threading.Thread(target=made.run, name="worker")
            thread.start()
            try:
                yield made
            finally:
                made.stop()
                thread.join(30)
                assert not thread.is_alive()


def opened(name: str, options: Mapping[str, str]) -> Catalog:
    return open_catalog(name, options)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with open_catalog("lake", {"warehouse": str(tmp_path)}) as catalog:
        lake.make_tables(catalog)
        for number in range(8):
            lake.write_round(catalog, number)
        made = Bench(catalog)
        yield made
        made.port.close()


class Hook:
    """Stands before a function of the worker; the first call waits until it is told to go on."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self.reached, self.go_on = threading.Event(), threading.Event()
        self.refs: list[TaskRef] = []

    def __call__(self, catalog: Catalog, assignment: TaskAssignment, **more: Any) -> Any:
        self.refs.append(assignment.ref)
        found = self._function(catalog, assignment, **more)
        if not self.reached.is_set():
            self.reached.set()
            assert self.go_on.wait(30)
        return found


def test_a_result_that_was_superseded_is_taken_back(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    hook, taken_back = Hook(carry_out), []
    monkeypatch.setattr(module, "carry_out", hook)

    def delete_result(catalog: Catalog, assignment: TaskAssignment, outcome: TaskOutcome) -> None:
        delete(catalog, assignment, outcome)
        taken_back.append((assignment.ref, outcome))

    monkeypatch.setattr(module, "delete_result", delete_result)
    with bench.worker():
        bench.steps_until(hook.reached.is_set, "a task was carried out")
        (running,) = bench.leadership.ask(lambda s: s.workers())
        assert running.running == 1
        # It did not say anything for longer than its lease, and the task waits again.
        bench.now += LEASE + 1
        bench.engine.step()
        bench.leadership.ask(lambda s: s.register("default", 1, 1, "there:2"))
        hook.go_on.set()
        until(lambda: len(taken_back) == 1, "the files were deleted")
        bench.steps_until(bench.is_done, "all tables were compacted")
    assert taken_back[0][1].figures.files_out
    lake.check_rows(bench.catalog, 8)


def test_what_was_brought_while_it_was_spoken_of_is_not_said_to_be_lost(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    hook, spoken_of = Hook(carry_out), threading.Event()
    monkeypatch.setattr(module, "carry_out", hook)
    beat = SchedulerClient.beat

    def late(self: SchedulerClient, worker_id: str, running: Sequence[TaskRef]) -> list[TaskRef]:
        """It reaches the scheduler when the process of the task has ended."""
        if running and not spoken_of.is_set():
            hook.go_on.set()
            until(lambda: running[0].process in {process.id for process in bench.ended}, "the process has ended")
            found = beat(self, worker_id, running)
            assert found == list(running)
            spoken_of.set()
            return found
        return beat(self, worker_id, running)

    monkeypatch.setattr(SchedulerClient, "beat", late)
    with bench.worker():
        bench.steps_until(spoken_of.is_set, "a task was spoken of when its process had ended")
        bench.steps_until(bench.is_done, "all tables were compacted")
    assert not [record for record in caplog.messages if "will be refused" in record]


def test_a_worker_goes_on_over_a_scheduler_that_restarts(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    hook = Hook(carry_out)
    monkeypatch.setattr(module, "carry_out", hook)
    with bench.worker():
        bench.steps_until(hook.reached.is_set, "a task was carried out")
        bench.leadership.end()
        hook.go_on.set()
        bench.restarted()
        bench.steps_until(bench.is_done, "all tables were compacted")
    assert {process.state.value for process in bench.ended} == {"succeeded"}
    lake.check_rows(bench.catalog, 8)
    lake.check_shape(bench.catalog)


def test_a_result_is_brought_until_there_is_a_verdict(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[ResultStatus | None] = []
    complete = SchedulerClient.complete

    def losing(self: SchedulerClient, ref: TaskRef, outcome: TaskOutcome) -> ResultStatus:
        """The first answer is lost on its way, the second question, too."""
        if len(told) == 0:
            told.append(complete(self, ref, outcome))
            raise NoSchedulerError("lost")
        if len(told) == 1:
            told.append(None)
            raise NoSchedulerError("lost")
        told.append(complete(self, ref, outcome))
        return told[-1] or ResultStatus.UNKNOWN

    monkeypatch.setattr(SchedulerClient, "complete", losing)
    with bench.worker():
        bench.steps_until(lambda: len(told) >= 1, "a task was completed")
        until(lambda: len(told) >= 3, "the verdict has come")
        bench.steps_until(bench.is_done, "all tables were compacted")
    assert told[0] is ResultStatus.ACCEPTED
    lake.check_rows(bench.catalog, 8)
    lake.check_shape(bench.catalog)


def test_a_task_that_fails_is_told_with_its_error(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(catalog: Catalog, assignment: TaskAssignment, *, memory: int) -> TaskOutcome:
        raise ValueError("the disk is made of cheese")

    monkeypatch.setattr(module, "carry_out", broken)
    with bench.worker(threads=2):
        bench.steps_until(lambda: len(bench.ended) >= len(lake.TABLES), "all processes have ended")
    assert {process.failure for process in bench.ended} == {"ValueError: the disk is made of cheese"}
    assert {process.state.value for process in bench.ended} == {"failed"}


def test_a_worker_that_is_told_to_end_finishes_what_runs(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    hook = Hook(carry_out)
    monkeypatch.setattr(module, "carry_out", hook)
    with bench.worker() as worker:
        bench.steps_until(hook.reached.is_set, "a task was carried out")
        worker.stop()
        hook.go_on.set()
        until(lambda: not bench.leadership.ask(lambda s: s.workers()), "the worker has left")
    with bench.worker():
        bench.steps_until(bench.is_done, "all tables were compacted")
    assert {ref.attempt for ref in hook.refs} == {1}
    lake.check_rows(bench.catalog, 8)


def test_one_that_is_given_no_time_leaves_what_runs_to_others(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    hook = Hook(carry_out)
    monkeypatch.setattr(module, "carry_out", hook)
    with bench.worker(drain_seconds=0) as worker:
        bench.steps_until(hook.reached.is_set, "a task was carried out")
        worker.stop()
        until(lambda: not bench.leadership.ask(lambda s: s.workers()), "the worker has left")
    hook.go_on.set()
    with bench.worker():
        bench.steps_until(bench.is_done, "all tables were compacted")
    lake.check_rows(bench.catalog, 8)


def test_a_worker_of_a_group_that_there_is_not_ends_with_the_reason(bench: Bench) -> None:
    with closing(SchedulerClient(bench.port.uri)) as client:
        worker = OptimizerWorker(client, opened, WorkerSettings(group="night"))
        with pytest.raises(WorkerRefusedError, match="no group 'night'"):
            worker.run()


def test_a_worker_may_end_when_there_is_nothing_to_do(bench: Bench) -> None:
    with closing(SchedulerClient(bench.port.uri)) as client:
        worker = OptimizerWorker(client, opened, WorkerSettings(place="here:1", idle_seconds=0.3))
        thread = threading.Thread(target=worker.run, name="worker")
        thread.start()
        bench.steps_until(bench.is_done, "all tables were compacted")
        thread.join(30)
        assert not thread.is_alive()
    assert not bench.leadership.ask(lambda s: s.workers())
