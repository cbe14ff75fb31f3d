"""The writer of one bucket: a write buffer, the files that its flushes make, and the outcomes of compactions.

The files that a flush makes, for each kind of table:

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
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from interbed.storage.base.arrow_values import from_numpy
from interbed.storage.base.errors import NotSupportedError
from interbed.storage.files.format.layout import DataFileLayout, DataFileNames, check_fields
from interbed.storage.files.format.writer import RollingFileWriter
from interbed.storage.io.api import FileIO
from interbed.storage.lsm.compact.manager import CompactManager
from interbed.storage.lsm.compact.rewriter import CompactedFiles, CompactIncrement
from interbed.storage.lsm.merge_function.factory import merge_function_for
from interbed.storage.lsm.write_buffer import (
    BATCH_BYTES,
    Run,
    Spill,
    SpilledRun,
    SpillFiles,
    WriteBuffer,
    concatenate,
    with_kinds,
)
from interbed.storage.lsm.writer import BufferMerge, RemovalRules, Write, file_batch
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.manifest.entry import DataFileMeta, FileSource
from interbed.storage.meta.options.core import CoreOptions
from interbed.storage.meta.options.lsm import ChangelogProducer
from interbed.storage.meta.paths import DataFilePlace
from interbed.storage.meta.schema.table_schema import SEQUENCE_NUMBER, TableSchema
from interbed.storage.write.bucket.route import RoutedRows
from interbed.storage.write.commit_message import DataIncrement

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


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketChanges:
    """The changes of a bucket since the last call of `take_changes`."""

    data: DataIncrement
    compaction: CompactIncrement


class BucketWriter:
    """Writer of one bucket, which owns its files until `take_changes` returns them. Not for use by several threads at
    once.

    `first_sequence` is the sequence number of the next row. `compaction` compacts the bucket in the background; without
    it only files of level 0 are made. `discard` deletes the files of a compaction that are not needed. `merge` is given
    for tables with a primary key; if the changelog is the input, it is written to files of `changelog_names`. `spill`
    spills buffered rows to local disk; None disables spilling. While `keeps_open` returns true, the rows of an append
    table go to a file that stays open until it is full or the commit comes.
    """

    def __init__(
        self,
        file_io: FileIO,
        place: DataFilePlace,
        names: DataFileNames,
        layout: DataFileLayout,
        *,
        first_sequence: int,
        merge: FlushRows | None = None,
        compaction: CompactManager | None = None,
        discard: Callable[[CompactIncrement], None] = lambda outcome: None,
        changelog_names: DataFileNames | None = None,
        spill: Spill | None = None,
        keeps_open: Callable[[], bool] = lambda: False,
    ) -> None:
        self._compaction = compaction
        self._discard = discard
        self._compacted = CompactedFiles()
        self._merge = merge
        self.buffer = WriteBuffer(concatenate if merge is None else merge.join, spill)
        self._keeps_open = keeps_open
        self._open_file: RollingFileWriter | None = None
        self.next_sequence = first_sequence
        self._first_unflushed = first_sequence
        self._file_io = file_io
        self._place = place
        self._names = names
        self._layout = layout
        self._changelog_names = changelog_names
        self._files: list[DataFileMeta] = []
        self._changelog: list[DataFileMeta] = []

    def numbered(self, rows: RoutedRows) -> pa.RecordBatch:
        """Return the rows as the buffer takes them; with a primary key they have their sequence numbers and kinds."""
        first = self.next_sequence
        self.next_sequence += rows.arrived
        if self._merge is None:
            return rows.batch
        places = np.arange(rows.batch.num_rows, dtype=np.int64) if rows.places is None else rows.places
        sequences: pa.Array[Any] = from_numpy(places + first)
        columns = [*rows.batch.columns, sequences]
        batch = pa.RecordBatch.from_arrays(columns, names=[*rows.batch.schema.names, SEQUENCE_NUMBER])
        return batch if rows.kinds is None else with_kinds(batch, rows.kinds)

    @property
    def is_compacting(self) -> bool:
        """Whether a compaction was started whose outcome was not taken yet."""
        return self._compaction is not None and self._compaction.is_running

    @property
    def skipped(self) -> int:
        """The number of opportunities to compact since level 0 was last compacted by force."""
        return 0 if self._compaction is None else self._compaction.skipped

    @property
    def nbytes(self) -> int:
        """The approximate size of the rows since the last `take_changes`: in the buffer, and in files."""
        return self.buffer.bytes + sum(f.file_size for f in self._files)

    def relieve(self) -> None:
        """Free the memory of the buffer in the way that leaves the fewest files; on an error as `flush`.

        Rows that make a large file of their own are flushed at once. Fewer rows are spilled to local disk if that is
        allowed.
        """
        if self._merge is None and self._keeps_open():
            self._append_rows()
        elif self.buffer.bytes >= self._layout.target_size // 2 or not self.buffer.spill():
            self.flush()

    def flush(self) -> None:
        """Write the buffered rows to a file of level 0, or several when they exceed the target size.

        Then a compaction is started if one is due; with too many sorted runs the running one is awaited first. On an
        error the files of this flush are deleted, and its rows are lost: the writer can only be aborted.
        """
        if self.buffer.rows or self._open_file is not None:
            self._flush_and_trigger(wait=False)

    def compact(self, *, full: bool) -> None:
        """Flush, wait for the running compaction, and start another: the one that is due, or a full one."""
        self._flush_and_trigger(wait=True, full=full)

    def finish(self, *, wait: bool) -> None:
        """Flush, start a compaction that is due, and wait for it if `wait` is true or there are too many runs."""
        self._flush_and_trigger(wait=wait)
        if self._compaction is not None:
            self._take_over(self._compaction, wait=wait or self._compaction.must_wait_before_commit)

    def _flush_and_trigger(self, *, wait: bool, full: bool = False) -> None:
        """Flush and trigger a compaction; as in Paimon each flush is an opportunity to compact, also without rows."""
        written: list[DataFileMeta] = []
        if self.buffer.rows or self._open_file is not None:
            wait = wait or (self._compaction is not None and self._compaction.must_wait_before_flush)
            written = self._write_buffer()
        if self._compaction is not None:
            self._compaction.add(written)
            self._take_over(self._compaction, wait=wait)
            self._compaction.trigger(full=full)

    def _write_buffer(self) -> list[DataFileMeta]:
        written = self._append() if self._merge is None else self._write_merged(self._merge)
        self._files.extend(written)
        return written

    def _write_merged(self, merge: FlushRows) -> list[DataFileMeta]:
        with ExitStack() as opened:
            writer = opened.enter_context(self._file_writer(self._names))
            # Older rows of keys that occur again in the same flush; they need files of their own.
            removals = None if merge.removals is None else opened.enter_context(self._file_writer(self._names))
            removed = None if removals is None else removals.write
            runs = opened.enter_context(self._taken())
            if self._changelog_names is None or not merge.emits_input:
                merge.write(runs, writer.write, emit_removals=removed)
            else:
                with self._file_writer(self._changelog_names) as changelog:
                    merge.write(runs, writer.write, changelog.write, removed)
                    # Recorded at once, so that abort() deletes them after any later failure.
                    self._changelog.extend(changelog.close())
            older = [] if removals is None else removals.close()
            try:
                return [*older, *writer.close()]
            except BaseException:
                self._file_io.delete_quietly([path for f in older for path in f.paths_in(self._place.directory)])
                raise

    def _append(self) -> list[DataFileMeta]:
        self._append_rows()
        writer, self._open_file = self._open_file, None
        self._first_unflushed = self.next_sequence
        return [] if writer is None else writer.close()

    def _append_rows(self) -> None:
        if self._open_file is None:
            # Rows of a primary-key table contain their sequence numbers; those of other tables are counted.
            self._open_file = self._file_writer(self._names, self._first_unflushed)
        with self._taken() as runs:
            write_in_order(runs, self._layout, self._open_file.write)
            self._open_file.end_group()

    @contextmanager
    def _taken(self) -> Iterator[Sequence[Run]]:
        runs = self.buffer.take()
        try:
            yield runs
        finally:
            self.buffer.release(runs)

    def _file_writer(self, names: DataFileNames, first_sequence: int | None = None) -> RollingFileWriter:
        return RollingFileWriter(
            self._file_io,
            self._place,
            names,
            self._layout,
            level=0,
            source=FileSource.APPEND,
            changelog=names is self._changelog_names,
            first_sequence=first_sequence,
        )

    def take_changes(self) -> BucketChanges:
        """Return the changes since the last call; the caller owns the files from now on."""
        files, self._files = self._files, []
        changelog, self._changelog = self._changelog, []
        compacted, self._compacted = self._compacted, CompactedFiles()
        data = DataIncrement(new_files=tuple(files), changelog_files=tuple(changelog))
        return BucketChanges(data=data, compaction=compacted.outcome())

    def abort(self) -> None:
        """Cancel a running compaction, delete the files that were not taken, drop buffered rows; never raise."""
        self.buffer.clear()
        if self._open_file is not None:
            self._open_file.abort()
            self._open_file = None
        if self._compaction is not None:
            self._compaction.cancel()
        changes = self.take_changes()
        if changes.compaction:
            self._discard(changes.compaction)
        files = (*changes.data.new_files, *changes.data.changelog_files)
        self._file_io.delete_quietly([path for f in files for path in f.paths_in(self._place.directory)])

    def _take_over(self, compaction: CompactManager, *, wait: bool) -> None:
        outcome = compaction.take(wait=wait)
        if outcome is not None:
            needless = self._compacted.add(outcome)
            self._discard(needless)
