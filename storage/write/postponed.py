"""Rows of a table with postponed buckets (`bucket` = -2): they are written as they come, and wait for a compaction
(documentation: primary-key table, data distribution, postpone bucket; Paimon's PostponeBucketFileStoreWrite).

<location>/[<partition column>=<value>/…]bucket-postpone/<prefix>-u-<commit user>-s-<number>-w-<uuid>-<n>.avro

The files hold the rows in order of arrival, unmerged, with their kinds, and no statistics. A name contains the writer,
so that a compaction can take up the files of one writer in the order in which they were made. Avro, which is the
quickest to write, takes the place of the table's own format unless it can't hold a column.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from interbed.storage.base.errors import NotSupportedError
from interbed.storage.files.format.layout import DataFileLayout, check_fields
from interbed.storage.lsm.write_buffer import Run, concatenate
from interbed.storage.lsm.writer import Write, file_batch
from interbed.storage.meta.options.core import CoreOptions
from interbed.storage.meta.schema.table_schema import TableSchema
from interbed.storage.write.flush_rows import in_batches, small_batches

_FORMAT = "avro"
_WRITER_NUMBERS = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PostponedRows:
    """What a flush does to buffered rows: nothing, they go to the file in order. Has the methods of BufferMerge."""

    layout: DataFileLayout
    emits_input: bool = False
    removals: None = None

    def join(self, runs: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
        """The rows of all runs one after the other."""
        return concatenate(runs)

    def write(
        self,
        runs: Sequence[Run],
        write: Write,
        emit_changes: Write | None = None,
        emit_removals: Write | None = None,
    ) -> None:
        """Hand the rows in the file's layout to `write`; raises CorruptFileError for a spilled run."""
        for batch in in_batches(runs):
            write(file_batch(batch, self.layout))

    def arrange(self, runs: Sequence[Run]) -> Iterator[pa.RecordBatch]:
        """The rows in order, in batches of a size to be spilled."""
        return small_batches(runs)


def postponed_layout(schema: TableSchema, options: CoreOptions) -> DataFileLayout:
    """The layout of files of postponed rows."""
    raw = {**options.raw, "file.format": _FORMAT, "metadata.stats-mode": "none"}
    try:
        check_fields(_FORMAT, schema.fields)
    except NotSupportedError:
        raw = dict(options.raw)
    # Nothing is looked up in these files, and their rows are not sorted.
    raw = {key: value for key, value in raw.items() if not key.startswith("file-index.")}
    return replace(DataFileLayout.of(schema, CoreOptions(raw)), ascending=frozenset())


def postponed_prefix(options: CoreOptions, commit_user: str) -> str:
    """What the names of one writer's files begin with."""
    return f"{options.data_file_prefix}-u-{commit_user}-s-{random.randrange(_WRITER_NUMBERS)}-w-"
