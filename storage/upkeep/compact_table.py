"""Compaction of a table, a partition or a bucket, as one COMPACT snapshot: in full, or as the strategy finds due.

`compact_again` repeats a compaction that was given up because of a conflict, where rows of level 0 are visible only
after a compaction.
"""

import logging
import os
import uuid
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial

from interbed.storage.base.bucket_id import BucketId
from interbed.storage.base.clock import Clock, local_millis
from interbed.storage.base.errors import InterbedError, InvalidInputError
from interbed.storage.base.prefetch import ByteBudget, first_within, longest_first
from interbed.storage.commit.basis import RowsRead
from interbed.storage.commit.contention import RetryPolicy
from interbed.storage.commit.file_store_commit import FileStoreCommit
from interbed.storage.files.format.readers import begin_loading
from interbed.storage.io.parallel import PendingFiles
from interbed.storage.lsm.compact.manager import CompactionPlanner
from interbed.storage.lsm.compact.rewriter import BucketRewriter, run_compaction
from interbed.storage.lsm.compact.strategy import CompactionUnit, PickReason, Rewrite, pick_full
from interbed.storage.lsm.levels import Levels
from interbed.storage.meta.bucket_mode import BucketMode, bucket_mode
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.paths import POSTPONE_BUCKET
from interbed.storage.scan.live_files import RestoredBuckets, restore_buckets
from interbed.storage.scan.partition_filter import PartitionChoice
from interbed.storage.scan.support import check_writable
from interbed.storage.upkeep.append_compact import (
    FileConcatenator,
    FileGroup,
    PostponedPartition,
    plan_append_compaction,
    plan_column_compaction,
    postponed_partitions,
    take_up,
)
from interbed.storage.write.commit_message import (
    CommitMessage,
    CompactionResult,
    PlannedCompaction,
    Progress,
    result_of,
)

COMPACTION_THREADS = min(4, os.cpu_count() or 1)
"""Number of buckets compacted at the same time; each holds a block of the merge and a row group, not its files."""
_SMALL_AT_ONCE = 8
_SMALL_BYTES = 32 << 20
"""In an object store this many buckets are compacted at once as long as all of them together are small.

Most of the time is spent waiting for files to be opened and uploaded.
"""


def compact_table(
    store: FileStore,
    commit_user: str,
    *,
    full: bool = True,
    partition: PartitionChoice = None,
    bucket: int | None = None,
    partition_idle_time: timedelta | None = None,
    progress: Progress | None = None,
) -> CompactionResult:
    """Compact every bucket, or those of the partitions or of the bucket number given, and commit it.

    With `full` all runs of a bucket become one; otherwise the work that is due by the table's options is done. With
    `partition_idle_time` partitions that got a file since then are left out. Raises CommitConflictError when another
    writer replaced the same files meanwhile, InvalidInputError for a bucket or a partition column that the table does
    not have. After an error nothing is left of the compaction.
    """
    check_writable(store)
    begin_loading(store.file_io, store.options.file_format, many=True, merging=store.schema.has_primary_key)
    restored = restored_buckets(store, partition, None if bucket is None else [bucket], partition_idle_time)
    store = store.for_files_of(restored.schema_ids())
    waiting = waiting_partitions(store, restored, partition, whole=bucket is None)
    # The writers of postponed rows compact the buckets that these are moved to.
    others = restored.without({p.partition for p in waiting}) if waiting else restored
    pending = PendingFiles(store.file_io, _SMALL_AT_ONCE) if store.file_io.capabilities.slow_requests else None
    messages = compact_buckets(store, others, full=full, progress=progress, pending=pending)
    try:
        messages += take_up(store, waiting, commit_user, full=full)
    except BaseException:
        if pending is not None:
            pending.settle()
        FileStoreCommit(store, commit_user).abort(messages)
        raise
    if not messages:
        return result_of(None, [])
    # The messages hold no new rows, so this makes only a COMPACT snapshot.
    ids = FileStoreCommit(store, commit_user, new_user=True, pending=pending).commit(messages)
    return result_of(ids[-1] if ids else None, messages)


def plan_table_compaction(
    store: FileStore,
    *,
    full: bool = True,
    partition: PartitionChoice = None,
    bucket: int | None = None,
    partition_idle_time: timedelta | None = None,
) -> list[PlannedCompaction]:
    """Return the plans of compact_table, bucket by bucket, without carrying them out.

    Buckets with nothing to do are left out.
    """
    check_writable(store)
    restored = restored_buckets(store, partition, None if bucket is None else [bucket], partition_idle_time)
    planner = CompactionPlanner(store)
    plans = [_planned_take_up(store, p) for p in waiting_partitions(store, restored, partition, whole=bucket is None)]
    for bucket_id in restored.buckets():
        if not store.schema.has_primary_key:
            plans += _planned_concatenation(store, restored, bucket_id, full=full)
            continue
        levels = planner.levels(restored.files(bucket_id))
        due = _due(planner, restored, levels, bucket_id, full=full)
        if due is not None:
            plans.append(_planned(store, bucket_id, due, levels))
    return plans


def compact_buckets(
    store: FileStore,
    restored: RestoredBuckets,
    *,
    full: bool = True,
    progress: Progress | None = None,
    pending: PendingFiles | None = None,
) -> list[CommitMessage]:
    """Compact the buckets; return a message for each one in which there was something to do.

    They begin with the largest, so that no thread is left with it at the end. Files in an object store are uploaded
    while the next bucket is read; a caller that passes `pending` waits for them. On an error the new files of all
    buckets are deleted.
    """
    work: Callable[[RestoredBuckets, BucketId], CommitMessage | None]
    store = store.for_files_of(restored.schema_ids())
    buckets = restored.buckets()
    sizes = [sum(f.file_size for f in restored.files(bucket_id)) for bucket_id in buckets]
    threads = _threads_for(store, sizes)
    own = PendingFiles(store.file_io, threads) if pending is None and store.file_io.capabilities.slow_requests else None
    pending = pending or own
    if pending is not None:
        store = replace(store, file_io=pending)
    if store.schema.has_primary_key:
        work = partial(_merge_bucket, store, CompactionPlanner(store), full)
    else:
        work = partial(_concatenate_bucket, store, FileConcatenator(store), full)
    futures: dict[int, Future[CommitMessage | None]] = {}
    pool = ThreadPoolExecutor(threads, thread_name_prefix="compact")
    memory = ByteBudget(COMPACTION_THREADS, _SMALL_BYTES)

    def run_one(index: int) -> CommitMessage | None:
        with memory.reserve(sizes[index]):
            return work(restored, buckets[index])

    try:
        for index in longest_first(sizes):
            futures[index] = pool.submit(run_one, index)
        for done, future in enumerate(as_completed(futures.values()), 1):
            future.result()
            if progress is not None:
                progress(done, len(futures))
        if own is not None:
            own.finish()
    except BaseException:
        memory.close()
        pool.shutdown(cancel_futures=True)
        finished = [f.result() for f in futures.values() if not f.cancelled() and f.exception() is None]
        FileStoreCommit(store, "").abort([m for m in finished if m is not None])
        if pending is not None:
            pending.settle()
        raise
    pool.shutdown()
    return [m for index in range(len(buckets)) if (m := futures[index].result()) is not None]


def _threads_for(store: FileStore, sizes: Sequence[int]) -> int:
    """Return the greatest number of buckets of these sizes, in bytes, that are compacted at once."""
    if not store.file_io.capabilities.slow_requests:
        return COMPACTION_THREADS
    together = first_within(sorted(sizes), _SMALL_BYTES)
    return max(COMPACTION_THREADS, min(together, _SMALL_AT_ONCE))


def restored_buckets(
    store: FileStore,
    partition: PartitionChoice,
    buckets: Collection[int] | None,
    idle: timedelta | None,
    *,
    clock: Clock = local_millis,
) -> RestoredBuckets:
    """Return the buckets to compact, as of the newest snapshot; `clock` is that of the files' creation times.

    Raises InvalidInputError for a bucket or a partition column that the table does not have, SnapshotNotFoundError for
    a table that was dropped or renamed.
    """
    restored = restore_buckets(store, partition_filter=partition, buckets=buckets)
    if restored.snapshot_id is None:
        store.check_not_gone()
    # There may be more buckets than the option says: dynamic ones, and those of rescaled partitions.
    fixed = store.options.bucket
    missing = set(buckets or ()) - set(range(max(1, fixed))) - {number for _, number in restored.buckets()}
    if missing:
        there = "makes them as rows come" if fixed < 0 else f"counts them from 0 to {fixed - 1}"
        raise InvalidInputError(f"The table has no bucket {min(missing)}; it {there}.")
    if idle is None:
        return restored
    newest: dict[bytes, int] = {}
    for bucket_id in restored.buckets():
        for file in restored.files(bucket_id):
            newest[bucket_id.partition] = max(newest.get(bucket_id.partition, 0), file.creation_time_millis)
    since = clock() - idle // timedelta(milliseconds=1)
    return restored.without({each for each, millis in newest.items() if millis > since})


def waiting_partitions(
    store: FileStore, restored: RestoredBuckets, partition: PartitionChoice, *, whole: bool
) -> list[PostponedPartition]:
    """Return partitions with postponed rows to take up; a compaction of single buckets leaves them."""
    if not whole or bucket_mode(store.schema, store.options) is not BucketMode.POSTPONED:
        return []
    return postponed_partitions(store, restored, partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class _DueCompaction:
    """Compaction unit that is due in a bucket, the reason, and its rewriter."""

    unit: CompactionUnit
    rewriter: BucketRewriter
    reason: str
    detail: str


def due_bytes(store: FileStore, restored: RestoredBuckets, bucket_id: BucketId, *, full: bool) -> int | None:
    """Return the bytes to read for merging a bucket of a table with a primary key; None if nothing is due."""
    planner = CompactionPlanner(store)
    levels = planner.levels(restored.files(bucket_id))
    due = _due(planner, restored, levels, bucket_id, full=full)
    return None if due is None else sum(f.file_size for f in due.unit.files_read)


def concatenated_groups(
    store: FileStore, restored: RestoredBuckets, bucket_id: BucketId, *, full: bool
) -> tuple[FileGroup, ...]:
    """Return the files of a bucket of an append table to concatenate, by groups.

    A full compaction takes any two small files, and every file with deleted rows; another one waits for as many files,
    and for as many deleted rows, as the options say.
    """
    options = store.options
    files = restored.files(bucket_id)
    if options.data_evolution_enabled:
        vectors = (v for index_file in restored.index_files(bucket_id) for v in index_file.deletion_vectors or ())
        return plan_column_compaction(
            files,
            target_bytes=options.target_file_size_for(primary_key=False),
            marked={vector.data_file_name for vector in vectors},
            least_files=2 if full else options.compaction_min_file_num,
        )
    part = 0.0 if full else options.compaction_delete_ratio_threshold
    rows = {f.file_name: f.row_count for f in files}
    thinned = {
        vector.data_file_name
        for index_file in restored.index_files(bucket_id)
        for vector in index_file.deletion_vectors or ()
        if vector.cardinality is None or vector.cardinality > part * rows.get(vector.data_file_name, 0)
    }
    return plan_append_compaction(
        files,
        small_file_bytes=_small_file_bytes(store),
        keep_order=options.bucket > 0,
        thinned=thinned,
        least_files=2 if full else options.compaction_min_file_num,
        enough_bytes=2 * options.target_file_size_for(primary_key=False),
    )


def _due(
    planner: CompactionPlanner, restored: RestoredBuckets, levels: Levels, bucket_id: BucketId, *, full: bool
) -> _DueCompaction | None:
    index_files = restored.index_files(bucket_id)
    rewriter = planner.rewriter(bucket_id, levels, index_files)
    if full:
        unit = planner.full_unit(levels, rewriter, index_files)
        reason = PickReason.FULL.value
        detail = "asked for" if pick_full(levels) is not None else "files to be rewritten"
    else:
        pick = planner.strategy.pick(levels, planner.context(levels))
        if pick is None:
            return None
        unit, reason, detail = planner.unit(pick, levels, rewriter), pick.reason.value, pick.detail
    return None if unit is None else _DueCompaction(unit=unit, rewriter=rewriter, reason=reason, detail=detail)


def _merge_bucket(
    store: FileStore,
    planner: CompactionPlanner,
    full: bool,
    restored: RestoredBuckets,
    bucket_id: BucketId,
) -> CommitMessage | None:
    levels = planner.levels(restored.files(bucket_id))
    due = _due(planner, restored, levels, bucket_id, full=full)
    if due is None:
        return None
    outcome = run_compaction(store, due.rewriter, due.unit, bucket_id)
    planner.discard_lookup_files(outcome.replaced)
    return CommitMessage.of_compaction(bucket_id, total_buckets(store, restored, bucket_id.partition), outcome)


def _concatenate_bucket(
    store: FileStore,
    concatenator: FileConcatenator,
    full: bool,
    restored: RestoredBuckets,
    bucket_id: BucketId,
) -> CommitMessage | None:
    groups = concatenated_groups(store, restored, bucket_id, full=full)
    if not groups:
        return None
    total = total_buckets(store, restored, bucket_id.partition)
    index_files = restored.index_files(bucket_id)
    return concatenator.run(groups, bucket_id, total_buckets=total, index_files=index_files)


def total_buckets(store: FileStore, restored: RestoredBuckets, partition: bytes) -> int:
    """Return the bucket count that new files of a partition are recorded with."""
    total = restored.total_buckets(partition)
    return store.options.bucket if total is None else total


def _small_file_bytes(store: FileStore) -> int:
    target = store.options.target_file_size_for(primary_key=store.schema.has_primary_key)
    return int(target * store.options.small_file_ratio)


def _planned(store: FileStore, bucket_id: BucketId, due: _DueCompaction, levels: Levels) -> PlannedCompaction:
    unit = due.unit
    rewritten = [f for step in unit.steps if isinstance(step, Rewrite) for f in step.files]
    moved = [step.file for step in unit.steps if not isinstance(step, Rewrite)]
    touched = {f.file_name for f in (*rewritten, *moved)}
    others = [r for r in levels.runs if r.level != unit.output_level]
    left = sum(any(f.file_name not in touched for f in r.run.files) for r in others)
    return PlannedCompaction(
        partition=store.paths.partition_spec(bucket_id.partition),
        bucket=bucket_id.bucket,
        reason=due.reason,
        detail=due.detail,
        output_level=unit.output_level,
        files_rewritten=len(rewritten),
        bytes_rewritten=sum(f.file_size for f in rewritten),
        rows_rewritten=sum(f.row_count for f in rewritten),
        files_moved=len(moved),
        runs_before=len(levels.runs),
        runs_after=left + 1,
    )


def _planned_take_up(store: FileStore, waiting: PostponedPartition) -> PlannedCompaction:
    return PlannedCompaction(
        partition=store.paths.partition_spec(waiting.partition),
        bucket=POSTPONE_BUCKET,
        reason="postponed rows",
        detail=f"they go to {waiting.buckets} bucket(s)",
        output_level=0,
        files_rewritten=len(waiting.files),
        bytes_rewritten=sum(f.file_size for f in waiting.files),
        rows_rewritten=sum(f.row_count for f in waiting.files),
        files_moved=0,
        runs_before=len(waiting.files),
        runs_after=0,
    )


def _planned_concatenation(
    store: FileStore, restored: RestoredBuckets, bucket_id: BucketId, *, full: bool
) -> list[PlannedCompaction]:
    files = restored.files(bucket_id)
    groups = concatenated_groups(store, restored, bucket_id, full=full)
    rewritten = [f for group in groups for f in group]
    if not rewritten:
        return []
    detail = f"{len(rewritten)} files smaller than {_small_file_bytes(store)} bytes, or with deleted rows"
    if store.options.data_evolution_enabled:
        detail = f"{len(rewritten)} files with columns of the same rows, or of adjacent ones"
    return [
        PlannedCompaction(
            partition=store.paths.partition_spec(bucket_id.partition),
            bucket=bucket_id.bucket,
            reason="small files",
            detail=detail,
            output_level=0,
            files_rewritten=len(rewritten),
            bytes_rewritten=sum(f.file_size for f in rewritten),
            rows_rewritten=sum(f.row_count for f in rewritten),
            files_moved=0,
            runs_before=len(files),
            runs_after=len(files) - len(rewritten) + len(groups),
        )
    ]


_log = logging.getLogger(__name__)


def commit_rows(
    store: FileStore, commit_user: str, messages: Sequence[CommitMessage], read: RowsRead | None = None
) -> int | None:
    """Commit new rows of a new user, and compact again if the commit gave up a compaction; return the snapshot's id.

    `read` names the rows from which the new ones were computed.
    """
    commit = FileStoreCommit(store, commit_user, new_user=True)
    ids = commit.commit(messages, follows_from=read)
    if commit.gave_up_compaction:
        compact_again(store)
    return ids[-1] if ids else None


def compact_again(store: FileStore) -> None:
    """Compact what is due, after a commit of new rows whose compaction lost a race and was given up.

    Does nothing where readers merge level 0. The rows are committed, and after an error the caller would write them
    again: so neither lost races nor a failing object store are an error. The log says that the rows are visible after
    the next compaction.
    """
    if not (store.schema.has_primary_key and store.options.scans_skip_level_0):
        return
    try:
        RetryPolicy.of(store.options).redo(lambda: compact_table(store, str(uuid.uuid4()), full=False))
    except (InterbedError, OSError) as error:
        _log.warning("The newest rows of %s are seen after the next compaction: %s", store.location, error)
