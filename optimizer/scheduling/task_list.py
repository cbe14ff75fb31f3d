"""The tasks of one process, and how many of them are where: what is asked of them costs no more with many tasks."""

import heapq
from collections import Counter
from collections.abc import Iterator

from interbed.optimizer.flow.task import Task, TaskState


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
