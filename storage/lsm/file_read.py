"""Reading data files of one table, whatever schema each was written with, as columns of the schema that is read."""

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from interbed.storage.base.arrays import Mask, Positions
from interbed.storage.base.arrow_values import from_numpy
from interbed.storage.base.predicate.expr import AlwaysTrue, Predicate
from interbed.storage.base.prefetch import chain_prefetched
from interbed.storage.base.types.data_type import DataField
from interbed.storage.files.deletion_vectors import DeletionVector
from interbed.storage.files.file_index.api import EVERYTHING, Selection
from interbed.storage.files.file_index.evaluate import has_index, select_rows
from interbed.storage.files.format.api import DecodeTally, ReadChecks, data_file_errors
from interbed.storage.files.format.file_schema import SEQUENCE_NUMBER_FIELD, VALUE_KIND_FIELD
from interbed.storage.files.format.readers import reader_for
from interbed.storage.io.api import FileIO
from interbed.storage.lsm.sort_merge import BLOCK_ROWS
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.manifest.entry import DataFileMeta
from interbed.storage.meta.schema.evolution import FileMapping, map_fields
from interbed.storage.meta.schema.table_schema import TableSchema

ROW_INDEX = "__paimon_row_index"
"""The column of positions in the file, counted from 0, under the name that Paimon gives it in Spark."""
BLOCK_BYTES = 64 << 20
"""About what a block of rows may take in memory, over all columns."""
FULL_BLOCK_READERS = 2
"""That many blocks of full size may be in memory at once; with more threads blocks are smaller."""
_MIN_BLOCK_ROWS = 1_024
MAX_INDEXED_ROWS = 2**31 - 1
"""Rows of a file up to which its indexes are used: Java's bitmaps have positions of 31 bits."""
_FILES_AT_ONCE = 16
_BEGUN_BYTES = 8 << 20
"""Files of a store that are begun before it is their turn, and the one that is read: many small ones, or two."""
EXPANSION = 4
"""How much larger rows are in memory than in a compressed file; a rough guess on the safe side."""


_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """Which rows and columns of one data file are read, beside the fields of the reader, and how.

    Rows that are `deleted` are left out, and those whose positions are not among `wanted`, which ascend. `predicate`
    may leave out parts of the file that can't satisfy it; rows are not filtered otherwise. `with_sequence` adds
    `_SEQUENCE_NUMBER`, `with_kind` `_VALUE_KIND`, `with_position` ROW_INDEX, in this order.
    """

    batch_rows: int
    predicate: Predicate | None = None
    with_sequence: bool = False
    with_kind: bool = False
    with_position: bool = False
    use_threads: bool = False
    deleted: DeletionVector | None = None
    wanted: Positions | None = None


class FileRead:
    """Reads files of a table as batches of the fields given; keeps the mapping of each schema that it met.

    What is decoded is noted in the tally, if there is one.
    """

    def __init__(self, store: FileStore, fields: Sequence[DataField], tally: DecodeTally | None = None) -> None:
        self._store = store
        self._fields = tuple(fields)
        self._tally = tally
        # By schema and by which of the system columns are read.
        self._mappings: dict[tuple[int, bool, bool], FileMapping] = {}
        self._lock = threading.Lock()

    @property
    def file_io(self) -> FileIO:
        """Where the files are."""
        return self._store.file_io

    @property
    def has_slow_requests(self) -> bool:
        """Whether the files are behind requests to another machine; see FileSystemCapabilities."""
        return self._store.file_io.capabilities.slow_requests

    def __reduce__(self) -> tuple[Any, ...]:
        return FileRead, (self._store.read_only(), self._fields)

    def opens_at_once(self, file: DataFileMeta) -> bool:
        """Whether `opened` asks for the first rows of the file as well, so that they come while others are opened."""
        return self.has_slow_requests and file.format == "parquet"

    def batches(self, file: DataFileMeta, path: str, options: ReadOptions) -> Iterator[pa.RecordBatch]:
        """The file's rows: the fields, then the columns that the options ask for. Raises what FormatReader raises."""
        yield from self.opened(file, path, options)

    def opened(
        self, file: DataFileMeta, path: str, options: ReadOptions, *, file_io: FileIO | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The same of a file that is opened by the call if `opens_at_once` says so, through that FileIO."""
        deleted, wanted = options.deleted, options.wanted
        mapping = self._mapping(file.schema_id, options.with_sequence, options.with_kind)
        found = reader_for(file.format, path).positioned(
            path,
            mapping.file_fields,
            file_io=file_io or self._store.file_io,
            batch_rows=options.batch_rows,
            predicate=mapping.file_predicate(options.predicate),
            wanted=wanted,
            use_threads=options.use_threads,
            checks=ReadChecks(
                rows=file.row_count, size=file.file_size, checksums=self._store.options.read_verify_checksums
            ),
            tally=self._tally,
        )

        def rows() -> Iterator[pa.RecordBatch]:
            for position, batch in found:
                with data_file_errors(path):
                    kept = _kept(position, batch.num_rows, deleted, wanted)
                    mapped = mapping.apply(batch if kept is None else batch.filter(from_numpy(kept)))
                if options.with_position:
                    positions = np.arange(position, position + batch.num_rows)
                    mapped = mapped.append_column(ROW_INDEX, from_numpy(positions if kept is None else positions[kept]))
                yield mapped

        return rows()

    def selected(self, file: DataFileMeta, path: str, predicate: Predicate) -> Selection:
        """The rows of a file outside of which its indexes say that none matches; raises what FormatReader raises."""
        if not has_index(file) or file.row_count > MAX_INDEXED_ROWS:
            return EVERYTHING
        inside = self._mapping(file.schema_id, False, False).file_predicate(predicate)
        if inside is None or isinstance(inside, AlwaysTrue):
            return EVERYTHING
        fields = {f.name: f for f in self._written(file.schema_id).fields}
        with data_file_errors(path):
            return select_rows(file, path, fields, inside, self._store.file_io)

    def _written(self, schema_id: int) -> TableSchema:
        return self._store.schema_of(schema_id)

    def _mapping(self, schema_id: int, with_sequence: bool, with_kind: bool) -> FileMapping:
        key = (schema_id, with_sequence, with_kind)
        with self._lock:
            mapping = self._mappings.get(key)
            if mapping is None:
                system = [SEQUENCE_NUMBER_FIELD] * with_sequence + [VALUE_KIND_FIELD] * with_kind
                written = self._written(schema_id)
                mapping = map_fields([*self._fields, *system], [*written.fields, *system])
                self._mappings[key] = mapping
            return mapping


def files_in_turn(sources: Sequence[Callable[[], Iterator[_T]]], files: Sequence[DataFileMeta]) -> Iterator[_T]:
    """What is read of files of a store one after the other; the next ones are begun before it is their turn."""
    return chain_prefetched(sources, [f.file_size for f in files], most=_FILES_AT_ONCE, weight=_BEGUN_BYTES)


def _kept(position: int, rows: int, deleted: DeletionVector | None, wanted: Positions | None) -> Mask | None:
    """Which rows of a batch are left; None for all."""
    kept = None if deleted is None else deleted.kept(position, rows)
    if wanted is None:
        return kept
    low, high = np.searchsorted(wanted, (position, position + rows))
    if high - low == rows:
        return kept
    asked = np.zeros(rows, np.bool_)
    asked[wanted[low:high] - position] = True
    return asked if kept is None else asked & kept


def block_rows(files: Sequence[DataFileMeta], *, readers: int = 1) -> int:
    """How many rows of these files to hold in memory at once, while `readers` threads do so."""
    rows = sum(f.row_count for f in files)
    size = sum(f.file_size for f in files)
    if not size:
        return BLOCK_ROWS
    room = BLOCK_BYTES * FULL_BLOCK_READERS // max(readers, FULL_BLOCK_READERS)
    return max(_MIN_BLOCK_ROWS, min(BLOCK_ROWS, room * rows // (size * EXPANSION)))
