"""The compactions of one bucket while it is written: at most one at a time, in the background.

The manager tracks the files of the bucket as its writer has created them, committed or not. The writer collects the
outcome of a compaction, so that files and index files change only in the writer's thread. Follows Paimon's
MergeTreeCompactManager.
"""

from collections.abc import Sequence
from concurrent.futures import Executor, Future
from dataclasses import replace

from interbed.storage.base.bucket_id import BucketId
from interbed.storage.lsm.compact.planner import CompactionPlanner
from interbed.storage.lsm.compact.rewriter import CompactIncrement, discard, run_compaction
from interbed.storage.lsm.compact.strategy import CompactionUnit, PickContext, pick_full
from interbed.storage.lsm.levels import Levels
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.manifest.entry import DataFileMeta
from interbed.storage.meta.manifest.index_manifest import IndexFileMeta


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
