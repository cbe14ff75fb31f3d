"""A query over one snapshot of a table."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from interbed.storage.base.errors import InvalidInputError
from interbed.storage.base.predicate.expr import Predicate
from interbed.storage.meta.store import TableStore
from interbed.storage.read.arrow_rows import ArrowRows, limited
from interbed.storage.read.table_read import TableRead
from interbed.storage.scan.fallback import plan_rows
from interbed.storage.scan.plan import Plan
from interbed.storage.scan.scan import TableScan


@dataclass(frozen=True)
class Scan(ArrowRows):
    """What `Table.scan` returns: rows of one snapshot, projected, filtered and limited; read when asked for.

    The plan is made once, on first use, so that every form of the same query shows the same snapshot.
    """

    store: TableStore
    columns: tuple[str, ...] | None = None
    predicate: Predicate | None = None
    limit: int | None = None
    snapshot_id: int | None = None
    threads: int | None = None
    level_filter: Callable[[int], bool] | None = None

    def __post_init__(self) -> None:
        if self.limit is not None and self.limit < 0:
            raise InvalidInputError(f"A limit is zero or more rows, not {self.limit}.")

    @cached_property
    def plan(self) -> Plan:
        """The splits to read and what was pruned."""
        if self.level_filter is None:
            return plan_rows(self.store, predicate=self.predicate, limit=self.limit, snapshot_id=self.snapshot_id)
        return TableScan(
            self.store,
            predicate=self.predicate,
            limit=self.limit,
            snapshot_id=self.snapshot_id,
            level_filter=self.level_filter,
        ).plan()

    @cached_property
    def _read(self) -> TableRead:
        return TableRead(self.store, self.columns, self.predicate)

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows."""
        return self._read.schema

    def to_arrow_batch_reader(self) -> pa.RecordBatchReader:
        """The rows as a stream of batches, in memory bounded by some blocks of a few splits."""
        reader = self._read.to_reader(self.plan.splits, threads=self.threads)
        return limited(reader, self.limit)

    def count(self) -> int:
        """The number of rows."""
        narrow = TableRead(self.store, (), self.predicate)
        total = sum(batch.num_rows for batch in narrow.to_reader(self.plan.splits, threads=self.threads))
        return total if self.limit is None else min(total, self.limit)
