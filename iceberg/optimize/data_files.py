"""Writing rows as Parquet files of an Iceberg table, each of about the target size, with the metrics of its manifest.

Fields carry their ids. Properties of the table decide on codec and metrics. Source: Iceberg's table specification,
"Parquet".
"""

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import (
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
)
from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType, UUIDType

from interbed.iceberg.commit.replacement import NewTableFile
from interbed.iceberg.meta.live_files import Content
from interbed.iceberg.meta.table_metadata import whole_number
from interbed.iceberg.meta.types import type_to_arrow
from interbed.iceberg.optimize.job import OptimizeJob
from interbed.storage.base.errors import InvalidOptionError
from interbed.storage.base.types.nested import without_hidden_nulls
from interbed.storage.files.format.api import OpenSink, data_file_errors
from interbed.storage.files.format.encoding import choose_encodings
from interbed.storage.io.api import give_up

_GROUP_BYTES = 64 << 20
_GROUP_ROWS = 1 << 20
_PAGE_ROWS = 20_000
_CODEC = "write.parquet.compression-codec"
_LEVEL = "write.parquet.compression-level"
_CODECS = {"uncompressed": None, "none": None, "zstd": "zstd", "snappy": "snappy", "gzip": "gzip", "lz4": "lz4"}


class DataFiles:
    """New data files of one partition, each of at most about `target` bytes. Used as a context manager; on an error it
    deletes what it wrote.
    """

    def __init__(self, job: OptimizeJob, spec_id: int, partition: tuple[object, ...], prefix: str, target: int) -> None:
        self._job = job
        self._spec_id = spec_id
        self._partition = partition
        self._prefix = prefix
        self._target = target
        self._schema = pa.schema([_file_field(field) for field in job.written.fields])
        self._pending: list[pa.RecordBatch] = []
        self._pending_rows = 0
        self._pending_bytes = 0
        self._current: _OneFile | None = None
        self._number = 0
        self._done: list[NewTableFile] = []

    def __enter__(self) -> "DataFiles":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        if kind is not None:
            if self._current is not None:
                self._current.abandon()
            delete_new(self._job, self._done)

    def write(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Write rows that have the job's columns."""
        most = min(_GROUP_BYTES, self._target)
        for batch in batches:
            rows = max(batch.num_rows * most // max(batch.nbytes, 1), 1)
            for start in range(0, batch.num_rows, rows):
                piece = batch.slice(start, rows)
                self._pending.append(piece)
                self._pending_rows += piece.num_rows
                self._pending_bytes += piece.nbytes
                if self._pending_rows >= _GROUP_ROWS or self._pending_bytes >= most:
                    self._write_group()

    def close(self) -> list[NewTableFile]:
        """End the last file; all files that were written."""
        self._write_group()
        self._end_file()
        return self._done

    def _write_group(self) -> None:
        if not self._pending_rows:
            return
        if self._current is None:
            name = f"{self._prefix}-{self._number}.parquet"
            self._number += 1
            path = self._job.new_path(self._spec_id, self._partition, name)
            self._current = _OneFile(self._job, path, self._schema)
        self._current.write(self._pending)
        self._pending, self._pending_rows, self._pending_bytes = [], 0, 0
        if self._current.position() >= self._target:
            self._end_file()

    def _end_file(self) -> None:
        if self._current is None:
            return
        ended, self._current = self._current, None
        self._done.append(ended.close(self._spec_id, self._partition))


def delete_new(job: OptimizeJob, files: Sequence[NewTableFile]) -> None:
    """Delete files that no snapshot names; failures are logged."""
    job.files.delete_quietly({file.path for file in files})


class _OneFile:
    """One Parquet file; each `write` is a row group."""

    def __init__(self, job: OptimizeJob, path: str, schema: pa.Schema) -> None:
        self._job = job
        self._path = path
        self._schema = schema
        self._file_io, self._place = job.files.open(path)
        self._rows = 0
        self._metadata: list[Any] = []
        self._writer: Any = None
        self._output = self._file_io.open_output(self._place)
        self._sink = OpenSink(self._output)

    def write(self, batches: Sequence[pa.RecordBatch]) -> None:
        with data_file_errors(self._place):
            table = pa.Table.from_batches([self._in_file(batch) for batch in batches], self._schema)
            if self._writer is None:
                self._writer = self._open(batches[0])
            self._writer.write_table(table, row_group_size=table.num_rows)
            self._rows += table.num_rows

    def _in_file(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = []
        for column, field in zip(batch.columns, self._schema, strict=True):
            found: Any = without_hidden_nulls(column, column.type, field.name)
            columns.append(found if found.type.equals(field.type) else found.cast(field.type))
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def position(self) -> int:
        return self._sink.tell()

    def close(self, spec_id: int, partition: tuple[object, ...]) -> NewTableFile:
        with data_file_errors(self._place):
            self._writer.close()
            size = self._sink.tell()
            self._output.close()
        return NewTableFile(
            path=self._path,
            content=Content.DATA,
            file_format="parquet",
            spec_id=spec_id,
            partition=partition,
            records=self._rows,
            size=size,
            sequence_number=self._job.sequence_number if self._job.format_version > 1 else None,
            metrics=_metrics(self._metadata[0], self._job.written, dict(self._job.properties)),
        )

    def abandon(self) -> None:
        """Give the file up."""
        try:
            give_up(self._output)
        finally:
            self._file_io.delete_quietly([self._place])

    def _open(self, first: pa.RecordBatch) -> Any:
        codec, level = _codec(self._job.properties)
        encodings = choose_encodings(first, frozenset(), codec=codec)
        # The stubs of pyarrow lag behind what the writer takes.
        make: Any = pq.ParquetWriter
        return make(
            self._sink,
            self._schema,
            compression=dict(encodings.codecs) or codec or "none",
            compression_level={path: level for path, of in encodings.codecs.items() if of == "zstd"} or None,
            use_dictionary=list(encodings.dictionary) or False,
            column_encoding=dict(encodings.explicit) or None,
            store_decimal_as_integer=True,
            store_schema=False,
            write_page_index=True,
            max_rows_per_page=_PAGE_ROWS,
            metadata_collector=self._metadata,
        )


def _metrics(metadata: Any, schema: Schema, properties: dict[str, str]) -> dict[str, Any]:
    found = data_file_statistics_from_parquet_metadata(
        metadata, compute_statistics_plan(schema, properties), parquet_path_to_id_mapping(schema)
    ).to_serialized_dict()
    del found["record_count"]
    return found


def _codec(properties: Any) -> tuple[str | None, int]:
    name = str(properties.get(_CODEC, "zstd")).lower()
    if name not in _CODECS:
        raise InvalidOptionError(
            f"The table property '{_CODEC}' is {name!r}; it should be one of {', '.join(_CODECS)}."
        )
    return _CODECS[name], whole_number(properties, _LEVEL, 1)


def _file_field(field: NestedField, name: str | None = None) -> "pa.Field[Any]":
    metadata = {b"PARQUET:field_id": str(field.field_id).encode()}
    return pa.field(name or field.name, _file_type(field.field_type), field.optional, metadata)


def _file_type(kind: IcebergType) -> pa.DataType:
    """The type of a column in a file, whose fields have ids."""
    match kind:
        case StructType():
            return pa.struct([_file_field(field) for field in kind.fields])
        case ListType():
            return pa.list_(_file_field(kind.element_field))
        case MapType():
            key: Any = _file_field(kind.key_field)
            value: Any = _file_field(kind.value_field)
            made: pa.DataType = pa.map_(key, value)
            return made
        case UUIDType():
            of_uuid: pa.DataType = pa.uuid()
            return of_uuid
    return type_to_arrow(kind)
