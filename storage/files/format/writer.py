"""Writers of data files: of one file, and of a sequence of files that rolls at a target size.

A writer takes batches with the files' columns in order and returns a DataFileMeta for each file, with the metadata that
manifests keep. On any error the files of a writer are deleted and the error is raised; an error of the file system
while a file is written becomes a StorageAccessError that names the file.
"""

from contextlib import suppress
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from interbed.storage.base.arrow_values import scalar_of
from interbed.storage.base.clock import Clock, local_millis
from interbed.storage.base.row.binary_row import encode_rows
from interbed.storage.files.file_index.api import INDEX_SUFFIX, FileIndexes, FileIndexWriter
from interbed.storage.files.file_index.spec import TableFileIndexWriter
from interbed.storage.files.format.api import FileWriter
from interbed.storage.files.format.avro import AvroFileWriter
from interbed.storage.files.format.layout import DataFileKind, DataFileLayout, DataFileNames
from interbed.storage.files.format.orc import OrcFileWriter
from interbed.storage.files.format.parquet_writer import ParquetFileWriter
from interbed.storage.files.format.stats import StatsCollector
from interbed.storage.io.api import FileIO, abort_output, write_errors
from interbed.storage.meta.manifest.entry import EMPTY_ROW, EMPTY_STATS, DataFileMeta, FileSource
from interbed.storage.meta.paths import DataFilePlace, NewFile
from interbed.storage.meta.schema.table_schema import SEQUENCE_NUMBER, VALUE_KIND


def open_writer(kind: DataFileKind, layout: DataFileLayout, sink: Any) -> FileWriter:
    """Return the writer of a file of that kind to a file object that the caller opened and closes."""
    match kind.file_format:
        case "orc":
            return OrcFileWriter(sink, layout.arrow, layout.options, codec=kind.codec)
        case "avro":
            return AvroFileWriter(sink, layout.fields, layout.arrow, layout.options, codec=kind.codec)
        case _:
            return ParquetFileWriter(
                sink,
                layout.arrow,
                layout.options,
                codec=kind.codec,
                page_rows=kind.page_rows,
                ascending=layout.ascending,
            )


class DataFileWriter:
    """Writer of one data file; callers end it with `close` or `abort`.

    `kind` is the file's format, codec and statistics. `first_sequence` is given for files without sequence numbers of
    their own (append tables): rows count up from it. `indexes` get the same rows; their content goes into the metadata,
    or into a file beside the data file.
    """

    def __init__(
        self,
        file_io: FileIO,
        new: NewFile,
        layout: DataFileLayout,
        kind: DataFileKind,
        *,
        level: int,
        source: FileSource,
        first_sequence: int | None = None,
        indexes: FileIndexWriter | None = None,
        clock: Clock = local_millis,
    ) -> None:
        self._file_io = file_io
        self._path = path = new.path
        self._external_path = new.external_path
        self._layout = layout
        self._level = level
        self._source = source
        self._first_sequence = first_sequence
        self._indexes = indexes
        self._clock = clock
        self._values = StatsCollector(layout.value_fields, kind.value_modes, kind.file_format)
        self._keys = StatsCollector(layout.key_fields, kind.key_modes, kind.file_format)
        self._sequences = (1 << 62, -1)
        self._has_new_sequence = False
        self._deletes = 0
        self._first: pa.RecordBatch | None = None
        self._last: pa.RecordBatch | None = None
        self.row_count = 0
        self._started = False
        with write_errors(path):
            self._output = file_io.open_output(path)
            try:
                self._file: FileWriter = open_writer(kind, layout, self._output)
            except BaseException:
                self.abort()
                raise

    def write(self, batches: list[pa.RecordBatch]) -> None:
        """Append rows, in key order where the table has keys; formats with row groups write them as one."""
        batches = [b for b in batches if b.num_rows]
        if not batches:
            return
        self._started = True
        with write_errors(self._path):
            self._file.write(batches)
        for batch in batches:
            self._collect(batch)
        self._first = self._first or batches[0].slice(0, 1)
        self._last = batches[-1].slice(batches[-1].num_rows - 1, 1)

    def position(self) -> int:
        """Return the number of bytes written so far."""
        return self._file.position()

    def close(self) -> DataFileMeta:
        """Finish the file, and return its metadata."""
        with write_errors(self._path):
            size = self._file.finish()
            self._output.close()
        found = None if self._indexes is None else self._indexes.finish()
        indexes = found or FileIndexes()
        if indexes.file is not None:
            with write_errors(self._index_path), self._file_io.open_output(self._index_path) as output:
                output.write(indexes.file)
        layout = self._layout
        if layout.dense_stats:
            value_columns, value_stats = self._values.dense()
        else:
            value_columns, value_stats = None, self._values.all()
        keyed = bool(layout.key_fields) and self.row_count > 0
        min_key, max_key = self._key_bounds() if keyed else (EMPTY_ROW, EMPTY_ROW)
        if layout.tracks_rows:
            low, high = self._tracked_sequences()
        elif self._first_sequence is None:
            low, high = self._sequences
        else:
            low, high = self._first_sequence, self._first_sequence + self.row_count - 1
        return DataFileMeta(
            file_name=self._path.rsplit("/", 1)[-1],
            file_size=size,
            row_count=self.row_count,
            min_key=min_key,
            max_key=max_key,
            key_stats=self._keys.all() if keyed else EMPTY_STATS,
            value_stats=value_stats,
            min_sequence_number=low,
            max_sequence_number=high,
            schema_id=layout.schema_id,
            level=self._level,
            extra_files=() if indexes.file is None else (self._index_path.rsplit("/", 1)[-1],),
            embedded_file_index=indexes.embedded,
            creation_time_millis=self._clock(),
            delete_row_count=self._deletes,
            file_source=self._source,
            value_stats_cols=value_columns,
            external_path=self._external_path,
            write_cols=layout.write_cols,
        )

    def abort(self) -> None:
        """Delete the file and its indexes in any state. Never raises."""
        if self._started:
            # The destructor of an unfinished encoder would finish the file, on a closed output.
            with suppress(OSError, pa.ArrowException):
                self._file.finish()
        with suppress(OSError):
            abort_output(self._output)
        self._file_io.delete_quietly([self._path] if self._indexes is None else [self._path, self._index_path])

    @property
    def _index_path(self) -> str:
        return self._path + INDEX_SUFFIX

    def _collect(self, batch: pa.RecordBatch) -> None:
        if self._indexes is not None:
            self._indexes.add(batch)
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        self._values.update(columns)
        if self._layout.key_fields:
            self._keys.update(columns)
            bounds = pc.min_max(columns[SEQUENCE_NUMBER])
            low, high = self._sequences
            self._sequences = (min(low, bounds["min"].as_py()), max(high, bounds["max"].as_py()))
            # +I and +U are even, -U and -D odd.
            kinds = columns[VALUE_KIND]
            self._deletes += pc.sum(pc.bit_wise_and(kinds, scalar_of(1, kinds.type))).as_py() or 0
        if self._layout.stores_row_ids:
            sequences = columns[SEQUENCE_NUMBER]
            self._has_new_sequence |= sequences.null_count > 0
            if sequences.null_count < len(sequences):
                bounds = pc.min_max(sequences)
                low, high = self._sequences
                self._sequences = (min(low, bounds["min"].as_py()), max(high, bounds["max"].as_py()))
        self.row_count += batch.num_rows

    def _tracked_sequences(self) -> tuple[int, int]:
        """Return the least and the greatest sequence number of rows with ids.

        0 stands for the number of the snapshot that is yet to be made, which new and changed rows get.
        """
        low, high = self._sequences
        if high < 0:
            return 0, 0
        return low, 0 if self._has_new_sequence else high

    def _key_bounds(self) -> tuple[bytes, bytes]:
        assert self._first is not None
        assert self._last is not None
        ends = pa.Table.from_batches([self._first, self._last])
        fields = self._layout.key_fields
        columns = [ends.column(f.name).combine_chunks() for f in fields]
        low, high = encode_rows(columns, [f.type for f in fields])
        return low, high


class RollingFileWriter:
    """Writer of rows to files of a level that roll at the target size; callers end it with `close` or `abort`.

    The level, and whether the files are a `changelog`, decide on format, codec and statistics. Batches have the columns
    of `layout.arrow`. Rows are buffered until they fill a row group, so the writer holds up to a row group
    (ROW_GROUP_BYTES) in addition to the encoder's memory. Use as a context manager to abort on an error.
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
        # Compactions and changelog files roll by size only, as in Paimon.
        compacts = changelog or source is FileSource.COMPACT
        self._target_rows = None if compacts else layout.options.target_file_rows
        # A changelog is read from beginning to end.
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
        """Append rows. Before an error is raised, all files of this writer are deleted."""
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
        """Write the buffered rows, so that none are left in memory. Raises the errors of `write`."""
        try:
            self._write_group()
        except BaseException:
            self.abort()
            raise

    def close(self) -> list[DataFileMeta]:
        """Finish the last file, and return the files in the order of their rows, none when there were no rows."""
        try:
            self._write_group()
            self._finish_file()
        except BaseException:
            self.abort()
            raise
        done, self._done = self._done, []
        return done

    def abort(self) -> None:
        """Delete all files of this writer. Never raises."""
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
