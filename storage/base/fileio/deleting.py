"""Deleting files that nobody needs, so that it is known which of them are gone."""

import logging
from collections.abc import Callable, Iterable
from functools import partial

from interbed.storage.base.errors import StorageAccessError
from interbed.storage.base.fileio.api import FileIO
from interbed.storage.base.fileio.at_once import asked_at_once

_log = logging.getLogger(__name__)


def delete_files(file_io: FileIO, paths: Iterable[str]) -> dict[str, OSError]:
    """Delete files that may or may not exist; those that the store does not let go, and why, which is logged."""

    def tried(path: str) -> OSError | None:
        try:
            file_io.delete(path)
        except OSError as error:
            return error
        return None

    given = list(paths)
    outcomes = asked_at_once(file_io, [partial(tried, path) for path in given])
    left = {path: error for path, error in zip(given, outcomes, strict=True) if error is not None}
    for path, error in left.items():
        _log.warning("Left %s behind: %s", path, error)
    return left


def delete_in_turn(delete: Callable[[str], object], paths: Iterable[str]) -> None:
    """Delete files that may or may not exist, one after the other; what stays is logged, and nothing is raised."""
    for path in paths:
        try:
            delete(path)
        except OSError as error:
            _log.warning("Left %s behind: %s", path, error)


def delete_all_files(file_io: FileIO, paths: Iterable[str]) -> None:
    """Delete files that may or may not exist.

    Raises StorageAccessError naming the first that stays, after the others were tried, and how many there are.
    """
    left = delete_files(file_io, paths)
    for path, error in left.items():
        more = f" So it is with {len(left) - 1} other files." if len(left) > 1 else ""
        raise StorageAccessError(f"{path} was not deleted: {error}{more}") from error
