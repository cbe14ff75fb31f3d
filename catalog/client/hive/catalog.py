"""A catalog over a Hive metastore: names and pointers in the metastore, schemas and data in the file system.

Tables are registered exactly as in Paimon's Hive catalog (registration.py). The schema files define columns and
options; the metastore gets a copy for Hive and for people.
"""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from interbed.catalog.client.api import Catalog, Database, View, parse_table_name
from interbed.catalog.client.errors import (
    DatabaseNotFoundError,
    NotAnInterbedTableError,
    TableExistsError,
    TableNotFoundError,
    ViewNotFoundError,
)
from interbed.catalog.client.grants import GrantCalls
from interbed.catalog.client.hive.client import HiveMetastoreClient
from interbed.catalog.client.hive.commit_lock import LockSettings
from interbed.catalog.client.hive.databases import HiveDatabases, HiveViews
from interbed.catalog.client.hive.entries import HiveRenames, MetastoreEntries, unregistered
from interbed.catalog.client.hive.extended_calls import is_bound, rules_of_parameters
from interbed.catalog.client.hive.publisher import MetastorePartitions
from interbed.catalog.client.hive.registration import is_of_iceberg, is_partitioned_in_metastore
from interbed.catalog.client.hive.repair import MetastoreRepair
from interbed.catalog.client.hive.settings import hive_settings
from interbed.catalog.client.hive.tables import HiveTables
from interbed.catalog.client.identifier import Identifier, TableName, branch_to_alter, check_table_name
from interbed.catalog.client.options import CatalogOptions, LockMode
from interbed.catalog.client.partition import PartitionSpecs, PartitionStatistics, partition_specs, partitions_of
from interbed.catalog.client.recovery import DropCalls, RepairReport, ServedDrops
from interbed.catalog.client.staging import StagedTable, TableFill
from interbed.storage.base.errors import InterbedError, InvalidInputError, NotSupportedError
from interbed.storage.io.api import FileIO
from interbed.storage.io.resolve import FileOpener, file_io_for
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.options.format import is_object_table
from interbed.storage.meta.schema.change import SchemaChange
from interbed.storage.meta.schema.table_schema import Schema, TableSchema
from interbed.storage.table.opening import schema_manager
from interbed.storage.table.table import Table, opened_table

if TYPE_CHECKING:
    from interbed.catalog.client.hive.format_tables import HiveFormatTables
    from interbed.iceberg.table import IcebergTable
    from interbed.storage.read.guarded_scan import RowRules
    from interbed.storage.table.guarded_table import GuardedTable


class HiveCatalog(ServedDrops, Catalog):
    """Databases and tables in a Hive metastore, interbed's or a Java one."""

    functions_refusal = (
        "A Hive catalog reads and changes no functions; use the REST interface of interbed's server: 'metastore' = "
        "'rest'."
    )

    def __init__(
        self,
        name: str,
        options: CatalogOptions,
        client: HiveMetastoreClient | None = None,
        files: FileOpener = file_io_for,
    ) -> None:
        """Connect to the metastore of the options, or use a `client` of another one: then no hive-site.xml is read."""
        super().__init__(name, options)
        settings = hive_settings(options, None if client is None else {})
        self.client = client or HiveMetastoreClient(
            settings.uri, timeout_seconds=settings.timeout_seconds, transport=settings.transport
        )
        lock = LockSettings(
            mode=options.lock_mode or LockMode.TRUE,
            acquire_timeout_seconds=options.lock_acquire_timeout_millis / 1000,
            check_max_sleep_seconds=options.lock_check_max_sleep_millis / 1000,
        )
        try:
            self._entries = MetastoreEntries(
                self.client, options, lock, warehouse=settings.warehouse, list_batch=settings.list_batch, files=files
            )
            if client is None:
                # A server that is down is detected here, not at the first table.
                self.client.get_all_databases()
        except BaseException:
            if client is None:
                self.client.close()
            raise
        self._databases = HiveDatabases(self._entries)
        self._tables = HiveTables(self._entries)
        self._views = HiveViews(self._entries)

    @property
    def warehouse(self) -> str:
        return self._entries.warehouse

    @property
    def file_io(self) -> FileIO:
        return self._entries.file_io

    @property
    def is_case_sensitive(self) -> bool:
        return False

    def close(self) -> None:
        self.client.close()

    # -- databases -------------------------------------------------------------------------------------------------

    def list_databases(self) -> list[str]:
        return self.client.get_all_databases()

    def _get_database(self, name: str) -> Database:
        return self._databases.get(name)

    def _create_database(self, name: str, properties: Mapping[str, str]) -> None:
        self._databases.create(name, properties)

    def _drop_database(self, name: str, *, cascade: bool) -> None:
        self._databases.drop(
            name, cascade=cascade, drop_table=lambda table: self.drop_table(table, ignore_if_not_exists=True)
        )

    def _alter_database(self, name: str, set_properties: Mapping[str, str], remove_properties: Sequence[str]) -> None:
        self._databases.alter(name, set_properties, remove_properties)

    # -- tables ----------------------------------------------------------------------------------------------------

    def _list_tables(self, database: str) -> list[str]:
        self._entries.database(database)
        return self._entries.listed_tables(database, self.client.get_all_tables(database))

    def list_format_tables(self, database: str) -> list[str]:
        self._entries.database(database)
        return self._entries.chosen(database, self.client.get_all_tables(database), self._entries.is_format_entry)

    def leave_out_format_tables(self, *, keep_created: bool = False) -> None:
        self._entries.format_tables = self._entries.format_tables and keep_created
        self._entries.tables_of_hive = False

    def list_iceberg_tables(self, database: str) -> list[str]:
        self._entries.database(database)
        return self._entries.chosen(database, self.client.get_all_tables(database), is_of_iceberg)

    def get_table(self, identifier: "str | Identifier") -> Table:
        """Return the table as Catalog.get_table; an Iceberg table is an IcebergTable (the extra
        `interbed[iceberg]`).
        """
        try:
            return super().get_table(identifier)
        except TableNotFoundError as missing:
            raise self._missing(TableName.parse(identifier).identifier, missing) from missing
        except NotAnInterbedTableError as refused:
            if self.instead_of_iceberg is not None and self._entry_of_iceberg(identifier) is not None:
                raise NotAnInterbedTableError(f"{refused} {self.instead_of_iceberg}") from refused
            found = self.get_iceberg_table(identifier)
            if found is None:
                raise
        # Readers use only methods that both kinds of tables have.
        return cast(Table, found)

    def _missing(self, identifier: Identifier, error: TableNotFoundError) -> TableNotFoundError:
        """Return the error for a table that the metastore does not know; another one if its files exist at its
        location.
        """
        with contextlib.suppress(InterbedError):
            if not self._entries.has_table(identifier):
                location = self._entries.new_table_location(identifier)
                if schema_manager(self._entries.path(location), self._entries.files_of(location)).latest() is not None:
                    return unregistered(identifier, location)
        return error

    def get_iceberg_table(self, identifier: "str | Identifier") -> "IcebergTable | None":
        entry = self._entry_of_iceberg(identifier)
        if entry is None:
            return None
        _refuse_bound(TableName.parse(identifier).identifier, entry)
        # Imported by use: pyiceberg loads slowly, and may not be installed.
        from interbed.catalog.client.hive.iceberg_home import registered_table

        name = TableName.parse(identifier).identifier
        directory = self._confinement(entry)
        return registered_table(self.client, name, entry, self._entries.lock, self.options.raw, directory)

    def _confinement(self, entry: Any) -> str | None:
        """Return the directory outside of which no file of a table is read; None for any."""
        return None

    def _entry_of_iceberg(self, identifier: "str | Identifier") -> Any:
        """Return the metastore's entry of an Iceberg table; None for other tables, branches and system tables."""
        name = TableName.parse(identifier)
        if name.branch is not None or name.system is not None:
            return None
        entry = self.client.get_table(name.identifier.database, name.identifier.table)
        return entry if is_of_iceberg(entry) else None

    def _load_table(self, identifier: Identifier) -> Table:
        try:
            entry = self._entries.table(identifier)
        except NotAnInterbedTableError as error:
            if error.format_entry is None:
                raise
            _refuse_bound(identifier, error.format_entry)
            # Readers and writers use only methods that both kinds of tables have.
            return cast(Table, self._format_tables().open(identifier, error.format_entry))
        store = self._entries.open(identifier, entry)
        if is_object_table(store.schema.options):
            _refuse_bound(identifier, entry)
            return opened_table(str(identifier), store)
        environment = replace(
            store.environment,
            alter=partial(self._tables.alter, identifier),
            roll_back_schema=partial(self._tables.roll_back_schema, identifier),
        )
        table = Table(str(identifier), replace(store, environment=environment))
        return self._for_reader(identifier, entry, table)

    def _for_reader(self, identifier: Identifier, entry: Any, table: Table) -> Table:
        """Return the table under the policies that bind its reader."""
        # Readers use only methods that both kinds of tables have, or are refused by name.
        return cast(Table, self._guarded(identifier, table)) if is_bound(entry.parameters) else table

    def _guarded(self, identifier: Identifier, table: Table) -> "GuardedTable":
        from interbed.storage.table.guarded_table import GuardedTable

        def rules_of(branch: str, _columns: Sequence[str]) -> "RowRules":
            fields = (
                table.store if branch == table.store.paths.branch else table.store.on_branch(branch)
            ).schema.fields
            parameters = self._entries.table(identifier).parameters
            return rules_of_parameters(parameters, fields, f"{self._entries.client.uri} ({identifier})")

        return GuardedTable(table, rules_of)

    def _location_of(self, identifier: Identifier) -> str:
        return self._entries.path(self._entries.locations.of(self._entries.table(identifier)))

    def _create_table(
        self, identifier: Identifier, schema: TableSchema, path: str | None, fill: TableFill | None = None
    ) -> None:
        self._tables.create(identifier, schema, path, fill)

    def _create_format_table(self, identifier: Identifier, schema: TableSchema, path: str | None) -> None:
        self._format_tables().create(identifier, schema, path)

    def _replace_table(self, identifier: Identifier, schema: TableSchema, fill: TableFill) -> None:
        self._tables.replace(identifier, schema, fill)

    def stage_table(
        self, identifier: "str | Identifier", schema: Schema, *, replace: bool = False, create: bool = True
    ) -> StagedTable:
        name = parse_table_name(identifier)
        if create and "path" not in schema.options:
            self._tables.clear_location(name)
        return super().stage_table(name, schema, replace=replace, create=create)

    def _new_location(self, identifier: Identifier, path: str | None) -> tuple[FileIO, str]:
        location = self._entries.free_table_location(identifier) if path is None else self._entries.uri(path)
        return self._entries.files_of(location), self._entries.path(location)

    def drop_table(
        self, identifier: "str | Identifier", ignore_if_not_exists: bool = False, *, purge: bool = False
    ) -> None:
        try:
            try:
                self._tables.drop(parse_table_name(identifier), purge=purge)
            except NotAnInterbedTableError as error:
                if error.format_entry is None:
                    raise
                self._format_tables().drop(parse_table_name(identifier), error, purge=purge)
        except (TableNotFoundError, DatabaseNotFoundError):
            if not ignore_if_not_exists:
                raise

    def rename_table(
        self, source: "str | Identifier", target: "str | Identifier", ignore_if_not_exists: bool = False
    ) -> None:
        old, new = parse_table_name(source), parse_table_name(target)
        if ignore_if_not_exists and not self._entries.has_table(old):
            return
        HiveRenames(self._entries).rename(old, new)

    def alter_table(
        self,
        identifier: "str | Identifier",
        changes: Sequence[SchemaChange] | SchemaChange,
        ignore_if_not_exists: bool = False,
    ) -> None:
        branch = branch_to_alter(identifier)
        if branch is not None:
            # A metastore has no branches.
            self.get_table(branch).store.schemas.change(list(changes) if isinstance(changes, Sequence) else [changes])
            return
        name = parse_table_name(identifier)
        if ignore_if_not_exists and not self._entries.has_table(name):
            return
        self._tables.alter(name, list(changes) if isinstance(changes, Sequence) else [changes])

    def table_exists_in_metastore(self, identifier: Identifier) -> bool:
        """Return whether the metastore has a table of that name, in any format."""
        return self._entries.has_table(identifier)

    # -- views -----------------------------------------------------------------------------------------------------

    def list_views(self, database: str) -> list[str]:
        return self._views.names(database)

    def get_view(self, identifier: "str | Identifier") -> View:
        return self._views.get(parse_table_name(identifier))

    def create_view(
        self,
        identifier: "str | Identifier",
        view: View,
        ignore_if_exists: bool = False,
        *,
        replace: bool = False,
    ) -> None:
        try:
            self._views.create(parse_table_name(identifier), view, replace=replace)
        except TableExistsError:
            if not ignore_if_exists:
                raise

    def drop_view(self, identifier: "str | Identifier", ignore_if_not_exists: bool = False) -> None:
        try:
            self._views.drop(parse_table_name(identifier))
        except ViewNotFoundError:
            if not ignore_if_not_exists:
                raise

    def rename_view(self, source: "str | Identifier", target: "str | Identifier") -> None:
        self._views.rename(parse_table_name(source), parse_table_name(target))

    # -- partitions ------------------------------------------------------------------------------------------------

    def create_partitions(
        self,
        identifier: "str | Identifier",
        partitions: PartitionSpecs,
        ignore_if_exists: bool = True,
    ) -> None:
        name = parse_table_name(identifier)
        try:
            entry = self._entries.table(name)
        except NotAnInterbedTableError as error:
            if error.format_entry is None:
                raise
            super().create_partitions(name, partitions, ignore_if_exists)
            return
        store = self._entries.open(name, entry)
        specs = [_complete(store, spec) for spec in partition_specs(partitions)]
        if _has_partitions(store, entry):
            self._registered(name, store).create(entry, specs, if_not_exists=ignore_if_exists)

    def alter_partitions(self, identifier: "str | Identifier", partitions: Sequence[PartitionStatistics]) -> None:
        name = parse_table_name(identifier)
        entry = self._entries.table(name)
        store = self._entries.open(name, entry)
        if partitions and _has_partitions(store, entry):
            self._registered(name, store).report(partitions)

    def drop_partitions(self, identifier: "str | Identifier", partitions: PartitionSpecs) -> None:
        name = parse_table_name(identifier)
        try:
            entry = self._entries.table(name)
        except NotAnInterbedTableError as error:
            if error.format_entry is None:
                raise
            super().drop_partitions(name, partitions)
            return
        store = self._entries.open(name, entry)
        if not partitions or not _has_partitions(store, entry):
            super().drop_partitions(name, partitions)
            return
        registered = self._registered(name, store)
        wanted = [_text(store, spec) for spec in partition_specs(partitions)]
        specs = wanted
        if any(len(spec) < len(store.schema.partition_keys) for spec in wanted):
            specs = [s for s in registered.specs() if any(spec.items() <= s.items() for spec in wanted)]
        # The rows are deleted first: a process that dies leaves an entry of a partition without rows, and not rows that
        # other engines do not find.
        super().drop_partitions(name, partitions)
        self._unregister_empty(name, store, specs)

    def registered_partitions(self, identifier: "str | Identifier") -> list[dict[str, str]] | None:
        """Return the partitions that the metastore has, with the text of directories; None if it keeps none for the
        table.

        Raises TableNotFoundError.
        """
        name = parse_table_name(identifier)
        entry = self._entries.table(name)
        store = self._entries.open(name, entry)
        return self._registered(name, store).specs() if _has_partitions(store, entry) else None

    def unregister_partitions(
        self, identifier: "str | Identifier", partitions: PartitionSpecs, *, only_empty: bool = False
    ) -> list[dict[str, str]]:
        """Remove the entries of partitions from the metastore, and no rows; return those that existed.

        With `only_empty` those that have files stay. Raises TableNotFoundError, InvalidInputError for an incomplete
        specification.
        """
        name = parse_table_name(identifier)
        entry = self._entries.table(name)
        store = self._entries.open(name, entry)
        if not _has_partitions(store, entry):
            return []
        specs = [_complete(store, spec) for spec in partition_specs(partitions)]
        if only_empty:
            return self._unregister_empty(name, store, specs)
        return [dict(spec) for spec in self._registered(name, store).drop(specs)]

    # -- repair ----------------------------------------------------------------------------------------------------

    def undrop_table(
        self, identifier: "str | Identifier", *, new_name: str | None = None, drop_id: str | None = None
    ) -> None:
        if drop_id is not None:
            super().undrop_table(identifier, new_name=new_name, drop_id=drop_id)
            return
        # By one call, which earlier versions of the server have, too.
        name = parse_table_name(identifier)
        renamed = None if new_name is None else check_table_name(new_name)
        self.client.kept_drops.undrop_table(name.database, name.table, renamed)

    def _drop_calls(self) -> DropCalls:
        return self.client.kept_drops

    def _grant_calls(self) -> GrantCalls:
        return self.client.grants

    def repair_catalog(self, *, dry_run: bool = False) -> RepairReport:
        repair = self._repair(dry_run)
        repair.catalog()
        return repair.report

    def repair_database(self, name: str, *, dry_run: bool = False) -> RepairReport:
        repair = self._repair(dry_run)
        repair.database(name)
        return repair.report

    def repair_table(self, identifier: "str | Identifier", *, dry_run: bool = False) -> RepairReport:
        repair = self._repair(dry_run)
        repair.table(parse_table_name(identifier))
        return repair.report

    # -- inside ----------------------------------------------------------------------------------------------------

    def _format_tables(self) -> "HiveFormatTables":
        # By use: most tables are none.
        from interbed.catalog.client.hive.format_tables import HiveFormatTables

        return HiveFormatTables(self._entries)

    def _registered(self, identifier: Identifier, store: FileStore) -> MetastorePartitions:
        return MetastorePartitions(self.client, identifier, store.paths, self._entries.locations)

    def _unregister_empty(
        self, identifier: Identifier, store: FileStore, specs: Sequence[Mapping[str, str]]
    ) -> list[dict[str, str]]:
        with self._entries.hold(identifier):
            # A concurrent writer has registered its partition again, and that stays.
            filled = [store.paths.in_directories(p.spec) for p in partitions_of(self.get_table(identifier))]
            dropped = self._registered(identifier, store).drop([spec for spec in specs if spec not in filled])
        return [dict(spec) for spec in dropped]

    def _repair(self, dry_run: bool) -> MetastoreRepair:
        return MetastoreRepair(self._entries, self._databases, self._tables, dry_run=dry_run)


def _has_partitions(store: FileStore, entry: object) -> bool:
    return bool(getattr(entry, "partitionKeys", None)) and is_partitioned_in_metastore(store.schema)


def _complete(store: FileStore, spec: Mapping[str, object]) -> dict[str, str]:
    """Return the specification with all columns, in the text of directories; raise InvalidInputError."""
    return store.paths.directory_spec(store.paths.parse_partition_spec(spec))


def _text(store: FileStore, spec: Mapping[str, object]) -> dict[str, str]:
    """Return a specification that may lack columns, in the text of directories; raise InvalidInputError."""
    keys, defaults = store.schema.partition_keys, store.options.partition_default_name
    unknown = [name for name in spec if name not in keys]
    if unknown:
        raise InvalidInputError(f"{unknown[0]!r} is not a partition column; they are {', '.join(keys)}.")
    whole = _complete(store, {**dict.fromkeys(keys, defaults), **spec})
    return {name: whole[name] for name in keys if name in spec}


def _refuse_bound(identifier: Identifier, entry: Any) -> None:
    """Raise NotSupportedError if policies bind the reader of a table of another format."""
    if is_bound(entry.parameters):
        raise NotSupportedError(
            f"The table '{identifier}' has row filters or column masks for you, and files of its format are read "
            "without them. Have its owner exempt you."
        )
