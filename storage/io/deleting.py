"""Deletion of many files, and the links that no deletion follows.

Only the local file system has symbolic links. No deletion follows one below a warehouse.
"""

import logging
import os
import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Protocol, runtime_checkable

from interbed.storage.base.errors import StorageAccessError
from interbed.storage.io.api import FileIO
from interbed.storage.io.parallel import in_parallel


def is_link(file_io: FileIO, path: str) -> bool:
    """Return whether the path itself is a symbolic link."""
    return file_io.capabilities.links and os.path.islink(path.rstrip("/"))


def link_above(file_io: FileIO, path: str, root: str) -> str | None:
    """Return the first link among the directories between `root` and the path, both excluded; None without one."""
    if not file_io.capabilities.links or not path.startswith(f"{root.rstrip('/')}/"):
        return None
    at = root.rstrip("/")
    for part in path.removeprefix(f"{at}/").split("/")[:-1]:
        at = f"{at}/{part}"
        if os.path.islink(at):
            return at
    return None


BATCH = 1000
"""Most files that one request of S3 deletes; other object stores divide them further."""


@runtime_checkable
class BatchDeletion(Protocol):
    """FileIO that deletes many files by one request."""

    def delete_batch(self, paths: Sequence[str]) -> None:
        """Delete at most BATCH files, which may or may not exist; after an error it is not known which are deleted."""
        ...


_log = logging.getLogger(__name__)
_ROOT = re.compile(r"/*|[A-Za-z][A-Za-z0-9+.\-]*:/*[^/]*/*")
"""Root of the local file system, or of a remote one: its bucket, container or host."""


def check_deletable(path: str) -> None:
    """Raise StorageAccessError for a path that is never deleted: a root, a bucket, a relative path, one with `..`."""
    if _ROOT.fullmatch(path) or not (path.startswith("/") or "://" in path):
        raise StorageAccessError(f"{path!r} is not deleted: it is a root, or no whole path. Name what is below it.")
    if ".." in path and ".." in path.split("/"):
        raise StorageAccessError(f"{path!r} is not deleted: it leads to a directory above by '..'. Name it directly.")


def delete_files(file_io: FileIO, paths: Iterable[str]) -> dict[str, OSError]:
    """Delete files that may or may not exist; return the errors, which are logged, by the file that was not deleted."""

    def tried(path: str) -> OSError | None:
        try:
            file_io.delete(path)
        except OSError as error:
            return error
        return None

    given = _one_by_one(file_io, list(paths))
    outcomes = in_parallel(file_io, [partial(tried, path) for path in given])
    left = {path: error for path, error in zip(given, outcomes, strict=True) if error is not None}
    for path, error in left.items():
        _log.warning("Left %s behind: %s", path, error)
    return left


def _one_by_one(file_io: FileIO, paths: list[str]) -> list[str]:
    """Delete files in batches where the FileIO can; return the files that have to be deleted one by one."""
    if not isinstance(file_io, BatchDeletion):
        return paths
    left: list[str] = []
    for first in range(0, len(paths), BATCH):
        some = paths[first : first + BATCH]
        try:
            file_io.delete_batch(some)
        except OSError as error:
            _log.info(
                "%s and %d more are deleted one by one, because deleting them together failed: %s",
                some[0],
                len(some) - 1,
                error,
            )
            left += some
    return left


def delete_together(file_io: FileIO, paths: Sequence[str]) -> None:
    """Delete at most BATCH files like BatchDeletion; one by one where the FileIO can't delete them by one request."""
    if isinstance(file_io, BatchDeletion):
        file_io.delete_batch(paths)
        return
    for path in paths:
        file_io.delete(path)


def delete_one_by_one(delete: Callable[[str], object], paths: Iterable[str]) -> None:
    """Delete files that may or may not exist, one after the other; failures are logged, never raised."""
    for path in paths:
        try:
            delete(path)
        except OSError as error:
            _log.warning("Left %s behind: %s", path, error)


def delete_all_files(file_io: FileIO, paths: Iterable[str]) -> None:
    """Delete files that may or may not exist.

    Raises StorageAccessError, which names the first file that was not deleted and the number of others, at the end.
    """
    left = delete_files(file_io, paths)
    for path, error in left.items():
        more = f" So it is with {len(left) - 1} other files." if len(left) > 1 else ""
        raise StorageAccessError(f"{path} was not deleted: {error}{more}") from error
