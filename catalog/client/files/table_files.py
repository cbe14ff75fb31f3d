"""The directory of a table: its deletion, checks before a new table moves in, and the mark of a change in a metastore.

A drop deletes the files that the table has created (storage.version.orphans) and leaves foreign files, with the
directory. Own files are deleted first, then own directories. A writer that does not know of the drop may still write
there, so the directory is surveyed again when it is not empty at the end.

A drop moves the directory out of sight in one step and deletes it there. If the file system cannot do that, or if
foreign files must keep their place, the drop writes a note into the directory (`.dropped`) and deletes the first schema
of the table. The deletion of the first schema is the commit point, because a table is defined by its schema files. Then
the other files are deleted, and the note last. A process that finds the note without a first schema deletes the rest,
so that old rows never reappear in the next table of that name.

Of an object table only the schema is its own file: a drop deletes the schema, and the files that the table lists stay.

A change that has to be made in a metastore as well is marked in `<table>/.metastore-change`:

    {"change": "drop", "table": "shop.orders", "snapshot": 7}
    {"change": "create", "table": "shop.orders"}
    {"change": "rename", "table": "shop.bills", "from": "file:/lake/shop.db/orders", "to": "file:/lake/shop.db/bills"}

The mark is written before the metastore is changed, and deleted when the files have followed. A process that was killed
in between leaves the mark. If the metastore still has the entry, the mark means nothing. If the entry is missing, the
mark says that the files may be deleted (a drop, unless there is a newer snapshot), that they never were a table (a
creation), or where they went (a rename). No other program reads it.
"""

import json
import logging
import os
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

from interbed.catalog.client.errors import CatalogError, TableExistsError
from interbed.catalog.client.identifier import Identifier
from interbed.storage.base.errors import StorageAccessError
from interbed.storage.io.api import FileIO, FileStatus
from interbed.storage.io.parallel import delete_all_files, in_parallel, is_link
from interbed.storage.meta.options.format import is_object_table
from interbed.storage.meta.schema.manager import read_outline
from interbed.storage.table.opening import open_store
from interbed.storage.version.orphans import OwnFiles, own_files
from interbed.storage.version.references import OF_TABLE, shortened

_log = logging.getLogger(__name__)

_TRIES = 5

_BATCH = 1000

_FIRST_SCHEMA = "schema/schema-0"

DROPPED = ".dropped"
"""Directory of tables that are being deleted, beside the tables of a database. It has no schema, so that no catalog
takes it for a table.

In the directory of a table: the note that the table is being deleted in place.
"""

ASIDE = ".unfinished"
"""Directory beside the tables of a database with rows of tables whose creation did not finish."""

_NAME = ".metastore-change"

_SNAPSHOT = "snapshot-"


def delete_own_directory(
    file_io: FileIO, directory: str, survey: Callable[[], OwnFiles], *, last: Callable[[str], bool] | None = None
) -> list[str]:
    """Delete the known files that `survey` finds in the directory, and the directory unless it has foreign files.

    Return the foreign paths. Files for which `last` is true are deleted after the others. Raises StorageAccessError for
    a known file that can't be deleted.
    """
    for attempt in range(1, _TRIES + 1):
        found = survey()
        if last is not None:
            found.files.sort(key=last)
        file_io.delete_quietly(found.files)
        left = without_foreign(found.directories, found.foreign)
        if not file_io.capabilities.durable_on_return:
            # Quietly, which syncs them together instead of one by one.
            file_io.delete_quietly(left)
        if found.foreign:
            return found.foreign
        try:
            file_io.delete(directory)
        except StorageAccessError:
            # Another process writes into it, or it has directories without files.
            if attempt == _TRIES:
                delete_all_files(file_io, found.files)
                raise
            for path in left:
                with suppress(StorageAccessError, FileNotFoundError):
                    file_io.delete(path)
        else:
            break
    return []


def without_foreign(directories: Sequence[str], foreign: Sequence[str]) -> list[str]:
    """Return the directories that hold nothing foreign, each before its parent."""
    holding = {above for path in foreign for above in _above(path)}
    return [path for path in reversed(directories) if path not in holding]


def _above(path: str) -> Iterator[str]:
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path


def delete_table_files(file_io: FileIO, location: str) -> bool:
    """Delete the files of a table in its directory, and the directory if it is empty then; it may be missing.

    Return whether this call has dropped a table: of several processes one, unless the file system does not know which
    of them deletes a file. Foreign files stay, which is logged. Of a link only the link is deleted. Raises
    StorageAccessError.
    """
    if is_link(file_io, location):
        remove_link(file_io, location)
        return True
    if holds_objects(file_io, location):
        return forget_objects(file_io, location)
    found = surveyed(file_io, location)
    if not found.foreign and (is_moved := drop_directory(file_io, location)) is not None:
        return is_moved
    is_dropped = False
    if file_io.exists(f"{location}/{_FIRST_SCHEMA}"):
        is_dropped = _take_out_of_sight(file_io, location)
    elif not file_io.exists(f"{location}/{DROPPED}"):
        # There is no table: its known files are deleted without a note.
        _delete_tree(file_io, location)
        return False
    _delete_dropped(file_io, location)
    return is_dropped


def holds_objects(file_io: FileIO, location: str) -> bool:
    """Return whether a directory is that of an object table: only the schema is the table's own file."""
    return is_object_table(read_outline(file_io, location).options)


def forget_objects(file_io: FileIO, location: str) -> bool:
    """Delete the schema of an object table, and directories that are empty without it; return whether it existed.

    The files that the table lists stay, which is logged.
    """
    is_dropped = file_io.delete(f"{location}/{_FIRST_SCHEMA}")
    withdraw_schema(file_io, location, f"{location}/{_FIRST_SCHEMA}")
    if file_io.exists(location):
        _log.warning("Left %s, the directory of an object table, with its files.", location)
    return is_dropped


def remove_link(file_io: FileIO, location: str) -> None:
    """Remove a link at the location of a table or a database, and nothing in its target."""
    _log.warning("Removed the link %s alone: the files in %s stay.", location, os.path.realpath(location))
    file_io.delete(location)


def _take_out_of_sight(file_io: FileIO, location: str) -> bool:
    """Write the note of the drop and delete the first schema; return False if another process has deleted it."""
    first, note = f"{location}/{_FIRST_SCHEMA}", f"{location}/{DROPPED}"
    try:
        file_io.overwrite(note, b"")
    except StorageAccessError:
        # If a quota allows no further file, the schema itself becomes the note.
        if not file_io.capabilities.atomic_rename or not file_io.rename(first, note):
            raise
        return True
    return file_io.delete(first)


def finish_drop(file_io: FileIO, location: str) -> bool:
    """Delete the remains of a killed drop in the directory of a table; return whether there were any."""
    if is_link(file_io, location) or not _is_dropped(file_io, location):
        return False
    _log.info("Deleting the remains of a drop in %s.", location)
    _delete_dropped(file_io, location)
    return True


def _is_dropped(file_io: FileIO, location: str) -> bool:
    """Return whether the note of a drop exists, and the first schema is deleted, which is the commit
    point of the drop.
    """
    return file_io.exists(f"{location}/{DROPPED}") and not file_io.exists(f"{location}/{_FIRST_SCHEMA}")


def surveyed(file_io: FileIO, location: str) -> OwnFiles:
    """Return the own files and the foreign files in the directory of a table."""
    if holds_objects(file_io, location):
        own = f"{location}/{_FIRST_SCHEMA}"
        schemas = own.rpartition("/")[0]
        others = [e.path for e in (*file_io.list(location), *file_io.list(schemas)) if e.path != schemas]
        return OwnFiles(files=[own], directories=[schemas], foreign=[path for path in others if path != own])
    return own_files(file_io, location, lambda: open_store(location, file_io))


def _delete_dropped(file_io: FileIO, location: str) -> None:
    """Delete the own files of a directory whose table was dropped, and the note of the drop last.

    Another process may do the same, finish, and make a new table here. So only files of the first survey are deleted,
    those whose names may reappear first, and the note is checked before each request.
    """
    found = surveyed(file_io, location)
    note = f"{location}/{DROPPED}"
    files = [path for path in found.files if path != note]
    files.sort(key=lambda path: not path.startswith((f"{location}/schema/", f"{location}/snapshot/")))
    for start in range(0, len(files), _BATCH):
        if not _is_dropped(file_io, location):
            return
        # A thousand in a request; files that stay are tried once more, for the error.
        file_io.delete_quietly(files[start : start + _BATCH])
    left = set(surveyed(file_io, location).files).intersection(files)
    if left and _is_dropped(file_io, location):
        delete_all_files(file_io, sorted(left))
    if file_io.capabilities.directories:
        # Directories without files; one that is no longer empty stays.
        for path in without_foreign(found.directories, found.foreign):
            with suppress(StorageAccessError, FileNotFoundError):
                file_io.delete(path)
    file_io.delete(note)
    if found.foreign:
        _log_foreign(location, found.foreign)
    elif file_io.capabilities.directories:
        with suppress(StorageAccessError):
            file_io.delete(location)


def _log_foreign(location: str, foreign: Sequence[str]) -> None:
    _log.warning(
        "Left %s, because it has foreign files: %s. Move them away, or delete the directory.",
        location,
        shortened(foreign, location),
    )


def drop_directory(file_io: FileIO, location: str) -> bool | None:
    """Move the directory of a table out of sight in one step and delete it.

    Return whether there was a table, None if the file system can't move it in one step. Directories that a killed
    process moved out of sight are deleted, too, as far as possible.
    """
    hidden = f"{location.rpartition('/')[0]}/{DROPPED}"
    if not file_io.capabilities.exclusive_rename or is_link(file_io, hidden):
        return None
    moved = f"{hidden}/{uuid.uuid4()}"
    # Another process may have dropped the table, and may be making the next one.
    is_table = file_io.exists(f"{location}/{_FIRST_SCHEMA}")
    # A running writer may create the directory again; it finds no table there.
    if is_moved := file_io.rename(location, moved):
        # Another process that drops a table here may delete the same files.
        with suppress(FileNotFoundError):
            _delete_tree(file_io, moved)
    remove_dropped(file_io, location)
    return is_moved and is_table


def remove_dropped(file_io: FileIO, location: str) -> list[str]:
    """Delete tables that killed processes moved out of sight beside the directory of a table; return their paths."""
    hidden = f"{location.rpartition('/')[0]}/{DROPPED}"
    removed: list[str] = []
    if is_link(file_io, hidden) or not file_io.exists(hidden):
        return removed
    try:
        for entry in file_io.list(hidden):
            if entry.is_directory and delete_tree(file_io, entry.path):
                removed.append(entry.path)  # noqa: PERF401 (what was removed before an error counts)
        file_io.delete(hidden)
    except (StorageAccessError, FileNotFoundError) as error:
        # Another process deletes the same entries, or drops another table.
        _log.debug("Left %s: %s", hidden, error)
    return removed


def delete_tree(file_io: FileIO, directory: str) -> bool:
    """Delete a table's files in a directory without a table; return whether the directory was deleted."""
    return not is_link(file_io, directory) and _delete_tree(file_io, directory)


def check_no_remains(file_io: FileIO, location: str) -> None:
    """Raise TableExistsError when the directory, which has no schema, still has versions of an earlier table.

    Known remains of a drop are deleted.
    """
    if finish_drop(file_io, location):
        return
    parts = ("snapshot", "tag", "branch", "changelog", "consumer")
    for part, entries in zip(
        parts, in_parallel(file_io, [partial(file_io.list, f"{location}/{part}") for part in parts]), strict=True
    ):
        left = sorted(e.name for e in entries if not e.name.startswith(".") and _is_version(file_io, part, e))
        if left:
            raise TableExistsError(
                f"{location}/{part} holds {left[-1]} of an incompletely dropped table, which would reappear "
                "in the new one; remove the directory."
            )


def _is_version(file_io: FileIO, part: str, entry: FileStatus) -> bool:
    """Return whether the next table at this location would take the entry for one of its versions."""
    if part == "branch":
        return entry.is_directory and file_io.exists(f"{entry.path}/{_FIRST_SCHEMA}")
    return not entry.is_directory and OF_TABLE[part].fullmatch(entry.name) is not None


def withdraw_schema(file_io: FileIO, location: str, schema_path: str) -> None:
    """Delete the schema file of a table whose creation failed, and directories that are empty without it."""
    file_io.delete_quietly([schema_path])
    for directory in (schema_path.rpartition("/")[0], location):
        try:
            file_io.delete(directory)
        except (StorageAccessError, FileNotFoundError):
            # It is not empty, or an empty directory stays: the caller has a better error to report.
            return


def remove_if_empty(file_io: FileIO, location: str) -> bool:
    """Remove the directories of a table whose creation failed, unless they have files; return whether they are deleted.

    Each is deleted only if it is empty, so that a table stays whose files are written meanwhile.
    """
    try:
        return (
            not is_link(file_io, location)
            and _is_without_files(file_io, location)
            and _delete_directories(file_io, location)
        )
    except (StorageAccessError, FileNotFoundError) as error:
        # A file was written, or empty directories stay.
        _log.debug("Left %s: %s", location, error)
        return False


def is_hidden(name: str) -> bool:
    """Return whether a file is temporary: its final name is still to be given.

    The process that would rename it finds it deleted, and reports that, or starts again.
    """
    return name.startswith(".") and name.endswith(".tmp")


def _is_without_files(file_io: FileIO, location: str) -> bool:
    return all(
        not e.is_link and (_is_without_files(file_io, e.path) if e.is_directory else is_hidden(e.name))
        for e in file_io.list(location)
    )


def _delete_directories(file_io: FileIO, location: str) -> bool:
    for entry in file_io.list(location):
        if entry.is_directory:
            _delete_directories(file_io, entry.path)
        elif is_hidden(entry.name):
            file_io.delete(entry.path)
    file_io.delete(location)
    return True


def _delete_tree(file_io: FileIO, path: str) -> bool:
    """Delete a table's files in a directory into which a process may still be writing; return whether it was deleted.

    The schemas are deleted last, because they define the names of files. Raises StorageAccessError for an own file that
    can't be deleted.
    """
    schemas = f"{path}/schema/"
    foreign = delete_own_directory(
        file_io, path, lambda: surveyed(file_io, path), last=lambda file: file.startswith(schemas)
    )
    if foreign:
        _log_foreign(path, foreign)
    return not foreign


class MarkedChange(StrEnum):
    """The kind of a change that was begun."""

    CREATE = "create"
    DROP = "drop"
    RENAME = "rename"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeMark:
    """The mark of a change.

    `table` is the name that the files belong to after the change, `snapshot` the newest snapshot of a dropped table.
    `source` and `target` are the locations of a rename.
    """

    change: MarkedChange
    table: str
    snapshot: int | None = None
    source: str | None = None
    target: str | None = None

    def is_of(self, identifier: Identifier) -> bool:
        """Return whether the mark is about the table of this name; metastores ignore the case."""
        return self.table.lower() == str(identifier).lower()

    def write(self, file_io: FileIO, location: str) -> None:
        """Write the mark into a table's directory, durably.

        Raises CatalogError when another process deletes the directory meanwhile.
        """
        members = {
            "change": str(self.change),
            "table": self.table,
            "snapshot": self.snapshot,
            "from": self.source,
            "to": self.target,
        }
        given = {key: value for key, value in members.items() if value is not None}
        try:
            file_io.overwrite(f"{location}/{_NAME}", json.dumps(given).encode())
        except FileNotFoundError as error:
            raise CatalogError(
                f"The directory {location} was deleted meanwhile, because another process drops or renames the table "
                f"'{self.table}' without a lock; try again."
            ) from error


def read_mark(file_io: FileIO, location: str) -> ChangeMark | None:
    """Return the mark of a directory; None without one, and for one that can't be read, which has no meaning."""
    try:
        found = json.loads(file_io.read_bytes(f"{location}/{_NAME}"))
        return ChangeMark(
            change=MarkedChange(found["change"]),
            table=str(found["table"]),
            snapshot=found.get("snapshot"),
            source=found.get("from"),
            target=found.get("to"),
        )
    except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
        return None


def remove_mark(file_io: FileIO, location: str) -> None:
    """Delete the mark of a directory; it may be missing."""
    file_io.delete(f"{location}/{_NAME}")


def newest_snapshot(file_io: FileIO, location: str) -> int | None:
    """Return the id of the newest snapshot file in a directory that need not be a table; None without any."""
    names = [e.name.removeprefix(_SNAPSHOT) for e in file_io.list(f"{location}/snapshot") if _SNAPSHOT in e.name]
    return max((int(name) for name in names if name.isdigit()), default=None)


def aside_directory(directory: str) -> str:
    """Return a path for files that block a new table, and that only a person may delete."""
    parent, _, name = directory.rstrip("/").rpartition("/")
    return f"{parent}/{ASIDE}/{name}-{uuid.uuid4()}"


def was_dropped(file_io: FileIO, location: str, identifier: Identifier) -> bool:
    """Return whether a directory without an entry is left from a drop of this table, without a
    snapshot since the drop.
    """
    mark = read_mark(file_io, location)
    if mark is None or mark.change is not MarkedChange.DROP or not mark.is_of(identifier):
        return False
    return (newest_snapshot(file_io, location) or 0) <= (mark.snapshot or 0)
