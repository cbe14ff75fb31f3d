"""A data file of the table as an entry of a manifest: its path, its partition, and statistics of its columns.

Bounds are in the type that the file's column had when it was written; readers promote them. Columns of nanoseconds have
none, since readers of version 2 of the format would take them for microseconds, and nested ones have none.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time
from typing import Any

from pyiceberg.conversions import to_bytes
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestEntry, ManifestEntryStatus
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.types import PrimitiveType, TimestampNanoType, TimestamptzNanoType
from pyiceberg.utils.datetime import date_to_days, datetime_to_micros, time_to_micros

from interbed.iceberg.meta.new_manifests import NEWEST_VERSION
from interbed.iceberg.publish.columns import iceberg_schema
from interbed.storage.base.row.binary_row import decode_row
from interbed.storage.base.types.data_type import DataField, DataType
from interbed.storage.meta.manifest.entry import DataFileMeta
from interbed.storage.meta.schema.table_schema import TableSchema


@dataclass(frozen=True, slots=True, kw_only=True)
class FileColumnMetrics:
    """What is known of the columns of a file, by their ids."""

    values: dict[int, int] = field(default_factory=dict)
    nulls: dict[int, int] = field(default_factory=dict)
    lower: dict[int, bytes] = field(default_factory=dict)
    upper: dict[int, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FileSchema:
    """A schema by which files were written, in both forms."""

    table: TableSchema
    iceberg: Schema

    @staticmethod
    def of(schema: TableSchema) -> "FileSchema":
        """A schema of the table; raises as iceberg_schema does."""
        return FileSchema(schema, iceberg_schema(schema))


def added_entry(
    file: DataFileMeta, path: str, partition: Record, written_by: FileSchema, snapshot_id: int
) -> ManifestEntry:
    """The entry of a file that a snapshot added."""
    known = column_statistics(file, written_by)
    made = DataFile.from_args(
        _table_format_version=NEWEST_VERSION,
        content=DataFileContent.DATA,
        file_path=path,
        file_format=FileFormat(file.format.upper()),
        partition=partition,
        record_count=file.row_count,
        file_size_in_bytes=file.file_size,
        value_counts=known.values,
        null_value_counts=known.nulls,
        lower_bounds=known.lower,
        upper_bounds=known.upper,
    )
    return new_entry(made, snapshot_id)


def new_entry(file: DataFile, snapshot_id: int) -> ManifestEntry:
    """The entry of a file that a snapshot added; its sequence numbers stand in it, as Paimon reads them there."""
    return ManifestEntry.from_args(
        _table_format_version=NEWEST_VERSION,
        status=ManifestEntryStatus.ADDED,
        snapshot_id=snapshot_id,
        sequence_number=snapshot_id,
        file_sequence_number=snapshot_id,
        data_file=file,
    )


def partition_record(partition: bytes, types: Sequence[DataType]) -> Record:
    """The values of a partition, as manifests have them."""
    return Record(*(_plain(value) for value in decode_row(partition, types)))


def column_statistics(file: DataFileMeta, written_by: FileSchema) -> FileColumnMetrics:
    """The statistics that the file's metadata have, as Iceberg's."""
    schema = written_by.table
    names = file.value_stats_cols if file.value_stats_cols is not None else file.write_cols or schema.names
    stats = file.value_stats
    if len(stats.null_counts) != len(names):
        return FileColumnMetrics()
    fields = [schema.by_name[name] for name in names]
    least, greatest = _row(stats.min_values, fields), _row(stats.max_values, fields)
    found = FileColumnMetrics()
    for column, nulls, low, high in zip(fields, stats.null_counts, least, greatest, strict=True):
        kind = written_by.iceberg.find_type(column.id)
        if not isinstance(kind, PrimitiveType):
            continue
        if nulls is not None:
            found.values[column.id] = file.row_count
            found.nulls[column.id] = nulls
        if _is_bound(low) and _is_bound(high) and not isinstance(kind, TimestampNanoType | TimestamptzNanoType):
            found.lower[column.id] = to_bytes(kind, low)
            found.upper[column.id] = to_bytes(kind, high)
    return found


def _row(row: bytes, fields: Sequence[DataField]) -> tuple[Any, ...]:
    return decode_row(row, [column.type.with_nullable(True) for column in fields])


def _is_bound(value: object) -> bool:
    return value is not None and not (isinstance(value, float) and math.isnan(value))


def _plain(value: Any) -> Any:
    match value:
        case datetime():
            return datetime_to_micros(value)
        case date():
            return date_to_days(value)
        case time():
            return time_to_micros(value)
    return value
