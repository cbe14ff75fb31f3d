"""Entries of a metastore, conversion of their locations to paths, and renames of tables with their directories.

A metastore moves the directory of a managed table at its default location. If it did not (it can't reach the files, or
keeps their location in a parameter) the directory is moved here. The entry first gets the new location, and in a
parameter the old one. As long as the directory with its mark (files/table_files.py) is at the old location, that
location is used.

In an object store, where a directory would be copied file by file, the files stay in place and only the entry changes.
The mark stays as well, so that no new table is made at that location. A Java metastore copies the files of a table that
is not external, so the entry is external during the rename.
"""

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

from interbed.catalog.client.errors import (
    UNREADABLE,
    DatabaseNotFoundError,
    NotAnInterbedTableError,
    TableExistsError,
    TableNotFoundError,
    UnregisteredTableError,
)
from interbed.catalog.client.files.table_files import ChangeMark, MarkedChange, read_mark, remove_mark
from interbed.catalog.client.hive.client import HiveMetastoreClient
from interbed.catalog.client.hive.commit_lock import LockSettings
from interbed.catalog.client.hive.connection import CallStateUnknownError
from interbed.catalog.client.hive.lock import HiveCatalogLock
from interbed.catalog.client.hive.publisher import HivePublisher, MetastorePartitions
from interbed.catalog.client.hive.registration import (
    CURRENT_SNAPSHOT,
    Locations,
    is_external,
    is_ours,
    is_view,
    make_external,
    make_managed,
    same_location,
)
from interbed.catalog.client.identifier import (
    DB_SUFFIX,
    DEFAULT_DATABASE,
    Identifier,
    check_database_name,
    parse_table_name,
)
from interbed.catalog.client.options import CatalogOptions
from interbed.storage.base.errors import InterbedError, InvalidOptionError, NotSupportedError
from interbed.storage.io.api import FileIO
from interbed.storage.io.parallel import is_link, link_above
from interbed.storage.io.resolve import FileOpener, file_io_for, local_path, normalize_path, respelled, same_file_system
from interbed.storage.meta.file_store import FileStore, StoreEnvironment
from interbed.storage.meta.schema.table_schema import TableSchema
from interbed.storage.table.opening import open_store, schema_manager

MOVED_FROM = "interbed.moved-from"
"""Parameter of an entry whose directory may still be at its old location (`HiveRenames`)."""

_PLACES_MAX = 100
"""How many tables may have had one name and been renamed, if their files stay in place."""


def unregistered(identifier: Identifier, location: str) -> UnregisteredTableError:
    """Return the error for a table whose files exist, but which the metastore does not know."""
    return UnregisteredTableError(
        f"{location} holds a table that the metastore does not know; another catalog has made it. Register it by "
        f"`interbed catalog repair {identifier}`, in Spark by CALL sys.repair('{identifier}'), or as an external table "
        "by the option 'path', or remove the directory."
    )


class MetastoreEntries:
    """The databases and tables of one metastore, and the warehouse of new ones."""

    def __init__(
        self,
        client: HiveMetastoreClient,
        options: CatalogOptions,
        lock: LockSettings,
        *,
        warehouse: str | None,
        list_batch: int,
        files: FileOpener = file_io_for,
    ) -> None:
        self.client = client
        self.options = options
        self.lock = lock
        self.locations = Locations(in_parameters=options.location_in_properties)
        self.format_tables = options.format_table_enabled
        self.tables_of_hive = True
        self._list_batch = list_batch
        warehouse = warehouse or self._warehouse_of_the_server()
        self._open_files = files
        self.file_io, self.warehouse = files(warehouse, options.raw)
        self.warehouse_uri = self.uri(warehouse)

    @contextmanager
    def hold(self, identifier: Identifier) -> Iterator[HiveCatalogLock | None]:
        """Hold the locks of a table that is changed: the metastore's, which is yielded, and that of the table's
        directory.

        Commits take the second one if `lock.enabled` is auto. None if locks are off. LockError.
        """
        with ExitStack() as locks:
            held = locks.enter_context(self.lock.hold(self.client, identifier))
            if held is not None:
                for directory in self._local_directories(identifier):
                    locks.enter_context(self.lock.of_directory(directory))
            yield held

    def _local_directories(self, identifier: Identifier) -> list[str]:
        """Return the local directories of a table: two while a rename is not finished."""
        try:
            entry = self.client.get_table(identifier.database, identifier.table)
        except (TableNotFoundError, DatabaseNotFoundError):
            return []
        if not is_ours(entry):
            return []
        places = (self.locations.of(entry), (entry.parameters or {}).get(MOVED_FROM))
        found = {os.path.realpath(path) for place in places if (path := local_path(place or "")) is not None}
        # In one order, to avoid deadlocks of two changes.
        return sorted(found)

    def database(self, name: str) -> Any:
        """Return the Database structure; raise DatabaseNotFoundError."""
        return self.client.get_database(check_database_name(name))

    def database_location(self, database: Any) -> str:
        """Return the location of the tables of a Database structure."""
        return self.locations.of_database(database) or self.new_database_location(database.name)

    def new_database_location(self, name: str) -> str:
        """Return the default location of the tables of a new database."""
        return f"{self.warehouse_uri}/{name}{DB_SUFFIX}"

    def new_table_location(self, identifier: Identifier) -> str:
        """Return the default location of a new table."""
        return f"{self.database_location(self.database(identifier.database)).rstrip('/')}/{identifier.table}"

    def free_table_location(self, identifier: Identifier) -> str:
        """Return the location of a new table: the default one, or one beside it if another table occupies it.

        A table that was renamed in an object store keeps the location of its old name.
        """
        default = self.new_table_location(identifier)
        if self.files_of(default).capabilities.atomic_rename:
            return default
        places = (default, *(f"{default}-{number}" for number in range(2, _PLACES_MAX + 1)))
        for location in places:
            owner = self.owner_of(location, identifier.database)
            if owner is None or owner == identifier:
                return location
        raise TableExistsError(
            f"{default} and {_PLACES_MAX - 1} places beside it are those of tables that were renamed; give "
            f"'{identifier}' a place of its own by the option 'path'."
        )

    def owner_of(self, location: str, database: str) -> Identifier | None:
        """Return the table of this metastore at that location: the one that a rename has marked, or one of the
        database.
        """
        directory = self.path(location)
        file_io = self.files_of(directory)
        if not schema_manager(directory, file_io).ids():
            return None
        mark = read_mark(file_io, directory)
        if mark is not None and mark.change is MarkedChange.RENAME:
            noted = parse_table_name(mark.table)
            for entry in self.client.get_table_objects(noted.database, [noted.table]):
                if self._lives_in(entry, location):
                    return noted
        names = self.client.get_tables(database)
        for start in range(0, len(names), self._list_batch):
            for entry in self.client.get_table_objects(database, names[start : start + self._list_batch]):
                if is_ours(entry) and self._lives_in(entry, location):
                    return Identifier(database=database, table=entry.tableName)
        return None

    def _lives_in(self, entry: Any, location: str) -> bool:
        return same_location(self.path(self.locations.of(entry)), self.path(location))

    def table(self, identifier: Identifier) -> Any:
        """Return the Table structure.

        TableNotFoundError, DatabaseNotFoundError; NotAnInterbedTableError for other formats.
        """
        found = self.client.find_table(identifier)
        if is_view(found):
            raise TableNotFoundError(f"'{identifier}' in the metastore {self.client.uri} is a view, not a table.")
        if not is_ours(found) and self.is_format_entry(found):
            refused = NotAnInterbedTableError(
                f"The table '{identifier}' of the metastore {self.client.uri} is a format table, which has no schemas, "
                "snapshots and options of its own to be changed; change it by Hive or Spark."
            )
            refused.format_entry = found
            raise refused
        if not is_ours(found):
            kind = (
                (found.parameters or {}).get("table_type")
                or (found.sd.inputFormat if found.sd else None)
                or found.tableType
            )
            raise NotAnInterbedTableError(
                f"The table '{identifier}' of the metastore {self.client.uri} is no table of Paimon's format ({kind})."
            )
        return found

    def is_format_entry(self, entry: Any) -> bool:
        """Return whether an entry is that of a format table, unless the option `format-table.enabled` is off."""
        if not self.format_tables:
            return False
        from interbed.catalog.client.hive.format_entries import is_created_as_format_table, is_format_entry

        return is_format_entry(entry) and (self.tables_of_hive or is_created_as_format_table(entry))

    def has_table(self, identifier: Identifier) -> bool:
        """Return whether the metastore has a table of that name, in any format."""
        try:
            self.client.get_table(identifier.database, identifier.table)
        except (TableNotFoundError, DatabaseNotFoundError):
            return False
        return True

    def our_tables(self, database: str, names: Sequence[str]) -> list[str]:
        """Return those of the tables that are in Paimon's format, sorted."""
        return self.chosen(database, names, is_ours)

    def listed_tables(self, database: str, names: Sequence[str]) -> list[str]:
        """Return those of the tables that are in Paimon's format, or are format tables, sorted."""
        return self.chosen(database, names, lambda entry: is_ours(entry) or self.is_format_entry(entry))

    def chosen(self, database: str, names: Sequence[str], is_meant: Callable[[Any], bool]) -> list[str]:
        """Return the names whose entries `is_meant` selects, sorted."""
        found: list[str] = []
        for start in range(0, len(names), self._list_batch):
            batch = self.client.get_table_objects(database, names[start : start + self._list_batch])
            found.extend(t.tableName for t in batch if is_meant(t))
        return sorted(found)

    def open(self, identifier: Identifier, entry: Any) -> FileStore:
        """Return the file store of a table, whose commits use the metastore.

        TableNotFoundError when its files are missing.
        """
        given = self.locations.of(entry)
        location = self.path(given)
        file_io = self.files_of(location)
        schema = schema_manager(location, file_io).latest()
        if schema is None and (mark := self.mark_of_rename(identifier, entry)) is not None:
            location = self.path(mark.source or "")
            schema = schema_manager(location, file_io).latest()
        if schema is None:
            raise TableNotFoundError(
                f"The table '{identifier}' is in the metastore {self.client.uri}, but {location} has no schema; "
                "drop the entry, or restore the files."
            )
        environment = self._environment(identifier, entry, schema)
        return open_store(respelled(location, given), file_io, schema=schema, environment=environment)

    def mark_of_rename(self, identifier: Identifier, entry: Any) -> ChangeMark | None:
        """Return the mark of an unfinished rename; None when the entry has the current location of the table."""
        source = (entry.parameters or {}).get(MOVED_FROM)
        if source is None:
            return None
        for location in (source, self.locations.of(entry)):
            mark = read_mark(self.files_of(location), self.path(location))
            if mark is not None and mark.is_of(identifier) and mark.source == source:
                return mark
        return None

    def uri(self, path: str) -> str:
        """Return a location for other clients of the metastore: absolute, and with its scheme as given.

        Many Java metastores know an object store by `s3a` only.
        """
        location = self.path(path)
        if local_path(location) is not None:
            return f"file:{location}"
        return f"{path.partition(':')[0].lower()}:{location.partition(':')[2]}"

    def path(self, location: str) -> str:
        """Return the path of a location for interbed's FileIO."""
        return normalize_path(location)

    def files_of(self, location: str) -> FileIO:
        """Return the file system of a location: that of the warehouse, or another one by the same options.

        Raises as file_io_for.
        """
        if same_file_system(self.path(location), self.warehouse):
            return self.file_io
        return self._open_files(location, self.options.raw)[0]

    def link_to(self, directory: str) -> str | None:
        """Return the symbolic link by which the directory of a table is reached; None without one.

        Links in the path of the warehouse itself do not count. Links are looked for below it, and at the location of
        the database.
        """
        database = directory.rstrip("/").rpartition("/")[0]
        file_io = self.files_of(directory)
        for path in (directory, database):
            if path and path != self.warehouse and is_link(file_io, path):
                return path
        return link_above(file_io, directory, self.warehouse)

    def _environment(self, identifier: Identifier, entry: Any, schema: TableSchema) -> StoreEnvironment:
        pointer = (entry.parameters or {}).get(CURRENT_SNAPSHOT, "")
        known = int(pointer) if pointer.isdigit() else None
        return StoreEnvironment(
            publisher=lambda file_io, paths: HivePublisher(
                self.client,
                identifier,
                file_io,
                paths,
                self.lock,
                schema=schema,
                locations=self.locations,
                sync_properties=self.options.sync_all_properties,
            ),
            known_latest=lambda: known,
        )

    def _warehouse_of_the_server(self) -> str:
        """Return the location of the default database, which is the root of every metastore's warehouse."""
        location = self.locations.of_database(self.client.get_database(DEFAULT_DATABASE))
        if not location:
            raise InvalidOptionError(f"The metastore {self.client.uri} names no warehouse; set the option 'warehouse'.")
        return location


_log = logging.getLogger(__name__)


def _stays(old: Identifier, new: Identifier, location: str) -> NotSupportedError:
    return NotSupportedError(
        f"The files of '{old}' stay in {location} when it is renamed, because its store can't move the directory in "
        f"one step, and would go with the database '{old.database}'. Make '{new}' of its rows (create_table_as) and "
        "drop it."
    )


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
            file_io = self._entries.files_of(before)
            if is_external(found):
                self._rename_entry(old, new, found)
                return
            if not same_file_system(self._entries.path(before), self._entries.path(wanted)):
                raise _stays(old, new, before)
            if self._entries.locations.in_parameters and file_io.exists(self._entries.path(wanted)):
                self._rename_entry(old, new, found)
                return
            if not file_io.capabilities.atomic_rename:
                self._rename_in_place(old, new, found)
                return
            mark = ChangeMark(change=MarkedChange.RENAME, table=str(new), source=before, target=wanted)
            mark.write(file_io, self._entries.path(before))
            if self._entries.locations.in_parameters:
                self._set_target(found, mark)
            try:
                self._rename_entry(old, new, found)
            except CallStateUnknownError:
                raise
            except (InterbedError, OSError):
                remove_mark(file_io, self._entries.path(before))
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
        mark = read_mark(self._entries.files_of(directory), directory)
        if mark is None or mark.change is not MarkedChange.RENAME or mark.source is None:
            return False
        identifier = parse_table_name(mark.table)
        if self._entries.path(mark.source) != directory or not self._entries.has_table(identifier):
            return False
        with self._entries.hold(identifier):
            return self.finish(identifier, self._entries.table(identifier))

    def _rename_in_place(self, old: Identifier, new: Identifier, found: Any) -> None:
        """Change only the entry, if the directory would be copied file by file; a mark in it names its table."""
        location = self._entries.locations.of(found)
        file_io = self._entries.files_of(location)
        if old.database.lower() != new.database.lower():
            raise _stays(old, new, location)
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
        before, wanted = mark.source or "", mark.target or ""
        locations, file_io, path = self._entries.locations, self._entries.files_of(before), self._entries.path
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
