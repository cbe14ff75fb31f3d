"""Writing to a table: batches in, commit messages out.

Rows are matched to the table's schema, routed to their partition and bucket, buffered there and flushed to data files.
Nothing becomes visible before the messages of `prepare_commit` are committed; files that are not part of a message
are deleted by `abort` and `close`, and at once when writing fails.
"""

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cached_property, partial
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from interbed.storage.base.bucket_id import BucketId
from interbed.storage.base.byte_budget import ByteBudget, longest_first
from interbed.storage.base.errors import InvalidInputError
from interbed.storage.files.format.layout import DataFileNames
from interbed.storage.lsm.compact.manager import CompactManager
from interbed.storage.lsm.compact.planner import CompactionPlanner
from interbed.storage.lsm.compact.rewriter import discard
from interbed.storage.lsm.spill import SpillFiles
from interbed.storage.lsm.write_buffer import WriteBufferPool
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.options.lsm import ChangelogProducer
from interbed.storage.meta.snapshot.snapshot import CommitKind
from interbed.storage.scan.live_files import restore_buckets
from interbed.storage.scan.support import check_writable
from interbed.storage.write.bucket_restore import BucketRestore, LatestBuckets
from interbed.storage.write.bucket_strategy import MakeStrategy, strategy_of
from interbed.storage.write.bucket_writer import BucketWriter
from interbed.storage.write.commit_message import CommitMessage
from interbed.storage.write.flush_rows import spill_of
from interbed.storage.write.incoming import IncomingRows, RowKinds
from interbed.storage.write.route import RoutedRows

FLUSH_THREADS = min(4, os.cpu_count() or 1)
"""Buckets flushed at the same time by prepare_commit.

A flush merges the buffer's rows block by block. So the write path holds `write-buffer-size`, however many buckets are
open, and beside it the batch that is being written and its rows by bucket, write_buffer.LOOSE_BYTES, and for each of
these threads a block (64 MB at most) and a row group: less than 250 MB on two cores for batches of a common size."""

COMPACTION_THREADS = min(4, os.cpu_count() or 1)
"""Buckets compacted in the background at the same time while a table is written."""

_SMALL_AT_ONCE = 16

_SMALL_BYTES = 32 << 20
"""In a store more buckets are flushed at once as long as all of them together are small: they wait for its answers."""

_FEW_ROWS = 10_000
"""Flushing fewer takes no longer than starting threads for it."""


class BackgroundCompactions:
    """What the compactions of one writer share; made at the first bucket. Not for use by several threads."""

    def __init__(self, store: FileStore) -> None:
        self._store = store
        self._pool: ThreadPoolExecutor | None = None
        # Buckets are opened anew for each commit; with `lookup-compact` = `gentle` their compactions count on.
        self._skipped: dict[BucketId, int] = {}

    @cached_property
    def _planner(self) -> CompactionPlanner:
        return CompactionPlanner(self._store)

    def of_bucket(self, bucket_id: BucketId, existing: BucketRestore) -> CompactManager:
        """The compactions of a bucket that holds what exists."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(COMPACTION_THREADS, thread_name_prefix="compact")
        return CompactManager(
            self._store,
            self._planner,
            self._pool,
            bucket_id,
            existing.files(bucket_id),
            existing.index_files(bucket_id),
            self._skipped.get(bucket_id, 0),
        )

    def remember(self, bucket_id: BucketId, skipped: int) -> None:
        """Keep how many opportunities to compact a bucket has passed over, for when it is opened anew."""
        if skipped:
            self._skipped[bucket_id] = skipped
        else:
            self._skipped.pop(bucket_id, None)

    def close(self) -> None:
        """Wait for compactions that run."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None


class TableWrite:
    """A writer of one table; not for use by several threads at once.

    `restore` gives what exists in the table's newest snapshot; it is asked at the first row for a bucket after creation
    and after each `prepare_commit`. By default it scans the table. `strategy` makes what finds the rows' buckets; by
    default it is that of the table's bucket mode. With `rewrites` the rows are the table's own. Errors about rows name
    the table by `name`, by default by its location. Raises NotSupportedError for tables that this version does not
    write.

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
        self._incoming = IncomingRows(
            store.schema, f"table {store.location}" if name is None else f"the table '{name}'"
        )
        self._kinds = RowKinds(store.schema, store.options)
        self._pool = WriteBufferPool(store.options.write_buffer_size)
        self._spill_files = SpillFiles.of(store.options)
        self._spill = spill_of(store.options, self._spill_files, self._files.merge)
        self._writers: dict[BucketId, BucketWriter] = {}
        # Rows handed to a commit that the restore may not see yet must not share their sequence numbers with new ones.
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
        self, data: pa.Table | pa.RecordBatch, row_kinds: "pa.Array[Any] | pa.ChunkedArray[Any] | None" = None
    ) -> None:
        """Write rows; `row_kinds` are int8 (0 +I, 1 -U, 2 +U, 3 -D), all +I when None.

        Columns are matched by name; absent nullable ones become null or their default. Raises SchemaMismatchError and
        InvalidInputError before any row is taken; after any other error the writer is aborted, as after
        LogUnavailableError, where rows are in the table's log before they are committed.
        """
        self._check_open()
        batches = self._incoming.batches(data)
        kinds = None if row_kinds is None else self._incoming.kinds(row_kinds, data.num_rows)
        offset = 0
        with self._aborted_by_errors():
            for batch in batches:
                part = None if kinds is None else kinds.slice(offset, batch.num_rows)
                offset += batch.num_rows
                if not self._rewrites:
                    first_row = offset - batch.num_rows
                    self._incoming.check_new_rows(batch, part, self._options.partition_default_name, first_row)
                batch, part = self._kinds.apply(batch, part)
                for routed in self._buckets.route(batch, part):
                    self._buffer(routed)

    def compact(self, bucket_id: BucketId, *, full: bool = False) -> None:
        """Start a compaction of one bucket, a full one or what is due; its outcome is in the messages to come.

        On an error the writer is aborted.
        """
        self._check_open()
        writer = self._writers.get(bucket_id) or self._new_writer(bucket_id)
        with self._aborted_by_errors():
            writer.compact(full=full)

    def prepare_commit(self, *, wait_compaction: bool = True) -> list[CommitMessage]:
        """Flush everything; one message for each bucket that has changed, in the order of partition and bucket.

        Compactions that are due are started. With `wait_compaction` their outcome is in the messages; without, those of
        running ones are in the messages of a later call, unless the options want them awaited. The caller answers for
        the files named in the messages. On an error all files written are deleted.
        """
        self._check_open()
        wait = wait_compaction or self._options.commit_force_compact or self._options.lookup_wait
        with self._aborted_by_errors():
            if self._full_compaction_is_due():
                self.compact_all()
                wait = True
            self._for_all(lambda writer: writer.finish(wait=wait))
            if self._log is not None:
                # Readers of the snapshot to come have to find in the log what it commits.
                self._log.flush()
            prepared = self._buckets.prepare()
        messages = []
        going_on: dict[BucketId, BucketWriter] = {}
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
                going_on[bucket_id] = writer
        messages += prepared.others(self._writers)
        self._reset()
        # What other writers do meanwhile is seen by buckets opened anew; those that compact stay as they are.
        for bucket_id, writer in going_on.items():
            self._writers[bucket_id] = writer
            self._pool.register(writer.buffer, writer.relieve)
        return messages

    def abort(self) -> None:
        """Delete the files that no commit message names, and take no more rows; never raises."""
        self._open = False
        for writer in self._writers.values():
            writer.abort()
        self._reset()
        self._spill_files.close()
        self._buckets.close()
        if self._compactions is not None:
            self._compactions.close()

    def close(self) -> None:
        """End the writer; rows that were not handed out by prepare_commit are gone."""
        self.abort()

    @contextmanager
    def _aborted_by_errors(self) -> Iterator[None]:
        """Abort the writer when the work fails; raise CommitFailedError when the table was dropped or renamed."""
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
        """Whether an append table's rows go to open files: each takes memory, so there are few at a time."""
        options = self._options
        return not options.write_buffer_for_append and len(self._writers) <= options.write_max_writers_to_spill

    def _full_compaction_is_due(self) -> bool:
        """Whether `full-compaction.delta-commits` commits, this one included, came since the last full compaction."""
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
                # With that producer a minor compaction has no changelog, a full one has.
                return False
            count += snapshot.commit_kind is CommitKind.APPEND
        return count >= commits

    def compact_all(self, partitions: Collection[bytes] | None = None) -> None:
        """Start a full compaction of every bucket, those included that other commits have written.

        `partitions` restricts it to some, which are serialised BinaryRows.
        """
        self._check_open()
        existing = {*self._writers, *(b for b in self._latest.get().buckets() if b.bucket >= 0)}
        chosen = existing if partitions is None else {b for b in existing if b.partition in partitions}
        buckets = sorted(chosen)
        writers = [self._writers.get(bucket_id) or self._new_writer(bucket_id) for bucket_id in buckets]
        files = [self._latest.get().files(bucket_id) for bucket_id in buckets]
        sizes = [w.nbytes + sum(f.file_size for f in each) for w, each in zip(writers, files, strict=True)]
        # The compactions wait for each other in the order in which they are started.
        for place in longest_first(sizes):
            writers[place].compact(full=True)

    def _for_all(self, work: Callable[[BucketWriter], None]) -> None:
        """Do it for all writers, for several at the same time."""
        writers: Sequence[BucketWriter] = list(self._writers.values())
        # Compactions, which may be waited for, go on at the same time.
        few = self._compactions is None and sum(w.buffer.rows for w in writers) < _FEW_ROWS
        is_far = self._store.file_io.capabilities.slow_requests
        threads = _SMALL_AT_ONCE if is_far else FLUSH_THREADS
        if len(writers) <= 1 or threads == 1 or (few and not is_far):
            for writer in writers:
                work(writer)
            return
        sizes = [w.buffer.bytes for w in writers]
        room = ByteBudget(FLUSH_THREADS, _SMALL_BYTES if is_far else 0)

        def done(place: int) -> None:
            with room.reserve(sizes[place]):
                work(writers[place])

        with ThreadPoolExecutor(min(threads, len(writers)), thread_name_prefix="flush") as pool:
            # Largest first, so that the threads end at about the same time.
            futures = [pool.submit(done, place) for place in longest_first(sizes)]
            try:
                for future in futures:
                    future.result()
            except BaseException:
                room.close()
                pool.shutdown(cancel_futures=True)
                raise
