"""The rows of tasks: the requested columns, without deleted and filtered rows.

Version 3 keeps of each row an id and the sequence number of its last change. A file has columns of them for rows that
came from other files. Otherwise, and where these are null, the id is the file's first row id plus the position in the
file, and the number is the file's. Source: Iceberg's table specification, "Row Lineage".
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema, prune_columns
from pyiceberg.types import LongType, NestedField

from interbed.iceberg.meta.live_files import LiveFile
from interbed.iceberg.meta.types import schema_to_arrow
from interbed.iceberg.plan.task import DataTask, FileReadTask
from interbed.iceberg.read.deletions import DeletedRows
from interbed.iceberg.read.files import TableFiles
from interbed.storage.base.arrow_values import from_numpy
from interbed.storage.base.predicate.evaluate import mask
from interbed.storage.base.predicate.expr import Predicate, columns_of
from interbed.storage.base.prefetch import Begun
from interbed.storage.read.parallel import read_ahead

ROW_ID = NestedField(2147483540, "_row_id", LongType(), required=False)
LAST_UPDATED = NestedField(2147483539, "_last_updated_sequence_number", LongType(), required=False)


def with_lineage(batch: pa.RecordBatch, position: int, file: LiveFile) -> pa.RecordBatch:
    """The rows, which begin at a position of the file, with what their two columns leave open filled in."""
    ids, numbers = batch.column(ROW_ID.name), batch.column(LAST_UPDATED.name)
    if file.first_row_id is not None:
        first = file.first_row_id + position
        ids = pc.coalesce(ids, from_numpy(np.arange(first, first + batch.num_rows, dtype=np.int64)))
        # Rows without an id get one of the file that they are written to, and are new there.
        numbers = pc.coalesce(numbers, _number(file.sequence_number))
    changed = {ROW_ID.name: ids, LAST_UPDATED.name: numbers}
    columns = [changed.get(name, column) for name, column in zip(batch.schema.names, batch.columns, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _number(value: int) -> Any:
    """A scalar, which the stubs of pyarrow take for none where an array may stand."""
    return pa.scalar(value, pa.int64())


MAX_THREADS = 8
"""More threads seldom help a single read, and each holds a batch."""


class TaskRead:
    """Reads tasks. `schema` are all columns that there are, by which deletes may go; `projected` those asked for, which
    may be those of `lineage` with what files leave open.
    """

    def __init__(
        self, files: TableFiles, schema: Schema, projected: Sequence[int], predicate: Predicate | None
    ) -> None:
        self._files = files
        self._schema = schema
        self._projected = tuple(projected)
        self._predicate = predicate
        names = columns_of(predicate) if predicate is not None else frozenset()
        self._filtered = {field.field_id for field in schema.fields if field.name in names}
        self._has_lineage = ROW_ID.field_id in self._projected
        self._result = _chosen(schema, self._projected)
        self._arrow = schema_to_arrow(self._result)

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows."""
        return self._arrow

    def to_reader(self, tasks: Sequence[FileReadTask], *, threads: int | None = None) -> pa.RecordBatchReader:
        """The rows of all tasks, in memory bounded by some batches and the deletes."""
        deletions = DeletedRows(self._files, self._schema, chain.from_iterable(task.files for task in tasks))
        data = [file for task in tasks for file in task.files]
        count = min(os.cpu_count() or 1, MAX_THREADS) if threads is None else max(threads, 1)
        # Threads that are not needed for files decode columns in parallel.
        sources = [partial(self._rows, file, deletions, count > len(data)) for file in data]
        count = min(count, len(data))
        # Of a store the files that come next are opened meanwhile.
        is_far = bool(data) and self._files.is_far(data[0].file.path)
        ahead = min(count, len(data) - count) if is_far else 0
        return pa.RecordBatchReader.from_batches(self._arrow, read_ahead(sources, count, ahead=ahead))

    def _rows(self, task: DataTask, deletions: DeletedRows, use_threads: bool) -> Iterator[pa.RecordBatch]:
        wanted = _with(self._schema, self._projected, self._filtered | deletions.key_ids(task))
        names = self._arrow.names
        read = partial(self._files.batches, task.file, wanted, self._predicate, use_threads=use_threads)
        # A file of a store comes while its deletes do.
        is_begun = bool(task.deletes.files) and self._files.is_far(task.file.path)
        with closing(Begun(read) if is_begun else read()) as batches:
            found = deletions.of(task)
            for position, batch in batches:
                kept = found.kept(position, batch, task.file.sequence_number)
                if self._has_lineage:
                    batch = with_lineage(batch, position, task.file)
                if kept is not None:
                    batch = batch.filter(pa.array(kept))
                if self._predicate is not None:
                    batch = batch.filter(mask(self._predicate, batch))
                if batch.num_rows:
                    yield batch if batch.num_columns == len(names) else batch.select(names)


def _chosen(schema: Schema, ids: Sequence[int]) -> Schema:
    """The columns with these ids, in their order."""
    return Schema(*(schema.find_field(number) for number in ids))


def _with(schema: Schema, projected: Sequence[int], further: set[int]) -> Schema:
    """The columns projected, and behind them whatever else holds one of the further ids."""
    more = prune_columns(schema, further, select_full_types=True).fields if further else ()
    return Schema(
        *(schema.find_field(number) for number in projected),
        *(schema.find_field(field.field_id) for field in more if field.field_id not in projected),
    )
