"""Doing a unit of work: rows are read and written anew, or what is deleted of files is found and written down."""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyiceberg.schema import Schema, prune_columns

from interbed.iceberg.commit.new_file import NewTableFile
from interbed.iceberg.meta.live_file import LiveFile
from interbed.iceberg.optimize.data_files import DataFiles
from interbed.iceberg.optimize.delete_files import write_deletes
from interbed.iceberg.optimize.job import OptimizeJob
from interbed.iceberg.optimize.sorting import sorted_rows
from interbed.iceberg.optimize.unit import Action, OptimizeUnit
from interbed.iceberg.plan.task import DataTask, FileReadTask
from interbed.iceberg.read.deletions import DeletedRows
from interbed.iceberg.read.task_read import TaskRead
from interbed.storage.files.deletion.vector import DeletionVector

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
