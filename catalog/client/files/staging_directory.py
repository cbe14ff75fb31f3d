"""Staging directories: tables are made in them with their rows, and move to their location in one step.

They are in `.staged` beside the tables of a database, where no catalog looks for tables. A process that is killed
leaves its directory. The next process that makes one deletes those in which nothing has changed for a week.
"""

import logging
import uuid

from interbed.catalog.client.errors import CatalogError, TableExistsError
from interbed.catalog.client.files.table_files import check_no_remains, delete_tree, remove_if_empty
from interbed.storage.base.clock import Clock, now_millis
from interbed.storage.base.errors import CommitStateUnknownError, StorageAccessError
from interbed.storage.io.api import FileIO
from interbed.storage.io.deleting import is_link

_log = logging.getLogger(__name__)

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
