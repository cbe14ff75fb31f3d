"""Dropped tables and databases of a file-system catalog: directories that are kept for a time, and parts elsewhere.

A drop moves the directory into the warehouse, in one rename:

    <warehouse>/.undrop/1796000000000-9f3c01ab/
        note      {"database": "shop", "table": "orders", "expires_at": 1796604800}
        files/    the directory; the first step of a purge renames it to `purged/`

No name there ends in `.db`, so that no catalog takes one for a database. The note is durable before the rename, which
is the commit point of the drop. A note without a directory is that of a drop that was killed, or of an object that was
put back: it means nothing. A directory without a readable note is kept until a person puts it back or purges it. The
rename of an undrop is its commit point, and that of a purge decides between the two.

Nothing is deleted through a symbolic link, and of a purged directory only the files that tables have created.

Parts of a table outside of its directory are data files (`data-file.external-paths`) and the topic of its log. All
catalogs delete them when a table is dropped for good. Other tables may have files below the same path. So only files
that a version of this table names are deleted, and directories that are empty then. Files that are named by no version,
or by a version that cannot be read, are kept. A drop looks them up first and deletes them last: a process that dies in
between leaves files that no table names, and never a table without its files.

The topic (`log.system`) is deleted after the table. A process that dies in between, or a broker that does not answer,
leaves an unused topic, which is logged, and never a table without its log. A new table of the same name does not write
into such a topic; it has to be deleted by hand.
"""

import json
import logging
import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

from interbed.catalog.client.errors import CatalogError, DatabaseExistsError, TableExistsError, TableNotFoundError
from interbed.catalog.client.files.database_directory import delete_database_tree
from interbed.catalog.client.files.table_files import delete_tree, remove_if_empty, surveyed
from interbed.catalog.client.recovery import DroppedEntry
from interbed.storage.base.clock import Clock
from interbed.storage.base.errors import InterbedError, InvalidInputError, StorageAccessError
from interbed.storage.base.path_name import is_path_name
from interbed.storage.io.api import FileIO
from interbed.storage.io.parallel import is_link, link_above
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
    from interbed.storage.version.orphans import outside_of

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
    from interbed.storage.log.kafka import LogSettings, delete_topic
    from interbed.storage.log.kafka_eventual import forget_sender
    from interbed.storage.log.publisher import release

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


ROOT = ".undrop"

EXPIRED_AT_ONCE = 10
"""Expired directories that one drop purges, so that it does not take long."""

ABANDONED_SECONDS = 24 * 3600
"""A drop that has moved nothing for that long counts as killed."""

_NOTE, _FILES, _PURGED = "note", "files", "purged"
_FIRST_SCHEMA = "schema/schema-0"
_ID = re.compile(r"[0-9]{13}-[0-9a-f]{8}")


class DroppedDirectories:
    """The dropped directories of a warehouse. Safe for many threads and processes."""

    def __init__(self, file_io: FileIO, warehouse: str, *, keep_seconds: int, clock: Clock) -> None:
        self._file_io = file_io
        self._warehouse = warehouse
        self._root = f"{warehouse}/{ROOT}"
        self._keep_seconds = keep_seconds
        self._clock = clock

    @property
    def keeps(self) -> bool:
        """Whether drops are kept: the file system renames directories in one step."""
        return self._keep_seconds > 0 and self._file_io.capabilities.atomic_rename

    def keep(self, location: str, *, database: str, table: str | None = None) -> bool:
        """Move the directory of a table or database aside; return False if another process has moved it.

        Raises StorageAccessError if it cannot be renamed: it is unchanged then.
        """
        self._check_root()
        now = self._clock()
        place = f"{self._root}/{now:013d}-{secrets.token_hex(4)}"
        note = {"database": database, "table": table, "expires_at": now // 1000 + self._keep_seconds}
        # The note is durable before the directory moves.
        self._file_io.overwrite(f"{place}/{_NOTE}", json.dumps(note, ensure_ascii=False).encode())
        files = f"{place}/{_FILES}"
        try:
            # The response of a remote file system may be lost: only this process moves a directory to this path.
            if self._file_io.rename(location, files) or self._moved(files):
                return True
        except FileNotFoundError:
            # Another process has moved it.
            pass
        except StorageAccessError as error:
            # If this raises, too, the outcome is unknown, and the note stays.
            if self._file_io.exists(files):
                return True
            self._forget(place)
            raise StorageAccessError(
                f"{location} is not dropped, because it can't be moved to {self._root} to be kept: {error} Drop it "
                "with PURGE to delete its files at once."
            ) from error
        self._forget(place)
        return False

    def entries(self) -> list[DroppedEntry]:
        """Return the dropped objects that can be put back, the latest first, and tables after their database."""
        found: list[DroppedEntry] = []
        for place in self._places():
            files = f"{place}/{_FILES}"
            if self._file_io.exists(files) and not is_link(self._file_io, files):
                entry = self._entry(place, files)
                found.append(entry)
                found += self._tables_of(entry)
        return found

    def find(self, database: str, table: str | None, drop_id: str | None = None) -> DroppedEntry:
        """Return the latest dropped object of a name, or the one of an id; TableNotFoundError.

        A directory without a note, chosen by its id, takes the name.
        """
        for entry in self.entries():
            if drop_id in (None, entry.id) and (entry.database, entry.name) == (database, table):
                return entry
            if drop_id == entry.id and entry.kind == "unknown":
                return replace(entry, database=database, name=table)
        shown = database if table is None else f"{database}.{table}"
        raise TableNotFoundError(
            f"There is no dropped object '{shown}'{f' with the id {drop_id}' if drop_id else ''} in {self._root}; "
            "`interbed catalog dropped` lists them."
        )

    def put_back(self, entry: DroppedEntry, target: str) -> None:
        """Move a directory to `target`. TableExistsError or DatabaseExistsError if that is taken, TableNotFoundError if
        another process was faster.
        """
        if (link := link_above(self._file_io, target, self._warehouse)) is not None:
            raise InvalidInputError(
                f"'{entry.qualified}' is not put back: {link} is a symbolic link, and nothing is moved through one. "
                "Remove the link first."
            )
        is_table = self._file_io.exists(f"{entry.present_location}/{_FIRST_SCHEMA}")
        if not is_table and not self._file_io.exists(entry.present_location):
            raise self._gone(entry)
        if is_table != (entry.name is not None):
            raise InvalidInputError(f"{entry.present_location} is not the directory of a {entry.kind}.")
        if is_table:
            # A writer that did not know of the drop may have left directories.
            remove_if_empty(self._file_io, target)
        moved = self._file_io.rename(entry.present_location, target)
        if not moved and (self._file_io.exists(entry.present_location) or not self._moved(target)):
            if self._file_io.exists(target):
                if not is_table:
                    raise DatabaseExistsError(
                        f"The database '{entry.database}' exists: put the tables back one by one, or drop it first."
                    )
                raise TableExistsError(
                    f"'{entry.qualified}' is not put back, because {target} exists: give it another name, or move the "
                    "directory away."
                )
            raise self._gone(entry)
        if entry.with_database is None:
            self._forget(entry.present_location.rpartition("/")[0])

    def purge_named(self, name: str, drop_id: str | None = None) -> int:
        """Purge the latest dropped object of a name, `database.table` or a database, or the one of an id."""
        database, _, table = name.partition(".")
        return int(self.purge(self.find(database, table or None, drop_id)))

    def purge_all(self) -> int:
        """Purge all dropped objects; return the number that is deleted wholly."""
        return sum([self.purge(entry) for entry in self.entries() if entry.with_database is None])

    def purge(self, entry: DroppedEntry) -> bool:
        """Delete a directory for good; return whether all of it is deleted, otherwise the log has the reason."""
        if entry.with_database is not None:
            raise CatalogError(
                f"'{entry.qualified}' was dropped with its database: purge the database, or put the table back and "
                "drop it."
            )
        place = entry.present_location.rpartition("/")[0]
        purged = f"{place}/{_PURGED}"
        # From here on nothing puts it back. A kill leaves a directory that the next purge deletes.
        if not self._file_io.rename(entry.present_location, purged) and not self._file_io.exists(purged):
            return True
        return self._finish_purge(place)

    def expire(self, limit: int | None = EXPIRED_AT_ONCE) -> int:
        """Purge what has expired, and what a kill left half purged; return the number of directories that are deleted.

        At most `limit` are tried. Directories that cannot be deleted stay, which is logged.
        """
        outcomes: list[bool] = []
        for place in self._places(latest_first=False):
            if len(outcomes) == limit:
                break
            try:
                outcome = self._expire(place)
            except (StorageAccessError, FileNotFoundError) as error:
                # Another process purges the same directory, or it can't be read.
                _log.warning("%s has expired, and stays for now: %s", place, error)
                outcome = False
            if outcome is not None:
                outcomes.append(outcome)
        return sum(outcomes)

    def _expire(self, place: str) -> bool | None:
        """Purge a directory if it has expired; return whether all of it is deleted, None if it has not expired."""
        now = self._clock() // 1000
        files = f"{place}/{_FILES}"
        if self._file_io.exists(f"{place}/{_PURGED}"):
            return self._finish_purge(place)
        if self._file_io.exists(files):
            entry = self._entry(place, files)
            return self.purge(entry) if entry.expires_at is not None and entry.expires_at <= now else None
        if _dropped_at(place) + ABANDONED_SECONDS < now:
            self._forget(place)
        return None

    def _finish_purge(self, place: str) -> bool:
        purged = f"{place}/{_PURGED}"
        if is_link(self._file_io, purged):
            _log.warning("Left %s, which is a symbolic link: nothing is deleted through one.", purged)
            return False
        entry = self._entry(place, purged)
        is_table = entry.name is not None or self._file_io.exists(f"{purged}/{_FIRST_SCHEMA}")
        delete: Callable[[FileIO, str], bool] = delete_tree if is_table else delete_database_tree
        with suppress(FileNotFoundError):
            # Another process may delete the same files.
            if not delete(self._file_io, purged):
                return False
        self._forget(place)
        return True

    def _entry(self, place: str, files: str) -> DroppedEntry:
        database, table, expires_at = self._note(place)
        return DroppedEntry(
            id=place.rpartition("/")[2],
            database=database,
            name=table,
            dropped_at=_dropped_at(place),
            expires_at=expires_at,
            present_location=files,
        )

    def _note(self, place: str) -> tuple[str, str | None, int | None]:
        """Return database, table and time of expiry; no database for a note that is missing or damaged."""
        try:
            found = json.loads(self._file_io.read_bytes(f"{place}/{_NOTE}"))
            database, table, expires_at = found["database"], found["table"], found["expires_at"]
        except (FileNotFoundError, ValueError, KeyError, TypeError, RecursionError):
            return "", None, None
        names = [database] if table is None else [database, table]
        if not all(isinstance(name, str) and is_path_name(name) for name in names) or not isinstance(expires_at, int):
            _log.warning("The note in %s has no valid names: the directory is known by its id alone.", place)
            return "", None, None
        return database, table, expires_at

    def _tables_of(self, entry: DroppedEntry) -> Iterator[DroppedEntry]:
        if entry.kind != "database":
            return
        for each in sorted(self._file_io.list(entry.present_location), key=lambda each: each.name):
            is_table = each.is_directory and not each.is_link and is_path_name(each.name)
            if is_table and self._file_io.exists(f"{each.path}/{_FIRST_SCHEMA}"):
                path = f"{entry.present_location}/{each.name}"
                yield replace(entry, name=each.name, present_location=path, with_database=entry.id)

    def _places(self, *, latest_first: bool = True) -> list[str]:
        """Return the directories of drops by time; names that a drop does not make are left out."""
        if is_link(self._file_io, self._root):
            return []
        found = [
            each.name
            for each in self._file_io.list(self._root)
            if each.is_directory and not each.is_link and _ID.fullmatch(each.name)
        ]
        return [f"{self._root}/{name}" for name in sorted(found, reverse=latest_first)]

    def _moved(self, path: str) -> bool:
        """Return whether a rename that reports a failure has moved the directory: its response may be lost."""
        return not self._file_io.capabilities.exact_results and self._file_io.exists(path)

    def _forget(self, place: str) -> None:
        """Delete the note and the directory of a drop; what stays means nothing without `files`."""
        try:
            self._file_io.delete(f"{place}/{_NOTE}")
            self._file_io.delete(place)
        except (StorageAccessError, FileNotFoundError) as error:
            _log.debug("Left %s: %s", place, error)

    def _gone(self, entry: DroppedEntry) -> TableNotFoundError:
        return TableNotFoundError(
            f"'{entry.qualified}' ({entry.id}) was put back or purged meanwhile; `interbed catalog dropped` lists what "
            "is kept."
        )

    def _check_root(self) -> None:
        if is_link(self._file_io, self._root):
            raise StorageAccessError(
                f"{self._root} is a symbolic link; dropped tables are kept in a directory of that name. Remove the "
                "link, or drop with PURGE."
            )


def is_whole(file_io: FileIO, location: str) -> bool:
    """Return whether the directory of a table has all files of the table, and no others, which must keep their place.

    A link is not whole: only the link is deleted.
    """
    if is_link(file_io, location):
        return False
    outside = files_outside(file_io, location)
    has_all = not outside.roots and not outside.files and table_with_log(file_io, location) is None
    return has_all and not surveyed(file_io, location).foreign


def _dropped_at(place: str) -> int:
    return int(place.rpartition("/")[2].partition("-")[0]) // 1000
