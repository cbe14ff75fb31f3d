"""Processes that have not ended, with their tasks: which are given to which workers, and with which results.

Counts of tasks by state are kept as tasks change, so that a process with many tasks costs no more to look at.
"""

import heapq
from collections import Counter
from collections.abc import Container, Iterator, Sequence
from dataclasses import replace

from interbed.optimizer.flow.process import (
    NO_FIGURES,
    Assignment,
    Cleanup,
    Process,
    ProcessState,
    Task,
    TaskOutcome,
    TaskRef,
    TaskState,
    Verdict,
)
from interbed.optimizer.flow.tables import PlannedTask
from interbed.optimizer.scheduling.queues import Usage
from interbed.optimizer.scheduling.settings import SchedulerSettings


class TaskList:
    """Tasks by their numbers."""

    def __init__(self) -> None:
        self._tasks: dict[int, Task] = {}
        self._counts: Counter[TaskState] = Counter()
        self._waiting: list[tuple[int, int]] = []

    def __len__(self) -> int:
        return len(self._tasks)

    def __iter__(self) -> Iterator[Task]:
        """In the order of their numbers."""
        return (self._tasks[number] for number in sorted(self._tasks))

    def get(self, number: int) -> Task | None:
        """The task of that number."""
        return self._tasks.get(number)

    def put(self, task: Task) -> None:
        """A task, or what became of it."""
        before = self._tasks.get(task.number)
        self._tasks[task.number] = task
        if before is not None:
            self._counts[before.state] -= 1
        self._counts[task.state] += 1
        if task.state is TaskState.WAITING and (before is None or before.state is not TaskState.WAITING):
            heapq.heappush(self._waiting, (-task.cost, task.number))

    def count(self, state: TaskState) -> int:
        """How many are in a state."""
        return self._counts[state]

    def costliest(self) -> Task | None:
        """The costliest task that waits."""
        while self._waiting:
            task = self._tasks[self._waiting[0][1]]
            if task.state is TaskState.WAITING:
                return task
            heapq.heappop(self._waiting)
        return None


_FAILURE_MAX = 2000
"""Characters of a failure that are kept."""


class ProcessBoard:
    """Processes by id. `take_changed` gives what has to go into the journal."""

    def __init__(
        self, processes: Sequence[Process], tasks: Sequence[Task], settings: SchedulerSettings, usage: Usage, now: int
    ) -> None:
        self._settings = settings
        self._usage = usage
        self._processes = {process.id: process for process in processes}
        self._tasks = {process.id: TaskList() for process in processes}
        self._running: dict[tuple[str, int], None] = {}
        # Processes with tasks that have moved: what follows for them is found out by `settle`.
        self._unsettled = {process.id: None for process in processes}
        self._changed_processes: dict[str, None] = {}
        self._changed_tasks: dict[tuple[str, int], None] = {}
        self._ended: dict[str, Process] = {}
        for task in tasks:
            if task.state is TaskState.RUNNING:
                # Its worker may well be alive; it is given the time to say so.
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
        """The processes and tasks that changed since the last call; those that ended among the processes."""
        processes = [self._processes[i] for i in self._changed_processes if i in self._processes]
        processes += self._ended.values()
        changed = (self._task(process, number) for process, number in self._changed_tasks)
        tasks = [task for task in changed if task is not None]
        self._changed_processes.clear()
        self._changed_tasks.clear()
        self._ended.clear()
        return processes, tasks

    def begin(self, process: Process) -> None:
        """A process begins, without tasks yet."""
        self._tasks[process.id] = TaskList()
        self._put(process)

    def planned(self, process_id: str, tasks: Sequence[PlannedTask]) -> None:
        """The tasks of a process; it has at least one."""
        for number, task in enumerate(tasks):
            self._put_task(Task(process=process_id, number=number, payload=task.payload, cost=task.cost))
        self._put(replace(self._processes[process_id], tasks=len(tasks)))

    def with_waiting(self, group: str) -> Iterator[Process]:
        """The processes of a group that have tasks to give out."""
        for process in self._processes.values():
            if process.group == group and process.state is ProcessState.RUNNING and self.waiting_tasks(process.id):
                yield process

    def waiting_tasks(self, process_id: str) -> int:
        """How many tasks of a process wait for a worker."""
        return self._tasks[process_id].count(TaskState.WAITING)

    def count_tasks(self) -> dict[str, tuple[int, int]]:
        """How many tasks of processes that are not done wait and run, by group."""
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
        """How many tasks each worker has."""
        counts: dict[str, int] = {}
        for task in self._running_tasks():
            if task.worker is not None:
                counts[task.worker] = counts.get(task.worker, 0) + 1
        return counts

    def give(self, process_id: str, worker: str, now: int) -> Assignment:
        """Give the costliest task that waits to a worker, as a new attempt."""
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
        return Assignment(
            ref=task.ref,
            table=process.table,
            kind=process.kind,
            payload=task.payload,
            lease_millis=self._settings.lease,
        )

    def beat(self, ref: TaskRef, now: int) -> bool:
        """A worker works on an attempt; whether it is to go on. Not stored: after a restart a lease begins anew."""
        task = self._task(ref.process, ref.number)
        if task is None or task.attempt != ref.attempt:
            return False
        if task.state is TaskState.DONE:
            # It has brought the result while it said so.
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

    def complete(self, ref: TaskRef, outcome: TaskOutcome, now: int) -> Verdict:
        """What a worker brings of an attempt. The same result may come twice."""
        task = self._task(ref.process, ref.number)
        # A later attempt than is known here was given out by a scheduler that has taken over.
        if task is None or task.attempt < ref.attempt:
            return Verdict.UNKNOWN
        if task.attempt > ref.attempt:
            return Verdict.SUPERSEDED
        if task.state is TaskState.DONE:
            return Verdict.ACCEPTED
        process = self._processes[ref.process]
        if task.state is not TaskState.RUNNING or process.state is not ProcessState.RUNNING:
            return Verdict.SUPERSEDED
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
        return Verdict.ACCEPTED

    def expire(self, now: int) -> None:
        """Take from workers the attempts of which nobody has spoken for too long, or that take too long."""
        for task in self._running_tasks():
            if self._processes[task.process].state is not ProcessState.RUNNING:
                continue
            assert task.lease_until_millis is not None
            assert task.started_millis is not None
            if task.lease_until_millis <= now:
                self._stop(task, now)
                self._lose(task, f"worker {task.worker} said nothing for {self._settings.lease} ms")
            elif now - task.started_millis > self._settings.task_timeout:
                self._stop(task, now)
                self._lose(task, f"worker {task.worker} took longer than {self._settings.task_timeout} ms")

    def take_back(self, worker: str, now: int) -> None:
        """A worker has left, or is known to be gone; its attempts wait again."""
        for task in self._running_tasks():
            if task.worker == worker:
                self._stop(task, now)
                self._lose(task, f"worker {worker} is gone")

    def results(self, process_id: str) -> list[bytes]:
        """What the tasks brought, in their order."""
        return [task.result for task in self._tasks[process_id] if task.result is not None]

    def settle(self, now: int, groups: Container[str]) -> None:
        """Move on the processes whose tasks are all done, or of which one failed too often; cancel those with tasks
        that nobody will take, as their group is none of these any more.
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
                self.end(process.id, ProcessState.FAILED, Cleanup.DISCARD, failure=failed.failure)
            elif tasks.count(TaskState.DONE) == len(tasks):
                figures = sum((task.figures for task in tasks), NO_FIGURES)
                self._put(replace(process, state=ProcessState.COMMITTING, figures=figures))
            elif tasks.count(TaskState.WAITING) and process.group not in groups:
                failure = f"there is no group '{process.group}' any more"
                self._stop_all(process.id, failure, now)
                self.end(process.id, ProcessState.CANCELLED, Cleanup.DISCARD, failure=failure)

    def unsettle(self) -> None:
        """Have `settle` look at all processes, since the groups are others."""
        self._unsettled.update(dict.fromkeys(self._processes))

    def end(
        self,
        process_id: str,
        ending: ProcessState,
        cleanup: Cleanup,
        *,
        snapshot_id: int | None = None,
        failure: str | None = None,
    ) -> None:
        """A process ends: from now on its files are only cleaned up."""
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
        """A process is cleaned up, and so at its end."""
        process = self._processes.pop(process_id)
        for task in self._tasks.pop(process_id):
            self._running.pop((process_id, task.number), None)
            self._usage.finish(process.table, task.ref, now)
        assert process.ending is not None
        process = replace(process, state=process.ending, ended_millis=now)
        self._ended[process_id] = process
        return process

    def amend(self, process: Process) -> None:
        """Note what a process that has just ended has brought."""
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
