"""The contract of every journal: in memory, on SQLite, on PostgreSQL."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interbed.optimizer.flow.process import LeaseLostError, Process, ProcessState, Task, TaskState, WorkKind
from interbed.optimizer.flow.tables import RequestKind, ResourceGroup, TableRequest, TableState, Worker
from interbed.optimizer.journal.api import NAME_LENGTH_MAX, Journal, JournalChanges, JournalState, Lease
from interbed.storage.base.errors import InvalidInputError
from tests.optimizer.journal.journals import ended, process, scheduler, task
from tests.optimizer.journal.values import OPEN, groups, processes, requests, tables, tasks, workers
from tests.support.examples import examples

LONGEST = "\U0001f5c3" * NAME_LENGTH_MAX
"""A name of the greatest allowed number of bytes."""


def test_a_new_journal_has_no_scheduler_until_one_acquires_the_lease(journal: Journal, another: Journal) -> None:
    assert journal.holder() is None
    lease = journal.acquire("first", now_millis=0, until_millis=1000)
    assert lease == Lease(holder="first", number=1, until_millis=1000)
    assert another.holder() == lease


def test_another_scheduler_gets_the_lease_only_after_it_has_expired(journal: Journal, another: Journal) -> None:
    scheduler(journal, until=1000)
    assert another.acquire("second", now_millis=999, until_millis=2000) is None
    second = another.acquire("second", now_millis=1000, until_millis=2000)
    assert second == Lease(holder="second", number=2, until_millis=2000)
    assert journal.acquire("first", now_millis=1500, until_millis=3000) is None
    assert journal.holder() == second


def test_renewal_extends_a_lease(journal: Journal, another: Journal) -> None:
    lease = scheduler(journal, until=1000)
    renewed = journal.renew(lease, until_millis=2000)
    assert renewed == Lease(holder="first", number=1, until_millis=2000)
    assert another.acquire("second", now_millis=1500, until_millis=3000) is None
    # The lease number decides, whichever of the two lease objects is passed.
    journal.store(lease, JournalChanges(tables=[TableState(name="db.t")]))
    journal.store(renewed, JournalChanges(removed=["db.t"]))


def test_acquiring_again_gives_a_new_number_and_ends_the_earlier_lease(journal: Journal) -> None:
    lease = scheduler(journal)
    again = scheduler(journal)
    assert again.number == 2
    with pytest.raises(LeaseLostError, match="first has lost the lease of the scheduler"):
        journal.store(lease, JournalChanges(removed=["db.t"]))
    journal.store(again, JournalChanges(removed=["db.t"]))


def test_a_released_lease_is_free_at_once(journal: Journal, another: Journal) -> None:
    lease = scheduler(journal, until=1000)
    journal.release(lease)
    journal.release(lease)
    second = another.acquire("second", now_millis=1, until_millis=1001)
    assert second is not None
    assert second.number == 2
    # A holder that lost its lease has nothing to release.
    journal.release(lease)
    assert journal.holder() == second


def test_a_late_renewal_does_not_restore_a_released_lease(journal: Journal, another: Journal) -> None:
    lease = scheduler(journal, until=1000)
    journal.release(lease)
    with pytest.raises(LeaseLostError, match="first has released its lease"):
        journal.renew(lease, until_millis=2000)
    with pytest.raises(LeaseLostError, match="first has released its lease"):
        journal.store(lease, JournalChanges(tables=[TableState(name="db.t")]))
    assert another.tables() == []
    scheduler(another, "second", now=1)


def test_a_scheduler_that_lost_its_lease_changes_nothing(journal: Journal, another: Journal) -> None:
    lease = scheduler(journal, until=1000)
    kept = JournalChanges(
        tables=[TableState(name="db.t", failures=1)],
        processes=[process("open"), ended("old", 5)],
        tasks=[task("open", 0)],
        workers=[_worker("w")],
        groups=[ResourceGroup(name="kept")],
    )
    journal.store(lease, kept)
    journal.ask(TableRequest(table="db.t", kind=RequestKind.PAUSE))
    asked = journal.requests()
    second = scheduler(another, "second", now=1000, until=2000)
    before = another.load(second)
    late = JournalChanges(
        tables=[TableState(name="db.t", failures=2), TableState(name="db.u")],
        removed=["db.t"],
        processes=[ended("open", 9), process("new")],
        tasks=[task("open", 1)],
        workers=[],
        groups=[],
        answered=[request.id for request in asked],
    )
    for overtaken in (
        lambda: journal.store(lease, late),
        lambda: journal.load(lease),
        lambda: journal.expire(lease, 1000),
        lambda: journal.renew(lease, 9000),
    ):
        with pytest.raises(
            LeaseLostError, match=r"first has lost the lease of the scheduler \(number \d+\); second has it now"
        ):
            overtaken()
    assert another.load(second) == before
    assert {p.id for p in another.processes()} == {"open", "old"}
    assert list(another.workers()) == kept.workers
    assert list(another.groups()) == kept.groups
    assert another.requests() == asked
    assert another.holder() == second


@settings(max_examples=examples(75))
@given(
    states=st.lists(tables(), max_size=3, unique_by=lambda state: state.name),
    made=st.lists(processes(), max_size=3, unique_by=lambda each: each.id),
    some_workers=st.lists(workers, max_size=3),
    some_groups=st.lists(groups, max_size=3),
    asked=st.lists(requests(), max_size=3),
)
def test_stored_values_are_loaded_unchanged(
    emptied: Callable[[], Journal],
    states: list[TableState],
    made: list[Process],
    some_workers: list[Worker],
    some_groups: list[ResourceGroup],
    asked: list[TableRequest],
) -> None:
    journal = emptied()
    lease = scheduler(journal)
    journal.store(lease, JournalChanges(tables=states, processes=made, workers=some_workers, groups=some_groups))
    for request in asked:
        journal.ask(request)
    states.sort(key=lambda state: state.name)
    assert journal.tables() == states
    assert journal.tables([state.name for state in reversed(states[1:])]) == states[1:]
    assert journal.processes() == sorted(made, key=lambda each: (-each.created_millis, each.id))
    assert list(journal.workers()) == some_workers
    assert list(journal.groups()) == some_groups
    found = journal.requests()
    assert [replace(request, id=0) for request in found] == [replace(request, id=0) for request in asked]
    alive = sorted((p for p in made if not p.state.has_ended), key=lambda each: (each.created_millis, each.id))
    assert journal.load(lease) == JournalState(tables=states, processes=alive, tasks=[])


@settings(max_examples=examples(50))
@given(
    made=processes(states=OPEN),
    given_tasks=st.lists(tasks(), max_size=4, unique_by=lambda each: each.number),
)
def test_stored_tasks_are_loaded_unchanged(
    emptied: Callable[[], Journal], made: Process, given_tasks: list[Task]
) -> None:
    journal = emptied()
    lease = scheduler(journal)
    own = [replace(each, process=made.id) for each in given_tasks]
    journal.store(lease, JournalChanges(processes=[made], tasks=own))
    assert journal.load(lease).tasks == sorted(own, key=lambda each: each.number)


def test_a_value_replaces_an_earlier_one_of_the_same_name(journal: Journal) -> None:
    lease = scheduler(journal)
    first = JournalChanges(tables=[TableState(name="db.t")], processes=[process("p")], tasks=[task("p", 0)])
    journal.store(lease, first)
    tables_now = [TableState(name="db.t", failures=3)]
    processes_now = [process("p", state=ProcessState.COMMITTING, seconds=1.5)]
    tasks_now = [task("p", 0, state=TaskState.DONE, result=b"files")]
    journal.store(lease, JournalChanges(tables=tables_now, processes=processes_now, tasks=tasks_now))
    assert journal.load(lease) == JournalState(tables=tables_now, processes=processes_now, tasks=tasks_now)


def test_the_last_of_duplicate_values_in_changes_is_stored(journal: Journal) -> None:
    lease = scheduler(journal)
    changes = JournalChanges(
        tables=[TableState(name="a", failures=1), TableState(name="b"), TableState(name="a", failures=2)],
        removed=["b", "c"],
        processes=[process("p"), process("p", state=ProcessState.COMMITTING)],
        tasks=[task("p", 0), task("p", 0, attempt=1)],
    )
    journal.store(lease, changes)
    assert journal.load(lease) == JournalState(
        tables=[changes.tables[2]], processes=[changes.processes[1]], tasks=[changes.tasks[1]]
    )


def test_tasks_are_deleted_when_their_process_has_ended(journal: Journal) -> None:
    lease = scheduler(journal)
    journal.store(lease, JournalChanges(processes=[process("p"), process("q")], tasks=[task("p", 0), task("q", 0)]))
    journal.store(lease, JournalChanges(processes=[ended("p", 5)], tasks=[task("p", 1)]))
    assert journal.load(lease).tasks == [task("q", 0)]
    # A late task is not kept either, nor is a task of an unknown process.
    journal.store(lease, JournalChanges(tasks=[task("p", 2), task("unknown", 0)]))
    journal.store(lease, JournalChanges(processes=[process("p"), process("unknown")]))
    assert journal.load(lease).tasks == [task("q", 0)]


def test_a_scheduler_loads_the_state_that_its_predecessor_stored(journal: Journal, another: Journal) -> None:
    lease = scheduler(journal)
    states = [TableState(name=name) for name in ("b", "a.b", "a", "Z", "\u00e4", "a\u0301")]
    made = [process("late", created_millis=9), process("b"), process("a"), ended("done", 5)]
    own = [task(name, number) for name, number in (("b", 1), ("late", 10), ("late", 9), ("b", 0))]
    journal.store(lease, JournalChanges(tables=states, processes=made, tasks=own))
    loaded = another.load(scheduler(another, "second", now=1000))
    assert [state.name for state in loaded.tables] == ["Z", "a", "a.b", "a\u0301", "b", "\u00e4"]
    assert [each.id for each in loaded.processes] == ["a", "b", "late"]
    assert [(each.process, each.number) for each in loaded.tasks] == [("b", 0), ("b", 1), ("late", 9), ("late", 10)]


def test_requests_are_taken_in_order_and_once(journal: Journal, another: Journal) -> None:
    lease = scheduler(journal)
    asked = [
        TableRequest(table="db.t", kind=RequestKind.PAUSE),
        TableRequest(table="db.t", kind=RequestKind.NOW, work=WorkKind.FULL),
        TableRequest(table="db.u", kind=RequestKind.RESUME),
    ]
    for request in asked:
        another.ask(request)
    found = journal.requests()
    assert [replace(request, id=0) for request in found] == asked
    first, second, third = (request.id for request in found)
    assert first < second < third
    journal.store(lease, JournalChanges(answered=[first, third]))
    assert journal.requests() == [found[1]]
    journal.store(lease, JournalChanges(answered=[first, second]))
    assert journal.requests() == []


def test_the_id_of_a_request_is_not_reused(journal: Journal) -> None:
    lease = scheduler(journal)
    taken = []
    for _ in range(3):
        journal.ask(TableRequest(table="db.t", kind=RequestKind.PAUSE))
        (request,) = journal.requests()
        taken.append(request.id)
        # Ids of all requests that were ever taken count: storing changes again takes no later request.
        journal.store(lease, JournalChanges(answered=taken))
        assert journal.requests() == []
    assert len(set(taken)) == 3


def test_processes_are_listed_newest_first(journal: Journal) -> None:
    lease = scheduler(journal)
    made = [process(f"p{number}", created_millis=number // 2, table=f"db.{number % 3}") for number in range(10)]
    journal.store(lease, JournalChanges(processes=made))
    assert [each.id for each in journal.processes(limit=3)] == ["p8", "p9", "p6"]
    assert [each.id for each in journal.processes("db.0")] == ["p9", "p6", "p3", "p0"]
    assert [each.id for each in journal.processes("db.0", limit=2)] == ["p9", "p6"]
    assert journal.processes("db.7") == []
    assert journal.processes(limit=0) == []


def test_processes_that_ended_long_ago_are_deleted(journal: Journal) -> None:
    lease = scheduler(journal)
    made = [ended("at 0", 0), ended("at 4", 4), ended("at 5", 5), process("open", created_millis=1)]
    journal.store(lease, JournalChanges(processes=made))
    assert journal.expire(lease, 0) == 0
    assert journal.expire(lease, 5) == 2
    assert {each.id for each in journal.processes()} == {"at 5", "open"}
    assert journal.expire(lease, 5) == 0


def test_workers_and_groups_replace_the_stored_ones(journal: Journal) -> None:
    lease = scheduler(journal)
    journal.store(lease, JournalChanges(workers=[_worker("b"), _worker("a")], groups=[ResourceGroup(name="b")]))
    journal.store(lease, JournalChanges())
    assert [worker.id for worker in journal.workers()] == ["b", "a"]
    journal.store(lease, JournalChanges(workers=[_worker("c")]))
    assert [worker.id for worker in journal.workers()] == ["c"]
    assert [group.name for group in journal.groups()] == ["b"]
    journal.store(lease, JournalChanges(workers=[], groups=[]))
    assert list(journal.workers()) == []
    assert list(journal.groups()) == []


def test_tables_are_found_by_name(journal: Journal) -> None:
    lease = scheduler(journal)
    journal.store(lease, JournalChanges(tables=[TableState(name=name) for name in ("b", "a", "c")]))
    assert [state.name for state in journal.tables(["c", "a", "c", "nowhere"])] == ["a", "c"]
    assert journal.tables([]) == []


def test_the_longest_names_fit(journal: Journal) -> None:
    lease = scheduler(journal, LONGEST)
    changes = JournalChanges(
        tables=[TableState(name=LONGEST)], processes=[process(LONGEST, table=LONGEST)], tasks=[task(LONGEST, 0)]
    )
    journal.store(lease, changes)
    assert journal.load(lease) == JournalState(tables=changes.tables, processes=changes.processes, tasks=changes.tasks)
    assert journal.processes(LONGEST) == changes.processes


@pytest.mark.parametrize(("name", "why"), [(LONGEST + "x", "513 characters"), ("a\0", "hold"), ("\udcff", "hold")])
def test_changes_with_a_name_that_is_too_long_are_refused_as_a_whole(journal: Journal, name: str, why: str) -> None:
    lease = scheduler(journal)
    for changes in (
        JournalChanges(tables=[TableState(name="good"), TableState(name=name)]),
        JournalChanges(processes=[process("p", table=name)]),
        JournalChanges(processes=[process(name)]),
        JournalChanges(tasks=[task(name, 0)]),
        JournalChanges(removed=[name]),
    ):
        with pytest.raises(InvalidInputError, match=why):
            journal.store(lease, changes)
    for refused in (
        lambda: journal.ask(TableRequest(table=name, kind=RequestKind.PAUSE)),
        lambda: journal.acquire(name, 0, 1),
        lambda: journal.tables([name]),
        lambda: journal.processes(name),
    ):
        with pytest.raises(InvalidInputError, match=why):
            refused()
    assert journal.load(lease) == JournalState(tables=[], processes=[], tasks=[])
    assert journal.requests() == []


def _worker(name: str) -> Worker:
    return Worker(
        id=name, group="default", threads=1, memory=1 << 30, place="host:1", since_millis=1, lease_until_millis=1000
    )
