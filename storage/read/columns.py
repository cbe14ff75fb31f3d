"""The columns of a read: those of the result, those that its filter needs, and the positions of rows in files, with
deletion vectors of the files of splits.

A read of rows with their positions (append tables only) has columns with Paimon's names in Spark: `__paimon_file_path`
and `__paimon_row_index`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import Any, TypeAlias

import pyarrow as pa

from interbed.storage.base.errors import InvalidInputError
from interbed.storage.base.memory_cache import MemoryCache
from interbed.storage.base.predicate.evaluate import mask
from interbed.storage.base.predicate.expr import AlwaysTrue, Predicate, bind, columns_of
from interbed.storage.base.types.arrow import fields_to_schema
from interbed.storage.base.types.column_names import check_asked_once
from interbed.storage.base.types.data_type import DataField
from interbed.storage.files.deletion_vectors import DeletionVector, read_index_file, vectors_in
from interbed.storage.files.file_index.api import EVERYTHING
from interbed.storage.io.api import FileIO
from interbed.storage.lsm.file_read import ROW_INDEX, FileRead, ReadOptions, block_rows
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.manifest.entry import DataFileMeta
from interbed.storage.meta.manifest.index_manifest import DeletionVectorRange
from interbed.storage.meta.schema.system_fields import readable_by_name
from interbed.storage.meta.schema.table_schema import TableSchema
from interbed.storage.scan.split import DeletionFile, Split


@dataclass(frozen=True)
class ReadColumns:
    """Columns of a read: `names` are returned, `fields` are read; `predicate` is None if it keeps every row."""

    names: tuple[str, ...]
    fields: tuple[DataField, ...]
    predicate: Predicate | None

    @staticmethod
    def of(table: TableSchema, columns: Sequence[str] | None, predicate: Predicate | None) -> "ReadColumns":
        """Return the columns of a read, all of the table for None; its hidden columns by their names.

        Raises InvalidInputError for an unknown or duplicate column, FilterError for a predicate that does not fit the
        table.
        """
        names = table.names if columns is None else tuple(columns)
        check_asked_once(names)
        known = readable_by_name(table)
        for name in names:
            if name not in known:
                raise InvalidInputError(f"The table has no column {name!r}; it has {', '.join(table.names)}.")
        bound = None if predicate is None else bind(predicate, tuple(known.values()))
        if isinstance(bound, AlwaysTrue):
            bound = None
        filtered = () if bound is None else sorted(columns_of(bound))
        return ReadColumns(names, tuple(known[name] for name in dict.fromkeys((*names, *filtered))), bound)

    @cached_property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the result."""
        return fields_to_schema(self.fields[: len(self.names)])

    def kept(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows that the predicate keeps, with all columns."""
        return batch if self.predicate is None else batch.filter(mask(self.predicate, batch))


CACHED_BYTES = 64 << 20
"""The bytes of index files that a reader caches for later splits."""

DeletedOf: TypeAlias = Callable[[DataFileMeta], DeletionVector | None]
"""Returns the deletion vector of a data file; None without one."""


@dataclass(frozen=True, slots=True)
class _IndexFile:
    content: bytes

    @property
    def nbytes(self) -> int:
        """The size in memory in bytes."""
        return len(self.content)


class DeletionReader:
    """Reads the index files of the splits of one reader; splits whose vectors are in one file share it.

    It caches the index files that were read last, up to `cached_bytes`. Safe for several threads.
    """

    def __init__(self, file_io: FileIO, cached_bytes: int = CACHED_BYTES) -> None:
        self._file_io = file_io
        self._cached_bytes = cached_bytes
        self._cache = MemoryCache()
        self._locks: dict[str, Lock] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        # The cache is empty after unpickling.
        return DeletionReader, (self._file_io, self._cached_bytes)

    def of(self, places: Mapping[str, DeletionFile]) -> DeletedOf:
        """Return the deletion vectors of data files, whose places are given by file name.

        An index file is read when the first of its vectors is requested. The returned function raises CorruptFileError
        naming an index file that can't be read; it is safe for several threads.
        """
        ranges: dict[str, list[DeletionVectorRange]] = {}
        for name, place in places.items():
            ranges.setdefault(place.path, []).append(
                DeletionVectorRange(
                    data_file_name=name, offset=place.offset, length=place.length, cardinality=place.cardinality
                )
            )
        vectors: dict[str, dict[str, DeletionVector]] = {}
        lock = Lock()

        def deleted_of(file: DataFileMeta) -> DeletionVector | None:
            place = places.get(file.file_name)
            if place is None:
                return None
            with lock:
                if place.path not in vectors:
                    vectors[place.path] = dict(vectors_in(self._content(place.path), place.path, ranges[place.path]))
            return vectors[place.path][file.file_name]

        return deleted_of

    def _content(self, path: str) -> bytes:
        # Threads with splits of one index file wait until the first of them has read it.
        with self._locks.setdefault(path, Lock()):
            return self._cache.get(path, lambda: self._read(path), limit=self._cached_bytes).content

    def _read(self, path: str) -> _IndexFile:
        return _IndexFile(read_index_file(self._file_io, path))


def deletions_in(file_io: FileIO, places: Mapping[str, DeletionFile]) -> DeletedOf:
    """Return the deletion vectors of one split, or of files that are read longer than the splits of a reader."""
    return DeletionReader(file_io, cached_bytes=0).of(places)


FILE_PATH = "__paimon_file_path"
__all__ = ["FILE_PATH", "ROW_INDEX", "LocatedRead"]


class LocatedRead:
    """Reads splits of an append table as batches of the requested columns (all for None), then path and position.

    The path of rows that are put together from several files is that of the oldest one. Rows are filtered exactly.
    Safe for several threads. Raises what TableRead raises.
    """

    def __init__(
        self, store: FileStore, columns: Sequence[str] | None = None, predicate: Predicate | None = None
    ) -> None:
        self._store = store
        self._columns = ReadColumns.of(store.schema, columns, predicate)
        self._files = FileRead(store, self._columns.fields)
        self._deletions = DeletionReader(store.file_io)
        self._located = [*self._columns.names, ROW_INDEX]

    def to_batches(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the files of a split, in order, without those that deletion vectors mark."""
        deleted_of = self._deletions.of(split.deletion_files)
        if self._store.options.data_evolution_enabled:
            yield from self._of_groups(split, deleted_of)
            return
        for file in split.files:
            yield from self.file_batches(split, file, deleted_of(file))

    def _of_groups(self, split: Split, deleted_of: DeletedOf) -> Iterator[pa.RecordBatch]:
        # By use: reads of other tables do not load it.
        from interbed.storage.lsm.column_groups import ColumnGroupRead, GroupOptions, row_range_groups

        read = ColumnGroupRead(self._store, self._columns.fields)
        for group in row_range_groups(split.files):
            options = GroupOptions(
                predicate=self._columns.predicate, deleted=deleted_of(group.oldest), with_position=True
            )
            for batch in read.batches(group, split.path_of, options):
                yield from self._with_path(batch, split.path_of(group.oldest))

    def file_batches(
        self, split: Split, file: DataFileMeta, deleted: DeletionVector | None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one file without the deleted ones."""
        path = split.path_of(file)
        predicate = self._columns.predicate
        selection = EVERYTHING
        if predicate is not None and self._store.options.file_index_read_enabled:
            selection = self._files.selected(file, path, predicate)
        if selection.is_empty:
            return
        for batch in self._files.batches(
            file,
            path,
            ReadOptions(
                batch_rows=block_rows(split.files),
                predicate=predicate,
                deleted=deleted,
                wanted=selection.positions(),
                with_position=True,
            ),
        ):
            yield from self._with_path(batch, path)

    def _with_path(self, batch: pa.RecordBatch, path: str) -> Iterator[pa.RecordBatch]:
        rows = self._columns.kept(batch).select(self._located)
        if rows.num_rows:
            yield rows.append_column(FILE_PATH, pa.repeat(pa.scalar(path), rows.num_rows))
