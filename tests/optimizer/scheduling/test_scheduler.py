"""The scheduler: from a table that is due to a process that has ended, and what may come in between."""

from typing import Any

import pytest

from interbed.optimizer.errors import LeaseLostError, SchedulerEndedError
from interbed.optimizer.flow.group import ResourceGroup
from interbed.optimizer.flow.process import CleanupMode, ProcessState, ResultStatus, TaskOutcome, TaskRef, WorkKind
from interbed.optimizer.flow.tables import RequestKind, TableMeasurement, TableRequest
from interbed.optimizer.scheduling.settings import SchedulerSettings
from interbed.storage.base.errors import InvalidInputError
from tests.optimizer.scheduling.desk import DONE, Desk, tasks
from tests.optimizer.scheduling.measured import measurement, runs


def test_a_due_table_gets_a_process_whose_results_are_committed_and_cleaned_up_after() -> None:
    desk = Desk()
    worker = desk.worker()
    process = desk.process(number=2)
    first, second = (desk.scheduler.poll(worker.id, 1)[0] for _ in range(2))
    assert desk.scheduler.complete(first.ref, DONE) is ResultStatus.ACCEPTED
    assert desk.scheduler.to_commit() == []
    desk.now += 3_000
    assert desk.scheduler.complete(second.ref, DONE) is ResultStatus.ACCEPTED
    [(ready, results)] = desk.scheduler.to_commit()
    assert (ready.id, results) == (process.id, [b"done", b"done"])
    desk.scheduler.committed(process.id, 2)
    [(ending, _)] = desk.scheduler.to_end()
    assert (ending.state, ending.cleanup) == (ProcessState.ENDING, CleanupMode.SWEEP)
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
    desk.scheduler.changed([], removed=["t"])
    assert desk.scheduler.beat(worker.id, [attempt.ref]) == [attempt.ref]
    desk.due("t")
    assert desk.scheduler.begin() is None
    ended = desk.end(process, runs(9))
    assert (ended.state, ended.cleanup) == (ProcessState.CANCELLED, CleanupMode.DISCARD)
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
    desk.scheduler.changed([], removed=["t"])
    desk.due("t")
    assert desk.scheduler.to_commit() == []
    ended = desk.end(process)
    assert (ended.state, ended.cleanup) == (ProcessState.CANCELLED, CleanupMode.LEAVE)
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
    assert (ended.state, ended.cleanup) == (ProcessState.FAILED, CleanupMode.DISCARD)
    assert desk.scheduler.begin() is None
    desk.now += desk.settings.pause_first
    desk.scheduler.take_unmeasured()
    assert desk.scheduler.begin() is not None


def succeeded(desk: Desk, snapshot_id: int | None, kind: WorkKind, found: TableMeasurement) -> None:
    """A process for the table t, as it was found before, has ended with this snapshot."""
    desk.due("t", found)
    begun = desk.scheduler.begin()
    assert begun is not None
    process = begun[0]
    assert process.kind is kind
    desk.scheduler.planned(process.id, tasks(1))
    [attempt] = desk.scheduler.poll(next(iter(desk.scheduler.workers())).id, 1)
    desk.scheduler.complete(attempt.ref, DONE)
    desk.scheduler.committed(process.id, snapshot_id)
    desk.scheduler.ended(process.id, None)


def test_what_another_has_written_during_a_compaction_is_compacted_though_nobody_writes_any_more() -> None:
    desk = Desk()
    desk.worker()
    # The snapshots 2 to 9 are those of a writer.
    succeeded(desk, 10, WorkKind.MINOR, runs(9, snapshot_id=1))
    desk.due("t", runs(8, snapshot_id=10))
    assert desk.scheduler.begin() is not None


def test_a_compaction_that_left_more_runs_than_it_should_is_not_repeated_while_nobody_writes() -> None:
    desk = Desk()
    desk.worker()
    succeeded(desk, 2, WorkKind.MINOR, runs(9, snapshot_id=1))
    desk.due("t", runs(8, snapshot_id=2))
    assert desk.scheduler.begin() is None
    desk.due("t", runs(9, snapshot_id=3))
    assert desk.scheduler.begin() is not None


@pytest.mark.parametrize("due", [{"manifests_due": 3}, {"statistics": (100, 50)}])
def test_upkeep_that_changed_nothing_is_not_repeated_while_nobody_writes(due: dict[str, Any]) -> None:
    desk = Desk()
    desk.worker()
    kind = WorkKind.MANIFESTS if "manifests_due" in due else WorkKind.ANALYZE
    succeeded(desk, None, kind, measurement(**due))
    desk.due("t", measurement(**due))
    assert desk.scheduler.begin() is None
    desk.due("t", measurement(snapshot_id=2, **due))
    assert desk.scheduler.begin() is not None


def test_orphans_are_looked_for_again_though_nobody_has_written() -> None:
    desk = Desk()
    desk.worker()
    desk.due("t", measurement())
    desk.now += 86_400_000
    desk.worker()
    succeeded(desk, None, WorkKind.ORPHANS, measurement())
    desk.now += 86_400_000
    assert desk.scheduler.take_unmeasured() == ["t"]
    desk.due("t", measurement())
    [state] = desk.scheduler.tables()
    assert state.next_need is not None
    assert state.next_need.kind is WorkKind.ORPHANS


def test_a_scheduler_that_was_overtaken_calls_no_attempt_superseded_that_it_did_not_give_out() -> None:
    desk = Desk(settings=SchedulerSettings(task_timeout=1_000))
    old = desk.scheduler
    process = desk.process_given_out()
    new = desk.takes_over()
    worker = desk.worker()
    desk.now += 2_000
    new.expire_leases()
    [second] = new.poll(worker.id, 1)
    assert second.ref == TaskRef(process=process.id, number=0, attempt=2)
    assert new.complete(second.ref, DONE) is ResultStatus.ACCEPTED
    # Its reply was lost, and the worker asks the one that it knew before.
    assert old.complete(second.ref, DONE) is ResultStatus.UNKNOWN


def test_a_scheduler_decides_nothing_more_once_the_journal_has_refused() -> None:
    desk = Desk()
    old = desk.scheduler
    process = desk.process_given_out()
    attempt = TaskRef(process=process.id, number=0, attempt=1)
    desk.takes_over()
    with pytest.raises(LeaseLostError):
        old.complete(attempt, DONE)
    for decide in (lambda: old.complete(attempt, DONE), old.to_commit, old.to_end, old.expire_leases):
        with pytest.raises(SchedulerEndedError):
            decide()


def test_a_paused_table_gets_no_process_but_one_that_is_asked_for_in_the_pause() -> None:
    desk = Desk()
    desk.worker()
    desk.due("t")
    desk.journal.ask(TableRequest(table="t", kind=RequestKind.NOW, work=WorkKind.FULL))
    desk.journal.ask(TableRequest(table="t", kind=RequestKind.PAUSE))
    desk.scheduler.take_requests()
    assert desk.scheduler.begin() is None
    desk.journal.ask(TableRequest(table="t", kind=RequestKind.NOW, work=WorkKind.FULL))
    desk.scheduler.take_requests()
    begun = desk.scheduler.begin()
    assert begun is not None
    assert (begun[0].kind, begun[0].reason) == (WorkKind.FULL, "asked for")
    desk.scheduler.planned(begun[0].id, ())
    desk.end(begun[0], runs(9, snapshot_id=2))
    assert desk.scheduler.begin() is None
    desk.journal.ask(TableRequest(table="t", kind=RequestKind.RESUME))
    desk.scheduler.take_requests()
    assert desk.scheduler.begin() is not None


def test_requests_are_taken_once_and_also_for_a_table_that_is_not_known_yet() -> None:
    desk = Desk()
    desk.worker()
    desk.journal.ask(TableRequest(table="t", kind=RequestKind.NOW, work=WorkKind.ANALYZE))
    desk.scheduler.take_requests()
    assert list(desk.journal.requests()) == []
    desk.takes_over()
    desk.worker()
    assert desk.scheduler.begin() is None
    desk.due("t", measurement())
    begun = desk.scheduler.begin()
    assert begun is not None
    assert begun[0].kind is WorkKind.ANALYZE
    assert desk.scheduler.begin() is None


def test_a_disabled_table_gets_no_process() -> None:
    desk = Desk()
    desk.worker()
    desk.due("t", runs(9, options={"self-optimizing.enabled": "false"}))
    assert desk.scheduler.begin() is None


def test_a_table_is_not_measured_twice_after_a_process() -> None:
    desk = Desk()
    desk.worker()
    desk.due("t")
    begun = desk.scheduler.begin()
    assert begun is not None
    desk.scheduler.planned(begun[0].id, ())
    desk.end(begun[0], runs(2))
    assert desk.scheduler.take_unmeasured() == []


def test_a_table_within_its_share_is_planned_though_others_have_tasks_enough_that_have_used_theirs() -> None:
    desk = Desk({"default": ResourceGroup(window_millis=100_000)})
    worker = desk.worker()
    desk.process("hog", number=9)
    for _ in range(2):
        [attempt] = desk.scheduler.poll(worker.id, 1)
        desk.now += 26_000
        desk.scheduler.complete(attempt.ref, DONE)
    desk.due("modest")
    assert desk.scheduler.poll(worker.id, 1) == []
    begun = desk.scheduler.begin()
    assert begun is not None
    desk.scheduler.planned(begun[0].id, tasks(1))
    assert [attempt.table for attempt in desk.scheduler.poll(worker.id, 2)] == ["modest", "hog"]


def test_a_table_whose_turn_it_is_does_not_wait_until_another_has_no_tasks_left() -> None:
    desk = Desk()
    worker = desk.worker()
    desk.process("large", number=9)
    [attempt] = desk.scheduler.poll(worker.id, 1)
    desk.now += 1_000
    desk.scheduler.complete(attempt.ref, DONE)
    desk.due("small")
    desk.due("smaller")
    begun = desk.scheduler.begin()
    assert begun is not None
    desk.scheduler.planned(begun[0].id, tasks(1))
    assert desk.scheduler.begin() is None
    [attempt] = desk.scheduler.poll(worker.id, 1)
    assert attempt.table == "small"


def test_tasks_are_given_out_the_costliest_first_to_as_many_threads_as_are_free() -> None:
    desk = Desk()
    worker = desk.worker(threads=3)
    desk.process(number=4)
    assert [attempt.ref.number for attempt in desk.scheduler.poll(worker.id, 3)] == [0, 1, 2]
    assert [attempt.ref.number for attempt in desk.scheduler.poll(worker.id, 3)] == [3]
    assert desk.scheduler.poll(worker.id, 3) == []


def test_what_tables_have_used_outlives_the_scheduler() -> None:
    desk = Desk({"default": ResourceGroup(window_millis=100_000)})
    worker = desk.worker()
    over = desk.process("over", number=2)
    desk.work(worker, 26_000)
    desk.work(worker, 26_000)
    desk.scheduler.committed(over.id, 2)
    desk.scheduler.ended(over.id, runs(9))
    desk.process("open", number=3)
    desk.work(worker, 1_000)
    desk.takes_over()
    worker = desk.worker()
    desk.due("over")
    desk.due("idle")
    begun = [desk.scheduler.begin(), desk.scheduler.begin()]
    assert [each and each[0].table for each in begun] == ["idle", None]
    assert begun[0] is not None
    desk.scheduler.planned(begun[0][0].id, tasks(1))
    assert [attempt.table for attempt in desk.scheduler.poll(worker.id, 9)] == ["idle", "open", "open"]


def test_the_tasks_of_a_group_that_is_gone_are_cancelled_once_one_of_them_waits() -> None:
    desk = Desk({"default": ResourceGroup(), "other": ResourceGroup(name="other")})
    worker = desk.worker(group="other")
    desk.due("t", runs(9, options={"self-optimizing.group": "other"}))
    begun = desk.scheduler.begin()
    assert begun is not None
    process = begun[0]
    desk.scheduler.planned(process.id, tasks(1))
    [attempt] = desk.scheduler.poll(worker.id, 1)
    desk.scheduler.set_groups({"default": ResourceGroup()})
    assert desk.scheduler.to_end() == []
    assert desk.scheduler.beat(worker.id, [attempt.ref]) == []
    desk.scheduler.complete(attempt.ref, TaskOutcome(failure="no memory"))
    ended = desk.end(process, runs(9))
    assert (ended.state, ended.cleanup, ended.failure) == (
        ProcessState.CANCELLED,
        CleanupMode.DISCARD,
        "the group 'other' does not exist any more",
    )
    assert desk.scheduler.begin() is None
    desk.due("t")
    desk.worker()
    assert desk.scheduler.begin() is not None


def test_workers_of_a_group_that_is_gone_get_nothing() -> None:
    desk = Desk()
    worker = desk.worker()
    desk.process()
    desk.scheduler.set_groups({"other": ResourceGroup(name="other")})
    assert desk.scheduler.poll(worker.id, 1) == []
    with pytest.raises(InvalidInputError, match="no group 'default'; there are other"):
        desk.worker()
    assert [group.name for group in desk.journal.groups()] == ["other"]
