"""pypaimon's read builder: filter, projection and limit, then scan and read; also for audit log and binlog.

A projection may name fields inside of ROW columns: `with_projection(["id", "address.city"])`. Such a field is returned
as a separate column, named by its path with `_` between the parts: `address_city`. If names collide, the later ones
end in `__0`, `__1` and so on. Source: pypaimon's NestedProjection.

A plan can be divided into shards or slices. Rows of append tables are divided individually, even within a file. Rows of
primary-key tables result from merging the files of a bucket, so a shard of them has whole buckets.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa
import pyarrow.compute as pc

from interbed.storage.base.errors import InvalidInputError, NotSupportedError, load_extra
from interbed.storage.base.predicate.expr import And, Predicate, bind, columns_of, restrict_to
from interbed.storage.base.prefetch import longest_first
from interbed.storage.base.row.kind import RowKind
from interbed.storage.base.row.python_values import pandas_frame, python_values
from interbed.storage.base.types.arrow import fields_to_schema
from interbed.storage.base.types.column_names import check_apart_without_case, check_asked_once
from interbed.storage.base.types.data_type import DataField, RowType
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.schema.system_fields import readable_fields
from interbed.storage.read.arrow_rows import SplitsRead, check_limit, limited
from interbed.storage.read.change_read import AuditRead, audit_fields
from interbed.storage.read.table_read import TableRead
from interbed.storage.scan.scan import TableScan, plan_rows
from interbed.storage.scan.split import Plan, Split
from interbed.storage.views.builder.rows_read import ExplainResult, PredicateBuilder, explained


@dataclass(frozen=True, slots=True)
class NestedColumns:
    """The columns of the result, and the path of each in a row of the columns that are read."""

    fields: tuple[DataField, ...]
    paths: tuple[tuple[str, ...], ...]

    @staticmethod
    def of(fields: Sequence[DataField], names: Sequence[str]) -> "NestedColumns":
        """Resolve names with dots; a column whose own name has the dot takes precedence. Raises InvalidInputError."""
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
        """The columns of the table that are read."""
        return tuple(dict.fromkeys(path[0] for path in self.paths))

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the result."""
        return fields_to_schema(self.fields)

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the result columns of a batch; a field of a null ROW is null."""
        arrays: list[Any] = []
        for path in self.paths:
            array: Any = batch.column(path[0])
            for name in path[1:]:
                array = pc.struct_field(array, [array.type.get_field_index(name)])
            arrays.append(array)
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def _leaf(fields: Sequence[DataField], path: tuple[str, ...], name: str) -> DataField:
    """Return the field at the end of a path; it is nullable if any enclosing ROW is."""
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
    """Return the shard `index`, counted from 0, of `count` equal shards of a plan.

    With `keyed` (a primary-key table) it has the buckets whose number modulo `count` is `index`.
    """
    if keyed:
        return replace(plan, splits=tuple(s for s in plan.splits if s.bucket % count == index))
    if any(split.has_changes or not split.raw_convertible for split in plan.splits):
        return replace(plan, splits=plan.splits[index::count])
    rows, more = divmod(sum(split.row_count for split in plan.splits), count)
    start = index * rows + min(index, more)
    return slice_of(plan, start, start + rows + (index < more))


def slice_of(plan: Plan, start: int, end: int) -> Plan:
    """Return the rows from position `start` to `end` (exclusive), counted over all files in the order of the plan.

    Rows that deletion vectors mark are counted, too. Raises InvalidInputError for a plan of changes.
    """
    splits, position = [], 0
    for split in plan.splits:
        if split.has_changes or not split.raw_convertible:
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
    """pypaimon's form of a plan, whose splits are returned by a method."""

    plan: Plan

    def splits(self) -> list[Split]:
        """Return the splits to read."""
        return list(self.plan.splits)

    @property
    def snapshot_id(self) -> int | None:
        """The snapshot that was planned; None for an empty table."""
        return self.plan.snapshot_id


class BuiltScan:
    """pypaimon's form of a scan; `scan` plans it. Every `with_…` returns the scan itself, as in pypaimon.

    `keyed` is whether the table has a primary key.
    """

    def __init__(self, scan: Callable[[], Plan], *, keyed: bool = False) -> None:
        self._scan = scan
        self._keyed = keyed
        self._shard: tuple[int, int] | None = None
        self._slice: tuple[int, int] | None = None

    def plan(self) -> BuiltPlan:
        """Plan the newest snapshot, or the shard or slice of it."""
        plan = self._scan()
        if self._shard is not None:
            plan = shard_of(plan, *self._shard, keyed=self._keyed)
        elif self._slice is not None:
            plan = slice_of(plan, *self._slice)
        return BuiltPlan(plan)

    def with_shard(self, idx_of_this_subtask: int, number_of_para_subtasks: int) -> "BuiltScan":
        """Read one of several disjoint shards of the table.

        Rows of append tables are divided evenly, even within a file. A shard of a primary-key table has whole buckets.
        Raises InvalidInputError.
        """
        if not 0 <= idx_of_this_subtask < number_of_para_subtasks:
            raise InvalidInputError(f"Not a shard: {idx_of_this_subtask} of {number_of_para_subtasks}.")
        if self._slice is not None:
            raise InvalidInputError("A scan has a shard or a slice, not both.")
        self._shard = (idx_of_this_subtask, number_of_para_subtasks)
        return self

    def with_slice(self, start_pos: int, end_pos: int) -> "BuiltScan":
        """Read the rows of an append table from one position to another (exclusive); files are in a fixed order.

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
        """Raise NotSupportedError, because there are no global indexes."""
        raise NotSupportedError("Global indexes are not supported; filter by with_filter.")

    def with_row_ranges(self, row_ranges: object) -> NoReturn:
        """Raise NotSupportedError, because rows have no ids without row tracking."""
        raise NotSupportedError("Row ids are not supported; take parts by with_slice or with_shard.")

    def with_chunk_shuffle(self, seed: int, chunk_size: int) -> NoReturn:
        """Raise NotSupportedError, because chunks are not shuffled."""
        raise NotSupportedError("Chunks are not shuffled; take parts by with_slice in an order of your own.")


@dataclass(frozen=True, slots=True)
class BuiltRead:
    """pypaimon's form of a read. It can be pickled, so that other processes can read splits."""

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
        """Return the rows of the splits as a stream of batches. There are no BLOBs; `blob_parallelism` is ignored."""
        return self._projected(self.read.to_reader(splits))

    def to_arrow(
        self, splits: Sequence[Split], parallelism: int | None = None, blob_parallelism: int | None = None
    ) -> pa.Table:
        """Return the rows of the splits as one Arrow table, in the order of the splits if `parallelism` is given.

        `parallelism` is the number of splits that are read at once; by default the number of cores, up to four. Raises
        InvalidInputError if it is less than one.
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
        return self._projected(pa.RecordBatchReader.from_batches(read.schema, batches)).read_all()

    def to_pandas(
        self, splits: Sequence[Split], parallelism: int | None = None, blob_parallelism: int | None = None
    ) -> "pd.DataFrame":
        """Return the rows of the splits as a pandas data frame; arguments as in to_arrow."""
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
        """Return a DuckDB connection with the rows of the splits as a view of that name; arguments as in to_arrow."""
        library = load_extra("duckdb", needed_by="to_duckdb")
        target: duckdb.DuckDBPyConnection = connection or library.connect(database=":memory:")
        check_apart_without_case(self.schema, "the table")
        target.register(table_name, self.to_arrow(splits, parallelism))
        return target

    def to_ray(self, splits: Sequence[Split], **_: object) -> NoReturn:
        """Raise NotSupportedError, because Ray is not supported."""
        raise NotSupportedError("Ray is not supported; make a data set by ray.data.from_arrow(read.to_arrow(splits)).")

    def to_torch(self, splits: Sequence[Split], **_: object) -> NoReturn:
        """Raise NotSupportedError, because PyTorch is not supported."""
        raise NotSupportedError("PyTorch is not supported; read batches by to_arrow_batch_reader and make tensors.")

    def to_iterator(self, splits: Sequence[Split]) -> "Iterator[BuiltRow]":
        """Yield the rows of the splits one by one, as tuples of Python values; for small results."""
        for batch in self.to_arrow_batch_reader(splits):
            yield from map(BuiltRow, zip(*(python_values(column) for column in batch.columns), strict=True))

    def _projected(self, reader: pa.RecordBatchReader) -> pa.RecordBatchReader:
        if self.nested is not None:
            reader = pa.RecordBatchReader.from_batches(self.nested.schema, map(self.nested.apply, reader))
        return limited(reader, self.limit)


class BuiltRow(tuple[object, ...]):
    """pypaimon's form of a row, which is a tuple as well."""

    __slots__ = ()

    def get_field(self, pos: int) -> object:
        """Return the value of the column at a position, counted from 0."""
        return self[pos]

    def get_row_kind(self) -> RowKind:
        """Return the kind of the row: rows of a batch read are insertions."""
        return RowKind.INSERT


class ReadBuilder:
    """Builder of a read of a table; every `with_…` returns the builder itself, as in pypaimon.

    `fields` are the columns if they are not those of the table.
    """

    def __init__(self, store: FileStore, fields: Sequence[DataField] | None = None, *, name: str = "") -> None:
        self._store = store
        self._name = name or store.location
        own = store.schema.fields if fields is None else fields
        # Hidden columns are read if the projection or the filter names them.
        hidden = readable_fields(store.schema)[len(store.schema.fields) :] if fields is None else ()
        self._names = tuple(f.name for f in own)
        self._fields = {f.name: f for f in (*own, *hidden)}
        self._predicate: Predicate | None = None
        self._partitions: Predicate | None = None
        self._columns: tuple[str, ...] | None = None
        self._nested: NestedColumns | None = None
        self._limit: int | None = None

    def with_filter(self, predicate: Predicate | None) -> "ReadBuilder":
        """Read only rows that the predicate selects, all for None; see `new_predicate_builder`."""
        self._predicate = None if predicate is None else bind(predicate, list(self._fields.values()))
        return self

    def with_partition_filter(self, partition_filter: Predicate | None) -> "ReadBuilder":
        """Read only partitions that the predicate selects, in addition to the filter.

        Raises InvalidInputError for a predicate on other columns.
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

        Raises InvalidInputError for an unknown column.
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
        """Read at most this many rows, all for None."""
        check_limit(limit)
        self._limit = limit
        return self

    def new_predicate_builder(self) -> PredicateBuilder:
        """Return a builder of predicates over the table's columns."""
        return PredicateBuilder(tuple(self._fields.values()))

    def read_type(self) -> list[DataField]:
        """Return the columns that will be read."""
        if self._nested is not None:
            return list(self._nested.fields)
        return [self._fields[name] for name in (self._names if self._columns is None else self._columns)]

    def explain(self, verbose: bool = False) -> ExplainResult:
        """Explain the read in figures: pruning, files, splits; with every split if `verbose`."""
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
        """Return the scan, which plans the read."""
        scan = partial(plan_rows, self._store, predicate=self._all(), limit=self._limit)
        return BuiltScan(scan, keyed=self._store.schema.has_primary_key)

    def new_read(self) -> BuiltRead:
        """Return the read of planned splits."""
        return BuiltRead(TableRead(self._store, self._columns, self._all()), self._limit, self._nested)

    def _all(self) -> Predicate | None:
        """Return the conjunction of the filter and the partition filter."""
        both = [p for p in (self._predicate, self._partitions) if p is not None]
        return And(tuple(both)) if len(both) > 1 else both[0] if both else None


class ViewReadBuilder(ReadBuilder):
    """Builder of a read of a view of a table's changes; see ReadBuilder."""

    def __init__(self, store: FileStore, *, packed: bool) -> None:
        super().__init__(store, audit_fields(store, packed=packed))
        self._packed = packed

    def new_scan(self) -> BuiltScan:
        """Return the scan, which plans the read."""
        predicate = self._all()
        own = None if predicate is None else restrict_to(predicate, self._store.schema.names)
        return BuiltScan(TableScan(self._store, predicate=own).plan)

    def new_read(self) -> BuiltRead:
        """Return the read of planned splits."""
        read = AuditRead(self._store, self._columns, self._all(), packed=self._packed)
        return BuiltRead(read, self._limit, self._nested)
