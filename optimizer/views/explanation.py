"""Why the optimizer does for a table what it does, and what it would do now.

The table is measured again, and the rules of `scheduling.needs` are applied. A dry run plans the processes with their
tasks; it changes nothing and leaves no mark.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from interbed.catalog.client.api import Catalog
from interbed.optimizer.flow.process import Need, Process, WorkKind
from interbed.optimizer.flow.tables import Measurement, OptimizedTables, TableState
from interbed.optimizer.journal.api import Journal
from interbed.optimizer.scheduling.needs import KindAnswer, answers_of, in_order, trigger_text
from interbed.optimizer.scheduling.settings import SchedulerSettings
from interbed.optimizer.views.status import ScheduledBy, TableLine, scheduled_by
from interbed.optimizer.work.lake_tables import compaction_tasks
from interbed.storage.meta.options.optimizing import SelfOptimizing
from interbed.storage.table.table import Table
from interbed.storage.upkeep.compact_tasks import CompactionTask

_PROCESSES = 5
"""Processes of the past that are told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KindExplained:
    """One kind of work: `need` when it is due, else what keeps it; `trigger` says in figures what makes it due.

    `next_millis` is when it may become due though nobody writes, `last_millis` when it was last done or found to have
    nothing to do (epoch).
    """

    kind: WorkKind
    need: Need | None
    trigger: str
    is_settled: bool
    next_millis: int | None
    last_millis: int | None

    @property
    def verdict(self) -> str:
        """In a few words."""
        if self.need is not None:
            return "due"
        if self.is_settled:
            return "nothing new since it was done"
        if self.next_millis is not None:
            return "waits"
        return "not due"

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
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
    """A table, what its options ask for, and each kind of work. `line` is what the journal says, None for a table that
    no scheduler has seen; `needs` is what a scheduler would find due now, the next one first.
    """

    name: str
    scheduled_by: ScheduledBy
    line: TableLine | None
    found: Measurement
    needs: Sequence[Need]
    kinds: Sequence[KindExplained]
    processes: Sequence[Process]

    @property
    def obstacles(self) -> Sequence[str]:
        """What keeps a scheduler from doing what is due, in sentences."""
        told = []
        if not self.scheduled_by.is_running:
            told.append(self.scheduled_by.text)
        if not self.found.wishes.enabled:
            told.append("the table's option self-optimizing.enabled is false")
        if self.found.health.snapshot_id is None:
            told.append("the table has no snapshot yet")
        if self.line is None:
            told.append("no scheduler has seen the table yet")
        elif self.line.running is None and self.line.doing in ("paused", "unreadable"):
            told.append(f"the table is {self.line.doing}")
        elif self.line.running is None and self.line.state.not_before_millis > self.line.now_millis:
            told.append(f"after {self.line.state.failures} failure(s) in a row it is left alone: {self.line.doing}")
        return told

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "table": self.name,
            "scheduler": self.scheduled_by.to_json(),
            "health": self.found.health.to_json(),
            "wishes": wishes_json(self.found.wishes),
            "needs": [need.to_json() for need in self.needs],
            "obstacles": list(self.obstacles),
            "kinds": [kind.to_json() for kind in self.kinds],
            "known": None if self.line is None else self.line.to_json(),
            "processes": [process.to_json() for process in self.processes],
        }


def explain_table(
    journal: Journal, tables: OptimizedTables, name: str, settings: SchedulerSettings, now_millis: int
) -> TableExplanation:
    """Measure the table and ask the rules, with what the journal knows of it. Raises JournalError, TableNotFoundError,
    and InterbedError for a table that can't be read.
    """
    found = tables.measure(name)
    known = next(iter(journal.tables([name])), None)
    state = known or TableState(name=name)
    answers = answers_of(state, found, settings, now_millis)
    line = None
    if known is not None:
        running = next((process for process in journal.running() if process.table == name), None)
        line = TableLine(state=known, running=running, now_millis=now_millis)
    return TableExplanation(
        name=name,
        scheduled_by=scheduled_by(journal, now_millis),
        line=line,
        found=found,
        needs=in_order([answer.need for answer in answers if answer.need is not None]),
        kinds=_explained(state, found, answers, settings),
        processes=journal.processes(name, limit=_PROCESSES),
    )


def wishes_json(wishes: SelfOptimizing) -> Mapping[str, Any]:
    """What a table's options ask of the optimizer, defaults included, as JSON values."""
    values = asdict(wishes)
    return {**values, "order_by": list(wishes.order_by), "order_strategy": wishes.order_strategy.value}


def _explained(
    state: TableState, found: Measurement, answers: Sequence[KindAnswer], settings: SchedulerSettings
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
    """One task of a compaction: which files of which bucket it reads. `partition` is its values by column."""

    kind: str
    partition: Mapping[str, str]
    bucket: int
    files: int
    bytes: int

    @property
    def place(self) -> str:
        """Partition and bucket in a line."""
        partition = "/".join(f"{column}={value}" for column, value in self.partition.items())
        return f"{partition + ' ' if partition else ''}bucket {self.bucket}"

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "kind": self.kind,
            "partition": dict(self.partition),
            "bucket": self.bucket,
            "files": self.files,
            "bytes": self.bytes,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class DryProcess:
    """A process that would be begun for a need. Upkeep beside compaction is one task that finds its own work: it has
    none here.
    """

    need: Need
    tasks: Sequence[DryTask] = ()

    @property
    def bytes(self) -> int:
        """Bytes that its tasks would read."""
        return sum(task.bytes for task in self.tasks)

    @property
    def has_work(self) -> bool:
        """Whether anything would be done, as far as can be told."""
        return bool(self.tasks) or not self.need.kind.is_compaction

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            **self.need.to_json(),
            "has_work": self.has_work,
            "bytes": self.bytes,
            "tasks": [task.to_json() for task in self.tasks],
        }


def dry_run(catalog: Catalog, name: str, needs: Sequence[Need]) -> list[DryProcess]:
    """What would be done for these needs of a table, in their order. Raises TableNotFoundError."""
    # A catalog over a metastore has tables of Iceberg's as well.
    table: Any = catalog.get_table(name)
    tasks_of = _tasks if isinstance(table, Table) else _iceberg_tasks
    return [DryProcess(need=need, tasks=tasks_of(table, need)) for need in needs]


def _iceberg_tasks(table: Any, need: Need) -> list[DryTask]:
    # By use: pyiceberg loads slowly, and is not there for everybody.
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


def _tasks(table: Table, need: Need) -> list[DryTask]:
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
