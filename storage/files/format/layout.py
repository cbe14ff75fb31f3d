"""Layout of the data files of a table: their columns with Paimon's field ids, their names, and their format by level.

The codec and the statistics differ by level, too. A pure choice from the table's options. The format, codec and mode of
a level come from `file.format.per.level`, `file.compression.per.level` and `metadata.stats-mode.per.level`, those of
the other levels from `file.format`, `file.compression` and `metadata.stats-mode`. Changelog files have
`changelog-file.format`, `.compression` and `.stats-mode`, which default to those of the level. Append tables have no
levels. Source: Paimon's KeyValueFileWriterFactory; documentation page `maintenance/configurations`.

A format limits the types of columns: Avro keeps timestamps as milliseconds or microseconds, TIME as milliseconds.
Source: Paimon's AvroSchemaConverter.

A file of a primary-key table holds `_KEY_<k>` for each column of the trimmed primary key (left out in thin mode), then
`_SEQUENCE_NUMBER`, `_VALUE_KIND` and all columns of the table; a file of an append table holds the table's columns
alone. Source: specification page `spec/datafile`; the ids of system fields and of the parts of nested types are those
of Paimon's SpecialFields.
"""

import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from interbed.storage.base.columnar_records import CODECS, NESTED_DEPTHS, NESTED_ID_BASE, UNCOMPRESSED
from interbed.storage.base.errors import InvalidOptionError, NotSupportedError
from interbed.storage.base.types.arrow import FIELD_ID, type_to_arrow
from interbed.storage.base.types.data_type import (
    TIMESTAMPS,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
)
from interbed.storage.files.file_index.spec import FileIndexSpec
from interbed.storage.files.format.stats import StatsMode, key_modes, stats_modes
from interbed.storage.meta.options.core import CoreOptions
from interbed.storage.meta.options.format import FILE_FORMATS
from interbed.storage.meta.schema.system_fields import (
    KEY_FIELD_ID_START,
    SEQUENCE_NUMBER_FIELD,
    VALUE_KIND_FIELD,
    stores_row_ids,
)
from interbed.storage.meta.schema.table_schema import KEY_PREFIX, SEQUENCE_NUMBER, VALUE_KIND, TableSchema


def key_fields_of_file(schema: TableSchema) -> tuple[DataField, ...]:
    """Return the `_KEY_*` columns of a primary-key table's files."""
    return tuple(
        DataField(id=f.id + KEY_FIELD_ID_START, name=KEY_PREFIX + f.name, type=f.type.with_nullable(False))
        for f in schema.key_fields
    )


def key_value_fields(schema: TableSchema, *, thin: bool = False) -> tuple[DataField, ...]:
    """Return all columns of a primary-key table's files, in order."""
    keys = () if thin else key_fields_of_file(schema)
    return (*keys, SEQUENCE_NUMBER_FIELD, VALUE_KIND_FIELD, *schema.fields)


def file_schema(fields: Sequence[DataField]) -> pa.Schema:
    """Return the Arrow schema of a file with those columns; every field has its id in its metadata."""
    return pa.schema([_arrow_field(f) for f in fields])


def _arrow_field(field: DataField) -> "pa.Field[Any]":
    return _field(field.name, _arrow_type(field.type, field.id, 0), field.type.nullable, field.id)


def _arrow_type(data_type: DataType, column_id: int, depth: int) -> pa.DataType:
    """Return the Arrow type with ids in nested fields; `depth` counts the lists and maps around it in its field."""
    inner = depth + 1
    match data_type:
        case ArrayType(element=element):
            number = NESTED_ID_BASE + column_id * NESTED_DEPTHS + inner
            return pa.list_(_field("element", _arrow_type(element, column_id, inner), element.nullable, number))
        case MapType(key=key, value=value):
            return _map(key, value, column_id, inner)
        case MultisetType(element=element):
            return _map(element, AtomicType(TypeRoot.INT, nullable=False), column_id, inner)
        case RowType(fields=fields):
            return pa.struct([_arrow_field(f) for f in fields])
        case _:
            return type_to_arrow(data_type)


def _map(key: DataType, value: DataType, column_id: int, inner: int) -> pa.DataType:
    offset = column_id * NESTED_DEPTHS + inner
    # The stubs of pyarrow know map_ for types only.
    key_field: Any = _field("key", _arrow_type(key, column_id, inner), False, NESTED_ID_BASE - offset)
    value_field: Any = _field("value", _arrow_type(value, column_id, inner), value.nullable, NESTED_ID_BASE + offset)
    result: pa.DataType = pa.map_(key_field, value_field)
    return result


def _field(name: str, arrow: pa.DataType, nullable: bool, number: int) -> "pa.Field[Any]":
    return pa.field(name, arrow, nullable, {FIELD_ID: str(number).encode()})


def check_fields(file_format: str, fields: Sequence[DataField]) -> None:
    """Raise NotSupportedError naming the first column that files of the format can't hold."""
    if file_format != "avro":
        return
    for field in fields:
        for part in _parts(field.type):
            digits = part.precision or 0
            if (part.root in TIMESTAMPS and digits > 6) or (part.root is TypeRoot.TIME and digits > 3):
                most = 6 if part.root in TIMESTAMPS else 3
                raise NotSupportedError(
                    f"Avro files can't hold the column {field.name!r}: {part.root} has at most {most} fractional "
                    f"digits there, not {digits}. Set 'file.format' to 'parquet' or 'orc', or declare fewer digits."
                )


def _parts(data_type: DataType) -> Iterator[AtomicType]:
    if isinstance(data_type, AtomicType):
        yield data_type
    for child in data_type.children():
        yield from _parts(child)


_CODECS: Mapping[str, Mapping[str, str]] = {
    **CODECS,
    "avro": {"zstd": "zstandard", **{c: c for c in ("zstandard", "snappy", "deflate", "bzip2", "xz")}},
}
"""The name of a codec in the format's writer by its name in the options, by format."""
_PAGE_ROWS, _PAGE_ROWS_OF_LEVEL_0 = 20_000, 8_192
"""Rows of a page of a Parquet file. A range of keys has rows in each of the many files of level 0."""
_SUFFIXES = {"none": "", "gzip": "gz.", "bzip2": "bz2.", "zstd": "zst."}
"""The extension of a codec in file names, where it is not the codec's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFileKind:
    """Format, codec and statistics of files: the codec by its name in the format's writer, None for no compression.

    `extension` is the extension of file names, without the dot, `page_rows` the rows of a page in formats with pages.
    `value_modes` and `key_modes` say which statistics are kept of the table's columns and of the key columns.
    """

    file_format: str
    codec: str | None
    extension: str
    page_rows: int
    value_modes: tuple[StatsMode, ...]
    key_modes: tuple[StatsMode, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileKinds:
    """Kinds of a table's data files (`data`) and changelog files by level; level None is for all others."""

    data: Mapping[int | None, DataFileKind]
    changelog: Mapping[int | None, DataFileKind]

    @staticmethod
    def of(options: CoreOptions, fields: Sequence[DataField], keys: Sequence[DataField]) -> "FileKinds":
        """Return the kinds for a table with these columns; `keys` are those of its trimmed primary key, if it has one.

        Raises InvalidOptionError for an unknown format, codec or mode, naming the option, and NotSupportedError for a
        column that one of the formats can't hold.
        """
        levels: list[int | None] = [None]
        if keys:
            levels += sorted({0, *options.format_by_level, *options.compression_by_level, *options.stats_mode_by_level})
        kinds = FileKinds(
            data={level: _kind(options, fields, keys, level, changelog=False) for level in levels},
            changelog={level: _kind(options, fields, keys, level, changelog=True) for level in levels},
        )
        for file_format in sorted(kinds.formats):
            check_fields(file_format, fields)
        return kinds

    @property
    def formats(self) -> frozenset[str]:
        """The formats of new files."""
        return frozenset(k.file_format for k in (*self.data.values(), *self.changelog.values()))

    def at(self, level: int, *, changelog: bool = False) -> DataFileKind:
        """Return the kind of the files of a level."""
        kinds = self.changelog if changelog else self.data
        return kinds.get(level) or kinds[None]


def _kind(
    options: CoreOptions, fields: Sequence[DataField], keys: Sequence[DataField], level: int | None, *, changelog: bool
) -> DataFileKind:
    format_key, file_format = _choose(
        level, "file.format", options.file_format, options.format_by_level, changelog, options.changelog_format
    )
    if file_format not in FILE_FORMATS:
        known = ", ".join(FILE_FORMATS)
        raise InvalidOptionError(f"Option '{format_key}' takes one of {known}, not '{file_format}'.")
    codec_key, compression = _choose(
        level,
        "file.compression",
        options.file_compression,
        options.compression_by_level,
        changelog,
        options.changelog_compression,
    )
    own_key = {"parquet": "parquet.compression", "orc": "orc.compress", "avro": "avro.codec"}[file_format]
    if own_key in options.raw:
        # The format's own option has precedence over Paimon's, as in Paimon.
        codec_key, compression = own_key, options.text(own_key, "").lower()
    mode_key, mode = _choose(
        level,
        "metadata.stats-mode",
        options.stats_mode,
        options.stats_mode_by_level,
        changelog,
        options.changelog_stats_mode,
    )
    table_mode = StatsMode.parse(mode_key, mode)
    return DataFileKind(
        file_format=file_format,
        codec=_codec(codec_key, file_format, compression),
        extension=_extension(file_format, options),
        page_rows=options.parquet_page_rows or (_PAGE_ROWS_OF_LEVEL_0 if level == 0 else _PAGE_ROWS),
        value_modes=stats_modes(fields, options, table_mode, file_format=file_format, keys=keys),
        key_modes=key_modes(keys, options, table_mode, file_format=file_format),
    )


def _extension(file_format: str, options: CoreOptions) -> str:
    if not options.suffix_includes_compression:
        return file_format
    # Paimon uses the table's codec here, also for a level with another codec.
    return _SUFFIXES.get(options.file_compression, f"{options.file_compression}.") + file_format


def _choose(
    level: int | None, key: str, common: str, by_level: Mapping[int, str], changelog: bool, own: str | None
) -> tuple[str, str]:
    """Return the option that decides, and its value."""
    if changelog and own is not None:
        name = "changelog-file." + key.removeprefix("file.").removeprefix("metadata.")
        return name, own
    if level is not None and level in by_level:
        return f"{key}.per.level", by_level[level]
    return key, common


def _codec(key: str, file_format: str, compression: str) -> str | None:
    if compression in UNCOMPRESSED:
        return None
    codecs = _CODECS[file_format]
    if compression not in codecs:
        known = ", ".join(("none", *codecs))
        raise InvalidOptionError(
            f"Option '{key}' takes one of {known} for files of the format {file_format}, not '{compression}'."
        )
    return codecs[compression]


# -- the layout of all files -------------------------------------------------------------------------------------------

ROW_GROUP_ROWS = 128 * 1024
"""Rows of a row group: enough for effective pages and dictionaries, few enough for point lookups."""
ROW_GROUP_BYTES = 64 << 20
"""Bytes in memory at which a row group of wide rows is closed earlier."""
MIN_ROW_GROUP_ROWS = 1000
"""Files are rolled between row groups; Paimon checks a file's size every 1000 rows."""


class DataFileNames:
    """Names for the data files of one writer: a UUID and a running number, as in Paimon. Safe to share by threads."""

    def __init__(self, prefix: str) -> None:
        self._stem = f"{prefix}{uuid.uuid4()}"
        self._next = 0
        self._lock = threading.Lock()

    def take(self, extension: str) -> str:
        """Return a new name; `extension` is without the dot."""
        with self._lock:
            number = self._next
            self._next += 1
        return f"{self._stem}-{number}.{extension}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFileLayout:
    """Common properties of all data files of a table's writers.

    `tracks_rows` says whether rows have ids; then `stores_row_ids` says whether the files have columns of them.
    `write_cols` names the columns of files that have others than those of their schema.
    `fields` are the file's columns, `key_fields` the table's columns that order its rows (none in an append table),
    `sequence_fields` the columns that decide which row of a key is newest, before the order of arrival, `value_fields`
    all of the table's columns; `ascending` names the columns by which files are sorted. `kinds` has format, codec and
    statistics of each level, `file_indexes` the indexed columns.
    """

    schema_id: int
    fields: tuple[DataField, ...]
    key_fields: tuple[DataField, ...]
    sequence_fields: tuple[str, ...]
    value_fields: tuple[DataField, ...]
    kinds: FileKinds
    dense_stats: bool
    ascending: frozenset[str]
    target_size: int
    options: CoreOptions
    file_indexes: FileIndexSpec
    arrow: pa.Schema
    tracks_rows: bool = False
    stores_row_ids: bool = False
    write_cols: tuple[str, ...] | None = None

    @staticmethod
    def of(schema: TableSchema, options: CoreOptions) -> "DataFileLayout":
        """Return the layout of a table's new files.

        Raises InvalidOptionError for an unknown format, codec or mode and for invalid file indexes, NotSupportedError
        for a column that one of the table's formats can't hold.
        """
        keyed = schema.has_primary_key
        key_fields = schema.key_fields if keyed else ()
        fields = key_value_fields(schema, thin=options.thin_mode) if keyed else schema.fields
        ascending = {SEQUENCE_NUMBER, VALUE_KIND} if keyed else set()
        if keyed:
            # Only the first key column ascends in the whole file; the others start again with each of its values.
            ascending |= {key_fields_of_file(schema)[0].name, schema.key_fields[0].name}
        indexes = FileIndexSpec.of(
            schema.fields, options.raw, in_manifest_threshold=options.file_index_in_manifest_threshold
        )
        return DataFileLayout(
            schema_id=schema.id,
            fields=fields,
            key_fields=key_fields,
            sequence_fields=options.sequence_fields if keyed else (),
            value_fields=schema.fields,
            kinds=FileKinds.of(options, schema.fields, key_fields),
            dense_stats=options.boolean("metadata.stats-dense-store", True),
            # Java Paimon 1.4.2 reads wrong values from pages of deltas when an index selects single rows.
            ascending=frozenset() if indexes.picks_rows else frozenset(ascending),
            target_size=options.target_file_size_for(primary_key=keyed),
            options=options,
            file_indexes=indexes,
            arrow=file_schema(fields),
            tracks_rows=options.row_tracking_enabled,
            stores_row_ids=stores_row_ids(schema),
            write_cols=schema.names if stores_row_ids(schema) else None,
        )

    def of_columns(self, names: Sequence[str]) -> "DataFileLayout":
        """Return the layout of files with some columns of an append table, in the given order."""
        by_name = {f.name: f for f in self.fields}
        fields = tuple(by_name[name] for name in names)
        indexed = tuple(c for c in self.file_indexes.columns if c.column in names)
        return replace(
            self,
            fields=fields,
            value_fields=fields,
            kinds=FileKinds.of(self.options, fields, ()),
            file_indexes=replace(self.file_indexes, columns=indexed),
            arrow=file_schema(fields),
            write_cols=tuple(names),
        )

    def group_rows(self, batch: pa.RecordBatch) -> int:
        """Return the rows of a row group for rows of the batch's width; `file.block-size` bounds bytes in memory."""
        width = max(1, batch.nbytes // max(1, batch.num_rows))
        asked = self.options.parquet_block_size
        most = min(asked or ROW_GROUP_BYTES, self.target_size) // width
        return max(MIN_ROW_GROUP_ROWS, most if asked else min(ROW_GROUP_ROWS, most))
