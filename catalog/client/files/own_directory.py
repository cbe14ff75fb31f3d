"""Deleting a directory of a table or a database, of which only what is known goes: own files, then own directories.

A writer that does not know of the drop may still write there, so that the directory is surveyed again when it is not
empty in the end.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from interbed.storage.base.errors import StorageAccessError
from interbed.storage.base.fileio.api import FileIO
from interbed.storage.base.fileio.deleting import delete_all_files
from interbed.storage.version.own_files import OwnFiles

_TRIES = 5


def delete_own_directory(
    file_io: FileIO, directory: str, survey: Callable[[], OwnFiles], *, last: Callable[[str], bool] | None = None
) -> list[str]:
    """Delete what `survey` finds to be known in the directory, and the directory unless something foreign is in it;
    returns the paths of what is foreign. Files that are `last` go after the others.

    Raises StorageAccessError for what is known and stays.
    """
    for attempt in range(1, _TRIES + 1):
        found = survey()
        if last is not None:
            found.files.sort(key=last)
        file_io.delete_quietly(found.files)
        left = without_foreign(found.directories, found.foreign)
        if file_io.scheme == "file":
            # Quietly, so that each is not synced by itself.
            file_io.delete_quietly(left)
        if found.foreign:
            return found.foreign
        try:
            file_io.delete(directory)
        except StorageAccessError:
            # Another process writes into it, or its directories are there without files.
            if attempt == _TRIES:
                delete_all_files(file_io, found.files)
                raise
            for path in left:
                with suppress(StorageAccessError, FileNotFoundError):
                    file_io.delete(path)
        else:
            break
    return []


def without_foreign(directories: Sequence[str], foreign: Sequence[str]) -> list[str]:
    """The directories that hold nothing foreign, each before the one that it is in."""
    holding = {above for path in foreign for above in _above(path)}
    return [path for path in reversed(directories) if path not in holding]


def _above(path: str) -> Iterator[str]:
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path
