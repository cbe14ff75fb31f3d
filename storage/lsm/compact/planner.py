"""The planner of compactions: from the files of a bucket to the unit that is due, and the rewriter for it."""

from collections.abc import Iterable, Sequence
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
from interbed.storage.lsm.compact.rewriter import BucketFiles, BucketRewriter, ChangelogRewriter, MergeRewriter
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
