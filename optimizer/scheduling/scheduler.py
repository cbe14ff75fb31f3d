"""The state machine: tables wait, processes begin, tasks are given out, results come, processes end.

It does no I/O but for its journal. Each method that changes something stores it before it returns, so that nothing has
an effect which the next scheduler would not know of; when the journal refuses, the scheduler has nothing more to say
and has to be made anew: all that it would decide from then on raises SchedulerEndedError. Methods are to be called by
one thread at a time. Times are epoch milliseconds.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from interbed.optimizer.errors import JournalError, SchedulerEndedError, UnknownWorkerError
from interbed.optimizer.flow.group import ResourceGroup, Worker
from interbed.optimizer.flow.process import (
    Assignment,
    Cleanup,
    Need,
    Process,
    ProcessState,
    TaskOutcome,
    TaskRef,
    Verdict,
)
from interbed.optimizer.flow.tables import Measurement, PlannedTask, RequestKind, TableState
from interbed.optimizer.journal.api import Journal, JournalChanges, Lease
from interbed.optimizer.scheduling.process_board import ProcessBoard
from interbed.optimizer.scheduling.queues import Queues, Turn, Usage, turn_of, waiting_table
from interbed.optimizer.scheduling.settings import SchedulerSettings
from interbed.optimizer.scheduling.table_board import TableBoard
from interbed.storage.base.errors import InvalidInputError

_REMEMBERED = 10_000
"""Processes of the past from which a new scheduler counts what tables have used."""


class Scheduler:
    """Goes on from where the journal stands. `new_id` makes ids that nobody ever had."""

    def __init__(
        self,
        journal: Journal,
        lease: Lease,
        groups: Mapping[str, ResourceGroup],
        settings: SchedulerSettings,
        *,
        clock: Callable[[], int],
        new_id: Callable[[], str],
    ) -> None:
        """Raises JournalError and LeaseLostError."""
        self._journal = journal
        self._lease = lease
        self._settings = settings
        self._clock = clock
        self._new_id = new_id
        self._groups = dict(groups)
        self._groups_changed = True
        self._workers: dict[str, Worker] = {}
        self._workers_changed = True
        self._refused: JournalError | None = None
        self._answered: list[int] = []
        self._gone: list[str] = []
        self._usage = Usage()
        state = journal.load(lease)
        now = clock()
        self._tables = TableBoard(state.tables, settings)
        self._lines = Queues(self._tables, self._usage)
        self._processes = ProcessBoard(state.processes, state.tasks, settings, self._usage, now)
        for process in state.processes:
            self._tables.busy(process.table)
            if process.state is ProcessState.RUNNING and not process.tasks:
                # Its planner was killed, perhaps by this table. There may be a mark; files there are none.
                self._processes.end(process.id, ProcessState.FAILED, Cleanup.DISCARD, failure="never planned")
        for process in reversed(journal.processes(limit=_REMEMBERED)):
            if process.seconds:
                ended = now if process.ended_millis is None else process.ended_millis
                self._usage.add(process.table, ended - round(process.seconds * 1000), ended)
        self._store()

    @property
    def lease(self) -> Lease:
        """That it is this one that schedules."""
        return self._lease

    def renew(self) -> None:
        """Stay the scheduler, once half of the lease is over. Raises LeaseLostError."""
        now = self._clock()
        if self._lease.until_millis - now <= self._settings.lease / 2:
            self._lease = self._journal.renew(self._lease, now + self._settings.lease)

    # -- workers -------------------------------------------------------------------------------------------------------

    def register(self, group: str, threads: int, memory: int, place: str) -> Worker:
        """A worker is there. Raises InvalidInputError for a group that there is not."""
        if group not in self._groups:
            raise InvalidInputError(f"There is no group '{group}'; there are {', '.join(sorted(self._groups))}.")
        now = self._clock()
        worker = Worker(
            id=self._new_id(),
            group=group,
            threads=threads,
            memory=memory,
            place=place,
            since_millis=now,
            lease_until_millis=now + self._settings.lease,
        )
        self._workers[worker.id] = worker
        self._workers_changed = True
        self._store()
        return worker

    def leave(self, worker_id: str) -> None:
        """A worker ends; what it has not brought is given to others."""
        if self._workers.pop(worker_id, None) is not None:
            self._workers_changed = True
            self._processes.take_back(worker_id, self._clock())
            self._step()

    def beat(self, worker_id: str, running: Iterable[TaskRef]) -> list[TaskRef]:
        """A worker says that it is alive, and what it works on; the attempts among them that it is to give up.

        Raises UnknownWorkerError; after it has registered again, the worker may go on with its attempts.
        """
        now = self._clock()
        self._seen(worker_id, now)
        return [ref for ref in running if not self._processes.beat(ref, now)]

    def poll(self, worker_id: str, free: int) -> list[Assignment]:
        """Attempts for a worker that has so many threads free. Raises UnknownWorkerError."""
        now = self._clock()
        worker = self._seen(worker_id, now)
        group = self._groups.get(worker.group)
        given: list[Assignment] = []
        while group is not None and len(given) < free:
            chosen = min(self._ready(group, now), key=lambda ready: ready[0], default=None)
            if chosen is None or self._has_to_wait(chosen[0], group, now):
                break
            given.append(self._processes.give(chosen[1].id, worker_id, now))
        if given:
            self._workers_changed = True
            self._store()
        return given

    def complete(self, ref: TaskRef, outcome: TaskOutcome) -> Verdict:
        """What a worker brings of an attempt."""
        verdict = self._processes.complete(ref, outcome, self._clock())
        self._step()
        return verdict

    # -- tables --------------------------------------------------------------------------------------------------------

    def changed(self, names: Iterable[str], gone: Iterable[str] = ()) -> None:
        """What a watch has seen."""
        self._tables.changed(names)
        for name in gone:
            self._forget(name)
        self._store()

    def take_requests(self) -> None:
        """Do what people ask for."""
        now = self._clock()
        for request in self._journal.requests():
            paused = {RequestKind.PAUSE: True, RequestKind.RESUME: False}.get(request.kind)
            self._tables.ask(request.table, paused=paused, work=request.work, now=now)
            self._answered.append(request.id)
        self._store()

    def set_groups(self, groups: Mapping[str, ResourceGroup]) -> None:
        """Other groups from now on. Workers of a group that is gone get nothing more, and its processes with tasks that
        wait are cancelled.
        """
        if dict(groups) != self._groups:
            self._groups = dict(groups)
            self._groups_changed = True
            self._processes.unsettle()
            self._step()

    def take_unmeasured(self) -> list[str]:
        """Tables to be measured now."""
        return self._tables.take_unmeasured(self._clock())

    def measured(self, name: str, found: Measurement) -> None:
        """What was found of a table; stored with the next step."""
        self._tables.measured(name, found, self._clock())

    def unreadable(self, name: str, why: str) -> None:
        """A table can't be measured, and is left alone."""
        self._tables.unreadable(name, why, self._clock())

    def table_gone(self, name: str) -> None:
        """A table is no more."""
        self._forget(name)
        self._store()

    # -- processes -----------------------------------------------------------------------------------------------------

    def begin(self) -> tuple[Process, Need, int] | None:
        """A process for the table whose turn it is, what it is to do, and for how many workers; None for none.

        What was begun has to be told by `planned` or `not_planned`.
        """
        now = self._clock()
        for group in sorted(self._groups.values(), key=lambda g: g.name):
            slots = self._slots(group)
            chosen = self._lines.first(group, self._capacity(group), now) if slots else None
            if chosen is None or not self._is_to_begin(chosen, group, slots, now):
                continue
            before = self._tables[chosen.table].standing
            assert before is not None
            need = self._tables.begin(chosen.table, now)
            process = Process(
                id=self._new_id(),
                table=chosen.table,
                kind=need.kind,
                group=group.name,
                reason=need.reason,
                state=ProcessState.RUNNING,
                created_millis=now,
                before=before,
                options=need.options,
            )
            self._processes.begin(process)
            self._store()
            return process, need, slots
        return None

    def planned(self, process_id: str, tasks: Sequence[PlannedTask]) -> None:
        """The tasks of a process; without any there was nothing to do."""
        if tasks:
            self._processes.planned(process_id, tasks)
        else:
            self._processes.end(process_id, ProcessState.SUCCEEDED, Cleanup.DISCARD)
        self._store()

    def not_planned(self, process_id: str, why: str) -> None:
        """A process whose tasks could not be found."""
        self._processes.end(process_id, ProcessState.FAILED, Cleanup.DISCARD, failure=why)
        self._store()

    def to_commit(self) -> list[tuple[Process, list[bytes]]]:
        """Processes whose tasks are done, with what these brought."""
        self._check()
        found = [p for p in self._processes if p.state is ProcessState.COMMITTING]
        return [(p, self._processes.results(p.id)) for p in found]

    def committed(self, process_id: str, snapshot_id: int | None) -> None:
        """A process was committed."""
        self._processes.end(process_id, ProcessState.SUCCEEDED, Cleanup.SWEEP, snapshot_id=snapshot_id)
        self._store()

    def gave_way(self, process_id: str, why: str, *, is_certain: bool) -> None:
        """Another writer came first. It is certain that nothing was committed when no try had an outcome that is not
        known.
        """
        cleanup = Cleanup.DISCARD if is_certain else Cleanup.LEAVE
        self._processes.end(process_id, ProcessState.GAVE_WAY, cleanup, failure=why)
        self._store()

    def not_committed(self, process_id: str, why: str, *, is_certain: bool) -> None:
        """A process can't be committed; it need not be certain that it was not."""
        cleanup = Cleanup.DISCARD if is_certain else Cleanup.LEAVE
        self._processes.end(process_id, ProcessState.FAILED, cleanup, failure=why)
        self._store()

    def to_end(self) -> list[tuple[Process, list[bytes]]]:
        """Processes whose files are to be cleaned up, with what their tasks brought."""
        self._check()
        found = [p for p in self._processes if p.state is ProcessState.ENDING]
        return [(p, self._processes.results(p.id)) for p in found]

    def ended(self, process_id: str, found: Measurement | None) -> Process:
        """A process was cleaned up; its table was measured again, if it could be."""
        now = self._clock()
        process = self._processes.ended(process_id, now)
        if process.state is ProcessState.CANCELLED:
            self._tables.cancelled(process.table, now)
        elif process.state is ProcessState.SUCCEEDED:
            self._tables.succeeded(process.table, process.kind, _settled(process), now)
        else:
            self._tables.failed(process.table, now, gave_way=process.state is ProcessState.GAVE_WAY)
        if found is not None:
            state = self._tables.measured(process.table, found, now)
            if state is not None:
                process = replace(process, after=state.standing)
                self._processes.amend(process)
        self._store()
        return process

    def expire_leases(self) -> None:
        """Take attempts from workers that are silent, and forget these."""
        now = self._clock()
        for worker in [w for w in self._workers.values() if w.lease_until_millis <= now]:
            del self._workers[worker.id]
            self._workers_changed = True
        self._processes.expire(now)
        self._step()

    def expire_history(self) -> int:
        """Forget processes of long ago; how many."""
        return self._journal.expire(self._lease, self._clock() - self._settings.history)

    # -- what is shown -------------------------------------------------------------------------------------------------

    def tables(self) -> list[TableState]:
        """All tables."""
        return list(self._tables)

    def processes(self) -> list[Process]:
        """The processes that have not ended."""
        return list(self._processes)

    def workers(self) -> list[Worker]:
        """The workers that are known."""
        running = self._processes.running_tasks()
        return [replace(worker, running=running.get(worker.id, 0)) for worker in self._workers.values()]

    def tasks(self) -> dict[str, tuple[int, int]]:
        """How many tasks wait and run, by group."""
        return {**dict.fromkeys(self._groups, (0, 0)), **self._processes.count_tasks()}

    # -- inside --------------------------------------------------------------------------------------------------------

    def _step(self) -> None:
        self._processes.settle(self._clock(), self._groups)
        self._store()

    def _check(self) -> None:
        if self._refused is not None:
            raise SchedulerEndedError(f"This scheduler has ended: {self._refused}") from self._refused

    def _store(self) -> None:
        self._check()
        processes, tasks = self._processes.take_changed()
        changes = JournalChanges(
            tables=self._tables.take_changed(),
            gone=self._gone,
            processes=processes,
            tasks=tasks,
            workers=self.workers() if self._workers_changed else None,
            groups=list(self._groups.values()) if self._groups_changed else None,
            answered=self._answered,
        )
        if changes.is_empty:
            return
        try:
            self._journal.store(self._lease, changes)
        except JournalError as error:
            self._refused = error
            raise
        self._gone, self._answered = [], []
        self._workers_changed = self._groups_changed = False

    def _seen(self, worker_id: str, now: int) -> Worker:
        worker = self._workers.get(worker_id)
        if worker is None:
            raise UnknownWorkerError(f"No worker has the id {worker_id}; it has to register again.")
        worker = replace(worker, lease_until_millis=now + self._settings.lease)
        self._workers[worker_id] = worker
        return worker

    def _slots(self, group: ResourceGroup) -> int:
        return sum(worker.threads for worker in self._workers.values() if worker.group == group.name)

    def _capacity(self, group: ResourceGroup) -> float:
        """Seconds of workers that the group has in its window."""
        return self._slots(group) * group.window_millis / 1000

    def _ready(self, group: ResourceGroup, now: int) -> list[tuple[Turn, Process]]:
        """The processes that have tasks to give out, with the turns of their tables."""
        capacity = self._capacity(group)
        ready = []
        for process in self._processes.with_waiting(group.name):
            if process.table in self._tables:
                table, begun = self._tables[process.table], process.created_millis
                waiting = waiting_table(table, self._usage, group, now, otherwise_since=begun)
                ready.append((turn_of(waiting, group.policy, capacity=capacity), process))
        return ready

    def _has_to_wait(self, chosen: Turn, group: ResourceGroup, now: int) -> bool:
        """Whether a table has used its share while one that has not is waiting to be planned."""
        if not chosen.is_over_its_share:
            return False
        first = self._lines.first(group, self._capacity(group), now)
        return first is not None and not first.is_over_its_share

    def _is_to_begin(self, chosen: Turn, group: ResourceGroup, slots: int, now: int) -> bool:
        """Whether the next table is to be planned: there are too few tasks for the workers, or it is its turn before
        all tables that have tasks. One that has used its share is not, while others have tasks.
        """
        ready = self._ready(group, now)
        if all(chosen.is_before(turn) for turn, _ in ready):
            return True
        tasks = sum(self._processes.waiting_tasks(p.id) for turn, p in ready if not turn.is_over_its_share)
        return not chosen.is_over_its_share and tasks < slots

    def _forget(self, name: str) -> None:
        if self._tables.gone(name):
            self._usage.forget(name)
            self._gone.append(name)
        for process in [p for p in self._processes if p.table == name and p.state is not ProcessState.ENDING]:
            # What a table of the same name is like tells nothing of whether this one's commit came to be.
            cleanup = Cleanup.DISCARD if process.state is ProcessState.RUNNING else Cleanup.LEAVE
            self._processes.end(process.id, ProcessState.CANCELLED, cleanup, failure="the table is gone")


def _settled(process: Process) -> int | None:
    """The snapshot of which it is known that a process left nothing to do, None when others wrote meanwhile."""
    before = process.before.snapshot_id
    if process.snapshot_id is None:
        return before
    return process.snapshot_id if process.snapshot_id == (before or 0) + 1 else None
