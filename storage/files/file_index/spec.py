"""The kinds of file index by name, the indexes that a table's options ask for, and the writer of a data file's indexes.

`file-index.<kind>.columns` lists columns (or values of a MAP with text keys: `m[key]`), and
`file-index.<kind>.<column>.<option>` sets an option of one index; for a MAP's column it applies to all of its keys.
`file-index.in-manifest-threshold` is the size up to which a file's indexes go into the manifest.
Documentation: `append-table/query-performance`; paimon-api `fileindex.FileIndexOptions`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from interbed.storage.base.errors import InvalidOptionError
from interbed.storage.base.row.values import type_name
from interbed.storage.base.row.words import Array
from interbed.storage.base.types.data_type import STRINGS, AtomicType, DataField, DataType, MapType, TypeRoot, is_atomic
from interbed.storage.files.file_index import bitmap, bloom_filter, bsi, range_bitmap
from interbed.storage.files.file_index.api import FileIndexes, IndexReader, IndexWriter, encode_container, name_of_key
from interbed.storage.files.file_index.values import MAX_LONG_DECIMAL, ValueForm
from interbed.storage.meta.options.reader import OptionReader


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexKind:
    """Kind of file index; `roots` are the types that it supports."""

    roots: frozenset[TypeRoot]
    writer: Callable[[ValueForm, OptionReader], IndexWriter]
    reader: Callable[[ValueForm, bytes], IndexReader]


KINDS = {
    bloom_filter.KIND: IndexKind(
        roots=bloom_filter.ROOTS, writer=bloom_filter.BloomFilterWriter, reader=bloom_filter.BloomFilterReader
    ),
    bitmap.KIND: IndexKind(roots=bitmap.ROOTS, writer=bitmap.BitmapWriter, reader=bitmap.BitmapReader),
    bsi.KIND: IndexKind(roots=bsi.ROOTS, writer=bsi.BsiWriter, reader=bsi.BsiReader),
    range_bitmap.KIND: IndexKind(
        roots=range_bitmap.ROOTS, writer=range_bitmap.RangeBitmapWriter, reader=range_bitmap.RangeBitmapReader
    ),
}


def index_kind(name: str) -> IndexKind:
    """Return the kind of that name. Raises InvalidOptionError."""
    try:
        return KINDS[name]
    except KeyError:
        known = ", ".join(KINDS)
        raise InvalidOptionError(
            f"Option 'file-index.{name}.columns' names no kind of file index; there are {known}."
        ) from None


def value_form(kind: IndexKind, data_type: DataType) -> ValueForm | None:
    """Return the form of the type's values in this kind of index; None for a type that it does not support."""
    if not isinstance(data_type, AtomicType) or data_type.root not in kind.roots:
        return None
    if data_type.root is TypeRoot.DECIMAL and (data_type.precision or 0) > MAX_LONG_DECIMAL:
        return None
    form = ValueForm.of(data_type)
    # A range bitmap can't distinguish timestamps by digits beyond microseconds.
    return None if form is not None and not form.is_exact and kind is KINDS[range_bitmap.KIND] else form


def check_type(kind: str, column: str, data_type: DataType) -> ValueForm:
    """Return the form of the column's values. Raises InvalidOptionError naming kind and column for another type."""
    form = value_form(index_kind(kind), data_type)
    if form is None:
        raise InvalidOptionError(
            f"Option 'file-index.{kind}.columns' names the column {column!r}, which is {type_name(data_type)}; "
            f"{kind} does not take that type. Leave the column out."
        )
    return form


# -- the indexes of a table --------------------------------------------------------------------------------------------

PREFIX = "file-index."
_COLUMNS = ".columns"
_OPTION_PARTS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedColumn:
    """Index of a column, or of the values of `key` in a MAP column; `options` are those of the kind, without prefix."""

    kind: str
    column: str
    key: str | None
    form: ValueForm
    options: OptionReader

    @property
    def name(self) -> str:
        """The name of the column in the container."""
        return self.column if self.key is None else name_of_key(self.column, self.key)

    def check_options(self) -> None:
        """Raise InvalidOptionError, naming the column, for options that its kind of index does not take."""
        try:
            KINDS[self.kind].writer(self.form, self.options)
        except InvalidOptionError as error:
            raise InvalidOptionError(f"Options '{PREFIX}{self.kind}.{self.name}.…' are wrong: {error}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class FileIndexSpec:
    """Indexes of a table's data files; `in_manifest_threshold` is in bytes."""

    columns: tuple[IndexedColumn, ...] = ()
    in_manifest_threshold: int = 500

    @property
    def picks_rows(self) -> bool:
        """Whether some index selects rows, not only files."""
        return any(c.kind != bloom_filter.KIND for c in self.columns)

    @staticmethod
    def of(fields: Sequence[DataField], options: Mapping[str, str], *, in_manifest_threshold: int) -> "FileIndexSpec":
        """Return the indexes that a table's options request.

        Raises InvalidOptionError for an unknown kind or column, a type that the kind does not support, and an option of
        a column that has no such index.
        """
        by_name = {f.name: f.type for f in fields}
        asked = list(_asked(options))
        own = _own_options(options, {(kind, name) for kind, name in asked})
        columns: list[IndexedColumn] = []
        for kind, name in dict.fromkeys(asked):
            column, key = _split(name, by_name)
            if column not in by_name:
                raise InvalidOptionError(
                    f"Option 'file-index.{kind}.columns' names the column {column!r}; the table has "
                    f"{', '.join(by_name)}."
                )
            data_type = by_name[column] if key is None else _value_type(kind, column, by_name[column])
            settings = {**(own.get((kind, column), {}) if key is not None else {}), **own.get((kind, name), {})}
            columns.append(
                IndexedColumn(
                    kind=kind,
                    column=column,
                    key=key,
                    form=check_type(kind, name, data_type),
                    options=OptionReader(settings),
                )
            )
        return FileIndexSpec(columns=tuple(columns), in_manifest_threshold=in_manifest_threshold)


NO_INDEXES = FileIndexSpec()


def _asked(options: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the requested kinds and column names, in the order of the options."""
    for option, value in options.items():
        if option.startswith(PREFIX) and option.endswith(_COLUMNS) and len(option) > len(PREFIX) + len(_COLUMNS):
            for name in value.split(","):
                if not name.strip():
                    raise InvalidOptionError(f"Option '{option}' has an empty column name in '{value}'.")
                yield option[len(PREFIX) : -len(_COLUMNS)], name.strip()


def _own_options(options: Mapping[str, str], asked: set[tuple[str, str]]) -> dict[tuple[str, str], dict[str, str]]:
    """Return the options of single columns by kind and column."""
    known = asked | {(kind, name.partition("[")[0]) for kind, name in asked}
    found: dict[tuple[str, str], dict[str, str]] = {}
    for option, value in options.items():
        parts = option[len(PREFIX) :].split(".") if option.startswith(PREFIX) else []
        if len(parts) != _OPTION_PARTS or option.endswith(_COLUMNS):
            continue
        kind, name, setting = parts
        if (kind, name) not in known:
            raise InvalidOptionError(
                f"Option '{option}' is about the column {name!r}, which 'file-index.{kind}.columns' does not list; "
                "add it there or remove the option."
            )
        found.setdefault((kind, name), {})[setting] = value
    return found


def _split(name: str, columns: Mapping[str, DataType]) -> tuple[str, str | None]:
    column, bracket, key = name.partition("[")
    return (column, key[:-1]) if bracket and key.endswith("]") and name not in columns else (name, None)


def _value_type(kind: str, column: str, data_type: DataType) -> DataType:
    if not isinstance(data_type, MapType) or not is_atomic(data_type.key, *STRINGS):
        raise InvalidOptionError(
            f"Option 'file-index.{kind}.columns' names a value of the column {column!r}, which is "
            f"{type_name(data_type)}; only a MAP with text keys has such values."
        )
    return data_type.value


class TableFileIndexWriter:
    """FileIndexWriter of the indexes that a table's options request. Batches have the columns by name."""

    def __init__(self, spec: FileIndexSpec) -> None:
        self._threshold = spec.in_manifest_threshold
        self._writers = [(c, KINDS[c.kind].writer(c.form, c.options)) for c in spec.columns]

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows as for FileIndexWriter.add."""
        for column, writer in self._writers:
            writer.add(_values(batch, column))

    def finish(self) -> FileIndexes | None:
        """Return the indexes as for FileIndexWriter.finish."""
        columns: dict[str, dict[str, bytes | None]] = {}
        for column, writer in self._writers:
            content = writer.finish()
            if content is not None:
                columns.setdefault(column.name, {})[column.kind] = content
        if not columns:
            return None
        container = encode_container(columns)
        if len(container) > self._threshold:
            # Indexes in a manifest are protected by the manifest's checksums.
            return FileIndexes(file=encode_container(columns, checksums=True))
        return FileIndexes(embedded=container)


def _values(batch: pa.RecordBatch, column: IndexedColumn) -> Array:
    values: Any = batch.column(column.column)
    if column.key is not None:
        # By use: readers load the kinds of index, and none of Arrow's functions.
        import pyarrow.compute as pc

        values = pc.map_lookup(values, pa.scalar(column.key), "first")
    found: Array = values
    return found
