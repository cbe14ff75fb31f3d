"""Estimates of a scan's rows, their size in memory, and the values of its columns: for optimizers.

Sources are the plan, the statistics of ANALYZE, and, when asked for, those of the planned files. Nothing here is exact;
`scan.aggregates` is.

Statistics of a table that ANALYZE has left with a snapshot: `statistics/stat-…`, by interbed or Java Paimon.
"""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from itertools import groupby
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from interbed.storage.base.decoding import MemberType, read_object
from interbed.storage.base.errors import CorruptFileError, InvalidInputError, plain_errors
from interbed.storage.base.row.binary_row import decode_row, decode_rows
from interbed.storage.base.row.python_values import python_value
from interbed.storage.base.row.values import order_key, parse_text
from interbed.storage.base.types.data_type import ArrayType, AtomicType, DataField, DataType, MapType, RowType, TypeRoot
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.manifest.entry import DataFileMeta
from interbed.storage.meta.schema.system_fields import readable_by_name
from interbed.storage.meta.schema.table_schema import TableSchema
from interbed.storage.meta.snapshot.snapshot import Snapshot
from interbed.storage.scan.split import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class TableColumnStatistics:
    """Statistics of a column. `least` and `greatest` are the column's Python values, lengths in characters or bytes.

    `distinct` is an estimate, within about 1 %.
    """

    column_id: int
    distinct: int
    nulls: int
    least: object = None
    greatest: object = None
    average_length: int
    maximal_length: int


@plain_errors
@dataclass(frozen=True, slots=True, kw_only=True)
class TableStatistics:
    """Rows and bytes of a table as of a snapshot, and the analysed columns."""

    snapshot_id: int
    schema_id: int
    row_count: int
    byte_size: int
    columns: dict[str, TableColumnStatistics]


_MEMBERS: Mapping[str, MemberType] = {
    "snapshotId": int,
    "schemaId": int,
    "mergedRecordCount": int,
    "mergedRecordSize": int,
    "colStats": dict,
}


def read_statistics(store: FileStore, snapshot: Snapshot) -> TableStatistics | None:
    """Return the statistics of the table as of a snapshot, by current column names; None if it was never analysed.

    Columns that were dropped or are of another type are left out. Raises CorruptFileError.
    """
    if snapshot.statistics is None:
        return None
    path = store.paths.statistics(snapshot.statistics)
    try:
        value = read_object(store.file_io.read_bytes(path), _MEMBERS, source=path, what="a file of statistics")
        schema_id = int(value["schemaId"])
        then = store.schema_of(schema_id)
        return TableStatistics(
            snapshot_id=int(value["snapshotId"]),
            schema_id=schema_id,
            row_count=int(value.get("mergedRecordCount") or 0),
            byte_size=int(value.get("mergedRecordSize") or 0),
            columns=_columns(value.get("colStats") or {}, then, store.schema),
        )
    except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError, FileNotFoundError) as error:
        raise CorruptFileError(f"{path} does not hold statistics: {error}") from error


def _columns(given: Mapping[str, Any], then: TableSchema, now: TableSchema) -> dict[str, TableColumnStatistics]:
    ids = {field.id: field for field in then.fields}
    found: dict[str, TableColumnStatistics] = {}
    for value in given.values():
        field = ids.get(int(value["colId"]))
        current = next((f for f in now.fields if field is not None and f.id == field.id), None)
        if field is None or current is None or current.type.with_nullable(True) != field.type.with_nullable(True):
            continue
        found[current.name] = TableColumnStatistics(
            column_id=field.id,
            distinct=int(value.get("distinctCount") or 0),
            nulls=int(value.get("nullCount") or 0),
            least=_value(value.get("min"), field),
            greatest=_value(value.get("max"), field),
            average_length=int(value.get("avgLen") or 0),
            maximal_length=int(value.get("maxLen") or 0),
        )
    return found


def _value(text: str | None, field: DataField) -> object:
    """Return a bound from the text that Java's serializers write; None if it can't be read."""
    if text is None:
        return None
    with contextlib.suppress(InvalidInputError):
        return parse_text(text, field.type)
    return None


_ROW_OVERHEAD = 8
_WIDTHS = {
    TypeRoot.BOOLEAN: 1,
    TypeRoot.TINYINT: 1,
    TypeRoot.SMALLINT: 2,
    TypeRoot.INT: 4,
    TypeRoot.FLOAT: 4,
    TypeRoot.DATE: 4,
    TypeRoot.CHAR: 20,
    TypeRoot.VARCHAR: 20,
    TypeRoot.BINARY: 100,
    TypeRoot.VARBINARY: 100,
}
_OF_ANY_LENGTH = frozenset({TypeRoot.CHAR, TypeRoot.VARCHAR, TypeRoot.BINARY, TypeRoot.VARBINARY})


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnEstimate:
    """Estimate of a column: the number of distinct values and nulls, and bounds. None where unknown.

    Lengths are those in memory: bytes, or characters of text.
    """

    distinct: int | None = None
    nulls: int | None = None
    least: object = None
    greatest: object = None
    average_length: int | None = None
    maximal_length: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanEstimate:
    """Rows, their bytes in memory, and estimates of the columns by name."""

    row_count: int
    byte_size: int
    columns: Mapping[str, ColumnEstimate]


def estimate_scan(
    store: FileStore,
    plan: Plan,
    columns: Sequence[DataField],
    *,
    snapshot: Snapshot | None,
    statistics: TableStatistics | None,
    limit: int | None = None,
    files_too: bool = False,
) -> ScanEstimate:
    """Return the estimate for a plan that reads `columns`.

    The estimate ignores filters that the plan has not applied. `statistics` are of the table as of `snapshot`, None
    without them. `files_too` also uses the planned files' statistics, which have bounds and nulls, and narrow the
    bounds of ANALYZE to the pruned files.
    """
    planned = sum(split.row_count - (split.deleted_row_count or 0) for split in plan.splits)
    stored = sum(file.file_size for split in plan.splits for file in split.files)
    known: dict[str, ColumnEstimate] = {}
    if statistics is not None:
        known |= {name: _analyzed(found) for name, found in statistics.columns.items()}
    if files_too and all(split.branch is None for split in plan.splits):
        for name, found in _of_files(store, [file for split in plan.splits for file in split.files], planned).items():
            known[name] = found if name not in known else _narrowed(known[name], found)
    known |= _of_partitions(store, plan, planned)
    rows = round(planned * _merged_part(store, statistics))
    if limit is not None:
        rows = min(rows, limit)
    total = planned if snapshot is None else snapshot.total_record_count
    fitting = {f.name: _scaled(known[f.name], rows, total) for f in columns if f.name in known}
    return ScanEstimate(
        row_count=rows, byte_size=_bytes(store, columns, fitting, rows, stored, planned), columns=fitting
    )


def _analyzed(found: TableColumnStatistics) -> ColumnEstimate:
    return ColumnEstimate(
        distinct=found.distinct,
        nulls=found.nulls,
        least=found.least,
        greatest=found.greatest,
        average_length=found.average_length,
        maximal_length=found.maximal_length,
    )


def _narrowed(whole: ColumnEstimate, part: ColumnEstimate) -> ColumnEstimate:
    """Return the estimate of a column of the whole table, within the bounds of the planned files."""
    if part.least is None or part.greatest is None or whole.least is None or whole.greatest is None:
        return whole
    lows: list[Any] = [whole.least, part.least]
    highs: list[Any] = [whole.greatest, part.greatest]
    # Files may have bounds of deleted rows, and ANALYZE lacks rows that were added later.
    least, greatest = max(lows), min(highs)
    if least > greatest:
        return replace(part, average_length=whole.average_length, maximal_length=whole.maximal_length)
    counts = [count for count in (whole.distinct, _values_between(least, greatest)) if count is not None]
    return replace(whole, least=least, greatest=greatest, distinct=min(counts, default=None))


def _values_between(least: Any, greatest: Any) -> int | None:
    """Return the number of possible values within bounds; None where it can't be counted."""
    if isinstance(least, int) and isinstance(greatest, int):
        return greatest - least + 1
    if type(least) is date and type(greatest) is date:
        return (greatest - least).days + 1
    return None


def _merged_part(store: FileStore, statistics: TableStatistics | None) -> float:
    """Return the number of rows for each record of the files, as ANALYZE counted.

    It is less than one where keys are updated.
    """
    if statistics is None or not store.schema.has_primary_key or not store.snapshots.exists(statistics.snapshot_id):
        return 1.0
    total = store.snapshots.snapshot(statistics.snapshot_id).total_record_count
    return min(1.0, statistics.row_count / total) if total else 1.0


def _scaled(known: ColumnEstimate, rows: int, total: int) -> ColumnEstimate:
    """Return the estimate for fewer rows: at most as many distinct values as rows, and the table's share of nulls."""
    return replace(
        known,
        distinct=None if known.distinct is None else min(known.distinct, rows),
        nulls=None if known.nulls is None else min(rows, round(known.nulls * rows / total) if total else 0),
    )


def _of_partitions(store: FileStore, plan: Plan, rows: int) -> dict[str, ColumnEstimate]:
    """Return the estimates of partition columns, which the plan knows exactly."""
    counts: dict[bytes, int] = {}
    for split in plan.splits:
        counts[split.partition] = counts.get(split.partition, 0) + split.row_count
    found = {}
    decoded = [(decode_row(partition, store.schema.partition_types), count) for partition, count in counts.items()]
    for index, field in enumerate(store.schema.partition_fields):
        values = {row[index] for row, _ in decoded}
        present: list[Any] = [value for value in values if value is not None]
        bounded = present and isinstance(field.type, AtomicType) and field.type.root not in _OF_ANY_LENGTH
        found[field.name] = ColumnEstimate(
            distinct=len(present),
            nulls=min(rows, sum(count for row, count in decoded if row[index] is None)),
            least=min(present, key=partial(order_key, data_type=field.type)) if bounded else None,
            greatest=max(present, key=partial(order_key, data_type=field.type)) if bounded else None,
        )
    return found


def _of_files(store: FileStore, files: Sequence[DataFileMeta], rows: int) -> dict[str, ColumnEstimate]:
    """Return nulls and bounds by the files' statistics; a column is left out when one file lacks them."""
    found: dict[str, list[ColumnEstimate]] = {}
    groups = 0
    ordered = sorted(files, key=lambda f: (f.schema_id, f.value_stats_cols or (), f.write_cols or ()))
    for _, alike in groupby(ordered, key=lambda f: (f.schema_id, f.value_stats_cols, f.write_cols)):
        groups += 1
        for name, known in _of_alike_files(store, list(alike)).items():
            found.setdefault(name, []).append(known)
    columns = {}
    for name, parts in found.items():
        if len(parts) == groups:
            lows: list[Any] = [part.least for part in parts if part.least is not None]
            highs: list[Any] = [part.greatest for part in parts if part.greatest is not None]
            least, greatest = min(lows, default=None), max(highs, default=None)
            possible_values = _values_between(least, greatest)
            columns[name] = ColumnEstimate(
                # Where there are more rows than possible values, nearly all of these occur.
                distinct=possible_values if possible_values is not None and possible_values <= rows else None,
                nulls=sum(part.nulls or 0 for part in parts),
                least=least,
                greatest=greatest,
            )
    if store.schema.has_primary_key and len(store.schema.primary_keys) == 1:
        name = store.schema.primary_keys[0]
        columns[name] = replace(columns.get(name, ColumnEstimate(nulls=0)), distinct=rows)
    return columns


def _of_alike_files(store: FileStore, files: Sequence[DataFileMeta]) -> dict[str, ColumnEstimate]:
    own = store.schema
    then = store.schema_of(files[0].schema_id)
    names, known = files[0].stats_names(then.names), readable_by_name(then)
    stats = [file.value_stats for file in files]
    if any(len(s.null_counts) != len(names) for s in stats) or not all(name in known for name in names):
        return {}
    types = [known[name].type for name in names]
    try:
        lows = decode_rows([s.min_values for s in stats], types)
        highs = decode_rows([s.max_values for s in stats], types)
    except CorruptFileError:
        return {}
    today = {field.id: field for field in own.fields}
    found = {}
    for index, name in enumerate(names):
        field = known[name]
        current = today.get(field.id)
        if current is None or current.type.with_nullable(True) != field.type.with_nullable(True):
            continue
        nulls = [s.null_counts[index] for s in stats]
        if any(count is None for count in nulls):
            continue
        bounded = isinstance(field.type, AtomicType) and field.type.root not in _OF_ANY_LENGTH
        found[current.name] = ColumnEstimate(
            nulls=sum(count for count in nulls if count is not None),
            least=_extreme(lows[index], "min") if bounded else None,
            greatest=_extreme(highs[index], "max") if bounded else None,
        )
    return found


def _extreme(values: "pa.Array[Any]", which: str) -> object:
    bounds: Any = pc.min_max(values)
    return python_value(bounds[which])


def _bytes(
    store: FileStore,
    columns: Sequence[DataField],
    known: Mapping[str, ColumnEstimate],
    rows: int,
    stored: int,
    planned: int,
) -> int:
    """Return the size of the rows in memory.

    Without known lengths of texts it is at least the columns' share of the files.
    """
    by_rows = rows * (_ROW_OVERHEAD + sum(_width_of(field, known.get(field.name)) for field in columns))
    if all((f.name in known and known[f.name].average_length) or not _is_of_any_length(f.type) for f in columns):
        return max(by_rows, rows)
    whole = sum(_width(field.type) for field in store.schema.fields)
    part = sum(_width(field.type) for field in columns) / whole if whole else 1.0
    return max(by_rows, round(stored * min(1.0, part) * (rows / planned if planned else 1.0)))


def _width_of(field: DataField, known: ColumnEstimate | None) -> int:
    return known.average_length if known is not None and known.average_length else _width(field.type)


def _width(data_type: DataType) -> int:
    """Return the size in bytes that Spark assumes for a value of which nothing is known."""
    match data_type:
        case AtomicType(root=TypeRoot.DECIMAL):
            return 8 if (data_type.precision or 0) <= 18 else 16
        case AtomicType():
            return _WIDTHS.get(data_type.root, 8)
        case ArrayType():
            return _width(data_type.element)
        case MapType():
            return _width(data_type.key) + _width(data_type.value)
        case RowType():
            return sum(_width(field.type) for field in data_type.fields)
    return 8


def _is_of_any_length(data_type: DataType) -> bool:
    return not isinstance(data_type, AtomicType) or data_type.root in _OF_ANY_LENGTH
