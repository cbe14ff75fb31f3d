"""The rows of tasks: the requested columns, without deleted and filtered rows.

**Deletes.** Each delete file is read once, however many data files need it. Position deletes and vectors become one
vector for each data file. Equality deletes become a table of keys for all files of a partition (`key_table`). If there
are more keys than memory should hold, they are processed in blocks, and the deleted positions in the data files are
determined before these are read.

**Row lineage.** Version 3 keeps an id for each row, and the sequence number of its last change. A file has columns of
both for rows that came from other files. Otherwise, and where these columns are null, the id is the file's first row id
plus the position in the file, and the number is the file's. Source: Iceberg's table specification, "Row Lineage".
"""

import os
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema, prune_columns
from pyiceberg.types import LongType, NestedField, StringType, StructType

from interbed.iceberg.meta.live_files import LiveFile
from interbed.iceberg.meta.table_metadata import schema_to_arrow
from interbed.iceberg.plan import DataTask, FileReadTask
from interbed.iceberg.read.files import TableFiles
from interbed.iceberg.read.key_table import Array, KeyTable
from interbed.storage.base.arrays import Mask, Positions
from interbed.storage.base.arrow_values import from_numpy
from interbed.storage.base.errors import CorruptFileError, NotSupportedError
from interbed.storage.base.predicate.evaluate import mask
from interbed.storage.base.predicate.expr import Comparison, Op, Predicate, columns_of
from interbed.storage.base.prefetch import PrefetchingIterator, chain_prefetched, map_in_threads, read_in_parallel
from interbed.storage.files.deletion_vectors import EMPTY, DeletionVector, decode
from interbed.storage.files.format.api import data_file_errors
from interbed.storage.io.api import open_sized

ROW_ID = NestedField(2147483540, "_row_id", LongType(), required=False)
LAST_UPDATED = NestedField(2147483539, "_last_updated_sequence_number", LongType(), required=False)


KEYS_MAX = 4_000_000
"""The number of keys in memory at once; each takes some tens of bytes."""


_PATH = NestedField(2147483546, "file_path", StringType(), required=True)


_POSITION = NestedField(2147483545, "pos", LongType(), required=True)


_POSITION_DELETES = Schema(_PATH, _POSITION)


_POSITIONS_ALONE = Schema(_POSITION)


_AT_ONCE = 8
"""The number of delete files of an object store that are opened at the same time."""


_BYTES_AT_ONCE = 64 << 20
"""The total size of equality delete files that are opened at the same time."""


_LARGE_BYTES = 1 << 20
"""The size below which reading a whole file is faster than finding the pages of one path."""


Scope = tuple[tuple[int, ...], int, tuple[object, ...]]
"""Equality deletes that can share a table of keys: by the same columns, of the same partition."""


def with_lineage(batch: pa.RecordBatch, position: int, file: LiveFile) -> pa.RecordBatch:
    """Return the rows, which begin at a position of the file, with nulls of their two lineage columns filled in."""
    ids, numbers = batch.column(ROW_ID.name), batch.column(LAST_UPDATED.name)
    if file.first_row_id is not None:
        first = file.first_row_id + position
        ids = pc.coalesce(ids, from_numpy(np.arange(first, first + batch.num_rows, dtype=np.int64)))
        # Rows without an id get one in the file that they are written to, where they are new.
        numbers = pc.coalesce(numbers, _number(file.sequence_number))
    changed = {ROW_ID.name: ids, LAST_UPDATED.name: numbers}
    columns = [changed.get(name, column) for name, column in zip(batch.schema.names, batch.columns, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _number(value: int) -> Any:
    """Return a scalar, whose type the stubs of pyarrow do not accept in place of an array."""
    return pa.scalar(value, pa.int64())


MAX_THREADS = 8
"""More threads seldom speed up a single read, and each holds a batch."""


def scope_of(file: LiveFile) -> Scope:
    """Return the scope of an equality delete file."""
    return file.equality_ids, file.spec_id, file.partition


class KeyColumns:
    """The columns of a key, which may be nested, in the order of their ids."""

    def __init__(self, schema: Schema, ids: Sequence[int]) -> None:
        self.schema = prune_columns(schema, set(ids), select_full_types=True)
        self._paths = [_path_to(self.schema.as_struct(), number) for number in ids]
        if not all(self._paths):
            raise NotSupportedError(
                f"Rows are deleted by the column with the id {ids[self._paths.index(())]}, which is in none of the "
                "table's schemas at its outermost level; rewrite the table with the engine that deleted the rows."
            )

    def of(self, batch: pa.RecordBatch) -> list[Array]:
        """Return the key columns of rows that have the columns of the schema, by name.

        For a nested column, the validity of each enclosing ROW is a key column as well: a null in a ROW is another key
        than a null ROW.
        """
        found = []
        for path in self._paths:
            column = batch.column(self.schema.fields[path[0]].name)
            found += [pc.is_valid(_inside(column, path[1:depth])) for depth in range(1, len(path))]
            found.append(_inside(column, path[1:]))
        return found


@dataclass(slots=True)
class FileDeletions:
    """The deletions of one data file."""

    vector: DeletionVector = EMPTY
    keys: list[tuple[KeyColumns, KeyTable]] = field(default_factory=list)

    def kept(self, position: int, batch: pa.RecordBatch, sequence_number: int) -> Mask | None:
        """Return the rows of a batch, which begins at that position, that are not deleted; None for all."""
        kept = self.vector.kept(position, batch.num_rows) if len(self.vector) else None
        for columns, table in self.keys:
            deleted = table.deletes(columns.of(batch), sequence_number)
            if deleted is not None:
                kept = ~deleted if kept is None else kept & ~deleted
        return kept


class DeletedRows:
    """The deletes of all data files of a read. May be shared between threads."""

    def __init__(self, files: TableFiles, schema: Schema, tasks: Iterable[DataTask]) -> None:
        self._files = files
        self._schema = schema
        self._keys_max = KEYS_MAX
        self._lock = threading.Lock()
        self._positions: dict[tuple[str, int | None], Future[dict[str, Positions]]] = {}
        self._positions_lock = threading.Lock()
        self._tables: dict[Scope, tuple[KeyColumns, KeyTable] | None] = {}
        self._by_blocks: dict[str, DeletionVector] | None = None
        self._tasks = tuple(tasks)
        self._scopes: dict[Scope, dict[tuple[str, int | None], LiveFile]] = defaultdict(dict)
        self._users: dict[tuple[str, int | None], set[str]] = defaultdict(set)
        for task in self._tasks:
            for file in task.deletes.equality:
                self._scopes[scope_of(file)][file.place] = file
            for file in task.deletes.positions:
                self._users[file.place].add(task.file.path)

    def key_ids(self, task: DataTask) -> set[int]:
        """Return the columns that are needed to find the deleted rows of a data file."""
        return {number for scope in self._scopes_of(task) if not self._is_large(scope) for number in scope[0]}

    def of(self, task: DataTask) -> FileDeletions:
        """Return the deletions of a data file. Raises what reading files raises."""
        scopes = self._scopes_of(task)
        found = FileDeletions(self._vector_of(task))
        with self._lock:
            for scope in scopes:
                if not self._is_large(scope) and (keys := self._keys(scope)) is not None:
                    found.keys.append(keys)
            if any(map(self._is_large, scopes)):
                found.vector = found.vector.union(self._found_by_blocks().get(task.file.path, EMPTY).positions)
            return found

    def _scopes_of(self, task: DataTask) -> list[Scope]:
        return list(dict.fromkeys(map(scope_of, task.deletes.equality)))

    def _is_large(self, scope: Scope) -> bool:
        return sum(file.records for file in self._scopes[scope].values()) > self._keys_max

    # -- positions -------------------------------------------------------------------------------------------------

    def _vector_of(self, task: DataTask) -> DeletionVector:
        if task.deletes.vector is not None:
            return self._read_vector(task.deletes.vector)
        files = task.deletes.positions
        is_far = bool(files) and self._files.is_far(files[0].path)
        by_file = map_in_threads(self._positions_in, files, most=_AT_ONCE if is_far else 1)
        parts = [found for each in by_file if (found := each.get(task.file.path)) is not None]
        return DeletionVector.of(np.concatenate(parts)) if parts else EMPTY

    def _read_vector(self, file: LiveFile) -> DeletionVector:
        assert file.offset is not None
        assert file.length is not None
        file_io, path = self._files.open(file.path)
        with data_file_errors(path), open_sized(file_io, path, file.size) as source:
            source.seek(file.offset)
            content = source.read(file.length)
        found = decode(content, source=path)
        if len(found) != file.records:
            raise CorruptFileError(
                f"{path} has a deletion vector of {len(found)} rows where its manifest says {file.records}."
            )
        return found

    def _positions_in(self, file: LiveFile) -> dict[str, Positions]:
        with self._positions_lock:
            known = self._positions.get(file.place)
            is_mine = known is None
            if known is None:
                known = self._positions[file.place] = Future()
        if is_mine:
            try:
                known.set_result(self._read_positions(file, self._users[file.place]))
            except BaseException as error:
                # Waiting threads get the same error.
                known.set_exception(error)
                raise
        return known.result()

    def _read_positions(self, file: LiveFile, users: set[str]) -> dict[str, Positions]:
        if file.only_path is not None:
            # All of its rows name this file, so the paths need not be read.
            found = [batch.column(0).to_numpy() for _, batch in self._files.batches(file, _POSITIONS_ALONE)]
            return {file.only_path: np.concatenate(found)} if found else {}
        predicate: Predicate | None = None
        if len(users) == 1 and file.size > _LARGE_BYTES:
            predicate = Comparison(Op.EQ, _PATH.name, next(iter(users)))
        parts: dict[str, list[Positions]] = defaultdict(list)
        for _, batch in self._files.batches(file, _POSITION_DELETES, predicate):
            paths = batch.column(0).dictionary_encode()
            codes = paths.indices.to_numpy()
            positions = batch.column(1).to_numpy()
            for code, path in enumerate(paths.dictionary.to_pylist()):
                if path in users:
                    parts[path].append(positions if len(paths.dictionary) == 1 else positions[codes == code])
        return {path: np.concatenate(found) for path, found in parts.items()}

    # -- keys ------------------------------------------------------------------------------------------------------

    def _keys(self, scope: Scope) -> tuple[KeyColumns, KeyTable] | None:
        """Return the keys of a scope; None if there are none."""
        if scope not in self._tables:
            columns = KeyColumns(self._schema, scope[0])
            table = next(self._key_blocks(scope, columns, None), None)
            self._tables[scope] = None if table is None else (columns, table)
        return self._tables[scope]

    def _key_blocks(self, scope: Scope, columns: KeyColumns, rows_max: int | None) -> Iterator[KeyTable]:
        """Yield the keys of a scope in tables of about `rows_max` keys, all in one table without a bound; nothing
        without keys.
        """
        keys: list[list[Array]] = []
        numbers: list[Positions] = []
        rows = 0
        for file, batch in self._rows_of(tuple(self._scopes[scope].values()), columns.schema):
            keys.append(columns.of(batch))
            numbers.append(np.full(batch.num_rows, file.sequence_number, np.int64))
            rows += batch.num_rows
            if rows_max is not None and rows >= rows_max:
                yield _table_of(keys, numbers)
                keys, numbers, rows = [], [], 0
        if rows:
            yield _table_of(keys, numbers)

    def _rows_of(self, files: Sequence[LiveFile], schema: Schema) -> Iterator[tuple[LiveFile, pa.RecordBatch]]:
        """Yield the rows of files, one after the other; the next files of an object store are opened meanwhile."""

        def rows(file: LiveFile) -> Iterator[tuple[LiveFile, pa.RecordBatch]]:
            return ((file, batch) for _, batch in self._files.batches(file, schema))

        sources = [partial(rows, file) for file in files]
        if self._files.is_far(files[0].path):
            sizes = [file.size for file in files]
            return chain_prefetched(sources, sizes, most=_AT_ONCE, weight=_BYTES_AT_ONCE)
        return chain.from_iterable(source() for source in sources)

    def _found_by_blocks(self) -> dict[str, DeletionVector]:
        """Return the positions that keys delete in scopes with too many keys for one table."""
        if self._by_blocks is not None:
            return self._by_blocks
        found: dict[str, DeletionVector] = {}
        for scope in filter(self._is_large, self._scopes):
            columns = KeyColumns(self._schema, scope[0])
            mine = [task for task in self._tasks if scope in self._scopes_of(task)]
            for table in self._key_blocks(scope, columns, self._keys_max):
                for task in mine:
                    known = found.get(task.file.path, EMPTY)
                    found[task.file.path] = known.union(self._deleted(task.file, columns, table))
        self._by_blocks = found
        return found

    def _deleted(self, file: LiveFile, columns: KeyColumns, table: KeyTable) -> Positions:
        parts: list[Positions] = []
        for position, batch in self._files.batches(file, columns.schema):
            deleted = table.deletes(columns.of(batch), file.sequence_number)
            if deleted is not None:
                parts.append(np.flatnonzero(deleted) + position)
        return np.concatenate(parts) if parts else np.empty(0, np.int64)


class TaskRead:
    """Reads tasks. `schema` are all columns, by which rows may have been deleted; `projected` are the requested
    columns.

    They may include those of row lineage.
    """

    def __init__(
        self, files: TableFiles, schema: Schema, projected: Sequence[int], predicate: Predicate | None
    ) -> None:
        self._files = files
        self._schema = schema
        self._projected = tuple(projected)
        self._predicate = predicate
        names = columns_of(predicate) if predicate is not None else frozenset()
        self._filtered = {field.field_id for field in schema.fields if field.name in names}
        self._has_lineage = ROW_ID.field_id in self._projected
        self._result = _chosen(schema, self._projected)
        self._arrow = schema_to_arrow(self._result)

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows."""
        return self._arrow

    def to_reader(self, tasks: Sequence[FileReadTask], *, threads: int | None = None) -> pa.RecordBatchReader:
        """Return the rows of all tasks. Memory is bounded by some batches and the deletes."""
        deletions = DeletedRows(self._files, self._schema, chain.from_iterable(task.files for task in tasks))
        data = [file for task in tasks for file in task.files]
        count = min(os.cpu_count() or 1, MAX_THREADS) if threads is None else max(threads, 1)
        # If there are more threads than files, columns are decoded in parallel.
        sources = [partial(self._rows, file, deletions, count > len(data)) for file in data]
        count = min(count, len(data))
        # The next files of an object store are opened meanwhile.
        is_far = bool(data) and self._files.is_far(data[0].file.path)
        ahead = min(count, len(data) - count) if is_far else 0
        return pa.RecordBatchReader.from_batches(self._arrow, read_in_parallel(sources, count, ahead=ahead))

    def _rows(self, task: DataTask, deletions: DeletedRows, use_threads: bool) -> Iterator[pa.RecordBatch]:
        wanted = _with(self._schema, self._projected, self._filtered | deletions.key_ids(task))
        names = self._arrow.names
        read = partial(self._files.batches, task.file, wanted, self._predicate, use_threads=use_threads)
        # A file of an object store is prefetched while its deletes are read.
        is_prefetched = bool(task.deletes.files) and self._files.is_far(task.file.path)
        with closing(PrefetchingIterator(read) if is_prefetched else read()) as batches:
            found = deletions.of(task)
            for position, batch in batches:
                kept = found.kept(position, batch, task.file.sequence_number)
                if self._has_lineage:
                    batch = with_lineage(batch, position, task.file)
                if kept is not None:
                    batch = batch.filter(pa.array(kept))
                if self._predicate is not None:
                    batch = batch.filter(mask(self._predicate, batch))
                if batch.num_rows:
                    yield batch if batch.num_columns == len(names) else batch.select(names)


def _chosen(schema: Schema, ids: Sequence[int]) -> Schema:
    """Return the columns with these ids, in their order."""
    return Schema(*(schema.find_field(number) for number in ids))


def _with(schema: Schema, projected: Sequence[int], further: set[int]) -> Schema:
    """Return the projected columns, followed by the outermost columns that hold one of the further ids."""
    more = prune_columns(schema, further, select_full_types=True).fields if further else ()
    return Schema(
        *(schema.find_field(number) for number in projected),
        *(schema.find_field(field.field_id) for field in more if field.field_id not in projected),
    )


def _table_of(keys: list[list[Array]], numbers: list[Positions]) -> KeyTable:
    columns = [pa.concat_arrays(parts) for parts in zip(*keys, strict=True)]
    return KeyTable.of(columns, np.concatenate(numbers))


def _path_to(struct: StructType, number: int) -> tuple[int, ...]:
    """Return the places of the fields on the path to a field."""
    for place, part in enumerate(struct.fields):
        if part.field_id == number:
            return (place,)
        if isinstance(part.field_type, StructType):
            below = _path_to(part.field_type, number)
            if below:
                return (place, *below)
    return ()


def _inside(array: Array, path: tuple[int, ...]) -> Array:
    return pc.struct_field(array, list(path)) if path else array
