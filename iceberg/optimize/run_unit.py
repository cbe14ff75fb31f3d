"""Execution of a unit of work: rows are read and rewritten, or the deleted rows of files are found and written.

Sorted rows are spilled to local disk when they exceed memory. Deleted rows of a data file become a vector in the unit's
Puffin file, or in version 2 a Parquet file of positions for each data file. `DataFiles` writes rows as Parquet files of
about the target size, with ids in the fields and the metrics of the manifest; properties of the table define codec and
metrics. Source: Iceberg's table specification, "Delete Formats" and "Parquet".
"""

import io
import struct
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import (
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
)
from pyiceberg.schema import Schema, prune_columns
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType, UUIDType

from interbed.iceberg.commit.replace import NewTableFile
from interbed.iceberg.meta.live_files import PATH_ID, POSITION_ID, FileContent, LiveFile, puffin_of
from interbed.iceberg.meta.manifests import NEWEST_VERSION
from interbed.iceberg.meta.table_metadata import type_to_arrow, whole_number
from interbed.iceberg.optimize.planner import OptimizeAction, OptimizeJob, OptimizeUnit
from interbed.iceberg.plan import DataTask, FileReadTask
from interbed.iceberg.read.task_read import DeletedRows, TaskRead
from interbed.storage.base.arrow_values import from_numpy
from interbed.storage.base.errors import InvalidOptionError
from interbed.storage.base.types.nested import without_hidden_nulls
from interbed.storage.files.deletion_vectors import DeletionVector
from interbed.storage.files.format.api import OpenSink, data_file_errors
from interbed.storage.files.format.parquet_writer import choose_encodings
from interbed.storage.io.api import abort_output, write_file
from interbed.storage.lsm.write_buffer import SpillFiles
from interbed.storage.write.sort.external import ExternalSort, sample_of
from interbed.storage.write.sort.key import Sample, SortKey, SortOrder, is_curve

_MEMORY = 256 << 20
_SAMPLED_ROWS = 100_000
_DECODED = 4
"""The ratio of the size of rows in memory to that of their files."""


_GROUP_BYTES = 64 << 20


_GROUP_ROWS = 1 << 20


_PAGE_ROWS = 20_000


_CODEC = "write.parquet.compression-codec"


_LEVEL = "write.parquet.compression-level"


_CODECS = {"uncompressed": None, "none": None, "zstd": "zstd", "snappy": "snappy", "gzip": "gzip", "lz4": "lz4"}


_ROOM = 1.1
"""Files may become larger than planned by this factor, which avoids a further small file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitOutcome:
    """The outcome of a unit: data files to remove, data files whose deletes are in the added files now, and these."""

    rewritten: tuple[DataTask, ...] = ()
    converted: tuple[DataTask, ...] = ()
    added: tuple[NewTableFile, ...] = ()


def run_unit(job: OptimizeJob, unit: OptimizeUnit, number: int, threads: int | None = None) -> UnitOutcome:
    """Run a unit; the names of its files contain its number in the job. On an error the written files are deleted.

    It may run twice at the same time. Raises what reading and writing files raises.
    """
    prefix = f"{number}-{uuid.uuid4().hex[:8]}"
    if unit.action is OptimizeAction.REWRITE:
        return UnitOutcome(rewritten=unit.files, added=tuple(_rewritten(job, unit, prefix, threads)))
    return _converted(job, unit, prefix)


def _rewritten(job: OptimizeJob, unit: OptimizeUnit, prefix: str, threads: int | None) -> list[NewTableFile]:
    job.settings.check_format()
    read = TaskRead(job.files, job.known, [field.field_id for field in job.written.fields], None)
    tasks = [FileReadTask(files=unit.files)]

    def rows() -> Iterator[pa.RecordBatch]:
        return iter(read.to_reader(tasks, threads=threads))

    # Files of about the same size, without a last file of a few rows.
    number = max(round(unit.bytes / job.settings.target), 1)
    target = unit.bytes * _ROOM // number + 1
    with DataFiles(job, unit.spec_id, unit.partition, prefix, int(target)) as files:
        files.write(rows() if job.order is None else sorted_rows(job.order, rows, unit.files))
        return files.close()


def _converted(job: OptimizeJob, unit: OptimizeUnit, prefix: str) -> UnitOutcome:
    deletions = DeletedRows(job.files, job.known, unit.files)
    deleted: dict[LiveFile, DeletionVector] = {}
    empty: list[DataTask] = []
    left: list[DataTask] = []
    for task in unit.files:
        vector = _deleted_rows(job, task, deletions)
        if len(vector) == task.file.records:
            empty.append(task)
            continue
        left.append(task)
        if len(vector):
            deleted[task.file] = vector
    return UnitOutcome(rewritten=tuple(empty), converted=tuple(left), added=tuple(write_deletes(job, deleted, prefix)))


def _deleted_rows(job: OptimizeJob, task: DataTask, deletions: DeletedRows) -> DeletionVector:
    """Return all deleted rows of a data file, from all kinds of deletes."""
    found = deletions.of(task)
    if not found.keys:
        return found.vector
    columns = _with(job.known, deletions.key_ids(task))
    positions = [found.vector.positions]
    for position, batch in job.files.batches(task.file, columns):
        kept = found.kept(position, batch, task.file.sequence_number)
        if kept is not None:
            positions.append(np.flatnonzero(~kept) + position)
    return DeletionVector.of(np.concatenate(positions))


def _with(known: Schema, ids: set[int]) -> Schema:
    """Return the outermost columns that hold columns with these ids."""
    outer = prune_columns(known, ids, select_full_types=True).fields
    return Schema(*(known.find_field(field.field_id) for field in outer))


@dataclass(frozen=True, slots=True)
class _FileRows:
    """The rows of files, as an external sort takes them."""

    read: Callable[[], Iterator[pa.RecordBatch]]
    files: Sequence[DataTask]
    columns: Sequence[str]

    @property
    def nbytes(self) -> int:
        return sum(task.file.size for task in self.files) * _DECODED

    def batches(self) -> Iterator[pa.RecordBatch]:
        return self.read()

    def sample(self) -> Sample:
        rows = sum(task.file.records for task in self.files)
        part = min(_SAMPLED_ROWS / max(rows, 1), 1.0)
        return sample_of((batch.select(list(self.columns)) for batch in self.read()), part)


def sorted_rows(
    order: SortOrder, read: Callable[[], Iterator[pa.RecordBatch]], files: Sequence[DataTask], memory: int = _MEMORY
) -> Iterator[pa.RecordBatch]:
    """Return the rows of `read`, which are those of these files, in the order. They are read twice if a sample is
    needed.
    """
    rows = _FileRows(read, files, order.columns)
    sample = rows.sample() if is_curve(order) else None
    if sample is not None and not sample.rows.num_rows:
        # Without rows there is no curve.
        yield from read()
        return
    key = SortKey(order) if sample is None else SortKey.of(order, sample)
    with ExternalSort(key, SpillFiles(max_bytes=None, codec="zstd"), memory=memory) as sort:
        yield from sort.sorted(rows, sample)


_FIELDS: list["pa.Field[Any]"] = [
    pa.field("file_path", pa.string(), False, {b"PARQUET:field_id": str(PATH_ID).encode()}),
    pa.field("pos", pa.int64(), False, {b"PARQUET:field_id": str(POSITION_ID).encode()}),
]
_SCHEMA = pa.schema(_FIELDS)
_CREATED_BY = "interbed"


def write_deletes(job: OptimizeJob, deleted: Mapping[LiveFile, DeletionVector], prefix: str) -> list[NewTableFile]:
    """Write the delete files of data files of one partition. On an error the written files are deleted."""
    if not deleted:
        return []
    if job.format_version >= NEWEST_VERSION:
        return _write_vectors(job, deleted, prefix)
    found: list[NewTableFile] = []
    try:
        for number, (file, vector) in enumerate(deleted.items()):
            found.append(_write_positions(job, file, vector, f"{prefix}-{number}-deletes.parquet"))
    except BaseException:
        job.files.delete_quietly(made.path for made in found)
        raise
    return found


def _write_vectors(job: OptimizeJob, deleted: Mapping[LiveFile, DeletionVector], prefix: str) -> list[NewTableFile]:
    some = next(iter(deleted))
    content, places = puffin_of({file.path: vector for file, vector in deleted.items()}, _CREATED_BY)
    path = job.new_path(some.spec_id, some.partition, f"{prefix}-deletes.puffin")
    _write(job, path, content)
    return [
        NewTableFile(
            path=path,
            content=FileContent.POSITION_DELETES,
            file_format="puffin",
            spec_id=file.spec_id,
            partition=file.partition,
            records=places[file.path].records,
            size=len(content),
            referenced=file.path,
            offset=places[file.path].offset,
            length=places[file.path].length,
        )
        for file in deleted
    ]


def _write_positions(job: OptimizeJob, file: LiveFile, vector: DeletionVector, name: str) -> NewTableFile:
    positions = vector.positions
    table = pa.Table.from_arrays(
        [pa.repeat(pa.scalar(file.path, pa.string()), len(positions)), from_numpy(positions)], schema=_SCHEMA
    )
    sink = io.BytesIO()
    # The stubs of pyarrow know no column names here.
    dictionary: Any = ["file_path"]
    pq.write_table(table, sink, compression="zstd", use_dictionary=dictionary, store_schema=False)
    content = sink.getvalue()
    path = job.new_path(file.spec_id, file.partition, name)
    _write(job, path, content)
    name_bytes = file.path.encode("utf-8", "surrogateescape")
    return NewTableFile(
        path=path,
        content=FileContent.POSITION_DELETES,
        file_format="parquet",
        spec_id=file.spec_id,
        partition=file.partition,
        records=len(positions),
        size=len(content),
        metrics={
            "value_counts": {PATH_ID: len(positions), POSITION_ID: len(positions)},
            "null_value_counts": {PATH_ID: 0, POSITION_ID: 0},
            "lower_bounds": {PATH_ID: name_bytes, POSITION_ID: struct.pack("<q", int(positions[0]))},
            "upper_bounds": {PATH_ID: name_bytes, POSITION_ID: struct.pack("<q", int(positions[-1]))},
        },
    )


def _write(job: OptimizeJob, path: str, content: bytes) -> None:
    file_io, place = job.files.open(path)
    write_file(file_io, place, content)


class DataFiles:
    """New data files of one partition, each of at most about `target` bytes.

    A context manager: on an error it deletes the written files.
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
        """Close the last file, and return all written files."""
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
    """Delete files that no snapshot names. Failures are logged."""
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
            content=FileContent.DATA,
            file_format="parquet",
            spec_id=spec_id,
            partition=partition,
            records=self._rows,
            size=size,
            sequence_number=self._job.sequence_number if self._job.format_version > 1 else None,
            metrics=_metrics(self._metadata[0], self._job.written, dict(self._job.properties)),
        )

    def abandon(self) -> None:
        """Close and delete the unfinished file."""
        try:
            abort_output(self._output)
        finally:
            self._file_io.delete_quietly([self._place])

    def _open(self, first: pa.RecordBatch) -> Any:
        codec, level = _codec(self._job.properties)
        encodings = choose_encodings(first, frozenset(), codec=codec)
        # The stubs of pyarrow lack some parameters of the writer.
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
    """Return the type of a column in a file, whose fields have ids."""
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
