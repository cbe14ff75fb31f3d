"""The scheduler: from a due table to an ended process, with the interruptions in between."""

from typing import Any

import pytest

from interbed.optimizer.flow.process import (
    CleanupMode,
    LeaseLostError,
    ProcessState,
    ResultStatus,
    SchedulerEndedError,
    TaskOutcome,
    TaskRef,
    WorkKind,
)
from interbed.optimizer.flow.tables import RequestKind, ResourceGroup, TableMeasurement, TableRequest
from interbed.optimizer.scheduling.needs import SchedulerSettings
from interbed.storage.base.errors import InvalidInputError
from tests.optimizer.scheduling.measured import measurement, runs
from tests.optimizer.scheduling.scheduler_harness import DONE, SchedulerHarness, tasks


def test_a_due_table_gets_a_process_that_is_committed_and_cleaned_up() -> None:
    harness = SchedulerHarness()
    worker = harness.worker()
    process = harness.process(number=2)
    first, second = (harness.scheduler.poll(worker.id, 1)[0] for _ in range(2))
    assert harness.scheduler.complete(first.ref, DONE) is ResultStatus.ACCEPTED
    assert harness.scheduler.to_commit() == []
    harness.now += 3_000
    assert harness.scheduler.complete(second.ref, DONE) is ResultStatus.ACCEPTED
    [(ready, results)] = harness.scheduler.to_commit()
    assert (ready.id, results) == (process.id, [b"done", b"done"])
    harness.scheduler.committed(process.id, 2)
    [(ending, _)] = harness.scheduler.to_end()
    assert (ending.state, ending.cleanup) == (ProcessState.ENDING, CleanupMode.SWEEP)
    ended = harness.scheduler.ended(process.id, runs(2, snapshot_id=2))
    assert (ended.state, ended.snapshot_id, ended.seconds, ended.figures.bytes_in) == (ProcessState.SUCCEEDED, 2, 3, 20)
    assert ended.after is not None
    assert harness.journal.processes("t") == [ended]
    assert harness.journal.tables()[0].needs == ()


def test_a_recreated_table_waits_for_the_process_of_the_dropped_one() -> None:
    harness = SchedulerHarness()
    worker = harness.worker(threads=2)
    process = harness.process(number=2)
    [attempt] = harness.scheduler.poll(worker.id, 1)
    harness.scheduler.changed([], removed=["t"])
    assert harness.scheduler.beat(worker.id, [attempt.ref]) == [attempt.ref]
    harness.due("t")
    assert harness.scheduler.begin() is None
    ended = harness.end(process, runs(9))
    assert (ended.state, ended.cleanup) == (ProcessState.CANCELLED, CleanupMode.DISCARD)
    assert harness.journal.tables()[0].failures == 0
    begun = harness.scheduler.begin()
    assert begun is not None
    assert begun[0].table == "t"
    assert harness.scheduler.begin() is None


def test_files_of_a_commit_to_a_dropped_table_are_kept() -> None:
    harness = SchedulerHarness()
    worker = harness.worker()
    process = harness.process()
    [attempt] = harness.scheduler.poll(worker.id, 1)
    harness.scheduler.complete(attempt.ref, DONE)
    harness.scheduler.changed([], removed=["t"])
    harness.due("t")
    assert harness.scheduler.to_commit() == []
    ended = harness.end(process)
    assert (ended.state, ended.cleanup) == (ProcessState.CANCELLED, CleanupMode.LEAVE)
    assert WorkKind.MINOR not in harness.journal.tables()[0].settled


def test_a_process_that_was_never_planned_counts_as_a_failure_of_its_table() -> None:
    harness = SchedulerHarness()
    harness.worker()
    harness.due("t")
    harness.scheduler.begin()
    harness.take_over()
    harness.worker()
    [(process, _)] = harness.scheduler.to_end()
    ended = harness.end(process, runs(9))
    assert (ended.state, ended.cleanup) == (ProcessState.FAILED, CleanupMode.DISCARD)
    assert harness.scheduler.begin() is None
    harness.now += harness.settings.pause_first
    harness.scheduler.take_unmeasured()
    assert harness.scheduler.begin() is not None


def succeeded(harness: SchedulerHarness, snapshot_id: int | None, kind: WorkKind, found: TableMeasurement) -> None:
    """End a process for the table t, as it was found before, with this snapshot."""
    harness.due("t", found)
    begun = harness.scheduler.begin()
    assert begun is not None
    process = begun[0]
    assert process.kind is kind
    harness.scheduler.planned(process.id, tasks(1))
    [attempt] = harness.scheduler.poll(next(iter(harness.scheduler.workers())).id, 1)
    harness.scheduler.complete(attempt.ref, DONE)
    harness.scheduler.committed(process.id, snapshot_id)
    harness.scheduler.ended(process.id, None)


def test_rows_written_during_a_compaction_are_compacted_without_further_writes() -> None:
    harness = SchedulerHarness()
    harness.worker()
    # Snapshots 2 to 9 were committed by a writer.
    succeeded(harness, 10, WorkKind.MINOR, runs(9, snapshot_id=1))
    harness.due("t", runs(8, snapshot_id=10))
    assert harness.scheduler.begin() is not None


def test_a_compaction_that_left_too_many_runs_is_not_repeated_without_writes() -> None:
    harness = SchedulerHarness()
    harness.worker()
    succeeded(harness, 2, WorkKind.MINOR, runs(9, snapshot_id=1))
    harness.due("t", runs(8, snapshot_id=2))
    assert harness.scheduler.begin() is None
    harness.due("t", runs(9, snapshot_id=3))
    assert harness.scheduler.begin() is not None


@pytest.mark.parametrize("due", [{"manifests_due": 3}, {"statistics": (100, 50)}])
def test_maintenance_that_changed_nothing_is_not_repeated_without_writes(due: dict[str, Any]) -> None:
    harness = SchedulerHarness()
    harness.worker()
    kind = WorkKind.MANIFESTS if "manifests_due" in due else WorkKind.ANALYZE
    succeeded(harness, None, kind, measurement(**due))
    harness.due("t", measurement(**due))
    assert harness.scheduler.begin() is None
    harness.due("t", measurement(snapshot_id=2, **due))
    assert harness.scheduler.begin() is not None


def test_orphan_removal_is_repeated_without_writes() -> None:
    harness = SchedulerHarness()
    harness.worker()
    harness.due("t", measurement())
    harness.now += 86_400_000
    harness.worker()
    succeeded(harness, None, WorkKind.ORPHANS, measurement())
    harness.now += 86_400_000
    assert harness.scheduler.take_unmeasured() == ["t"]
    harness.due("t", measurement())
    [state] = harness.scheduler.tables()
    assert state.next_need is not None
    assert state.next_need.kind is WorkKind.ORPHANS


def test_a_scheduler_that_lost_its_lease_does_not_reject_unknown_attempts() -> None:
    harness = SchedulerHarness(settings=SchedulerSettings(task_timeout=1_000))
    old = harness.scheduler
    process = harness.assigned_process()
    new = harness.take_over()
    worker = harness.worker()
    harness.now += 2_000
    new.expire_leases()
    [second] = new.poll(worker.id, 1)
    assert second.ref == TaskRef(process=process.id, number=0, attempt=2)
    assert new.complete(second.ref, DONE) is ResultStatus.ACCEPTED
    # Its reply was lost, and the worker asks the scheduler that it knew before.
    assert old.complete(second.ref, DONE) is ResultStatus.UNKNOWN


def test_a_scheduler_stops_deciding_after_the_journal_refused_a_change() -> None:
    harness = SchedulerHarness()
    old = harness.scheduler
    process = harness.assigned_process()
    attempt = TaskRef(process=process.id, number=0, attempt=1)
    harness.take_over()
    with pytest.raises(LeaseLostError):
        old.complete(attempt, DONE)
    for decide in (lambda: old.complete(attempt, DONE), old.to_commit, old.to_end, old.expire_leases):
        with pytest.raises(SchedulerEndedError):
            decide()


def test_a_paused_table_gets_only_processes_requested_during_the_pause() -> None:
    harness = SchedulerHarness()
    harness.worker()
    harness.due("t")
    harness.journal.ask(TableRequest(table="t", kind=RequestKind.NOW, work=WorkKind.FULL))
    harness.journal.ask(TableRequest(table="t", kind=RequestKind.PAUSE))
    harness.scheduler.take_requests()
    assert harness.scheduler.begin() is None
    harness.journal.ask(TableRequest(table="t", kind=RequestKind.NOW, work=WorkKind.FULL))
    harness.scheduler.take_requests()
    begun = harness.scheduler.begin()
    assert begun is not None
    assert (begun[0].kind, begun[0].reason) == (WorkKind.FULL, "asked for")
    harness.scheduler.planned(begun[0].id, ())
    harness.end(begun[0], runs(9, snapshot_id=2))
    assert harness.scheduler.begin() is None
    harness.journal.ask(TableRequest(table="t", kind=RequestKind.RESUME))
    harness.scheduler.take_requests()
    assert harness.scheduler.begin() is not None


def test_requests_are_taken_once_and_also_for_an_unknown_table() -> None:
    harness = SchedulerHarness()
    harness.worker()
    harness.journal.ask(TableRequest(table="t", kind=RequestKind.NOW, work=WorkKind.ANALYZE))
    harness.scheduler.take_requests()
    assert list(harness.journal.requests()) == []
    harness.take_over()
    harness.worker()
    assert harness.scheduler.begin() is None
    harness.due("t", measurement())
    begun = harness.scheduler.begin()
    assert begun is not None
    assert begun[0].kind is WorkKind.ANALYZE
    assert harness.scheduler.begin() is None


def test_a_disabled_table_gets_no_process() -> None:
    harness = SchedulerHarness()
    harness.worker()
    harness.due("t", runs(9, options={"self-optimizing.enabled": "false"}))
    assert harness.scheduler.begin() is None


def test_a_table_is_measured_only_once_after_a_process() -> None:
    harness = SchedulerHarness()
    harness.worker()
    harness.due("t")
    begun = harness.scheduler.begin()
    assert begun is not None
    harness.scheduler.planned(begun[0].id, ())
    harness.end(begun[0], runs(2))
    assert harness.scheduler.take_unmeasured() == []


def test_a_table_within_its_share_is_planned_before_queued_tasks_of_others() -> None:
    harness = SchedulerHarness({"default": ResourceGroup(window_millis=100_000)})
    worker = harness.worker()
    harness.process("hog", number=9)
    for _ in range(2):
        [attempt] = harness.scheduler.poll(worker.id, 1)
        harness.now += 26_000
        harness.scheduler.complete(attempt.ref, DONE)
    harness.due("modest")
    assert harness.scheduler.poll(worker.id, 1) == []
    begun = harness.scheduler.begin()
    assert begun is not None
    harness.scheduler.planned(begun[0].id, tasks(1))
    assert [attempt.table for attempt in harness.scheduler.poll(worker.id, 2)] == ["modest", "hog"]


def test_the_next_table_is_planned_before_another_has_run_out_of_tasks() -> None:
    harness = SchedulerHarness()
    worker = harness.worker()
    harness.process("large", number=9)
    [attempt] = harness.scheduler.poll(worker.id, 1)
    harness.now += 1_000
    harness.scheduler.complete(attempt.ref, DONE)
    harness.due("small")
    harness.due("smaller")
    begun = harness.scheduler.begin()
    assert begun is not None
    harness.scheduler.planned(begun[0].id, tasks(1))
    assert harness.scheduler.begin() is None
    [attempt] = harness.scheduler.poll(worker.id, 1)
    assert attempt.table == "small"


def test_the_costliest_tasks_are_assigned_first_to_the_free_threads() -> None:
    harness = SchedulerHarness()
    worker = harness.worker(threads=3)
    harness.process(number=4)
    assert [attempt.ref.number for attempt in harness.scheduler.poll(worker.id, 3)] == [0, 1, 2]
    assert [attempt.ref.number for attempt in harness.scheduler.poll(worker.id, 3)] == [3]
    assert harness.scheduler.poll(worker.id, 3) == []


def test_usage_of_tables_survives_a_change_of_the_scheduler() -> None:
    harness = SchedulerHarness({"default": ResourceGroup(window_millis=100_000)})
    worker = harness.worker()
    over = harness.process("over", number=2)
    harness.work(worker, 26_000)
    harness.work(worker, 26_000)
    harness.scheduler.committed(over.id, 2)
    harness.scheduler.ended(over.id, runs(9))
    harness.process("open", number=3)
    harness.work(worker, 1_000)
    harness.take_over()
    worker = harness.worker()
    harness.due("over")
    harness.due("idle")
    begun = [harness.scheduler.begin(), harness.scheduler.begin()]
    assert [each and each[0].table for each in begun] == ["idle", None]
    assert begun[0] is not None
    harness.scheduler.planned(begun[0][0].id, tasks(1))
    assert [attempt.table for attempt in harness.scheduler.poll(worker.id, 9)] == ["idle", "open", "open"]


def test_tasks_of_a_removed_group_are_cancelled_once_one_of_them_waits() -> None:
    harness = SchedulerHarness({"default": ResourceGroup(), "other": ResourceGroup(name="other")})
    worker = harness.worker(group="other")
    harness.due("t", runs(9, options={"self-optimizing.group": "other"}))
    begun = harness.scheduler.begin()
    assert begun is not None
    process = begun[0]
    harness.scheduler.planned(process.id, tasks(1))
    [attempt] = harness.scheduler.poll(worker.id, 1)
    harness.scheduler.set_groups({"default": ResourceGroup()})
    assert harness.scheduler.to_end() == []
    assert harness.scheduler.beat(worker.id, [attempt.ref]) == []
    harness.scheduler.complete(attempt.ref, TaskOutcome(failure="no memory"))
    ended = harness.end(process, runs(9))
    assert (ended.state, ended.cleanup, ended.failure) == (
        ProcessState.CANCELLED,
        CleanupMode.DISCARD,
        "the group 'other' does not exist any more",
    )
    assert harness.scheduler.begin() is None
    harness.due("t")
    harness.worker()
    assert harness.scheduler.begin() is not None


def test_workers_of_a_removed_group_get_no_tasks() -> None:
    harness = SchedulerHarness()
    worker = harness.worker()
    harness.process()
    harness.scheduler.set_groups({"other": ResourceGroup(name="other")})
    assert harness.scheduler.poll(worker.id, 1) == []
    with pytest.raises(InvalidInputError, match="no group 'default'; there are other"):
        harness.worker()
    assert [group.name for group in harness.journal.groups()] == ["other"]
