"""Where the files are that exist for the sake of commit messages alone, and those that a snapshot names first."""

from collections.abc import Iterable, Sequence

from interbed.storage.base.bucket_id import BucketId
from interbed.storage.commit.changes import PartChanges, owned_files, owned_index_files
from interbed.storage.meta.manifest.entry import FileKind, ManifestEntry
from interbed.storage.meta.manifest.index_manifest import IndexManifestEntry
from interbed.storage.meta.store import TableStore
from interbed.storage.write.commit_message import CommitMessage


def owned_paths(store: TableStore, messages: Sequence[CommitMessage], *, compact_only: bool = False) -> list[str]:
    """The paths of data files, of those beside them and of index files; see owned_files."""
    paths = [
        store.index_path(bucket_id, file) for bucket_id, file in owned_index_files(messages, compact_only=compact_only)
    ]
    for bucket_id, file in owned_files(messages, compact_only=compact_only):
        paths += file.paths_in(store.paths.bucket_directory(bucket_id))
    return paths


def new_paths(store: TableStore, changes: PartChanges) -> list[str]:
    """The paths of data files, of those beside them and of index files that the changes add to the table.

    A file that they take away, too, only moves to another level; what is beside it may be new.
    """
    moved = {path for entry in changes.files if entry.kind is FileKind.DELETE for path in _paths(store, entry)}
    added = (e for e in (*changes.files, *changes.changelog) if e.kind is FileKind.ADD)
    paths = [path for entry in added for path in _paths(store, entry) if path not in moved]
    return [*paths, *_index_paths(store, changes.indexes)]


def _paths(store: TableStore, entry: ManifestEntry) -> list[str]:
    return entry.file.paths_in(store.paths.bucket_directory(entry.bucket_id))


def _index_paths(store: TableStore, entries: Iterable[IndexManifestEntry]) -> list[str]:
    return [store.index_path(BucketId(e.partition, e.bucket), e.file) for e in entries if e.kind is FileKind.ADD]
