"""COUNT, MIN, MAX and the first rows of an order from metadata alone: row counts of files, and bounds of statistics.

An answer is given only where it is exact, which takes files whose rows are the table's rows. Statistics are not exact
for text (they are truncated), for floating-point numbers (NaN) and for columns that were of another type in the file.

For the `n` rows with the least values every file is needed whose least value is at most T, where T is such that files
with at least `n` rows hold no value above it. Java Paimon picks the `n` splits with the least bounds instead.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cmp_to_key
from itertools import groupby
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from interbed.storage.base.row.binary_row import decode_row, decode_rows
from interbed.storage.base.row.python_values import python_value
from interbed.storage.base.row.values import order_key
from interbed.storage.base.types.data_type import INTEGERS, TIMESTAMPS, AtomicType, DataField, DataType, TypeRoot
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.manifest.entry import DataFileMeta
from interbed.storage.meta.schema.system_fields import readable_by_name
from interbed.storage.meta.schema.table_schema import TableSchema
from interbed.storage.scan.split import Split

_EXACT_BOUNDS = INTEGERS | TIMESTAMPS | {TypeRoot.BOOLEAN, TypeRoot.DATE, TypeRoot.DECIMAL}
_EXACT_PARTITIONS = _EXACT_BOUNDS | {TypeRoot.VARCHAR}
_TIMESTAMP_PRECISION_MAX = 6
_TIMESTAMP_FORMAT = "parquet"
"""Other formats' statistics of timestamps have milliseconds."""


class AggregateFunction(Enum):
    """Aggregate function of a column; COUNT_ROWS has no column."""

    COUNT_ROWS = "COUNT_ROWS"
    COUNT = "COUNT"
    MIN = "MIN"
    MAX = "MAX"


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate:
    """Aggregate function with its column."""

    function: AggregateFunction
    column: str | None = None


class _UnknownError(Exception):
    """Error for a question that metadata can't answer."""


def aggregated(
    store: FileStore, splits: Sequence[Split], aggregates: Sequence[Aggregate], group_by: Sequence[str] = ()
) -> list[tuple[object, ...]] | None:
    """Return a row for each group, with the group's values and those of the aggregates; None without an answer.

    The splits must hold exactly the rows to aggregate. Without `group_by` there is one row. Dates and timestamps are
    Python values (interbed.storage.base.row.values). Only partition columns can be grouped by.
    """
    try:
        return _MetadataAnswers(store, splits).rows(aggregates, group_by)
    except _UnknownError:
        return None


class _MetadataAnswers:
    """Answers over some splits; methods raise _UnknownError."""

    def __init__(self, store: FileStore, splits: Sequence[Split]) -> None:
        self._store = store
        self._schema = store.schema
        self._partition_keys = {name: i for i, name in enumerate(store.schema.partition_keys)}
        if not all(_holds_rows(split) for split in splits):
            raise _UnknownError
        types = [field.type for field in store.schema.partition_fields]
        self._partitions = {p: decode_row(p, types) for p in {split.partition for split in splits}}
        self._splits = splits

    def rows(self, aggregates: Sequence[Aggregate], group_by: Sequence[str]) -> list[tuple[object, ...]]:
        if not group_by:
            return [tuple(self._value(a, self._splits) for a in aggregates)]
        for name in group_by:
            if name not in self._partition_keys or not _is_exact(self._schema.by_name[name].type, _EXACT_PARTITIONS):
                raise _UnknownError
        groups: dict[tuple[object, ...], list[Split]] = {}
        for split in self._splits:
            values = self._partitions[split.partition]
            groups.setdefault(tuple(values[self._partition_keys[name]] for name in group_by), []).append(split)
        return [
            (*group, *(self._value(a, splits) for a in aggregates))
            for group, splits in groups.items()
            if _count(splits)
        ]

    def _value(self, aggregate: Aggregate, splits: Sequence[Split]) -> object:
        if aggregate.function is AggregateFunction.COUNT_ROWS:
            return _count(splits)
        field = self._schema.by_name.get(aggregate.column or "")
        if field is None:
            raise _UnknownError
        if field.name in self._partition_keys:
            return self._of_partitions(aggregate.function, field, splits)
        if aggregate.function is AggregateFunction.COUNT and not field.type.nullable:
            return _count(splits)
        if any(split.deletion_files for split in splits):
            raise _UnknownError
        files = [file for split in splits for file in split.files]
        if aggregate.function is AggregateFunction.COUNT:
            return sum(f.row_count - n for f, n in zip(files, self._nulls(files, field), strict=True))
        return self._bound(aggregate.function, field, files)

    def _of_partitions(self, function: AggregateFunction, field: DataField, splits: Sequence[Split]) -> object:
        index = self._partition_keys[field.name]
        known = [s for s in splits if self._partitions[s.partition][index] is not None]
        if function is AggregateFunction.COUNT:
            return _count(known)
        if not _is_exact(field.type, _EXACT_PARTITIONS):
            raise _UnknownError
        values: Any = {self._partitions[s.partition][index] for s in known if _count([s])}
        if not values:
            return None
        choose = min if function is AggregateFunction.MIN else max
        # Spark orders text by its bytes.
        return choose(values, key=lambda v: v.encode() if isinstance(v, str) else order_key(v, field.type))

    def _nulls(self, files: Sequence[DataFileMeta], field: DataField) -> list[int]:
        counts: list[int] = []
        for file in files:
            names, _ = self._columns_with_statistics(file)
            position = self._position(file, field, names)
            count = file.value_stats.null_counts[position]
            if count is None:
                raise _UnknownError
            counts.append(count)
        return counts

    def _bound(self, function: AggregateFunction, field: DataField, files: Sequence[DataFileMeta]) -> object:
        if not _is_exact(field.type, _EXACT_BOUNDS):
            raise _UnknownError
        if field.type.root in TIMESTAMPS and any(f.format != _TIMESTAMP_FORMAT for f in files):  # type: ignore[attr-defined]
            raise _UnknownError
        found: list[Any] = []
        for _, alike in groupby(files, lambda f: (f.schema_id, f.value_stats_cols, f.write_cols)):
            group = list(alike)
            nulls = self._nulls(group, field)
            names, types = self._columns_with_statistics(group[0])
            stats = [f.value_stats for f in group]
            rows = [s.min_values if function is AggregateFunction.MIN else s.max_values for s in stats]
            column = decode_rows(rows, types)[self._position(group[0], field, names)]
            # Without a bound all values are null, or the bound is unknown.
            missing = column.is_null().to_pylist()
            if any(
                is_missing and count < file.row_count
                for is_missing, count, file in zip(missing, nulls, group, strict=True)
            ):
                raise _UnknownError
            found.append(column)
        if not found:
            return None
        everything: Any = pa.concat_arrays(found)
        least_and_greatest = pc.min_max(everything)
        return python_value(least_and_greatest["min" if function is AggregateFunction.MIN else "max"])

    def _columns_with_statistics(self, file: DataFileMeta) -> tuple[list[str], list[DataType]]:
        written = self._written(file)
        names, known = list(file.stats_names(written.names)), readable_by_name(written)
        if len(file.value_stats.null_counts) != len(names) or not all(n in known for n in names):
            raise _UnknownError
        return names, [known[n].type for n in names]

    def _position(self, file: DataFileMeta, field: DataField, names: Sequence[str]) -> int:
        """Return the position of the column among those with statistics; it must have been of the same type."""
        for position, name in enumerate(names):
            then = readable_by_name(self._written(file))[name]
            if then.id == field.id and then.type.with_nullable(True) == field.type.with_nullable(True):
                return position
        raise _UnknownError

    def _written(self, file: DataFileMeta) -> TableSchema:
        return self._store.schema_of(file.schema_id)


def _holds_rows(split: Split) -> bool:
    """Return whether the records of the split's files are the table's rows, apart from deleted ones."""
    return (
        split.raw_convertible
        and not split.has_changes
        and split.deleted_row_count is not None
        and split.branch is None
        and not any(file.lacks_columns for file in split.files)
    )


def _count(splits: Sequence[Split]) -> int:
    return sum(split.row_count - (split.deleted_row_count or 0) for split in splits)


def _is_exact(data_type: DataType, roots: frozenset[TypeRoot]) -> bool:
    if not isinstance(data_type, AtomicType) or data_type.root not in roots:
        return False
    return data_type.root not in TIMESTAMPS or (data_type.precision or 0) <= _TIMESTAMP_PRECISION_MAX


FILES_MAX = 10_000
"""Greatest number of files to compare: with more of them comparing takes longer than it saves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Top:
    """First `count` rows in the order of a column."""

    column: str
    count: int
    descending: bool = False
    nulls_first: bool = False


@dataclass(frozen=True, slots=True)
class _FileBounds:
    """File with known values: the first and the last of them in the order asked for, and their number."""

    first: Any
    last: Any
    values: int
    nulls: int


def splits_of_top(store: FileStore, splits: Sequence[Split], top: Top) -> tuple[Split, ...]:
    """Return the splits with only those files that may hold rows of the top n.

    The splits must not be filtered any further. Files without exact metadata stay: files that are merged or have
    deletion vectors, columns of other types than integers, decimals, dates and timestamps.
    """
    if sum(len(split.files) for split in splits) > FILES_MAX:
        return tuple(splits)
    # A loop over files is fine: there are few of them in comparison with rows.
    known = [[_bounds_of(store, _alone(split, file), top) for file in split.files] for split in splits]
    top_range = _TopRange.of((k for found in known for k in found if k is not None), top)
    kept = (
        [f for f, k in zip(split.files, found, strict=True) if k is None or top_range.includes(k)]
        for split, found in zip(splits, known, strict=True)
    )
    return tuple(_with_files(split, files) for split, files in zip(splits, kept, strict=True) if files)


def _alone(split: Split, file: DataFileMeta) -> Split:
    return replace(split, files=(file,), deletion_files=_deletions(split, [file]))


def _with_files(split: Split, files: Sequence[DataFileMeta]) -> Split:
    if len(files) == len(split.files):
        return split
    return replace(split, files=tuple(files), deletion_files=_deletions(split, files))


def _deletions(split: Split, files: Iterable[DataFileMeta]) -> dict[str, Any]:
    return {f.file_name: split.deletion_files[f.file_name] for f in files if f.file_name in split.deletion_files}


def _bounds_of(store: FileStore, split: Split, top: Top) -> _FileBounds | None:
    functions = (AggregateFunction.MIN, AggregateFunction.MAX, AggregateFunction.COUNT)
    asked = [Aggregate(function=f, column=top.column) for f in functions]
    rows = aggregated(store, [split], [*asked, Aggregate(function=AggregateFunction.COUNT_ROWS)])
    if rows is None:
        return None
    least, greatest, values, count = (v for v in rows[0])
    first, last = (greatest, least) if top.descending else (least, greatest)
    return _FileBounds(first, last, int(str(values)), int(str(count)) - int(str(values)))


@dataclass(frozen=True, slots=True)
class _TopRange:
    """Range of the top n: whether it includes nulls and values, and, where it is `bounded`, up to which value."""

    top: Top
    nulls: bool
    values: bool
    bounded: bool
    last: Any = None

    @staticmethod
    def of(files: Iterable[_FileBounds], top: Top) -> "_TopRange":
        found = list(files)
        nulls = sum(f.nulls for f in found)
        if top.nulls_first and nulls >= top.count:
            return _TopRange(top, nulls=True, values=False, bounded=True)
        count = 0
        in_order = cmp_to_key(lambda a, b: _compare(a, b, top))
        for file in sorted((f for f in found if f.values), key=lambda f: in_order(f.last)):
            count += file.values
            if count >= top.count:
                return _TopRange(top, nulls=top.nulls_first, values=True, bounded=True, last=file.last)
        return _TopRange(top, nulls=True, values=True, bounded=False)

    def includes(self, file: _FileBounds) -> bool:
        if self.nulls and file.nulls:
            return True
        return bool(
            self.values and file.values and (not self.bounded or _compare(file.first, self.last, self.top) <= 0)
        )


def _compare(left: Any, right: Any, top: Top) -> int:
    # Spark orders text by its bytes.
    a, b = (v.encode() if isinstance(v, str) else v for v in (left, right))
    return 0 if a == b else (-1 if (a < b) != top.descending else 1)
