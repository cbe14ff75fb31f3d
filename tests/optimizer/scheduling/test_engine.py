"""The engine: its behaviour when tables, the journal or the lease fail."""

import pytest

from interbed.catalog.client.errors import NotAnInterbedTableError
from interbed.optimizer.flow.process import LeaseLostError, Process, ProcessState, SchedulerEndedError
from interbed.optimizer.flow.tables import ChangedTables
from interbed.optimizer.scheduling.engine import Engine
from interbed.storage.base.errors import (
    CommitConflictError,
    CommitFailedError,
    CommitStateUnknownError,
    StorageAccessError,
)
from tests.optimizer.scheduling.lake import InMemoryLake, Worker
from tests.optimizer.scheduling.scheduler_harness import SchedulerHarness


class EngineHarness:
    """An engine on a lake with one due table, and a worker."""

    def __init__(self) -> None:
        self.harness = SchedulerHarness()
        self.lake = InMemoryLake()
        self.lake.create("t")
        for _ in range(9):
            self.lake.write("t", 1)
        self.ended: list[Process] = []
        self.start_engine()

    def start_engine(self) -> None:
        """Start the engine of the scheduler that has the lease."""
        self.engine = Engine(
            self.harness.scheduler,
            self.lake,
            self.lake.watch(),
            clock=lambda: self.harness.now,
            on_ended=self.ended.append,
        )
        self.worker = Worker(self.lake, self.harness.worker(threads=9).id)

    def work(self) -> None:
        """Plan a process and carry out its tasks."""
        self.engine.step()
        for assignment in self.harness.scheduler.poll(self.worker.id, 9):
            attempt = self.worker.begin(assignment)
            attempt.deliver(self.harness.scheduler)

    def steps(self, seconds: int) -> None:
        """Make one step each second."""
        for _ in range(seconds):
            self.harness.now += 1_000
            self.harness.scheduler.beat(self.worker.id, ())
            self.engine.step()


def test_a_due_table_is_compacted_and_no_files_are_left_behind() -> None:
    setup = EngineHarness()
    setup.work()
    setup.engine.step()
    [process] = setup.ended
    assert (process.state, process.snapshot_id) == (ProcessState.SUCCEEDED, 10)
    table = setup.lake.tables["t"]
    assert len(table.newest.files) == 3
    assert (table.marks, table.unnamed()) == (set(), set())


def test_a_failed_commit_is_retried_after_a_pause() -> None:
    setup = EngineHarness()
    setup.work()
    setup.lake.commits += [CommitFailedError("lost"), StorageAccessError("no network")]
    setup.engine.step()
    assert not setup.engine.step()
    setup.steps(1)
    assert setup.ended == []
    setup.steps(2)
    assert [p.state for p in setup.ended] == [ProcessState.SUCCEEDED]


def test_files_of_a_commit_that_failed_for_certain_are_deleted_after_the_last_retry() -> None:
    setup = EngineHarness()
    setup.work()
    setup.lake.commits += [CommitFailedError("lost")] * 99
    setup.steps(128)
    assert [p.state for p in setup.ended] == [ProcessState.FAILED]
    assert setup.lake.tables["t"].unnamed() == set()


@pytest.mark.parametrize("is_made", [True, False])
def test_files_of_a_commit_with_an_unknown_outcome_are_kept_after_a_conflict(is_made: bool) -> None:
    setup = EngineHarness()
    setup.work()
    setup.lake.commits += [CommitStateUnknownError("?")]
    setup.lake.unknown_ones_are_made = is_made
    setup.engine.step()
    setup.lake.overwrite("t")
    setup.steps(1)
    [process] = setup.ended
    table = setup.lake.tables["t"]
    assert process.state is (ProcessState.SUCCEEDED if is_made else ProcessState.GAVE_WAY)
    assert len(table.unnamed()) == (0 if is_made else 3)
    assert table.marks == set()


def test_a_commit_that_gave_way_leaves_no_files() -> None:
    setup = EngineHarness()
    setup.work()
    setup.lake.overwrite("t")
    setup.engine.step()
    assert [p.state for p in setup.ended] == [ProcessState.GAVE_WAY]
    assert setup.lake.tables["t"].unnamed() == set()


def test_files_that_a_predecessor_may_have_committed_are_kept_after_a_conflict() -> None:
    setup = EngineHarness()
    setup.work()
    setup.harness.take_over()
    setup.lake.overwrite("t")
    setup.start_engine()
    setup.engine.step()
    assert [p.state for p in setup.ended] == [ProcessState.GAVE_WAY]
    assert len(setup.lake.tables["t"].unnamed()) == 3


def test_a_failed_cleanup_is_retried_after_a_pause_and_finally_given_up() -> None:
    setup = EngineHarness()
    setup.work()
    setup.lake.ends_fail = True
    setup.steps(100)
    tried = setup.lake.ends_tried
    assert 5 <= tried <= 8
    setup.lake.ends_fail = False
    setup.steps(128)
    assert [p.state for p in setup.ended] == [ProcessState.SUCCEEDED]
    assert setup.lake.tables["t"].marks == set()


def test_a_table_is_scheduled_again_after_its_cleanup_was_given_up() -> None:
    setup = EngineHarness()
    setup.work()
    setup.lake.ends_fail = True
    setup.steps(1_800)
    assert [p.state for p in setup.ended] == [ProcessState.SUCCEEDED]


@pytest.mark.parametrize("stage", ["begun", "worked"])
def test_a_process_ends_when_its_table_is_no_longer_one_of_interbed(stage: str) -> None:
    setup = EngineHarness()
    if stage == "worked":
        setup.work()
    else:
        setup.engine.step()
    setup.lake.refuses["t"] = NotAnInterbedTableError("Another format's.")
    setup.lake.changed.add("t")
    setup.steps(2)
    [process] = setup.ended
    assert process.state is ProcessState.CANCELLED
    assert setup.harness.scheduler.tables() == []


@pytest.mark.parametrize("worker_asks", [False, True])
def test_a_mark_set_after_the_loss_of_the_lease_is_deleted(worker_asks: bool) -> None:
    setup = EngineHarness()
    old, old_scheduler = setup.engine, setup.harness.scheduler

    def overtake() -> None:
        setup.harness.take_over()
        setup.start_engine()
        setup.engine.step()
        if worker_asks:
            # A waiting call of a worker is the first to learn that this process has lost the lease, after the process
            # hung.
            with pytest.raises(LeaseLostError):
                old_scheduler.register("default", 1, 0, "late:1")

    setup.lake.before["plan"] = overtake
    with pytest.raises(SchedulerEndedError if worker_asks else LeaseLostError):
        old.step()
    assert [p.state for p in setup.ended] == [ProcessState.FAILED]
    assert setup.lake.tables["t"].marks == set()


def test_the_lease_is_renewed_during_a_long_step() -> None:
    setup = EngineHarness()
    for number in range(20):
        setup.lake.create(f"t{number}")

    def slow() -> None:
        setup.harness.now += 10_000

    setup.lake.each_measurement = slow
    setup.engine.step()
    held = setup.harness.journal.holder()
    assert held is not None
    assert held.until_millis > setup.harness.now


def test_a_failing_watch_does_not_stop_other_work() -> None:
    setup = EngineHarness()
    setup.work()

    class FailingWatch:
        def changes(self) -> ChangedTables:
            raise StorageAccessError("no network")

    engine = Engine(setup.harness.scheduler, setup.lake, FailingWatch(), clock=lambda: setup.harness.now)
    engine.step()
    assert setup.harness.scheduler.processes() == []


def test_a_table_that_cannot_be_planned_is_retried_after_a_pause() -> None:
    setup = EngineHarness()
    setup.lake.plans_fail = True
    setup.engine.step()
    setup.lake.plans_fail = False
    setup.steps(58)
    assert [p.state for p in setup.ended] == [ProcessState.FAILED]
    assert setup.harness.scheduler.processes() == []
    setup.steps(3)
    assert len(setup.harness.scheduler.processes()) == 1


def test_conflicts_are_distinguished_from_other_errors() -> None:
    setup = EngineHarness()
    setup.work()
    setup.lake.commits += [CommitConflictError("Another was first.")]
    setup.engine.step()
    assert [(p.state, p.failure) for p in setup.ended] == [(ProcessState.GAVE_WAY, "Another was first.")]


def test_a_table_name_too_long_for_the_journal_does_not_block_other_tables(
    caplog: pytest.LogCaptureFixture,
) -> None:
    setup = EngineHarness()
    setup.lake.create("t" * 600)
    setup.work()
    setup.steps(3)
    assert [(p.table, p.state) for p in setup.ended] == [("t", ProcessState.SUCCEEDED)]
    assert [t.name for t in setup.harness.scheduler.tables()] == ["t"]
    assert caplog.text.count("takes at most 512") == 1
