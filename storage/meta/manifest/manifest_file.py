"""Manifests and manifest lists (specification page `spec/manifest`). Version 2 of both.

A manifest lists the data files that a commit added and deleted; each record holds _VERSION, _KIND (0 add, 1 delete),
_PARTITION (a serialised BinaryRow), _BUCKET, _TOTAL_BUCKETS and _FILE, the data file's metadata. A manifest list lists
the manifests of a snapshot, with the number of their files and the bounds of their partitions, buckets and levels.

Records of these and other metadata files have one layout in the three formats of `manifest.format`. Names of these
files have no suffix: Java Paimon reads all of a table in the format of the option, interbed each in the format that its
first bytes show.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from interbed.storage.base.arrow_values import array_of, to_numpy
from interbed.storage.base.avro.records import (
    RecordFile,
    codec_of,
    field,
    field_names,
    metadata_errors,
    optional,
    read_records,
    record,
    write_records,
)
from interbed.storage.base.columnar_records import (
    ORC,
    ColumnFile,
    format_of,
    orc_schema,
    parquet_schema,
    read_columns,
    write_columns,
)
from interbed.storage.base.columnar_records import codec_of as columnar_codec
from interbed.storage.base.errors import UnsupportedVersionError
from interbed.storage.base.row.binary_row import decode_rows, encode_rows
from interbed.storage.base.row.words import Array
from interbed.storage.base.types.data_type import DataType
from interbed.storage.meta.manifest.entry import (
    EMPTY_STATS,
    DataFileMeta,
    FileKind,
    FileSource,
    ManifestEntry,
    ManifestFileMeta,
    SimpleStats,
)
from interbed.storage.meta.manifest.entry_decoder import decode_entries, entries_of_columns

T = TypeVar("T")
AVRO = "avro"
_TINY = frozenset({"_KIND", "_FILE_SOURCE"})


class RecordLayout:
    """Schemas of one kind of metadata file; `schema` is the one in Avro."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self.schema = schema
        self._known = frozenset(field_names(schema))

    @cached_property
    def parquet(self) -> pa.Schema:
        """Schema of the file in Parquet."""
        return parquet_schema(self.schema, _TINY)

    @cached_property
    def orc(self) -> pa.Schema:
        """Schema of the file in ORC."""
        return orc_schema(self.schema, _TINY)

    def write(self, records: Iterable[Mapping[str, Any]], compression: str, file_format: str) -> bytes:
        """Return the content of a file of the records.

        `compression` is a value of `manifest.compression`, `file_format` of `manifest.format`. Raises
        InvalidOptionError for a codec that the format lacks.
        """
        if file_format == AVRO:
            return write_records(self.schema, records, compression)
        schema = self.orc if file_format == ORC else self.parquet
        return write_columns(schema, records, file_format, columnar_codec(file_format, compression))

    def read(self, content: bytes, make: Callable[[dict[str, Any]], T], *, source: str) -> list[T]:
        """Return the records of a file's content, converted by `make`; a field that the file lacks is absent.

        Raises CorruptFileError naming `source` for other content, and for records that `make` does not accept.
        """
        if format_of(content) is None:
            return read_records(content, self._known, make, source=source)
        with metadata_errors(source):
            return [make(record) for record in read_columns(content).to_pylist()]

    def new_file(self, compression: str, file_format: str) -> RecordFile | ColumnFile:
        """Return a new file without records."""
        if file_format == AVRO:
            return RecordFile(records=[], schema=self.schema, codec=codec_of(compression))
        schema = self.orc if file_format == ORC else self.parquet
        codec = columnar_codec(file_format, compression)
        return ColumnFile(records=[], schema=schema, file_format=file_format, codec=codec)

    def is_wider(self, file: RecordFile | ColumnFile) -> bool:
        """Return whether the file has all current fields; it may have more."""
        return self._known <= (field_names(file.schema) if isinstance(file, RecordFile) else file.names)


def check_codec(compression: str, file_format: str) -> None:
    """Raise InvalidOptionError for a value of `manifest.compression` that the format of manifests lacks."""
    if file_format == AVRO:
        codec_of(compression)
    else:
        columnar_codec(file_format, compression)


def read_file(content: bytes, compression: str, *, source: str) -> RecordFile | ColumnFile:
    """Return the records of a file with all of their fields, in its format.

    Avro files are rewritten with their codec, others with `compression`. Raises CorruptFileError naming `source`, and
    InvalidOptionError.
    """
    found = format_of(content)
    if found is None:
        return RecordFile.read(content, source=source)
    codec = columnar_codec(found, compression)
    with metadata_errors(source):
        return ColumnFile.read(content, codec)


VERSION = 2


def stats_schema(path: str) -> dict[str, Any]:
    """Return the Avro schema of SimpleStats."""
    return record(
        path,
        [
            field("_MIN_VALUES", "bytes"),
            field("_MAX_VALUES", "bytes"),
            field("_NULL_COUNTS", optional({"type": "array", "items": optional("long")})),
        ],
    )


_FILE = record(
    "__FILE",
    [
        field("_FILE_NAME", "string"),
        field("_FILE_SIZE", "long"),
        field("_ROW_COUNT", "long"),
        field("_MIN_KEY", "bytes"),
        field("_MAX_KEY", "bytes"),
        field("_KEY_STATS", stats_schema("__FILE__KEY_STATS")),
        field("_VALUE_STATS", stats_schema("__FILE__VALUE_STATS")),
        field("_MIN_SEQUENCE_NUMBER", "long"),
        field("_MAX_SEQUENCE_NUMBER", "long"),
        field("_SCHEMA_ID", "long"),
        field("_LEVEL", "int"),
        field("_EXTRA_FILES", {"type": "array", "items": "string"}),
        field("_CREATION_TIME", optional({"type": "long", "logicalType": "timestamp-millis"})),
        field("_DELETE_ROW_COUNT", optional("long")),
        field("_EMBEDDED_FILE_INDEX", optional("bytes")),
        field("_FILE_SOURCE", optional("int")),
        field("_VALUE_STATS_COLS", optional({"type": "array", "items": "string"})),
        field("_EXTERNAL_PATH", optional("string")),
        field("_FIRST_ROW_ID", optional("long")),
        field("_WRITE_COLS", optional({"type": "array", "items": "string"})),
    ],
)
SCHEMA = record(
    "",
    [
        field("_VERSION", "int"),
        field("_KIND", "int"),
        field("_PARTITION", "bytes"),
        field("_BUCKET", "int"),
        field("_TOTAL_BUCKETS", "int"),
        field("_FILE", _FILE),
    ],
)
_LAYOUT = RecordLayout(SCHEMA)
_SCHEMA_TEXT = json.dumps(SCHEMA)


def write_manifest(entries: Sequence[ManifestEntry], codec: str, file_format: str = AVRO) -> bytes:
    """Return the content of a manifest with the entries, in order.

    `codec` is a value of `manifest.compression`, `file_format` of `manifest.format`. Raises InvalidOptionError.
    """
    return _LAYOUT.write((_entry_to_record(e) for e in entries), codec, file_format)


def read_manifest(content: bytes, *, source: str) -> list[ManifestEntry]:
    """Return the entries of a manifest, in order.

    Raises CorruptFileError naming `source` for other bytes, UnsupportedVersionError for an unknown version.
    """

    def check(version: int) -> None:
        check_version(version, VERSION, source)

    with metadata_errors(source):
        if format_of(content) is not None:
            return entries_of_columns(content, check)
        entries = decode_entries(content, _SCHEMA_TEXT, check)
    if entries is not None:
        return entries
    return _LAYOUT.read(content, lambda r: _entry_from_record(r, source), source=source)


def make_meta(
    name: str, size: int, entries: Sequence[ManifestEntry], schema_id: int, partition_types: Sequence[DataType]
) -> ManifestFileMeta:
    """Return the manifest list's entry for a manifest of `size` bytes with at least one entry."""
    buckets = [e.bucket for e in entries]
    levels = [e.file.level for e in entries]
    rows = [
        (f.first_row_id, f.first_row_id + f.row_count - 1)
        for f in (e.file for e in entries)
        if f.first_row_id is not None
    ]
    tracked = len(rows) == len(entries)
    added = sum(e.kind is FileKind.ADD for e in entries)
    return ManifestFileMeta(
        file_name=name,
        file_size=size,
        num_added_files=added,
        num_deleted_files=len(entries) - added,
        partition_stats=_partition_stats([e.partition for e in entries], partition_types),
        schema_id=schema_id,
        min_bucket=min(buckets),
        max_bucket=max(buckets),
        min_level=min(levels),
        max_level=max(levels),
        min_row_id=min(r[0] for r in rows) if tracked else None,
        max_row_id=max(r[1] for r in rows) if tracked else None,
    )


def _partition_stats(partitions: Sequence[bytes], types: Sequence[DataType]) -> SimpleStats:
    if not types:
        return EMPTY_STATS
    columns = decode_rows(partitions, types)
    lows = [_extreme(c, least=True) for c in columns]
    highs = [_extreme(c, least=False) for c in columns]
    return SimpleStats(
        min_values=encode_rows(lows, types)[0],
        max_values=encode_rows(highs, types)[0],
        null_counts=tuple(c.null_count for c in columns),
    )


def _extreme(column: Array, *, least: bool) -> Array:
    """Return the least or greatest value as an array of one; null when there is none."""
    import pyarrow.compute as pc

    present: Array = column.drop_null()
    if not len(present):
        nothing: Array = array_of([None], column.type)
        return nothing
    if pa.types.is_floating(column.type):
        # Paimon orders NaN as the greatest value, and -0.0 before 0.0; Arrow does neither.
        values = to_numpy(present)
        order = np.lexsort((~np.signbit(values), values))
        index = int(order[0] if least else order[-1])
        single: Array = present.slice(index, 1)
        return single
    order_of = pc.sort_indices(present, sort_keys=[("", "ascending" if least else "descending")])
    extreme: Array = present.take(order_of.slice(0, 1))
    return extreme


def _entry_to_record(entry: ManifestEntry) -> dict[str, Any]:
    f = entry.file
    return {
        "_VERSION": VERSION,
        "_KIND": int(entry.kind),
        "_PARTITION": entry.partition,
        "_BUCKET": entry.bucket,
        "_TOTAL_BUCKETS": entry.total_buckets,
        "_FILE": {
            "_FILE_NAME": f.file_name,
            "_FILE_SIZE": f.file_size,
            "_ROW_COUNT": f.row_count,
            "_MIN_KEY": f.min_key,
            "_MAX_KEY": f.max_key,
            "_KEY_STATS": stats_to_record(f.key_stats),
            "_VALUE_STATS": stats_to_record(f.value_stats),
            "_MIN_SEQUENCE_NUMBER": f.min_sequence_number,
            "_MAX_SEQUENCE_NUMBER": f.max_sequence_number,
            "_SCHEMA_ID": f.schema_id,
            "_LEVEL": f.level,
            "_EXTRA_FILES": list(f.extra_files),
            "_CREATION_TIME": f.creation_time_millis,
            "_DELETE_ROW_COUNT": f.delete_row_count,
            "_EMBEDDED_FILE_INDEX": f.embedded_file_index,
            "_FILE_SOURCE": None if f.file_source is None else int(f.file_source),
            "_VALUE_STATS_COLS": None if f.value_stats_cols is None else list(f.value_stats_cols),
            "_EXTERNAL_PATH": f.external_path,
            "_FIRST_ROW_ID": f.first_row_id,
            "_WRITE_COLS": None if f.write_cols is None else list(f.write_cols),
        },
    }


def _entry_from_record(value: dict[str, Any], source: str) -> ManifestEntry:
    check_version(value["_VERSION"], VERSION, source)
    f = value["_FILE"]
    file_source = f.get("_FILE_SOURCE")
    return ManifestEntry(
        kind=FileKind(value["_KIND"]),
        partition=value["_PARTITION"],
        bucket=value["_BUCKET"],
        total_buckets=value["_TOTAL_BUCKETS"],
        file=DataFileMeta(
            file_name=f["_FILE_NAME"],
            file_size=f["_FILE_SIZE"],
            row_count=f["_ROW_COUNT"],
            min_key=f["_MIN_KEY"],
            max_key=f["_MAX_KEY"],
            key_stats=stats_from_record(f["_KEY_STATS"]),
            value_stats=stats_from_record(f["_VALUE_STATS"]),
            min_sequence_number=f["_MIN_SEQUENCE_NUMBER"],
            max_sequence_number=f["_MAX_SEQUENCE_NUMBER"],
            schema_id=f["_SCHEMA_ID"],
            level=f["_LEVEL"],
            extra_files=tuple(f.get("_EXTRA_FILES") or ()),
            creation_time_millis=f.get("_CREATION_TIME") or 0,
            delete_row_count=f.get("_DELETE_ROW_COUNT"),
            embedded_file_index=f.get("_EMBEDDED_FILE_INDEX"),
            file_source=None if file_source is None else FileSource(file_source),
            value_stats_cols=_names(f.get("_VALUE_STATS_COLS")),
            external_path=f.get("_EXTERNAL_PATH"),
            first_row_id=f.get("_FIRST_ROW_ID"),
            write_cols=_names(f.get("_WRITE_COLS")),
        ),
    )


def _names(value: list[str] | None) -> tuple[str, ...] | None:
    return None if value is None else tuple(value)


def stats_to_record(stats: SimpleStats) -> dict[str, Any]:
    """Return the record of SimpleStats."""
    return {
        "_MIN_VALUES": stats.min_values,
        "_MAX_VALUES": stats.max_values,
        "_NULL_COUNTS": list(stats.null_counts),
    }


def stats_from_record(value: dict[str, Any]) -> SimpleStats:
    """Return SimpleStats from a record; absent null counts become an empty tuple."""
    return SimpleStats(
        min_values=value["_MIN_VALUES"],
        max_values=value["_MAX_VALUES"],
        null_counts=tuple(value.get("_NULL_COUNTS") or ()),
    )


def check_version(version: int, expected: int, source: str) -> None:
    """Raise UnsupportedVersionError when a record has another version."""
    if version != expected:
        raise UnsupportedVersionError(
            f"{source} has records of version {version}; this version of interbed reads version {expected}."
        )


LIST_VERSION = 2

LIST_SCHEMA = record(
    "",
    [
        field("_VERSION", "int"),
        field("_FILE_NAME", "string"),
        field("_FILE_SIZE", "long"),
        field("_NUM_ADDED_FILES", "long"),
        field("_NUM_DELETED_FILES", "long"),
        field("_PARTITION_STATS", stats_schema("__PARTITION_STATS")),
        field("_SCHEMA_ID", "long"),
        field("_MIN_BUCKET", optional("int")),
        field("_MAX_BUCKET", optional("int")),
        field("_MIN_LEVEL", optional("int")),
        field("_MAX_LEVEL", optional("int")),
        field("_MIN_ROW_ID", optional("long")),
        field("_MAX_ROW_ID", optional("long")),
    ],
)
_LIST_LAYOUT = RecordLayout(LIST_SCHEMA)


def write_manifest_list(metas: Sequence[ManifestFileMeta], codec: str, file_format: str = AVRO) -> bytes:
    """Return the content of a manifest list, in order; `codec` and `file_format` as of `write_manifest`."""
    return _LIST_LAYOUT.write((_meta_to_record(m) for m in metas), codec, file_format)


def read_manifest_list(content: bytes, *, source: str) -> list[ManifestFileMeta]:
    """Return the manifests of a manifest list, in order.

    Raises CorruptFileError naming `source` for other bytes, UnsupportedVersionError for an unknown version.
    """
    return _LIST_LAYOUT.read(content, lambda r: _meta_from_record(r, source), source=source)


def _meta_to_record(meta: ManifestFileMeta) -> dict[str, Any]:
    return {
        "_VERSION": LIST_VERSION,
        "_FILE_NAME": meta.file_name,
        "_FILE_SIZE": meta.file_size,
        "_NUM_ADDED_FILES": meta.num_added_files,
        "_NUM_DELETED_FILES": meta.num_deleted_files,
        "_PARTITION_STATS": stats_to_record(meta.partition_stats),
        "_SCHEMA_ID": meta.schema_id,
        "_MIN_BUCKET": meta.min_bucket,
        "_MAX_BUCKET": meta.max_bucket,
        "_MIN_LEVEL": meta.min_level,
        "_MAX_LEVEL": meta.max_level,
        "_MIN_ROW_ID": meta.min_row_id,
        "_MAX_ROW_ID": meta.max_row_id,
    }


def _meta_from_record(value: dict[str, Any], source: str) -> ManifestFileMeta:
    check_version(value["_VERSION"], LIST_VERSION, source)
    return ManifestFileMeta(
        file_name=value["_FILE_NAME"],
        file_size=value["_FILE_SIZE"],
        num_added_files=value["_NUM_ADDED_FILES"],
        num_deleted_files=value["_NUM_DELETED_FILES"],
        partition_stats=stats_from_record(value["_PARTITION_STATS"]),
        schema_id=value["_SCHEMA_ID"],
        min_bucket=value.get("_MIN_BUCKET"),
        max_bucket=value.get("_MAX_BUCKET"),
        min_level=value.get("_MIN_LEVEL"),
        max_level=value.get("_MAX_LEVEL"),
        min_row_id=value.get("_MIN_ROW_ID"),
        max_row_id=value.get("_MAX_ROW_ID"),
    )
