"""The directory of a database that is dropped without its tables: only what is the database's own goes.

That is its properties, and what is known to be left of tables: what a drop has taken out of sight, tables that were
begun and given up a week ago, and directories without any file. All of it goes by its name, and the directory itself
only if it is empty, so that a table which is made meanwhile keeps its files: either its schema is there before the
directory goes, and the drop is refused, or it comes afterwards, and the database is there again.
"""

from contextlib import suppress

from interbed.catalog.client.files.database_file import FILE_NAME
from interbed.catalog.client.files.staging_directory import remove_abandoned
from interbed.catalog.client.files.table_files import finish_drop, is_hidden, remove_dropped, remove_if_empty
from interbed.storage.base.errors import StorageAccessError
from interbed.storage.base.fileio.api import FileIO

_TRIES = 5


def drop_empty_directory(file_io: FileIO, directory: str) -> list[str]:
    """Delete the directory of a database without tables; the names of what else is there, none when it is gone.

    If there is something, the database is as it was. Raises StorageAccessError.
    """
    tries_left = _TRIES
    while not (others := _others(file_io, directory)):
        tries_left -= 1
        properties = _content(file_io, f"{directory}/{FILE_NAME}")
        try:
            file_io.delete(f"{directory}/{FILE_NAME}")
            # False where its last file was all that made it a directory, or where another process was faster.
            file_io.delete(directory)
        except StorageAccessError:
            if properties is not None:
                _put_back(file_io, directory, properties)
            if not tries_left:
                raise
            # Most likely something has come, which is seen then.
        else:
            break
    return others


def _others(file_io: FileIO, directory: str) -> list[str]:
    """The names of what is neither the database's own nor known to be left of something; the latter is deleted."""
    if file_io.scheme == "file":
        remove_dropped(file_io, f"{directory}/{FILE_NAME}")
        remove_abandoned(file_io, directory)
    found: list[str] = []
    for entry in file_io.list(directory):
        if entry.is_link:
            found.append(entry.name)
        elif entry.is_directory:
            finish_drop(file_io, entry.path)
            if not remove_if_empty(file_io, entry.path):
                found.append(entry.name)
        elif is_hidden(entry.name):
            file_io.delete(entry.path)
        elif entry.name != FILE_NAME:
            found.append(entry.name)
    return sorted(found)


def _put_back(file_io: FileIO, directory: str, properties: bytes) -> None:
    for _ in range(_TRIES):
        # Another process drops the database, or has done so, if the file goes before it has its name.
        with suppress(FileNotFoundError):
            if file_io.exists(directory):
                # Those that it was given meanwhile are newer.
                file_io.create_exclusive(f"{directory}/{FILE_NAME}", properties)
            return


def _content(file_io: FileIO, path: str) -> bytes | None:
    try:
        return file_io.read_bytes(path)
    except FileNotFoundError:
        return None
