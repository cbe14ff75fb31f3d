"""The directory of a table as a whole: taken away in an order that never shows half a table, and looked at before a
new table moves in.

A drop moves the directory out of sight in one step and deletes it there. Where the store can't do that, it notes itself
in the directory (`.dropped`) and deletes the table's first schema, which is the step: a table is what its schema files
say. Then all else goes, and the note last: whoever finds it beside no first schema knows that nobody misses the rest,
and deletes it, so that old rows never come back with the next table of that name.
"""

import logging
import uuid
from contextlib import suppress
from functools import partial

from interbed.catalog.errors import TableExistsError
from interbed.storage.base.errors import StorageAccessError
from interbed.storage.base.fileio.api import FileIO
from interbed.storage.base.fileio.at_once import asked_at_once
from interbed.storage.base.fileio.deleting import delete_all_files
from interbed.storage.base.fileio.resolve import renames_directories

_log = logging.getLogger(__name__)

_DELETE_TRIES = 5
_BATCH = 1000
_FIRST_SCHEMA = "schema/schema-0"
_DROPPED = ".dropped"
"""Beside the tables of a database: what is being deleted. It has no schema, so that nobody takes it for a table.

In the directory of a table, in an object store: it is being deleted.
"""


def delete_table_files(file_io: FileIO, location: str) -> None:
    """Delete a table's directory; there may be none. Raises StorageAccessError."""
    if drop_directory(file_io, location):
        return
    first = f"{location}/{_FIRST_SCHEMA}"
    if file_io.exists(first):
        _take_out_of_sight(file_io, location)
    elif not file_io.exists(f"{location}/{_DROPPED}"):
        # No table, and nothing that is known of what is there.
        _delete_all(file_io, location)
        return
    _delete_dropped(file_io, location)


def _take_out_of_sight(file_io: FileIO, location: str) -> None:
    """Note the drop and delete the first schema."""
    first, note = f"{location}/{_FIRST_SCHEMA}", f"{location}/{_DROPPED}"
    try:
        file_io.overwrite(note, b"")
    except StorageAccessError:
        # Where a quota leaves no room for a file more, the schema itself becomes the note.
        if not renames_directories(file_io) or not file_io.rename(first, note):
            raise
    else:
        file_io.delete(first)


def finish_drop(file_io: FileIO, location: str) -> bool:
    """Delete what a drop that was killed has left of a table's directory in a store; whether there was any."""
    if file_io.scheme == "file" or not _is_dropped(file_io, location):
        return False
    _log.info("Deleting what a drop has left in %s.", location)
    _delete_dropped(file_io, location)
    return True


def _is_dropped(file_io: FileIO, location: str) -> bool:
    """Whether the note of a drop is there, and the first schema is not, with which the drop would not have begun."""
    return file_io.exists(f"{location}/{_DROPPED}") and not file_io.exists(f"{location}/{_FIRST_SCHEMA}")


def _delete_dropped(file_io: FileIO, location: str) -> None:
    """Delete the files of a directory whose table is gone, and the note that says so last.

    Another process may do the same, come to the end, and make a new table here: only files that are there by now go,
    those whose names come again first, and it is looked again before each request.
    """
    files, directories = _below(file_io, location)
    files.sort(key=lambda path: not path.startswith((f"{location}/schema/", f"{location}/snapshot/")))
    files = [path for path in files if path != f"{location}/{_DROPPED}"]
    for start in range(0, len(files), _BATCH):
        if not _is_dropped(file_io, location):
            return
        # A thousand by a request; what stays is tried once more, for its error.
        file_io.delete_quietly(files[start : start + _BATCH])
    left = set(_below(file_io, location)[0]).intersection(files)
    if left and _is_dropped(file_io, location):
        delete_all_files(file_io, sorted(left))
    if renames_directories(file_io):
        # Directories that are there without files; one that is not empty any more stays.
        for path in reversed(directories):
            with suppress(StorageAccessError):
                file_io.delete(path)
    file_io.delete(f"{location}/{_DROPPED}")
    if renames_directories(file_io):
        with suppress(StorageAccessError):
            file_io.delete(location)


def _below(file_io: FileIO, directory: str) -> tuple[list[str], list[str]]:
    """All files below a directory, and all directories, each after the one that it is in."""
    files: list[str] = []
    directories: list[str] = []
    level = [directory]
    while level:
        found = [e for some in asked_at_once(file_io, [partial(file_io.list, path) for path in level]) for e in some]
        files.extend(e.path for e in found if not e.is_directory)
        level = [e.path for e in found if e.is_directory]
        directories.extend(level)
    return files, directories


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
    """Raise TableExistsError when the directory, which has no schema, still has versions of a table that was.

    What a drop is known to have left there is deleted.
    """
    if finish_drop(file_io, location):
        return
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
            file_io.delete(directory)
        except (StorageAccessError, FileNotFoundError):
            # There is something else in it, or an empty directory stays: the caller has a better error to report.
            return


def remove_if_empty(file_io: FileIO, location: str) -> bool:
    """Remove the directories of a table that was not created after all, unless there is a file in them; whether they
    are gone.

    Each goes only if it is empty, so that a table stays whose files come meanwhile.
    """
    try:
        return _is_without_files(file_io, location) and _delete_directories(file_io, location)
    except (StorageAccessError, FileNotFoundError) as error:
        # A file has come, or they are empty directories that stay.
        _log.debug("Left %s: %s", location, error)
        return False


def is_hidden(name: str) -> bool:
    """Whether a file has not got its name yet, or never gets one: whoever is about to give it one finds it gone then,
    and says so, or begins anew.
    """
    return name.startswith(".") and name.endswith(".tmp")


def _is_without_files(file_io: FileIO, location: str) -> bool:
    return all(
        _is_without_files(file_io, e.path) if e.is_directory else is_hidden(e.name) for e in file_io.list(location)
    )


def _delete_directories(file_io: FileIO, location: str) -> bool:
    for entry in file_io.list(location):
        if entry.is_directory:
            _delete_directories(file_io, entry.path)
        elif is_hidden(entry.name):
            file_io.delete(entry.path)
    file_io.delete(location)
    return True


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
