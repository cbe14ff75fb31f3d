"""Where the files are that exist for the sake of commit messages alone."""

from collections.abc import Sequence

from interbed.storage.commit.changes import owned_files, owned_index_files
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
