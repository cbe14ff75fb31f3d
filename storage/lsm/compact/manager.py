"""The compactions of one bucket: the planner finds the unit that is due, the manager runs one at a time.

The manager tracks the files of the bucket as its writer has created them, committed or not. The writer collects the
outcome of a compaction, so that files and index files change only in the writer's thread. Follows Paimon's
MergeTreeCompactManager.
"""

from collections.abc import Iterable, Sequence
from concurrent.futures import Executor, Future
from dataclasses import replace
from datetime import datetime

from interbed.storage.base.bucket_id import BucketId
from interbed.storage.base.clock import Clock, now_millis
from interbed.storage.files.deletion_vectors import BucketDeletions
from interbed.storage.files.format.layout import DataFileLayout, DataFileNames
from interbed.storage.lsm.compact.changes import (
    FullCompactionChanges,
    LookupCompactionChanges,
    produces_changelog,
)
from interbed.storage.lsm.compact.expiry import RecordExpiry
from interbed.storage.lsm.compact.rewriter import (
    BucketFiles,
    BucketRewriter,
    ChangelogRewriter,
    CompactIncrement,
    MergeRewriter,
    discard,
    run_compaction,
)
from interbed.storage.lsm.compact.strategy import (
    CompactionPick,
    CompactionUnit,
    PickContext,
    UniversalStrategy,
    pick_full,
    plan_file_rewrite,
    plan_unit,
)
from interbed.storage.lsm.levels import Levels
from interbed.storage.lsm.older_rows import OlderRows, shared_lookup_files
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.manifest.entry import DataFileMeta
from interbed.storage.meta.manifest.index_manifest import DELETION_VECTORS, IndexFileMeta
from interbed.storage.meta.options.lsm import ChangelogProducer


class RewriterFactory:
    """Creates the rewriters of the buckets of one table. Safe for several threads."""

    def __init__(self, store: FileStore, expiry: RecordExpiry | None = None) -> None:
        options = store.options
        self._store = store
        self._expiry = expiry
        self._layout = DataFileLayout.of(store.schema, options)
        self._names = DataFileNames(options.data_file_prefix)
        self._changelog_names = DataFileNames(options.changelog_file_prefix)
        self._lookup_files = shared_lookup_files(store) if options.compactions_look_up else None

    def of(self, bucket_id: BucketId, levels: Levels, index_files: Sequence[IndexFileMeta]) -> BucketRewriter:
        """Return the rewriter for one compaction of a bucket with these live files and index files."""
        store = self._store
        options = store.options
        deletions = None
        if options.deletion_vectors_enabled or any(f.index_type == DELETION_VECTORS for f in index_files):
            deletions = BucketDeletions.restore(store, bucket_id, index_files)
        files = BucketFiles(
            store=store,
            place=store.new_files(bucket_id),
            layout=self._layout,
            names=self._names,
            changelog_names=self._changelog_names,
            deletions=deletions,
            expiry=self._expiry,
            oldest_level=max((run.level for run in levels.runs), default=0),
        )
        if options.changelog_producer is ChangelogProducer.FULL_COMPACTION:
            changes = FullCompactionChanges(store=store, max_level=levels.max_level)
            return ChangelogRewriter(files, changes, produce_changelog=True)
        if self._lookup_files is None:
            return MergeRewriter(files)
        older = OlderRows(self._lookup_files, levels, store.schema.key_types, files.path_of, files.deleted_of)
        lookups = LookupCompactionChanges(store=store, max_level=levels.max_level, older=older, deletions=deletions)
        above = frozenset(f.file_name for f in levels.files if f.level > 0)
        return ChangelogRewriter(files, lookups, produce_changelog=produces_changelog(store), looked_up=above)

    def discard_lookup_files(self, files: Iterable[DataFileMeta]) -> None:
        """Delete the lookup files of data files that were compacted away."""
        if self._lookup_files is not None:
            self._lookup_files.discard(files)


class CompactionPlanner:
    """Plans the compactions of the buckets of one table. It has no state of a bucket, so that threads may share it."""

    def __init__(self, store: FileStore, clock: Clock = now_millis) -> None:
        options = store.options
        self.strategy = UniversalStrategy.of(options)
        self._store = store
        self._expiry = RecordExpiry.of(store, clock)
        self._rewriters = RewriterFactory(store, self._expiry)
        self._clock = clock
        target = options.target_file_size_for(primary_key=True)
        self._small_file_bytes = int(target * options.small_file_ratio)

    def levels(self, files: Sequence[DataFileMeta]) -> Levels:
        """Return the levels of the files of a bucket."""
        return Levels.of(files, self._store.options.num_levels)

    def context(self, levels: Levels, *, last_full_millis: int | None = None, skipped: int = 0) -> PickContext:
        """Return the context of a pick now; without `last_full_millis` by the newest file of the highest level."""
        now = self._clock()
        if last_full_millis is None:
            last_full_millis = levels.last_full_millis(now)
        hour = datetime.fromtimestamp(now / 1000).hour
        return PickContext(now_millis=now, hour=hour, last_full_millis=last_full_millis, skipped=skipped)

    def rewriter(self, bucket_id: BucketId, levels: Levels, index_files: Sequence[IndexFileMeta]) -> BucketRewriter:
        """Return the rewriter for one compaction of a bucket."""
        return self._rewriters.of(bucket_id, levels, index_files)

    def discard_lookup_files(self, files: Iterable[DataFileMeta]) -> None:
        """Delete the lookup files of data files that were compacted away."""
        self._rewriters.discard_lookup_files(files)

    def unit(self, pick: CompactionPick, levels: Levels, rewriter: BucketRewriter) -> CompactionUnit | None:
        """Plan the execution of a pick; return None if it changes nothing."""
        options = self._store.options
        return plan_unit(
            pick,
            levels,
            self._store.schema.key_types,
            small_file_bytes=self._small_file_bytes,
            rule=rewriter.upgrade_rule,
            deletion_vectors=options.deletion_vectors_enabled,
            is_expired=self._has_expired_rows,
            rewrite_all=options.force_rewrite_all_files,
        )

    def full_unit(
        self, levels: Levels, rewriter: BucketRewriter, index_files: Sequence[IndexFileMeta]
    ) -> CompactionUnit | None:
        """Plan a full compaction. If the bucket is one run already, only files with rows to drop are rewritten."""
        pick = pick_full(levels)
        if pick is not None:
            return self.unit(pick, levels, rewriter)
        marked = {v.data_file_name for f in index_files for v in f.deletion_vectors or ()}
        everything = self._store.options.force_rewrite_all_files
        files = [f for f in levels.files if everything or f.file_name in marked or self._has_expired_rows(f)]
        return plan_file_rewrite(files, levels.max_level)

    def _has_expired_rows(self, file: DataFileMeta) -> bool:
        return self._expiry is not None and self._expiry.has_expired_rows(file)


class CompactManager:
    """Starts and collects the compactions of a bucket. Not safe for several threads; compactions run in the executor.

    `skipped` counts the opportunities to compact since level 0 was last forced upward.
    """

    def __init__(
        self,
        store: FileStore,
        planner: CompactionPlanner,
        executor: Executor,
        bucket_id: BucketId,
        files: Sequence[DataFileMeta],
        index_files: Sequence[IndexFileMeta],
        skipped: int = 0,
    ) -> None:
        self._store = store
        self._planner = planner
        self._executor = executor
        self._bucket_id = bucket_id
        self._files = {f.file_name: f for f in files}
        self._index_files = tuple(index_files)
        self._running: Future[CompactIncrement] | None = None
        self._full_is_running = False
        self._last_full_millis: int | None = None
        self.skipped = skipped

    @property
    def levels(self) -> Levels:
        """The levels of the bucket now, without the outcome of a running compaction."""
        return self._planner.levels(list(self._files.values()))

    @property
    def is_running(self) -> bool:
        """Whether a compaction was started whose outcome was not collected yet."""
        return self._running is not None

    @property
    def must_wait_before_flush(self) -> bool:
        """Whether a flush must wait for the compaction because the bucket has too many sorted runs."""
        return len(self.levels.runs) > self._store.options.stop_trigger

    @property
    def must_wait_before_commit(self) -> bool:
        """Whether the commit must wait, too, so that level 0 does not grow over several commits."""
        return len(self.levels.runs) > self._store.options.stop_trigger + 1

    def add(self, files: Sequence[DataFileMeta]) -> None:
        """Add new files to the bucket."""
        self._files.update((f.file_name, f) for f in files)

    def trigger(self, *, full: bool = False) -> None:
        """Start the compaction that is due unless one is running; raises RuntimeError if a full one can't start."""
        if self._running is not None:
            if full:
                raise RuntimeError("A full compaction was asked for while another compaction is running.")
            return
        levels = self.levels
        rewriter = self._planner.rewriter(self._bucket_id, levels, self._index_files)
        unit: CompactionUnit | None
        context = self._context(levels)
        if full:
            unit = self._planner.full_unit(levels, rewriter, self._index_files)
            is_full = pick_full(levels) is not None
        else:
            pick = self._planner.strategy.pick(levels, context)
            self.skipped = self._planner.strategy.skipped_after(pick, context)
            unit = None if pick is None else self._planner.unit(pick, levels, rewriter)
            is_full = pick is not None and len(pick.runs) == len(levels.runs)
        if is_full:
            self._last_full_millis = context.now_millis
        if unit is not None:
            self._running = self._executor.submit(run_compaction, self._store, rewriter, unit, self._bucket_id)

    def take(self, *, wait: bool) -> CompactIncrement | None:
        """Return the outcome of the compaction if it is done, with `wait` after waiting for it; None without any.

        Raises what the compaction raised; then the files of the bucket are unchanged.
        """
        running = self._running
        if running is None or not (wait or running.done()):
            return None
        self._running = None
        outcome = running.result()
        for file in outcome.before:
            self._files.pop(file.file_name, None)
        self._planner.discard_lookup_files(outcome.replaced)
        self.add(outcome.after)
        deleted = {f.file_name for f in outcome.deleted_index_files}
        self._index_files = (
            *(f for f in self._index_files if f.file_name not in deleted),
            *outcome.new_index_files,
        )
        return outcome

    def cancel(self) -> None:
        """Wait for a running compaction and delete the files that it wrote; never raises."""
        running, self._running = self._running, None
        if running is None or running.cancel():
            return
        if running.exception() is None:
            discard(self._store, self._bucket_id, running.result())

    def _context(self, levels: Levels) -> PickContext:
        context = self._planner.context(levels, last_full_millis=self._last_full_millis)
        return replace(context, skipped=self.skipped)
