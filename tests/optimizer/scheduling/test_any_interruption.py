"""Random interleavings of failures of schedulers, workers and tables: no work is lost, and no file is left behind.

Schedulers are killed before and after each effect. They also lose their lease in the middle of a step and go on.
Workers die, hang, come late and deliver twice. Writers replace files, commits end without an answer, and tables are
created and dropped.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from interbed.optimizer.flow.process import (
    CleanupMode,
    JournalError,
    Process,
    ProcessState,
    ResultStatus,
    UnknownWorkerError,
    WorkKind,
)
from interbed.optimizer.flow.tables import RequestKind, ResourceGroup, TableRequest
from interbed.optimizer.scheduling.engine import Engine
from interbed.optimizer.scheduling.needs import SchedulerSettings
from interbed.optimizer.scheduling.scheduler import Scheduler
from interbed.storage.base.errors import (
    CommitConflictError,
    CommitFailedError,
    CommitStateUnknownError,
    InvalidInputError,
    StorageAccessError,
)
from tests.optimizer.scheduling.lake import InMemoryLake, LakeTable, Worker, WorkerAttempt
from tests.optimizer.scheduling.watched_journal import WatchedJournal
from tests.support.examples import examples
from tests.support.tally import Tally

NAMES = ("a", "b", "c")
SETTINGS = SchedulerSettings(lease=60_000, task_timeout=300_000, attempts=3, orphans_interval=None)
MOST_RUNS = 5
EFFECTS = (
    "store",
    "stored",
    "plan",
    "marked",
    "commit",
    "not committed before",
    "committed",
    "end",
    "unmarked",
    "ended",
)
"""Effects that other processes can see, each with the moments before and after it."""


class KilledError(Exception):
    """The scheduler's process was killed."""


@dataclass(slots=True)
class SchedulerProcess:
    """A scheduler with its engine, possibly one that lost its lease without noticing."""

    scheduler: Scheduler
    engine: Engine


class InterruptionMachine(RuleBasedStateMachine):
    """Events of the simulated system. An effect is visible to other processes: a change of the journal, a mark, a
    commit.
    """

    counted: Tally = staticmethod(lambda what, number: None)

    def __init__(self) -> None:
        super().__init__()
        self.now = 1_000_000
        self.ids, self.holders = count(1), count(1)
        self.fuse: tuple[str, int] | None = None
        self.at_fuse: Callable[[], None] = lambda: None
        self.journal = WatchedJournal(self.effect)
        self.lake = InMemoryLake(self.effect)
        self.lake.check_end = self.check_end
        self.lake.check_commit = self.check_commit
        self.groups = {"default": ResourceGroup(window_millis=600_000)}
        self.superseded: set[bytes] = set()
        self.dropped: list[LakeTable] = []
        self.attempts: list[WorkerAttempt] = []
        self.held: list[tuple[Worker, object]] = []
        self.old: list[SchedulerProcess] = []
        self.current = self.open()
        self.workers: list[Worker] = []
        self.worker_comes()
        for name in NAMES[:2]:
            self.a_writer_appends(name, 9)
        self.step(1)

    # -- assertions made where effects happen --------------------------------------------------------------------------

    def effect(self, what: str) -> None:
        if self.fuse is None or self.fuse[0] != what:
            return
        if self.fuse[1] > 0:
            self.fuse = (what, self.fuse[1] - 1)
        else:
            self.fuse = None
            self.at_fuse()

    def check_end(self, process: Process) -> None:
        stored = self.journal.of(process.id)
        assert stored is not None
        if stored.tasks or process.tasks:
            assert stored.state is ProcessState.ENDING or stored.state.has_ended, "deleted before it was journaled"
            assert stored.cleanup is process.cleanup
        else:
            # A process that was never planned has only its mark to delete.
            assert process.cleanup is CleanupMode.DISCARD

    def check_commit(self, process: Process, results: Sequence[bytes]) -> None:
        stored = self.journal.of(process.id)
        assert stored is not None
        assert stored.state is not ProcessState.RUNNING, "committed before it was journaled"
        if stored.state is ProcessState.COMMITTING:
            assert list(results) == [r for _, r in sorted(self.journal.results(process.id).items())]
        assert not self.superseded & set(results), "a superseded result is committed"

    # -- schedulers ----------------------------------------------------------------------------------------------------

    def open(self, *, same: bool = False) -> SchedulerProcess:
        """Start a scheduler that acquires the lease."""
        held = self.journal.holder()
        if held is not None and not same:
            self.journal.release(held)
        holder = held.holder if held is not None and same else f"s{next(self.holders)}"
        lease = self.journal.acquire(holder, self.now, self.now + SETTINGS.lease)
        assert lease is not None
        scheduler = Scheduler(
            self.journal, lease, self.groups, SETTINGS, clock=lambda: self.now, new_id=lambda: f"p{next(self.ids)}"
        )
        return SchedulerProcess(scheduler, Engine(scheduler, self.lake, self.lake.watch(), clock=lambda: self.now))

    def step_of(self, current: SchedulerProcess) -> None:
        try:
            current.engine.step()
        except (KilledError, JournalError):
            if current is self.current:
                self.current = self.open()
        self.fuse = None

    @rule(seconds=st.sampled_from([0, 1, 10]))
    def step(self, seconds: int) -> None:
        self.now += seconds * 1_000
        self.step_of(self.current)

    @rule(seconds=st.sampled_from([0, 10]), times=st.integers(1, 4))
    def steps_with_work(self, seconds: int, times: int) -> None:
        for _ in range(times):
            self.step(seconds)
            for worker in list(self.workers):
                self.polls(worker, self.current, reply_is_lost=False)
            for attempt in list(self.attempts):
                self.delivers(attempt, self.current, reply_is_lost=False)

    @rule(effect=st.sampled_from(EFFECTS), times=st.integers(0, 3))
    def killed_in_a_step(self, effect: str, times: int) -> None:
        def kill() -> None:
            raise KilledError

        self.make_work()
        self.fuse, self.at_fuse = (effect, times), kill
        self.step_of(self.current)

    @rule(effect=st.sampled_from(EFFECTS), times=st.integers(0, 2), goes_on=st.booleans(), delivers=st.booleans())
    def overtaken_in_a_step(self, effect: str, times: int, goes_on: bool, delivers: bool) -> None:
        current = self.current

        def overtake() -> None:
            self.current = self.open()
            self.old.append(current)
            self.current.engine.step()
            if delivers:
                for attempt in list(self.attempts):
                    self.delivers(attempt, self.current, reply_is_lost=True)
                self.current.engine.step()

        self.make_work()
        self.fuse, self.at_fuse = (effect, times), overtake
        self.step_of(current)
        if goes_on:
            self.step_of(current)

    def make_work(self) -> None:
        """Tables are written and workers registered, so that a step has most kinds of effects."""
        self.a_writer_appends(NAMES[self.now % 3], 6)
        for worker in self.workers:
            self.polls(worker, self.current, reply_is_lost=False)

    @rule(same=st.booleans())
    def restarted(self, same: bool) -> None:
        self.old.append(self.current)
        self.current = self.open(same=same)

    @precondition(lambda self: self.old)
    @rule(data=st.data())
    def a_predecessor_acts_again(self, data: st.DataObject) -> None:
        self.step_of(data.draw(st.sampled_from(self.old)))

    @rule()
    def the_journal_fails(self) -> None:
        def fail() -> None:
            raise JournalError("The database is away.")

        self.fuse, self.at_fuse = ("store", 0), fail
        self.step_of(self.current)

    # -- workers -------------------------------------------------------------------------------------------------------

    @precondition(lambda self: len(self.workers) < 3)
    @rule()
    def worker_comes(self) -> None:
        worker = self.registered(self.current)
        if worker is not None:
            self.workers.append(Worker(self.lake, worker))

    def registered(self, current: SchedulerProcess) -> str | None:
        try:
            return current.scheduler.register(next(iter(self.groups)), 3, 1 << 30, "here").id
        except (JournalError, InvalidInputError):
            # The scheduler that lost its lease may know other groups.
            return None

    @precondition(lambda self: self.workers)
    @rule(data=st.data(), lost=st.booleans(), old=st.booleans())
    def a_worker_polls(self, data: st.DataObject, lost: bool, old: bool) -> None:
        current = self.old[-1] if old and self.old else self.current
        self.polls(data.draw(st.sampled_from(self.workers)), current, reply_is_lost=lost)

    def polls(self, worker: Worker, current: SchedulerProcess, *, reply_is_lost: bool, fails: bool = False) -> None:
        try:
            given = current.scheduler.poll(worker.id, 3)
        except UnknownWorkerError:
            worker.id = self.registered(current) or worker.id
            return
        except JournalError:
            return
        if not reply_is_lost:
            self.attempts += [worker.begin(assignment, fails=fails) for assignment in given]

    @precondition(lambda self: self.workers)
    @rule(data=st.data())
    def a_worker_fails(self, data: st.DataObject) -> None:
        self.polls(data.draw(st.sampled_from(self.workers)), self.current, reply_is_lost=False, fails=True)

    @precondition(lambda self: self.attempts)
    @rule(data=st.data(), lost=st.booleans(), old=st.booleans())
    def a_worker_delivers(self, data: st.DataObject, lost: bool, old: bool) -> None:
        current = self.old[-1] if old and self.old else self.current
        self.delivers(data.draw(st.sampled_from(self.attempts)), current, reply_is_lost=lost)

    def delivers(self, attempt: WorkerAttempt, current: SchedulerProcess, *, reply_is_lost: bool) -> None:
        try:
            if reply_is_lost:
                current.scheduler.complete(attempt.ref, attempt.outcome)
                return
            status = attempt.deliver(current.scheduler)
        except JournalError:
            return
        self.attempts.remove(attempt)
        if attempt.outcome.failure is not None:
            return
        if status is ResultStatus.SUPERSEDED:
            self.superseded.add(attempt.outcome.result)
        elif status is ResultStatus.ACCEPTED:
            stored = self.journal.of(attempt.ref.process)
            assert stored is not None
            if stored.state is ProcessState.RUNNING:
                assert self.journal.results(stored.id).get(attempt.ref.number) == attempt.outcome.result, "lost"

    @precondition(lambda self: self.attempts)
    @rule(data=st.data())
    def a_worker_sends_a_heartbeat(self, data: st.DataObject) -> None:
        for worker in self.workers[:1]:
            try:
                self.current.scheduler.beat(worker.id, [data.draw(st.sampled_from(self.attempts)).ref])
            except UnknownWorkerError:
                self.polls(worker, self.current, reply_is_lost=False)

    @precondition(lambda self: self.workers)
    @rule(says_so=st.booleans())
    def a_worker_leaves(self, says_so: bool) -> None:
        worker = self.workers.pop()
        if says_so:
            try:
                self.current.scheduler.leave(worker.id)
            except JournalError:
                self.current = self.open()

    @precondition(lambda self: self.workers)
    @rule()
    def late_results_go_to_a_predecessor(self) -> None:
        """The replies of the scheduler are lost, and workers ask its predecessor."""
        before, self.current = self.current, self.open()
        self.old.append(before)
        for worker in self.workers:
            self.polls(worker, self.current, reply_is_lost=False)
        self.now += 61_000
        self.step(0)
        for worker in self.workers:
            self.polls(worker, self.current, reply_is_lost=False)
            self.polls(worker, self.current, reply_is_lost=False)
        for attempt in list(self.attempts):
            self.delivers(attempt, self.current, reply_is_lost=True)
        for _ in range(2):
            for attempt in list(self.attempts):
                self.delivers(attempt, before, reply_is_lost=False)

    @precondition(lambda self: self.attempts)
    @rule()
    def a_worker_dies_before_it_delivers(self) -> None:
        self.attempts.pop()

    @rule(seconds=st.sampled_from([3, 61, 301, 3_600]))
    def time_passes(self, seconds: int) -> None:
        self.now += seconds * 1_000

    # -- tables --------------------------------------------------------------------------------------------------------

    @rule(name=st.sampled_from(NAMES), files=st.integers(1, 9))
    def a_writer_appends(self, name: str, files: int) -> None:
        if name not in self.lake.tables:
            self.lake.create(name)
        self.lake.write(name, files)

    @rule(name=st.sampled_from(NAMES))
    def a_writer_overwrites(self, name: str) -> None:
        if name in self.lake.tables:
            self.lake.overwrite(name)

    @rule(name=st.sampled_from(NAMES), again=st.booleans())
    def a_table_is_dropped(self, name: str, again: bool) -> None:
        if name in self.lake.tables:
            self.lake.drop(name)
            if again:
                self.lake.create(name)
                self.lake.write(name, 9)

    @rule(name=st.sampled_from(NAMES))
    def a_table_disappears_and_returns(self, name: str) -> None:
        self.steps_with_work(0, 1)
        if name in self.lake.tables:
            self.lake.drop(name)
        self.step(0)
        self.lake.create(name)
        self.lake.write(name, 9)
        self.steps_with_work(0, 1)

    @rule()
    def a_commit_appears_late(self) -> None:
        self.lake.publish_pending()

    @rule(
        what=st.sampled_from(
            [
                CommitConflictError("Another was first."),
                CommitFailedError("It lost every race."),
                CommitStateUnknownError("It timed out."),
                StorageAccessError("The network is away."),
            ]
        ),
        is_made=st.booleans(),
    )
    def the_next_commit_fails(self, what: Exception, is_made: bool) -> None:
        self.lake.commits.append(what)
        self.lake.unknown_ones_are_made = is_made
        if isinstance(what, CommitStateUnknownError):
            self.lake.commits.append(CommitConflictError("Another was first."))

    @rule(which=st.sampled_from(["plans_fail", "measures_fail", "ends_fail"]), now=st.booleans())
    def storage_fails(self, which: str, now: bool) -> None:
        setattr(self.lake, which, now)

    @rule(name=st.sampled_from(NAMES), is_enabled=st.booleans())
    def a_table_is_enabled_or_not(self, name: str, is_enabled: bool) -> None:
        if name in self.lake.tables:
            self.lake.set_option(name, "self-optimizing.enabled", str(is_enabled).lower())

    @rule(name=st.sampled_from(NAMES), kind=st.sampled_from(RequestKind))
    def a_user_sends_a_request(self, name: str, kind: RequestKind) -> None:
        work = WorkKind.FULL if kind is RequestKind.NOW else None
        self.journal.ask(TableRequest(table=name, kind=kind, work=work))

    @rule(name=st.sampled_from(["default", "other"]))
    def the_groups_change(self, name: str) -> None:
        self.groups = {name: ResourceGroup(name=name)}
        try:
            self.current.scheduler.set_groups(self.groups)
        except JournalError:
            self.current = self.open()

    # -- invariants ----------------------------------------------------------------------------------------------------

    @invariant()
    def files_of_snapshots_exist(self) -> None:
        for table in self.lake.tables.values():
            assert table.named() <= table.disk

    @invariant()
    def no_process_is_committed_twice(self) -> None:
        for table in self.lake.tables.values():
            users = [version.user for version in table.versions if version.user.startswith("p")]
            assert len(users) == len(set(users))

    def teardown(self) -> None:
        """Stop all failures and let workers work: everything must come to its end."""
        lake = self.lake
        self.fuse = None
        lake.commits.clear()
        lake.publish_pending()
        lake.plans_fail = lake.measures_fail = lake.ends_fail = False
        self.groups = {"default": ResourceGroup()}
        for name in NAMES:
            self.journal.ask(TableRequest(table=name, kind=RequestKind.RESUME))
            if name in lake.tables:
                lake.set_option(name, "self-optimizing.enabled", "true")
        self.current = self.open()
        self.workers = []
        self.worker_comes()
        for _ in range(40):
            # As long as the longest pause, with heartbeats often enough to keep the workers registered.
            self.now += 200_000
            for _ in range(3):
                self.steps_with_work(0, 1)
        self.assert_quiet()

    def assert_quiet(self) -> None:
        stored = self.journal.processes(limit=100_000)
        assert [p for p in stored if not p.state.has_ended] == []
        assert list(self.journal.requests()) == []
        left = {p.id for p in stored if p.cleanup is CleanupMode.LEAVE}
        for name, table in self.lake.tables.items():
            state = self.journal.tables([name])[0]
            assert len(table.newest.files) <= MOST_RUNS, f"{name} is not within its bounds: {state}"
            assert table.marks == set()
            assert {file for file in table.unnamed() if file.split("/")[0] not in left} == set()
        for process in stored:
            self.counted(f"processes that {process.state.value}", 1)


@pytest.mark.longer
def test_no_work_is_lost_and_no_file_is_left_behind_under_random_failures(tally: Tally) -> None:
    class CountingMachine(InterruptionMachine):
        counted = staticmethod(tally)

    run_state_machine_as_test(
        CountingMachine,
        settings=settings(
            max_examples=examples(500),
            stateful_step_count=60,
            deadline=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        ),
    )
