"""Rename of a table of a metastore together with its directory.

A metastore moves the directory of a managed table at its default location. If it did not (it can't reach the files, or
keeps their location in a parameter) the directory is moved here. The entry first gets the new location, and in a
parameter the old one. As long as the directory with its mark (files/table_files.py) is at the old location, that
location is used.

In an object store, where a directory would be copied file by file, the files stay in place and only the entry changes.
The mark stays as well, so that no new table is made at that location. A Java metastore copies the files of a table that
is not external, so the entry is external during the rename.
"""

import logging
from contextlib import ExitStack, suppress
from typing import Any

from interbed.catalog.client.errors import UNREADABLE, TableExistsError
from interbed.catalog.client.files.table_files import ChangeMark, MarkedChange, read_mark, remove_mark
from interbed.catalog.client.hive.connection import CallStateUnknownError
from interbed.catalog.client.hive.entries import MOVED_FROM, MetastoreEntries
from interbed.catalog.client.hive.publisher import MetastorePartitions
from interbed.catalog.client.hive.registration import is_external, make_external, make_managed, same_location
from interbed.catalog.client.identifier import Identifier, parse_table_name
from interbed.storage.base.errors import InterbedError, NotSupportedError

_log = logging.getLogger(__name__)


class HiveRenames:
    """Renames of the tables of one metastore."""

    def __init__(self, entries: MetastoreEntries) -> None:
        self._entries = entries
        self._client = entries.client

    def rename(self, old: Identifier, new: Identifier) -> None:
        """Rename a table; a managed one moves. TableNotFoundError, TableExistsError."""
        with ExitStack() as locks:
            # In the order of their names, to avoid deadlocks of two renames.
            for name in sorted({old, new}, key=str):
                locks.enter_context(self._entries.hold(name))
            found = self._entries.table(old)
            if self._entries.has_table(new):
                raise TableExistsError(f"There is a table '{new}' in the metastore {self._client.uri} already.")
            self._entries.database(new.database)
            self.finish(old, found)
            before, wanted = self._entries.locations.of(found), self._entries.new_table_location(new)
            taken = self._entries.locations.in_parameters and self._entries.file_io.exists(self._entries.path(wanted))
            if is_external(found) or taken:
                self._rename_entry(old, new, found)
                return
            if not self._entries.file_io.capabilities.atomic_rename:
                self._rename_in_place(old, new, found)
                return
            mark = ChangeMark(change=MarkedChange.RENAME, table=str(new), source=before, target=wanted)
            mark.write(self._entries.file_io, self._entries.path(before))
            if self._entries.locations.in_parameters:
                self._set_target(found, mark)
            try:
                self._rename_entry(old, new, found)
            except CallStateUnknownError:
                raise
            except (InterbedError, OSError):
                remove_mark(self._entries.file_io, self._entries.path(before))
                raise
            self._move_directory(new, mark)

    def finish(self, identifier: Identifier, entry: Any) -> bool:
        """Finish a killed rename under the table's lock; return whether its directory had to be moved."""
        self._manage(identifier, entry)
        mark = self._entries.mark_of_rename(identifier, entry)
        if mark is None:
            return False
        self._move_directory(identifier, mark)
        changed = self._entries.table(identifier)
        entry.sd, entry.parameters = changed.sd, changed.parameters
        return True

    def finish_from(self, directory: str) -> bool:
        """Finish a killed rename whose directory blocks another table; return whether there was one."""
        mark = read_mark(self._entries.file_io, directory)
        if mark is None or mark.change is not MarkedChange.RENAME or mark.source is None:
            return False
        identifier = parse_table_name(mark.table)
        if self._entries.path(mark.source) != directory or not self._entries.has_table(identifier):
            return False
        with self._entries.hold(identifier):
            return self.finish(identifier, self._entries.table(identifier))

    def _rename_in_place(self, old: Identifier, new: Identifier, found: Any) -> None:
        """Change only the entry, if the directory would be copied file by file; a mark in it names its table."""
        file_io, location = self._entries.file_io, self._entries.locations.of(found)
        if old.database.lower() != new.database.lower():
            raise NotSupportedError(
                f"The files of '{old}' stay in {location} when it is renamed, because its store can't rename a "
                f"directory in one step, and would go with the database '{old.database}'. Make '{new}' of its rows "
                "(create_table_as) and drop it."
            )
        directory = self._entries.path(location)
        before = read_mark(file_io, directory)
        place = location.rstrip("/")
        ChangeMark(change=MarkedChange.RENAME, table=str(new), source=place, target=place).write(file_io, directory)
        try:
            # A metastore does not move files whose location it does not know.
            if not self._entries.locations.in_parameters:
                make_external(found)
                self._replace(old, found)
            self._rename_entry(old, new, found)
        except CallStateUnknownError:
            raise
        except (InterbedError, OSError):
            with suppress(InterbedError, OSError):
                self._manage(old, self._client.get_table(old.database, old.table))
            if before is None:
                remove_mark(file_io, directory)
            else:
                before.write(file_io, directory)
            raise
        try:
            self._manage(new, self._client.get_table(new.database, new.table))
        except (InterbedError, OSError) as error:
            _log.warning("'%s' is renamed, but is still an external table in the metastore: %s", new, error)

    def _manage(self, identifier: Identifier, entry: Any) -> None:
        """Make the entry managed again, if it is external only for the rename."""
        if make_managed(entry):
            self._replace(identifier, entry)

    def _rename_entry(self, old: Identifier, new: Identifier, found: Any) -> None:
        found.dbName, found.tableName = new.database, new.table
        try:
            self._client.alter_table(old.database, old.table, found)
        except CallStateUnknownError:
            if self._entries.has_table(old):
                self._client.alter_table(old.database, old.table, found)
            elif not self._entries.has_table(new):
                raise

    def _set_target(self, entry: Any, mark: ChangeMark) -> None:
        self._entries.locations.set(entry, mark.target or "")
        entry.parameters = {**(entry.parameters or {}), MOVED_FROM: mark.source or ""}

    def _move_directory(self, new: Identifier, mark: ChangeMark) -> None:
        """Move the directory to the location of the entry, and update the entry."""
        locations, file_io, path = self._entries.locations, self._entries.file_io, self._entries.path
        before, wanted = mark.source or "", mark.target or ""
        entry = self._client.get_table(new.database, new.table)
        if same_location(locations.of(entry), before):
            if file_io.exists(path(wanted)):
                # Another directory is at the new location, so the table stays.
                remove_mark(file_io, path(before))
                return
            self._set_target(entry, mark)
            self._replace(new, entry)
        if MOVED_FROM in (entry.parameters or {}):
            if read_mark(file_io, path(before)) == mark and not file_io.rename(path(before), path(wanted)):
                locations.set(entry, before)
            elif entry.partitionKeys:
                self._move_partitions(new, entry, before, wanted)
            entry.parameters.pop(MOVED_FROM)
            self._replace(new, entry)
        remove_mark(file_io, path(locations.of(entry)))

    def _move_partitions(self, new: Identifier, entry: Any, before: str, wanted: str) -> None:
        try:
            paths = self._entries.open(new, entry).paths
        except UNREADABLE as error:
            _log.warning("Partitions of '%s' in the metastore still name its old location %s: %s", new, before, error)
            return
        MetastorePartitions(self._client, new, paths, self._entries.locations).move(before, wanted)

    def _replace(self, identifier: Identifier, entry: Any) -> None:
        """Replace an entry under its lock; repeat that when the reply was lost."""
        try:
            self._client.alter_table(identifier.database, identifier.table, entry)
        except CallStateUnknownError:
            self._client.alter_table(identifier.database, identifier.table, entry)
