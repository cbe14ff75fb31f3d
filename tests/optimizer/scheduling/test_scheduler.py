"""The scheduler: from a table that is due to a process that has ended, and what may come in between."""

from interbed.optimizer.flow.kind import WorkKind
from interbed.optimizer.flow.process import Cleanup, ProcessState
from interbed.optimizer.flow.task import Verdict
from tests.optimizer.scheduling.desk import DONE, Desk
from tests.optimizer.scheduling.measured import runs


def test_a_due_table_gets_a_process_whose_results_are_committed_and_cleaned_up_after() -> None:
    desk = Desk()
    worker = desk.worker()
    process = desk.process(number=2)
    first, second = (desk.scheduler.poll(worker.id, 1)[0] for _ in range(2))
    assert desk.scheduler.complete(first.ref, DONE) is Verdict.ACCEPTED
    assert desk.scheduler.to_commit() == []
    desk.now += 3_000
    assert desk.scheduler.complete(second.ref, DONE) is Verdict.ACCEPTED
    [(ready, results)] = desk.scheduler.to_commit()
    assert (ready.id, results) == (process.id, [b"done", b"done"])
    desk.scheduler.committed(process.id, 2)
    [(ending, _)] = desk.scheduler.to_end()
    assert (ending.state, ending.cleanup) == (ProcessState.ENDING, Cleanup.SWEEP)
    ended = desk.scheduler.ended(process.id, runs(2, snapshot_id=2))
    assert (ended.state, ended.snapshot_id, ended.seconds, ended.figures.bytes_in) == (ProcessState.SUCCEEDED, 2, 3, 20)
    assert ended.after is not None
    assert desk.journal.processes("t") == [ended]
    assert desk.journal.tables()[0].needs == ()


def test_a_table_that_comes_again_waits_for_the_process_of_the_one_before() -> None:
    desk = Desk()
    worker = desk.worker(threads=2)
    process = desk.process(number=2)
    [attempt] = desk.scheduler.poll(worker.id, 1)
    desk.scheduler.changed([], gone=["t"])
    assert desk.scheduler.beat(worker.id, [attempt.ref]) == [attempt.ref]
    desk.due("t")
    assert desk.scheduler.begin() is None
    ended = desk.end(process, runs(9))
    assert (ended.state, ended.cleanup) == (ProcessState.CANCELLED, Cleanup.DISCARD)
    assert desk.journal.tables()[0].failures == 0
    begun = desk.scheduler.begin()
    assert begun is not None
    assert begun[0].table == "t"
    assert desk.scheduler.begin() is None


def test_what_is_being_committed_to_a_table_that_is_gone_stays_where_it_is() -> None:
    desk = Desk()
    worker = desk.worker()
    process = desk.process()
    [attempt] = desk.scheduler.poll(worker.id, 1)
    desk.scheduler.complete(attempt.ref, DONE)
    desk.scheduler.changed([], gone=["t"])
    desk.due("t")
    assert desk.scheduler.to_commit() == []
    ended = desk.end(process)
    assert (ended.state, ended.cleanup) == (ProcessState.CANCELLED, Cleanup.LEAVE)
    assert WorkKind.MINOR not in desk.journal.tables()[0].settled


def test_a_process_that_was_never_planned_counts_as_a_failure_of_its_table() -> None:
    desk = Desk()
    desk.worker()
    desk.due("t")
    desk.scheduler.begin()
    desk.takes_over()
    desk.worker()
    [(process, _)] = desk.scheduler.to_end()
    ended = desk.end(process, runs(9))
    assert (ended.state, ended.cleanup) == (ProcessState.FAILED, Cleanup.DISCARD)
    assert desk.scheduler.begin() is None
    desk.now += desk.settings.pause_first
    desk.scheduler.take_unmeasured()
    assert desk.scheduler.begin() is not None
