"""Reads data files of one table as columns of the current schema, whatever schema they were written with."""

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from interbed.storage.base.arrays import Mask, Positions
from interbed.storage.base.arrow_values import from_numpy
from interbed.storage.base.errors import SchemaMismatchError
from interbed.storage.base.predicate.expr import AlwaysTrue, Predicate
from interbed.storage.base.prefetch import chain_prefetched
from interbed.storage.base.types.data_type import DataField
from interbed.storage.files.deletion_vectors import DeletionVector
from interbed.storage.files.file_index.api import EVERYTHING, Selection
from interbed.storage.files.file_index.evaluate import has_index, select_rows
from interbed.storage.files.format.api import DecodeTally, ReadChecks, data_file_errors
from interbed.storage.files.format.readers import reader_for
from interbed.storage.io.api import FileIO
from interbed.storage.lsm.sort_merge import BLOCK_ROWS
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.manifest.entry import DataFileMeta
from interbed.storage.meta.schema.evolution import FileMapping, keeps_values, map_fields
from interbed.storage.meta.schema.system_fields import (
    SEQUENCE_NUMBER_FIELD,
    STORED_TRACKING_FIELDS,
    VALUE_KIND_FIELD,
)
from interbed.storage.meta.schema.table_schema import TableSchema

ROW_INDEX = "__paimon_row_index"
"""The column of positions in the file, counted from 0, under the name that Paimon gives it in Spark."""
BLOCK_BYTES = 64 << 20
"""The approximate limit of a block of rows in memory, over all columns."""
FULL_BLOCK_READERS = 2
"""The number of full blocks that may be in memory at once; with more threads blocks are smaller."""
_MIN_BLOCK_ROWS = 1_024
MAX_INDEXED_ROWS = 2**31 - 1
"""Rows of a file up to which its indexes are used: Java's bitmaps have positions of 31 bits."""
_PREFETCHED_FILES = 16
_PREFETCHED_BYTES = 8 << 20
"""Limits of the remote files that are open at once: the one that is read, and those that are prefetched."""
EXPANSION = 4
"""The assumed ratio of the size of rows in memory to that in a compressed file; a conservative estimate."""


_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """Options of reading one data file: the rows and the system columns.

    Rows that are `deleted` are left out, and so are rows whose positions are not in `wanted`, which ascends.
    `predicate` may skip parts of the file that cannot match; rows are not filtered otherwise. `with_sequence` adds
    `_SEQUENCE_NUMBER`, `with_kind` adds `_VALUE_KIND`, `with_position` adds ROW_INDEX, in this order.
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
    """Reads files of a table as batches of the given fields; caches the mapping of each schema.

    Decoded bytes are counted in the tally, if there is one.
    """

    def __init__(self, store: FileStore, fields: Sequence[DataField], tally: DecodeTally | None = None) -> None:
        self._store = store
        self._fields = tuple(fields)
        self._tally = tally
        self._tracks_rows = store.schema.core.row_tracking_enabled
        # By schema, and by the system columns that are read.
        self._mappings: dict[tuple[int, bool, bool], FileMapping] = {}
        self._lock = threading.Lock()

    @property
    def file_io(self) -> FileIO:
        """The file system of the table."""
        return self._store.file_io

    @property
    def has_slow_requests(self) -> bool:
        """Whether the files are in a remote file system, whose requests have latency."""
        return self._store.file_io.capabilities.slow_requests

    def __reduce__(self) -> tuple[Any, ...]:
        return FileRead, (self._store.read_only(), self._fields)

    def opens_at_once(self, file: DataFileMeta) -> bool:
        """Return whether `opened` requests the first rows at once, so that files are opened concurrently."""
        return self.has_slow_requests and file.format == "parquet"

    def batches(self, file: DataFileMeta, path: str, options: ReadOptions) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the file: the fields, then the columns of the options. Raises what FormatReader raises."""
        yield from self.opened(file, path, options)

    def opened(
        self, file: DataFileMeta, path: str, options: ReadOptions, *, file_io: FileIO | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Open a file, at once if `opens_at_once` is true, and return its rows as `batches` does."""
        deleted, wanted, predicate = options.deleted, options.wanted, options.predicate
        if self._tracks_rows and predicate is not None:
            # By use, here and below: reads of other tables do not load functions of Arrow for it.
            from interbed.storage.lsm.row_ids import positions_in, within_file

            wanted = positions_in(file, predicate, wanted)
            predicate = within_file(self._store.schema, file, predicate)
        mapping = self._mapping(file.schema_id, options.with_sequence, options.with_kind)
        found = reader_for(file.format, path).positioned(
            path,
            mapping.file_fields,
            file_io=file_io or self._store.file_io,
            batch_rows=options.batch_rows,
            predicate=mapping.file_predicate(predicate),
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
                    kept = kept_rows(position, batch.num_rows, deleted, wanted)
                    mapped = mapping.apply(batch if kept is None else batch.filter(from_numpy(kept)))
                    if self._tracks_rows:
                        mapped = _with_row_ids(mapped, file, position, batch.num_rows, kept)
                if options.with_position:
                    positions = np.arange(position, position + batch.num_rows)
                    mapped = mapped.append_column(ROW_INDEX, from_numpy(positions if kept is None else positions[kept]))
                yield mapped

        return rows()

    def selected(self, file: DataFileMeta, path: str, predicate: Predicate) -> Selection:
        """Return the rows of a file that may match by its indexes; raises what FormatReader raises."""
        if not has_index(file) or file.row_count > MAX_INDEXED_ROWS:
            return EVERYTHING
        if self._tracks_rows:
            from interbed.storage.lsm.row_ids import of_table

            predicate = of_table(self._store.schema, predicate)
        inside = self._mapping(file.schema_id, False, False).file_predicate(predicate)
        if inside is None or isinstance(inside, AlwaysTrue):
            return EVERYTHING
        fields = {f.name: f for f in self._written(file.schema_id).fields}
        with data_file_errors(path):
            return select_rows(file, path, fields, inside, self._store.file_io)

    def _check_newer(self, mapping: FileMapping) -> None:
        """Raise SchemaMismatchError when files that are newer than the opened table may hold values that do not fit."""
        for target, source in zip(mapping.read_fields, mapping.sources, strict=True):
            if source is not None and not keeps_values(source.type, target.type):
                raise SchemaMismatchError(
                    f"The column {target.name!r} of the table at {self._store.location} was {target.type} when it was "
                    f"opened; newer files hold {source.type}. Open the table again (Table.refresh)."
                )

    def _written(self, schema_id: int) -> TableSchema:
        return self._store.schema_of(schema_id)

    def _mapping(self, schema_id: int, with_sequence: bool, with_kind: bool) -> FileMapping:
        key = (schema_id, with_sequence, with_kind)
        with self._lock:
            mapping = self._mappings.get(key)
            if mapping is None:
                system = [SEQUENCE_NUMBER_FIELD] * with_sequence + [VALUE_KIND_FIELD] * with_kind
                written = self._written(schema_id)
                stored = STORED_TRACKING_FIELDS if self._tracks_rows else ()
                mapping = map_fields([*self._fields, *system], [*written.fields, *stored, *system])
                if schema_id > self._store.schema.id:
                    self._check_newer(mapping)
                self._mappings[key] = mapping
            return mapping


def prefetched_files(sources: Sequence[Callable[[], Iterator[_T]]], files: Sequence[DataFileMeta]) -> Iterator[_T]:
    """Yield the contents of remote files one after the other, and prefetch the next files."""
    return chain_prefetched(sources, [f.file_size for f in files], most=_PREFETCHED_FILES, weight=_PREFETCHED_BYTES)


def _with_row_ids(
    batch: pa.RecordBatch, file: DataFileMeta, position: int, rows: int, kept: Mask | None
) -> pa.RecordBatch:
    from interbed.storage.lsm.row_ids import with_row_ids

    return with_row_ids(batch, file, position, rows, kept)


def kept_rows(position: int, rows: int, deleted: DeletionVector | None, wanted: Positions | None) -> Mask | None:
    """Return the mask of the rows of a batch to keep; None for all."""
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
    """Return the number of rows of these files to hold in memory at once, while `readers` threads do the same."""
    rows = sum(f.row_count for f in files)
    size = sum(f.file_size for f in files)
    if not size:
        return BLOCK_ROWS
    budget = BLOCK_BYTES * FULL_BLOCK_READERS // max(readers, FULL_BLOCK_READERS)
    return max(_MIN_BLOCK_ROWS, min(BLOCK_ROWS, budget * rows // (size * EXPANSION)))
