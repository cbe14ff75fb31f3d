"""The Catalog: databases and tables by name, for all kinds of catalogs.

Every implementation runs the same suite of behaviours (tests/catalog/test_catalog_behaviors.py). The methods have
pypaimon's names and arguments, so that code written for pypaimon runs on interbed.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Self, cast

from interbed.catalog.client.errors import (
    UNREADABLE,
    DatabaseExistsError,
    DatabaseNotFoundError,
    TableExistsError,
    TableNotFoundError,
    ViewNotFoundError,
)
from interbed.catalog.client.functions import CatalogFunctions
from interbed.catalog.client.grants import CatalogGrants
from interbed.catalog.client.identifier import SYSTEM_DATABASE, Identifier, TableName, check_not_system_database
from interbed.catalog.client.identifier import parse_table_name as parse_table_name
from interbed.catalog.client.options import UNNAMED, CatalogOptions
from interbed.catalog.client.recovery import CatalogDrops
from interbed.catalog.client.staging import StagedTables, TableFill, given_schema
from interbed.catalog.client.table_parts import TableParts
from interbed.storage.base.errors import NotSupportedError, plain_errors
from interbed.storage.io.api import FileIO
from interbed.storage.meta.options.format import is_format_table
from interbed.storage.meta.schema.table_schema import Schema, TableSchema
from interbed.storage.table.table import Table

if TYPE_CHECKING:
    import pyarrow as pa

    from interbed.catalog.client.recovery import RepairReport
    from interbed.iceberg.table import IcebergTable
    from interbed.storage.base.incoming import IncomingRows
    from interbed.storage.meta.schema.change import SchemaChange
    from interbed.storage.meta.schema.manager import SchemaOutline
    from interbed.storage.table.row_views import ReadOptimizedTable, RowTrackingTable
    from interbed.storage.views.changes import ChangeView
    from interbed.storage.views.guarded_changes import GuardedChangeView
    from interbed.storage.views.system.table import SystemTable


@dataclass(frozen=True, slots=True)
class ViewColumn:
    """A column of a view: its name, its type by Hive's name (`array<int>`), and its comment."""

    name: str
    type: str
    comment: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A view: a query in Spark SQL, its columns, its comment and options."""

    query: str
    columns: tuple[ViewColumn, ...]
    comment: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)


@plain_errors
@dataclass(frozen=True, slots=True, kw_only=True)
class Database:
    """A database: the default location of its tables, and its properties."""

    name: str
    location: str
    comment: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


class Views(ABC):
    """The part of a catalog that has views; this base class has none, as Paimon's file-system catalog."""

    name: str

    @property
    @abstractmethod
    def described(self) -> str:
        """The name of the catalog in messages."""
        ...

    @abstractmethod
    def get_database(self, name: str) -> object: ...

    def list_views(self, database: str) -> list[str]:
        """Return the names of the views of the database, sorted; raise DatabaseNotFoundError."""
        self.get_database(database)
        return []

    def get_view(self, identifier: "str | Identifier") -> View:
        """Return the view of that name; raise ViewNotFoundError."""
        raise ViewNotFoundError(f"There is no view '{parse_table_name(identifier)}' in {self.described}.")

    def create_view(
        self,
        identifier: "str | Identifier",
        view: View,
        ignore_if_exists: bool = False,
        *,
        replace: bool = False,
    ) -> None:
        """Create a view; with `replace` it replaces the view of that name, in one step.

        Raises TableExistsError if a table or a view has the name, DatabaseNotFoundError, and NotSupportedError in a
        catalog without views.
        """
        raise self._no_views()

    def drop_view(self, identifier: "str | Identifier", ignore_if_not_exists: bool = False) -> None:
        """Drop a view; raises ViewNotFoundError."""
        name = parse_table_name(identifier)
        if not ignore_if_not_exists:
            self.get_view(name)

    def rename_view(self, source: "str | Identifier", target: "str | Identifier") -> None:
        """Rename a view; raises ViewNotFoundError, TableExistsError."""
        self.get_view(source)

    def _no_views(self) -> NotSupportedError:
        return NotSupportedError(
            "A file-system catalog has no views; use one with 'metastore' = 'hive', or a temporary view."
        )


class Catalog(StagedTables, Views, CatalogFunctions, CatalogDrops, CatalogGrants, TableParts, ABC):
    """Databases and tables by name. Safe to share between threads; close it after use, or use it in a `with` block."""

    def __init__(self, name: str, options: CatalogOptions) -> None:
        self.name = name
        self.options = options
        self.instead_of_iceberg: str | None = None
        """The hint in the error for Iceberg tables, if the caller can't use them; None to open them."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self.warehouse!r})"

    @property
    def described(self) -> str:
        """The name of the catalog in messages: its name, or its warehouse if it was opened without a name."""
        return f"the warehouse {self.warehouse}" if self.name == UNNAMED else f"the catalog '{self.name}'"

    # -- implemented by subclasses --------------------------------------------------------------------------------

    @property
    @abstractmethod
    def warehouse(self) -> str:
        """The root directory of databases, as a path or URI."""

    @property
    @abstractmethod
    def file_io(self) -> FileIO:
        """The file system of the warehouse."""

    @property
    def is_case_sensitive(self) -> bool:
        """Whether names that differ only by case are different names; they are equal in a Hive metastore."""
        return True

    @abstractmethod
    def list_databases(self) -> list[str]:
        """Return the names of all databases, sorted."""

    @abstractmethod
    def _get_database(self, name: str) -> Database: ...

    @abstractmethod
    def _create_database(self, name: str, properties: Mapping[str, str]) -> None: ...

    @abstractmethod
    def _drop_database(self, name: str, *, cascade: bool) -> None: ...

    @abstractmethod
    def _alter_database(
        self, name: str, set_properties: Mapping[str, str], remove_properties: Sequence[str]
    ) -> None: ...

    @abstractmethod
    def _list_tables(self, database: str) -> list[str]: ...

    @abstractmethod
    def _load_table(self, identifier: Identifier) -> Table: ...

    @abstractmethod
    def _location_of(self, identifier: Identifier) -> str: ...

    @abstractmethod
    def _create_table(
        self, identifier: Identifier, schema: TableSchema, path: str | None, fill: TableFill | None = None
    ) -> None: ...

    def _create_format_table(self, identifier: Identifier, schema: TableSchema, path: str | None) -> None:
        """Create a format table, external with a path; raise NotSupportedError in a catalog that keeps none."""
        raise NotSupportedError(
            f"Option 'type' = 'format-table': the table '{identifier}' can't be created in a file-system catalog, "
            "which has no place for its columns; use a catalog with 'metastore' = 'hive' or 'rest'."
        )

    @abstractmethod
    def _replace_table(self, identifier: Identifier, schema: TableSchema, fill: TableFill) -> None: ...

    @abstractmethod
    def _new_location(self, identifier: Identifier, path: str | None) -> tuple[FileIO, str]: ...

    @abstractmethod
    def drop_table(
        self, identifier: "str | Identifier", ignore_if_not_exists: bool = False, *, purge: bool = False
    ) -> None:
        """Drop a table and, unless it is external, its files.

        A metastore of interbed's keeps the files for a time, as a file-system catalog with `undrop-seconds` does, and
        `undrop_table` puts the table back; `purge` deletes them at once. Raises TableNotFoundError, NotSupportedError
        if the catalog takes no `purge`.
        """

    @abstractmethod
    def rename_table(
        self,
        source: "str | Identifier",
        target: "str | Identifier",
        ignore_if_not_exists: bool = False,
    ) -> None:
        """Rename a table, also into another database; raises TableNotFoundError, TableExistsError."""

    @abstractmethod
    def alter_table(
        self,
        identifier: "str | Identifier",
        changes: "Sequence[SchemaChange] | SchemaChange",
        ignore_if_not_exists: bool = False,
    ) -> None:
        """Make a new version of the table's schema; all changes or none. Raises TableNotFoundError."""

    # -- repair ---------------------------------------------------------------------------------------------------

    def repair_catalog(self, *, dry_run: bool = False) -> "RepairReport":
        """Register the tables in the warehouse that are not registered, and update those that are; `dry_run` only
        reports.

        Raises NotSupportedError if the files are the catalog.
        """
        raise self._no_repair()

    def repair_database(self, name: str, *, dry_run: bool = False) -> "RepairReport":
        """Repair one database, which need not be registered yet, as `repair_catalog` does."""
        raise self._no_repair()

    def repair_table(self, identifier: "str | Identifier", *, dry_run: bool = False) -> "RepairReport":
        """Repair one table, as `repair_catalog` does; raises TableNotFoundError when it has no files."""
        raise self._no_repair()

    def _no_table(self, identifier: Identifier) -> TableNotFoundError:
        return TableNotFoundError(f"There is no table '{identifier}' in {self.described}.")

    def _no_repair(self) -> NotSupportedError:
        return NotSupportedError("In a file-system catalog the files are the catalog; there is nothing to repair.")

    def close(self) -> None:
        """Close connections; the catalog must not be used afterwards."""

    # -- derived methods -------------------------------------------------------------------------------------------

    def get_database(self, name: str) -> Database:
        """Return the database of that name; raises DatabaseNotFoundError.

        `sys` has the system tables of the catalog.
        """
        if name == SYSTEM_DATABASE:
            return Database(name=SYSTEM_DATABASE, location=self.warehouse, comment="System tables of the catalog")
        return self._get_database(name)

    def create_database(
        self, name: str, ignore_if_exists: bool = False, properties: Mapping[str, str] | None = None
    ) -> None:
        """Create a database; raises DatabaseExistsError unless that is to be ignored.

        InvalidOptionError for secret properties that open an object store.
        """
        check_not_system_database(name)
        _check_properties(properties or {})
        if ignore_if_exists and self.database_exists(name):
            return
        try:
            self._create_database(name, properties or {})
        except DatabaseExistsError:
            if not ignore_if_exists:
                raise

    def drop_database(self, name: str, ignore_if_not_exists: bool = False, cascade: bool = False) -> None:
        """Drop a database, with its tables if `cascade`; raises DatabaseNotFoundError or DatabaseNotEmptyError."""
        check_not_system_database(name)
        try:
            self._drop_database(name, cascade=cascade)
        except DatabaseNotFoundError:
            if not ignore_if_not_exists:
                raise

    def alter_database(
        self, name: str, set_properties: Mapping[str, str] | None = None, remove_properties: Sequence[str] = ()
    ) -> None:
        """Set and remove properties of a database; raises DatabaseNotFoundError, and InvalidOptionError as
        create_database.
        """
        check_not_system_database(name)
        _check_properties(set_properties or {})
        self._alter_database(name, set_properties or {}, remove_properties)

    def list_tables(self, database: str) -> list[str]:
        """Return the names of the tables of the database, sorted; raises DatabaseNotFoundError."""
        return self._system_tables() if database == SYSTEM_DATABASE else self._list_tables(database)

    def list_iceberg_tables(self, database: str) -> list[str]:
        """Return the names of the Iceberg tables of the database, sorted: `get_table` opens them for reading.

        Only a metastore has Iceberg tables. Raises DatabaseNotFoundError.
        """
        self.get_database(database)
        return []

    def list_format_tables(self, database: str) -> list[str]:
        """Return the names of the format tables of the database, sorted, which `list_tables` has, too.

        A file-system catalog has none. Raises DatabaseNotFoundError.
        """
        self.get_database(database)
        return []

    def leave_out_format_tables(self, *, keep_created: bool = False) -> None:
        """Treat format tables as tables of another format from now on, for callers that can't use them.

        With `keep_created` those that a catalog of Paimon's or interbed's created are still tables of this one.
        """

    def get_iceberg_table(self, identifier: "str | Identifier") -> "IcebergTable | None":
        """Return the table if it is an Iceberg table, also if `get_table` refuses those; None for all others.

        Raises TableNotFoundError, MissingExtraError without `interbed[iceberg]`, and as load_iceberg_table does.
        """
        TableName.parse(identifier)
        return None

    def _system_tables(self) -> list[str]:
        from interbed.catalog.client.global_tables import global_tables

        return global_tables(self)

    def database_exists(self, name: str) -> bool:
        """Return whether there is a database of that name."""
        try:
            self.get_database(name)
        except DatabaseNotFoundError:
            return False
        return True

    def get_table(self, identifier: "str | Identifier") -> Table:
        """Return the table of that name, at its latest schema; raises TableNotFoundError.

        `db.t$branch_b` is the branch `b` of the table `db.t` (BranchNotFoundError). `db.t$audit_log` and `db.t$binlog`
        are its changes, a ChangeView. `db.t$snapshots`, `$files` and so on are its system tables, a SystemTable, also
        of a branch: `db.t$branch_b$files`. `db.t$ro` has only the fully compacted files. `sys.tables` and the other
        tables of that database are about the catalog, each a GlobalTable.

        Raises InvalidInputError naming the system tables for an unknown one.
        """
        name = TableName.parse(identifier)
        if name.identifier.database == SYSTEM_DATABASE:
            from interbed.catalog.client.global_tables import GlobalTable

            return cast(Table, GlobalTable.of(self, name.of_table.partition(".")[2]))
        table = self._load_table(name.identifier)
        if name.branch is not None:
            table = table.branch(name.branch)
        if name.system is None:
            return table
        # Callers that name a system table use only methods that it shares with a table.
        return cast(Table, system_table(table, name.system))

    def table_exists(self, identifier: "str | Identifier") -> bool:
        """Return whether there is a table of that name."""
        name = TableName.parse(identifier)
        if name.identifier.database == SYSTEM_DATABASE:
            return name.of_table.partition(".")[2].lower() in self._system_tables()
        plain = parse_table_name(identifier)
        try:
            self._load_table(plain)
        except (TableNotFoundError, DatabaseNotFoundError):
            return False
        except UNREADABLE:
            # The table exists, and can be renamed and dropped.
            return True
        return True

    def table_outline(self, identifier: "str | Identifier") -> "SchemaOutline":
        """Return the readable parts of a table's schema, also of a table that this version can't read.

        Raises TableNotFoundError, StorageAccessError.
        """
        from interbed.storage.meta.schema.manager import read_outline

        name = parse_table_name(identifier)
        if not self.table_exists(name):
            raise self._no_table(name)
        return read_outline(*self._new_location(name, self._location_of(name)))

    def create_table(
        self,
        identifier: "str | Identifier",
        schema: "Schema | pa.Schema | IncomingRows",
        ignore_if_exists: bool = False,
        *,
        primary_keys: Sequence[str] | None = None,
        partition_keys: Sequence[str] | None = None,
        options: Mapping[str, object] | None = None,
        comment: str | None = None,
    ) -> Table:
        """Create a table and return it.

        `schema` is a Schema, which has keys and options itself, or an Arrow schema, with keys and options as arguments,
        or an object with such a schema: rows in any form that Table.append takes, whose columns are used and which are
        not written. Raises TableExistsError unless that is to be ignored, DatabaseNotFoundError, and InvalidInputError
        for an impossible schema.
        """
        name = parse_table_name(identifier)
        given = given_schema(schema, primary_keys, partition_keys, options, comment)
        table_schema, path = self._table_schema(name, given)
        self.get_database(name.database)
        create = self._create_format_table if is_format_table(table_schema.options) else self._create_table
        try:
            create(name, table_schema, path)
        except TableExistsError:
            if not ignore_if_exists:
                raise
        return self._load_table(name)

    def default_table_location(self, identifier: Identifier) -> str:
        """Return the default location of a table of that name."""
        return f"{self.get_database(identifier.database).location.rstrip('/')}/{identifier.table}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _check_properties(of_database: Mapping[str, str]) -> None:
    from interbed.storage.meta.options.known.check import check_public

    check_public(of_database, "the properties of the database")


def system_table(
    table: Table, kind: str
) -> "ChangeView | GuardedChangeView | SystemTable | ReadOptimizedTable | RowTrackingTable":
    """Return a system table of a table; raise InvalidInputError naming those that exist."""
    from interbed.storage.table.guarded_table import GuardedTable
    from interbed.storage.table.row_views import READ_OPTIMIZED, ROW_TRACKING, ReadOptimizedTable, RowTrackingTable
    from interbed.storage.views.changes import AUDIT_LOG, BINLOG, ChangeView
    from interbed.storage.views.system.table import SystemTable

    opened: object = table
    if isinstance(opened, GuardedTable):
        return opened.change_view(kind)
    refused = getattr(table, "refused", None)
    if refused is not None:
        # The server reads its rows.
        raise refused(f"${kind}")
    if kind == READ_OPTIMIZED:
        return ReadOptimizedTable.of(table)
    if kind == ROW_TRACKING:
        return RowTrackingTable.of(table)
    if kind in (AUDIT_LOG, BINLOG):
        return ChangeView.of(table.name, table.store, kind)
    return SystemTable.of(table.name, table.store, kind)
