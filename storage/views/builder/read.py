"""pypaimon's read builder: filter, projection and limit first, then scan and read."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from interbed.storage.base.errors import InvalidInputError
from interbed.storage.base.predicate.expr import Predicate, bind
from interbed.storage.base.types.data_type import DataField
from interbed.storage.meta.store import TableStore
from interbed.storage.read.arrow_rows import SplitsRead, limited
from interbed.storage.read.table_read import TableRead
from interbed.storage.scan.fallback import plan_rows
from interbed.storage.scan.plan import Plan
from interbed.storage.scan.split import Split
from interbed.storage.views.builder.predicate import PredicateBuilder

if TYPE_CHECKING:
    import duckdb
    import pandas as pd


@dataclass(frozen=True, slots=True)
class BuiltPlan:
    """pypaimon's form of a plan, whose splits are had by a call."""

    plan: Plan

    def splits(self) -> list[Split]:
        """The splits to read."""
        return list(self.plan.splits)

    @property
    def snapshot_id(self) -> int | None:
        """The snapshot that was planned; None for an empty table."""
        return self.plan.snapshot_id


@dataclass(frozen=True, slots=True)
class BuiltScan:
    """pypaimon's form of a scan; `scan` makes its plan."""

    scan: Callable[[], Plan]
    shard: tuple[int, int] | None = None

    def plan(self) -> BuiltPlan:
        """The splits of the newest snapshot, or of this shard's part of them."""
        plan = self.scan()
        if self.shard is not None:
            index, count = self.shard
            plan = replace(plan, splits=tuple(plan.splits[index::count]))
        return BuiltPlan(plan)

    def with_shard(self, idx_of_this_subtask: int, number_of_para_subtasks: int) -> "BuiltScan":
        """A scan of one of several disjoint parts of the table, which together are all of it."""
        if not 0 <= idx_of_this_subtask < number_of_para_subtasks:
            raise InvalidInputError(f"Not a shard: {idx_of_this_subtask} of {number_of_para_subtasks}.")
        return replace(self, shard=(idx_of_this_subtask, number_of_para_subtasks))


@dataclass(frozen=True, slots=True)
class BuiltRead:
    """pypaimon's form of a read."""

    read: SplitsRead
    limit: int | None = None

    def to_arrow_batch_reader(self, splits: Sequence[Split]) -> pa.RecordBatchReader:
        """The rows of the splits as a stream of batches."""
        return limited(self.read.to_reader(splits), self.limit)

    def to_arrow(self, splits: Sequence[Split]) -> pa.Table:
        """The rows of the splits as one Arrow table."""
        return self.to_arrow_batch_reader(splits).read_all()

    def to_pandas(self, splits: Sequence[Split]) -> "pd.DataFrame":
        """The rows of the splits as a pandas data frame."""
        return self.to_arrow(splits).to_pandas()

    def to_duckdb(
        self, splits: Sequence[Split], table_name: str, connection: Any = None
    ) -> "duckdb.DuckDBPyConnection":
        """A DuckDB connection in which the rows of the splits are a view of that name."""
        # duckdb is an optional dependency and slow to import.
        import duckdb

        target: duckdb.DuckDBPyConnection = connection or duckdb.connect()
        target.register(table_name, self.to_arrow(splits))
        return target

    def to_iterator(self, splits: Sequence[Split]) -> "Iterator[BuiltRow]":
        """The rows of the splits one by one, as tuples of Python values; for small results."""
        for batch in self.to_arrow_batch_reader(splits):
            yield from map(BuiltRow, zip(*(column.to_pylist() for column in batch.columns), strict=True))


class BuiltRow(tuple[object, ...]):
    """pypaimon's form of a row, which is a tuple as well."""

    __slots__ = ()

    def get_field(self, pos: int) -> object:
        """The value of the column at that position, counted from 0."""
        return self[pos]


class ReadBuilder:
    """What to read from a table; every `with_…` returns the builder itself, as in pypaimon.

    `fields` are the columns, where they are not those of the table.
    """

    def __init__(self, store: TableStore, fields: Sequence[DataField] | None = None) -> None:
        self._store = store
        self._fields = {f.name: f for f in (store.schema.fields if fields is None else fields)}
        self._predicate: Predicate | None = None
        self._columns: tuple[str, ...] | None = None
        self._limit: int | None = None

    def with_filter(self, predicate: Predicate) -> "ReadBuilder":
        """Read only rows that the predicate selects; made by `new_predicate_builder`."""
        self._predicate = bind(predicate, list(self._fields.values()))
        return self

    def with_projection(self, projection: Sequence[str]) -> "ReadBuilder":
        """Read only these columns, in this order."""
        unknown = [c for c in projection if c not in self._fields]
        if unknown:
            raise InvalidInputError(f"The table has no column {unknown[0]!r}; it has {', '.join(self._fields)}.")
        self._columns = tuple(projection)
        return self

    def with_limit(self, limit: int) -> "ReadBuilder":
        """Read at most that many rows."""
        if limit < 0:
            raise InvalidInputError(f"A limit is zero or more rows, not {limit}.")
        self._limit = limit
        return self

    def new_predicate_builder(self) -> PredicateBuilder:
        """Makes predicates over the table's columns."""
        return PredicateBuilder(tuple(self._fields.values()))

    def read_type(self) -> list[DataField]:
        """The columns that will be read."""
        return [self._fields[name] for name in (self._fields if self._columns is None else self._columns)]

    def new_scan(self) -> BuiltScan:
        """The planner."""
        return BuiltScan(partial(plan_rows, self._store, predicate=self._predicate, limit=self._limit))

    def new_read(self) -> BuiltRead:
        """The reader."""
        return BuiltRead(TableRead(self._store, self._columns, self._predicate), self._limit)
