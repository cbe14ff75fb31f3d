"""Simulation of hours of a catalog in memory: tables with writers, the scheduler with its engine, and workers.

The needs and the health of tables and the choice of files are computed by the code for real tables, on files that are
numbers (`interbed.storage.views.simulate`). Tasks take as long as their bytes. The same seed gives the same tables, the
same loads, and so the same decisions.
"""

import hashlib
import heapq
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from statistics import fmean

import numpy as np

from interbed.optimizer.flow.process import (
    Process,
    ProcessState,
    ResultStatus,
    TaskAssignment,
    TaskFigures,
    TaskOutcome,
    TaskRef,
    WorkKind,
    WorkNeed,
)
from interbed.optimizer.flow.tables import ChangedTables, PlannedTask, ResourceGroup, TableMeasurement, WorkPlan
from interbed.optimizer.journal.api import MemoryJournal
from interbed.optimizer.scheduling.engine import Engine
from interbed.optimizer.scheduling.needs import SchedulerSettings
from interbed.optimizer.scheduling.scheduler import Scheduler
from interbed.storage.base.bucket_id import BucketId
from interbed.storage.lsm.compact.strategy import (
    CompactionUnit,
    PickContext,
    Rewrite,
    UniversalStrategy,
    pick_full,
    plan_unit,
)
from interbed.storage.meta.options.core import CoreOptions
from interbed.storage.meta.options.optimizing import SelfOptimizing
from interbed.storage.upkeep.bucket_health import BucketRules, bucket_health
from interbed.storage.upkeep.health import TableHealth
from interbed.storage.views.simulate.simulator import KEY_TYPES, SimulatedBucket

FIRST = 1_700_000_000_000
MB = 1 << 20
ROW_BYTES = MB
"""Few large rows: decisions depend on the number of bytes, and fewer rows are merged faster."""
OVERHEAD_MILLIS = 500
STOP_TRIGGER = 12
RULES = BucketRules(key_types=KEY_TYPES)


@dataclass(slots=True)
class WriteLoad:
    """Write load of a table: rows of one bucket per commit, with a mean interval between commits, over a number of
    keys.
    """

    rows: int
    interval_millis: int
    keys: int = 4_096
    options: Mapping[str, str] = field(default_factory=dict)
    buckets: int = 1


class SimulatedTable:
    """A simulated table with its buckets."""

    def __init__(self, load: WriteLoad, seed: int) -> None:
        self.load = load
        self.options = dict(load.options)
        self.random = np.random.default_rng(seed)
        self.snapshot_id = 0
        self.buckets = [
            SimulatedBucket(num_levels=6, row_bytes=ROW_BYTES, file_bytes=RULES.target_bytes)
            for _ in range(load.buckets)
        ]
        self.planned: dict[str, list[tuple[int, CompactionUnit]]] = {}
        self.found: TableMeasurement | None = None

    def write(self, now: int) -> None:
        """Commit rows, unless the writer has to wait for a compaction."""
        bucket = self.buckets[self.snapshot_id % len(self.buckets)]
        if len(bucket.levels.runs) > STOP_TRIGGER:
            return
        self.snapshot_id += 1
        self.found = None
        positions = self.random.integers(0, self.load.keys, self.load.rows)
        bucket.flush(positions, np.zeros(len(positions), np.bool_), now_millis=now)

    def measure(self, now: int) -> TableMeasurement:
        """Measure the health of the table."""
        if self.found is None:
            figures = [
                bucket_health(BucketId(b"", number), bucket.levels.files, {}, RULES, now_millis=now)
                for number, bucket in enumerate(self.buckets)
            ]
            health = TableHealth(
                snapshot_id=self.snapshot_id or None, newest_millis=now, has_primary_key=True, by_bucket=tuple(figures)
            )
            self.found = TableMeasurement(
                health=health, optimizing=SelfOptimizing.of(self.options), options=self.options
            )
        return self.found

    def plan(self, process: Process, need: WorkNeed, now: int) -> WorkPlan:
        """Plan a task for each bucket with due work."""
        units = [(number, self._unit(bucket, need, now)) for number, bucket in enumerate(self.buckets)]
        due = [(number, unit) for number, unit in units if unit is not None]
        self.planned[process.id] = due
        return WorkPlan(tasks=[PlannedTask(payload=b"", cost=_bytes(unit)) for _, unit in due])

    def commit(self, process: Process, now: int) -> int:
        """Replace the planned files by their results; files written in the meantime are kept."""
        self.snapshot_id += 1
        self.found = None
        for number, unit in self.planned[process.id]:
            self.buckets[number].compact(unit, now_millis=now)
        return self.snapshot_id

    def _unit(self, bucket: SimulatedBucket, need: WorkNeed, now: int) -> CompactionUnit | None:
        levels, options = bucket.levels, CoreOptions({**self.options, **need.options})
        if need.kind is WorkKind.MINOR:
            pick = UniversalStrategy.of(options).pick(levels, PickContext(now_millis=now))
        else:
            pick = pick_full(levels)
        if pick is None:
            return None
        return plan_unit(pick, levels, KEY_TYPES, small_file_bytes=RULES.small_bytes)


def _bytes(unit: CompactionUnit) -> int:
    return sum(f.file_size for step in unit.steps if isinstance(step, Rewrite) for f in step.files)


class Simulation:
    """Tables, a scheduler, and workers; `run` advances the time."""

    def __init__(
        self,
        loads: Mapping[str, WriteLoad],
        groups: Mapping[str, ResourceGroup],
        *,
        seed: int = 0,
        tick_millis: int = 1_000,
        megabytes_per_second: int = 50,
        settings: SchedulerSettings | None = None,
    ) -> None:
        self.now = FIRST
        self.settings = settings or SchedulerSettings()
        self.tables = {name: SimulatedTable(load, seed * 1_000_003 + n) for n, (name, load) in enumerate(loads.items())}
        self.waits: list[tuple[int, str]] = []
        """Milliseconds from the time at which a table became due to the start of its process."""
        self.busy: dict[str, list[tuple[int, int]]] = {name: [] for name in loads}
        """Times in which workers worked for a table."""
        self.ended: Counter[ProcessState] = Counter()
        self.digest = hashlib.sha256()
        self._tick = tick_millis
        self._bytes_per_second = megabytes_per_second * MB
        self._random = random.Random(seed)
        self._changed: set[str] = set(loads)
        self._writes = [(FIRST + self._pause(load), name) for name, load in loads.items()]
        heapq.heapify(self._writes)
        self._running: list[tuple[int, int, TaskAssignment, int]] = []
        self._by: dict[TaskRef, set[TaskRef]] = {}
        self._orders = count()
        self._ids = count(1)
        self._workers: dict[str, tuple[int, set[TaskRef]]] = {}
        self.journal = journal = MemoryJournal()
        lease = journal.acquire("s", self.now, self.now + self.settings.lease)
        assert lease is not None
        self.scheduler = Scheduler(
            journal, lease, groups, self.settings, clock=lambda: self.now, new_id=lambda: str(next(self._ids))
        )
        self.engine = Engine(self.scheduler, self, self, clock=lambda: self.now, on_ended=self._record)

    def worker(self, threads: int, group: str = "default") -> str:
        """Register a worker and return its id."""
        worker = self.scheduler.register(group, threads, 1 << 30, "here")
        self._workers[worker.id] = threads, set()
        return worker.id

    def run(self, seconds: int) -> None:
        """Advance the time by this number of seconds."""
        until = self.now + seconds * 1_000
        while self.now < until:
            self.now += self._tick
            while self._writes[0][0] <= self.now:
                at, name = heapq.heappop(self._writes)
                self.tables[name].write(at)
                self._changed.add(name)
                heapq.heappush(self._writes, (at + self._pause(self.tables[name].load), name))
            self._work()
            self.engine.step()

    def scores(self) -> list[int]:
        """The score of each table that has rows."""
        found = (table.measure(self.now).health for table in self.tables.values())
        return [health.score for health in found if health.snapshot_id is not None]

    def mean_score(self) -> float:
        """The mean score of the tables with rows."""
        return fmean(self.scores())

    def used(self, table: str, seconds: int) -> float:
        """Return the seconds of work for a table within the last `seconds`."""
        since = self.now - seconds * 1_000
        return sum(max(0, end - max(start, since)) for start, end in self.busy[table]) / 1_000

    # -- interface that the engine calls -------------------------------------------------------------------------------

    def changes(self) -> ChangedTables:
        changed, self._changed = sorted(self._changed), set()
        return ChangedTables(changed=changed)

    def measure(self, table: str) -> TableMeasurement:
        return self.tables[table].measure(self.now)

    def plan(self, process: Process, need: WorkNeed, slots: int) -> WorkPlan:
        self.waits.append((self.now - need.due_millis, process.table))
        if not need.kind.is_compaction:
            return WorkPlan(tasks=[PlannedTask(payload=b"", cost=0)])
        return self.tables[process.table].plan(process, need, self.now)

    def commit(self, process: Process, results: Sequence[bytes]) -> int | None:
        if not process.kind.is_compaction:
            return None
        return self.tables[process.table].commit(process, self.now)

    def end(self, process: Process, results: Sequence[bytes]) -> None:
        self.tables[process.table].planned.pop(process.id, None)

    # -- workers -------------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        while self._running and self._running[0][0] <= self.now:
            _, _, assignment, cost = heapq.heappop(self._running)
            self._by[assignment.ref].discard(assignment.ref)
            figures = TaskFigures(bytes_in=cost, bytes_out=cost)
            assert self.scheduler.complete(assignment.ref, TaskOutcome(figures=figures)) is ResultStatus.ACCEPTED
        for worker, (threads, mine) in self._workers.items():
            assert self.scheduler.beat(worker, mine) == []
            for assignment in self.scheduler.poll(worker, threads - len(mine)):
                self._begin(mine, assignment)

    def _begin(self, mine: set[TaskRef], assignment: TaskAssignment) -> None:
        ref = assignment.ref
        planned = self.tables[assignment.table].planned.get(ref.process)
        cost = _bytes(planned[ref.number][1]) if planned else 0
        end = self.now + OVERHEAD_MILLIS + cost * 1_000 // self._bytes_per_second
        mine.add(ref)
        self._by[ref] = mine
        self.busy[assignment.table].append((self.now, end))
        heapq.heappush(self._running, (end, next(self._orders), assignment, cost))

    def _record(self, process: Process) -> None:
        self.ended[process.state] += 1
        event = (process.id, process.table, process.kind, process.created_millis, process.ended_millis, process.state)
        self.digest.update(repr(event).encode())

    def _pause(self, load: WriteLoad) -> int:
        return max(1, round(self._random.expovariate(1 / load.interval_millis)))
