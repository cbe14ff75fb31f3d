"""The entries of manifests straight from Avro's bytes, where a file has the fields that Paimon 1.4 and interbed write.

An entry has some forty small values, and a table thousands of entries, which a process has to decode before its first
plan; by way of fastavro's dictionaries that takes several times as long. Many values are those of the entry before, and
their bytes say where they end, so that equal bytes are decoded once. Source: Avro specification 1.11, binary encoding;
specification page `spec/manifest`.
"""

import io
import json
from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeAlias, TypeVar

import pyarrow as pa

from interbed.storage.base.avro.blocks import PlainBlocks
from interbed.storage.meta.manifest.data_file import DataFileMeta, FileSource
from interbed.storage.meta.manifest.entry import FileKind, ManifestEntry
from interbed.storage.meta.manifest.stats import SimpleStats

T = TypeVar("T")
CheckVersion = Callable[[int], None]
_Names: TypeAlias = "tuple[str, ...] | None"
_Tail: TypeAlias = "tuple[int | None, bytes | None, FileSource | None, _Names, str | None, int | None, _Names]"

_KINDS = {int(kind): kind for kind in FileKind}
_SOURCES = {int(source): source for source in FileSource}
_MORE = 0x80
_LONG_BITS = 64


def decode_entries(content: bytes, schema: str, check_version: CheckVersion) -> list[ManifestEntry] | None:
    """The entries of a manifest; None when its fields are others than those of `schema`, which is in JSON.

    Names of records and logical types do not matter. Raises ValueError, IndexError and KeyError for bytes that are no
    such entries, what `check_version` raises, and what the codec's library raises.
    """
    try:
        blocks = PlainBlocks(io.BytesIO(content))
    except pa.ArrowNotImplementedError:
        return None
    if _shape_of(blocks.schema_text) != _shape_of(schema):
        return None
    entries: list[ManifestEntry] = []
    for count, block in blocks:
        _decode_block(block, count, check_version, entries)
    if blocks.records not in (None, len(entries)):
        raise ValueError(f"it has {len(entries)} entries instead of {blocks.records}")
    return entries


@lru_cache(maxsize=64)
def _shape_of(schema: str) -> Any:
    return _shape(json.loads(schema))


def _shape(of: Any) -> Any:
    """A type without what its bytes do not depend on."""
    if isinstance(of, list):
        return [_shape(branch) for branch in of]
    if not isinstance(of, dict):
        return of
    match of["type"]:
        case "record":
            return {"fields": [(f["name"], _shape(f["type"])) for f in of["fields"]]}
        case "array":
            return {"items": _shape(of["items"])}
        case "map":
            return {"values": _shape(of["values"])}
        case other:
            return _shape(other)


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
                # The bytes of the items follow, for those who skip them.
                size = -size
                long()
            found.extend(read() for _ in range(size))
        return tuple(found)

    def texts() -> tuple[str, ...]:
        return items(text)

    def counts() -> tuple[int | None, ...]:
        return items(lambda: optional(long))

    def repeated(read: Callable[[], T]) -> Callable[[], T]:
        """The reader of values that are mostly like the one before."""
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
    # Each entry's values have types of their own, so that there is nothing to do by the column.
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
