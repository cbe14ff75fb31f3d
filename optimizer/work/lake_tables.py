"""The tables of a catalog, for the scheduler: measured by their metadata, planned by the store's planners.

Iceberg's are in iceberg_tables, which is imported by use: pyiceberg loads slowly, and is not there for everybody.
"""

from collections.abc import Callable, Sequence
from typing import Any

from interbed.catalog.client.api import Catalog
from interbed.catalog.client.errors import NotAnInterbedTableError
from interbed.optimizer.flow.kind import Need, WorkKind
from interbed.optimizer.flow.process import Cleanup, Process
from interbed.optimizer.flow.tables import Measurement, PlannedTask, WorkPlan
from interbed.optimizer.work.payload import Payload, decode_messages, decode_snapshot
from interbed.storage.base.errors import MissingExtraError
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.options.optimizing import SelfOptimizing
from interbed.storage.table.table import Table
from interbed.storage.upkeep.compact_tasks import CompactionTask, balanced_tasks, plan_sort_tasks, plan_tasks
from interbed.storage.upkeep.health import table_health
from interbed.storage.upkeep.job_files import JobFiles
from interbed.storage.write.sort.order import SortOrder


class LakeTables:
    """See OptimizedTables."""

    def __init__(
        self, catalog: Catalog, on_measured: Callable[[str, FileStore], None] = lambda name, store: None
    ) -> None:
        """`on_measured` is told of each table as it was opened."""
        self._catalog = catalog
        self._on_measured = on_measured
        # Processes planned here whose commit was not tried yet.
        self._fresh: set[str] = set()

    def measure(self, table: str) -> Measurement:
        """See OptimizedTables. Raises InvalidOptionError for wishes that are none."""
        found = self._table(table)
        if not isinstance(found, Table):
            from interbed.optimizer.work import iceberg_tables

            return iceberg_tables.measure(found)
        self._on_measured(table, found.store)
        options = found.schema.options
        return Measurement(health=table_health(found.store), wishes=SelfOptimizing.of(options), options=options)

    def plan(self, process: Process, need: Need, slots: int) -> WorkPlan:
        """See OptimizedTables."""
        table = self._table(process.table)
        if not isinstance(table, Table):
            from interbed.optimizer.work import iceberg_tables

            return iceberg_tables.plan(table, process, need, slots)
        if not need.kind.is_compaction:
            return WorkPlan(tasks=[PlannedTask(payload=Payload().to_bytes(), cost=0)])
        tasks = compaction_tasks(table.copy(need.options), need.kind)
        if not tasks:
            return WorkPlan(tasks=())
        # Not before there is something to do: a mark is a file.
        JobFiles(table.store, process.id).mark()
        self._fresh.add(process.id)
        return WorkPlan(
            tasks=[
                PlannedTask(
                    payload=Payload(options=need.options, tasks=bundle).to_bytes(),
                    cost=sum(task.cost for task in bundle),
                )
                for bundle in balanced_tasks(tasks, workers=slots)
            ],
            options=need.options,
        )

    def commit(self, process: Process, results: Sequence[bytes]) -> int | None:
        """See OptimizedTables."""
        if not process.kind.is_compaction:
            return decode_snapshot(results[0])
        table = self._table(process.table)
        if not isinstance(table, Table):
            from interbed.optimizer.work import iceberg_tables

            return iceberg_tables.commit(table, process, results)
        if process.id in self._fresh:
            # There is none of it among the snapshots, of which there may be many.
            self._fresh.discard(process.id)
        elif (before := table.access.latest_snapshot_of(process.id)) is not None:
            return before.id
        messages = decode_messages(results)
        if not messages:
            return None
        # What tasks wrote stays when the commit fails: it may be tried again, and `end` knows what is to go.
        ids = table.new_commit(process.id).commit(messages, owns_files=False)
        return ids[-1] if ids else None

    def end(self, process: Process, results: Sequence[bytes]) -> None:
        """See OptimizedTables."""
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
        if process.cleanup is Cleanup.SWEEP:
            job.sweep(decode_messages(results))
        elif process.cleanup is Cleanup.DISCARD:
            job.delete_all()

    def _table(self, name: str) -> Any:
        """A table of interbed's, or of Iceberg's."""
        try:
            return self._catalog.get_table(name)
        except MissingExtraError as error:
            raise NotAnInterbedTableError(
                f"'{name}' is an Iceberg table, which nobody here can read: {error}"
            ) from error


def compaction_tasks(table: Table, kind: WorkKind) -> list[CompactionTask]:
    """What a compaction of that kind has to do in a table now; nothing is changed."""
    wishes = SelfOptimizing.of(table.options.raw)
    if kind is WorkKind.MINOR:
        return plan_tasks(table.store, full=False)
    if kind is WorkKind.MAJOR:
        worn = {
            (bucket.partition, bucket.bucket)
            for bucket in table_health(table.store).by_bucket
            if bucket.delete_ratio > 0 and bucket.delete_ratio >= wishes.major_duplicate_ratio
        }
        return [t for t in plan_tasks(table.store, full=True) if (t.partition, t.bucket) in worn]
    if wishes.order_by and not table.schema.has_primary_key:
        order = SortOrder.of(table.schema, wishes.order_strategy.value, wishes.order_by)
        assert order is not None
        return plan_sort_tasks(table.store, order, parallelism=1)
    return plan_tasks(table.store, full=True)
