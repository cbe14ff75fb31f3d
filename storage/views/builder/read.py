"""pypaimon's read builder: filter, projection and limit first, then scan and read; also for audit log and binlog.

A projection may name fields inside of ROW columns: `with_projection(["id", "address.city"])`. Such a field is returned
as a column of its own, named by its path with `_` between the parts: `address_city`. Where names collide, the later
ones end in `__0`, `__1` and so on. Source: pypaimon's NestedProjection.

A plan can be read in shards or slices, which together are all of it. Rows of append tables are divided one by one, also
those of one file. Rows of primary-key tables result from merging the files of a bucket, so a shard of them has whole
buckets.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa
import pyarrow.compute as pc

from interbed.storage.base.byte_budget import longest_first
from interbed.storage.base.errors import InvalidInputError, NotSupportedError, load_extra
from interbed.storage.base.predicate.expr import And, Predicate, bind, columns_of, restrict_to
from interbed.storage.base.row.kind import RowKind
from interbed.storage.base.row.python_values import pandas_frame, python_values
from interbed.storage.base.types.arrow import fields_to_schema
from interbed.storage.base.types.column_names import check_apart_without_case, check_asked_once
from interbed.storage.base.types.data_type import DataField, RowType
from interbed.storage.meta.file_store import FileStore
from interbed.storage.read.arrow_rows import SplitsRead, check_limit, limited
from interbed.storage.read.change_read import AuditRead, audit_fields
from interbed.storage.read.table_read import TableRead
from interbed.storage.scan.fallback import plan_rows
from interbed.storage.scan.scan import TableScan
from interbed.storage.scan.split import Plan, Split
from interbed.storage.views.builder.explain import ExplainResult, explained
from interbed.storage.views.builder.predicate import PredicateBuilder


@dataclass(frozen=True, slots=True)
class NestedColumns:
    """The columns handed out, and by which path each is found in a row of the columns that are read."""

    fields: tuple[DataField, ...]
    paths: tuple[tuple[str, ...], ...]

    @staticmethod
    def of(fields: Sequence[DataField], names: Sequence[str]) -> "NestedColumns":
        """Those of names with dots; a column whose own name has the dot comes first. Raises InvalidInputError."""
        found, paths, taken, clashes = [], [], set[str](), 0
        for name in names:
            path = (name,) if any(f.name == name for f in fields) else tuple(name.split("."))
            field = _leaf(fields, path, name)
            label = "_".join(path)
            if label in taken:
                label, clashes = f"{label}__{clashes}", clashes + 1
            taken.add(label)
            found.append(replace(field, name=label))
            paths.append(path)
        return NestedColumns(tuple(found), tuple(paths))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the table to read."""
        return tuple(dict.fromkeys(path[0] for path in self.paths))

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of what is handed out."""
        return fields_to_schema(self.fields)

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The columns handed out of a batch of the columns read; a field of a null ROW is null."""
        arrays: list[Any] = []
        for path in self.paths:
            array: Any = batch.column(path[0])
            for name in path[1:]:
                array = pc.struct_field(array, [array.type.get_field_index(name)])
            arrays.append(array)
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def _leaf(fields: Sequence[DataField], path: tuple[str, ...], name: str) -> DataField:
    """The field at the end of a path, admitting nulls if any ROW around it does."""
    nullable = False
    inside: Sequence[DataField] = fields
    field: DataField | None = None
    for part in path:
        field = next((f for f in inside if f.name == part), None)
        if field is None:
            known = ", ".join(f.name for f in inside) or "nothing inside, because it is no ROW"
            raise InvalidInputError(f"The table has no column {name!r}: there is no {part!r}, but {known}.")
        nullable = nullable or field.type.nullable
        inside = field.type.fields if isinstance(field.type, RowType) else ()
    assert field is not None
    return replace(field, type=field.type.with_nullable(nullable))


def shard_of(plan: Plan, index: int, count: int, *, keyed: bool) -> Plan:
    """The part of that index, counted from 0, among `count` equal ones.

    With `keyed`, of a table with a primary key, it has the buckets whose number divided by `count` leaves `index`.
    """
    if keyed:
        return replace(plan, splits=tuple(s for s in plan.splits if s.bucket % count == index))
    if any(split.tells_changes or not split.raw_convertible for split in plan.splits):
        return replace(plan, splits=plan.splits[index::count])
    rows, more = divmod(sum(split.row_count for split in plan.splits), count)
    start = index * rows + min(index, more)
    return slice_of(plan, start, start + rows + (index < more))


def slice_of(plan: Plan, start: int, end: int) -> Plan:
    """The rows from position `start` up to, but not with, `end`, counted over all files in the order of the plan.

    Rows that deletion vectors mark count, too. Raises InvalidInputError for a plan of changes.
    """
    splits, position = [], 0
    for split in plan.splits:
        if split.tells_changes or not split.raw_convertible:
            raise InvalidInputError("A slice is of the rows of an append table, not of changes between snapshots.")
        files, ranges = [], {}
        for file in split.files:
            low, high = max(start - position, 0), min(end - position, file.row_count)
            position += file.row_count
            if low < high:
                files.append(file)
                if (low, high) != (0, file.row_count):
                    ranges[file.file_name] = (low, high)
        if files:
            splits.append(replace(split, files=tuple(files), row_ranges=ranges))
    return replace(plan, splits=tuple(splits))


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


class BuiltScan:
    """pypaimon's form of a scan; `scan` makes its plan. Every `with_…` returns the scan itself, as in pypaimon.

    `keyed` says that the table has a primary key.
    """

    def __init__(self, scan: Callable[[], Plan], *, keyed: bool = False) -> None:
        self._scan = scan
        self._keyed = keyed
        self._shard: tuple[int, int] | None = None
        self._slice: tuple[int, int] | None = None

    def plan(self) -> BuiltPlan:
        """The splits of the newest snapshot, or this shard's or this slice's part of them."""
        plan = self._scan()
        if self._shard is not None:
            plan = shard_of(plan, *self._shard, keyed=self._keyed)
        elif self._slice is not None:
            plan = slice_of(plan, *self._slice)
        return BuiltPlan(plan)

    def with_shard(self, idx_of_this_subtask: int, number_of_para_subtasks: int) -> "BuiltScan":
        """One of several disjoint parts of the table, which together are all of it.

        Rows of append tables are dealt out evenly, also those of one file; of a table with a primary key a part has
        whole buckets. Raises InvalidInputError.
        """
        if not 0 <= idx_of_this_subtask < number_of_para_subtasks:
            raise InvalidInputError(f"Not a shard: {idx_of_this_subtask} of {number_of_para_subtasks}.")
        if self._slice is not None:
            raise InvalidInputError("A scan has a shard or a slice, not both.")
        self._shard = (idx_of_this_subtask, number_of_para_subtasks)
        return self

    def with_slice(self, start_pos: int, end_pos: int) -> "BuiltScan":
        """The rows of an append table from one position up to, but not with, another; files are in a fixed order.

        Raises InvalidInputError, NotSupportedError for a table with a primary key.
        """
        if self._keyed:
            raise NotSupportedError(
                "Rows of a primary-key table have no position before they are merged; take parts by with_shard."
            )
        if not 0 <= start_pos < end_pos:
            raise InvalidInputError(f"Not a slice: from {start_pos} to {end_pos}.")
        if self._shard is not None:
            raise InvalidInputError("A scan has a shard or a slice, not both.")
        self._slice = (start_pos, end_pos)
        return self

    def with_global_index_result(self, result: object) -> NoReturn:
        """Refused: there are no global indexes."""
        raise NotSupportedError("Global indexes are not supported; filter by with_filter.")

    def with_row_ranges(self, row_ranges: object) -> NoReturn:
        """Refused: rows have no ids without row tracking."""
        raise NotSupportedError("Row ids are not supported; take parts by with_slice or with_shard.")

    def with_chunk_shuffle(self, seed: int, chunk_size: int) -> NoReturn:
        """Refused: chunks are not shuffled."""
        raise NotSupportedError("Chunks are not shuffled; take parts by with_slice in an order of your own.")


@dataclass(frozen=True, slots=True)
class BuiltRead:
    """pypaimon's form of a read. It can be pickled, for other processes to read splits with."""

    read: SplitsRead
    limit: int | None = None
    nested: NestedColumns | None = None

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows."""
        return self.read.schema if self.nested is None else self.nested.schema

    def to_arrow_batch_reader(
        self, splits: Sequence[Split], blob_parallelism: int | None = None
    ) -> pa.RecordBatchReader:
        """The rows of the splits as a stream of batches. There are no BLOBs; `blob_parallelism` is passed over."""
        return self._handed_out(self.read.to_reader(splits))

    def to_arrow(
        self, splits: Sequence[Split], parallelism: int | None = None, blob_parallelism: int | None = None
    ) -> pa.Table:
        """The rows of the splits as one Arrow table, in the order of the splits if `parallelism` is given.

        `parallelism` is how many splits are read at once; by default as many as there are cores, up to four. Raises
        InvalidInputError for less than one.
        """
        if parallelism is not None and parallelism < 1:
            raise InvalidInputError(f"The parallelism of a read is at least 1, not {parallelism}.")
        if parallelism is None or self.limit is not None or not isinstance(self.read, TableRead):
            return self.to_arrow_batch_reader(splits).read_all()
        read, threads = self.read, min(parallelism, max(len(splits), 1))
        with ThreadPoolExecutor(threads, thread_name_prefix="interbed-read") as pool:
            futures: dict[int, Future[list[pa.RecordBatch]]] = {}
            for place in longest_first([split.byte_size for split in splits]):
                futures[place] = pool.submit(lambda s: list(read.to_batches(s, readers=threads)), splits[place])
            try:
                batches = [batch for place in range(len(splits)) for batch in futures[place].result()]
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
        return self._handed_out(pa.RecordBatchReader.from_batches(read.schema, batches)).read_all()

    def to_pandas(
        self, splits: Sequence[Split], parallelism: int | None = None, blob_parallelism: int | None = None
    ) -> "pd.DataFrame":
        """The rows of the splits as a pandas data frame; arguments as in to_arrow."""
        load_extra("pandas", needed_by="to_pandas")
        return pandas_frame(self.to_arrow(splits, parallelism))

    def to_duckdb(
        self,
        splits: Sequence[Split],
        table_name: str,
        connection: Any = None,
        parallelism: int | None = None,
        blob_parallelism: int | None = None,
    ) -> "duckdb.DuckDBPyConnection":
        """A DuckDB connection in which the rows of the splits are a view of that name; the rest as in to_arrow."""
        library = load_extra("duckdb", needed_by="to_duckdb")
        target: duckdb.DuckDBPyConnection = connection or library.connect(database=":memory:")
        check_apart_without_case(self.schema, "the table")
        target.register(table_name, self.to_arrow(splits, parallelism))
        return target

    def to_ray(self, splits: Sequence[Split], **_: object) -> NoReturn:
        """Refused: interbed does not know Ray."""
        raise NotSupportedError("Ray is not supported; make a data set by ray.data.from_arrow(read.to_arrow(splits)).")

    def to_torch(self, splits: Sequence[Split], **_: object) -> NoReturn:
        """Refused: interbed does not know PyTorch."""
        raise NotSupportedError("PyTorch is not supported; read batches by to_arrow_batch_reader and make tensors.")

    def to_iterator(self, splits: Sequence[Split]) -> "Iterator[BuiltRow]":
        """The rows of the splits one by one, as tuples of Python values; for small results."""
        for batch in self.to_arrow_batch_reader(splits):
            yield from map(BuiltRow, zip(*(python_values(column) for column in batch.columns), strict=True))

    def _handed_out(self, reader: pa.RecordBatchReader) -> pa.RecordBatchReader:
        if self.nested is not None:
            reader = pa.RecordBatchReader.from_batches(self.nested.schema, map(self.nested.apply, reader))
        return limited(reader, self.limit)


class BuiltRow(tuple[object, ...]):
    """pypaimon's form of a row, which is a tuple as well."""

    __slots__ = ()

    def get_field(self, pos: int) -> object:
        """The value of the column at that position, counted from 0."""
        return self[pos]

    def get_row_kind(self) -> RowKind:
        """The kind of the row: what a batch read hands out is there, an insertion."""
        return RowKind.INSERT


class ReadBuilder:
    """What to read from a table; every `with_…` returns the builder itself, as in pypaimon.

    `fields` are the columns, where they are not those of the table.
    """

    def __init__(self, store: FileStore, fields: Sequence[DataField] | None = None, *, name: str = "") -> None:
        self._store = store
        self._name = name or store.location
        self._fields = {f.name: f for f in (store.schema.fields if fields is None else fields)}
        self._predicate: Predicate | None = None
        self._partitions: Predicate | None = None
        self._columns: tuple[str, ...] | None = None
        self._nested: NestedColumns | None = None
        self._limit: int | None = None

    def with_filter(self, predicate: Predicate | None) -> "ReadBuilder":
        """Read only rows that the predicate selects, all for None; made by `new_predicate_builder`."""
        self._predicate = None if predicate is None else bind(predicate, list(self._fields.values()))
        return self

    def with_partition_filter(self, partition_filter: Predicate | None) -> "ReadBuilder":
        """Read only partitions that the predicate selects, besides the filter.

        Raises InvalidInputError for one that mentions other columns.
        """
        keys = self._store.schema.partition_keys
        others = set() if partition_filter is None else columns_of(partition_filter).difference(keys)
        if others:
            raise InvalidInputError(
                f"A filter of partitions mentions {min(others)!r}, which is no partition column; there "
                f"{'are ' + ', '.join(keys) if keys else 'is none'}. Other columns are for with_filter."
            )
        self._partitions = None if partition_filter is None else bind(partition_filter, list(self._fields.values()))
        return self

    def with_projection(self, projection: Sequence[str] | None) -> "ReadBuilder":
        """Read only these columns, in this order; all for None. `a.b` is the field `b` of the ROW `a`, as `a_b`.

        Raises InvalidInputError for a column that is not there.
        """
        self._columns, self._nested = None, None
        if projection is None:
            return self
        unknown = [c for c in projection if c not in self._fields]
        if any("." in name for name in unknown):
            self._nested = NestedColumns.of(tuple(self._fields.values()), projection)
            self._columns = self._nested.columns
            return self
        if unknown:
            raise InvalidInputError(f"The table has no column {unknown[0]!r}; it has {', '.join(self._fields)}.")
        check_asked_once(projection)
        self._columns = tuple(projection)
        return self

    def with_limit(self, limit: int | None) -> "ReadBuilder":
        """Read at most that many rows, all for None."""
        check_limit(limit)
        self._limit = limit
        return self

    def new_predicate_builder(self) -> PredicateBuilder:
        """Makes predicates over the table's columns."""
        return PredicateBuilder(tuple(self._fields.values()))

    def read_type(self) -> list[DataField]:
        """The columns that will be read."""
        if self._nested is not None:
            return list(self._nested.fields)
        return [self._fields[name] for name in (self._fields if self._columns is None else self._columns)]

    def explain(self, verbose: bool = False) -> ExplainResult:
        """What the read would do, in figures: what was pruned, files, splits; with each split if `verbose`."""
        return explained(
            self._store,
            self._name,
            self.new_scan().plan().plan,
            predicate=self._all(),
            projection=None if self._columns is None else [f.name for f in self.read_type()],
            limit=self._limit,
            verbose=verbose,
        )

    def new_scan(self) -> BuiltScan:
        """The planner."""
        scan = partial(plan_rows, self._store, predicate=self._all(), limit=self._limit)
        return BuiltScan(scan, keyed=self._store.schema.has_primary_key)

    def new_read(self) -> BuiltRead:
        """The reader."""
        return BuiltRead(TableRead(self._store, self._columns, self._all()), self._limit, self._nested)

    def _all(self) -> Predicate | None:
        """The filter and that of partitions."""
        both = [p for p in (self._predicate, self._partitions) if p is not None]
        return And(tuple(both)) if len(both) > 1 else both[0] if both else None


class ViewReadBuilder(ReadBuilder):
    """What to read from a view of a table's changes; see ReadBuilder."""

    def __init__(self, store: FileStore, *, packed: bool) -> None:
        super().__init__(store, audit_fields(store, packed=packed))
        self._packed = packed

    def new_scan(self) -> BuiltScan:
        """The planner."""
        predicate = self._all()
        own = None if predicate is None else restrict_to(predicate, self._store.schema.names)
        return BuiltScan(TableScan(self._store, predicate=own).plan)

    def new_read(self) -> BuiltRead:
        """The reader."""
        read = AuditRead(self._store, self._columns, self._all(), packed=self._packed)
        return BuiltRead(read, self._limit, self._nested)
