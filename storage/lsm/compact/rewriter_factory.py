"""Which rewriter a table's compactions need."""

from collections.abc import Iterable, Sequence

from interbed.storage.base.bucket_id import BucketId
from interbed.storage.files.deletion.bucket_deletions import BucketDeletions
from interbed.storage.files.format.layout import DataFileLayout, DataFileNames
from interbed.storage.lsm.compact.changes import (
    FullCompactionChanges,
    LookupCompactionChanges,
    produces_changelog,
)
from interbed.storage.lsm.compact.expiry import RecordExpiry
from interbed.storage.lsm.compact.rewriter import BucketFiles, BucketRewriter, ChangelogRewriter, MergeRewriter
from interbed.storage.lsm.levels import Levels
from interbed.storage.lsm.lookup.cache import shared_lookup_files
from interbed.storage.lsm.lookup.older_rows import OlderRows
from interbed.storage.meta.manifest.entry import DataFileMeta
from interbed.storage.meta.manifest.index_manifest import DELETION_VECTORS, IndexFileMeta
from interbed.storage.meta.options.lsm import ChangelogProducer
from interbed.storage.meta.store import TableStore


class RewriterFactory:
    """Makes the rewriter of each bucket of one table; may be shared by threads."""

    def __init__(self, store: TableStore, expiry: RecordExpiry | None = None) -> None:
        options = store.options
        self._store = store
        self._expiry = expiry
        self._layout = DataFileLayout.of(store.schema, options)
        self._names = DataFileNames(options.data_file_prefix)
        self._changelog_names = DataFileNames(options.changelog_file_prefix)
        self._lookup_files = shared_lookup_files(store) if options.compactions_look_up else None

    def of(self, bucket_id: BucketId, levels: Levels, index_files: Sequence[IndexFileMeta]) -> BucketRewriter:
        """The rewriter for one compaction of a bucket with these live files and index files."""
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

    def forget(self, files: Iterable[DataFileMeta]) -> None:
        """Give back the local disk that data files have taken which were compacted away."""
        if self._lookup_files is not None:
            self._lookup_files.forget(files)
