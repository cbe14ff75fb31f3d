"""Spilled parts of write buffers: sorted runs on local disk, which wait there until they are flushed.

Each run is a file in Arrow's IPC stream format, compressed by `spill-compression`, in a scratch directory of this
process (see io.scratch). Runs consist of small batches, so that many runs can be merged in little memory. Source:
documentation page `maintenance/write-performance`, write buffer.
"""

import contextlib
import os
import threading
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from interbed.storage.base.errors import CorruptFileError
from interbed.storage.io.scratch import local_disk_errors, new_scratch_directory, remove_scratch_directory
from interbed.storage.meta.options.core import CoreOptions

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
