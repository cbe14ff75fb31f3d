"""Processes that have not ended, with their tasks, the assignments of tasks to workers, and their results.

Counts of tasks by state are updated as tasks change: a process with many tasks costs no more to look at.
"""

import heapq
from collections import Counter
from collections.abc import Container, Iterator, Sequence
from dataclasses import replace

from interbed.optimizer.flow.process import (
    NO_FIGURES,
    CleanupMode,
    Process,
    ProcessState,
    ResultStatus,
    Task,
    TaskAssignment,
    TaskOutcome,
    TaskRef,
    TaskState,
)
from interbed.optimizer.flow.tables import PlannedTask
from interbed.optimizer.scheduling.needs import SchedulerSettings
from interbed.optimizer.scheduling.table_queues import Usage


class TaskList:
    """The tasks of a process, by number."""

    def __init__(self) -> None:
        self._tasks: dict[int, Task] = {}
        self._counts: Counter[TaskState] = Counter()
        self._waiting: list[tuple[int, int]] = []

    def __len__(self) -> int:
        return len(self._tasks)

    def __iter__(self) -> Iterator[Task]:
        """Yield the tasks in the order of their numbers."""
        return (self._tasks[number] for number in sorted(self._tasks))

    def get(self, number: int) -> Task | None:
        """Return the task of that number."""
        return self._tasks.get(number)

    def put(self, task: Task) -> None:
        """Insert or replace a task."""
        before = self._tasks.get(task.number)
        self._tasks[task.number] = task
        if before is not None:
            self._counts[before.state] -= 1
        self._counts[task.state] += 1
        if task.state is TaskState.WAITING and (before is None or before.state is not TaskState.WAITING):
            heapq.heappush(self._waiting, (-task.cost, task.number))

    def count(self, state: TaskState) -> int:
        """Return the number of tasks in a state."""
        return self._counts[state]

    def costliest(self) -> Task | None:
        """Return the costliest waiting task."""
        while self._waiting:
            task = self._tasks[self._waiting[0][1]]
            if task.state is TaskState.WAITING:
                return task
            heapq.heappop(self._waiting)
        return None


_FAILURE_MAX = 2000
"""Characters of a failure that are kept."""


class ProcessBoard:
    """Processes by id. `take_changed` returns the changes for the journal."""

    def __init__(
        self, processes: Sequence[Process], tasks: Sequence[Task], settings: SchedulerSettings, usage: Usage, now: int
    ) -> None:
        self._settings = settings
        self._usage = usage
        self._processes = {process.id: process for process in processes}
        self._tasks = {process.id: TaskList() for process in processes}
        self._running: dict[tuple[str, int], None] = {}
        # Processes whose tasks have changed; `settle` decides their next states.
        self._unsettled = {process.id: None for process in processes}
        self._changed_processes: dict[str, None] = {}
        self._changed_tasks: dict[tuple[str, int], None] = {}
        self._ended: dict[str, Process] = {}
        for task in tasks:
            if task.state is TaskState.RUNNING:
                # Its worker may be alive; it has one lease for its next heartbeat.
                task = replace(task, lease_until_millis=now + settings.lease)
                usage.begin(self._processes[task.process].table, task.ref, now)
            self._place(task)

    def __iter__(self) -> Iterator[Process]:
        return iter(self._processes.values())

    def __contains__(self, process_id: str) -> bool:
        return process_id in self._processes

    def __getitem__(self, process_id: str) -> Process:
        return self._processes[process_id]

    def take_changed(self) -> tuple[list[Process], list[Task]]:
        """Return the processes and tasks that changed since the last call, ended processes included."""
        processes = [self._processes[i] for i in self._changed_processes if i in self._processes]
        processes += self._ended.values()
        changed = (self._task(process, number) for process, number in self._changed_tasks)
        tasks = [task for task in changed if task is not None]
        self._changed_processes.clear()
        self._changed_tasks.clear()
        self._ended.clear()
        return processes, tasks

    def begin(self, process: Process) -> None:
        """Add a process, without tasks yet."""
        self._tasks[process.id] = TaskList()
        self._put(process)

    def planned(self, process_id: str, tasks: Sequence[PlannedTask]) -> None:
        """Add the tasks of a process, at least one."""
        for number, task in enumerate(tasks):
            self._put_task(Task(process=process_id, number=number, payload=task.payload, cost=task.cost))
        self._put(replace(self._processes[process_id], tasks=len(tasks)))

    def with_waiting(self, group: str) -> Iterator[Process]:
        """Yield the processes of a group that have waiting tasks."""
        for process in self._processes.values():
            if process.group == group and process.state is ProcessState.RUNNING and self.waiting_tasks(process.id):
                yield process

    def waiting_tasks(self, process_id: str) -> int:
        """Return the number of tasks of a process that wait for a worker."""
        return self._tasks[process_id].count(TaskState.WAITING)

    def count_tasks(self) -> dict[str, tuple[int, int]]:
        """Return the numbers of waiting and running tasks of running processes, by group."""
        counts: dict[str, tuple[int, int]] = {}
        for process in self._processes.values():
            if process.state is ProcessState.RUNNING:
                waiting, running = counts.get(process.group, (0, 0))
                tasks = self._tasks[process.id]
                counts[process.group] = (
                    waiting + tasks.count(TaskState.WAITING),
                    running + tasks.count(TaskState.RUNNING),
                )
        return counts

    def running_tasks(self) -> dict[str, int]:
        """Return the number of running tasks of each worker."""
        counts: dict[str, int] = {}
        for task in self._running_tasks():
            if task.worker is not None:
                counts[task.worker] = counts.get(task.worker, 0) + 1
        return counts

    def give(self, process_id: str, worker: str, now: int) -> TaskAssignment:
        """Assign the costliest waiting task to a worker, as a new attempt."""
        task = self._tasks[process_id].costliest()
        assert task is not None
        process = self._processes[process_id]
        task = self._put_task(
            replace(
                task,
                state=TaskState.RUNNING,
                attempt=task.attempt + 1,
                worker=worker,
                started_millis=now,
                lease_until_millis=now + self._settings.lease,
            )
        )
        self._usage.begin(process.table, task.ref, now)
        return TaskAssignment(
            ref=task.ref,
            table=process.table,
            kind=process.kind,
            payload=task.payload,
            lease_millis=self._settings.lease,
        )

    def beat(self, ref: TaskRef, now: int) -> bool:
        """Renew the lease of an attempt; return False when its worker is to give it up.

        Leases are not stored: after a restart each begins again.
        """
        task = self._task(ref.process, ref.number)
        if task is None or task.attempt != ref.attempt:
            return False
        if task.state is TaskState.DONE:
            # The result arrived before this heartbeat.
            return True
        if task.state is not TaskState.RUNNING:
            return False
        if self._processes[ref.process].state is not ProcessState.RUNNING:
            return False
        assert task.started_millis is not None
        if now - task.started_millis > self._settings.task_timeout:
            return False
        self._place(replace(task, lease_until_millis=now + self._settings.lease))
        return True

    def complete(self, ref: TaskRef, outcome: TaskOutcome, now: int) -> ResultStatus:
        """Take the result of an attempt. The same result may come twice."""
        task = self._task(ref.process, ref.number)
        # Another scheduler, which has taken over, has assigned an attempt that is unknown here.
        if task is None or task.attempt < ref.attempt:
            return ResultStatus.UNKNOWN
        if task.attempt > ref.attempt:
            return ResultStatus.SUPERSEDED
        if task.state is TaskState.DONE:
            return ResultStatus.ACCEPTED
        process = self._processes[ref.process]
        if task.state is not TaskState.RUNNING or process.state is not ProcessState.RUNNING:
            return ResultStatus.SUPERSEDED
        self._stop(task, now)
        if outcome.failure is None:
            self._put_task(
                replace(
                    task,
                    state=TaskState.DONE,
                    result=outcome.result,
                    figures=outcome.figures,
                    lease_until_millis=None,
                )
            )
        else:
            self._lose(task, outcome.failure[:_FAILURE_MAX])
        return ResultStatus.ACCEPTED

    def expire(self, now: int) -> None:
        """Withdraw attempts whose leases have expired, and attempts that take too long."""
        for task in self._running_tasks():
            if self._processes[task.process].state is not ProcessState.RUNNING:
                continue
            assert task.lease_until_millis is not None
            assert task.started_millis is not None
            if task.lease_until_millis <= now:
                self._stop(task, now)
                self._lose(task, f"worker {task.worker} sent no heartbeat for {self._settings.lease} ms")
            elif now - task.started_millis > self._settings.task_timeout:
                self._stop(task, now)
                self._lose(task, f"worker {task.worker} took longer than {self._settings.task_timeout} ms")

    def withdraw(self, worker: str, now: int) -> None:
        """Withdraw the attempts of a worker that has ended; their tasks wait again."""
        for task in self._running_tasks():
            if task.worker == worker:
                self._stop(task, now)
                self._lose(task, f"worker {worker} has ended")

    def results(self, process_id: str) -> list[bytes]:
        """Return the results of the tasks, in their order."""
        return [task.result for task in self._tasks[process_id] if task.result is not None]

    def settle(self, now: int, groups: Container[str]) -> None:
        """Advance processes whose tasks are all done, or of which one failed too often. Cancel processes with waiting
        tasks whose group is not among `groups` any more.
        """
        unsettled = [self._processes[i] for i in self._unsettled if i in self._processes]
        self._unsettled.clear()
        for process in unsettled:
            tasks = self._tasks[process.id]
            if process.state is not ProcessState.RUNNING or not len(tasks):
                continue
            if tasks.count(TaskState.FAILED):
                failed = next(task for task in tasks if task.state is TaskState.FAILED)
                self._stop_all(process.id, "another task failed", now)
                self.end(process.id, ProcessState.FAILED, CleanupMode.DISCARD, failure=failed.failure)
            elif tasks.count(TaskState.DONE) == len(tasks):
                figures = sum((task.figures for task in tasks), NO_FIGURES)
                self._put(replace(process, state=ProcessState.COMMITTING, figures=figures))
            elif tasks.count(TaskState.WAITING) and process.group not in groups:
                failure = f"the group '{process.group}' does not exist any more"
                self._stop_all(process.id, failure, now)
                self.end(process.id, ProcessState.CANCELLED, CleanupMode.DISCARD, failure=failure)

    def unsettle(self) -> None:
        """Have `settle` check all processes, since the groups have changed."""
        self._unsettled.update(dict.fromkeys(self._processes))

    def end(
        self,
        process_id: str,
        ending: ProcessState,
        cleanup: CleanupMode,
        *,
        snapshot_id: int | None = None,
        failure: str | None = None,
    ) -> None:
        """Begin the end of a process: only the cleanup of its files is left."""
        process = self._processes[process_id]
        self._put(
            replace(
                process,
                state=ProcessState.ENDING,
                ending=ending,
                cleanup=cleanup,
                snapshot_id=snapshot_id,
                failure=None if failure is None else failure[:_FAILURE_MAX],
            )
        )

    def ended(self, process_id: str, now: int) -> Process:
        """Remove a process whose files are cleaned up, and return it in its final state."""
        process = self._processes.pop(process_id)
        for task in self._tasks.pop(process_id):
            self._running.pop((process_id, task.number), None)
            self._usage.finish(process.table, task.ref, now)
        assert process.ending is not None
        process = replace(process, state=process.ending, ended_millis=now)
        self._ended[process_id] = process
        return process

    def amend(self, process: Process) -> None:
        """Replace a process that has just ended, to add its results."""
        self._ended[process.id] = process

    def _stop(self, task: Task, now: int) -> None:
        process = self._processes[task.process]
        seconds = self._usage.finish(process.table, task.ref, now)
        self._put(replace(process, seconds=process.seconds + seconds))

    def _lose(self, task: Task, why: str) -> None:
        state = TaskState.FAILED if task.attempt >= self._settings.attempts else TaskState.WAITING
        self._put_task(replace(task, state=state, worker=None, lease_until_millis=None, failure=why))

    def _stop_all(self, process_id: str, why: str, now: int) -> None:
        for task in self._tasks[process_id]:
            if task.state is TaskState.RUNNING:
                self._stop(task, now)
                self._put_task(replace(task, state=TaskState.FAILED, failure=why))

    def _task(self, process_id: str, number: int) -> Task | None:
        tasks = self._tasks.get(process_id)
        return None if tasks is None else tasks.get(number)

    def _running_tasks(self) -> list[Task]:
        found = (self._task(process, number) for process, number in self._running)
        return [task for task in found if task is not None]

    def _place(self, task: Task) -> None:
        self._tasks[task.process].put(task)
        if task.state is TaskState.RUNNING:
            self._running[task.process, task.number] = None
        else:
            self._running.pop((task.process, task.number), None)

    def _put(self, process: Process) -> None:
        self._processes[process.id] = process
        self._changed_processes[process.id] = None

    def _put_task(self, task: Task) -> Task:
        self._place(task)
        self._unsettled[task.process] = None
        self._changed_tasks[task.process, task.number] = None
        return task
