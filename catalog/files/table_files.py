"""The directory of a table as a whole: taken away in an order that never shows half a table, and looked at before a
new table moves in.

A drop moves the directory out of sight in one step and deletes it there. Where the store can't do that, it takes the
snapshots first, the schemas next and the rest last, because a table is what its schema files say, and its rows are what
its snapshots say: a process that dies in between leaves an empty table, which can be dropped again, or files that
nobody knows, but never old rows that come back with the next table of that name.
"""

import logging
import uuid
from functools import partial

from interbed.catalog.errors import TableExistsError
from interbed.storage.base.errors import StorageAccessError
from interbed.storage.base.fileio.api import FileIO
from interbed.storage.base.fileio.at_once import asked_at_once

_log = logging.getLogger(__name__)

_DELETE_TRIES = 5
_DROPPED = ".dropped"
"""Beside the tables of a database: what is being deleted. It has no schema, so that nobody takes it for a table."""


def delete_table_files(file_io: FileIO, location: str) -> None:
    """Delete a table's directory; there may be none. Raises StorageAccessError."""
    if drop_directory(file_io, location):
        return
    for part in ("snapshot", "schema"):
        _delete_all(file_io, f"{location}/{part}")
    _delete_all(file_io, location)


def drop_directory(file_io: FileIO, location: str) -> bool:
    """Take a directory out of sight in one step and delete it; False where the store can't rename in one step.

    Directories that a killed process took out of sight are deleted, too, as far as that goes.
    """
    if file_io.scheme != "file":
        return False
    hidden = f"{location.rpartition('/')[0]}/{_DROPPED}"
    moved = f"{hidden}/{uuid.uuid4()}"
    # A writer that is still at work may make the directory anew; it finds no table there.
    if file_io.rename(location, moved):
        _delete_all(file_io, moved)
    remove_dropped(file_io, location)
    return True


def remove_dropped(file_io: FileIO, location: str) -> list[str]:
    """Delete what killed processes took out of sight beside a table's directory, as far as that goes; what it was."""
    hidden = f"{location.rpartition('/')[0]}/{_DROPPED}"
    removed: list[str] = []
    if not file_io.exists(hidden):
        return removed
    try:
        for entry in file_io.list(hidden):
            file_io.delete(entry.path, recursive=True)
            removed.append(entry.path)
        file_io.delete(hidden)
    except (StorageAccessError, FileNotFoundError) as error:
        # Another process is at it, or drops a table of its own.
        _log.debug("Left %s: %s", hidden, error)
    return removed


def check_no_remains(file_io: FileIO, location: str) -> None:
    """Raise TableExistsError when the directory, which has no schema, still has versions of a table that was."""
    parts = ("snapshot", "tag", "branch", "changelog", "consumer")
    for part, entries in zip(
        parts, asked_at_once(file_io, [partial(file_io.list, f"{location}/{part}") for part in parts]), strict=True
    ):
        left = sorted(e.name for e in entries if not e.name.startswith("."))
        if left:
            raise TableExistsError(
                f"{location}/{part} holds {left[-1]} of a table that was not dropped to the end, which would come "
                "back; remove the directory."
            )


def take_back_schema(file_io: FileIO, location: str, schema_path: str) -> None:
    """Delete the schema file of a table that was not created after all, and directories that are empty without it."""
    file_io.delete_quietly([schema_path])
    for directory in (schema_path.rpartition("/")[0], location):
        try:
            if file_io.list(directory):
                return
            file_io.delete(directory, recursive=True)
        except StorageAccessError:
            # It is an empty directory that stays, and the caller has a better error to report.
            return


def remove_if_empty(file_io: FileIO, location: str) -> None:
    """Remove the directories of a table that was not created after all, unless there is a file in them."""
    try:
        if not _has_file(file_io, location):
            file_io.delete(location, recursive=True)
    except StorageAccessError:
        # They are empty directories that stay, and the caller has a better error to report.
        return


def _has_file(file_io: FileIO, location: str) -> bool:
    return any(not e.is_directory or _has_file(file_io, e.path) for e in file_io.list(location))


def _delete_all(file_io: FileIO, path: str) -> None:
    """Delete a directory into which somebody may still be writing."""
    for attempt in range(1, _DELETE_TRIES + 1):
        try:
            file_io.delete(path, recursive=True)
        except StorageAccessError:
            if attempt == _DELETE_TRIES:
                raise
        else:
            return
