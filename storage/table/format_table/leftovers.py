"""Files that killed writes left: `_temporary/.tmp.<uuid>`, which no reader lists.

A file is known by its directory, its name and its age: a writer keeps it while its rows come, and Java Paimon's
writers name theirs in the same way. Everything else in the directory is of other programs, and stays.
"""

import re
import time
from collections.abc import Callable, Iterator

from interbed.storage.io.api import FileIO, FileStatus
from interbed.storage.io.deleting import delete_all_files, is_link
from interbed.storage.table.format_table.directories import FormatDirectories
from interbed.storage.table.format_table.writing import STAGED_PREFIX
from interbed.storage.version.orphans import OrphansResult, age_limit

_STAGED = re.compile(re.escape(STAGED_PREFIX) + r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def remove_leftovers(
    directories: FormatDirectories,
    *,
    older_than_millis: int | None = None,
    dry_run: bool = False,
    clock: Callable[[], float] = time.time,
) -> OrphansResult:
    """Delete the files of killed writes that were written before a time.

    The time is in milliseconds since the epoch, by default a day ago. Raises InvalidInputError for a time in the
    future, StorageAccessError when some files could not be deleted.
    """
    limit = age_limit(
        older_than_millis,
        clock,
        "files of killed writes were written must be in the past: the files of a write that is running look the same",
    )
    places = sorted({directories.staging(partition) for partition in directories.partitions()} | {directories.staged})
    found = [file for place in places for file in _files(directories.file_io, place) if _is_left(file, limit)]
    if not dry_run:
        delete_all_files(directories.file_io, [file.path for file in found])
    return OrphansResult(
        files=tuple(file.path for file in found), bytes=sum(file.size for file in found), dry_run=dry_run
    )


def _files(file_io: FileIO, place: str) -> Iterator[FileStatus]:
    """Yield the entries of a directory, none if it is missing or a link to another one."""
    if not is_link(file_io, place):
        yield from file_io.list(place)


def _is_left(file: FileStatus, limit: int) -> bool:
    return (
        _STAGED.fullmatch(file.name) is not None
        and not file.is_directory
        and not file.is_link
        and file.modified_millis is not None
        and file.modified_millis < limit
    )
