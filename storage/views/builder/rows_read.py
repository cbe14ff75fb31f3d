"""pypaimon's predicate builder, its explanation of a plan, and its read builder for system tables.

The explanation has figures under the names of pypaimon's `ReadBuilder.explain`. The rows of a system table are computed
when a scan is made.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from interbed.storage.base.errors import load_extra
from interbed.storage.base.predicate.expr import (
    And,
    Comparison,
    Contains,
    EndsWith,
    In,
    IsNotNull,
    IsNull,
    Like,
    Not,
    NotIn,
    Op,
    Or,
    Predicate,
    StartsWith,
    bind,
)
from interbed.storage.base.row.python_values import pandas_frame, python_rows
from interbed.storage.base.types.column_names import check_apart_without_case
from interbed.storage.base.types.data_type import DataField
from interbed.storage.meta.bucket_mode import bucket_mode
from interbed.storage.meta.file_store import FileStore
from interbed.storage.read.arrow_rows import ArrowRows, check_limit
from interbed.storage.scan.explain import explain_plan
from interbed.storage.scan.split import Plan, Split

if TYPE_CHECKING:
    import duckdb
    import pandas as pd


class PredicateBuilder:
    """Creates predicates; every method checks the column and the literals at once (FilterError)."""

    def __init__(self, fields: Sequence[DataField]) -> None:
        self._fields = tuple(fields)

    def equal(self, field: str, literal: object) -> Predicate:
        """Return the predicate `field = literal`."""
        return self._bound(Comparison(Op.EQ, field, literal))

    def not_equal(self, field: str, literal: object) -> Predicate:
        """Return the predicate `field <> literal`."""
        return self._bound(Comparison(Op.NE, field, literal))

    def less_than(self, field: str, literal: object) -> Predicate:
        """Return the predicate `field < literal`."""
        return self._bound(Comparison(Op.LT, field, literal))

    def less_or_equal(self, field: str, literal: object) -> Predicate:
        """Return the predicate `field <= literal`."""
        return self._bound(Comparison(Op.LE, field, literal))

    def greater_than(self, field: str, literal: object) -> Predicate:
        """Return the predicate `field > literal`."""
        return self._bound(Comparison(Op.GT, field, literal))

    def greater_or_equal(self, field: str, literal: object) -> Predicate:
        """Return the predicate `field >= literal`."""
        return self._bound(Comparison(Op.GE, field, literal))

    def is_null(self, field: str) -> Predicate:
        """Return the predicate `field IS NULL`."""
        return self._bound(IsNull(field))

    def is_not_null(self, field: str) -> Predicate:
        """Return the predicate `field IS NOT NULL`."""
        return self._bound(IsNotNull(field))

    def startswith(self, field: str, pattern_literal: str) -> Predicate:
        """Return a predicate: the field begins with the text."""
        return self._bound(StartsWith(field, pattern_literal))

    def endswith(self, field: str, pattern_literal: str) -> Predicate:
        """Return a predicate: the field ends with the text."""
        return self._bound(EndsWith(field, pattern_literal))

    def contains(self, field: str, pattern_literal: str) -> Predicate:
        """Return a predicate: the field contains the text."""
        return self._bound(Contains(field, pattern_literal))

    def like(self, field: str, pattern_literal: str) -> Predicate:
        """Return the predicate `field LIKE pattern`."""
        return self._bound(Like(field, pattern_literal))

    def is_in(self, field: str, literals: Sequence[object]) -> Predicate:
        """Return the predicate `field IN (literals)`."""
        return self._bound(In(field, tuple(literals)))

    def is_not_in(self, field: str, literals: Sequence[object]) -> Predicate:
        """Return the predicate `field NOT IN (literals)`."""
        return self._bound(NotIn(field, tuple(literals)))

    def between(self, field: str, included_lower_bound: object, included_upper_bound: object) -> Predicate:
        """Return the predicate `field BETWEEN lower AND upper`."""
        low, high = Comparison(Op.GE, field, included_lower_bound), Comparison(Op.LE, field, included_upper_bound)
        return self._bound(And((low, high)))

    def not_between(self, field: str, included_lower_bound: object, included_upper_bound: object) -> Predicate:
        """Return the predicate `field NOT BETWEEN lower AND upper`."""
        return Not(self.between(field, included_lower_bound, included_upper_bound))

    @staticmethod
    def and_predicates(predicates: Sequence[Predicate]) -> Predicate | None:
        """Return the conjunction of predicates; None for an empty list."""
        return (And(tuple(predicates)) if len(predicates) > 1 else predicates[0]) if predicates else None

    @staticmethod
    def or_predicates(predicates: Sequence[Predicate]) -> Predicate | None:
        """Return the disjunction of predicates; None for an empty list, which selects all rows, as in pypaimon."""
        return (Or(tuple(predicates)) if len(predicates) > 1 else predicates[0]) if predicates else None

    def _bound(self, predicate: Predicate) -> Predicate:
        return bind(predicate, self._fields)


class RowsSource(Protocol):
    """A table whose rows are computed on demand."""

    @property
    def fields(self) -> list[DataField]:
        """The columns of the table."""
        ...

    def scan(
        self,
        columns: Sequence[str] | None = None,
        filter: str | Predicate | None = None,  # noqa: A002 - the field's word for it
        limit: int | None = None,
    ) -> ArrowRows:
        """Return a query of the table."""
        ...


@dataclass(frozen=True, slots=True)
class RowsSplit:
    """The rows of a system table, filtered and limited, as a split."""

    rows: pa.Table

    @property
    def row_count(self) -> int:
        """The number of rows in the split."""
        return self.rows.num_rows

    def arrow_table(self) -> pa.Table:
        """Return the rows as an Arrow table."""
        return self.rows


@dataclass(frozen=True, slots=True)
class RowsPlan:
    """The rows of the table at the time of planning."""

    rows: pa.Table

    def splits(self) -> list[RowsSplit]:
        """Return the only split of the plan."""
        return [RowsSplit(self.rows)]


class RowsReadBuilder:
    """Builder of a read of a system table; every `with_…` returns the builder itself, as in pypaimon."""

    def __init__(self, table: RowsSource) -> None:
        self._table = table
        self._predicate: Predicate | None = None
        self._columns: tuple[str, ...] | None = None
        self._limit: int | None = None

    def with_filter(self, predicate: Predicate | None) -> "RowsReadBuilder":
        """Read only rows that the predicate selects, all for None; see `new_predicate_builder`."""
        self._predicate = None if predicate is None else bind(predicate, self._table.fields)
        return self

    def with_projection(self, projection: Sequence[str] | None) -> "RowsReadBuilder":
        """Read only these columns, in this order; all for None. Raises InvalidInputError for an unknown column."""
        # The query checks the names.
        self._table.scan(projection)
        self._columns = None if projection is None else tuple(projection)
        return self

    def with_limit(self, limit: int | None) -> "RowsReadBuilder":
        """Read at most this many rows, all for None."""
        check_limit(limit)
        self._limit = limit
        return self

    def new_predicate_builder(self) -> PredicateBuilder:
        """Return a builder of predicates over the table's columns."""
        return PredicateBuilder(self._table.fields)

    def read_type(self) -> list[DataField]:
        """Return the columns that will be read."""
        fields = {field.name: field for field in self._table.fields}
        return [fields[name] for name in (fields if self._columns is None else self._columns)]

    def new_scan(self) -> "RowsScan":
        """Return the scan, which plans the read."""
        return RowsScan(self._table.scan(self._columns, self._predicate, self._limit))

    def new_read(self) -> "BuiltRowsRead":
        """Return the read of planned splits."""
        return BuiltRowsRead(self._table.scan(self._columns, limit=0).to_arrow().schema)


@dataclass(frozen=True, slots=True)
class RowsScan:
    """pypaimon's scan of a system table."""

    query: ArrowRows

    def plan(self) -> RowsPlan:
        """Return the rows of the table now."""
        return RowsPlan(self.query.to_arrow())


@dataclass(frozen=True, slots=True)
class BuiltRowsRead:
    """pypaimon's read of a system table."""

    schema: pa.Schema

    def to_arrow(self, splits: Sequence[RowsSplit], **_: object) -> pa.Table:
        """Return the rows of the splits as one Arrow table."""
        return pa.concat_tables([pa.Table.from_batches([], self.schema), *(split.rows for split in splits)])

    def to_arrow_batch_reader(self, splits: Sequence[RowsSplit]) -> pa.RecordBatchReader:
        """Return the rows of the splits as a stream of batches."""
        return self.to_arrow(splits).to_reader()

    def to_pandas(self, splits: Sequence[RowsSplit], **_: object) -> "pd.DataFrame":
        """Return the rows of the splits as a pandas data frame."""
        load_extra("pandas", needed_by="to_pandas")
        return pandas_frame(self.to_arrow(splits))

    def to_duckdb(
        self, splits: Sequence[RowsSplit], table_name: str, connection: Any = None
    ) -> "duckdb.DuckDBPyConnection":
        """Return a DuckDB connection in which the rows of the splits are a view of that name."""
        library = load_extra("duckdb", needed_by="to_duckdb")
        target: duckdb.DuckDBPyConnection = connection or library.connect(database=":memory:")
        check_apart_without_case(self.schema, "the table")
        target.register(table_name, self.to_arrow(splits))
        return target

    def to_iterator(self, splits: Sequence[RowsSplit]) -> Iterator[dict[str, Any]]:
        """Yield the rows of the splits one by one, by column name, as in pypaimon."""
        yield from python_rows(self.to_arrow(splits))


@dataclass(frozen=True, slots=True)
class PruningStat:
    """The number of files before and after a step of pruning."""

    before: int
    after: int

    @property
    def pruned(self) -> int:
        """The number of files that the step removed."""
        return self.before - self.after


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainSplitInfo:
    """One split of an explained plan; sizes in bytes."""

    partition: Mapping[str, str]
    bucket: int
    file_count: int
    row_count: int
    merged_row_count: int | None
    file_size: int
    raw_convertible: bool
    has_deletion_vectors: bool
    level_histogram: Mapping[int, int]
    deletion_file_count: int
    file_paths: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainResult:
    """The explanation of a read, which `str` renders. Inapplicable steps of pruning are None. Sizes in bytes."""

    table_identifier: str
    is_primary_key_table: bool
    bucket_mode: str
    deletion_vectors_enabled: bool
    snapshot_id: int | None
    schema_id: int | None
    predicate: str | None
    projection: Sequence[str] | None
    limit: int | None
    partition_pruning: PruningStat | None
    bucket_pruning: PruningStat | None
    file_skipping: PruningStat | None
    file_count: int
    total_file_size: int
    estimated_row_count: int
    estimated_merged_row_count: int | None
    deletion_file_count: int
    level_histogram: Mapping[int, int]
    split_count: int
    splits_raw_convertible: int
    splits_with_deletion_vectors: int
    splits_all_above_l0: int
    files_per_split_min: int
    files_per_split_max: int
    files_per_split_avg: float
    split_size_min: int
    split_size_max: int
    split_size_avg: float
    data_evolution_enabled: bool = False
    splits: Sequence[ExplainSplitInfo] | None = None
    text: str = field(default="", repr=False)

    def __str__(self) -> str:
        return self.text


def explained(
    store: FileStore,
    name: str,
    plan: Plan,
    *,
    predicate: Predicate | None,
    projection: Sequence[str] | None,
    limit: int | None,
    verbose: bool,
) -> ExplainResult:
    """Return the plan in figures, with every split if `verbose`."""
    splits, statistics = plan.splits, plan.statistics
    files = [len(split.files) for split in splits] or [0]
    sizes = [split.byte_size for split in splits] or [0]
    merged = [split.merged_row_count() for split in splits]
    filtered = predicate is not None
    after_partitions, after_buckets = statistics.files_after_partitions, statistics.files_after_buckets
    return ExplainResult(
        table_identifier=name,
        is_primary_key_table=store.schema.has_primary_key,
        bucket_mode=bucket_mode(store.schema, store.options).name,
        deletion_vectors_enabled=store.options.deletion_vectors_enabled,
        snapshot_id=plan.snapshot_id,
        schema_id=None if plan.snapshot_id is None else store.schema.id,
        predicate=None if predicate is None else str(predicate),
        projection=None if projection is None else list(projection),
        limit=limit,
        partition_pruning=(
            PruningStat(statistics.files_total, after_partitions) if filtered and store.schema.partition_keys else None
        ),
        bucket_pruning=PruningStat(after_partitions, after_buckets) if filtered and _has_buckets(store) else None,
        file_skipping=PruningStat(after_buckets, statistics.files_after_indexes) if filtered else None,
        file_count=sum(len(split.files) for split in splits),
        total_file_size=sum(split.byte_size for split in splits),
        estimated_row_count=sum(split.row_count for split in splits),
        estimated_merged_row_count=None if None in merged else sum(rows or 0 for rows in merged),
        deletion_file_count=sum(len(split.deletion_files) for split in splits),
        level_histogram=dict(Counter(file.level for split in splits for file in split.files)),
        split_count=len(splits),
        splits_raw_convertible=sum(split.raw_convertible for split in splits),
        splits_with_deletion_vectors=sum(bool(split.deletion_files) for split in splits),
        splits_all_above_l0=sum(all(file.level > 0 for file in split.files) for split in splits),
        files_per_split_min=min(files),
        files_per_split_max=max(files),
        files_per_split_avg=sum(files) / len(files),
        split_size_min=min(sizes),
        split_size_max=max(sizes),
        split_size_avg=sum(sizes) / len(sizes),
        splits=[_split(store, split) for split in splits] if verbose else None,
        text=str(explain_plan(name, plan)),
    )


def _has_buckets(store: FileStore) -> bool:
    return store.options.bucket > 0


def _split(store: FileStore, split: Split) -> ExplainSplitInfo:
    return ExplainSplitInfo(
        partition=store.paths.partition_spec(split.partition),
        bucket=split.bucket,
        file_count=len(split.files),
        row_count=split.row_count,
        merged_row_count=split.merged_row_count(),
        file_size=split.byte_size,
        raw_convertible=split.raw_convertible,
        has_deletion_vectors=bool(split.deletion_files),
        level_histogram=dict(Counter(file.level for file in split.files)),
        deletion_file_count=len(split.deletion_files),
        file_paths=split.file_paths,
    )
