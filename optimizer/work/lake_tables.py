"""Work on the tables of a catalog: the scheduler measures, plans and commits, workers carry out attempts.

Iceberg tables are in iceberg_tables, which is imported by use: pyiceberg loads slowly, and is an extra.

A worker of `memory` bytes and `threads` has memory / threads for each task. Half of it is for rows that are sorted or
collected (`write-buffer-size`, beyond which they are spilled to disk), a quarter for lookups
(`lookup.cache-max-memory-size`). The rest is for the blocks of files that are merged, some MB for each run. A table
with smaller options keeps them. Upkeep is one task. It commits by itself, and may be done twice.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from interbed.catalog.client.api import Catalog
from interbed.catalog.client.errors import NotAnInterbedTableError
from interbed.catalog.client.table_parts import as_format_table, as_object_table
from interbed.optimizer.flow.process import (
    CleanupMode,
    Process,
    TaskAssignment,
    TaskFigures,
    TaskOutcome,
    WorkKind,
    WorkNeed,
)
from interbed.optimizer.flow.tables import PlannedTask, TableMeasurement, WorkPlan
from interbed.optimizer.work.payload import (
    TaskPayload,
    decode_messages,
    decode_snapshot,
    encode_messages,
    encode_snapshot,
)
from interbed.storage.base.errors import CommitFailedError, MissingExtraError
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.options.core import CoreOptions
from interbed.storage.meta.options.optimizing import SelfOptimizing
from interbed.storage.table.table import Table
from interbed.storage.upkeep.compact_tasks import CompactionTask, balanced_tasks, plan_sort_tasks, plan_tasks, run_task
from interbed.storage.upkeep.health import table_health
from interbed.storage.upkeep.job_files import JobFiles
from interbed.storage.version.maintenance import carry_out_maintenance
from interbed.storage.write.commit_message import CommitMessage
from interbed.storage.write.sort.key import SortOrder


class LakeTables:
    """The tables of a catalog, for the scheduler."""

    def __init__(
        self, catalog: Catalog, on_measured: Callable[[str, FileStore], None] = lambda name, store: None
    ) -> None:
        """`on_measured` is called for each table that is opened to be measured."""
        self._catalog = catalog
        self._on_measured = on_measured
        # Processes planned here, without an attempt at their commit yet.
        self._fresh: set[str] = set()

    def measure(self, table: str) -> TableMeasurement:
        """Measure a table. Raises also InvalidOptionError for options of the optimizer that are invalid."""
        found = self._table(table)
        if not isinstance(found, Table):
            from interbed.optimizer.work import iceberg_tables

            return iceberg_tables.measure(found)
        self._on_measured(table, found.store)
        options = found.schema.options
        return TableMeasurement(
            health=table_health(found.store), optimizing=SelfOptimizing.of(options), options=options
        )

    def plan(self, process: Process, need: WorkNeed, slots: int) -> WorkPlan:
        table = self._table(process.table)
        if not isinstance(table, Table):
            from interbed.optimizer.work import iceberg_tables

            return iceberg_tables.plan(table, process, need, slots)
        if not need.kind.is_compaction:
            return WorkPlan(tasks=[PlannedTask(payload=TaskPayload().to_bytes(), cost=0)])
        tasks = compaction_tasks(table.copy(need.options), need.kind)
        if not tasks:
            return WorkPlan(tasks=())
        # A mark is a file: it is written only when there is work.
        JobFiles(table.store, process.id).mark()
        self._fresh.add(process.id)
        return WorkPlan(
            tasks=[
                PlannedTask(
                    payload=TaskPayload(options=need.options, tasks=bundle).to_bytes(),
                    cost=sum(task.cost for task in bundle),
                )
                for bundle in balanced_tasks(tasks, workers=slots)
            ],
            options=need.options,
        )

    def commit(self, process: Process, results: Sequence[bytes]) -> int | None:
        if not process.kind.is_compaction:
            return decode_snapshot(results[0])
        table = self._table(process.table)
        if not isinstance(table, Table):
            from interbed.optimizer.work import iceberg_tables

            return iceberg_tables.commit(table, process, results)
        if process.id in self._fresh:
            # There is no snapshot of this process, so that the search among all snapshots is saved.
            self._fresh.discard(process.id)
        elif (before := table.access.latest_snapshot_of(process.id)) is not None:
            return before.id
        messages = decode_messages(results)
        if not messages:
            return None
        # The files of tasks stay when the commit fails: it may be tried again, and `end` deletes them.
        ids = table.new_commit(process.id).commit(messages, owns_files=False)
        return ids[-1] if ids else None

    def end(self, process: Process, results: Sequence[bytes]) -> None:
        if not process.kind.is_compaction:
            return
        table = self._table(process.table)
        if not isinstance(table, Table):
            from interbed.optimizer.work import iceberg_tables

            iceberg_tables.end(table, process, results)
            return
        job = JobFiles(table.store, process.id)
        job.unmark()
        self._fresh.discard(process.id)
        if process.cleanup is CleanupMode.SWEEP:
            job.sweep(decode_messages(results))
        elif process.cleanup is CleanupMode.DISCARD:
            job.delete_all()

    def _table(self, name: str) -> Any:
        """Return a table of interbed's, or of Iceberg's."""
        try:
            found = self._catalog.get_table(name)
            if as_format_table(found) is not None:
                raise NotAnInterbedTableError(f"'{name}' is a format table, in which there is nothing to optimize.")
            if as_object_table(found) is not None:
                raise NotAnInterbedTableError(f"'{name}' is an object table, in which there is nothing to optimize.")
            return found
        except MissingExtraError as error:
            raise NotAnInterbedTableError(
                f"'{name}' is an Iceberg table, which this optimizer can't read: {error}"
            ) from error


def compaction_tasks(table: Table, kind: WorkKind) -> list[CompactionTask]:
    """Plan the tasks of a compaction of that kind; nothing is changed."""
    optimizing = SelfOptimizing.of(table.options.raw)
    if kind is WorkKind.MINOR:
        return plan_tasks(table.store, full=False)
    if kind is WorkKind.MAJOR:
        worn = {
            (bucket.partition, bucket.bucket)
            for bucket in table_health(table.store).by_bucket
            if bucket.delete_ratio > 0 and bucket.delete_ratio >= optimizing.major_duplicate_ratio
        }
        return [t for t in plan_tasks(table.store, full=True) if (t.partition, t.bucket) in worn]
    if optimizing.order_by and not table.schema.has_primary_key:
        order = SortOrder.of(table.schema, optimizing.order_strategy.value, optimizing.order_by)
        assert order is not None
        return plan_sort_tasks(table.store, order, parallelism=1)
    return plan_tasks(table.store, full=True)


_BUFFER = "write-buffer-size"
_LOOKUP = "lookup.cache-max-memory-size"
_LEAST = 1 << 20


def memory_options(share: int, options: CoreOptions) -> dict[str, str]:
    """Return the options for a compaction with `share` bytes of memory, of a table with `options`."""
    buffer = min(options.write_buffer_size, max(share // 2, _LEAST))
    lookup = min(options.lookup_cache_max_memory_size, max(share // 4, _LEAST))
    return {_BUFFER: f"{buffer} b", _LOOKUP: f"{lookup} b"}


Upkeep = Callable[[Catalog, str, Table], int | None]
"""Carries out upkeep for a table of a catalog, by its name; returns the snapshot of it, None without one."""


def _expire(catalog: Catalog, name: str, table: Table) -> int | None:
    carry_out_maintenance(table.store)
    if table.options.partition_expiration_millis is None:
        return None
    return _newest(table) if catalog.expire_partitions(name) else None


def _orphans(catalog: Catalog, name: str, table: Table) -> int | None:
    table.maintenance.remove_orphan_files()
    return None


def _manifests(catalog: Catalog, name: str, table: Table) -> int | None:
    return table.maintenance.compact_manifests()


def _analyze(catalog: Catalog, name: str, table: Table) -> int | None:
    found = table.maintenance.analyze()
    return None if found is None else _newest(table)


def _rescale(catalog: Catalog, name: str, table: Table) -> int | None:
    return table.maintenance.rescale().snapshot_id


def _newest(table: Table) -> int | None:
    newest = table.latest_snapshot()
    return None if newest is None else newest.id


UPKEEP: Mapping[WorkKind, Upkeep] = {
    WorkKind.EXPIRE: _expire,
    WorkKind.ORPHANS: _orphans,
    WorkKind.MANIFESTS: _manifests,
    WorkKind.ANALYZE: _analyze,
    WorkKind.RESCALE: _rescale,
}


def carry_out(catalog: Catalog, assignment: TaskAssignment, *, memory: int | None = None) -> TaskOutcome:
    """Carry out an attempt, a compaction with `memory` bytes.

    On an error the written files are deleted. Raises CommitFailedError when the process has ended meanwhile, and the
    errors of the work itself.
    """
    # A catalog over a metastore has Iceberg tables, too.
    found: Any = catalog.get_table(assignment.table)
    if not isinstance(found, Table):
        # By use: pyiceberg loads slowly, and is an extra.
        from interbed.optimizer.work import iceberg_tables

        return iceberg_tables.carry_out(found, assignment)
    table = found
    payload = TaskPayload.from_bytes(assignment.payload)
    if not assignment.kind.is_compaction:
        return TaskOutcome(result=encode_snapshot(UPKEEP[assignment.kind](catalog, assignment.table, table)))
    job = JobFiles(table.store, assignment.ref.process)
    bounds = {} if memory is None else memory_options(memory, table.copy(payload.options).options)
    named = table.copy({**payload.options, **bounds, **job.named()})
    messages: list[CommitMessage] = []
    try:
        for task in payload.tasks:
            messages += run_task(named.store, task, assignment.ref.process)
        if not job.is_marked():
            raise CommitFailedError("The process of this task has ended without it; its files were deleted.")
    except BaseException:
        _delete(table, assignment, messages)
        raise
    return TaskOutcome(result=encode_messages(messages), figures=_figures(messages))


def delete_result(catalog: Catalog, assignment: TaskAssignment, outcome: TaskOutcome) -> None:
    """Delete the files of an attempt whose result was refused."""
    if not assignment.kind.is_compaction or outcome.failure is not None:
        return
    found: Any = catalog.get_table(assignment.table)
    if isinstance(found, Table):
        _delete(found, assignment, decode_messages([outcome.result]))
        return
    from interbed.optimizer.work import iceberg_tables

    iceberg_tables.delete_result(found, assignment, outcome)


def _delete(table: Table, assignment: TaskAssignment, messages: Sequence[CommitMessage]) -> None:
    table.new_commit(assignment.ref.process).abort(messages)


def _figures(messages: Sequence[CommitMessage]) -> TaskFigures:
    before = [f for m in messages for f in m.compaction.before]
    after = [f for m in messages for f in m.compaction.after]
    return TaskFigures(
        bytes_in=sum(f.file_size for f in before),
        bytes_out=sum(f.file_size for f in after),
        files_in=len(before),
        files_out=len(after),
    )
