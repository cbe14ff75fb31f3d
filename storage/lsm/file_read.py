"""Reads data files of one table as columns of the current schema, whatever schema they were written with.

In a table with `row-tracking.enabled`, rows have ids and sequence numbers. A file of new rows stores neither: the id of
a row is the file's first row id plus the row's position, and its sequence number is the greatest of the file, the id of
the snapshot that added it. A file that took rows over from other files stores both columns. A null in them stands for
the value that the row would have in a file without the columns. Source: documentation page `append-table/row-tracking`,
Paimon's DataFileRecordReader.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from interbed.storage.base.arrays import Mask, Positions
from interbed.storage.base.arrow_values import from_numpy, scalar_of, to_numpy
from interbed.storage.base.errors import CorruptFileError, SchemaMismatchError
from interbed.storage.base.predicate.expr import AlwaysTrue, Predicate, restrict_to
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
from interbed.storage.meta.manifest.entry import ROW_ID, DataFileMeta
from interbed.storage.meta.schema.evolution import FileMapping, keeps_values, map_fields
from interbed.storage.meta.schema.system_fields import (
    SEQUENCE_NUMBER_FIELD,
    STORED_TRACKING_FIELDS,
    TRACKING_NAMES,
    VALUE_KIND_FIELD,
)
from interbed.storage.meta.schema.table_schema import SEQUENCE_NUMBER, TableSchema

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
            wanted = positions_in(file, predicate, wanted)
            stores_all_ids = file.stores_row_ids and file.first_row_id is None
            predicate = _restricted(self._store.schema, predicate, with_row_ids=stores_all_ids)
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
            predicate = _restricted(self._store.schema, predicate, with_row_ids=False)
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


_IDS_AT_ONCE = 1 << 20


def _restricted(schema: TableSchema, predicate: Predicate, *, with_row_ids: bool) -> Predicate:
    """Return the strongest predicate over the table's own columns, and over row ids if asked for, that holds wherever
    the given one does.
    """
    own = [name for name in schema.names if name not in TRACKING_NAMES]
    return restrict_to(predicate, (*own, ROW_ID) if with_row_ids else own)


def positions_in(file: DataFileMeta, predicate: Predicate, wanted: Positions | None) -> Positions | None:
    """Return those of the wanted positions (None: all) whose row ids the predicate may select; None for all rows.

    A file that stores row ids is not restricted.
    """
    first = file.first_row_id
    if first is None or file.stores_row_ids:
        return wanted
    by_id = restrict_to(predicate, (ROW_ID,))
    if isinstance(by_id, AlwaysTrue):
        return wanted
    if wanted is not None:
        return wanted[_selected(by_id, wanted + first)]
    found = [
        start + np.flatnonzero(_selected(by_id, np.arange(first + start, first + end)))
        for start in range(0, file.row_count, _IDS_AT_ONCE)
        for end in (min(start + _IDS_AT_ONCE, file.row_count),)
    ]
    positions = np.concatenate(found) if found else np.empty(0, np.int64)
    return None if len(positions) == file.row_count else positions


def _selected(predicate: Predicate, ids: Positions) -> Mask:
    # By use, here and below: reads of other tables do not load functions of Arrow for it.
    from interbed.storage.base.predicate.evaluate import mask

    batch = pa.record_batch([from_numpy(ids)], names=[ROW_ID])
    return to_numpy(mask(predicate, batch)).astype(np.bool_)


def _with_row_ids(
    batch: pa.RecordBatch, file: DataFileMeta, position: int, rows: int, kept: Mask | None
) -> pa.RecordBatch:
    """Return the batch with the values of `_ROW_ID` and `_SEQUENCE_NUMBER`, if it has these columns.

    The batch has the `kept` ones (None: all) of `rows` rows of the file that begin at `position`. Raises
    CorruptFileError for a row without an id.
    """
    import pyarrow.compute as pc

    index = batch.schema.get_field_index(SEQUENCE_NUMBER)
    if index >= 0:
        stored: Any = batch.column(index)
        filled: Any = pc.fill_null(stored, scalar_of(file.max_sequence_number, stored.type))
        batch = batch.set_column(index, batch.schema.field(index), filled)
    index = batch.schema.get_field_index(ROW_ID)
    if index < 0:
        return batch
    column: Any = batch.column(index)
    if column.null_count:
        if file.first_row_id is None:
            raise CorruptFileError(
                f"The data file {file.file_name} has rows without ids, and its manifest has no first row id for them."
            )
        positions = np.arange(position, position + rows)
        ids: Any = from_numpy((positions if kept is None else positions[kept]) + file.first_row_id)
        column = ids if column.null_count == len(column) else pc.call_function("coalesce", [column, ids])
    return batch.set_column(index, batch.schema.field(index), column)
