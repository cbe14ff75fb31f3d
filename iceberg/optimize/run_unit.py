"""Execution of a unit of work: rows are read and rewritten, or the deleted rows of files are found and written.

Sorted rows go to local disk where they exceed memory. Deleted rows of a data file are a vector in the unit's Puffin
file, or in version 2 a Parquet file of positions for each data file. Source: Iceberg's table specification, "Delete
Formats".
"""

import io
import struct
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.schema import Schema, prune_columns

from interbed.iceberg.commit.replacement import NewTableFile
from interbed.iceberg.meta.live_files import PATH_ID, POSITION_ID, Content, LiveFile
from interbed.iceberg.meta.manifests import NEWEST_VERSION
from interbed.iceberg.meta.puffin import puffin_of
from interbed.iceberg.optimize.data_files import DataFiles
from interbed.iceberg.optimize.job import OptimizeJob
from interbed.iceberg.optimize.planner import Action, OptimizeUnit
from interbed.iceberg.plan.task import DataTask, FileReadTask
from interbed.iceberg.read.deletions import DeletedRows
from interbed.iceberg.read.task_read import TaskRead
from interbed.storage.base.arrow_values import from_numpy
from interbed.storage.files.deletion_vectors import DeletionVector
from interbed.storage.io.api import write_file
from interbed.storage.lsm.spill import SpillFiles
from interbed.storage.write.sort.external import ExternalSort, sample_of
from interbed.storage.write.sort.key import Sample, SortKey, is_curve
from interbed.storage.write.sort.order import SortOrder

_MEMORY = 256 << 20
_SAMPLED_ROWS = 100_000
_DECODED = 4
"""Rows take about so many times the space of their files in memory."""


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
    """The rows that `read` gives, of these files, in the order. They are read again for a sample."""
    rows = _FileRows(read, files, order.columns)
    sample = rows.sample() if is_curve(order) else None
    if sample is not None and not sample.rows.num_rows:
        # There is no row to draw a curve through.
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
    """The delete files of data files of one partition; on an error what was written is deleted."""
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
            content=Content.POSITION_DELETES,
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
    # The stubs of pyarrow know no columns here.
    dictionary: Any = ["file_path"]
    pq.write_table(table, sink, compression="zstd", use_dictionary=dictionary, store_schema=False)
    content = sink.getvalue()
    path = job.new_path(file.spec_id, file.partition, name)
    _write(job, path, content)
    name_bytes = file.path.encode("utf-8", "surrogateescape")
    return NewTableFile(
        path=path,
        content=Content.POSITION_DELETES,
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


_ROOM = 1.1
"""Files may become so much larger than they were planned, rather than leave rows for another one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitOutcome:
    """What a unit came to: data files that go, those whose deletes are in the added files now, and these."""

    rewritten: tuple[DataTask, ...] = ()
    converted: tuple[DataTask, ...] = ()
    added: tuple[NewTableFile, ...] = ()


def run_unit(job: OptimizeJob, unit: OptimizeUnit, number: int, threads: int | None = None) -> UnitOutcome:
    """Do a unit, whose number in the job is in the names of its files; on an error what it wrote is deleted.

    It may be done twice at the same time. Raises what reading and writing files raises.
    """
    prefix = f"{number}-{uuid.uuid4().hex[:8]}"
    if unit.action is Action.REWRITE:
        return UnitOutcome(rewritten=unit.files, added=tuple(_rewritten(job, unit, prefix, threads)))
    return _converted(job, unit, prefix)


def _rewritten(job: OptimizeJob, unit: OptimizeUnit, prefix: str, threads: int | None) -> list[NewTableFile]:
    job.settings.check_format()
    read = TaskRead(job.files, job.known, [field.field_id for field in job.written.fields], None)
    tasks = [FileReadTask(files=unit.files)]

    def rows() -> Iterator[pa.RecordBatch]:
        return iter(read.to_reader(tasks, threads=threads))

    # Files of about the same size, and none of a few rows at the end.
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
    """All rows of a data file that are deleted, whatever says so."""
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
    """The outermost columns that hold columns with these ids."""
    outer = prune_columns(known, ids, select_full_types=True).fields
    return Schema(*(known.find_field(field.field_id) for field in outer))
