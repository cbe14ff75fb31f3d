"""Data files: their layout, writing one, and writing a sequence of them that rolls at a target size.

A writer takes batches with the file's columns in order, keeps the statistics that manifests need and returns a
DataFileMeta for each file. Whatever goes wrong, the files of a writer are deleted and the error is raised; what the
store says while a file is written becomes StorageAccessError naming the file.
"""

import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from interbed.storage.errors import InvalidOptionError, NotSupportedError, StorageAccessError
from interbed.storage.fileio.api import FileIO
from interbed.storage.format.file_schema import file_schema, key_fields_of_file, key_value_fields
from interbed.storage.format.parquet_writer import FileWriter, ParquetFileWriter
from interbed.storage.format.stats import KEY_MODE, StatsCollector, StatsMode, stats_modes
from interbed.storage.manifest.data_file import DataFileMeta, FileSource
from interbed.storage.manifest.stats import EMPTY_ROW, EMPTY_STATS
from interbed.storage.options import CoreOptions
from interbed.storage.row.binary_row import encode_rows
from interbed.storage.schema.table_schema import SEQUENCE_NUMBER, VALUE_KIND, TableSchema
from interbed.storage.types.data_type import DataField

ROW_GROUP_ROWS = 128 * 1024
"""Rows of a row group: enough for pages and dictionaries to pay, few enough for point look-ups and small readers."""
ROW_GROUP_BYTES = 64 << 20
"""Bytes in memory at which a row group of wide rows is closed earlier."""
MIN_ROW_GROUP_ROWS = 1000
"""Files are rolled between row groups; Paimon looks at a file's size every 1000 rows."""
_CODECS = ("zstd", "snappy", "gzip", "lz4", "brotli", "none", "uncompressed")


class DataFileNames:
    """Names for the data files of one writer: one UUID and a running number, as Paimon's; safe to share by threads."""

    def __init__(self, prefix: str, file_format: str) -> None:
        self._stem = f"{prefix}{uuid.uuid4()}"
        self._format = file_format
        self._next = 0
        self._lock = threading.Lock()

    def take(self) -> str:
        """A new name."""
        with self._lock:
            number = self._next
            self._next += 1
        return f"{self._stem}-{number}.{self._format}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFileLayout:
    """What all data files of a table's writers have in common.

    `fields` are the file's columns, `key_fields` the table's columns that order its rows (none in an append table),
    `sequence_fields` those that say which row of a key is newest before the order of arrival does, `value_fields` all
    of the table's columns; `value_modes` says which statistics are kept of those.
    """

    schema_id: int
    fields: tuple[DataField, ...]
    key_fields: tuple[DataField, ...]
    sequence_fields: tuple[str, ...]
    value_fields: tuple[DataField, ...]
    value_modes: tuple[StatsMode, ...]
    dense_stats: bool
    ascending: frozenset[str]
    compression: str
    zstd_level: int
    dictionary: bool
    target_size: int
    arrow: pa.Schema

    @staticmethod
    def of(schema: TableSchema, options: CoreOptions) -> "DataFileLayout":
        """The layout of a table's new files.

        Raises NotSupportedError for a format that is not written yet, InvalidOptionError for an unknown codec.
        """
        if options.file_format != "parquet":
            raise NotSupportedError(
                f"interbed writes Parquet files only, but option 'file.format' is '{options.file_format}'; "
                "set it to 'parquet' (files of other formats stay readable)."
            )
        if options.file_compression not in _CODECS:
            raise InvalidOptionError(
                f"Option 'file.compression' takes one of {', '.join(_CODECS)}, not '{options.file_compression}'."
            )
        keyed = schema.has_primary_key
        fields = key_value_fields(schema, thin=options.thin_mode) if keyed else schema.fields
        ascending = {SEQUENCE_NUMBER, VALUE_KIND} if keyed else set()
        if keyed:
            # Only the first key column ascends throughout; the others start anew with each of its values.
            ascending |= {key_fields_of_file(schema)[0].name, schema.key_fields[0].name}
        return DataFileLayout(
            schema_id=schema.id,
            fields=fields,
            key_fields=schema.key_fields if keyed else (),
            sequence_fields=options.sequence_fields if keyed else (),
            value_fields=schema.fields,
            value_modes=tuple(stats_modes(schema.fields, options, primary_keys=schema.trimmed_primary_keys)),
            dense_stats=options.boolean("metadata.stats-dense-store", True),
            ascending=frozenset(ascending),
            compression=options.file_compression,
            zstd_level=options.zstd_level,
            dictionary=options.boolean("parquet.enable.dictionary", True),
            target_size=options.target_file_size_for(primary_key=keyed),
            arrow=file_schema(fields),
        )

    def group_rows(self, batch: pa.RecordBatch) -> int:
        """Rows of a row group, for rows as wide as the batch's."""
        width = max(1, batch.nbytes // max(1, batch.num_rows))
        most = min(ROW_GROUP_BYTES, self.target_size) // width
        return max(MIN_ROW_GROUP_ROWS, min(ROW_GROUP_ROWS, most))


def wall_clock_millis() -> int:
    """The local wall clock as milliseconds, as if it were UTC: how Paimon notes when a file was made."""
    return (datetime.now() - datetime(1970, 1, 1)) // timedelta(milliseconds=1)


class DataFileWriter:
    """Writes one data file; end with `close` or `abort`.

    `first_sequence` is given for files without sequence numbers of their own (append tables): rows count up from it.
    """

    def __init__(
        self,
        file_io: FileIO,
        path: str,
        layout: DataFileLayout,
        *,
        level: int,
        source: FileSource,
        first_sequence: int | None = None,
        clock: Callable[[], int] = wall_clock_millis,
    ) -> None:
        self._file_io = file_io
        self._path = path
        self._layout = layout
        self._level = level
        self._source = source
        self._first_sequence = first_sequence
        self._clock = clock
        self._values = StatsCollector(layout.value_fields, layout.value_modes)
        self._keys = StatsCollector(layout.key_fields, [KEY_MODE] * len(layout.key_fields))
        self._sequences = (1 << 62, -1)
        self._deletes = 0
        self._first: pa.RecordBatch | None = None
        self._last: pa.RecordBatch | None = None
        self.row_count = 0
        with translated(path):
            self._output = file_io.open_output(path)
            try:
                self._file: FileWriter = ParquetFileWriter(
                    self._output,
                    layout.arrow,
                    compression=layout.compression,
                    zstd_level=layout.zstd_level,
                    ascending=layout.ascending,
                    dictionary=layout.dictionary,
                )
            except BaseException:
                self.abort()
                raise

    def write(self, batches: list[pa.RecordBatch]) -> None:
        """Append rows, in key order where the table has keys; the batches become one row group."""
        batches = [b for b in batches if b.num_rows]
        if not batches:
            return
        with translated(self._path):
            self._file.write(batches)
        for batch in batches:
            self._collect(batch)
        self._first = self._first or batches[0].slice(0, 1)
        self._last = batches[-1].slice(batches[-1].num_rows - 1, 1)

    def position(self) -> int:
        """Bytes written so far."""
        return self._file.position()

    def close(self) -> DataFileMeta:
        """Finish the file."""
        with translated(self._path):
            size = self._file.finish()
            self._output.close()
        layout = self._layout
        if layout.dense_stats:
            value_columns, value_stats = self._values.dense()
        else:
            value_columns, value_stats = None, self._values.all()
        keyed = bool(layout.key_fields) and self.row_count > 0
        min_key, max_key = self._key_bounds() if keyed else (EMPTY_ROW, EMPTY_ROW)
        if self._first_sequence is None:
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
            creation_time_millis=self._clock(),
            delete_row_count=self._deletes,
            file_source=self._source,
            value_stats_cols=value_columns,
        )

    def abort(self) -> None:
        """Delete the file, whatever state it is in; never raises."""
        with suppress(OSError):
            self._output.close()
        self._file_io.delete_quietly([self._path])

    def _collect(self, batch: pa.RecordBatch) -> None:
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        self._values.update(columns)
        if self._layout.key_fields:
            self._keys.update(columns)
            bounds = pc.min_max(columns[SEQUENCE_NUMBER])
            low, high = self._sequences
            self._sequences = (min(low, bounds["min"].as_py()), max(high, bounds["max"].as_py()))
            # +I and +U are even, -U and -D odd.
            kinds = columns[VALUE_KIND]
            self._deletes += pc.sum(pc.bit_wise_and(kinds, pa.scalar(1, kinds.type))).as_py() or 0
        self.row_count += batch.num_rows

    def _key_bounds(self) -> tuple[bytes, bytes]:
        assert self._first is not None
        assert self._last is not None
        ends = pa.Table.from_batches([self._first, self._last])
        fields = self._layout.key_fields
        columns = [ends.column(f.name).combine_chunks() for f in fields]
        low, high = encode_rows(columns, [f.type for f in fields])
        return low, high


class RollingFileWriter:
    """Writes rows to as many files as their size asks for; end with `close` or `abort`.

    Batches have the columns of `layout.arrow`. Rows are kept back until they fill a row group, so the writer holds up
    to a row group (ROW_GROUP_BYTES) beside what the encoder needs. Use as a context manager to abort on an error.
    """

    def __init__(
        self,
        file_io: FileIO,
        directory: str,
        names: DataFileNames,
        layout: DataFileLayout,
        *,
        level: int,
        source: FileSource,
        first_sequence: int | None = None,
        clock: Callable[[], int] = wall_clock_millis,
    ) -> None:
        self._file_io = file_io
        self._directory = directory
        self._names = names
        self._layout = layout
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
                    self._group_rows = self._layout.group_rows(batch)
                part = batch.slice(offset, self._group_rows - self._pending_rows)
                self._pending.append(part)
                self._pending_rows += part.num_rows
                offset += part.num_rows
                if self._pending_rows == self._group_rows:
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
        self._file_io.delete_quietly([f"{self._directory}/{f.file_name}" for f in self._done])
        self._done.clear()

    def _write_group(self) -> None:
        if not self._pending:
            return
        if self._current is None:
            self._current = DataFileWriter(
                self._file_io,
                f"{self._directory}/{self._names.take()}",
                self._layout,
                level=self._level,
                source=self._source,
                first_sequence=self._next_sequence,
                clock=self._clock,
            )
        self._current.write(self._pending)
        self._pending = []
        self._pending_rows = 0
        if self._current.position() >= self._layout.target_size:
            self._finish_file()

    def _finish_file(self) -> None:
        if self._current is None:
            return
        self._done.append(self._current.close())
        if self._next_sequence is not None:
            self._next_sequence += self._current.row_count
        self._current = None


@contextmanager
def translated(path: str) -> Iterator[None]:
    """Turn the system's errors while a file is written into StorageAccessError naming it."""
    try:
        yield
    except StorageAccessError:
        raise
    except OSError as error:
        raise StorageAccessError(f"Can't write {path}: {error.strerror or error}.") from error
