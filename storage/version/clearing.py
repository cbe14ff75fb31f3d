"""Branches that were deleted, and those that were not made to the end: directories under hidden names.

`branch/.deleted-<id>` was a branch, and nobody needs it; `branch/.new-<id>` will be one, if its maker lives.
"""

import uuid

from interbed.storage.meta.paths import MAIN_BRANCH
from interbed.storage.meta.store import TableStore

_DELETED = ".deleted-"
_NEW = ".new-"


def new_directory(store: TableStore) -> str:
    """A hidden directory in which a branch can be prepared."""
    return f"{_directory(store)}/{_NEW}{uuid.uuid4()}"


def hidden_directory(store: TableStore) -> str:
    """A hidden directory that a branch can be moved to before it is deleted."""
    return f"{_directory(store)}/{_DELETED}{uuid.uuid4()}"


def clear_away(store: TableStore, limit_millis: int) -> None:
    """Delete what was deleted only in part, and what was prepared before a time, in milliseconds since the epoch."""
    for entry in store.file_io.list(_directory(store)):
        modified = entry.modified_millis
        if entry.name.startswith(_DELETED) or (
            entry.name.startswith(_NEW) and modified is not None and modified < limit_millis
        ):
            store.file_io.delete(entry.path, recursive=True)


def _directory(store: TableStore) -> str:
    main = store.paths if store.paths.branch == MAIN_BRANCH else store.on_branch(MAIN_BRANCH).paths
    return main.branch_directory("x").rpartition("/")[0]
