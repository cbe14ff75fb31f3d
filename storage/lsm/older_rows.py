"""Lookup of older rows: the rows that keys have in the levels below a compaction, in lookup files on local disk.

A lookup file is a data file as Arrow IPC, mapped into memory. Keys and records are two files: the keys in one batch, to
be searched without copying them, the records in batches, of which only the requested ones are read. Rows keep their
order, so that the number of a row is its position in the data file, as in deletion vectors.

A process has one cache of lookup files for each table, which its writers and compactions share. The option
`lookup.cache-max-disk-size` limits its bytes, `lookup.cache-file-retention` the time that an unused file is kept. The
directory is deleted when the process ends.
"""

import os
import shutil
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from interbed.storage.base.arrays import Positions
from interbed.storage.base.arrow_values import from_numpy
from interbed.storage.base.row.binary_row import decode_rows
from interbed.storage.base.types.arrow import fields_to_schema
from interbed.storage.base.types.data_type import DataType
from interbed.storage.files.deletion_vectors import DeletionVector
from interbed.storage.io.scratch import local_disk_errors, new_scratch_directory, remove_scratch_directory
from interbed.storage.lsm.file_read import FileRead, ReadOptions, block_rows
from interbed.storage.lsm.key_words import SortedKeys, comparable_key
from interbed.storage.lsm.levels import Levels, SortedRun
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.manifest.entry import DataFileMeta
from interbed.storage.meta.schema.table_schema import SEQUENCE_NUMBER, VALUE_KIND

_KEYS = "keys.arrow"
_RECORDS = "records.arrow"


class LookupFile:
    """The rows of one data file in key order, each key once. Safe for several threads."""

    def __init__(self, directory: Path, key_names: Sequence[str]) -> None:
        self.directory = directory
        self.bytes = sum(f.stat().st_size for f in directory.iterdir())
        self._keys = _mapped(directory / _KEYS).select(list(key_names)).combine_chunks()
        self._records = _mapped(directory / _RECORDS)
        self._sorted = SortedKeys([_one_array(self._keys.column(n)) for n in key_names])

    @property
    def row_count(self) -> int:
        """The number of rows in the file."""
        return self._keys.num_rows

    def find(self, keys: Sequence["pa.Array[Any]"]) -> Positions:
        """Return for each key the position of its row, -1 if there is none. Keys are columns, in any order of rows."""
        return self._sorted.find(keys)

    def rows(self, positions: Positions, columns: Sequence[str]) -> pa.RecordBatch:
        """Return the records at these positions, in this order."""
        numbers: Any = from_numpy(positions)
        taken = self._records.select(list(columns)).take(numbers).combine_chunks()
        batches = taken.to_batches()
        if batches:
            return batches[0]
        return pa.RecordBatch.from_pylist([], schema=taken.schema)


def write_lookup_file(
    directory: Path, batches: Iterable[pa.RecordBatch], schema: pa.Schema, key_names: Sequence[str]
) -> None:
    """Write the two files of a lookup file into an existing directory; `schema` is the schema of the batches."""
    keys: list[pa.RecordBatch] = []
    with pa.ipc.new_file(str(directory / _RECORDS), schema) as records:
        for batch in batches:
            records.write_batch(batch)
            keys.append(batch.select(list(key_names)))
    key_schema = pa.schema([schema.field(n) for n in key_names])
    table = pa.Table.from_batches(keys, schema=key_schema).combine_chunks()
    with pa.ipc.new_file(str(directory / _KEYS), key_schema) as target:
        target.write_table(table, max_chunksize=max(table.num_rows, 1))


def _one_array(column: "pa.ChunkedArray[Any]") -> "pa.Array[Any]":
    if column.num_chunks == 1:
        chunk: Any = column.chunk(0)
        first: pa.Array[Any] = chunk
        return first
    joined: Any = column.combine_chunks()
    only: pa.Array[Any] = joined
    return only


def _mapped(path: Path) -> pa.Table:
    with pa.memory_map(str(path)) as source:
        # The buffers keep the mapping alive after the file is closed.
        return pa.ipc.open_file(source).read_all()


_HINT = "bound the lookup files by 'lookup.cache-max-disk-size'"
SYSTEM_COLUMNS = (SEQUENCE_NUMBER, VALUE_KIND)


class LookupFiles:
    """The lookup files of one table; safe for several threads.

    Records have all columns of the table's schema, then `_SEQUENCE_NUMBER` and `_VALUE_KIND`.
    """

    def __init__(self, store: FileStore, clock: Callable[[], float] = time.monotonic) -> None:
        self._keys = store.schema.trimmed_primary_keys
        self._schema = fields_to_schema(store.schema.fields)
        self._clock = clock
        self.used_by(store)
        self._known: OrderedDict[str, tuple[LookupFile, float]] = OrderedDict()
        self._building: dict[str, threading.Lock] = {}
        self._guard = threading.Lock()
        self._directory: Path | None = None

    def used_by(self, store: FileStore) -> None:
        """Use this file store for reads and limits from now on; its schema must be the same."""
        self._store = store
        self._files = FileRead(store, store.schema.fields)
        self._max_bytes = store.options.lookup_cache_max_disk_size
        self._retention_seconds = store.options.lookup_cache_file_retention_millis / 1000

    @property
    def bytes(self) -> int:
        """The size on disk in bytes."""
        with self._guard:
            return sum(f.bytes for f, _ in self._known.values())

    def of(self, file: DataFileMeta, path: str) -> LookupFile:
        """Return the lookup file of a data file, building it if needed; raises what FileRead raises."""
        with self._guard:
            known = self._touched(file.file_name)
            lock = self._building.setdefault(file.file_name, threading.Lock())
        if known is not None:
            return known
        with lock:
            with self._guard:
                known = self._touched(file.file_name)
            if known is not None:
                return known
            built = self._build(file, path)
            with self._guard:
                self._known[file.file_name] = (built, self._clock())
                self._building.pop(file.file_name, None)
                self._evict(keep=file.file_name)
            return built

    def discard(self, files: Iterable[DataFileMeta]) -> None:
        """Delete the lookup files of data files that were compacted away; never raises."""
        with self._guard:
            for file in files:
                known = self._known.pop(file.file_name, None)
                if known is not None:
                    # A reader keeps its mapping. The disk space is free after the last mapping is closed.
                    shutil.rmtree(known[0].directory, ignore_errors=True)

    def evict_stale(self) -> bool:
        """Delete files that were unused for longer than the retention; return whether the cache is empty then."""
        with self._guard:
            self._evict(keep="")
            return not self._known and not self._building

    def close(self) -> None:
        """Delete all lookup files of the table."""
        with self._guard:
            self._known.clear()
            directory, self._directory = self._directory, None
        if directory is not None:
            remove_scratch_directory(directory)

    def _touched(self, name: str) -> LookupFile | None:
        found = self._known.get(name)
        if found is None:
            return None
        self._known[name] = (found[0], self._clock())
        self._known.move_to_end(name)
        return found[0]

    def _evict(self, keep: str) -> None:
        now = self._clock()
        total = sum(f.bytes for f, _ in self._known.values())
        for name, (file, used) in list(self._known.items()):
            stale = now - used > self._retention_seconds
            if name == keep or not (stale or (self._max_bytes is not None and total > self._max_bytes)):
                continue
            del self._known[name]
            total -= file.bytes
            shutil.rmtree(file.directory, ignore_errors=True)

    def _build(self, file: DataFileMeta, path: str) -> LookupFile:
        directory = self._home() / file.file_name
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir()
        batches = self._files.batches(
            file, path, ReadOptions(batch_rows=block_rows([file]), with_sequence=True, with_kind=True, use_threads=True)
        )
        system = [pa.field(SEQUENCE_NUMBER, pa.int64()), pa.field(VALUE_KIND, pa.int8())]
        schema = pa.schema([*self._schema, *system])
        columns = [*self._store.schema.names, *SYSTEM_COLUMNS]
        try:
            aligned = (pa.RecordBatch.from_arrays([b.column(n) for n in columns], schema=schema) for b in batches)
            with local_disk_errors(directory, _HINT):
                write_lookup_file(directory, aligned, schema, self._keys)
                return LookupFile(directory, self._keys)
        except BaseException:
            shutil.rmtree(directory, ignore_errors=True)
            raise

    def _home(self) -> Path:
        with self._guard:
            if self._directory is None:
                self._directory = new_scratch_directory("lookup")
                weakref.finalize(self, remove_scratch_directory, self._directory)
            return self._directory


_guard = threading.Lock()
_shared: dict[tuple[Any, ...], LookupFiles] = {}


def shared_lookup_files(store: FileStore) -> LookupFiles:
    """Return this process's cache of lookup files of the table in its schema. Callers do not close it."""
    schema = store.schema
    key = (store.location, schema.id, schema.fields, schema.primary_keys)
    with _guard:
        for other in [k for k, files in _shared.items() if k != key and files.evict_stale()]:
            del _shared[other]
        files = _shared.get(key)
        if files is None:
            files = _shared[key] = LookupFiles(store)
        files.used_by(store)
        return files


def _reset_after_fork() -> None:
    """Drop the caches in a forked process, which must not delete the files of its parent."""
    global _guard, _shared
    _guard, _shared = threading.Lock(), {}


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundRows:
    """Rows found in one file: `keys` are indexes into the requested keys, `positions` the positions of their rows."""

    file: DataFileMeta
    keys: Positions
    positions: Positions


class OlderRows:
    """Finds keys in the levels above a given one, the lowest first, because it has the newest rows."""

    def __init__(
        self,
        files: LookupFiles,
        levels: Levels,
        key_types: Sequence[DataType],
        path_of: Callable[[DataFileMeta], str],
        deleted_of: Callable[[DataFileMeta], DeletionVector | None],
    ) -> None:
        self._files = files
        self._levels = levels
        self._key_types = key_types
        self._path_of = path_of
        self._deleted_of = deleted_of

    def find(self, keys: Sequence["pa.Array[Any]"], *, above: int) -> list[FoundRows]:
        """Return the newest row of each key in levels greater than `above`; the keys ascend.

        Rows that a deletion vector marks are not found. A row that deletes its key is found, and hides older ones.
        """
        left = np.arange(len(keys[0]))
        found: list[FoundRows] = []
        for run in sorted((r for r in self._levels.runs if r.level > above), key=lambda r: r.level):
            for file in self._near(run.run, keys):
                if not len(left):
                    return found
                rest = [_taken(k, left) for k in keys]
                positions = self._files.of(file, self._path_of(file)).find(rest)
                present = positions >= 0
                deleted = self._deleted_of(file)
                if deleted is not None:
                    present &= ~deleted.contains(positions)
                if present.any():
                    found.append(FoundRows(file=file, keys=left[present], positions=positions[present]))
                    left = left[~present]
        return found

    def _near(self, run: SortedRun, keys: Sequence["pa.Array[Any]"]) -> list[DataFileMeta]:
        """Return the files of the run whose key range overlaps that of the keys, which ascend."""
        if not len(keys[0]):
            return []
        low, high = comparable_key(keys, 0), comparable_key(keys, len(keys[0]) - 1)
        least = decode_rows([f.min_key for f in run.files], self._key_types)
        greatest = decode_rows([f.max_key for f in run.files], self._key_types)
        return [
            file
            for i, file in enumerate(run.files)
            if comparable_key(least, i) <= high and comparable_key(greatest, i) >= low
        ]

    def rows(self, found: FoundRows, columns: Sequence[str]) -> pa.RecordBatch:
        """Return the records that were found, in the order of `found.positions`."""
        return self._files.of(found.file, self._path_of(found.file)).rows(found.positions, columns)


def _taken(column: "pa.Array[Any]", numbers: Positions) -> "pa.Array[Any]":
    indices: Any = from_numpy(numbers)
    taken: pa.Array[Any] = pc.take(column, indices, boundscheck=False)
    return taken
