"""Update of a metastore to the files of its warehouse, as Paimon's repair does.

Databases are directories `<warehouse>/<name>.db`, tables directories with a schema file. Tables that the metastore does
not know are registered. Of known tables, columns, properties, a wrong pointer to the current snapshot and missing
partitions are updated. Killed drops and renames are finished. Nothing else is ever removed, neither entries without
files nor partitions without rows. If one table fails, the others are still repaired.
"""

from typing import Any

from interbed.catalog.client.errors import DatabaseNotFoundError, TableNotFoundError
from interbed.catalog.client.files.table_files import (
    ASIDE,
    MarkedChange,
    newest_snapshot,
    read_mark,
    remove_dropped,
    remove_mark,
    was_dropped,
)
from interbed.catalog.client.hive.databases import HiveDatabases
from interbed.catalog.client.hive.entries import HiveRenames, MetastoreEntries
from interbed.catalog.client.hive.publisher import MetastorePartitions
from interbed.catalog.client.hive.registration import (
    CURRENT_SNAPSHOT,
    check_columns,
    differences,
    is_partitioned_in_metastore,
    same_location,
)
from interbed.catalog.client.hive.tables import HiveTables
from interbed.catalog.client.identifier import DB_SUFFIX, Identifier, check_table_name, parse_table_name
from interbed.catalog.client.partition import partition_name, partitions_of
from interbed.catalog.client.recovery import RepairAction, RepairKind, RepairReport
from interbed.storage.base.errors import InterbedError
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.schema.table_schema import TableSchema
from interbed.storage.table.opening import open_store, schema_manager
from interbed.storage.table.table import Table

_NAMED_MAX = 5


class MetastoreRepair:
    """One repair, which collects its actions. With `dry_run` nothing is changed."""

    def __init__(
        self, entries: MetastoreEntries, databases: HiveDatabases, tables: HiveTables, *, dry_run: bool
    ) -> None:
        self._entries = entries
        self._databases = databases
        self._tables = tables
        self._renames = HiveRenames(entries)
        self._dry_run = dry_run
        self._checked = 0
        self._actions: list[RepairAction] = []

    @property
    def report(self) -> RepairReport:
        """The actions so far."""
        return RepairReport(dry_run=self._dry_run, tables=self._checked, actions=tuple(self._actions))

    def catalog(self) -> None:
        """Repair every database that has a directory in the warehouse."""
        found = self._entries.file_io.list(self._entries.warehouse)
        names = sorted(e.name for e in found if e.is_directory and e.name.endswith(DB_SUFFIX))
        for name in names:
            database = name.removesuffix(DB_SUFFIX)
            try:
                self.database(database)
            except InterbedError as error:
                self._note(RepairKind.FAILED, database, str(error))

    def database(self, name: str) -> None:
        """Repair one database, which may be unknown; its tables are the directories at its location."""
        expected = self._entries.new_database_location(name)
        try:
            location = self._entries.database_location(self._entries.database(name))
        except DatabaseNotFoundError:
            if not self._entries.files_of(expected).exists(self._entries.path(expected)):
                raise
            location = expected
            self._note(RepairKind.CREATE_DATABASE, name, location)
            if not self._dry_run:
                self._databases.create(name, {})
        if not same_location(location, expected) and self._entries.files_of(expected).list(
            self._entries.path(expected)
        ):
            self._note(RepairKind.FAILED, name, f"lives in {location}; the tables in {expected} are not its own")
        file_io = self._entries.files_of(location)
        for status in sorted(file_io.list(self._entries.path(location)), key=lambda s: s.name):
            if status.is_directory and schema_manager(status.path, file_io).ids():
                try:
                    self.table(Identifier(name, check_table_name(status.name)))
                except InterbedError as error:
                    self._note(RepairKind.FAILED, f"{name}.{status.name}", str(error))
        if not self._dry_run:
            for path in remove_dropped(file_io, f"{self._entries.path(location)}/any"):
                self._note(RepairKind.DROP_TABLE, name, f"{path} is left from a drop")
        for status in file_io.list(f"{self._entries.path(location)}/{ASIDE}"):
            self._note(RepairKind.UNFINISHED, name, f"{status.path} was never a table; delete it if it is not needed")

    def table(self, identifier: Identifier) -> None:
        """Repair one table; TableNotFoundError when neither the location of its entry nor the default one has files."""
        if self._dry_run:
            self._table(identifier)
            return
        with self._entries.hold(identifier):
            self._table(identifier)

    def _table(self, identifier: Identifier) -> None:
        self._checked += 1
        entry = self._entry(identifier)
        locations = self._entries.locations
        location = locations.of(entry) if entry is not None else self._default_location(identifier)
        if self._finish(identifier, entry, self._entries.path(location)):
            return
        location = locations.of(entry) if entry is not None else location
        schema = schema_manager(self._entries.path(location), self._entries.files_of(location)).latest()
        if schema is None:
            raise TableNotFoundError(f"There is no table '{identifier}' to repair: {location} has no schema.")
        check_columns(schema)
        if entry is None:
            self._note(RepairKind.CREATE_TABLE, str(identifier), location)
            if not self._dry_run:
                external = self._tables.is_external_by_default(schema)
                self._tables.register(identifier, schema, location, external=external)
                entry = self._entries.table(identifier)
        else:
            self._bring_up_to_date(identifier, entry, schema)
        store = open_store(self._entries.path(location), self._entries.files_of(location), schema=schema)
        if entry is not None:
            self._point(identifier, entry, store)
        self._add_partitions(identifier, entry, store)

    def _finish(self, identifier: Identifier, entry: Any | None, directory: str) -> bool:
        """Finish the change of a killed process; return whether there is no table of this name."""
        file_io = self._entries.files_of(directory)
        mark = read_mark(file_io, directory)
        if entry is not None:
            self._finish_rename(identifier, entry)
            if mark is not None and mark.change is not MarkedChange.RENAME and not self._dry_run:
                # The change was never begun, or is finished.
                remove_mark(file_io, directory)
            return False
        if (
            not file_io.capabilities.atomic_rename
            and self._entries.owner_of(directory, identifier.database) is not None
        ):
            # It is repaired under its new name.
            return True
        if was_dropped(file_io, directory, identifier):
            self._note(RepairKind.DROP_TABLE, str(identifier), f"{directory} is left from a drop")
            if not self._dry_run:
                self._tables.remove_dropped(identifier, directory)
            return True
        if mark is not None and mark.change is MarkedChange.CREATE and newest_snapshot(file_io, directory) is None:
            self._note(RepairKind.UNFINISHED, str(identifier), f"{directory} has no rows yet; create the table again")
            return True
        if mark is not None and mark.change is MarkedChange.RENAME:
            new = parse_table_name(mark.table)
            renamed = self._entry(new)
            if renamed is not None and self._entries.mark_of_rename(new, renamed) == mark:
                # It is repaired under its new name.
                return True
        return False

    def _finish_rename(self, identifier: Identifier, entry: Any) -> None:
        mark = self._entries.mark_of_rename(identifier, entry)
        if mark is None:
            return
        self._note(RepairKind.ALTER_TABLE, str(identifier), f"moved to {mark.target}")
        if not self._dry_run:
            self._renames.finish(identifier, entry)

    def _entry(self, identifier: Identifier) -> Any | None:
        try:
            return self._entries.table(identifier)
        except (TableNotFoundError, DatabaseNotFoundError):
            return None

    def _default_location(self, identifier: Identifier) -> str:
        try:
            return self._entries.new_table_location(identifier)
        except DatabaseNotFoundError:
            # In a dry run the database is still to be created.
            if not self._dry_run:
                raise
            return f"{self._entries.new_database_location(identifier.database)}/{identifier.table}"

    def _bring_up_to_date(self, identifier: Identifier, entry: Any, schema: TableSchema) -> None:
        keys = [key.name.lower() for key in entry.partitionKeys or ()]
        wanted_keys = [k.lower() for k in schema.partition_keys] if is_partitioned_in_metastore(schema) else []
        if keys != wanted_keys:
            self._note(
                RepairKind.FAILED,
                str(identifier),
                f"is partitioned by ({', '.join(keys)}) in the metastore, "
                f"but by ({', '.join(wanted_keys)}) in its files, which can't be altered; "
                "drop the entry without its data and repair again",
            )
        differing = differences(entry, schema, everything=self._entries.options.sync_all_properties)
        if differing:
            self._note(RepairKind.ALTER_TABLE, str(identifier), ", ".join(differing))
            if not self._dry_run:
                self._tables.update(identifier, schema, previous=None)

    def _point(self, identifier: Identifier, entry: Any, store: FileStore) -> None:
        """Correct a wrong pointer; tables that no interbed writer has written have none, and get none here."""
        pointer = (entry.parameters or {}).get(CURRENT_SNAPSHOT)
        latest = store.snapshots.latest_id()
        if pointer is None or pointer == str(latest):
            return
        self._note(RepairKind.ALTER_TABLE, str(identifier), f"pointer to snapshot {latest} instead of {pointer}")
        if not self._dry_run:
            entry = self._entries.table(identifier)
            entry.parameters.pop(CURRENT_SNAPSHOT)
            if latest is not None:
                entry.parameters[CURRENT_SNAPSHOT] = str(latest)
            self._entries.client.alter_table(
                identifier.database, identifier.table, entry, properties={"DO_NOT_UPDATE_STATS": "true"}
            )

    def _add_partitions(self, identifier: Identifier, entry: Any | None, store: FileStore) -> None:
        if not is_partitioned_in_metastore(store.schema) or (entry is not None and not entry.partitionKeys):
            return
        registered = MetastorePartitions(self._entries.client, identifier, store.paths, self._entries.locations)
        known = {tuple(s.values()) for s in registered.specs()} if entry is not None else set()
        # Null and the empty text have one directory, and are one partition to a metastore.
        specs = [store.paths.in_directories(p.spec) for p in partitions_of(Table(str(identifier), store))]
        found = {tuple(spec.values()): spec for spec in specs}
        missing = [spec for values, spec in found.items() if values not in known]
        if not missing:
            return
        names = ", ".join(partition_name(spec) for spec in missing[:_NAMED_MAX])
        more = f" and {len(missing) - _NAMED_MAX} more" if len(missing) > _NAMED_MAX else ""
        self._note(RepairKind.ADD_PARTITIONS, str(identifier), names + more)
        if not self._dry_run and entry is not None:
            registered.create(entry, missing)

    def _note(self, kind: RepairKind, name: str, detail: str) -> None:
        self._actions.append(RepairAction(kind=kind, name=name, detail=detail))
