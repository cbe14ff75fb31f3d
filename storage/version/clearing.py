"""Branches that were deleted, and those that were not made to the end: directories under hidden names.

`branch/.deleted-<id>` was a branch, and nobody needs it; `branch/.new-<id>` will be one, if its maker lives.
"""

import logging
import uuid
from contextlib import suppress

from interbed.storage.base.errors import StorageAccessError
from interbed.storage.base.fileio.deleting import delete_all_files
from interbed.storage.base.fileio.links import is_link
from interbed.storage.meta.paths import MAIN_BRANCH
from interbed.storage.meta.store import TableStore
from interbed.storage.version.own_names import branch_files, shortened

_log = logging.getLogger(__name__)

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
            delete_branch_files(store, entry.path)


def delete_branch_files(store: TableStore, directory: str) -> None:
    """Delete what a branch has made in its directory, and the directory if nothing foreign is in it, which is logged.

    Raises StorageAccessError.
    """
    file_io = store.file_io
    if is_link(file_io, directory):
        file_io.delete(directory)
        return
    files, directories, foreign = branch_files(file_io, directory)
    delete_all_files(file_io, files)
    if foreign:
        _log.warning("Left %s, for it holds what no branch has made: %s.", directory, shortened(foreign, directory))
        return
    for path in reversed(directories):
        with suppress(StorageAccessError, FileNotFoundError):
            file_io.delete(path)
    file_io.delete(directory)


def _directory(store: TableStore) -> str:
    main = store.paths if store.paths.branch == MAIN_BRANCH else store.on_branch(MAIN_BRANCH).paths
    return main.branch_directory("x").rpartition("/")[0]
