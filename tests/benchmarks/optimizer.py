"""The cost of a step of the optimizer's scheduler: 10,000 tables of which 1 % change, and 100 which all change.

    python -m tests.benchmarks.optimizer [--tables 10000] [--json]

In each round a hundred tables are written to, the engine makes a step, and workers report the results of their tasks.
More tables are due than the workers have threads, so that most of them wait. Tables, journal and workers are in memory:
the figures are the scheduler's own, CPU milliseconds of a step of the engine, and of the requests of workers in a
round. A ratio near 1 means that unchanged tables cost nothing. `start` is a scheduler that takes over, and measures all
tables.
"""

import time
from collections.abc import Sequence
from itertools import count
from typing import Any

from rich.console import Console
from rich.table import Table

from interbed.optimizer.flow.process import Process, TaskAssignment, TaskOutcome, WorkNeed
from interbed.optimizer.flow.tables import (
    ChangedTables,
    GroupPolicy,
    PlannedTask,
    ResourceGroup,
    TableMeasurement,
    WorkPlan,
)
from interbed.optimizer.journal.api import MemoryJournal
from interbed.optimizer.scheduling.engine import Engine
from interbed.optimizer.scheduling.needs import SchedulerSettings
from interbed.optimizer.scheduling.scheduler import Scheduler
from interbed.storage.meta.options.optimizing import SelfOptimizing
from interbed.storage.upkeep.bucket_health import BucketHealth
from interbed.storage.upkeep.health import TableHealth
from tests.benchmarks.command import run_alone

TABLES = 10_000
CHANGED = 100
ROUNDS = 100
THREADS = 50
GOAL_RATIO = 1.5
"""Maximal ratio of the cost of a step with many unchanged tables to that without them."""

Figures = dict[str, float]


class _Tables:
    """Tables of one bucket each, of which only the number of sorted runs is modelled."""

    def __init__(self, number: int) -> None:
        self.runs = {f"db.t{n:06}": n % 5 + 6 for n in range(number)}
        self.snapshots = dict.fromkeys(self.runs, 1)
        self.changed: list[str] = list(self.runs)
        self._names = list(self.runs)
        self._next = 0

    def write(self) -> None:
        """Write to the next tables."""
        for _ in range(CHANGED):
            name = self._names[self._next % len(self._names)]
            self._next += 1
            self.runs[name] += 6
            self.snapshots[name] += 1
            self.changed.append(name)

    def changes(self) -> ChangedTables:
        changed, self.changed = self.changed, []
        return ChangedTables(changed=changed)

    def measure(self, table: str) -> TableMeasurement:
        runs = self.runs[table]
        bucket = BucketHealth(partition=b"", runs=runs, files=runs, bytes=runs, rows=runs, read_amplification=runs)
        health = TableHealth(snapshot_id=self.snapshots[table], has_primary_key=True, by_bucket=(bucket,))
        return TableMeasurement(health=health, optimizing=SelfOptimizing())

    def plan(self, process: Process, need: WorkNeed, slots: int) -> WorkPlan:
        return WorkPlan(tasks=[PlannedTask(payload=b"", cost=self.runs[process.table])])

    def commit(self, process: Process, results: Sequence[bytes]) -> int | None:
        self.runs[process.table] = 1
        self.snapshots[process.table] += 1
        return self.snapshots[process.table]

    def end(self, process: Process, results: Sequence[bytes]) -> None:
        """Do nothing: the tables are in memory."""


def measure(console: Console, tables: int = TABLES) -> dict[str, Figures]:
    """Return CPU milliseconds by policy and number of tables."""
    found = {}
    for policy in GroupPolicy:
        for number in (CHANGED, tables):
            with console.status(f"{policy.value}: {number:,} tables"):
                found[f"{policy.value}, {number:,} tables"] = _measured(policy, number)
    return found


def _measured(policy: GroupPolicy, number: int) -> Figures:
    now, ids = 1_700_000_000_000, count()
    lake, journal, settings = _Tables(number), MemoryJournal(), SchedulerSettings()
    lease = journal.acquire("bench", now, now + settings.lease)
    assert lease is not None
    groups = {"default": ResourceGroup(policy=policy)}
    began = time.process_time()
    scheduler = Scheduler(journal, lease, groups, settings, clock=lambda: now, new_id=lambda: str(next(ids)))
    engine = Engine(scheduler, lake, lake, clock=lambda: now)
    while engine.step():
        now += 1_000
    start = time.process_time() - began
    worker = scheduler.register("default", THREADS, 1 << 30, "here")
    steps: list[float] = []
    asks: list[float] = []
    given: list[TaskAssignment] = []
    processes = 0
    for _ in range(ROUNDS):
        now += 1_000
        lake.write()
        began = time.process_time()
        engine.step()
        between = time.process_time()
        scheduler.beat(worker.id, [assignment.ref for assignment in given])
        for assignment in given:
            scheduler.complete(assignment.ref, TaskOutcome())
        processes += len(given)
        given = scheduler.poll(worker.id, THREADS)
        ended = time.process_time()
        steps.append(between - began)
        asks.append(ended - between)
    return {
        "start": start * 1_000,
        "step": sorted(steps)[ROUNDS // 2] * 1_000,
        "longest step": max(steps) * 1_000,
        "workers, a round": sorted(asks)[ROUNDS // 2] * 1_000,
        "processes, a round": processes / ROUNDS,
    }


def ratios(found: dict[str, Figures]) -> dict[str, float]:
    """Return, by policy, the ratio of the cost of a step with many tables to one with few."""
    names = list(found)
    pairs = zip(names[::2], names[1::2], strict=True)
    return {few.split(",")[0]: found[many]["step"] / found[few]["step"] for few, many in pairs}


def show(found: dict[str, Figures], console: Console) -> None:
    """Print the figures as a table."""
    view = Table(title=f"The optimizer, {CHANGED} tables change in a round: CPU milliseconds", title_justify="left")
    view.add_column("what")
    for name in found:
        view.add_column(name, justify="right")
    for what in next(iter(found.values())):
        view.add_row(what, *(f"{figures[what]:,.2f}" for figures in found.values()))
    console.print(view)
    for policy, ratio in ratios(found).items():
        console.print(f"{policy}: a step of many tables costs {ratio:.2f} times one of a few; goal {GOAL_RATIO:.1f}.")


def as_json(found: dict[str, Figures]) -> Any:
    """Return the figures for `--json`."""
    return {**found, "ratios": ratios(found)} if found else {}


def main() -> None:
    """Parse the command line, measure, and print the figures."""
    run_alone(__doc__, measure, show, as_json, default=TABLES, option="--tables")


if __name__ == "__main__":
    main()
