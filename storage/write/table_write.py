"""The writer of a table: batches in, commit messages out; and the writer that overwrites partitions.

Rows are matched to the schema of the table, routed to their partition and bucket, buffered there and flushed to data
files. Nothing becomes visible before the messages of `prepare_commit` are committed. Files that are not part of a
message are deleted by `abort` and `close`, and at once when writing fails.

An overwrite of some partitions of a table whose keys move between partitions can't just replace their files, because
keys of the new rows may be in partitions that stay. So `ReplacingWrite` deletes these keys there, as any upsert does,
and deletes the rows of the replaced partitions whose keys are not written again. The commit is an append.
"""

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Any, Self

import numpy as np
import pyarrow as pa

from interbed.storage.base.arrow_values import from_numpy
from interbed.storage.base.bucket_id import BucketId
from interbed.storage.base.errors import InvalidInputError
from interbed.storage.base.prefetch import ByteBudget, longest_first
from interbed.storage.base.row.kind import RowKind
from interbed.storage.files.format.layout import DataFileNames
from interbed.storage.lsm.compact.manager import CompactionPlanner, CompactManager
from interbed.storage.lsm.compact.rewriter import discard
from interbed.storage.lsm.write_buffer import SpillFiles, WriteBufferPool
from interbed.storage.meta.bucket_mode import BucketMode, bucket_mode
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.options.lsm import ChangelogProducer, MergeEngine
from interbed.storage.meta.snapshot.snapshot import CommitKind
from interbed.storage.scan.live_files import BucketRestore, LatestBuckets, NothingBefore, restore_buckets
from interbed.storage.scan.partition_filter import (
    PartitionChoice,
    PartitionFilter,
    PartitionSet,
    partition_filter,
    selects_all,
)
from interbed.storage.scan.support import check_writable
from interbed.storage.write.bucket.cross_partition import ReplacingCrossPartition
from interbed.storage.write.bucket.route import RoutedRows
from interbed.storage.write.bucket_strategy import BucketStrategy, CrossPartitionStrategy, MakeStrategy, strategy_of
from interbed.storage.write.bucket_writer import BucketWriter, spill_of
from interbed.storage.write.commit_message import CommitMessage
from interbed.storage.write.row_converter import KeptNulls, RowConverter, RowKinds

FLUSH_THREADS = min(4, os.cpu_count() or 1)
"""Buckets flushed at the same time by prepare_commit.

A flush merges the rows of the buffer block by block. So the write path holds `write-buffer-size`, for any number of
open buckets, and in addition: the batch that is being written and its rows by bucket, write_buffer.LOOSE_BYTES, and for
each of these threads a block (64 MB at most) and a row group. That is less than 250 MB on two cores for batches of a
common size.
"""

COMPACTION_THREADS = min(4, os.cpu_count() or 1)
"""Buckets compacted in the background at the same time while a table is written."""

_SMALL_AT_ONCE = 16

_SMALL_BYTES = 32 << 20
"""In an object store more buckets are flushed at once while all together are this small: they wait for responses."""

_FEW_ROWS = 10_000
"""The number of rows below which a flush takes no longer than starting threads for it."""


class BackgroundCompactions:
    """The background compactions of one writer, at most one in each of its buckets.

    The threads start at the first bucket. Not for use by several threads.
    """

    def __init__(self, store: FileStore) -> None:
        self._store = store
        self._pool: ThreadPoolExecutor | None = None
        # Buckets are opened for each commit; with `lookup-compact` = `gentle` the count continues over commits.
        self._skipped: dict[BucketId, int] = {}
        # By schema id: a compaction of files with newer columns needs the newer schema.
        self._planners: dict[int, CompactionPlanner] = {}

    def of_bucket(self, bucket_id: BucketId, existing: BucketRestore) -> CompactManager:
        """Return the compactions of a bucket that holds the existing files."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(COMPACTION_THREADS, thread_name_prefix="compact")
        store = self._store.for_files_of(f.schema_id for f in existing.files(bucket_id))
        if store.schema.id not in self._planners:
            self._planners[store.schema.id] = CompactionPlanner(store)
        return CompactManager(
            store,
            self._planners[store.schema.id],
            self._pool,
            bucket_id,
            existing.files(bucket_id),
            existing.index_files(bucket_id),
            self._skipped.get(bucket_id, 0),
        )

    def remember(self, bucket_id: BucketId, skipped: int) -> None:
        """Record how many opportunities to compact a bucket has skipped, for the next time it is opened."""
        if skipped:
            self._skipped[bucket_id] = skipped
        else:
            self._skipped.pop(bucket_id, None)

    def close(self) -> None:
        """Wait for running compactions."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None


class TableWrite:
    """Writer of one table; not for use by several threads at once.

    `restore` returns the files of the newest snapshot; it is called at the first row for a bucket after creation and
    after each `prepare_commit`. By default it scans the table. `strategy` makes the bucket strategy; by default that of
    the bucket mode of the table. With `rewrites` the rows come from the table itself. Errors about rows name the table
    by `name`, by default by its location. Raises NotSupportedError for tables that this version does not write.

    Every method but `abort` and `close` raises InvalidInputError after one of those, and after a failure.
    """

    def __init__(
        self,
        store: FileStore,
        commit_user: str,
        restore: Callable[[], BucketRestore] | None = None,
        *,
        strategy: MakeStrategy = strategy_of,
        name: str | None = None,
        rewrites: bool = False,
    ) -> None:
        check_writable(store)
        self.commit_user = commit_user
        self._store = store
        self._schema = store.schema
        self._options = store.options
        self._latest = LatestBuckets(restore or (lambda: restore_buckets(store)))
        self._buckets = strategy(store, commit_user, self._latest)
        self._files = self._buckets.files
        self._changelog_names = DataFileNames(store.options.changelog_file_prefix)
        self._rewrites = rewrites
        self._incoming = RowConverter(
            store.schema, f"table {store.location}" if name is None else f"the table '{name}'"
        )
        self._kinds = RowKinds(store.schema, store.options)
        self._pool = WriteBufferPool(store.options.write_buffer_size)
        self._spill_files = SpillFiles.of(store.options)
        self._spill = spill_of(store.options, self._spill_files, self._files.merge)
        self._writers: dict[BucketId, BucketWriter] = {}
        # New rows must not reuse the sequence numbers of rows in a commit that the restore may not see yet.
        self._next_sequences: dict[BucketId, int] = {}
        compacts = self._buckets.compacts and not store.options.write_only
        self._compactions = BackgroundCompactions(store) if compacts else None
        self._log = store.hooks.log_of_writes(store)
        self._open = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def write_arrow(
        self,
        data: pa.Table | pa.RecordBatch,
        row_kinds: "pa.Array[Any] | pa.ChunkedArray[Any] | None" = None,
        *,
        keeps_nulls: KeptNulls = False,
    ) -> None:
        """Write rows; `row_kinds` are int8 (0 +I, 1 -U, 2 +U, 3 -D), all +I when None.

        Columns are matched by name; absent nullable ones become null or their default. With `keeps_nulls`, and if the
        rows come from the table itself, null stays null in columns with a default. Raises SchemaMismatchError and
        InvalidInputError before any row is taken. Any other error aborts the writer, as LogUnavailableError does,
        because the log of a table gets rows before they are committed.
        """
        self._write_rows(data, row_kinds, keeps_nulls=self._rewrites or keeps_nulls, are_new=not self._rewrites)

    def write_kept(self, data: pa.RecordBatch) -> None:
        """Write rows of the table again, whose file is replaced. Values that other writers wrote are not refused."""
        self._write_rows(data, None, keeps_nulls=True, are_new=False)

    def _write_rows(
        self,
        data: pa.Table | pa.RecordBatch,
        row_kinds: "pa.Array[Any] | pa.ChunkedArray[Any] | None",
        *,
        keeps_nulls: KeptNulls,
        are_new: bool,
    ) -> None:
        self._check_open()
        # Deletions and updates of rows of the table, and rows that are written again, have its keys.
        keeps_nan = keeps_nulls is True or (keeps_nulls is not False and row_kinds is not None)
        batches = self._incoming.batches(data, keeps_nulls=keeps_nulls, keeps_nan=keeps_nan)
        kinds = None if row_kinds is None else self._incoming.kinds(row_kinds, data.num_rows)
        offset = 0
        with self._aborted_by_errors():
            for batch in batches:
                part = None if kinds is None else kinds.slice(offset, batch.num_rows)
                offset += batch.num_rows
                if are_new:
                    first_row = offset - batch.num_rows
                    self._incoming.check_new_rows(batch, part, self._options.partition_default_name, first_row)
                batch, part = self._kinds.apply(batch, part)
                for routed in self._buckets.route(batch, part):
                    self._buffer(routed)

    def compact(self, bucket_id: BucketId, *, full: bool = False) -> None:
        """Start a compaction of one bucket, a full one or one that is due; its outcome is in later messages.

        An error aborts the writer.
        """
        self._check_open()
        writer = self._writers.get(bucket_id) or self._new_writer(bucket_id)
        with self._aborted_by_errors():
            writer.compact(full=full)

    def prepare_commit(self, *, wait_compaction: bool = True) -> list[CommitMessage]:
        """Flush all rows and return a message for each changed bucket, in the order of partition and bucket.

        Compactions that are due are started. With `wait_compaction` their outcome is in the messages. Otherwise the
        outcome of running compactions is in the messages of a later call, unless the options require waiting. The
        caller owns the files named in the messages. On an error all written files are deleted.
        """
        self._check_open()
        wait = wait_compaction or self._options.commit_force_compact or self._options.lookup_wait
        with self._aborted_by_errors():
            if self._full_compaction_is_due():
                self.compact_all()
                wait = True
            self._for_all(lambda writer: writer.finish(wait=wait))
            if self._log is not None:
                # Readers of the next snapshot must find its rows in the log.
                self._log.flush()
            prepared = self._buckets.prepare()
        messages = []
        compacting: dict[BucketId, BucketWriter] = {}
        for bucket_id, writer in sorted(self._writers.items()):
            changes = writer.take_changes()
            self._next_sequences[bucket_id] = writer.next_sequence
            if self._compactions is not None:
                self._compactions.remember(bucket_id, writer.skipped)
            message = prepared.added_to(
                CommitMessage(
                    bucket_id=bucket_id,
                    total_buckets=self._options.bucket,
                    data=changes.data,
                    compaction=changes.compaction,
                )
            )
            if not message.is_empty:
                messages.append(message)
            if writer.is_compacting:
                compacting[bucket_id] = writer
        messages += prepared.others(self._writers)
        self._reset()
        # Buckets that are opened again see the commits of other writers; those that compact stay open.
        for bucket_id, writer in compacting.items():
            self._writers[bucket_id] = writer
            self._pool.register(writer.buffer, writer.relieve)
        return messages

    def abort(self) -> None:
        """Delete the files that no commit message names, and refuse further rows; never raise."""
        self._open = False
        for writer in self._writers.values():
            writer.abort()
        self._reset()
        self._spill_files.close()
        self._buckets.close()
        if self._compactions is not None:
            self._compactions.close()

    def close(self) -> None:
        """End the writer; rows that prepare_commit did not flush are lost."""
        self.abort()

    @contextmanager
    def _aborted_by_errors(self) -> Iterator[None]:
        """Abort the writer when the block fails; raise CommitFailedError when the table was dropped or renamed."""
        try:
            with self._store.changing():
                yield
        except BaseException:
            self.abort()
            raise

    def _check_open(self) -> None:
        if not self._open:
            raise InvalidInputError("This writer was closed or failed before; open a new one.")

    def _reset(self) -> None:
        self._pool.clear()
        self._writers.clear()
        self._latest.forget()

    def _buffer(self, rows: RoutedRows) -> None:
        if self._log is not None:
            self._log.send(rows.bucket_id.bucket, rows.batch, rows.kinds)
        writer = self._writers.get(rows.bucket_id) or self._new_writer(rows.bucket_id)
        self._pool.append(writer.buffer, writer.numbered(rows))

    def _new_writer(self, bucket_id: BucketId) -> BucketWriter:
        files, compactions = self._files, self._compactions
        writer = BucketWriter(
            self._store.file_io,
            self._store.new_files(bucket_id),
            files.names,
            files.layout,
            first_sequence=self._buckets.first_sequence(bucket_id, self._next_sequences.get(bucket_id, 0)),
            merge=files.merge,
            compaction=None if compactions is None else compactions.of_bucket(bucket_id, self._latest.get()),
            discard=partial(discard, self._store, bucket_id),
            changelog_names=self._changelog_names,
            spill=self._spill,
            keeps_open=self._keeps_files_open,
        )
        self._writers[bucket_id] = writer
        self._pool.register(writer.buffer, writer.relieve)
        return writer

    def _keeps_files_open(self) -> bool:
        """Return whether the rows of an append table go to open files; their number is limited because each takes
        memory.
        """
        options = self._options
        return not options.write_buffer_for_append and len(self._writers) <= options.write_max_writers_to_spill

    def _full_compaction_is_due(self) -> bool:
        """Return whether `full-compaction.delta-commits` commits, including this one, followed the last full
        compaction.
        """
        commits = self._options.full_compaction_delta_commits
        if commits is None or self._compactions is None or not self._writers:
            return False
        produced_by_full_compaction = self._options.changelog_producer is ChangelogProducer.FULL_COMPACTION
        count = 1
        for snapshot in self._store.snapshots.descending():
            if count >= commits:
                break
            if snapshot.commit_kind is CommitKind.COMPACT and (
                not produced_by_full_compaction or snapshot.changelog_manifest_list is not None
            ):
                # With that producer a full compaction has a changelog, a minor one has none.
                return False
            count += snapshot.commit_kind is CommitKind.APPEND
        return count >= commits

    def compact_all(self, partitions: Collection[bytes] | None = None) -> None:
        """Start a full compaction of every bucket, including buckets that only other commits have written.

        `partitions` restricts it to some partitions, which are serialised BinaryRows.
        """
        self._check_open()
        existing = {*self._writers, *(b for b in self._latest.get().buckets() if b.bucket >= 0)}
        chosen = existing if partitions is None else {b for b in existing if b.partition in partitions}
        buckets = sorted(chosen)
        writers = [self._writers.get(bucket_id) or self._new_writer(bucket_id) for bucket_id in buckets]
        files = [self._latest.get().files(bucket_id) for bucket_id in buckets]
        sizes = [w.nbytes + sum(f.file_size for f in each) for w, each in zip(writers, files, strict=True)]
        # The compactions run in the order in which they are started.
        for place in longest_first(sizes):
            writers[place].compact(full=True)

    def _for_all(self, work: Callable[[BucketWriter], None]) -> None:
        """Call `work` for all writers, for several at the same time."""
        writers: Sequence[BucketWriter] = list(self._writers.values())
        # Compactions run at the same time and may be awaited.
        few = self._compactions is None and sum(w.buffer.rows for w in writers) < _FEW_ROWS
        is_remote_table = self._store.file_io.capabilities.slow_requests
        threads = _SMALL_AT_ONCE if is_remote_table else FLUSH_THREADS
        if len(writers) <= 1 or threads == 1 or (few and not is_remote_table):
            for writer in writers:
                work(writer)
            return
        sizes = [w.buffer.bytes for w in writers]
        budget = ByteBudget(FLUSH_THREADS, _SMALL_BYTES if is_remote_table else 0)

        def run(place: int) -> None:
            with budget.reserve(sizes[place]):
                work(writers[place])

        with ThreadPoolExecutor(min(threads, len(writers)), thread_name_prefix="flush") as pool:
            # Largest first, so that the threads end at about the same time.
            futures = [pool.submit(run, place) for place in longest_first(sizes)]
            try:
                for future in futures:
                    future.result()
            except BaseException:
                budget.close()
                pool.shutdown(cancel_futures=True)
                raise


def overwriting(
    store: FileStore, commit_user: str, partition: PartitionChoice, *, strategy: MakeStrategy = strategy_of
) -> TableWrite:
    """Return the writer of an overwrite of the chosen partitions: all for {}, those that get rows for None.

    Its messages are for `FileStoreCommit.overwrite`.
    """
    some = bool(store.schema.partition_keys) and (partition is None or not selects_all(partition))
    if some and _takes_deletions(store):
        return ReplacingWrite(store, commit_user, partition)
    return TableWrite(store, commit_user, NothingBefore, strategy=strategy)


def _takes_deletions(store: FileStore) -> bool:
    options = store.options
    return (
        bucket_mode(store.schema, options) is BucketMode.CROSS_PARTITION
        and options.merge_engine is MergeEngine.DEDUPLICATE
        and not options.ignore_delete
        and options.rowkind_field is None
    )


class ReplacingWrite(TableWrite):
    """Writer of an overwrite of some partitions, for tables whose keys move between partitions.

    There must be no other writer of the same overwrite, because each would delete the rows of the others.
    """

    def __init__(self, store: FileStore, commit_user: str, partition: PartitionChoice) -> None:
        super().__init__(store, commit_user, strategy=self._make_strategy)
        self._partition = partition

    def _make_strategy(self, store: FileStore, commit_user: str, latest: LatestBuckets) -> BucketStrategy:
        self._replacing = ReplacingCrossPartition(store, commit_user, latest.get)
        return CrossPartitionStrategy(store, latest, self._replacing)

    def prepare_commit(self, *, wait_compaction: bool = True) -> list[CommitMessage]:
        """Prepare the commit as TableWrite does; raise InvalidInputError for rows outside of the overwritten
        partitions.
        """
        self._check_open()
        with self._aborted_by_errors():
            target = self._target()
            for left in self._replacing.rows_left(target):
                self.write_arrow(left, from_numpy(np.full(left.num_rows, RowKind.DELETE, np.int8)))
        messages = super().prepare_commit(wait_compaction=wait_compaction)
        return [replace(message, replaces=True) for message in messages]

    def _target(self) -> PartitionFilter:
        schema, written = self._schema, self._replacing.partitions_written
        if self._partition is None:
            return PartitionSet(written, schema.partition_fields)
        default_name = self._options.partition_default_name
        target = partition_filter(self._partition, schema.partition_fields, default_name=default_name)
        outside = written - target.select(written)
        if outside:
            place = self._store.paths.readable_partition(min(outside))
            raise InvalidInputError(
                f"The new data have rows of partition {place}, which is not among the partitions to be overwritten."
            )
        return target
