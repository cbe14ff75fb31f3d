"""COUNT, MIN and MAX from metadata alone: manifests know how many rows files have, and statistics their bounds.

An answer is given only where it is exact, which takes files whose rows are the table's rows. Statistics are not exact
for text (they are cut off), for floating-point numbers (NaN) and for columns that were of another type in the file.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import groupby
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from interbed.storage.base.row.binary_row import decode_row, decode_rows
from interbed.storage.base.row.python_values import python_value
from interbed.storage.base.row.values import order_key
from interbed.storage.base.types.data_type import INTEGERS, TIMESTAMPS, AtomicType, DataField, DataType, TypeRoot
from interbed.storage.meta.manifest.data_file import DataFileMeta
from interbed.storage.meta.schema.table_schema import TableSchema
from interbed.storage.meta.store import TableStore
from interbed.storage.scan.split import Split

_EXACT_BOUNDS = INTEGERS | TIMESTAMPS | {TypeRoot.BOOLEAN, TypeRoot.DATE, TypeRoot.DECIMAL}
_EXACT_PARTITIONS = _EXACT_BOUNDS | {TypeRoot.VARCHAR}
_TIMESTAMP_PRECISION_MAX = 6
_TIMESTAMP_FORMAT = "parquet"
"""Other formats' statistics of timestamps are of milliseconds."""


class AggregateFunction(Enum):
    """What is asked of a column; COUNT_ROWS of none."""

    COUNT_ROWS = "COUNT_ROWS"
    COUNT = "COUNT"
    MIN = "MIN"
    MAX = "MAX"


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate:
    """A function of a column."""

    function: AggregateFunction
    column: str | None = None


class _UnknownError(Exception):
    """Metadata has no answer."""


def aggregated(
    store: TableStore, splits: Sequence[Split], aggregates: Sequence[Aggregate], group_by: Sequence[str] = ()
) -> list[tuple[object, ...]] | None:
    """A row for each group, of the group's values and those of the aggregates; None when metadata has no answer.

    The splits must hold exactly the rows that are meant. Without `group_by` there is one row. Dates and timestamps come
    as Python's values (interbed.storage.base.row.values). Only partition columns can be grouped by.
    """
    try:
        return _Answers(store, splits).rows(aggregates, group_by)
    except _UnknownError:
        return None


class _Answers:
    """The answers over some splits; methods raise _UnknownError."""

    def __init__(self, store: TableStore, splits: Sequence[Split]) -> None:
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
        for _, alike in groupby(files, lambda f: (f.schema_id, f.value_stats_cols)):
            group = list(alike)
            nulls = self._nulls(group, field)
            names, types = self._columns_with_statistics(group[0])
            stats = [f.value_stats for f in group]
            rows = [s.min_values if function is AggregateFunction.MIN else s.max_values for s in stats]
            column = decode_rows(rows, types)[self._position(group[0], field, names)]
            # Without a bound all values are null, or nothing is known of them.
            missing = column.is_null().to_pylist()
            if any(gone and count < file.row_count for gone, count, file in zip(missing, nulls, group, strict=True)):
                raise _UnknownError
            found.append(column)
        if not found:
            return None
        everything: Any = pa.concat_arrays(found)
        least_and_greatest = pc.min_max(everything)
        return python_value(least_and_greatest["min" if function is AggregateFunction.MIN else "max"])

    def _columns_with_statistics(self, file: DataFileMeta) -> tuple[list[str], list[DataType]]:
        written = self._written(file)
        names = list(written.names if file.value_stats_cols is None else file.value_stats_cols)
        if len(file.value_stats.null_counts) != len(names) or not all(n in written.by_name for n in names):
            raise _UnknownError
        return names, [written.by_name[n].type for n in names]

    def _position(self, file: DataFileMeta, field: DataField, names: Sequence[str]) -> int:
        """The place of the column among those with statistics; it must have been of the same type."""
        for position, name in enumerate(names):
            then = self._written(file).by_name[name]
            if then.id == field.id and then.type.with_nullable(True) == field.type.with_nullable(True):
                return position
        raise _UnknownError

    def _written(self, file: DataFileMeta) -> TableSchema:
        return self._store.schema_of(file.schema_id)


def _holds_rows(split: Split) -> bool:
    """Whether every record of the split's files is a row of the table but those that deletion vectors mark."""
    return (
        split.raw_convertible
        and not split.tells_changes
        and split.deleted_row_count is not None
        and split.branch is None
        and all(file.write_cols is None for file in split.files)
    )


def _count(splits: Sequence[Split]) -> int:
    return sum(split.row_count - (split.deleted_row_count or 0) for split in splits)


def _is_exact(data_type: DataType, roots: frozenset[TypeRoot]) -> bool:
    if not isinstance(data_type, AtomicType) or data_type.root not in roots:
        return False
    return data_type.root not in TIMESTAMPS or (data_type.precision or 0) <= _TIMESTAMP_PRECISION_MAX
