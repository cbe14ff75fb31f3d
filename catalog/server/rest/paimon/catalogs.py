"""Catalogs of Paimon's REST interface: the metastore of this process, and a directory of tables without one; and their
protocol: what the routes need of a catalog beside the client's interface.

The metastore's is interbed's Hive catalog, with the entries of the metastore.

An entry of a table has a number: it is random, stays with renames, and is not that of a dropped table. The id of the
table is made of it.

A directory of tables is as Java's and interbed's file-system catalogs make it. Names, schemas, commits and deletions
are those of the file-system catalog of interbed's client: a commit creates `snapshot-<id>` exclusively, so that clients
of REST and writers of the file system exclude each other. There are no locks, owners, views, functions or registered
partitions. The id of a table is that of its names and of the time of its first schema, as in Java: a table that is
dropped and recreated, or renamed, has another one.
"""

import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from interbed.catalog.client.api import Catalog
from interbed.catalog.client.errors import TableNotFoundError
from interbed.catalog.client.filesystem import FileSystemCatalog
from interbed.catalog.client.hive.catalog import HiveCatalog
from interbed.catalog.client.hive.client import HiveMetastoreClient
from interbed.catalog.client.hive.format_entries import is_created_as_format_table
from interbed.catalog.client.hive.registration import Locations, is_external, is_ours, is_view, same_location
from interbed.catalog.client.identifier import DB_SUFFIX, DEFAULT_DATABASE, Identifier, TableName
from interbed.catalog.client.options import CatalogOptions
from interbed.catalog.client.partition import Partition, PartitionSpecs, partitions_of
from interbed.catalog.client.table_parts import as_object_table
from interbed.catalog.server.rest.paimon.files import files_of_warehouse, suspending
from interbed.catalog.server.rest.paimon.refusals import ResourceType, invalid, missing, unsupported
from interbed.catalog.server.service.model import PAIMON_KINDS, VIEW_KINDS, TableKind
from interbed.catalog.server.service.tables.tables import TableService
from interbed.storage.base.errors import CorruptFileError, NotSupportedError, is_installed
from interbed.storage.io.api import ConfinedFileIO, FileIO
from interbed.storage.meta.paths import MAIN_BRANCH, TablePaths
from interbed.storage.table.table import Table

_IDS = uuid.UUID("5f0b0c3e-7d5b-5a39-9f0e-4b1f8a2c6d10")
"""Namespace of the ids of objects that have no number."""


def derived_id(*parts: object) -> str:
    """Return an id that the same parts always have."""
    return str(uuid.uuid5(_IDS, "\n".join(map(str, parts))))


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectOrigin:
    """The id of an object, its owner, and the time of its creation in milliseconds since the epoch, 0 if unknown."""

    id: str
    owner: str | None = None
    created_millis: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOrigin(ObjectOrigin):
    """The origin of a table, and its location as clients get it."""

    path: str
    is_external: bool = False


class ServedCatalog(Catalog, ABC):
    """The catalog of some requests."""

    def place_of(self, name: Identifier, path: str) -> tuple[FileIO, str]:
        """Return the file system and the path of files that a table of that name is registered for.

        NotSupportedError for another file system than that of the catalog, InvalidOptionError for a directory that a
        table of that name has not.
        """
        return self._new_location(name, path)

    @abstractmethod
    def names_after(self, database: str, after: str, limit: int | None = None, prefix: str = "") -> list[str]:
        """Return up to `limit` names of a database's tables that come after one and begin with a prefix, sorted.

        DatabaseNotFoundError.
        """
        ...

    @abstractmethod
    def views_after(self, database: str, after: str, limit: int | None = None, prefix: str = "") -> list[str]:
        """Return names of a database's views, as names_after."""
        ...

    @abstractmethod
    def database_origin(self, name: str) -> ObjectOrigin:
        """Return the origin of a database. DatabaseNotFoundError."""
        ...

    @abstractmethod
    def check_droppable(self, database: str, functions: Sequence[str]) -> None:
        """Raise RestError with status 400 for a database with objects that its client may not have seen, by which it
        has to decide whether to drop them all; DatabaseNotFoundError. `functions` are those in it.
        """
        ...

    @abstractmethod
    def is_taken(self, name: Identifier) -> bool:
        """Return whether a table or view has a name, in any format."""
        ...

    @abstractmethod
    def table_id(self, name: Identifier) -> str:
        """Return the id of a table, which a table that is recreated does not have. TableNotFoundError."""
        ...

    @abstractmethod
    def table_origin(self, name: Identifier, table: Table) -> TableOrigin:
        """Return the origin of an opened table or of a branch of it. TableNotFoundError."""
        ...

    @abstractmethod
    def view_origin(self, name: Identifier) -> ObjectOrigin:
        """Return the origin of a view. ViewNotFoundError."""
        ...

    @abstractmethod
    def table_of_id(self, wanted: str) -> TableName | None:
        """Return the table of an id; None without one."""
        ...

    @abstractmethod
    def table_types(self, database: str, names: Sequence[str]) -> Mapping[str, str]:
        """Return the option `type` of those of these tables that exist, `table` by default."""
        ...

    @abstractmethod
    def known_partitions(self, name: TableName, table: Table) -> list[Partition]:
        """Return the partitions of a table. RestError with status 501 where clients look for them in the files."""
        ...

    @abstractmethod
    def partitions_in_metastore(self, name: Identifier) -> list[dict[str, str]]:
        """Return the registered partitions of a table. RestError with status 501 if none are registered."""
        ...

    @abstractmethod
    def unregister_partitions(
        self, identifier: str | Identifier, partitions: PartitionSpecs, *, only_empty: bool = False
    ) -> list[dict[str, str]]:
        """Remove the entries of partitions, those without files with `only_empty`; return those that existed."""
        ...


TYPE = "type"
PLAIN_TYPE = "table"

_ID_BASE = (8 << 76) | (2 << 62)
_NUMBER_END = 1 << 62
_BATCH = 300
_LISTED_KINDS = PAIMON_KINDS | {TableKind.FORMAT, TableKind.OBJECT}


class RegisteredCatalog(HiveCatalog, ServedCatalog):
    """A catalog of a metastore, which lists tables and views by their stored kinds."""

    def __init__(self, name: str, options: CatalogOptions, client: HiveMetastoreClient, tables: TableService) -> None:
        super().__init__(name, options, client, files_of_warehouse(options.warehouse or ""))
        self.instead_of_iceberg = "Use Iceberg's REST catalog for it."
        self._of_metastore = tables
        self._leave_out_unreadable()

    def _leave_out_unreadable(self) -> None:
        """Leave out tables whose files clients could not read: the options of Hive's own do not say their syntax."""
        self.leave_out_format_tables(keep_created=True)

    def names_after(self, database: str, after: str, limit: int | None = None, prefix: str = "") -> list[str]:
        self._entries.database(database)
        return self._of_metastore.names_of_kinds(self.name, database, _LISTED_KINDS, after, limit, prefix)

    def views_after(self, database: str, after: str, limit: int | None = None, prefix: str = "") -> list[str]:
        self._entries.database(database)
        return self._of_metastore.names_of_kinds(self.name, database, VIEW_KINDS, after, limit, prefix)

    def list_views(self, database: str) -> list[str]:
        return self.views_after(database, "")

    def _for_reader(self, identifier: Identifier, entry: Any, table: Table) -> Table:
        # Clients of REST get the policies by an operation of their own, and mounted.py refuses what would show more.
        return table

    def _missing(self, identifier: Identifier, error: TableNotFoundError) -> TableNotFoundError:
        # The files of a table that the caller does not see must not show that it exists.
        is_hidden = self._of_metastore.is_stored(self.name, identifier.database, identifier.table)
        return error if is_hidden else super()._missing(identifier, error)

    def _list_tables(self, database: str) -> list[str]:
        return self.names_after(database, "")

    def database_origin(self, name: str) -> ObjectOrigin:
        entry: Any = self.client.get_database(name)
        created = (entry.createTime or 0) * 1000
        number = derived_id("database", self.name, name, created)
        return ObjectOrigin(id=number, owner=entry.ownerName, created_millis=created)

    def check_droppable(self, database: str, functions: Sequence[str]) -> None:
        if database.lower() == DEFAULT_DATABASE:
            raise invalid(f"The database {DEFAULT_DATABASE!r} of a metastore cannot be dropped.")
        self.get_database(database)
        tables, views, others = 0, [], []
        for entry in self._entries_of(database, self.client.get_all_tables(database)):
            if is_view(entry):
                views.append(entry.tableName)
            elif _is_served(entry):
                tables += 1
            else:
                others.append(entry.tableName)
        if others:
            raise invalid(
                f"The database '{database}' holds tables of other formats, such as '{others[0]}', which are not "
                "dropped by Paimon's REST interface; drop them first."
            )
        if views and not tables:
            raise invalid(f"The database '{database}' holds views, such as '{views[0]}'; drop them first.")
        if functions and not tables:
            raise invalid(f"The database '{database}' holds functions, such as '{functions[0]}'; drop them first.")

    def is_taken(self, name: Identifier) -> bool:
        return self.table_exists_in_metastore(name)

    def table_id(self, name: Identifier) -> str:
        return _table_id(self.client.get_table(name.database, name.table))

    def table_origin(self, name: Identifier, table: Table) -> TableOrigin:
        entry: Any = self.client.get_table(name.database, name.table)
        registered = Locations().of(entry)
        # While a rename is not finished the files are in another place than the entry says.
        is_in_place = same_location(registered, table.location)
        return TableOrigin(
            id=_table_id(entry),
            owner=entry.owner,
            created_millis=(entry.createTime or 0) * 1000,
            path=registered if is_in_place or as_object_table(table) is not None else table.store.told_location,
            is_external=is_external(entry),
        )

    def view_origin(self, name: Identifier) -> ObjectOrigin:
        entry: Any = self.client.get_table(name.database, name.table)
        created = (entry.createTime or 0) * 1000
        return ObjectOrigin(id=derived_id("view", entry.id), owner=entry.owner, created_millis=created)

    def table_of_id(self, wanted: str) -> TableName | None:
        number = _number_of(wanted)
        for database, name in () if number is None else self._of_metastore.numbered(self.name, number):
            for entry in self._entries_of(database, [name]):
                if _is_served(entry) and _table_id(entry) == wanted:
                    return TableName.parse((database, entry.tableName))
        return None

    def table_types(self, database: str, names: Sequence[str]) -> Mapping[str, str]:
        # The metastore has the option of each table as a parameter.
        return {
            entry.tableName: (entry.parameters or {}).get(TYPE, PLAIN_TYPE)
            for entry in self._entries_of(database, names)
        }

    def known_partitions(self, name: TableName, table: Table) -> list[Partition]:
        registered = self.partitions_in_metastore(name.identifier)
        if name.branch is not None:
            # The metastore has the partitions of the table itself alone.
            return partitions_of(table)
        return _with_sizes(table.store.paths, registered, partitions_of(table))

    def partitions_in_metastore(self, name: Identifier) -> list[dict[str, str]]:
        registered = self.registered_partitions(name)
        if registered is None:
            raise unsupported(f"The partitions of '{name}' are in its files: it has no metastore.partitioned-table.")
        return registered

    def _entries_of(self, database: str, names: Sequence[str]) -> Iterator[Any]:
        """Yield the entries of those of these tables and views that exist."""
        for start in range(0, len(names), _BATCH):
            yield from self.client.get_table_objects(database, names[start : start + _BATCH])


def _is_served(entry: Any) -> bool:
    return is_ours(entry) or is_created_as_format_table(entry)


def _table_id(entry: Any) -> str:
    return str(uuid.UUID(int=_ID_BASE | int(entry.id or 0)))


def _number_of(given: str) -> int | None:
    """Return the number of the metastore in the id of a table; None for an id that no table has."""
    try:
        number = uuid.UUID(given).int ^ _ID_BASE
    except ValueError:
        return None
    return number if number < _NUMBER_END else None


def _with_sizes(
    paths: TablePaths, registered: Sequence[Mapping[str, str]], filled: Sequence[Partition]
) -> list[Partition]:
    """Return the registered partitions with the sizes of their files, those without files with zeros.

    Two values with one directory, such as null and the empty text, have one entry.
    """
    by_directory: dict[tuple[str, ...], list[Partition]] = {}
    for each in filled:
        directories = paths.directory_spec(paths.parse_partition_spec(each.spec))
        by_directory.setdefault(tuple(directories.values()), []).append(each)
    found: list[Partition] = []
    for spec in registered:
        found += by_directory.get(tuple(spec.values())) or [
            Partition(spec=spec, record_count=0, file_size_in_bytes=0, file_count=0, last_file_creation_time=0)
        ]
    return found


class RowsCatalog(RegisteredCatalog):
    """A catalog of a metastore as the server itself opens it to read rows: tables of all formats.

    Metadata may name any file, and the server's keys open it. So files outside of a table's directory are refused, but
    those of registered partitions.
    """

    def _leave_out_unreadable(self) -> None:
        if is_installed("pyiceberg"):
            self.instead_of_iceberg = None

    def _confinement(self, entry: Any) -> str | None:
        return str(entry.sd.location)

    def table_for_rows(self, identifier: str | Identifier) -> object:
        """Return a table of any format. Errors as by get_table; NotSupportedError for an object table."""
        found: object = self.get_table(identifier)
        if as_object_table(found) is not None:
            raise NotSupportedError(f"The server reads no rows of the object table '{identifier}': list its files.")
        if isinstance(found, Table):
            store = found.store
            return Table(found.name, replace(store, file_io=ConfinedFileIO(store.file_io, store.location)))
        # By use: few tables are in other formats.
        from interbed.storage.table.format_table.format_table import FormatTable

        if isinstance(found, FormatTable):
            directories = found.directories
            registered = () if directories.register is None else directories.register.partitions()
            places = (directories.location, *(location for _, location, _ in registered))
            directories.file_io = ConfinedFileIO(directories.file_io, *places)
        return found


class WarehouseCatalog(FileSystemCatalog, ServedCatalog):
    """The tables in a directory, under a name of the server's settings. Safe for many threads."""

    def __init__(self, name: str, location: str, options: Mapping[str, str] | None = None) -> None:
        super().__init__(name, CatalogOptions({**(options or {}), "warehouse": location}))
        self._file_io, self._warehouse = suspending(self._file_io, self._warehouse)
        self.location = location.rstrip("/")

    def names_after(self, database: str, after: str, limit: int | None = None, prefix: str = "") -> list[str]:
        return _after(self.list_tables(database), after, limit, prefix)

    def views_after(self, database: str, after: str, limit: int | None = None, prefix: str = "") -> list[str]:
        return _after(self.list_views(database), after, limit, prefix)

    def database_origin(self, name: str) -> ObjectOrigin:
        self.get_database(name)
        return ObjectOrigin(id=derived_id("database", self.name, name))

    def check_droppable(self, database: str, functions: Sequence[str]) -> None:
        self.get_database(database)

    def is_taken(self, name: Identifier) -> bool:
        return self.table_exists(name)

    def table_id(self, name: Identifier) -> str:
        return self._id_of(name, self._load_table(name))

    def table_origin(self, name: Identifier, table: Table) -> TableOrigin:
        is_whole = as_object_table(table) is not None or table.store.paths.branch == MAIN_BRANCH
        whole = table if is_whole else self._load_table(name)
        return TableOrigin(
            id=self._id_of(name, whole),
            created_millis=_created_millis(whole),
            path=f"{self.location}/{name.database}{DB_SUFFIX}/{name.table}",
        )

    def view_origin(self, name: Identifier) -> ObjectOrigin:
        raise missing(ResourceType.VIEW, name.table, f"View {name} does not exist.")

    def table_of_id(self, wanted: str) -> TableName | None:
        for database in self.list_databases():
            for table in self.list_tables(database):
                name = Identifier.parse((database, table))
                try:
                    if self.table_id(name) == wanted:
                        return TableName.parse((database, table))
                except TableNotFoundError:
                    # It was dropped since it was listed.
                    continue
        return None

    def table_types(self, database: str, names: Sequence[str]) -> Mapping[str, str]:
        found = {}
        for name in names:
            try:
                outline = self.table_outline(Identifier.parse((database, name)))
            except TableNotFoundError:
                continue
            found[name] = outline.options.get(TYPE, PLAIN_TYPE)
        return found

    def known_partitions(self, name: TableName, table: Table) -> list[Partition]:
        return [] if as_object_table(table) is not None else partitions_of(table)

    def partitions_in_metastore(self, name: Identifier) -> list[dict[str, str]]:
        raise unsupported(
            f"The partitions of '{name}' are those of its files: the warehouse '{self.name}' has no metastore, in "
            "which partitions are registered, removed or marked."
        )

    def unregister_partitions(
        self, identifier: str | Identifier, partitions: PartitionSpecs, *, only_empty: bool = False
    ) -> list[dict[str, str]]:
        return []

    def _id_of(self, name: Identifier, table: Table) -> str:
        return derived_id("table", self.name, name.database, name.table, _created_millis(table))


def _created_millis(table: Table) -> int:
    """Return the time of the first schema of a table. TableNotFoundError if the table is being dropped."""
    if as_object_table(table) is not None:
        # It has one schema.
        return table.schema.time_millis
    try:
        return table.store.schemas.schema(0).time_millis
    except CorruptFileError as error:
        raise TableNotFoundError(f"There is no table '{table.name}', or it is being dropped: {error}") from error


def _after(names: Sequence[str], after: str, limit: int | None, prefix: str) -> list[str]:
    return sorted(name for name in names if name > after and name.startswith(prefix))[:limit]
