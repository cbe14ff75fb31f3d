"""Explanations of a table's needs, and dry runs of the processes for them.

The table is measured again, and the rules of `scheduling.needs` are applied. A dry run plans the processes with their
tasks; it changes nothing and writes no mark.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from interbed.catalog.client.api import Catalog
from interbed.optimizer.flow.process import Process, WorkKind, WorkNeed
from interbed.optimizer.flow.tables import OptimizedTables, TableMeasurement, TableState
from interbed.optimizer.journal.api import Journal
from interbed.optimizer.scheduling.needs import KindAnswer, SchedulerSettings, answers_of, in_order, trigger_text
from interbed.optimizer.views.status import SchedulerState, TableStatus, scheduler_state
from interbed.optimizer.work.lake_tables import compaction_tasks
from interbed.storage.meta.options.optimizing import SelfOptimizing
from interbed.storage.table.table import Table
from interbed.storage.upkeep.compact_tasks import CompactionTask

_PROCESSES = 5
"""Processes of the past that are shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KindExplained:
    """One kind of work: its `need` when it is due; `trigger` has the figures and bounds of its rule.

    `next_millis` is when it may become due without a commit, `last_millis` when it was last done or had nothing to do
    (epoch).
    """

    kind: WorkKind
    need: WorkNeed | None
    trigger: str
    is_settled: bool
    next_millis: int | None
    last_millis: int | None

    @property
    def verdict(self) -> str:
        """The state of this kind in a few words."""
        if self.need is not None:
            return "due"
        if self.is_settled:
            return "nothing new since it was done"
        if self.next_millis is not None:
            return "waits"
        return "not due"

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return {
            "kind": self.kind.value,
            "verdict": self.verdict,
            "need": None if self.need is None else self.need.to_json(),
            "trigger": self.trigger,
            "next_millis": self.next_millis,
            "last_millis": self.last_millis,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TableExplanation:
    """A table, its options, and each kind of work.

    `line` is the table's state in the journal, None for a table that no scheduler has seen. `needs` is the work that a
    scheduler would find due now, the next one first.
    """

    name: str
    scheduler_state: SchedulerState
    line: TableStatus | None
    found: TableMeasurement
    needs: Sequence[WorkNeed]
    kinds: Sequence[KindExplained]
    processes: Sequence[Process]

    @property
    def obstacles(self) -> Sequence[str]:
        """Reasons for which a scheduler does not do the work that is due, in sentences."""
        obstacles = []
        if not self.scheduler_state.is_running:
            obstacles.append(self.scheduler_state.text)
        if not self.found.optimizing.enabled:
            obstacles.append("the table's option self-optimizing.enabled is false")
        if self.found.health.snapshot_id is None:
            obstacles.append("the table has no snapshot yet")
        if self.line is None:
            obstacles.append("no scheduler has seen the table yet")
        elif self.line.running is None and self.line.doing in ("paused", "unreadable"):
            obstacles.append(f"the table is {self.line.doing}")
        elif self.line.running is None and self.line.state.not_before_millis > self.line.now_millis:
            obstacles.append(f"the table waits after {self.line.state.failures} failure(s) in a row: {self.line.doing}")
        return obstacles

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return {
            "table": self.name,
            "scheduler": self.scheduler_state.to_json(),
            "health": self.found.health.to_json(),
            "wishes": settings_json(self.found.optimizing),
            "needs": [need.to_json() for need in self.needs],
            "obstacles": list(self.obstacles),
            "kinds": [kind.to_json() for kind in self.kinds],
            "known": None if self.line is None else self.line.to_json(),
            "processes": [process.to_json() for process in self.processes],
        }


def explain_table(
    journal: Journal, tables: OptimizedTables, name: str, settings: SchedulerSettings, now_millis: int
) -> TableExplanation:
    """Measure the table and apply the rules, with its state in the journal.

    Raises JournalError, TableNotFoundError, and InterbedError for a table that can't be read.
    """
    found = tables.measure(name)
    known = next(iter(journal.tables([name])), None)
    state = known or TableState(name=name)
    answers = answers_of(state, found, settings, now_millis)
    line = None
    if known is not None:
        running = next((process for process in journal.running() if process.table == name), None)
        line = TableStatus(state=known, running=running, now_millis=now_millis)
    return TableExplanation(
        name=name,
        scheduler_state=scheduler_state(journal, now_millis),
        line=line,
        found=found,
        needs=in_order([answer.need for answer in answers if answer.need is not None]),
        kinds=_explained(state, found, answers, settings),
        processes=journal.processes(name, limit=_PROCESSES),
    )


def settings_json(optimizing: SelfOptimizing) -> Mapping[str, Any]:
    """Return a table's options of the optimizer, defaults included, as JSON values."""
    values = asdict(optimizing)
    return {**values, "order_by": list(optimizing.order_by), "order_strategy": optimizing.order_strategy.value}


def _explained(
    state: TableState, found: TableMeasurement, answers: Sequence[KindAnswer], settings: SchedulerSettings
) -> list[KindExplained]:
    by_kind = {answer.kind: answer for answer in answers}
    return [
        KindExplained(
            kind=kind,
            need=None if answer is None else answer.need,
            trigger=trigger_text(kind, found, settings),
            is_settled=answer is not None and answer.is_settled,
            next_millis=None if answer is None else answer.next_check_millis,
            last_millis=state.last.get(kind),
        )
        for kind in WorkKind
        for answer in (by_kind.get(kind),)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class DryTask:
    """One task of a compaction: files of one bucket that it reads. `partition` has the values by column."""

    kind: str
    partition: Mapping[str, str]
    bucket: int
    files: int
    bytes: int

    @property
    def place(self) -> str:
        """Partition and bucket as text."""
        partition = "/".join(f"{column}={value}" for column, value in self.partition.items())
        return f"{partition + ' ' if partition else ''}bucket {self.bucket}"

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return {
            "kind": self.kind,
            "partition": dict(self.partition),
            "bucket": self.bucket,
            "files": self.files,
            "bytes": self.bytes,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class DryProcess:
    """A process that would begin for a need.

    It has no tasks here for work beside compaction, which is one task that plans itself.
    """

    need: WorkNeed
    tasks: Sequence[DryTask] = ()

    @property
    def bytes(self) -> int:
        """Bytes that its tasks would read."""
        return sum(task.bytes for task in self.tasks)

    @property
    def has_work(self) -> bool:
        """Whether the process would have work; assumed for work beside compaction."""
        return bool(self.tasks) or not self.need.kind.is_compaction

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return {
            **self.need.to_json(),
            "has_work": self.has_work,
            "bytes": self.bytes,
            "tasks": [task.to_json() for task in self.tasks],
        }


def dry_run(catalog: Catalog, name: str, needs: Sequence[WorkNeed]) -> list[DryProcess]:
    """Plan processes for these needs of a table, in their order. Raises TableNotFoundError."""
    # A catalog over a metastore has Iceberg tables, too.
    table: Any = catalog.get_table(name)
    tasks_of = _tasks if isinstance(table, Table) else _iceberg_tasks
    return [DryProcess(need=need, tasks=tasks_of(table, need)) for need in needs]


def _iceberg_tasks(table: Any, need: WorkNeed) -> list[DryTask]:
    # By use: pyiceberg loads slowly, and is an extra.
    from interbed.optimizer.work.iceberg_tables import planned_units

    found = planned_units(table, need.kind, need.options, "dry-run") if need.kind.is_compaction else None
    return [
        DryTask(
            kind=unit.action.value,
            partition={str(place): str(value) for place, value in enumerate(unit.partition)},
            bucket=0,
            files=len(unit.files),
            bytes=unit.bytes,
        )
        for unit in (() if found is None else found.units)
    ]


def _tasks(table: Table, need: WorkNeed) -> list[DryTask]:
    if not need.kind.is_compaction:
        return []
    tasks = compaction_tasks(table.copy(need.options), need.kind)
    return [_task(table, task) for task in tasks]


def _task(table: Table, task: CompactionTask) -> DryTask:
    return DryTask(
        kind=task.kind.value,
        partition=dict(table.store.paths.partition_spec(task.partition)),
        bucket=task.bucket,
        files=len(task.files),
        bytes=sum(file.file_size for file in task.files),
    )
