"""A query over a format table: projection, filter and limit over the files that it has when the query is planned.

There is no snapshot: a concurrent overwrite may show its old rows, its new ones, or for a moment both.

Reading of a data file takes the columns of the table by the names in the file. Columns that a file lacks are null; its
other columns are ignored, also those of the partition, whose values are those of the directory. A value of another type
than its column's is converted if it stays the same, and otherwise refused: the files may be of any writer. Columns of
ORC files that Hive has written without names (`_col0`) are taken in order.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from interbed.storage.base.arrow_values import array_of, nulls_of
from interbed.storage.base.errors import FileGoneError, NotSupportedError, SchemaMismatchError
from interbed.storage.base.predicate.evaluate import mask
from interbed.storage.base.predicate.expr import AlwaysTrue, Predicate, and_, columns_of, rename_columns, restrict_to
from interbed.storage.base.prefetch import chain_prefetched
from interbed.storage.base.row.binary_row import decode_rows
from interbed.storage.base.types.arrow import fields_to_schema, type_to_arrow
from interbed.storage.base.types.data_type import (
    BINARIES,
    STRINGS,
    TIMESTAMPS,
    AtomicType,
    DataField,
    TypeRoot,
)
from interbed.storage.files.format.api import ReadChecks, data_file_errors
from interbed.storage.files.format.pages.footer import read_footer
from interbed.storage.files.format.readers import reader_for
from interbed.storage.files.text.codec import read_text_rows, text_codec
from interbed.storage.io.api import FileIO, FileStatus, open_sized
from interbed.storage.meta.schema.evolution import conform
from interbed.storage.read.arrow_rows import ArrowRows, check_limit, limited, shown_query
from interbed.storage.scan.partition_filter import PredicatePartitions
from interbed.storage.table.format_table.definition import FormatDefinition
from interbed.storage.table.format_table.directories import FormatDirectories, FormatPartition

BATCH_ROWS = 64 << 10
_UNNAMED = re.compile(r"_col[0-9]+")


@dataclass(frozen=True, slots=True)
class FormatFileRead:
    """Reader of files with the columns `fields`, none of which is a partition column."""

    definition: FormatDefinition
    fields: tuple[DataField, ...]
    file_io: FileIO

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows."""
        return fields_to_schema(self.fields)

    def batches(self, file: FileStatus, predicate: Predicate | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a file; parts of it that a predicate over the columns excludes may be skipped.

        Raises CorruptFileError, NotSupportedError, SchemaMismatchError and StorageAccessError, which name the file.
        """
        if not file.size:
            # Hive leaves files without bytes for tasks without rows.
            return
        try:
            if self.definition.syntax is None:
                yield from self._columnar(file, predicate)
            else:
                yield from self._text(file)
        except FileGoneError as error:
            raise FileGoneError(
                f"The data file {file.path} is missing: it was deleted or overwritten since the table was listed. Read "
                "the table again."
            ) from error

    def _text(self, file: FileStatus) -> Iterator[pa.RecordBatch]:
        assert self.definition.syntax is not None
        wanted = [f.name for f in self.fields]
        codec = text_codec(self.definition.data_fields, self.definition.syntax, wanted)
        for batch in read_text_rows(self.file_io, file.path, codec, size=file.size):
            yield self._conformed(batch, {name: name for name in wanted}, file.path)

    def _columnar(self, file: FileStatus, predicate: Predicate | None) -> Iterator[pa.RecordBatch]:
        file_format = self.definition.file_format
        in_file = _file_schema(file_format, file, self.file_io)
        names = self._names(in_file)
        pushed = None if predicate is None else self._pushed(predicate, in_file, names)
        found = reader_for(file_format, file.path).positioned(
            file.path,
            [DataField(id=f.id, name=names[f.name], type=f.type) for f in self.fields if f.name in names],
            file_io=self.file_io,
            batch_rows=BATCH_ROWS,
            predicate=pushed,
            checks=ReadChecks(checksums=self.definition.options.read_verify_checksums, size=file.size),
        )
        for _, batch in found:
            yield self._conformed(batch, names, file.path)

    def _names(self, in_file: pa.Schema | None) -> Mapping[str, str]:
        """Return the names in the file of the columns that it has."""
        if in_file is None:
            return {f.name: f.name for f in self.fields}
        present = in_file.names
        if present and all(_UNNAMED.fullmatch(name) for name in present):
            by_place = dict(zip((f.name for f in self.definition.data_fields), present, strict=False))
            return {f.name: by_place[f.name] for f in self.fields if f.name in by_place}
        if not self.definition.any_case:
            return {f.name: f.name for f in self.fields if f.name in present}
        lower = {name.lower(): name for name in reversed(present)}
        return {f.name: lower[f.name.lower()] for f in self.fields if f.name.lower() in lower}

    def _pushed(self, predicate: Predicate, in_file: pa.Schema | None, names: Mapping[str, str]) -> Predicate | None:
        """Return the part of a predicate over columns whose type in the file is the table's."""
        if in_file is None:
            return None
        same = {
            f.name: names[f.name]
            for f in self.fields
            if f.name in names and in_file.field(names[f.name]).type.equals(type_to_arrow(f.type.with_nullable(True)))
        }
        restricted = restrict_to(predicate, columns_of(predicate) & same.keys())
        return None if isinstance(restricted, AlwaysTrue) else rename_columns(restricted, same)

    def _conformed(self, batch: pa.RecordBatch, names: Mapping[str, str], path: str) -> pa.RecordBatch:
        if not self.fields:
            return batch.select([])
        with data_file_errors(path):
            arrays = [self._array(batch, names.get(f.name), f, path) for f in self.fields]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _array(self, batch: pa.RecordBatch, name: str | None, field: DataField, path: str) -> "pa.Array[Any]":
        target = field.type.with_nullable(True)
        arrow = type_to_arrow(target)
        place = -1 if name is None else batch.schema.get_field_index(name)
        if place < 0:
            values: pa.Array[Any] = nulls_of(batch.num_rows, arrow)
        else:
            column = batch.column(place)
            _check_kind(column.type, field, path)
            try:
                values = _exact_times(column, arrow) if isinstance(target, AtomicType) else column
                values = conform(values, target, target, column=field.name)
            except (NotSupportedError, pa.ArrowInvalid) as error:
                raise SchemaMismatchError(
                    f"The column {field.name!r}, {field.type}, can't be read from the data file {path}: {error}"
                ) from error
        if not field.type.nullable and values.null_count:
            raise SchemaMismatchError(
                f"The column {field.name!r} is NOT NULL, and the data file {path} has a row without it."
            )
        return values


def _exact_times(column: Any, arrow: Any) -> Any:
    """Return timestamps in the unit of their column. Raises pa.ArrowInvalid for digits that it has no place for."""
    if not (pa.types.is_timestamp(column.type) and pa.types.is_timestamp(arrow)):
        return column
    return column.cast(pa.timestamp(arrow.unit, column.type.tz))


def _check_kind(kind: pa.DataType, field: DataField, path: str) -> None:
    """Raise SchemaMismatchError for a column of another kind of type: no text is parsed, and no number is a time."""
    if isinstance(field.type, AtomicType) and not _is_kind_of(kind, field.type):
        raise SchemaMismatchError(
            f"The column {field.name!r} is {field.type}, and the data file {path} has {kind} there."
        )


def _is_kind_of(kind: pa.DataType, data_type: AtomicType) -> bool:
    is_a = pa.types
    root = data_type.root
    if isinstance(kind, pa.DictionaryType):
        return _is_kind_of(kind.value_type, data_type)
    if is_a.is_null(kind):
        return True
    if root in STRINGS:
        return is_a.is_string(kind) or is_a.is_large_string(kind) or is_a.is_binary(kind)
    if root in BINARIES:
        return is_a.is_binary(kind) or is_a.is_large_binary(kind) or is_a.is_fixed_size_binary(kind)
    if root is TypeRoot.BOOLEAN:
        return is_a.is_boolean(kind)
    if root in TIMESTAMPS:
        return is_a.is_timestamp(kind)
    if root is TypeRoot.DATE:
        return is_a.is_date(kind)
    if root is TypeRoot.TIME:
        return is_a.is_time(kind) or is_a.is_int32(kind)
    return is_a.is_integer(kind) or is_a.is_floating(kind) or is_a.is_decimal(kind)


def _file_schema(file_format: str, file: FileStatus, file_io: FileIO) -> pa.Schema | None:
    """Return the columns of a file; None where its reader finds them by itself."""
    if file_format == "avro":
        return None
    with data_file_errors(file.path), open_sized(file_io, file.path, file.size) as source:
        if file_format == "parquet":
            return read_footer(source, file.path, verify=False).schema
        # By use: few tables are ORC.
        from pyarrow import orc

        return orc.ORCFile(source).schema


def without_partitions(fields: Sequence[DataField], keys: Sequence[str]) -> tuple[DataField, ...]:
    """Return the columns that are in files."""
    return tuple(f for f in fields if f.name not in keys)


_PREFETCHED_FILES = 16
_PREFETCHED_BYTES = 8 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatSplit:
    """A data file, and its partition."""

    file: FileStatus
    partition: FormatPartition


@dataclass(frozen=True, repr=False)
class FormatScan(ArrowRows):
    """The result of `FormatTable.scan`: rows that are read on demand, of the files that exist when it is first used."""

    name: str
    definition: FormatDefinition
    directories: FormatDirectories
    columns: tuple[str, ...] | None = None
    predicate: Predicate | None = None
    limit: int | None = None

    def __repr__(self) -> str:
        parts = [self.directories.location, *shown_query(self.columns, self.predicate, self.limit)]
        return f"FormatScan({'; '.join(parts)})"

    def __post_init__(self) -> None:
        check_limit(self.limit)

    @cached_property
    def plan(self) -> list[FormatSplit]:
        """The files to read. Raises CorruptFileError for a directory that is no partition."""
        found = self.directories.partitions()
        keys = self.definition.schema.partition_keys
        if self.predicate is not None and keys:
            of_keys = restrict_to(self.predicate, columns_of(self.predicate) & set(keys))
            if not isinstance(of_keys, AlwaysTrue):
                chooses = PredicatePartitions(of_keys, self.definition.schema.partition_fields)
                kept = chooses.select([each.row for each in found])
                found = [each for each in found if each.row in kept]
        return [
            FormatSplit(file=file, partition=partition)
            for partition in found
            for file in self.directories.files(partition)
        ]

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows."""
        schema = self.definition.schema.arrow
        return schema if self.columns is None else pa.schema([schema.field(name) for name in self.columns])

    @property
    def _row_schema(self) -> pa.Schema:
        return self.schema

    @property
    def _row_fields(self) -> Sequence[DataField]:
        return self.definition.schema.fields

    def to_arrow_batch_reader(self) -> pa.RecordBatchReader:
        """Return the rows as a stream of batches; memory is bounded by some batches of a few files."""
        return limited(pa.RecordBatchReader.from_batches(self.schema, self._batches()), self.limit)

    def count(self) -> int:
        """Return the number of rows; only the columns of the filter are read."""
        total = sum(batch.num_rows for batch in replace(self, columns=(), limit=None).to_arrow_batch_reader())
        return total if self.limit is None else min(total, self.limit)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        return self.batches_of(self.plan)

    def batches_of(self, splits: Sequence[FormatSplit]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of files that match the filter, without the limit."""
        names = self.schema.names
        used = set(names) | (set() if self.predicate is None else columns_of(self.predicate))
        keys = self.definition.schema.partition_keys
        fields = tuple(f for f in self.definition.data_fields if f.name in used)
        of_files = None
        if self.predicate is not None:
            pushed = restrict_to(self.predicate, columns_of(self.predicate) - set(keys))
            of_files = None if isinstance(pushed, AlwaysTrue) else pushed
        key_fields = tuple(f for f in self.definition.schema.partition_fields if f.name in used)

        def rows(split: FormatSplit) -> Iterator[pa.RecordBatch]:
            constants = self._constants(split.partition)
            read = FormatFileRead(split.partition.definition or self.definition, fields, self.directories.file_io)
            for batch in read.batches(split.file, of_files):
                whole = _with_constants(batch, key_fields, constants)
                if self.predicate is not None:
                    whole = whole.filter(mask(self.predicate, whole))
                if whole.num_rows:
                    yield whole.select(names)

        if len(splits) > 1 and self.directories.file_io.capabilities.slow_requests:
            yield from chain_prefetched(
                [lambda split=split: rows(split) for split in splits],  # type: ignore[misc]
                [split.file.size for split in splits],
                most=_PREFETCHED_FILES,
                weight=_PREFETCHED_BYTES,
            )
            return
        for split in splits:
            yield from rows(split)

    def _constants(self, partition: FormatPartition) -> dict[str, Any]:
        schema = self.definition.schema
        if not schema.partition_keys:
            return {}
        values = decode_rows([partition.row], schema.partition_types)
        return dict(zip(schema.partition_keys, values, strict=True))

    def _narrowed(
        self, columns: Sequence[str] | None, predicate: Predicate | None, limit: int | None
    ) -> pa.RecordBatchReader:
        if self.limit is not None:
            # The first rows must not depend on the columns and filters of an engine.
            return super()._narrowed(columns, None, limit)
        names = self.columns if columns is None else tuple(columns)
        both = self.predicate if predicate is None else and_(self.predicate, predicate)
        return replace(self, columns=names, predicate=both, limit=limit).to_arrow_batch_reader()


def _with_constants(batch: pa.RecordBatch, fields: Sequence[DataField], constants: dict[str, Any]) -> pa.RecordBatch:
    """Return the rows with the values of their partition as further columns."""
    if not fields:
        return batch
    places = array_of([0] * batch.num_rows, pa.int32())
    columns = [constants[f.name].cast(type_to_arrow(f.type)).take(places) for f in fields]
    schema = pa.schema([*batch.schema, *fields_to_schema(fields)])
    return pa.RecordBatch.from_arrays([*batch.columns, *columns], schema=schema)
