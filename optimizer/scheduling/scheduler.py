"""The state machine: tables wait, processes begin, tasks are assigned, results come, processes end.

Its only I/O is its journal. Each method that changes something stores the change before it returns, so that the next
scheduler knows everything that had an effect. After the journal has refused a change, all methods that decide something
raise SchedulerEndedError; the caller then creates another scheduler from the journal. Methods are to be called by one
thread at a time. Times are epoch milliseconds.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from interbed.optimizer.flow.process import (
    CleanupMode,
    JournalError,
    Process,
    ProcessState,
    ResultStatus,
    SchedulerEndedError,
    TaskAssignment,
    TaskOutcome,
    TaskRef,
    UnknownWorkerError,
    WorkNeed,
)
from interbed.optimizer.flow.tables import PlannedTask, RequestKind, ResourceGroup, TableMeasurement, TableState, Worker
from interbed.optimizer.journal.api import Journal, JournalChanges, Lease
from interbed.optimizer.scheduling.needs import SchedulerSettings
from interbed.optimizer.scheduling.process_board import ProcessBoard
from interbed.optimizer.scheduling.table_queues import (
    QueueEntry,
    TableBoard,
    TableQueues,
    Usage,
    queue_entry,
    waiting_table,
)
from interbed.storage.base.errors import InvalidInputError

_REMEMBERED = 10_000
"""Processes of the past from which a new scheduler computes the usage of tables."""


class Scheduler:
    """Scheduler that continues from the state in the journal. `new_id` returns unique ids."""

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
        self._removed: list[str] = []
        self._usage = Usage()
        state = journal.load(lease)
        now = clock()
        self._tables = TableBoard(state.tables, settings)
        self._queues = TableQueues(self._tables, self._usage)
        self._processes = ProcessBoard(state.processes, state.tasks, settings, self._usage, now)
        for process in state.processes:
            self._tables.busy(process.table)
            if process.state is ProcessState.RUNNING and not process.tasks:
                # Its planner was killed, perhaps by this table. There may be a mark, but there are no files.
                self._processes.end(process.id, ProcessState.FAILED, CleanupMode.DISCARD, failure="never planned")
        for process in reversed(journal.processes(limit=_REMEMBERED)):
            if process.seconds:
                ended = now if process.ended_millis is None else process.ended_millis
                self._usage.add(process.table, ended - round(process.seconds * 1000), ended)
        self._store()

    @property
    def lease(self) -> Lease:
        """The lease by which this process schedules."""
        return self._lease

    def renew(self) -> None:
        """Renew the lease once half of it is over. Raises LeaseLostError."""
        now = self._clock()
        if self._lease.until_millis - now <= self._settings.lease / 2:
            self._lease = self._journal.renew(self._lease, now + self._settings.lease)

    # -- workers -------------------------------------------------------------------------------------------------------

    def register(self, group: str, threads: int, memory: int, place: str) -> Worker:
        """Register a worker. Raises InvalidInputError for an unknown group."""
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
        """Remove a worker that ends; its unfinished tasks wait again."""
        if self._workers.pop(worker_id, None) is not None:
            self._workers_changed = True
            self._processes.withdraw(worker_id, self._clock())
            self._step()

    def beat(self, worker_id: str, running: Iterable[TaskRef]) -> list[TaskRef]:
        """Take the heartbeat of a worker with its running attempts, and return those that it is to give up.

        Raises UnknownWorkerError; after it has registered again, the worker may continue its attempts.
        """
        now = self._clock()
        self._seen(worker_id, now)
        return [ref for ref in running if not self._processes.beat(ref, now)]

    def poll(self, worker_id: str, free: int) -> list[TaskAssignment]:
        """Assign attempts to a worker with `free` threads. Raises UnknownWorkerError."""
        now = self._clock()
        worker = self._seen(worker_id, now)
        group = self._groups.get(worker.group)
        given: list[TaskAssignment] = []
        while group is not None and len(given) < free:
            chosen = min(self._ready(group, now), key=lambda ready: ready[0], default=None)
            if chosen is None or self._must_wait(chosen[0], group, now):
                break
            given.append(self._processes.give(chosen[1].id, worker_id, now))
        if given:
            self._workers_changed = True
            self._store()
        return given

    def complete(self, ref: TaskRef, outcome: TaskOutcome) -> ResultStatus:
        """Take the result of an attempt."""
        status = self._processes.complete(ref, outcome, self._clock())
        self._step()
        return status

    # -- tables --------------------------------------------------------------------------------------------------------

    def changed(self, names: Iterable[str], removed: Iterable[str] = ()) -> None:
        """Record the tables that have changed or were removed."""
        self._tables.changed(names)
        for name in removed:
            self._forget(name)
        self._store()

    def take_requests(self) -> None:
        """Carry out the requests of users."""
        now = self._clock()
        for request in self._journal.requests():
            paused = {RequestKind.PAUSE: True, RequestKind.RESUME: False}.get(request.kind)
            self._tables.ask(request.table, paused=paused, work=request.work, now=now)
            self._answered.append(request.id)
        self._store()

    def set_groups(self, groups: Mapping[str, ResourceGroup]) -> None:
        """Replace the groups. Workers of a removed group get no tasks, and its processes with waiting tasks are
        cancelled.
        """
        if dict(groups) != self._groups:
            self._groups = dict(groups)
            self._groups_changed = True
            self._processes.unsettle()
            self._step()

    def take_unmeasured(self) -> list[str]:
        """Return the tables to be measured now."""
        return self._tables.take_unmeasured(self._clock())

    def measured(self, name: str, found: TableMeasurement) -> None:
        """Record the measurement of a table; the next step stores it."""
        self._tables.measured(name, found, self._clock())

    def unreadable(self, name: str, why: str) -> None:
        """Record that a table can't be measured; nothing is done for it."""
        self._tables.unreadable(name, why, self._clock())

    def table_removed(self, name: str) -> None:
        """Record that a table was removed."""
        self._forget(name)
        self._store()

    # -- processes -----------------------------------------------------------------------------------------------------

    def begin(self) -> tuple[Process, WorkNeed, int] | None:
        """Begin a process for the next table; return it with its need and the threads of its workers, or None.

        The caller plans it, and reports by `planned` or `not_planned`.
        """
        now = self._clock()
        for group in sorted(self._groups.values(), key=lambda g: g.name):
            slots = self._slots(group)
            chosen = self._queues.first(group, self._capacity(group), now) if slots else None
            if chosen is None or not self._is_to_begin(chosen, group, slots, now):
                continue
            before = self._tables[chosen.table].summary
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
        """Add the planned tasks of a process; without tasks it ends, since there was nothing to do."""
        if tasks:
            self._processes.planned(process_id, tasks)
        else:
            self._processes.end(process_id, ProcessState.SUCCEEDED, CleanupMode.DISCARD)
        self._store()

    def not_planned(self, process_id: str, why: str) -> None:
        """End a process whose planning failed."""
        self._processes.end(process_id, ProcessState.FAILED, CleanupMode.DISCARD, failure=why)
        self._store()

    def to_commit(self) -> list[tuple[Process, list[bytes]]]:
        """Return the processes whose tasks are done, with the results."""
        self._check()
        found = [p for p in self._processes if p.state is ProcessState.COMMITTING]
        return [(p, self._processes.results(p.id)) for p in found]

    def committed(self, process_id: str, snapshot_id: int | None) -> None:
        """Record that a process was committed."""
        self._processes.end(process_id, ProcessState.SUCCEEDED, CleanupMode.SWEEP, snapshot_id=snapshot_id)
        self._store()

    def gave_way(self, process_id: str, why: str, *, is_certain: bool) -> None:
        """Record that another writer came first. With `is_certain` nothing was committed: no earlier attempt had an
        unknown outcome.
        """
        cleanup = CleanupMode.DISCARD if is_certain else CleanupMode.LEAVE
        self._processes.end(process_id, ProcessState.GAVE_WAY, cleanup, failure=why)
        self._store()

    def not_committed(self, process_id: str, why: str, *, is_certain: bool) -> None:
        """Record that the commit of a process failed. Without `is_certain`, it may have been committed."""
        cleanup = CleanupMode.DISCARD if is_certain else CleanupMode.LEAVE
        self._processes.end(process_id, ProcessState.FAILED, cleanup, failure=why)
        self._store()

    def to_end(self) -> list[tuple[Process, list[bytes]]]:
        """Return the processes whose files are to be cleaned up, with the results."""
        self._check()
        found = [p for p in self._processes if p.state is ProcessState.ENDING]
        return [(p, self._processes.results(p.id)) for p in found]

    def ended(self, process_id: str, found: TableMeasurement | None) -> Process:
        """Record that a process was cleaned up, with the new measurement of its table if there is one."""
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
                process = replace(process, after=state.summary)
                self._processes.amend(process)
        self._store()
        return process

    def expire_leases(self) -> None:
        """Forget workers whose leases have expired, and withdraw expired attempts."""
        now = self._clock()
        for worker in [w for w in self._workers.values() if w.lease_until_millis <= now]:
            del self._workers[worker.id]
            self._workers_changed = True
        self._processes.expire(now)
        self._step()

    def expire_history(self) -> int:
        """Delete processes older than the history, and return their number."""
        return self._journal.expire(self._lease, self._clock() - self._settings.history)

    # -- state ---------------------------------------------------------------------------------------------------------

    def tables(self) -> list[TableState]:
        """Return the states of all tables."""
        return list(self._tables)

    def processes(self) -> list[Process]:
        """Return the processes that have not ended."""
        return list(self._processes)

    def workers(self) -> list[Worker]:
        """Return the registered workers."""
        running = self._processes.running_tasks()
        return [replace(worker, running=running.get(worker.id, 0)) for worker in self._workers.values()]

    def tasks(self) -> dict[str, tuple[int, int]]:
        """Return the numbers of waiting and running tasks, by group."""
        return {**dict.fromkeys(self._groups, (0, 0)), **self._processes.count_tasks()}

    # -- internals -----------------------------------------------------------------------------------------------------

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
            removed=self._removed,
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
        self._removed, self._answered = [], []
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
        """Return the seconds of workers that the group has in its window."""
        return self._slots(group) * group.window_millis / 1000

    def _ready(self, group: ResourceGroup, now: int) -> list[tuple[QueueEntry, Process]]:
        """Return the processes with waiting tasks, with the queue entries of their tables."""
        capacity = self._capacity(group)
        ready = []
        for process in self._processes.with_waiting(group.name):
            if process.table in self._tables:
                table, begun = self._tables[process.table], process.created_millis
                waiting = waiting_table(table, self._usage, group, now, otherwise_since=begun)
                ready.append((queue_entry(waiting, group.policy, capacity=capacity), process))
        return ready

    def _must_wait(self, chosen: QueueEntry, group: ResourceGroup, now: int) -> bool:
        """Return whether a table has used its quota while a table that has not waits to be planned."""
        if not chosen.is_over_quota:
            return False
        first = self._queues.first(group, self._capacity(group), now)
        return first is not None and not first.is_over_quota

    def _is_to_begin(self, chosen: QueueEntry, group: ResourceGroup, slots: int, now: int) -> bool:
        """Return whether the next table is to be planned: workers lack tasks, or it precedes all tables with tasks.

        A table that has used its quota is not planned while others have tasks.
        """
        ready = self._ready(group, now)
        if all(chosen.is_before(entry) for entry, _ in ready):
            return True
        tasks = sum(self._processes.waiting_tasks(p.id) for entry, p in ready if not entry.is_over_quota)
        return not chosen.is_over_quota and tasks < slots

    def _forget(self, name: str) -> None:
        if self._tables.removed(name):
            self._usage.forget(name)
            self._removed.append(name)
        for process in [p for p in self._processes if p.table == name and p.state is not ProcessState.ENDING]:
            # A new table of the same name does not show whether the commit to the removed one succeeded.
            cleanup = CleanupMode.DISCARD if process.state is ProcessState.RUNNING else CleanupMode.LEAVE
            self._processes.end(process.id, ProcessState.CANCELLED, cleanup, failure="the table was removed")


def _settled(process: Process) -> int | None:
    """Return the snapshot in which a process has left nothing to do; None when there were other commits meanwhile."""
    before = process.before.snapshot_id
    if process.snapshot_id is None:
        return before
    return process.snapshot_id if process.snapshot_id == (before or 0) + 1 else None
