"""A scheduler with a journal in memory and a clock that only tests advance."""

from collections.abc import Mapping
from itertools import count

from interbed.optimizer.flow.process import Process, ResultStatus, TaskAssignment, TaskFigures, TaskOutcome
from interbed.optimizer.flow.tables import PlannedTask, ResourceGroup, TableMeasurement, Worker
from interbed.optimizer.journal.api import MemoryJournal
from interbed.optimizer.scheduling.needs import SchedulerSettings
from interbed.optimizer.scheduling.scheduler import Scheduler
from tests.optimizer.scheduling.measured import runs

FIRST = 1_000_000
DONE = TaskOutcome(result=b"done", figures=TaskFigures(bytes_in=10, bytes_out=5, files_in=2, files_out=1))


def tasks(number: int) -> list[PlannedTask]:
    """Return planned tasks, each cheaper than the one before."""
    return [PlannedTask(payload=str(n).encode(), cost=1_000 - n) for n in range(number)]


class SchedulerHarness:
    """A scheduler and its successors: `takes_over` starts the next one."""

    def __init__(
        self, groups: Mapping[str, ResourceGroup] | None = None, settings: SchedulerSettings | None = None
    ) -> None:
        self.now = FIRST
        self.journal = MemoryJournal()
        self.settings = settings or SchedulerSettings()
        self.groups = dict(groups or {"default": ResourceGroup()})
        self._ids = count(1)
        self._holders = count(1)
        self.scheduler = self.take_over()

    def take_over(self) -> Scheduler:
        """Start another scheduler, which takes over the lease."""
        held = self.journal.holder()
        if held is not None:
            self.journal.release(held)
        lease = self.journal.acquire(f"s{next(self._holders)}", self.now, self.now + self.settings.lease)
        assert lease is not None
        self.scheduler = Scheduler(
            self.journal,
            lease,
            self.groups,
            self.settings,
            clock=lambda: self.now,
            new_id=lambda: f"id{next(self._ids)}",
        )
        return self.scheduler

    def worker(self, threads: int = 1, group: str = "default") -> Worker:
        """Register a new worker."""
        return self.scheduler.register(group, threads, 1 << 30, "here")

    def due(self, name: str, found: TableMeasurement | None = None) -> None:
        """Report and measure a table, by default one that needs a compaction."""
        self.scheduler.changed([name])
        self.scheduler.take_unmeasured()
        self.scheduler.measured(name, found or runs(9))

    def process(self, name: str = "t", number: int = 1) -> Process:
        """Start a process with this number of tasks for the table, which must be the only waiting one."""
        self.due(name)
        begun = self.scheduler.begin()
        assert begun is not None
        assert begun[0].table == name
        self.scheduler.planned(begun[0].id, tasks(number))
        return begun[0]

    def assigned_process(self) -> Process:
        """Start a process whose only task is assigned to a worker."""
        worker = self.worker()
        process = self.process()
        assert len(self.scheduler.poll(worker.id, 1)) == 1
        return process

    def end(self, process: Process, found: TableMeasurement | None = None) -> Process:
        """Record that the process has been cleaned up."""
        assert [p.id for p, _ in self.scheduler.to_end()] == [process.id]
        return self.scheduler.ended(process.id, found)

    def work(self, worker: Worker, millis: int = 1_000) -> TaskAssignment:
        """Assign an attempt to the worker, and complete it after `millis`."""
        [attempt] = self.scheduler.poll(worker.id, 1)
        self.now += millis
        assert self.scheduler.complete(attempt.ref, DONE) is ResultStatus.ACCEPTED
        return attempt
