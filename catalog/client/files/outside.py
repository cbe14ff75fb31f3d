"""Parts of a dropped table outside of its directory: data files (`data-file.external-paths`), and the topic of its log.

Other tables may have files below the same path. So only files that a version of this table names are deleted, and
directories that are empty then. Files that are named by no version, or by a version that cannot be read, are kept. A
drop looks them up first and deletes them last: a process that dies in between leaves files that no table names, and
never a table without its files.

The topic (`log.system`) is deleted after the table. A process that dies in between, or a broker that does not answer,
leaves an unused topic, which is logged, and never a table without its log. A new table of the same name does not write
into such a topic; it has to be deleted by hand.
"""

import logging
from dataclasses import dataclass

from interbed.storage.base.errors import InterbedError, StorageAccessError
from interbed.storage.io.api import FileIO
from interbed.storage.io.deleting import is_link
from interbed.storage.io.resolve import normalize_path, scheme_of
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.options.log import LogSystem
from interbed.storage.table.opening import open_store

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesOutside:
    """Files below external paths, and these paths."""

    roots: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


def files_outside(file_io: FileIO, location: str) -> FilesOutside:
    """Return the files outside of its directory that the versions of the table name.

    None when the table can't be read, which is logged, and none of a table that is the target of a link.
    """
    from interbed.storage.version.own_files import outside_of

    if is_link(file_io, location):
        return FilesOutside()
    try:
        roots, files = outside_of(open_store(location, file_io))
    except InterbedError as error:
        _log.warning("Files outside of %s stay, because the table that names them can't be read: %s", location, error)
        return FilesOutside()
    # Only the file system of the table is known here.
    own = [normalize_path(root) for root in roots if scheme_of(normalize_path(root)) == file_io.scheme]
    inside = tuple(sorted(path for path in files if any(path.startswith(f"{root}/") for root in own)))
    return FilesOutside(roots=tuple(own), files=inside)


def delete_files_outside(file_io: FileIO, outside: FilesOutside) -> None:
    """Delete the files and the directories that are empty then; files that can't be deleted are logged and stay.

    A bucket has the same name below each external path, and may have an empty directory below any of them. The external
    paths themselves stay: they may be directories of others, such as that of a database.
    """
    file_io.delete_quietly(outside.files)
    directories: set[str] = set()
    for path in outside.files:
        root = next(root for root in outside.roots if path.startswith(f"{root}/"))
        inner = path.removeprefix(root)
        while inner := inner.rpartition("/")[0]:
            directories.update(root + inner for root in outside.roots)
    for directory in sorted(directories, key=len, reverse=True):
        try:
            if not file_io.list(directory):
                file_io.delete(directory)
        except (StorageAccessError, FileNotFoundError) as error:
            # Another table may have written a file there.
            _log.debug("Left %s: %s", directory, error)


def table_with_log(file_io: FileIO, location: str) -> FileStore | None:
    """Return the table at the location if it has a log.

    None also for a link, and for a table that can't be read, which `files_outside` logs.
    """
    if is_link(file_io, location):
        return None
    try:
        store = open_store(location, file_io)
        return None if store.options.log_system is LogSystem.NONE else store
    except InterbedError:
        return None


def delete_log(table: FileStore | None) -> None:
    """Delete the topic of a table that was dropped, if it has one; a topic that stays is logged."""
    if table is None:
        return
    # Few tables have a log.
    from interbed.storage.log.kafka import delete_topic
    from interbed.storage.log.kafka_eventual import forget_sender
    from interbed.storage.log.publisher import release
    from interbed.storage.log.settings import LogSettings

    try:
        release(table)
        forget_sender(table)
        delete_topic(LogSettings.of(table.options))
    except InterbedError as error:
        _log.warning(
            "The table at %s is dropped, but the topic of its log, '%s', stays; delete it by hand: %s",
            table.location,
            table.options.kafka_topic,
            error,
        )
