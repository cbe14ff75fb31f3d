"""Rows by their positions in files: deletion vectors of the files of splits, and reads that return where rows are.

A read of rows with their places (append tables only) has columns with the names that Paimon gives them in Spark:
`__paimon_file_path` and `__paimon_row_index`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any, TypeAlias

import pyarrow as pa

from interbed.storage.base.memory_cache import MemoryCache
from interbed.storage.base.predicate.expr import Predicate
from interbed.storage.files.deletion_vectors import DeletionVector, read_index_file, vectors_in
from interbed.storage.files.file_index.api import EVERYTHING
from interbed.storage.io.api import FileIO
from interbed.storage.lsm.file_read import ROW_INDEX, FileRead, ReadOptions, block_rows
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.manifest.entry import DataFileMeta
from interbed.storage.meta.manifest.index_manifest import DeletionVectorRange
from interbed.storage.read.columns import ReadColumns
from interbed.storage.scan.split import DeletionFile, Split

KEPT_BYTES = 64 << 20
"""Bytes of index files that a reader keeps for the splits to come."""

DeletedOf: TypeAlias = Callable[[DataFileMeta], DeletionVector | None]
"""Which rows of a data file are gone."""


@dataclass(frozen=True, slots=True)
class _IndexFile:
    content: bytes

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return len(self.content)


class DeletionReader:
    """Reads the index files of one reader's splits, each once: splits whose vectors lie in one file share it.

    It keeps those that were read last, up to `kept_bytes`. Threads may share it.
    """

    def __init__(self, file_io: FileIO, kept_bytes: int = KEPT_BYTES) -> None:
        self._file_io = file_io
        self._kept_bytes = kept_bytes
        self._kept = MemoryCache()
        self._turns: dict[str, Lock] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        # What is kept is read anew where it is unpickled.
        return DeletionReader, (self._file_io, self._kept_bytes)

    def of(self, places: Mapping[str, DeletionFile]) -> DeletedOf:
        """Which rows of data files, by their names, are gone, by where their deletion vectors lie.

        An index file is read when the first of its vectors is asked for. What is returned raises CorruptFileError
        naming an index file that can't be read; threads may share it.
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
        # Threads that begin with splits of one index file at the same time wait for the first of them to read it.
        with self._turns.setdefault(path, Lock()):
            return self._kept.get(path, lambda: self._read(path), limit=self._kept_bytes).content

    def _read(self, path: str) -> _IndexFile:
        return _IndexFile(read_index_file(self._file_io, path))


def deletions_in(file_io: FileIO, places: Mapping[str, DeletionFile]) -> DeletedOf:
    """As DeletionReader.of, for one split, or for files that are read for longer than a reader's splits."""
    return DeletionReader(file_io, kept_bytes=0).of(places)


FILE_PATH = "__paimon_file_path"
__all__ = ["FILE_PATH", "ROW_INDEX", "LocatedRead"]


class LocatedRead:
    """Reads splits of an append table as batches of the columns asked for (all when None), then path and position.

    Filtered exactly; may be shared by threads. Raises as TableRead does.
    """

    def __init__(
        self, store: FileStore, columns: Sequence[str] | None = None, predicate: Predicate | None = None
    ) -> None:
        self._store = store
        self._columns = ReadColumns.of(store.schema, columns, predicate)
        self._files = FileRead(store, self._columns.fields)
        self._deletions = DeletionReader(store.file_io)

    def to_batches(self, split: Split) -> Iterator[pa.RecordBatch]:
        """The rows of a split's files, in order; without those that deletion vectors mark."""
        deleted_of = self._deletions.of(split.deletion_files)
        for file in split.files:
            yield from self.file_batches(split, file, deleted_of(file))

    def file_batches(
        self, split: Split, file: DataFileMeta, deleted: DeletionVector | None
    ) -> Iterator[pa.RecordBatch]:
        """The rows of one file without the deleted ones."""
        path = split.path_of(file)
        predicate = self._columns.predicate
        selection = EVERYTHING
        if predicate is not None and self._store.options.file_index_read_enabled:
            selection = self._files.selected(file, path, predicate)
        if selection.is_empty:
            return
        names = [*self._columns.names, ROW_INDEX]
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
            rows = self._columns.kept(batch).select(names)
            if rows.num_rows:
                yield rows.append_column(FILE_PATH, pa.repeat(pa.scalar(path), rows.num_rows))
