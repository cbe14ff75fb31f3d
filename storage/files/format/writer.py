"""Writing a sequence of data files that rolls at a target size.

A writer takes batches with the files' columns in order and returns a DataFileMeta for each file. Whatever goes wrong,
the files of a writer are deleted and the error is raised.
"""

from typing import Any, Self

import pyarrow as pa

from interbed.storage.base.clock import Clock, local_millis
from interbed.storage.base.fileio.api import FileIO
from interbed.storage.files.file_index.writer import TableFileIndexWriter
from interbed.storage.files.format.data_file_writer import DataFileWriter
from interbed.storage.files.format.layout import DataFileLayout, DataFileNames
from interbed.storage.meta.data_file_place import DataFilePlace
from interbed.storage.meta.manifest.entry import DataFileMeta, FileSource


class RollingFileWriter:
    """Writes rows to as many files of a level as their size asks for; end with `close` or `abort`.

    The level, and whether the files are a `changelog`, decide on format, codec and statistics. Batches have the columns
    of `layout.arrow`. Rows are kept back until they fill a row group, so the writer holds up to a row group
    (ROW_GROUP_BYTES) beside what the encoder needs. Use as a context manager to abort on an error.
    """

    def __init__(
        self,
        file_io: FileIO,
        place: DataFilePlace,
        names: DataFileNames,
        layout: DataFileLayout,
        *,
        level: int,
        source: FileSource,
        changelog: bool = False,
        first_sequence: int | None = None,
        clock: Clock = local_millis,
    ) -> None:
        self._file_io = file_io
        self._place = place
        self._names = names
        self._layout = layout
        self._kind = layout.kinds.at(level, changelog=changelog)
        # Compaction heeds sizes only, and so do changelog files, as in Paimon.
        compacts = changelog or source is FileSource.COMPACT
        self._target_rows = None if compacts else layout.options.target_file_rows
        # A changelog is read from its begin to its end.
        self._indexed = bool(layout.file_indexes.columns) and not changelog
        self._level = level
        self._source = source
        self._next_sequence = first_sequence
        self._clock = clock
        self._current: DataFileWriter | None = None
        self._done: list[DataFileMeta] = []
        self._pending: list[pa.RecordBatch] = []
        self._pending_rows = 0
        self._group_rows = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        if error is not None:
            self.abort()

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows; on an error all files of this writer are deleted before it is raised."""
        if batch.num_rows == 0:
            return
        try:
            offset = 0
            while offset < batch.num_rows:
                if not self._pending:
                    self._group_rows = self._rows_of_group(batch)
                part = batch.slice(offset, self._group_rows - self._pending_rows)
                self._pending.append(part)
                self._pending_rows += part.num_rows
                offset += part.num_rows
                if self._pending_rows == self._group_rows:
                    self._write_group()
        except BaseException:
            self.abort()
            raise

    def end_group(self) -> None:
        """Write the rows that are kept back, so that none are left in memory; errors as of `write`."""
        try:
            self._write_group()
        except BaseException:
            self.abort()
            raise

    def close(self) -> list[DataFileMeta]:
        """Finish the last file; the files in the order of their rows, none when there were no rows."""
        try:
            self._write_group()
            self._finish_file()
        except BaseException:
            self.abort()
            raise
        done, self._done = self._done, []
        return done

    def abort(self) -> None:
        """Delete all files of this writer; never raises."""
        self._pending.clear()
        self._pending_rows = 0
        if self._current is not None:
            self._current.abort()
            self._current = None
        self._file_io.delete_quietly([path for f in self._done for path in f.paths_in(self._place.directory)])
        self._done.clear()

    def _write_group(self) -> None:
        if not self._pending:
            return
        if self._current is None:
            self._current = DataFileWriter(
                self._file_io,
                self._place.take(self._names.take(self._kind.extension)),
                self._layout,
                self._kind,
                level=self._level,
                source=self._source,
                first_sequence=self._next_sequence,
                indexes=TableFileIndexWriter(self._layout.file_indexes) if self._indexed else None,
                clock=self._clock,
            )
        self._current.write(self._pending)
        self._pending = []
        self._pending_rows = 0
        full = self._target_rows is not None and self._current.row_count >= self._target_rows
        if full or self._current.position() >= self._layout.target_size:
            self._finish_file()

    def _rows_of_group(self, batch: pa.RecordBatch) -> int:
        rows = self._layout.group_rows(batch)
        if self._target_rows is None:
            return rows
        written = 0 if self._current is None else self._current.row_count
        return max(1, min(rows, self._target_rows - written))

    def _finish_file(self) -> None:
        if self._current is None:
            return
        self._done.append(self._current.close())
        if self._next_sequence is not None:
            self._next_sequence += self._current.row_count
        self._current = None
