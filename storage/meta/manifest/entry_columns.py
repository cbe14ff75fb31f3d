"""The entries of manifests from the columns of Parquet and ORC files, column by column.

Fields that a file lacks, as those of older writers do, are as if they were null.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import pyarrow as pa

from interbed.storage.base.columnar.records import read_columns
from interbed.storage.meta.manifest.data_file import DataFileMeta, FileSource
from interbed.storage.meta.manifest.entry import FileKind, ManifestEntry
from interbed.storage.meta.manifest.stats import SimpleStats

T = TypeVar("T")
_MILLIS = pa.timestamp("ms")
_KINDS = {int(kind): kind for kind in FileKind}
_SOURCES: dict[int | None, FileSource | None] = {None: None, **{int(source): source for source in FileSource}}


def entries_of_columns(content: bytes, check_version: Callable[[int], None]) -> list[ManifestEntry]:
    """The entries of a manifest in Parquet or ORC.

    Raises ValueError, KeyError and what Arrow raises for bytes that are no such entries, and what `check_version`
    raises.
    """
    table = read_columns(content).combine_chunks()
    if not table.num_rows:
        return []
    top = _Struct(table.to_struct_array().combine_chunks())
    for version in set(top.required("_VERSION", pa.int64())):
        check_version(version)
    kinds = [_KINDS[kind] for kind in top.required("_KIND", pa.int64())]
    partitions = top.required("_PARTITION", pa.binary())
    buckets = top.required("_BUCKET", pa.int64())
    totals = top.required("_TOTAL_BUCKETS", pa.int64())
    files = _files(top.struct("_FILE"))
    # Each entry is an object of its own, so there is nothing left to do by the column.
    return [
        ManifestEntry(kind=kind, partition=partition, bucket=bucket, total_buckets=total, file=file)
        for kind, partition, bucket, total, file in zip(kinds, partitions, buckets, totals, files, strict=True)
    ]


def _files(of: "_Struct") -> list[DataFileMeta]:
    columns = zip(
        of.required("_FILE_NAME", pa.string()),
        of.required("_FILE_SIZE", pa.int64()),
        of.required("_ROW_COUNT", pa.int64()),
        of.required("_MIN_KEY", pa.binary()),
        of.required("_MAX_KEY", pa.binary()),
        _stats(of.struct("_KEY_STATS")),
        _stats(of.struct("_VALUE_STATS")),
        of.required("_MIN_SEQUENCE_NUMBER", pa.int64()),
        of.required("_MAX_SEQUENCE_NUMBER", pa.int64()),
        of.required("_SCHEMA_ID", pa.int64()),
        of.required("_LEVEL", pa.int64()),
        of.lists("_EXTRA_FILES", pa.string()),
        of.millis("_CREATION_TIME"),
        of.optional("_DELETE_ROW_COUNT", pa.int64()),
        of.optional("_EMBEDDED_FILE_INDEX", pa.binary()),
        of.optional("_FILE_SOURCE", pa.int64()),
        of.lists("_VALUE_STATS_COLS", pa.string()),
        of.optional("_EXTERNAL_PATH", pa.string()),
        of.optional("_FIRST_ROW_ID", pa.int64()),
        of.lists("_WRITE_COLS", pa.string()),
        strict=True,
    )
    return [
        DataFileMeta(
            file_name=name,
            file_size=size,
            row_count=rows,
            min_key=min_key,
            max_key=max_key,
            key_stats=key_stats,
            value_stats=value_stats,
            min_sequence_number=min_sequence,
            max_sequence_number=max_sequence,
            schema_id=schema_id,
            level=level,
            extra_files=extra_files or (),
            creation_time_millis=created or 0,
            delete_row_count=deletes,
            embedded_file_index=index,
            file_source=_SOURCES[source],
            value_stats_cols=stats_columns,
            external_path=external_path,
            first_row_id=first_row,
            write_cols=written,
        )
        for (
            name, size, rows, min_key, max_key, key_stats, value_stats, min_sequence, max_sequence, schema_id, level,
            extra_files, created, deletes, index, source, stats_columns, external_path, first_row, written,
        ) in columns
    ]  # fmt: skip


def _stats(of: "_Struct") -> list[SimpleStats]:
    values = zip(
        of.required("_MIN_VALUES", pa.binary()),
        of.required("_MAX_VALUES", pa.binary()),
        of.lists("_NULL_COUNTS", pa.int64()),
        strict=True,
    )
    return [SimpleStats(min_values=low, max_values=high, null_counts=nulls or ()) for low, high, nulls in values]


class _Struct:
    """The fields of a column of structs without nulls, as lists of Python's values."""

    def __init__(self, array: Any) -> None:
        if array.null_count:
            raise ValueError("a record is null")
        self._array = array
        self._names = {field.name for field in array.type}

    def struct(self, name: str) -> "_Struct":
        """A field of structs."""
        return _Struct(self._array.field(name))

    def required(self, name: str, of: pa.DataType) -> list[Any]:
        """The values of a field that has no nulls."""
        column = self._array.field(name)
        if column.null_count:
            raise ValueError(f"{name} is null")
        return _values(column, of)

    def optional(self, name: str, of: pa.DataType) -> Sequence[Any]:
        """The values of a field that may be null or absent."""
        if name not in self._names:
            return [None] * len(self._array)
        column = self._array.field(name)
        return [None] * len(column) if column.null_count == len(column) else _values(column, of)

    def lists(self, name: str, of: pa.DataType) -> Sequence[tuple[Any, ...] | None]:
        """Lists as tuples; equal ones are one object, for most are."""
        if name not in self._names or (column := self._array.field(name)).null_count == len(column):
            return [None] * len(self._array)
        values = _values(column.values, of)
        ends = column.offsets.to_pylist()
        seen: dict[tuple[Any, ...], tuple[Any, ...]] = {}
        found: list[tuple[Any, ...] | None] = []
        for present, start, end in zip(column.is_valid().to_pylist(), ends[:-1], ends[1:], strict=True):
            items = tuple(values[start:end])
            found.append(seen.setdefault(items, items) if present else None)
        return found

    def millis(self, name: str) -> Sequence[int | None]:
        """Times as milliseconds since the epoch."""
        if name not in self._names:
            return [None] * len(self._array)
        times = self._array.field(name)
        if times.type != _MILLIS:
            # ORC has nanoseconds, of which the file has whole milliseconds.
            times = times.cast(_MILLIS, safe=False)
        return _values(times.view(pa.int64()), pa.int64())


def _values(column: Any, of: pa.DataType) -> list[Any]:
    # Integers of all widths are the same to Python; a cast costs more than all the rest where a file has few entries.
    alike = column.type.id == of.id or (pa.types.is_integer(column.type) and pa.types.is_integer(of))
    values: list[Any] = (column if alike else column.cast(of)).to_pylist()
    return values
