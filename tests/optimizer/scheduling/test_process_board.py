"""States of tasks: answers to the results of workers, leases, and the end of a process."""

import pytest

from interbed.optimizer.flow.process import (
    CleanupMode,
    Process,
    ProcessState,
    ResultStatus,
    TableSummary,
    TaskOutcome,
    TaskRef,
    TaskState,
    WorkKind,
)
from interbed.optimizer.scheduling.needs import SchedulerSettings
from interbed.optimizer.scheduling.process_board import ProcessBoard
from interbed.optimizer.scheduling.table_queues import Usage
from tests.optimizer.scheduling.scheduler_harness import DONE, FIRST, tasks

SETTINGS = SchedulerSettings(lease=60_000, task_timeout=200_000, attempts=3)
GROUPS = ("default",)
FAILED = TaskOutcome(failure="no memory")


def process(number: int = 1) -> tuple[ProcessBoard, str]:
    """Return a board with a process of this number of tasks, and the id of the process."""
    board = ProcessBoard((), (), SETTINGS, Usage(), FIRST)
    begun = Process(
        id="p",
        table="t",
        kind=WorkKind.MINOR,
        group="default",
        reason="",
        state=ProcessState.RUNNING,
        created_millis=FIRST,
        before=TableSummary(snapshot_id=1, score=50, read_amplification=2.0, pending_bytes=9),
    )
    board.begin(begun)
    board.planned("p", tasks(number))
    return board, "p"


def test_a_duplicate_result_is_accepted_and_counts_once() -> None:
    board, p = process()
    ref = board.give(p, "w", FIRST).ref
    assert board.complete(ref, DONE, FIRST + 1) is ResultStatus.ACCEPTED
    assert board.complete(ref, DONE, FIRST + 2) is ResultStatus.ACCEPTED
    board.settle(FIRST, GROUPS)
    assert board.complete(ref, TaskOutcome(result=b"another"), FIRST + 3) is ResultStatus.ACCEPTED
    assert board.results(p) == [b"done"]
    assert (board[p].state, board[p].figures) == (ProcessState.COMMITTING, DONE.figures)


def test_an_attempt_with_a_result_is_not_cancelled() -> None:
    board, p = process()
    ref = board.give(p, "w", FIRST).ref
    assert board.complete(ref, DONE, FIRST + 1) is ResultStatus.ACCEPTED
    assert board.beat(ref, FIRST + 2)
    board.settle(FIRST + 3, GROUPS)
    assert board.beat(ref, FIRST + 4)


def test_only_the_result_of_the_newest_attempt_is_accepted() -> None:
    board, p = process()
    first = board.give(p, "w", FIRST).ref
    board.expire(FIRST + 60_000)
    assert board.complete(first, DONE, FIRST + 60_001) is ResultStatus.SUPERSEDED
    second = board.give(p, "v", FIRST + 60_002).ref
    assert (second.attempt, board.complete(first, DONE, FIRST)) == (2, ResultStatus.SUPERSEDED)
    assert not board.beat(first, FIRST)
    assert board.complete(second, DONE, FIRST) is ResultStatus.ACCEPTED
    assert board.complete(first, DONE, FIRST) is ResultStatus.SUPERSEDED


@pytest.mark.parametrize("ref", [TaskRef(process="q", number=0, attempt=1), TaskRef(process="p", number=9, attempt=1)])
def test_results_of_unknown_processes_are_answered_as_unknown(ref: TaskRef) -> None:
    board, _ = process()
    assert board.complete(ref, DONE, FIRST) is ResultStatus.UNKNOWN
    assert not board.beat(ref, FIRST)


def test_heartbeats_extend_an_attempt_up_to_a_maximum_duration() -> None:
    board, p = process()
    ref = board.give(p, "w", FIRST).ref
    for second in range(0, 200, 50):
        assert board.beat(ref, FIRST + second * 1_000)
        board.expire(FIRST + second * 1_000 + 49_999)
        assert board.running_tasks() == {"w": 1}
    board.expire(FIRST + 200_000)
    assert board.running_tasks() == {"w": 1}
    assert not board.beat(ref, FIRST + 200_001)
    board.expire(FIRST + 200_001)
    assert board.running_tasks() == {}
    assert board.waiting_tasks(p) == 1


def test_a_process_fails_when_a_task_has_failed_the_allowed_number_of_times() -> None:
    board, p = process(number=2)
    for attempt in (1, 2, 3):
        ref = board.give(p, "w", FIRST).ref
        assert (ref.number, ref.attempt) == (0, attempt)
        assert board.complete(ref, FAILED, FIRST) is ResultStatus.ACCEPTED
        board.settle(FIRST, GROUPS)
    assert (board[p].state, board[p].ending, board[p].cleanup) == (
        ProcessState.ENDING,
        ProcessState.FAILED,
        CleanupMode.DISCARD,
    )
    assert board[p].failure == "no memory"


def test_attempts_of_a_failed_process_are_cancelled_and_their_results_refused() -> None:
    board, p = process(number=2)
    for _ in range(2):
        board.complete(board.give(p, "w", FIRST).ref, FAILED, FIRST)
    ref, other = board.give(p, "w", FIRST).ref, board.give(p, "v", FIRST).ref
    assert (ref.number, other.number) == (0, 1)
    board.complete(ref, FAILED, FIRST)
    board.settle(FIRST, GROUPS)
    assert not board.beat(other, FIRST)
    assert board.complete(other, DONE, FIRST) is ResultStatus.SUPERSEDED
    assert board.complete(ref, FAILED, FIRST) is ResultStatus.SUPERSEDED
    assert board.running_tasks() == {}


def test_tasks_of_a_worker_that_leaves_wait_again() -> None:
    board, p = process(number=3)
    mine, _ = board.give(p, "w", FIRST).ref, board.give(p, "v", FIRST).ref
    board.withdraw("w", FIRST + 2_000)
    assert board.running_tasks() == {"v": 1}
    again = board.give(p, "v", FIRST + 3_000).ref
    assert (again.number, again.attempt) == (mine.number, 2)
    assert board[p].seconds == 2.0


def test_a_new_scheduler_waits_a_lease_for_heartbeats_of_workers() -> None:
    board, p = process(number=2)
    ref = board.give(p, "w", FIRST).ref
    processes, found = board.take_changed()
    late = FIRST + 1_000_000
    again = ProcessBoard(processes, found, SchedulerSettings(task_timeout=10_000_000), Usage(), late)
    again.expire(late + 59_999)
    assert again.running_tasks() == {"w": 1}
    assert again.beat(ref, late + 59_999)
    assert again.complete(ref, DONE, late + 70_000) is ResultStatus.ACCEPTED


def test_changes_are_returned_once_and_an_ended_process_last() -> None:
    board, p = process()
    board.take_changed()
    ref = board.give(p, "w", FIRST).ref
    _, [task] = board.take_changed()
    assert (task.state, task.attempt, task.worker) == (TaskState.RUNNING, 1, "w")
    board.complete(ref, DONE, FIRST)
    board.settle(FIRST, GROUPS)
    board.end(p, ProcessState.SUCCEEDED, CleanupMode.SWEEP, snapshot_id=7)
    board.ended(p, FIRST + 5)
    [ended], found = board.take_changed()
    assert (ended.state, ended.ended_millis, ended.snapshot_id, found) == (ProcessState.SUCCEEDED, FIRST + 5, 7, [])
    assert board.take_changed() == ([], [])
    assert board.complete(ref, DONE, FIRST) is ResultStatus.UNKNOWN


def test_failure_messages_are_truncated_to_fit_the_journal() -> None:
    board, p = process()
    board.complete(board.give(p, "w", FIRST).ref, TaskOutcome(failure="x" * 9_999), FIRST)
    _, [task] = board.take_changed()
    assert task.failure == "x" * 2_000
    board.end(p, ProcessState.FAILED, CleanupMode.DISCARD, failure="y" * 9_999)
    assert board[p].failure == "y" * 2_000
