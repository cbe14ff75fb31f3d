"""The directory of a database that is dropped with its tables: only what the database and its tables have made goes.

That is the database's properties, what its tables have made, and what is left of tables that were dropped, staged or
put aside. In a local file system the directory moves out of sight in one step, beside the databases, and is deleted
there. Where that can't be done, or where something foreign has to keep its place, each table goes by itself, and the
directory only if it is empty.
"""

import logging
import uuid
from collections.abc import Sequence

from interbed.catalog.client.files.database_file import FILE_NAME
from interbed.catalog.client.files.own_directory import delete_own_directory
from interbed.catalog.client.files.table_files import (
    DROPPED,
    delete_table_files,
    is_hidden,
    remove_link,
    surveyed,
)
from interbed.storage.base.errors import StorageAccessError
from interbed.storage.base.fileio.api import FileIO
from interbed.storage.base.fileio.links import is_link
from interbed.storage.version.own_files import OwnFiles
from interbed.storage.version.own_paths import shortened

_log = logging.getLogger(__name__)

_OF_TABLES = (DROPPED, ".staged", ".unfinished")
"""Directories beside the tables whose entries are like tables' directories."""


def drop_with_tables(file_io: FileIO, directory: str, tables: Sequence[str]) -> None:
    """Delete a database's directory with its tables; what is foreign stays, with the directory, which is logged.

    Of a link only the link goes. Raises StorageAccessError.
    """
    if is_link(file_io, directory):
        remove_link(file_io, directory)
        return
    if not _survey(file_io, directory).foreign and _moved_and_deleted(file_io, directory):
        return
    for table in tables:
        # Each by itself, so that none is half there.
        delete_table_files(file_io, f"{directory}/{table}")
    if foreign := _delete(file_io, directory):
        _log.warning(
            "The tables of %s are dropped, but it holds what none of them has made: %s. It stays, and with it an empty "
            "database; move that away and drop the database again.",
            directory,
            shortened(foreign, directory),
        )


def _moved_and_deleted(file_io: FileIO, directory: str) -> bool:
    """Take the directory out of sight and delete it there; False where there is no such step."""
    hidden = f"{directory.rpartition('/')[0]}/{DROPPED}"
    if file_io.scheme != "file" or is_link(file_io, hidden):
        return False
    moved = f"{hidden}/{uuid.uuid4()}"
    if file_io.rename(directory, moved):
        _delete_moved(file_io, moved)
    _remove_dropped(file_io, hidden)
    return True


def _remove_dropped(file_io: FileIO, hidden: str) -> None:
    """Delete databases that killed processes took out of sight, as far as that goes."""
    try:
        for entry in file_io.list(hidden):
            if entry.is_directory and not entry.is_link:
                _delete_moved(file_io, entry.path)
        file_io.delete(hidden)
    except (StorageAccessError, FileNotFoundError) as error:
        # Another process is at it, or drops a database of its own.
        _log.debug("Left %s: %s", hidden, error)


def _delete_moved(file_io: FileIO, moved: str) -> None:
    if foreign := _delete(file_io, moved):
        _log.warning("Left %s, for it holds what no table has made: %s.", moved, shortened(foreign, moved))


def _delete(file_io: FileIO, directory: str) -> list[str]:
    """Delete what is known in the directory, and the directory if nothing else is in it; what is foreign there."""
    return delete_own_directory(file_io, directory, lambda: _survey(file_io, directory))


def _survey(file_io: FileIO, directory: str) -> OwnFiles:
    """What is in the directory of a database."""
    found = OwnFiles()
    for entry in file_io.list(directory):
        if entry.is_link or not (entry.is_directory or entry.name == FILE_NAME or is_hidden(entry.name)):
            found.foreign.append(entry.path)
        elif not entry.is_directory:
            found.files.append(entry.path)
        else:
            found.directories.append(entry.path)
            inner = file_io.list(entry.path) if entry.name in _OF_TABLES else [entry]
            for table in inner:
                if table.is_link or not table.is_directory:
                    found.foreign.append(table.path)
                    continue
                if table.path != entry.path:
                    found.directories.append(table.path)
                found.add(surveyed(file_io, table.path))
    return found
