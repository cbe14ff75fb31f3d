"""Decoder of manifest entries: from Avro's bytes, or from the columns of Parquet and ORC files.

An entry has some forty small values, and a table thousands of entries, which a process has to decode before its first
plan; fastavro's dictionaries take several times as long. So Avro files that have the fields of Paimon 1.4 and interbed
are decoded here. Many values equal those of the previous entry; their bytes are self-delimiting, so equal bytes are
decoded once. Source: Avro specification 1.11, binary encoding; specification page `spec/manifest`.

In Parquet and ORC files, fields that a file of an older writer lacks are null.
"""

import io
import json
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, TypeAlias, TypeVar

import pyarrow as pa

from interbed.storage.base.avro.records import OF_METADATA, PlainBlocks
from interbed.storage.base.columnar_records import read_columns
from interbed.storage.meta.manifest.entry import DataFileMeta, FileKind, FileSource, ManifestEntry, SimpleStats

T = TypeVar("T")
CheckVersion = Callable[[int], None]
_Names: TypeAlias = "tuple[str, ...] | None"
_Tail: TypeAlias = "tuple[int | None, bytes | None, FileSource | None, _Names, str | None, int | None, _Names]"

_KINDS = {int(kind): kind for kind in FileKind}
_SOURCES = {int(source): source for source in FileSource}
_MORE = 0x80
_LONG_BITS = 64


def decode_entries(content: bytes, schema: str, check_version: CheckVersion) -> list[ManifestEntry] | None:
    """Return the entries of a manifest; None when its fields differ from those of `schema`, which is in JSON.

    Names of records and logical types do not matter. Raises ValueError, IndexError and KeyError for other bytes, errors
    of `check_version`, and errors of the codec's library.
    """
    try:
        blocks = PlainBlocks(io.BytesIO(content), OF_METADATA)
    except pa.ArrowNotImplementedError:
        return None
    if _layout_of(blocks.schema_text) != _layout_of(schema):
        return None
    entries: list[ManifestEntry] = []
    for count, block in blocks:
        _decode_block(block, count, check_version, entries)
    if blocks.records not in (None, len(entries)):
        raise ValueError(f"it has {len(entries)} entries instead of {blocks.records}")
    return entries


@lru_cache(maxsize=64)
def _layout_of(schema: str) -> Any:
    return _layout(json.loads(schema))


def _layout(of: Any) -> Any:
    """Return the parts of a type that its binary encoding depends on."""
    if isinstance(of, list):
        return [_layout(branch) for branch in of]
    if not isinstance(of, dict):
        return of
    match of["type"]:
        case "record":
            return {"fields": [(f["name"], _layout(f["type"])) for f in of["fields"]]}
        case "array":
            return {"items": _layout(of["items"])}
        case "map":
            return {"values": _layout(of["values"])}
        case other:
            return _layout(other)


def _decode_block(data: bytes, count: int, check_version: CheckVersion, entries: list[ManifestEntry]) -> None:
    """Append the entries of a block; their fields are read one after the other, in the order of the schema."""
    at, end = 0, len(data)

    def long() -> int:
        nonlocal at
        byte = data[at]
        at += 1
        if byte < _MORE:
            return (byte >> 1) ^ -(byte & 1)
        value, shift = byte & 0x7F, 7
        while byte >= _MORE:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if shift > _LONG_BITS + 7:
                raise ValueError("a number has more than 64 bits")
        return (value >> 1) ^ -(value & 1)

    def raw() -> bytes:
        nonlocal at
        size = data[at]
        if size < _MORE:
            size = (size >> 1) ^ -(size & 1)
            at += 1
        else:
            size = long()
        start = at
        at += size
        if size < 0 or at > end:
            raise ValueError("a value ends beyond its block")
        return data[start:at]

    def text() -> str:
        return raw().decode()

    def optional(read: Callable[[], T]) -> T | None:
        branch = long()
        if branch == 0:
            return None
        if branch != 1:
            raise ValueError("a value has a branch that its type has not")
        return read()

    def items(read: Callable[[], T]) -> tuple[T, ...]:
        found: list[T] = []
        while size := long():
            if size < 0:
                # The size of the items in bytes follows, for readers that skip them.
                size = -size
                long()
            found.extend(read() for _ in range(size))
        return tuple(found)

    def texts() -> tuple[str, ...]:
        return items(text)

    def counts() -> tuple[int | None, ...]:
        return items(lambda: optional(long))

    def repeated(read: Callable[[], T]) -> Callable[[], T]:
        """Return a reader for values that mostly equal the previous one."""
        seen = b""
        value: T | None = None

        def read_again() -> T:
            nonlocal at, seen, value
            if value is not None and data.startswith(seen, at):
                at += len(seen)
                return value
            start = at
            value = read()
            seen = data[start:at]
            return value

        return read_again

    def stats(counts: Callable[[], tuple[int | None, ...]]) -> SimpleStats:
        return SimpleStats(min_values=raw(), max_values=raw(), null_counts=counts())

    def head() -> tuple[FileKind, bytes]:
        check_version(long())
        return _KINDS[long()], raw()

    def place() -> tuple[int, int, tuple[str, ...]]:
        return long(), long(), items(text)

    def tail() -> _Tail:
        deletes, index, source = optional(long), optional(raw), optional(long)
        kind = None if source is None else _SOURCES[source]
        return deletes, index, kind, optional(texts), optional(text), optional(long), optional(texts)

    read_head, read_place, read_tail = repeated(head), repeated(place), repeated(tail)
    key_counts, value_counts = (repeated(lambda: optional(counts) or ()) for _ in range(2))
    # Loop over entries: each of them has values of several types, so columns do not help.
    for _ in range(count):
        kind, partition = read_head()
        bucket, total_buckets = long(), long()
        name, size, rows, min_key, max_key = text(), long(), long(), raw(), raw()
        key_stats, value_stats = stats(key_counts), stats(value_counts)
        min_sequence, max_sequence = long(), long()
        schema_id, level, extra_files = read_place()
        created = optional(long) or 0
        deletes, index, source, stats_columns, external_path, first_row, columns = read_tail()
        file = DataFileMeta(
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
            extra_files=extra_files,
            creation_time_millis=created,
            delete_row_count=deletes,
            embedded_file_index=index,
            file_source=source,
            value_stats_cols=stats_columns,
            external_path=external_path,
            first_row_id=first_row,
            write_cols=columns,
        )
        entries.append(
            ManifestEntry(kind=kind, partition=partition, bucket=bucket, total_buckets=total_buckets, file=file)
        )
    if at != end:
        raise ValueError("a block does not end with its last entry")


_MILLIS = pa.timestamp("ms")
_OPTIONAL_SOURCES: dict[int | None, FileSource | None] = {None: None, **{int(source): source for source in FileSource}}


def entries_of_columns(content: bytes, check_version: Callable[[int], None]) -> list[ManifestEntry]:
    """Return the entries of a manifest in Parquet or ORC.

    Raises ValueError, KeyError and errors of Arrow for other bytes, and errors of `check_version`.
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
    # Loop over entries, because each of them is an object of its own.
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
            file_source=_OPTIONAL_SOURCES[source],
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
    """Fields of a column of structs without nulls, as lists of Python values."""

    def __init__(self, array: Any) -> None:
        if array.null_count:
            raise ValueError("a record is null")
        self._array = array
        self._names = {field.name for field in array.type}

    def struct(self, name: str) -> "_Struct":
        """Return the field, which has structs."""
        return _Struct(self._array.field(name))

    def required(self, name: str, of: pa.DataType) -> list[Any]:
        """Return the values of a field that has no nulls."""
        column = self._array.field(name)
        if column.null_count:
            raise ValueError(f"{name} is null")
        return _values(column, of)

    def optional(self, name: str, of: pa.DataType) -> Sequence[Any]:
        """Return the values of a field that may be null or absent."""
        if name not in self._names:
            return [None] * len(self._array)
        column = self._array.field(name)
        return [None] * len(column) if column.null_count == len(column) else _values(column, of)

    def lists(self, name: str, of: pa.DataType) -> Sequence[tuple[Any, ...] | None]:
        """Return lists as tuples; equal ones share one object."""
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
        """Return times as milliseconds since the epoch."""
        if name not in self._names:
            return [None] * len(self._array)
        times = self._array.field(name)
        if times.type != _MILLIS:
            # ORC has nanoseconds, but the values are whole milliseconds.
            times = times.cast(_MILLIS, safe=False)
        return _values(times.view(pa.int64()), pa.int64())


def _values(column: Any, of: pa.DataType) -> list[Any]:
    # Python does not distinguish integer widths, and a cast costs more than all the rest in a file with few entries.
    alike = column.type.id == of.id or (pa.types.is_integer(column.type) and pa.types.is_integer(of))
    values: list[Any] = (column if alike else column.cast(of)).to_pylist()
    return values
