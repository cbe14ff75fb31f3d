"""Lookup files made of data files when they are first asked for, kept on local disk within bounds.

A process has one cache for each table, which its writers and compactions share one after the other. A table's
`lookup.cache-max-disk-size` bounds the bytes, `lookup.cache-file-retention` how long a file that nobody uses stays. The
directory goes with the process at the latest.
"""

import os
import shutil
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

from interbed.storage.base.fileio.scratch import local_disk_errors, new_scratch_directory, remove_scratch_directory
from interbed.storage.base.types.arrow import fields_to_schema
from interbed.storage.lsm.file_read import FileRead, ReadOptions, block_rows
from interbed.storage.lsm.lookup.lookup_file import LookupFile, write_lookup_file
from interbed.storage.meta.manifest.entry import DataFileMeta
from interbed.storage.meta.schema.table_schema import SEQUENCE_NUMBER, VALUE_KIND
from interbed.storage.meta.store import TableStore

_HINT = "bound the lookup files by 'lookup.cache-max-disk-size'"
SYSTEM_COLUMNS = (SEQUENCE_NUMBER, VALUE_KIND)


class LookupFiles:
    """The lookup files of one table; safe for several threads.

    Records have all columns of the table's schema, then `_SEQUENCE_NUMBER` and `_VALUE_KIND`.
    """

    def __init__(self, store: TableStore, clock: Callable[[], float] = time.monotonic) -> None:
        self._keys = store.schema.trimmed_primary_keys
        self._schema = fields_to_schema(store.schema.fields)
        self._clock = clock
        self.used_by(store)
        self._known: OrderedDict[str, tuple[LookupFile, float]] = OrderedDict()
        self._building: dict[str, threading.Lock] = {}
        self._guard = threading.Lock()
        self._directory: Path | None = None

    def used_by(self, store: TableStore) -> None:
        """Read data files by this store from now on, and keep to the limits of its options; the schema is the same."""
        self._store = store
        self._files = FileRead(store, store.schema.fields)
        self._max_bytes = store.options.lookup_cache_max_disk_size
        self._retention_seconds = store.options.lookup_cache_file_retention_millis / 1000

    @property
    def bytes(self) -> int:
        """Bytes on disk."""
        with self._guard:
            return sum(f.bytes for f, _ in self._known.values())

    def of(self, file: DataFileMeta, path: str) -> LookupFile:
        """The lookup file of a data file; raises what reading the data file raises."""
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
            made = self._make(file, path)
            with self._guard:
                self._known[file.file_name] = (made, self._clock())
                self._building.pop(file.file_name, None)
                self._evict(keep=file.file_name)
            return made

    def forget(self, files: Iterable[DataFileMeta]) -> None:
        """Remove what was made of data files that the table does not need any more; never raises."""
        with self._guard:
            for file in files:
                known = self._known.pop(file.file_name, None)
                if known is not None:
                    # Whoever reads it keeps its mapping; the space is free once that is gone.
                    shutil.rmtree(known[0].directory, ignore_errors=True)

    def evict_stale(self) -> bool:
        """Remove what was not used for too long; whether nothing is left."""
        with self._guard:
            self._evict(keep="")
            return not self._known and not self._building

    def close(self) -> None:
        """Remove all files."""
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

    def _make(self, file: DataFileMeta, path: str) -> LookupFile:
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


def shared_lookup_files(store: TableStore) -> LookupFiles:
    """This process's lookup files of the table in its schema; nobody closes them."""
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


def _forget_in_child() -> None:
    """A forked process leaves its parent's files alone."""
    global _guard, _shared
    _guard, _shared = threading.Lock(), {}


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)
