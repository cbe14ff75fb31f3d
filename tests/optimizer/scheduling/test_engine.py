"""The engine: what it does when tables, the journal or the lease fail it."""

import pytest

from interbed.catalog.client.errors import NotAnInterbedTableError
from interbed.optimizer.errors import LeaseLostError, SchedulerEndedError
from interbed.optimizer.flow.process import Process, ProcessState
from interbed.optimizer.flow.tables import ChangedTables
from interbed.optimizer.scheduling.engine import Engine
from interbed.storage.base.errors import (
    CommitConflictError,
    CommitFailedError,
    CommitStateUnknownError,
    StorageAccessError,
)
from tests.optimizer.scheduling.desk import Desk
from tests.optimizer.scheduling.lake import Lake, Worker


class Office:
    """An engine on a lake with one table that is due, and a worker."""

    def __init__(self) -> None:
        self.desk = Desk()
        self.lake = Lake()
        self.lake.create("t")
        for _ in range(9):
            self.lake.write("t", 1)
        self.ended: list[Process] = []
        self.moves_in()

    def moves_in(self) -> None:
        """The engine of the scheduler that has the lease."""
        self.engine = Engine(
            self.desk.scheduler,
            self.lake,
            self.lake.watch(),
            clock=lambda: self.desk.now,
            on_ended=self.ended.append,
        )
        self.worker = Worker(self.lake, self.desk.worker(threads=9).id)

    def work(self) -> None:
        """A process is planned, and its tasks are done."""
        self.engine.step()
        for assignment in self.desk.scheduler.poll(self.worker.id, 9):
            attempt = self.worker.begin(assignment)
            attempt.deliver(self.desk.scheduler)

    def steps(self, seconds: int) -> None:
        """A step each second."""
        for _ in range(seconds):
            self.desk.now += 1_000
            self.desk.scheduler.beat(self.worker.id, ())
            self.engine.step()


def test_a_table_that_is_due_is_compacted_and_nothing_is_left_over() -> None:
    office = Office()
    office.work()
    office.engine.step()
    [process] = office.ended
    assert (process.state, process.snapshot_id) == (ProcessState.SUCCEEDED, 10)
    table = office.lake.tables["t"]
    assert len(table.newest.files) == 3
    assert (table.marks, table.unnamed()) == (set(), set())


def test_a_commit_that_is_known_to_have_failed_is_tried_again_after_a_pause() -> None:
    office = Office()
    office.work()
    office.lake.commits += [CommitFailedError("lost"), StorageAccessError("no network")]
    office.engine.step()
    assert not office.engine.step()
    office.steps(1)
    assert office.ended == []
    office.steps(2)
    assert [p.state for p in office.ended] == [ProcessState.SUCCEEDED]


def test_a_commit_is_given_up_after_so_many_times_and_its_files_go_when_it_is_certain_that_it_was_none() -> None:
    office = Office()
    office.work()
    office.lake.commits += [CommitFailedError("lost")] * 99
    office.steps(128)
    assert [p.state for p in office.ended] == [ProcessState.FAILED]
    assert office.lake.tables["t"].unnamed() == set()


@pytest.mark.parametrize("is_made", [True, False])
def test_the_files_of_a_commit_that_may_have_been_made_stay_when_another_comes_first(is_made: bool) -> None:
    office = Office()
    office.work()
    office.lake.commits += [CommitStateUnknownError("?")]
    office.lake.unknown_ones_are_made = is_made
    office.engine.step()
    office.lake.overwrite("t")
    office.steps(1)
    [process] = office.ended
    table = office.lake.tables["t"]
    assert process.state is (ProcessState.SUCCEEDED if is_made else ProcessState.GAVE_WAY)
    assert len(table.unnamed()) == (0 if is_made else 3)
    assert table.marks == set()


def test_a_commit_that_gave_way_leaves_nothing() -> None:
    office = Office()
    office.work()
    office.lake.overwrite("t")
    office.engine.step()
    assert [p.state for p in office.ended] == [ProcessState.GAVE_WAY]
    assert office.lake.tables["t"].unnamed() == set()


def test_what_an_earlier_scheduler_may_have_committed_stays_when_another_comes_first() -> None:
    office = Office()
    office.work()
    office.desk.takes_over()
    office.lake.overwrite("t")
    office.moves_in()
    office.engine.step()
    assert [p.state for p in office.ended] == [ProcessState.GAVE_WAY]
    assert len(office.lake.tables["t"].unnamed()) == 3


def test_a_cleaning_up_that_fails_is_tried_again_after_a_pause_and_given_up_some_time() -> None:
    office = Office()
    office.work()
    office.lake.ends_fail = True
    office.steps(100)
    tried = office.lake.ends_tried
    assert 5 <= tried <= 8
    office.lake.ends_fail = False
    office.steps(128)
    assert [p.state for p in office.ended] == [ProcessState.SUCCEEDED]
    assert office.lake.tables["t"].marks == set()


def test_a_cleaning_up_that_always_fails_does_not_keep_its_table_for_ever() -> None:
    office = Office()
    office.work()
    office.lake.ends_fail = True
    office.steps(1_800)
    assert [p.state for p in office.ended] == [ProcessState.SUCCEEDED]


@pytest.mark.parametrize("stage", ["begun", "worked"])
def test_a_process_of_a_table_that_is_one_of_interbed_no_more_ends(stage: str) -> None:
    office = Office()
    if stage == "worked":
        office.work()
    else:
        office.engine.step()
    office.lake.refuses["t"] = NotAnInterbedTableError("Another format's.")
    office.lake.changed.add("t")
    office.steps(2)
    [process] = office.ended
    assert process.state is ProcessState.CANCELLED
    assert office.desk.scheduler.tables() == []


@pytest.mark.parametrize("worker_asks", [False, True])
def test_a_mark_that_is_set_after_another_scheduler_has_taken_over_is_taken_back(worker_asks: bool) -> None:
    office = Office()
    old, old_scheduler = office.engine, office.desk.scheduler

    def overtake() -> None:
        office.desk.takes_over()
        office.moves_in()
        office.engine.step()
        if worker_asks:
            # A call of a worker's that waited while the process hung is what learns first that it schedules no more.
            with pytest.raises(LeaseLostError):
                old_scheduler.register("default", 1, 0, "late:1")

    office.lake.before["plan"] = overtake
    with pytest.raises(SchedulerEndedError if worker_asks else LeaseLostError):
        old.step()
    assert [p.state for p in office.ended] == [ProcessState.FAILED]
    assert office.lake.tables["t"].marks == set()


def test_the_lease_is_kept_while_a_step_takes_long() -> None:
    office = Office()
    for number in range(20):
        office.lake.create(f"t{number}")

    def slow() -> None:
        office.desk.now += 10_000

    office.lake.each_measurement = slow
    office.engine.step()
    held = office.desk.journal.holder()
    assert held is not None
    assert held.until_millis > office.desk.now


def test_a_watch_that_fails_keeps_nothing_else_from_being_done() -> None:
    office = Office()
    office.work()

    class Blind:
        def changes(self) -> ChangedTables:
            raise StorageAccessError("no network")

    engine = Engine(office.desk.scheduler, office.lake, Blind(), clock=lambda: office.desk.now)
    engine.step()
    assert office.desk.scheduler.processes() == []


def test_a_table_that_cannot_be_planned_is_left_alone_for_a_while() -> None:
    office = Office()
    office.lake.plans_fail = True
    office.engine.step()
    office.lake.plans_fail = False
    office.steps(58)
    assert [p.state for p in office.ended] == [ProcessState.FAILED]
    assert office.desk.scheduler.processes() == []
    office.steps(3)
    assert len(office.desk.scheduler.processes()) == 1


def test_conflicts_are_known_from_other_errors() -> None:
    office = Office()
    office.work()
    office.lake.commits += [CommitConflictError("Another was first.")]
    office.engine.step()
    assert [(p.state, p.failure) for p in office.ended] == [(ProcessState.GAVE_WAY, "Another was first.")]


def test_a_table_whose_name_the_journal_can_not_hold_keeps_no_other_from_its_turn(
    caplog: pytest.LogCaptureFixture,
) -> None:
    office = Office()
    office.lake.create("t" * 600)
    office.work()
    office.steps(3)
    assert [(p.table, p.state) for p in office.ended] == [("t", ProcessState.SUCCEEDED)]
    assert [t.name for t in office.desk.scheduler.tables()] == ["t"]
    assert caplog.text.count("takes at most 512") == 1
