"""A query over one snapshot of an Iceberg table."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.table import Table as Metadata
from pyiceberg.table.snapshots import Snapshot

from interbed.iceberg.meta.dropped_columns import with_dropped
from interbed.iceberg.meta.types import readable_fields
from interbed.iceberg.plan.plan import FilePlan, plan_read
from interbed.iceberg.read.files import TableFiles
from interbed.iceberg.read.task_read import TaskRead
from interbed.storage.base.predicate.expr import Predicate, and_
from interbed.storage.base.types.data_type import DataField
from interbed.storage.read.arrow_rows import ArrowRows, check_limit, limited


@dataclass(frozen=True, repr=False)
class IcebergScan(ArrowRows):
    """What `IcebergTable.scan` returns: rows of one snapshot, projected, filtered and limited; read when asked for.

    `row_schema` are the columns of the rows, of which the predicate is over some. Planned once, on first use.
    """

    table: Metadata
    snapshot: Snapshot | None
    row_schema: Schema
    columns: tuple[str, ...] | None = None
    predicate: Predicate | None = None
    limit: int | None = None
    threads: int | None = None

    def __repr__(self) -> str:
        parts = [self.table.location(), "all columns" if self.columns is None else f"columns {', '.join(self.columns)}"]
        if self.predicate is not None:
            parts.append(f"filter {self.predicate}")
        if self.limit is not None:
            parts.append(f"limit {self.limit}")
        return f"IcebergScan({'; '.join(parts)})"

    def __post_init__(self) -> None:
        check_limit(self.limit)

    @cached_property
    def plan(self) -> FilePlan:
        """The tasks to read and what was pruned."""
        return plan_read(self.table.metadata, self._files.io, self.snapshot, self.row_schema, self.predicate)

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows."""
        return self._read.schema

    def to_arrow_batch_reader(self) -> pa.RecordBatchReader:
        """The rows as a stream of batches, in memory bounded by some batches of a few files, and the deletes."""
        return limited(self._read.to_reader(self.plan.tasks, threads=self.threads), self.limit)

    def count(self) -> int:
        """The number of rows; of files without deletes it is in the metadata, where there is no filter."""
        known = 0
        tasks = list(self.plan.tasks)
        if self.predicate is None:
            whole = [file.file for task in tasks for file in task.files if not file.deletes.files]
            known = sum(file.records for file in whole)
            tasks = [replace(task, files=tuple(f for f in task.files if f.deletes.files)) for task in tasks]
        narrow = TaskRead(self._files, self._known_schema, (), self.predicate)
        total = known + sum(batch.num_rows for batch in narrow.to_reader(tasks, threads=self.threads))
        return total if self.limit is None else min(total, self.limit)

    @cached_property
    def _files(self) -> TableFiles:
        return TableFiles.of(self.table.metadata, self.table.io.properties)

    @cached_property
    def _known_schema(self) -> Schema:
        return with_dropped(self.row_schema, self.table.metadata.schemas)

    @cached_property
    def _read(self) -> TaskRead:
        names = [f.name for f in self.row_schema.fields] if self.columns is None else self.columns
        by_name = {field.name: field.field_id for field in self.row_schema.fields}
        return TaskRead(self._files, self._known_schema, [by_name[name] for name in names], self.predicate)

    @property
    def _row_schema(self) -> pa.Schema:
        return self.schema

    @property
    def _row_fields(self) -> Sequence[DataField]:
        return readable_fields(self.row_schema)

    def _narrowed(
        self, columns: Sequence[str] | None, predicate: Predicate | None, limit: int | None
    ) -> pa.RecordBatchReader:
        if self.limit is not None:
            # Which rows come first must not depend on what is asked of them.
            return super()._narrowed(columns, None, limit)
        names = self.columns if columns is None else tuple(columns)
        both = self.predicate if predicate is None else and_(self.predicate, predicate)
        return replace(self, columns=names, predicate=both, limit=limit).to_arrow_batch_reader()
