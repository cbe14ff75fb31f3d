"""The files that a flush makes of the buffered rows of a bucket, for each kind of table.

- Append table: the rows go to a file in order of arrival. Sequence numbers are not stored; the metadata of a file
  counts its rows.
- Table with a primary key: the rows are sorted and merged (`storage.lsm.writer.BufferMerge`).
- Table with postponed buckets (`bucket` = -2): the rows are written in order of arrival and wait for a compaction.

Files of postponed rows (documentation: primary-key table, data distribution, postpone bucket; Paimon's
PostponeBucketFileStoreWrite):

    <location>/[<partition column>=<value>/…]bucket-postpone/<prefix>-u-<commit user>-s-<number>-w-<uuid>-<n>.avro

They hold unmerged rows with their kinds and no statistics. The name contains the writer, so that a compaction can read
the files of one writer in the order in which they were made. Their format is Avro, which is the fastest to write,
unless Avro can't hold a column.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import pyarrow as pa

from interbed.storage.base.errors import NotSupportedError
from interbed.storage.files.format.layout import DataFileLayout, DataFileNames, check_fields
from interbed.storage.lsm.merge_function.factory import merge_function_for
from interbed.storage.lsm.spill import BATCH_BYTES, SpilledRun, SpillFiles
from interbed.storage.lsm.write_buffer import Run, Spill, concatenate
from interbed.storage.lsm.writer import BufferMerge, RemovalRules, Write, file_batch
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.options.core import CoreOptions
from interbed.storage.meta.options.lsm import ChangelogProducer
from interbed.storage.meta.schema.table_schema import TableSchema

_FORMAT = "avro"
_WRITER_NUMBERS = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PostponedRows:
    """Flush of rows that wait for their buckets: they go to the file in order of arrival.

    Has the methods of BufferMerge.
    """

    layout: DataFileLayout
    emits_input: bool = False
    removals: None = None

    def join(self, runs: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
        """Return the rows of all runs in order."""
        return concatenate(runs)

    def write(
        self,
        runs: Sequence[Run],
        write: Write,
        emit_changes: Write | None = None,
        emit_removals: Write | None = None,
    ) -> None:
        """Pass the rows in the layout of the file to `write`; raise CorruptFileError for a spilled run."""
        for batch in in_batches(runs):
            write(file_batch(batch, self.layout))

    def arrange(self, runs: Sequence[Run]) -> Iterator[pa.RecordBatch]:
        """Yield the rows in order, in batches of the size of a spill."""
        return small_batches(runs)


FlushRows: TypeAlias = BufferMerge | PostponedRows
"""The flush of the buffered rows of a table with a primary key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlushedFiles:
    """The layout and the names of the data files of one writer, and the merge of its buffered rows.

    `merge` is None for an append table, whose rows go to files in order of arrival.
    """

    layout: DataFileLayout
    names: DataFileNames
    merge: FlushRows | None

    @staticmethod
    def of(store: FileStore) -> "FlushedFiles":
        """Return the files of rows that have a bucket; raise the errors of DataFileLayout.of."""
        schema, options = store.schema, store.options
        layout = DataFileLayout.of(schema, options)
        merge = None
        if schema.has_primary_key:
            function = merge_function_for(schema, options, drop_deletes=False, looked_up=False)
            merge = BufferMerge(
                layout=layout,
                function=function,
                descending=options.descending_sequence_fields,
                emits_input=options.changelog_producer is ChangelogProducer.INPUT,
                removals=RemovalRules.of(schema, options, function),
            )
        return FlushedFiles(layout=layout, names=DataFileNames(options.data_file_prefix), merge=merge)

    @staticmethod
    def postponed(store: FileStore, commit_user: str) -> "FlushedFiles":
        """Return the files of rows that wait for their buckets."""
        layout = postponed_layout(store.schema, store.options)
        names = DataFileNames(postponed_prefix(store.options, commit_user))
        return FlushedFiles(layout=layout, names=names, merge=PostponedRows(layout=layout))


def spill_of(options: CoreOptions, files: SpillFiles, rows: FlushRows | None) -> Spill | None:
    """Return the spilling of full buffers; None when they are flushed instead."""
    if rows is not None:
        spillable = options.write_buffer_spillable
        return Spill(files=files, arrange=rows.arrange, fan_in=options.local_sort_fan_in) if spillable else None
    # An append table with many buckets spills whatever the option says, as it has no other way to save memory.
    spillable = options.write_buffer_spillable or not options.write_buffer_for_append
    return Spill(files=files, arrange=small_batches) if spillable else None


def write_in_order(runs: Sequence[Run], layout: DataFileLayout, write: Callable[[pa.RecordBatch], None]) -> None:
    """Pass the rows in the layout of the file to `write`; raise CorruptFileError for a spilled run."""
    for batch in in_batches(runs):
        write(pa.RecordBatch.from_arrays(batch.columns, schema=layout.arrow))


def small_batches(runs: Sequence[Run]) -> Iterator[pa.RecordBatch]:
    """Yield the rows in order, in batches of the size of a spill."""
    for batch in in_batches(runs):
        rows = max(1, BATCH_BYTES * batch.num_rows // max(1, batch.nbytes))
        for start in range(0, batch.num_rows, rows):
            yield batch.slice(start, rows)


def in_batches(runs: Sequence[Run]) -> Iterator[pa.RecordBatch]:
    """Yield the rows in order."""
    for run in runs:
        if isinstance(run, SpilledRun):
            yield from run.batches()
        else:
            yield run


def postponed_layout(schema: TableSchema, options: CoreOptions) -> DataFileLayout:
    """Return the layout of files of postponed rows."""
    raw = {**options.raw, "file.format": _FORMAT, "metadata.stats-mode": "none"}
    try:
        check_fields(_FORMAT, schema.fields)
    except NotSupportedError:
        raw = dict(options.raw)
    # Nothing is looked up in these files, and their rows are not sorted.
    raw = {key: value for key, value in raw.items() if not key.startswith("file-index.")}
    return replace(DataFileLayout.of(schema, CoreOptions(raw)), ascending=frozenset())


def postponed_prefix(options: CoreOptions, commit_user: str) -> str:
    """Return the prefix of the names of one writer's files."""
    return f"{options.data_file_prefix}-u-{commit_user}-s-{random.randrange(_WRITER_NUMBERS)}-w-"
