"""The directory of a database: its properties, its staging directories, and its deletion when it is dropped.

A file-system catalog keeps the properties in `<warehouse>/<database>.db/.database-properties`:

    {"comment": "what we sell", "team": "sales"}

Paimon's file-system catalog drops the properties of a database, and ignores files beside tables. So the file is
interbed's alone, and nothing of the format depends on it.

A drop deletes only files that the database and its tables have created. Without tables these are the properties and
known remains of tables: tables that a drop has moved out of sight, staged tables that were abandoned a week ago, and
directories without any file. All of it is deleted by name, and the directory itself only if it is empty. So a table
that is created at the same time keeps its files: either its schema exists before the directory is deleted, and the drop
is refused, or its schema is written later, and the database exists again.

With tables, the drop also deletes what the tables have created, and remains of tables that were dropped, staged or
moved aside. In a local file system the directory moves out of sight in one step, beside the databases, and is deleted
there. If that is impossible, or if foreign files must keep their place, each table is deleted separately, and the
directory only if it is empty.

Tables are made in staging directories with their rows, and move to their location in one step. These directories are in
`.staged` beside the tables of a database, where no catalog looks for tables. A process that is killed leaves its
directory. The next process that makes one deletes those in which nothing has changed for a week.
"""

import json
import logging
import re
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress

from interbed.catalog.client.errors import CatalogError, TableExistsError
from interbed.catalog.client.files.table_files import (
    DROPPED,
    check_no_remains,
    delete_own_directory,
    delete_table_files,
    delete_tree,
    finish_drop,
    is_hidden,
    remove_dropped,
    remove_if_empty,
    remove_link,
    surveyed,
)
from interbed.storage.base.clock import Clock, now_millis
from interbed.storage.base.errors import (
    CommitStateUnknownError,
    CorruptFileError,
    InvalidOptionError,
    StorageAccessError,
)
from interbed.storage.io.api import FileIO
from interbed.storage.io.parallel import is_link
from interbed.storage.version.orphans import OwnFiles
from interbed.storage.version.references import shortened

ABANDONED_MILLIS = 7 * 24 * 3600 * 1000
"""A query that writes no file for that long counts as killed."""

_STAGED = ".staged"
_CREATE_TRIES = 5


def new_staging_directory(file_io: FileIO, database: str, clock: Clock = now_millis) -> str:
    """Create a directory for one table, in the directory of its database. Raises StorageAccessError."""
    staged = f"{database}/{_STAGED}"
    if is_link(file_io, staged):
        raise StorageAccessError(
            f"{staged} is a symbolic link; tables are made and deleted in a directory of that name. Remove the link."
        )
    remove_abandoned(file_io, database, clock)
    made = f"{staged}/{uuid.uuid4()}"
    for attempt in range(1, _CREATE_TRIES + 1):
        try:
            file_io.make_directories(made)
        except (StorageAccessError, FileNotFoundError):
            # Another process deleted the parent, because it was empty.
            if attempt == _CREATE_TRIES:
                raise
        else:
            break
    return made


def is_staging_directory(path: str, database: str) -> bool:
    """Return whether a path was made by new_staging_directory for that database."""
    return path.rpartition("/")[0] == f"{database}/{_STAGED}"


def discard(file_io: FileIO, staged: str) -> None:
    """Delete a staged table that is not published; its writer is this process."""
    try:
        delete_tree(file_io, staged)
        file_io.delete(staged.rpartition("/")[0])
    except (StorageAccessError, FileNotFoundError) as error:
        # Other tables are staged, or the directory stays until it counts as abandoned: the caller has a better error.
        _log.debug("Left %s: %s", staged, error)


def move_into_place(file_io: FileIO, staged: str, location: str, name: str) -> None:
    """Publish a staged table, which has its schema and rows, in one step.

    Raises TableExistsError when something else is at the location, CatalogError when the staged table is missing, and
    CommitStateUnknownError.
    """
    check_no_remains(file_io, location)
    remove_if_empty(file_io, location)
    try:
        moved = file_io.rename(staged, location)
    except StorageAccessError as error:
        raise CommitStateUnknownError(
            f"It is not known whether the table '{name}' has moved from {staged} to {location}: {error}"
        ) from error
    if not moved:
        if file_io.exists(f"{location}/schema/schema-0"):
            raise TableExistsError(f"There is a table '{name}' already.")
        if not file_io.exists(staged):
            raise CatalogError(f"The table '{name}' was made in {staged}, which is missing; make it again.")
        raise TableExistsError(f"{location} holds files that belong to no table; move them away to create '{name}'.")
    parent = staged.rpartition("/")[0]
    try:
        file_io.delete(parent)
    except (StorageAccessError, FileNotFoundError) as error:
        _log.debug("Left %s: %s", parent, error)


def remove_abandoned(file_io: FileIO, database: str, clock: Clock = now_millis) -> None:
    """Delete the abandoned staging directories of killed processes in a database, as far as possible."""
    staged = f"{database}/{_STAGED}"
    oldest_millis = clock() - ABANDONED_MILLIS
    if is_link(file_io, staged):
        return
    try:
        for entry in file_io.list(staged):
            changed = entry.modified_millis
            if changed is not None and changed < oldest_millis and not _has_newer(file_io, entry.path, oldest_millis):
                delete_tree(file_io, entry.path)
    except (StorageAccessError, FileNotFoundError) as error:
        # Another process deletes the same entries. Directories that can't be read stay.
        _log.debug("Left %s: %s", staged, error)


def _has_newer(file_io: FileIO, path: str, oldest_millis: int) -> bool:
    for entry in file_io.list(path):
        if entry.modified_millis is None or entry.modified_millis >= oldest_millis:
            return True
        if entry.is_directory and _has_newer(file_io, entry.path, oldest_millis):
            return True
    return False


_log = logging.getLogger(__name__)

FILE_NAME = ".database-properties"

COMMENT = "comment"

LOCATION = "location"

_TRIES = 5

_MOVED = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""Name of a database that was moved out of sight to be deleted."""

_OF_TABLES = (DROPPED, ".staged", ".unfinished")
"""Directories beside the tables whose entries are like directories of tables."""


def read_properties(file_io: FileIO, directory: str) -> dict[str, str]:
    """Return the properties of the database in that directory, including its comment; raise CorruptFileError."""
    path = f"{directory}/{FILE_NAME}"
    try:
        found = json.loads(file_io.read_bytes(path))
    except FileNotFoundError:
        return {}
    except (ValueError, RecursionError) as error:
        raise CorruptFileError(f"{path} does not hold the properties of a database: {error}") from error
    if not isinstance(found, dict):
        raise CorruptFileError(f"{path} does not hold the properties of a database, which are an object.")
    return {str(key): str(value) for key, value in found.items()}


def create_properties(file_io: FileIO, directory: str, properties: Mapping[str, str]) -> bool:
    """Create the properties of a new database, in one step if the file system can; return False if it
    has some already.
    """
    return file_io.create_exclusive(f"{directory}/{FILE_NAME}", _text(properties))


def write_properties(file_io: FileIO, directory: str, properties: Mapping[str, str]) -> None:
    """Replace the properties in one step; raise StorageAccessError."""
    path = f"{directory}/{FILE_NAME}"
    if properties:
        file_io.overwrite(path, _text(properties))
    else:
        file_io.delete(path)
        # In an object store this file may have been all that made the database a directory.
        file_io.make_directories(directory)


def _text(properties: Mapping[str, str]) -> bytes:
    return json.dumps(dict(sorted(properties.items())), ensure_ascii=False, indent=2).encode()


def changed_properties(
    properties: Mapping[str, str], to_set: Mapping[str, str], to_remove: Sequence[str]
) -> dict[str, str]:
    """Return the properties after a change; an empty comment removes it. Raises InvalidOptionError for the location."""
    check_no_location(to_set)
    changed = {key: value for key, value in properties.items() if key not in to_remove} | dict(to_set)
    return {key: value for key, value in changed.items() if key != COMMENT or value}


def check_no_location(to_set: Mapping[str, str]) -> None:
    """Raise InvalidOptionError when the location is among the properties to be set."""
    if LOCATION in to_set:
        raise InvalidOptionError(
            "The location of a database can't be changed, because its tables would not move. Create another "
            f"database at {to_set[LOCATION]} in a catalog with 'metastore' = 'hive', and rename the tables into it."
        )


def drop_empty_directory(file_io: FileIO, directory: str) -> list[str]:
    """Delete the directory of a database without tables; return the names of other entries, none when it was deleted.

    If there are other entries, the database is unchanged. Raises StorageAccessError.
    """
    tries_left = _TRIES
    while not (others := _others(file_io, directory)):
        tries_left -= 1
        properties = _content(file_io, f"{directory}/{FILE_NAME}")
        try:
            file_io.delete(f"{directory}/{FILE_NAME}")
            # False if its last file was all that made it a directory, or if another process was faster.
            file_io.delete(directory)
        except StorageAccessError:
            if properties is not None:
                _put_back(file_io, directory, properties)
            if not tries_left:
                raise
            # Most likely a file was written, which the next try finds.
        else:
            break
    return others


def _others(file_io: FileIO, directory: str) -> list[str]:
    """Return the names of entries that are neither the database's own nor known remains; delete known remains."""
    if file_io.capabilities.exclusive_rename:
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
        # The temporary file is missing if another process drops the database.
        with suppress(FileNotFoundError):
            if file_io.exists(directory):
                # Properties that were set meanwhile are newer.
                file_io.create_exclusive(f"{directory}/{FILE_NAME}", properties)
            return


def _content(file_io: FileIO, path: str) -> bytes | None:
    try:
        return file_io.read_bytes(path)
    except FileNotFoundError:
        return None


def drop_with_tables(file_io: FileIO, directory: str, tables: Sequence[str]) -> None:
    """Delete the directory of a database with its tables; foreign files stay, with the directory, which is logged.

    Of a link only the link is deleted. Raises StorageAccessError.
    """
    if is_link(file_io, directory):
        remove_link(file_io, directory)
        return
    if not _survey(file_io, directory).foreign and _moved_and_deleted(file_io, directory):
        return
    for table in tables:
        # One by one, so that no table is half deleted.
        delete_table_files(file_io, f"{directory}/{table}")
    if foreign := _delete(file_io, directory):
        _log.warning(
            "Dropped the tables of %s, but left the directory and an empty database, because it has foreign files: %s. "
            "Move them away and drop the database again.",
            directory,
            shortened(foreign, directory),
        )


def _moved_and_deleted(file_io: FileIO, directory: str) -> bool:
    """Move the directory out of sight and delete it there; return False if the file system can't."""
    hidden = f"{directory.rpartition('/')[0]}/{DROPPED}"
    if not file_io.capabilities.exclusive_rename or is_link(file_io, hidden):
        return False
    moved = f"{hidden}/{uuid.uuid4()}"
    if file_io.rename(directory, moved):
        delete_database_tree(file_io, moved)
    _remove_dropped(file_io, hidden)
    return True


def _remove_dropped(file_io: FileIO, hidden: str) -> None:
    """Delete databases that killed processes moved out of sight, as far as possible.

    A server on the warehouse keeps dropped directories beside them, under names of another form.
    """
    try:
        for entry in file_io.list(hidden):
            if entry.is_directory and not entry.is_link and _MOVED.fullmatch(entry.name):
                delete_database_tree(file_io, entry.path)
        file_io.delete(hidden)
    except (StorageAccessError, FileNotFoundError) as error:
        # Another process deletes the same entries, or drops another database.
        _log.debug("Left %s: %s", hidden, error)


def delete_database_tree(file_io: FileIO, moved: str) -> bool:
    """Delete the known files of a database that was moved out of sight; return whether the directory was deleted.

    Foreign files stay, which is logged. Raises StorageAccessError.
    """
    if foreign := _delete(file_io, moved):
        _log.warning("Left %s, because it has foreign files: %s.", moved, shortened(foreign, moved))
    return not foreign


def has_foreign_files(file_io: FileIO, directory: str) -> bool:
    """Return whether the directory of a database has files that neither the database nor its tables have created."""
    return bool(_survey(file_io, directory).foreign)


def _delete(file_io: FileIO, directory: str) -> list[str]:
    """Delete the known files of the directory, and the directory if it has no others; return the foreign paths."""
    return delete_own_directory(file_io, directory, lambda: _survey(file_io, directory))


def _survey(file_io: FileIO, directory: str) -> OwnFiles:
    """Return the known and the foreign entries in the directory of a database."""
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
