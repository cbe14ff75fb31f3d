"""Tables in memory with snapshots, files and marks, on which every operation may fail, and workers for them.

A table is a set of files, each of which is a sorted run. A task merges four files into one, or more when there are
many. The file of an attempt is `<process>/<task>/<attempt>`, which identifies the attempt. Forbidden states are
asserted where they would appear.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from interbed.catalog.client.errors import TableNotFoundError
from interbed.optimizer.flow.process import (
    CleanupMode,
    Process,
    ResultStatus,
    TaskAssignment,
    TaskOutcome,
    TaskRef,
    WorkNeed,
)
from interbed.optimizer.flow.tables import ChangedTables, PlannedTask, TableMeasurement, WorkPlan
from interbed.optimizer.scheduling.scheduler import Scheduler
from interbed.storage.base.errors import CommitConflictError, CommitStateUnknownError, StorageAccessError
from tests.optimizer.scheduling.measured import bucket, measurement

_FILES_OF_A_TASK = 4
_MOST_TASKS = 4
"""The setting keeps the number of sorted runs after a compaction small."""
_IDS_OF_A_TABLE = 10_000
"""A table that is recreated under its name starts at another snapshot id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeSnapshot:
    """A snapshot: the process that committed it, and its files."""

    id: int
    user: str
    files: frozenset[str]


@dataclass(slots=True, kw_only=True)
class LakeTable:
    """A table in memory; `disk` has its existing files."""

    versions: list[LakeSnapshot]
    disk: set[str] = field(default_factory=set)
    marks: set[str] = field(default_factory=set)
    options: dict[str, str] = field(default_factory=dict)

    @property
    def newest(self) -> LakeSnapshot:
        """The newest snapshot of the table."""
        return self.versions[-1]

    def named(self) -> set[str]:
        """Return the files that a snapshot names."""
        return set().union(*(version.files for version in self.versions))

    def unnamed(self) -> set[str]:
        """Return the files that no snapshot names."""
        return self.disk - self.named()

    def add(self, user: str, files: frozenset[str]) -> int:
        """Add a snapshot with these files."""
        self.versions.append(LakeSnapshot(id=self.newest.id + 1, user=user, files=files))
        return self.newest.id

    def delete(self, files: set[str]) -> None:
        """Delete files; none of them may belong to a snapshot."""
        lost = files & self.named()
        assert not lost, f"files of snapshots were deleted: {sorted(lost)}"
        self.disk -= files


class InMemoryLake:
    """Implementation of OptimizedTables in memory. `effect` is called before and after each visible effect, and may
    raise.
    """

    def __init__(self, effect: Callable[[str], None] = lambda what: None) -> None:
        self.tables: dict[str, LakeTable] = {}
        self.changed: set[str] = set()
        self.commits: list[Exception] = []
        self.unknown_ones_are_made = False
        self.plans_fail = self.ends_fail = self.measures_fail = False
        self.ends_tried = 0
        self.refuses: dict[str, Exception] = {}
        self.before: dict[str, Callable[[], None]] = {}
        self.each_measurement: Callable[[], None] = lambda: None
        self.check_end: Callable[[Process], None] = lambda process: None
        self.check_commit: Callable[[Process, Sequence[bytes]], None] = lambda process, results: None
        self._watches: list[LakeWatch] = []
        self._effect = effect
        self._late: list[tuple[LakeTable, str, set[str], set[str]]] = []
        self._files = self._made = 0

    def create(self, name: str) -> None:
        """Create a table without files."""
        self._made += 1
        first = LakeSnapshot(id=self._made * _IDS_OF_A_TABLE - _IDS_OF_A_TABLE, user="", files=frozenset())
        self.tables[name] = LakeTable(versions=[first])
        self._note(name)

    def drop(self, name: str) -> None:
        """Drop a table with all of its files."""
        del self.tables[name]

    def write(self, name: str, count: int) -> None:
        """Add files as a writer does."""
        table = self.tables[name]
        table.add("writer", table.newest.files | self._new(table, count))
        self._note(name)

    def overwrite(self, name: str) -> None:
        """Replace all files by one, as a writer does."""
        table = self.tables[name]
        table.add("writer", self._new(table, 1))
        self._note(name)

    def publish_pending(self) -> None:
        """Make commits with an unknown outcome visible, if they are still possible."""
        for table, user, removed, new in self._late:
            if removed <= table.newest.files and all(version.user != user for version in table.versions):
                table.add(user, table.newest.files - removed | new)
        self._late.clear()

    def set_option(self, name: str, key: str, value: str) -> None:
        """Set an option of the table."""
        self.tables[name].options[key] = value
        self._note(name)

    def watch(self) -> "LakeWatch":
        """Return a watch that has not reported any table."""
        made = LakeWatch(self)
        self._watches.append(made)
        return made

    def measure(self, table: str) -> TableMeasurement:
        self.each_measurement()
        if self.measures_fail:
            raise StorageAccessError("The disk can't be read.")
        found = self._table(table)
        count = len(found.newest.files)
        return measurement(
            bucket(runs=count, files=count, level0_files=max(0, count - 1)),
            options=found.options,
            snapshot_id=found.newest.id,
        )

    def plan(self, process: Process, need: WorkNeed, slots: int) -> WorkPlan:
        self._effect("plan")
        before = self.before.pop("plan", None)
        if before is not None:
            before()
        if self.plans_fail:
            raise StorageAccessError("The manifests can't be read.")
        table = self._table(process.table)
        if not need.kind.is_compaction:
            return WorkPlan(tasks=[PlannedTask(payload=b"[]", cost=0)])
        files = sorted(table.newest.files)
        if len(files) < 2:
            return WorkPlan(tasks=())
        table.marks.add(process.id)
        self._effect("marked")
        most = max(_FILES_OF_A_TASK, -(-len(files) // _MOST_TASKS))
        groups = [files[n : n + most] for n in range(0, len(files), most)]
        planned = [PlannedTask(payload=json.dumps(group).encode(), cost=len(group)) for group in groups]
        return WorkPlan(tasks=planned, options=need.options)

    def commit(self, process: Process, results: Sequence[bytes]) -> int | None:
        self._effect("commit")
        self.check_commit(process, results)
        table = self._table(process.table)
        before = next((version for version in table.versions if version.user == process.id), None)
        if before is not None or not process.kind.is_compaction:
            return None if before is None else before.id
        self._effect("not committed before")
        fault = self.commits.pop(0) if self.commits else None
        if fault is not None and not isinstance(fault, CommitStateUnknownError):
            raise fault
        removed = {file for result in results for file in json.loads(result)["before"]}
        new = {file for result in results for file in json.loads(result)["after"]}
        table = self._table(process.table)
        if not removed <= table.newest.files:
            raise CommitConflictError("Another writer has replaced the files.")
        if fault is not None and not self.unknown_ones_are_made:
            self._late.append((table, process.id, removed, new))
            raise fault
        assert new <= table.disk, f"files that were deleted are committed: {sorted(new - table.disk)}"
        made = table.add(process.id, table.newest.files - removed | new)
        if fault is not None:
            raise fault
        self._effect("committed")
        return made

    def end(self, process: Process, results: Sequence[bytes]) -> None:
        self._effect("end")
        self.check_end(process)
        self.ends_tried += 1
        if self.ends_fail:
            raise StorageAccessError("The disk can't be written.")
        table = self._table(process.table)
        table.marks.discard(process.id)
        self._effect("unmarked")
        own = {file for file in table.disk if file.startswith(f"{process.id}/")}
        if process.cleanup is CleanupMode.SWEEP:
            table.delete(own - {file for result in results for file in json.loads(result)["after"]})
        elif process.cleanup is CleanupMode.DISCARD:
            table.delete(own)
        self._effect("ended")

    def _table(self, name: str) -> LakeTable:
        if name in self.refuses:
            raise self.refuses[name]
        if name not in self.tables:
            raise TableNotFoundError(f"There is no table {name}.")
        return self.tables[name]

    def _new(self, table: LakeTable, count: int) -> frozenset[str]:
        names = frozenset(f"written/{self._files + n}" for n in range(count))
        self._files += count
        table.disk |= names
        return names

    def _note(self, name: str) -> None:
        for watch in self._watches:
            watch.changed.add(name)


class LakeWatch:
    """Watch of the tables in memory."""

    def __init__(self, lake: InMemoryLake) -> None:
        self.changed: set[str] = set()
        self._lake = lake
        self._names: set[str] = set()

    def changes(self) -> ChangedTables:
        names = set(self._lake.tables)
        changed = (names - self._names) | self.changed | self._lake.changed
        removed = self._names - names
        self._names = names
        self.changed, self._lake.changed = set(), set()
        return ChangedTables(changed=sorted(changed & names), removed=sorted(removed))


@dataclass(slots=True, kw_only=True)
class WorkerAttempt:
    """Finished work of a worker on an assignment, not reported to a scheduler yet."""

    lake: InMemoryLake
    table: LakeTable | None
    ref: TaskRef
    outcome: TaskOutcome

    def deliver(self, scheduler: Scheduler) -> ResultStatus:
        """Report the result to a scheduler; delete files that it does not need."""
        status = scheduler.complete(self.ref, self.outcome)
        if status is ResultStatus.SUPERSEDED and self.table is not None and self.outcome.failure is None:
            self.table.delete({f"{self.ref.process}/{self.ref.number}/{self.ref.attempt}"} & self.table.disk)
        return status


class Worker:
    """A worker; `id` is the scheduler's name for it."""

    def __init__(self, lake: InMemoryLake, worker_id: str) -> None:
        self.lake = lake
        self.id = worker_id

    def begin(self, assignment: TaskAssignment, *, fails: bool = False) -> WorkerAttempt:
        """Carry out an assignment and return its attempt."""
        table, ref = self.lake.tables.get(assignment.table), assignment.ref
        before = json.loads(assignment.payload)
        if fails or table is None or not set(before) <= table.disk:
            return WorkerAttempt(lake=self.lake, table=None, ref=ref, outcome=TaskOutcome(failure="It can't be read."))
        after = []
        if assignment.kind.is_compaction:
            name = f"{ref.process}/{ref.number}/{ref.attempt}"
            table.disk.add(name)
            if ref.process not in table.marks:
                table.delete({name})
                return WorkerAttempt(
                    lake=self.lake, table=None, ref=ref, outcome=TaskOutcome(failure="The process is over.")
                )
            after.append(name)
        result = json.dumps({"before": before, "after": after, "attempt": ref.attempt}).encode()
        return WorkerAttempt(lake=self.lake, table=table, ref=ref, outcome=TaskOutcome(result=result))
