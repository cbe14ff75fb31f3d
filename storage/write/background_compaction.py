"""The compactions that one writer runs in the background, at most one in each of its buckets."""

import os
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property

from interbed.storage.base.bucket_id import BucketId
from interbed.storage.lsm.compact.manager import CompactManager
from interbed.storage.lsm.compact.planner import CompactionPlanner
from interbed.storage.meta.file_store import FileStore
from interbed.storage.write.bucket_restore import BucketRestore

COMPACTION_THREADS = min(4, os.cpu_count() or 1)
"""Buckets compacted in the background at the same time while a table is written."""


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
