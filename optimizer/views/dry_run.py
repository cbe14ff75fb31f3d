"""What the optimizer would do for a table now: the processes with their tasks. Nothing is changed, no mark is left."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from interbed.catalog.client.api import Catalog
from interbed.optimizer.flow.need import Need
from interbed.optimizer.work.lake_tables import compaction_tasks
from interbed.storage.table.table import Table
from interbed.storage.upkeep.compact_tasks import CompactionTask


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
