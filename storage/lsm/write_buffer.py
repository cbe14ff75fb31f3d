"""Write buffers: the memory in which rows wait to be flushed, shared by all buckets of one writer, and the sorted runs
on local disk to which they are spilled.

The buffer of a bucket keeps its rows as batches in order of arrival. The pool counts the bytes of all buffers. Whenever
they exceed its capacity (`write-buffer-size`), the largest buffer is spilled to local disk (`write-buffer-spillable`)
or flushed, so that files become large although many buckets share little memory.

Each spilled run is a file in Arrow's IPC stream format, compressed by `spill-compression`, in a scratch directory of
this process (see io.scratch). Runs consist of small batches, so that many runs can be merged in little memory. Source:
documentation page `maintenance/write-performance`, write buffer.
"""

import contextlib
import logging
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from interbed.storage.base.arrow_values import from_numpy
from interbed.storage.base.errors import CorruptFileError, StorageAccessError
from interbed.storage.io.scratch import local_disk_errors, new_scratch_directory, remove_scratch_directory
from interbed.storage.meta.options.core import CoreOptions
from interbed.storage.meta.schema.table_schema import VALUE_KIND

BATCH_BYTES = 512 << 10
"""The approximate size of a batch in memory. A merge holds at least one batch of each run."""
_HINT = "bound what is spilled by 'write-buffer-spill.max-disk-size'"


@dataclass(frozen=True, slots=True, kw_only=True)
class SpilledRun:
    """One file of spilled rows, with the properties of a record batch.

    `nbytes` is the size of the rows in memory, `disk_size` the size of the file, both in bytes.
    """

    path: str
    schema: pa.Schema
    num_rows: int
    nbytes: int
    disk_size: int

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the batches as they were written; raises CorruptFileError naming the file."""
        try:
            with pa.OSFile(self.path, "rb") as source, pa.ipc.open_stream(source) as reader:
                yield from reader
        except (OSError, pa.ArrowException) as error:
            raise CorruptFileError(
                f"The spilled write buffer {self.path} can't be read: {error}. Nothing was committed, so write the "
                "rows again; if something tidies that directory up, set the environment variable TMPDIR to another one."
            ) from error


class SpillFiles:
    """The spilled runs of one writer, in a directory that the first run creates. Safe for several threads.

    `max_bytes` limits their bytes on disk (`write-buffer-spill.max-disk-size`; None for no limit). No run is started
    after the limit is reached.
    """

    def __init__(self, *, max_bytes: int | None, codec: str | None, zstd_level: int = 1) -> None:
        self._max_bytes = max_bytes
        compression: Any = None
        if codec is not None:
            named: Any = codec
            compression = pa.Codec(named, zstd_level) if codec == "zstd" else pa.Codec(named)
        # Most runs are small, and other threads are compacting.
        self._write_options = pa.ipc.IpcWriteOptions(compression=compression, use_threads=False)
        self._guard = threading.Lock()
        self._directory: Path | None = None
        self._count = 0
        self.bytes = 0

    @staticmethod
    def of(options: CoreOptions) -> "SpillFiles":
        """Return the spill files of a write buffer with the table's options."""
        return SpillFiles(
            max_bytes=options.write_buffer_spill_max_disk_size,
            codec=options.spill_codec,
            zstd_level=options.spill_zstd_level,
        )

    @staticmethod
    def of_sort(options: CoreOptions) -> "SpillFiles":
        """Return the spill files of a sort with the table's options; the limit of write buffers does not apply."""
        return SpillFiles(max_bytes=None, codec=options.spill_codec, zstd_level=options.spill_zstd_level)

    @property
    def has_room(self) -> bool:
        """Whether one more run may be written."""
        return self._max_bytes is None or self.bytes < self._max_bytes

    def write(self, batches: Iterable[pa.RecordBatch]) -> SpilledRun | None:
        """Write a run of these batches, which have one schema; return None if there are no batches.

        Raises StorageAccessError if the write to local disk fails; the file is deleted then.
        """
        path = self._new_path()
        rows = size = 0
        schema: pa.Schema | None = None
        try:
            with local_disk_errors(path, _HINT), pa.OSFile(path, "wb") as sink, contextlib.ExitStack() as stack:
                writer: Any = None
                for batch in batches:
                    if writer is None:
                        schema = batch.schema
                        writer = stack.enter_context(pa.ipc.new_stream(sink, schema, options=self._write_options))
                    writer.write_batch(batch)
                    rows += batch.num_rows
                    size += batch.nbytes
        except BaseException:
            _unlink(path)
            raise
        if schema is None:
            _unlink(path)
            return None
        run = SpilledRun(path=path, schema=schema, num_rows=rows, nbytes=size, disk_size=os.path.getsize(path))
        with self._guard:
            self.bytes += run.disk_size
        return run

    def delete(self, run: SpilledRun) -> None:
        """Delete the file of a run; never raises."""
        _unlink(run.path)
        with self._guard:
            self.bytes -= run.disk_size

    def close(self) -> None:
        """Delete the files of all runs; never raises."""
        with self._guard:
            directory, self._directory = self._directory, None
            self.bytes = 0
        if directory is not None:
            remove_scratch_directory(directory)

    def _new_path(self) -> str:
        with self._guard:
            if self._directory is None:
                self._directory = new_scratch_directory("spill")
                weakref.finalize(self, remove_scratch_directory, self._directory)
            self._count += 1
            return f"{self._directory}/{self._count}.arrows"


def _unlink(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)


_log = logging.getLogger(__name__)

Kinds: TypeAlias = "pa.Array[Any]"
"""Row kinds as int8."""
Join: TypeAlias = Callable[[Sequence[pa.RecordBatch]], pa.RecordBatch]
Run: TypeAlias = pa.RecordBatch | SpilledRun
"""Rows that wait to be flushed, in memory or on local disk."""

SMALL_CHUNKS = 32
"""After this many small batches in succession they are joined, which frees the larger batches they are slices of."""
SMALL_ROWS = 4096
RUN_ROWS = 32_768
"""A batch of at least this many rows is spilled as its own run; the flush merges it with others."""
MAX_SLICED_BYTES = 64 << 20
"""Bytes of small batches that may be slices of larger ones. Above it all of them are copied to their own memory.

Until then the pool also holds the larger batches, in excess of its capacity."""
_COLUMN_OVERHEAD_BYTES = 256
"""The overhead of an Arrow array beside its values: most of the memory if many buckets get few rows each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spill:
    """How a buffer spills: `arrange` merges several runs, oldest first, into one run of small batches.

    At most `fan_in` runs are left when the buffer is flushed; more runs are merged before. None is no limit.
    """

    files: SpillFiles
    arrange: Callable[[Sequence[Run]], Iterator[pa.RecordBatch]]
    fan_in: int | None = None


class WriteBuffer:
    """Buffered rows of one bucket in order of arrival; `join` makes one batch of several.

    `rows` counts all rows, `bytes` is the size of those in memory.
    """

    def __init__(self, join: Join, spill: Spill | None = None) -> None:
        self.rows = 0
        self.bytes = 0
        self._join = join
        self._spill = spill
        self._spilled: list[SpilledRun] = []
        self._chunks: list[pa.RecordBatch] = []
        self._small = 0

    def append(self, batch: pa.RecordBatch) -> None:
        """Add a batch of rows, without copying it."""
        self._chunks.append(batch)
        self.rows += batch.num_rows
        self.bytes += _size(batch)
        self._small = self._small + 1 if batch.num_rows < SMALL_ROWS else 0
        if self._small == SMALL_CHUNKS:
            self.join_small()

    def spill(self) -> bool:
        """Spill the rows in memory to local disk; return False, and keep them, if spilling is off or at its limit."""
        if self._spill is None or not self._chunks or not self._spill.files.has_room:
            return False
        try:
            for group in _spill_groups(self._chunks):
                run = self._spill.files.write(self._spill.arrange(group))
                self._chunks = self._chunks[len(group) :]
                self.rows -= sum(c.num_rows for c in group)
                if run is not None:
                    self.rows += run.num_rows
                    self._spilled.append(run)
        except StorageAccessError as error:
            _log.warning("%s The buffered rows are flushed to the table instead.", error)
            return False
        self.bytes = self._small = 0
        return True

    def take(self) -> list[Run]:
        """Remove and return all rows, oldest first. `release` deletes the spilled runs."""
        if self._spill is not None and self._spill.fan_in is not None:
            self._reduce(self._spill, self._spill.fan_in)
        runs: list[Run] = [*self._spilled, *self._chunks]
        self._spilled, self._chunks = [], []
        self.rows = self.bytes = self._small = 0
        return runs

    def clear(self) -> None:
        """Drop all rows of the buffer; never raises."""
        self.release(self._spilled)
        self._spilled, self._chunks = [], []
        self.rows = self.bytes = self._small = 0

    def release(self, runs: Sequence[Run]) -> None:
        """Delete spilled runs that `take` returned; never raises."""
        for run in runs:
            if isinstance(run, SpilledRun) and self._spill is not None:
                self._spill.files.delete(run)

    def _reduce(self, spill: Spill, fan_in: int) -> None:
        while len(self._spilled) > fan_in:
            old, self._spilled = self._spilled, []
            for start in range(0, len(old), fan_in):
                group = old[start : start + fan_in]
                merged = spill.files.write(spill.arrange(group))
                self._spilled += [] if merged is None else [merged]
                self.release(group)

    def join_small(self) -> None:
        """Join the small batches at the end into one batch with its own memory."""
        if not self._small:
            return
        small = self._chunks[-self._small :]
        joined = self._join(small) if len(small) > 1 else _copied(small[0])
        self._chunks[-self._small :] = [joined]
        self.rows += joined.num_rows - sum(c.num_rows for c in small)
        self.bytes += _size(joined) - sum(_size(c) for c in small)
        self._small = 0


def concatenate(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Concatenate batches. If some batches have row kinds, those without consist of insertions."""
    if len(batches) == 1:
        return batches[0]
    joined: pa.RecordBatch = pa.concat_batches(with_same_columns(batches))  # type: ignore[attr-defined]  # The stubs lack it.
    return joined


def with_same_columns(batches: Sequence[pa.RecordBatch]) -> Sequence[pa.RecordBatch]:
    """Return the batches, all of them with row kinds if any has them."""
    have = [b.schema.get_field_index(VALUE_KIND) >= 0 for b in batches]
    if all(have) or not any(have):
        return batches
    return [b if has else with_kinds(b, insertions(b.num_rows)) for b, has in zip(batches, have, strict=True)]


def with_kinds(batch: pa.RecordBatch, kinds: Kinds) -> pa.RecordBatch:
    """Return the batch with row kinds as its last column."""
    return pa.RecordBatch.from_arrays([*batch.columns, kinds], names=[*batch.schema.names, VALUE_KIND])


def insertions(rows: int) -> "Kinds":
    """Return the row kinds of this many insertions."""
    return from_numpy(np.zeros(rows, np.int8))


class WriteBufferPool:
    """Accounts for the buffers that share a capacity in bytes."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.bytes = 0
        self._sliced_bytes = 0
        self._members: dict[WriteBuffer, Callable[[], None]] = {}

    def register(self, buffer: WriteBuffer, relieve: Callable[[], None]) -> None:
        """Add a buffer to the pool; `relieve` spills or flushes it."""
        self._members[buffer] = relieve

    def append(self, buffer: WriteBuffer, batch: pa.RecordBatch) -> None:
        """Add rows to a buffer; relieve the largest buffers while the pool exceeds its capacity."""
        before = buffer.bytes
        buffer.append(batch)
        self.bytes += buffer.bytes - before
        if batch.num_rows < SMALL_ROWS:
            self._sliced_bytes += batch.nbytes
            if self._sliced_bytes > MAX_SLICED_BYTES:
                self._copy_slices()
        while self.bytes > self.capacity:
            self._relieve(max(self._members, key=lambda b: b.bytes))

    def _copy_slices(self) -> None:
        for member in self._members:
            before = member.bytes
            member.join_small()
            self.bytes += member.bytes - before
        self._sliced_bytes = 0

    def _relieve(self, buffer: WriteBuffer) -> None:
        self.bytes -= buffer.bytes
        self._members[buffer]()

    def clear(self) -> None:
        """Drop all buffers and their rows."""
        for buffer in self._members:
            buffer.clear()
        self._members.clear()
        self.bytes = self._sliced_bytes = 0


def _spill_groups(chunks: Sequence[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    """Group batches into runs: a large batch is a run of its own, consecutive small ones make one run."""
    small: list[pa.RecordBatch] = []
    for chunk in chunks:
        if chunk.num_rows < RUN_ROWS:
            small.append(chunk)
            continue
        if small:
            yield small
            small = []
        yield [chunk]
    if small:
        yield small


def _copied(batch: pa.RecordBatch) -> pa.RecordBatch:
    copied: pa.RecordBatch = pa.concat_batches([batch])  # type: ignore[attr-defined]  # The stubs lack it.
    return copied


def _size(batch: pa.RecordBatch) -> int:
    return batch.nbytes + _COLUMN_OVERHEAD_BYTES * batch.num_columns
