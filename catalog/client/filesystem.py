"""A catalog whose databases and tables are directories: `<warehouse>/<database>.db/<table>/schema/schema-0`.

Layout and rules are those of Paimon's file-system catalog: a table exists when it has a schema file. The properties of
databases, which Paimon drops, are kept beside the tables (files/database_directory.py).
"""

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from interbed.catalog.client.api import Catalog, Database, parse_table_name
from interbed.catalog.client.errors import (
    CatalogError,
    DatabaseExistsError,
    DatabaseNotEmptyError,
    DatabaseNotFoundError,
    TableExistsError,
    TableNotFoundError,
)
from interbed.catalog.client.identifier import (
    DB_SUFFIX,
    Identifier,
    branch_to_alter,
    check_database_name,
    check_not_system_database,
    check_table_name,
)
from interbed.catalog.client.options import CatalogOptions, LockMode
from interbed.catalog.client.staging import StagedTable, TableFill, publish_replacement
from interbed.storage.base.clock import Clock, now_millis
from interbed.storage.base.errors import (
    CommitStateUnknownError,
    CorruptFileError,
    InterbedError,
    InvalidInputError,
    InvalidOptionError,
    NotSupportedError,
    StorageAccessError,
)
from interbed.storage.base.path_name import is_path_name
from interbed.storage.io.api import FileIO
from interbed.storage.io.parallel import is_link, link_above
from interbed.storage.io.resolve import check_exclusive, file_io_for, normalize_path
from interbed.storage.meta.options.format import is_object_table
from interbed.storage.meta.schema.manager import SchemaManager
from interbed.storage.meta.schema.table_schema import TableSchema
from interbed.storage.table.opening import find_store, open_store, schema_manager
from interbed.storage.table.table import Table, opened_table

if TYPE_CHECKING:
    from interbed.catalog.client.files.dropped_directories import DroppedDirectories
    from interbed.catalog.client.recovery import DroppedEntry
    from interbed.storage.meta.schema.change import SchemaChange


_log = logging.getLogger(__name__)

_CREATE_TRIES = 5


class FileSystemCatalog(Catalog):
    """Databases and tables as directories under the warehouse."""

    def __init__(self, name: str, options: CatalogOptions, *, clock: Clock = now_millis) -> None:
        super().__init__(name, options)
        if not options.warehouse:
            raise InvalidOptionError("A file-system catalog needs the option 'warehouse', its root directory.")
        if options.lock_mode is LockMode.TRUE:
            raise InvalidOptionError(
                "A file-system catalog can't keep locks; leave 'lock.enabled' out or set 'metastore' = 'hive'."
            )
        # Readers make no directory; the first database makes the warehouse.
        self._file_io, self._warehouse = file_io_for(options.warehouse, options.raw)
        self._keep_seconds = options.undrop_seconds
        self._clock = clock

    @property
    def warehouse(self) -> str:
        return self._warehouse

    @property
    def file_io(self) -> FileIO:
        return self._file_io

    # -- databases -------------------------------------------------------------------------------------------------

    def list_databases(self) -> list[str]:
        entries = self._file_io.list(self._warehouse)
        names = [e.name.removesuffix(DB_SUFFIX) for e in entries if e.is_directory and e.name.endswith(DB_SUFFIX)]
        # A directory with an invalid name is no database.
        return sorted(filter(is_path_name, names))

    def _get_database(self, name: str) -> Database:
        from interbed.catalog.client.files.database_directory import COMMENT, read_properties

        path = self._database_path(name)
        if not self._file_io.exists(path):
            raise DatabaseNotFoundError(f"There is no database '{name}' in {self.described}.")
        properties = read_properties(self._file_io, path)
        comment = properties.pop(COMMENT, None)
        return Database(name=name, location=path, comment=comment, properties=properties)

    def _create_database(self, name: str, properties: Mapping[str, str]) -> None:
        from interbed.catalog.client.files.database_directory import changed_properties, create_properties

        path = self._database_path(name)
        if "location" in properties:
            raise InvalidOptionError("A file-system catalog decides where a database lives; leave 'location' out.")
        exists = DatabaseExistsError(f"There is a database '{name}' in {self.described} already.")
        if self._file_io.exists(path):
            raise exists
        given = changed_properties({}, properties, ())
        with self._named_races(name):
            self._file_io.make_directories(path)
            self._file_io.sync([path])
            # Of concurrent creations with properties one wins; creations without properties all succeed.
            if given and not create_properties(self._file_io, path, given):
                raise exists

    def _drop_database(self, name: str, *, cascade: bool) -> None:
        from interbed.catalog.client.files.database_directory import drop_empty_directory

        # If it is unknown whether a directory is a table, nothing is deleted.
        tables = self._tables_in(self.get_database(name).location)
        with self._named_races(name):
            if cascade:
                self._drop_with_tables(name, tables)
                return
            path = self._database_path(name)
            others = [] if tables else drop_empty_directory(self._file_io, path)
            # A table may have been created meanwhile.
            tables = tables or [table for table in others if self._has_schema(f"{path}/{table}")]
        if tables:
            raise DatabaseNotEmptyError(
                f"The database '{name}' still holds {len(tables)} tables, such as '{tables[0]}'; drop it with cascade."
            )
        if others:
            raise DatabaseNotEmptyError(
                f"The database '{name}' holds no table, but there is '{others[0]}' in {path}, such as a table that is "
                "being made, or the remains of one; drop it with cascade to delete the files of tables. Foreign files "
                "stay until you move them away."
            )

    def _drop_with_tables(self, name: str, tables: Sequence[str]) -> None:
        from interbed.catalog.client.files.database_directory import drop_with_tables
        from interbed.catalog.client.files.dropped_directories import (
            delete_files_outside,
            delete_log,
            files_outside,
            table_with_log,
        )

        path = self._database_path(name)
        if self._dropped.keeps and not is_link(self._file_io, path) and self._kept_with_tables(name, tables):
            return
        own = [f"{path}/{table}" for table in tables if not is_link(self._file_io, path)]
        outside = [files_outside(self._file_io, location) for location in own]
        logged = [table_with_log(self._file_io, location) for location in own]
        drop_with_tables(self._file_io, path, tables)
        for files in outside:
            delete_files_outside(self._file_io, files)
        for table in logged:
            delete_log(table)

    def _kept_with_tables(self, name: str, tables: Sequence[str]) -> bool:
        """Move the directory of a database aside with its tables, but those that cannot be kept, which are deleted.

        If foreign files must keep their place, the tables move one by one; return False, for the rest to be deleted.
        """
        from interbed.catalog.client.files.database_directory import has_foreign_files
        from interbed.catalog.client.files.dropped_directories import is_whole

        path = self._database_path(name)
        for table in tables:
            if not is_whole(self._file_io, f"{path}/{table}"):
                self._drop_files(name, table, purge=True)
        if not has_foreign_files(self._file_io, path):
            self._dropped.keep(path, database=name)
            self._dropped.expire()
            return True
        for table in tables:
            if self._has_schema(f"{path}/{table}"):
                self._drop_files(name, table)
        return False

    def _alter_database(self, name: str, set_properties: Mapping[str, str], remove_properties: Sequence[str]) -> None:
        from interbed.catalog.client.files.database_directory import (
            changed_properties,
            read_properties,
            write_properties,
        )

        location = self.get_database(name).location
        before = read_properties(self._file_io, location)
        with self._named_races(name):
            write_properties(self._file_io, location, changed_properties(before, set_properties, remove_properties))

    @contextmanager
    def _named_races(self, database: str) -> Iterator[None]:
        """Raise CatalogError if a directory is missing because another process drops the database or a table."""
        try:
            yield
        except FileNotFoundError as error:
            self.get_database(database)
            raise CatalogError(
                f"A directory of the database '{database}' was deleted meanwhile, because another process drops "
                f"the database or a table of it; try again: {error.filename or error}"
            ) from error

    # -- tables ----------------------------------------------------------------------------------------------------

    def _list_tables(self, database: str) -> list[str]:
        path = self.get_database(database).location
        return sorted(
            e.name
            for e in self._file_io.list(path)
            if e.is_directory and is_path_name(e.name) and self._is_listed(e.path)
        )

    def _is_listed(self, location: str) -> bool:
        """Return whether a directory is a table, or can't be read, which must not hide the other tables."""
        try:
            return self._has_schema(location)
        except StorageAccessError as error:
            database, _, name = location.rpartition("/")
            # Raises if the whole file system can't be reached.
            self._file_io.list(database)
            _log.warning("Listed as a table, because it can't be checked whether it is one: %s", error)
            return not name.startswith(".")

    def _tables_in(self, path: str) -> list[str]:
        """Return the tables in the directory of a database; raise StorageAccessError for a directory that can't be
        read.
        """
        return sorted(e.name for e in self._file_io.list(path) if e.is_directory and self._has_schema(e.path))

    def _load_table(self, identifier: Identifier) -> Table:
        location = self._table_path(identifier)
        try:
            store = find_store(self._respelled(location), self._file_io)
        except CorruptFileError:
            # Its first schema may have been deleted between being listed and being read.
            if self._has_schema(location):
                raise
            store = None
        if store is not None and store.schema.id > 0 and not (store.schemas.is_known(0) or self._has_schema(location)):
            # It is being dropped.
            store = None
        if store is None:
            self.get_database(identifier.database)
            raise self._no_table(identifier)
        return opened_table(str(identifier), store)

    def _location_of(self, identifier: Identifier) -> str:
        return self._table_path(identifier)

    def _create_table(
        self, identifier: Identifier, schema: TableSchema, path: str | None, fill: TableFill | None = None
    ) -> None:
        with self._named_races(identifier.database):
            self._make_table(identifier, schema, path, fill)

    def _make_table(
        self, identifier: Identifier, schema: TableSchema, path: str | None, fill: TableFill | None = None
    ) -> None:
        from interbed.catalog.client.files.table_files import check_no_remains, finish_drop, withdraw_schema

        _, location = self._new_location(identifier, path)
        if location != self._table_path(identifier):
            self._create_staged(identifier, schema, location, fill)
            return
        check_exclusive(self._file_io, location)
        schemas = schema_manager(location, self._file_io)
        # Usually the directory is missing, which one listing shows.
        if self._file_io.list(location):
            finish_drop(self._file_io, location)
            if not (schemas.ids() or is_object_table(schema.options)):
                check_no_remains(self._file_io, location)
        is_made = self._is_first_schema_made(identifier, schemas, schema)
        exists = TableExistsError(f"There is a table '{identifier}' in {self.described} already.")
        if not is_made and (fill is None or schemas.is_gone(schema)):
            raise exists
        if fill is None:
            return
        store = open_store(self._respelled(location), self._file_io, schema=schema)
        table = Table(str(identifier), store)
        if not is_made and table.latest_snapshot() is not None and not fill.is_in(table):
            raise exists
        try:
            fill(table)
        except CommitStateUnknownError:
            raise
        except (InterbedError, OSError):
            withdraw_schema(self._file_io, location, store.paths.schema(schema.id))
            raise

    def _is_first_schema_made(self, identifier: Identifier, schemas: SchemaManager, schema: TableSchema) -> bool:
        """Create the schema file; return False when it exists."""
        for _ in range(_CREATE_TRIES - 1):
            try:
                return schemas.commit(schema)
            except FileNotFoundError:
                # A drop of the database deletes empty directories.
                self.get_database(identifier.database)
        return schemas.commit(schema)

    def _create_staged(self, identifier: Identifier, schema: TableSchema, staged: str, fill: TableFill | None) -> None:
        from interbed.catalog.client.files.database_directory import move_into_place

        location = self._table_path(identifier)
        there = self._has_schema(location)
        # If an unknown creation is repeated, the existing table may be this one, which has moved already. Another table
        # with the same columns may have been made in the same millisecond.
        if there and (self._file_io.exists(staged) or schema_manager(location, self._file_io).is_gone(schema)):
            raise TableExistsError(f"There is a table '{identifier}' in {self.described} already.")
        store = open_store(self._respelled(location if there else staged), self._file_io, schema=schema)
        if not there:
            store.schemas.commit(schema)
        if fill is not None:
            fill(Table(str(identifier), store))
        if not there:
            move_into_place(self._file_io, staged, location, str(identifier))

    def discard_staged(self, staged: StagedTable) -> None:
        from interbed.catalog.client.files.database_directory import discard, is_staging_directory

        if is_staging_directory(staged.table.location, self._database_path(staged.identifier.database)):
            discard(self._file_io, staged.table.location)
        else:
            super().discard_staged(staged)

    def _staging_path(self, identifier: Identifier, path: str | None) -> str | None:
        from interbed.catalog.client.files.database_directory import new_staging_directory

        self._new_location(identifier, path)
        if not self._file_io.capabilities.exclusive_rename:
            return path
        with self._named_races(identifier.database):
            return new_staging_directory(self._file_io, self._database_path(identifier.database))

    def _replace_table(self, identifier: Identifier, schema: TableSchema, fill: TableFill) -> None:
        publish_replacement(self._load_table(identifier).store, str(identifier), schema, fill)

    def _new_location(self, identifier: Identifier, path: str | None) -> tuple[FileIO, str]:
        from interbed.catalog.client.files.database_directory import is_staging_directory

        location = self._table_path(identifier)
        if path is not None and is_staging_directory(path, self._database_path(identifier.database)):
            return self._file_io, path
        if path is not None and normalize_path(path).rstrip("/") != location:
            raise InvalidOptionError(
                f"A file-system catalog decides where a table lives ('{identifier}' in {location}); leave 'path' out, "
                "or use a Hive catalog, which has external tables."
            )
        return self._file_io, location

    def drop_table(
        self, identifier: "str | Identifier", ignore_if_not_exists: bool = False, *, purge: bool = False
    ) -> None:
        from interbed.catalog.client.files.table_files import finish_drop

        name = parse_table_name(identifier)
        if not self.table_exists(name):
            finish_drop(self._file_io, self._table_path(name))
            if ignore_if_not_exists:
                return
            raise self._no_table(name)
        location = self._table_path(name)
        if (link := link_above(self._file_io, location, self._warehouse)) is not None:
            raise InvalidInputError(
                f"The table '{name}' is not dropped: {link} is a symbolic link, and nothing is deleted through one. "
                f"Remove the link to forget the tables in it, or open {os.path.realpath(link)} in a catalog of its own."
            )
        try:
            if self._drop_files(name.database, name.table, purge=purge):
                return
        except FileNotFoundError:
            if self.table_exists(name):
                raise
        # Another process has dropped or renamed it meanwhile.
        if not ignore_if_not_exists:
            raise self._no_table(name)

    def _drop_files(self, database: str, table: str, *, purge: bool = False) -> bool:
        """Move the files of a table aside, or delete them; return False if another process has done so."""
        from interbed.catalog.client.files.dropped_directories import (
            delete_files_outside,
            delete_log,
            files_outside,
            is_whole,
            table_with_log,
        )
        from interbed.catalog.client.files.table_files import delete_table_files

        location = f"{self._database_path(database)}/{table}"
        if self._dropped.keeps and not purge and is_whole(self._file_io, location):
            is_dropped = self._has_schema(location) and self._dropped.keep(location, database=database, table=table)
            self._dropped.expire()
            return is_dropped
        outside, logged = files_outside(self._file_io, location), table_with_log(self._file_io, location)
        is_dropped = delete_table_files(self._file_io, location)
        if is_dropped:
            delete_files_outside(self._file_io, outside)
            delete_log(logged)
        return is_dropped

    # -- dropped tables --------------------------------------------------------------------------------------------

    @property
    def _dropped(self) -> "DroppedDirectories":
        from interbed.catalog.client.files.dropped_directories import DroppedDirectories

        return DroppedDirectories(self._file_io, self._warehouse, keep_seconds=self._keep_seconds, clock=self._clock)

    def list_dropped(self, database: str | None = None) -> "list[DroppedEntry]":
        within = None if database is None else check_database_name(database)
        return [entry for entry in self._dropped.entries() if within in (None, entry.database)]

    def undrop_table(
        self, identifier: "str | Identifier", *, new_name: str | None = None, drop_id: str | None = None
    ) -> None:
        name = parse_table_name(identifier)
        target = name if new_name is None else Identifier(name.database, check_table_name(new_name))
        entry = self._dropped.find(name.database, name.table, drop_id)
        self.get_database(target.database)
        self._dropped.put_back(entry, self._table_path(target))

    def undrop_database(self, name: str, *, drop_id: str | None = None) -> None:
        check_not_system_database(name)
        dropped = self._dropped
        dropped.put_back(dropped.find(check_database_name(name), None, drop_id), self._database_path(name))

    def purge_dropped(self, name: str | None = None, *, drop_id: str | None = None, only_expired: bool = False) -> int:
        if only_expired:
            return self._dropped.expire(limit=None)
        return self._dropped.purge_all() if name is None else self._dropped.purge_named(name, drop_id)

    def expire_dropped(self, limit: int) -> int:
        return self._dropped.expire(limit)

    def rename_table(
        self, source: "str | Identifier", target: "str | Identifier", ignore_if_not_exists: bool = False
    ) -> None:
        old, new = parse_table_name(source), parse_table_name(target)
        if not self.table_exists(old):
            if ignore_if_not_exists:
                return
            raise self._no_table(old)
        self.get_database(new.database)
        if not self._file_io.capabilities.atomic_rename:
            raise NotSupportedError(
                f"'{old}' is a directory in {self._warehouse}, whose file system can't rename one in one step: others "
                "would see half a table, and a concurrent commit could be lost. A Hive catalog renames the entry and "
                "leaves the files; here, make a new table of its rows (create_table_as) and drop the old one."
            )
        taken = self.table_exists(new)
        # Another process may have dropped or renamed it meanwhile, and may be making the next one.
        is_table = self._has_schema(self._table_path(old))
        if taken or not is_table or not self._file_io.rename(self._table_path(old), self._table_path(new)):
            if not (is_table and self._file_io.exists(self._table_path(old))):
                if ignore_if_not_exists:
                    return
                raise self._no_table(old)
            raise TableExistsError(f"There is a table or directory '{new}' in {self.described} already.")

    def alter_table(
        self,
        identifier: "str | Identifier",
        changes: "Sequence[SchemaChange] | SchemaChange",
        ignore_if_not_exists: bool = False,
    ) -> None:
        branch = branch_to_alter(identifier)
        if branch is not None:
            # A metastore has no branches.
            self.get_table(branch).store.alter(list(changes) if isinstance(changes, Sequence) else [changes])
            return
        name = parse_table_name(identifier)
        try:
            table = self._load_table(name)
        except TableNotFoundError:
            if ignore_if_not_exists:
                return
            raise
        table.store.alter(list(changes) if isinstance(changes, Sequence) else [changes])

    # -- paths -----------------------------------------------------------------------------------------------------

    def _database_path(self, name: str) -> str:
        return f"{self._warehouse}/{check_database_name(name)}{DB_SUFFIX}"

    def _table_path(self, identifier: Identifier) -> str:
        return f"{self._database_path(identifier.database)}/{identifier.table}"

    def _has_schema(self, location: str) -> bool:
        # Schema 0 never expires, so one lookup is enough; only an unfinished table lacks it.
        return self._file_io.exists(f"{location}/schema/schema-0")
