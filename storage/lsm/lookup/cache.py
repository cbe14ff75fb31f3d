"""Lookup files made of data files when they are first asked for, kept on local disk within bounds.

`lookup.cache-max-disk-size` bounds the bytes, `lookup.cache-file-retention` how long a file that nobody uses stays.
The directory goes with the cache, or with the process.
"""

import shutil
import tempfile
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from interbed.storage.lsm.lookup.lookup_file import LookupFile, write_lookup_file
from interbed.storage.manifest.data_file import DataFileMeta
from interbed.storage.read.file_read import FileRead, block_rows
from interbed.storage.schema.table_schema import SEQUENCE_NUMBER, VALUE_KIND
from interbed.storage.store import TableStore
from interbed.storage.types.arrow import fields_to_schema

SYSTEM_COLUMNS = (SEQUENCE_NUMBER, VALUE_KIND)


class LookupFiles:
    """The lookup files of one table; safe for several threads.

    Records have all columns of the table's schema, then `_SEQUENCE_NUMBER` and `_VALUE_KIND`.
    """

    def __init__(self, store: TableStore, clock: Callable[[], float] = time.monotonic) -> None:
        options = store.options
        self._store = store
        self._keys = store.schema.trimmed_primary_keys
        self._files = FileRead(store, store.schema.fields)
        self._schema = fields_to_schema(store.schema.fields)
        self._max_bytes = options.lookup_cache_max_disk_size
        self._retention_seconds = options.lookup_cache_file_retention_millis / 1000
        self._clock = clock
        self._known: OrderedDict[str, tuple[LookupFile, float]] = OrderedDict()
        self._building: dict[str, threading.Lock] = {}
        self._guard = threading.Lock()
        self._directory: Path | None = None

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

    def close(self) -> None:
        """Remove all files."""
        with self._guard:
            self._known.clear()
            directory, self._directory = self._directory, None
        if directory is not None:
            shutil.rmtree(directory, ignore_errors=True)

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
            # Whoever reads it keeps its mapping; the space is free once that is gone.
            del self._known[name]
            total -= file.bytes
            shutil.rmtree(file.directory, ignore_errors=True)

    def _make(self, file: DataFileMeta, path: str) -> LookupFile:
        directory = self._home() / file.file_name
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir()
        batches = self._files.batches(
            file, path, batch_rows=block_rows([file]), with_sequence=True, with_kind=True, use_threads=True
        )
        system = [pa.field(SEQUENCE_NUMBER, pa.int64()), pa.field(VALUE_KIND, pa.int8())]
        schema = pa.schema([*self._schema, *system])
        columns = [*self._store.schema.names, *SYSTEM_COLUMNS]
        try:
            aligned = (pa.RecordBatch.from_arrays([b.column(n) for n in columns], schema=schema) for b in batches)
            write_lookup_file(directory, aligned, schema, self._keys)
            return LookupFile(directory, self._keys)
        except BaseException:
            shutil.rmtree(directory, ignore_errors=True)
            raise

    def _home(self) -> Path:
        with self._guard:
            if self._directory is None:
                self._directory = Path(tempfile.mkdtemp(prefix="interbed-lookup-"))
                weakref.finalize(self, shutil.rmtree, str(self._directory), ignore_errors=True)
            return self._directory
