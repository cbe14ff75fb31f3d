"""Reader of the data files of a format table: the columns of the table, by the names in the file.

Columns that a file lacks are null; its other columns are ignored, also those of the partition, whose values are those
of the directory. A value of another type than its column's is converted if it stays the same, and otherwise refused:
the files may be of any writer. Columns of ORC files that Hive has written without names (`_col0`) are taken in order.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from interbed.storage.base.arrow_values import nulls_of
from interbed.storage.base.errors import FileGoneError, NotSupportedError, SchemaMismatchError
from interbed.storage.base.predicate.expr import AlwaysTrue, Predicate, columns_of, rename_columns, restrict_to
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
from interbed.storage.table.format_table.definition import FormatDefinition

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
