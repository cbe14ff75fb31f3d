"""The directory of a table as a whole: taken away in an order that never shows half a table, and looked at before a
new table moves in.

A table is what its schema files say, and its rows are what its snapshots say. So a drop takes the snapshots first, the
schemas next and the rest last: a process that dies in between leaves an empty table, which can be dropped again, or
files that nobody knows, but never old rows that come back with the next table of that name.
"""

from interbed.catalog.errors import TableExistsError
from interbed.storage.base.errors import StorageAccessError
from interbed.storage.base.fileio.api import FileIO
from interbed.storage.meta.paths import TablePaths
from interbed.storage.meta.snapshot.manager import SnapshotManager

_DELETE_TRIES = 5


def delete_table_files(file_io: FileIO, location: str) -> None:
    """Delete a table's directory; there may be none. Raises StorageAccessError."""
    for part in ("snapshot", "schema"):
        _delete_all(file_io, f"{location}/{part}")
    _delete_all(file_io, location)


def check_no_remains(file_io: FileIO, location: str) -> None:
    """Raise TableExistsError when the directory, which has no schema, still has snapshots of a table that was."""
    ids = SnapshotManager(file_io, TablePaths(location, (), ())).ids()
    if ids:
        raise TableExistsError(
            f"{location} holds snapshot {ids[-1]} of a table that was not dropped to the end, whose rows would come "
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
