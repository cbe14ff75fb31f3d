"""Evaluation of a filter by the indexes of a data file: the selection of the rows that may match."""

import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

import pyarrow as pa

from interbed.storage.base.errors import CorruptFileError, UnsupportedVersionError
from interbed.storage.base.predicate.expr import And, Leaf, Not, Or, Predicate, leaves_of, push_not
from interbed.storage.base.predicate.operands import InnerReference, Reference, column_of
from interbed.storage.base.types.data_type import DataField, MapType
from interbed.storage.files.file_index.api import (
    EVERYTHING,
    INDEX_SUFFIX,
    IndexContainer,
    IndexReader,
    Selection,
    name_of_key,
)
from interbed.storage.io.api import FileIO
from interbed.storage.meta.manifest.entry import DataFileMeta

_T = TypeVar("_T")


class ColumnReaders:
    """Readers of a container's indexes, decoded at their first use; `fields` are the file's columns by name."""

    def __init__(self, container: IndexContainer, fields: Mapping[str, DataField], name: str) -> None:
        self._container = container
        self._fields = fields
        self._name = name
        self._known: dict[Reference, list[IndexReader]] = {}

    def select(self, predicate: Predicate) -> Selection:
        """Return the rows that may match the predicate, which is over columns of the file; no other row matches."""
        return self._select(push_not(predicate))

    def of(self, column: Reference) -> list[IndexReader]:
        """Return the readers of the indexes of a column, or of one key of a MAP.

        Kinds and types that this version does not know are skipped.
        """
        if column not in self._known:
            field = self._field(column)
            kinds = () if field is None else self._container.columns.get(field.name, ())
            self._known[column] = [r for k in kinds if field is not None and (r := self._reader(field, k)) is not None]
        return self._known[column]

    def _field(self, column: Reference) -> DataField | None:
        """Return the indexed column or key as a field with its name in the container; None for other inner values."""
        field = self._fields.get(column_of(column))
        if field is None or not isinstance(column, InnerReference):
            return field
        match field.type, column.steps:
            # A column of that name would have its indexes under the same name.
            case MapType(value=value), (str() as key,) if (name := name_of_key(field.name, key)) not in self._fields:
                return DataField(field.id, name, value)
            case _:
                return None

    def _reader(self, field: DataField, name: str) -> IndexReader | None:
        # By use: most files have no index.
        from interbed.storage.files.file_index.spec import KINDS, value_form

        kind = KINDS.get(name)
        form = None if kind is None else value_form(kind, field.type)
        content = None if form is None else self._container.content(field.name, name)
        if kind is None or form is None or content is None:
            return None
        try:
            return kind.reader(form, content)
        except (ValueError, IndexError, struct.error) as error:
            raise self._corrupt(field.name, error) from error
        except UnsupportedVersionError as error:
            raise UnsupportedVersionError(f"{self._name} can't be read: {error}") from error

    def _select(self, predicate: Predicate) -> Selection:
        match predicate:
            case And(children):
                found = EVERYTHING
                for child in children:
                    found &= self._select(child)
                    if found.is_empty:
                        break
                return found
            case Or(children) if children:
                found = self._select(children[0])
                for child in children[1:]:
                    if found.rows is None:
                        break
                    found |= self._select(child)
                return found
            case Not() | Or():
                # Only conditions on texts keep a Not, and an index does not support their negation.
                return EVERYTHING
            case _:
                return self._leaf(predicate)

    def _leaf(self, predicate: Predicate) -> Selection:
        found = EVERYTHING
        # A constant has no leaf, and excludes no row.
        for leaf in leaves_of(predicate):
            for reader in self.of(leaf.column):
                found &= self._rows(reader, leaf)
        return found

    def _rows(self, reader: IndexReader, leaf: Leaf) -> Selection:
        try:
            return reader.rows(leaf)
        except UnsupportedVersionError as error:
            raise UnsupportedVersionError(f"{self._name} can't be read: {error}") from error
        except (ValueError, IndexError, struct.error) as error:
            raise self._corrupt(str(leaf.column), error) from error

    def _corrupt(self, column: str, error: Exception) -> CorruptFileError:
        return CorruptFileError(
            f"{self._name} has an index of the column {column!r} that can't be decoded ({error}). Set "
            "'file-index.read.enabled' to 'false' to read without it, and compact the table fully to rewrite it."
        )


def index_file_of(file: DataFileMeta) -> str | None:
    """Return the name of the index file beside the data file. Raises CorruptFileError when there are several."""
    found = [name for name in file.extra_files if name.endswith(INDEX_SUFFIX)]
    if len(found) > 1:
        raise CorruptFileError(f"The data file {file.file_name} has more than one file index: {', '.join(found)}.")
    return found[0] if found else None


def has_index(file: DataFileMeta) -> bool:
    """Return whether the data file has indexes, in the manifest or beside it."""
    return file.embedded_file_index is not None or index_file_of(file) is not None


def with_indexes(
    file: DataFileMeta,
    path: str,
    fields: Mapping[str, DataField],
    file_io: FileIO | None,
    use: Callable[[ColumnReaders], _T],
) -> _T | None:
    """Return the result of `use` for the indexes of a data file at `path`; None when it has no indexes.

    Without `file_io` only indexes in the manifest are used. Raises CorruptFileError and UnsupportedVersionError
    naming the file.
    """
    with open_container(file, path, file_io) as container:
        return None if container is None else use(ColumnReaders(container, fields, container.name))


def index_path(file: DataFileMeta, path: str) -> str | None:
    """Return the path of the index file of the data file at `path`; None when there is no such file."""
    beside = index_file_of(file)
    return None if beside is None else f"{path.rpartition('/')[0]}/{beside}"


@contextmanager
def open_container(file: DataFileMeta, path: str, file_io: FileIO | None) -> Iterator[IndexContainer | None]:
    """Open the container of a data file's indexes for the `with` block; None and errors as for with_indexes."""
    if file.embedded_file_index is not None:
        yield IndexContainer(pa.BufferReader(file.embedded_file_index), f"The manifest's entry of {file.file_name}")
        return
    beside = None if file_io is None else index_path(file, path)
    if file_io is None or beside is None:
        yield None
        return
    try:
        with file_io.open_input(beside) as source:
            yield IndexContainer(source, beside)
    except FileNotFoundError:
        raise CorruptFileError(
            f"The file index {beside} is missing. The snapshot that names it may have expired while it was read; "
            "read the newest. Otherwise set 'file-index.read.enabled' to 'false' to read without it."
        ) from None


def select_rows(
    file: DataFileMeta, path: str, fields: Mapping[str, DataField], predicate: Predicate, file_io: FileIO | None
) -> Selection:
    """Return the rows of a data file that may match a predicate by its indexes; see `with_indexes`."""
    found = with_indexes(file, path, fields, file_io, lambda readers: readers.select(predicate))
    return EVERYTHING if found is None else found
