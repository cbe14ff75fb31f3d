"""Creation, change and deletion of tables: schema files first, then the metastore's copy of them.

If the metastore refuses the second step, the first step is withdrawn, as in Paimon. If the outcome is unknown, the
metastore is asked. If even this fails, the schema file stays, the error reports it, and `repair_table` updates the
metastore.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from interbed.catalog.client.errors import (
    CatalogError,
    DatabaseNotFoundError,
    TableExistsError,
    TableModifiedError,
    TableNotFoundError,
)
from interbed.catalog.client.files.dropped_directories import (
    delete_files_outside,
    delete_log,
    files_outside,
    table_with_log,
)
from interbed.catalog.client.files.table_files import (
    ChangeMark,
    MarkedChange,
    aside_directory,
    check_no_remains,
    delete_table_files,
    finish_drop,
    forget_objects,
    holds_objects,
    newest_snapshot,
    read_mark,
    remove_dropped,
    remove_link,
    remove_mark,
    surveyed,
    was_dropped,
    withdraw_schema,
)
from interbed.catalog.client.hive.connection import CallStateUnknownError
from interbed.catalog.client.hive.entries import HiveRenames, MetastoreEntries, unregistered
from interbed.catalog.client.hive.registration import (
    COLUMN_CHANGES,
    CURRENT_SNAPSHOT,
    PARTITIONED_IN_METASTORE,
    check_columns,
    column_changes,
    differences,
    is_external,
    is_ours,
    is_partitioned_in_metastore,
    new_hive_table,
    same_location,
    wants_external,
    with_schema,
)
from interbed.catalog.client.identifier import Identifier
from interbed.catalog.client.staging import TableFill, publish_replacement
from interbed.storage.base.errors import CommitStateUnknownError, InterbedError, InvalidOptionError, NotSupportedError
from interbed.storage.io.resolve import respelled
from interbed.storage.meta.file_store import table_paths
from interbed.storage.meta.options.format import is_object_table
from interbed.storage.meta.schema.change import SchemaChange
from interbed.storage.meta.schema.table_schema import TableSchema
from interbed.storage.table.opening import open_store, schema_manager
from interbed.storage.table.table import Table
from interbed.storage.version.rollback import roll_back_schema

_log = logging.getLogger(__name__)

_TRIES = 5


class HiveTables:
    """The tables of one metastore. Methods take the locks of the tables themselves, except `register` and `update`."""

    def __init__(self, entries: MetastoreEntries) -> None:
        self._entries = entries
        self._client = entries.client
        self._options = entries.options
        self._renames = HiveRenames(entries)

    # -- create ----------------------------------------------------------------------------------------------------

    def create(
        self, identifier: Identifier, schema: TableSchema, path: str | None, fill: TableFill | None = None
    ) -> None:
        """Create a table, with the rows that `fill` commits, or register the one at `path`.

        TableExistsError, InvalidOptionError.
        """
        check_columns(schema)
        external = path is not None or self.is_external_by_default(schema)
        entries = self._entries
        location = entries.free_table_location(identifier) if path is None else entries.uri(path)
        with entries.hold(identifier) as held:
            directory, file_io = entries.path(location), entries.files_of(location)
            schemas = schema_manager(directory, file_io)
            # With rows the call is repeated when its outcome is unknown; an equal schema shows that the table is its
            # own.
            repeated = fill is not None and bool(schemas.ids()) and not schemas.is_gone(schema)
            if entries.has_table(identifier):
                if fill is not None and repeated and fill.is_in(self._opened(identifier, schema, directory)):
                    return
                raise TableExistsError(f"There is a table '{identifier}' in the metastore {self._client.uri} already.")
            if fill is None and not external:
                self._clear(identifier, directory, locked=held is not None)
            existing = schemas.latest()
            if existing is not None and is_object_table(existing.options) != is_object_table(schema.options):
                held_type = existing.options.get("type", "table")
                raise InvalidOptionError(
                    f"{location} has the schema of a table with 'type' = '{held_type}': give '{identifier}' this type, "
                    "or another place by the option 'path'."
                )
            if existing is not None and not repeated:
                if fill is not None:
                    raise unregistered(identifier, location)
                if external or is_object_table(schema.options):
                    schema = _checked_against(existing, schema, location)
                else:
                    raise unregistered(identifier, location)
            elif not repeated:
                # The files of an object table are not remains, and the next creation must not delete them.
                is_of_objects = is_object_table(schema.options)
                if not is_of_objects:
                    check_no_remains(file_io, directory)
                if not (external or is_of_objects):
                    ChangeMark(change=MarkedChange.CREATE, table=str(identifier)).write(file_io, directory)
                if not schemas.commit(schema):
                    raise TableExistsError(f"Another writer creates a table in {location} right now.")
            self._fill_and_register(identifier, schema, location, fill, external=external, is_new=existing is None)

    def clear_location(self, identifier: Identifier) -> None:
        """Remove the remains of killed processes at the location of a new table."""
        with self._entries.hold(identifier) as held:
            if not self._entries.has_table(identifier):
                directory = self._entries.path(self._entries.free_table_location(identifier))
                self._clear(identifier, directory, locked=held is not None)

    def _opened(self, identifier: Identifier, schema: TableSchema, directory: str) -> Table:
        """Return the table in a directory, whether or not the metastore knows it."""
        entries = self._entries
        location = respelled(directory, entries.warehouse_uri)
        return Table(str(identifier), open_store(location, entries.files_of(directory), schema=schema))

    def _fill_and_register(
        self,
        identifier: Identifier,
        schema: TableSchema,
        location: str,
        fill: TableFill | None,
        *,
        external: bool,
        is_new: bool,
    ) -> None:
        """Make a table of a schema file; withdraw the file if that fails and it is new."""
        file_io, directory = self._entries.files_of(location), self._entries.path(location)
        try:
            if fill is not None:
                # No other process knows the table yet, so its first snapshot needs no lock.
                fill(self._opened(identifier, schema, directory))
            self.register(identifier, schema, location, external=external)
            if not external:
                remove_mark(file_io, directory)
        except (CallStateUnknownError, CommitStateUnknownError):
            # The table may still be registered, so its schema stays.
            raise
        except (InterbedError, OSError):
            # No other process knows the table yet, and the schema file would block a new one. Only that file and its
            # rows are deleted, because the directory may have existed before.
            if fill is not None and not external:
                delete_table_files(file_io, directory)
            elif is_new:
                remove_mark(file_io, directory)
                withdraw_schema(file_io, directory, table_paths(directory, schema).schema(schema.id))
            raise

    def _clear(self, identifier: Identifier, directory: str, *, locked: bool) -> None:
        """Remove the remains of a killed process at the location of a new table.

        The remains are a table that was dropped, was renamed, or was never completed; the last one is moved aside.
        """
        file_io = self._entries.files_of(directory)
        if (
            finish_drop(file_io, directory)
            or self.remove_dropped(identifier, directory)
            or self._renames.finish_from(directory)
        ):
            return
        mark = read_mark(file_io, directory)
        if mark is None or mark.change is not MarkedChange.CREATE or not mark.is_of(identifier) or not locked:
            # Without the lock another process may be creating it.
            return
        if newest_snapshot(file_io, directory) is None:
            # No rows were ever committed here.
            delete_table_files(file_io, directory)
            return
        aside = aside_directory(directory)
        if file_io.capabilities.exclusive_rename and file_io.rename(directory, aside):
            _log.warning("Moved the remains of an unfinished creation of '%s' to %s.", identifier, aside)

    def is_external_by_default(self, schema: TableSchema) -> bool:
        """Return whether a table of this schema is external without a given path."""
        return self._options.table_type == "external" or wants_external(schema)

    def register(self, identifier: Identifier, schema: TableSchema, location: str, *, external: bool) -> None:
        """Create the metastore's entry of a table whose schema file exists; TableExistsError."""
        entry = new_hive_table(
            identifier,
            schema,
            location,
            external=external,
            sync_properties=self._options.sync_all_properties,
            locations=self._entries.locations,
        )
        try:
            self._client.create_table(entry)
        except CallStateUnknownError:
            try:
                registered = self._client.get_table(identifier.database, identifier.table)
            except TableNotFoundError:
                self._client.create_table(entry)
                return
            if not (is_ours(registered) and same_location(self._entries.locations.of(registered), location)):
                raise

    # -- drop ------------------------------------------------------------------------------------------------------

    def drop(self, identifier: Identifier, *, purge: bool = False) -> None:
        """Drop a table and, unless it is external, its files; TableNotFoundError, DatabaseNotFoundError.

        Unless `purge`, a metastore of interbed's keeps the entry and the directory, if all files are in it.
        """
        entries = self._entries
        # No commit may be between its last look at the table and its snapshot when the table is dropped.
        with entries.hold(identifier):
            try:
                found = entries.table(identifier)
            except TableNotFoundError:
                # The process that dropped it may have been killed.
                directory = entries.path(entries.new_table_location(identifier))
                if entries.link_to(directory) is None:
                    self.remove_dropped(identifier, directory)
                    remove_dropped(entries.files_of(directory), directory)
                raise
            if is_external(found):
                self._drop(identifier, found)
                return
            directory = entries.path(entries.locations.of(found))
            file_io = entries.files_of(directory)
            if (link := entries.link_to(directory)) is not None:
                # Nothing is written or deleted in the target of a link.
                self._drop(identifier, found)
                if link == directory:
                    remove_link(file_io, directory)
                else:
                    _log.warning(
                        "Dropped '%s' and left its files: %s is a symbolic link, and nothing is deleted through one.",
                        identifier,
                        link,
                    )
                return
            self._renames.finish(identifier, found)
            directory = entries.path(entries.locations.of(found))
            if holds_objects(file_io, directory):
                # A kill in between leaves the schema, with which the table can be created again.
                self._drop(identifier, found)
                forget_objects(file_io, directory)
                return
            newest = newest_snapshot(file_io, directory)
            outside = files_outside(file_io, directory)
            logged = table_with_log(file_io, directory)
            has_all = not outside.roots and not outside.files and logged is None
            if has_all and not purge and self._drop_and_keep(identifier, found, directory):
                return
            ChangeMark(change=MarkedChange.DROP, table=str(identifier), snapshot=newest).write(file_io, directory)
            try:
                # The files are not left to the metastore, which would delete the whole directory.
                self._drop(identifier, found)
            except CallStateUnknownError:
                raise
            except (InterbedError, OSError):
                remove_mark(file_io, directory)
                raise
            delete_table_files(file_io, directory)
            delete_files_outside(file_io, outside)
        delete_log(logged)

    def _drop_and_keep(self, identifier: Identifier, found: Any, directory: str) -> bool:
        """Have the metastore keep the dropped table; return whether it does.

        It moves the directory aside in the step of the drop, so that a kill leaves the table or the kept one. Foreign
        files would be moved, too, and deleted later: they must keep their place.
        """
        if surveyed(self._entries.files_of(directory), directory).foreign:
            return False
        # The mark of an earlier drop that was killed must not come back with the table.
        remove_mark(self._entries.files_of(directory), directory)
        kept: list[bool] = []
        self._until_known(
            identifier,
            found,
            lambda: kept.append(self._client.kept_drops.drop_table(identifier.database, identifier.table)),
        )
        return kept[-1] if kept else True

    def remove_dropped(self, identifier: Identifier, directory: str) -> bool:
        """Delete the remains of a killed drop under the table's lock; return whether there were any."""
        file_io = self._entries.files_of(directory)
        if not was_dropped(file_io, directory, identifier):
            return False
        _log.info("Deleting the remains of the drop of '%s' in %s.", identifier, directory)
        outside = files_outside(file_io, directory)
        delete_table_files(file_io, directory)
        delete_files_outside(file_io, outside)
        return True

    def _drop(self, identifier: Identifier, found: Any) -> None:
        self._until_known(
            identifier,
            found,
            lambda: self._client.drop_table(
                identifier.database, identifier.table, delete_data=False, properties={"ifPurge": "TRUE"}
            ),
        )

    def _until_known(self, identifier: Identifier, found: Any, drop: Callable[[], None]) -> None:
        """Drop the entry of a table; repeat that after a lost reply, unless the entry is missing."""
        for attempt in range(1, _TRIES + 1):
            try:
                drop()
            except CallStateUnknownError:
                if self._is_missing(identifier, found):
                    return
                if attempt == _TRIES:
                    raise
            else:
                return

    def _is_missing(self, identifier: Identifier, entry: Any) -> bool:
        try:
            found = self._client.get_table(identifier.database, identifier.table)
        except (TableNotFoundError, DatabaseNotFoundError):
            return True
        # With locks off another process may have created another table meanwhile.
        return bool(found.createTime != entry.createTime)

    # -- replace ---------------------------------------------------------------------------------------------------

    def replace(self, identifier: Identifier, schema: TableSchema, fill: TableFill) -> None:
        """Replace schema and rows, then the metastore's copy of the schema; raise as publish_replacement."""
        store = self._entries.open(identifier, self._entries.table(identifier))
        _check_change(store.schema, schema)
        publish_replacement(store, str(identifier), schema, fill)
        with self._entries.hold(identifier):
            try:
                self.update(identifier, schema, previous=store.schema)
            except CatalogError as error:
                error.add_note(_committed_note(schema, identifier))
                raise

    # -- alter -----------------------------------------------------------------------------------------------------

    def alter(self, identifier: Identifier, changes: Sequence[SchemaChange]) -> None:
        """Make a new version of the schema, and the metastore's copy of it; TableNotFoundError, InvalidInputError."""
        # The metastore replaces whole entries: without the lock, a concurrent commit that moves the pointer would
        # restore the old columns.
        with self._entries.hold(identifier) as held:
            entry = self._entries.table(identifier)
            self._renames.finish(identifier, entry)
            store = self._entries.open(identifier, entry)
            if is_object_table(store.schema.options):
                raise NotSupportedError(
                    f"The object table '{identifier}' is not altered: drop it and create it again with other "
                    "properties; its files stay."
                )
            self._bring_up_to_date(identifier, entry, store.schema)
            changed = store.schemas.change(changes, check=_check_change)
            try:
                self.update(identifier, changed, previous=store.schemas.schema(changed.id - 1))
            except CallStateUnknownError as error:
                error.add_note(_committed_note(changed, identifier))
                raise
            except CatalogError as error:
                if held is None or max(store.schemas.ids()) != changed.id:
                    # Other changes may already be based on the new schema.
                    error.add_note(_committed_note(changed, identifier))
                else:
                    store.file_io.delete(store.paths.schema(changed.id))
                    error.add_note(f"The schema {changed.id} of '{identifier}' was withdrawn; nothing has changed.")
                raise

    def roll_back_schema(self, identifier: Identifier, schema_id: int) -> TableSchema:
        """Delete the schemas after that of an id, and update the metastore's copy; raises as roll_back_schema.

        A process that is killed in between leaves the newer copy, which the next change of the schema replaces.
        """
        with self._entries.hold(identifier):
            entry = self._entries.table(identifier)
            self._renames.finish(identifier, entry)
            store = self._entries.open(identifier, entry)
            # The lock of the table is held already.
            unlocked = replace(store, environment=replace(store.environment, lock=None))
            before = store.schema
            found = roll_back_schema(unlocked, schema_id)
            try:
                self.update(identifier, found, previous=before)
            except (CallStateUnknownError, CatalogError) as error:
                error.add_note(_committed_note(found, identifier))
                raise
            return found

    def _bring_up_to_date(self, identifier: Identifier, entry: Any, schema: TableSchema) -> None:
        """Update the metastore to a schema that a killed process made without doing so."""
        if not differences(entry, schema, everything=self._options.sync_all_properties):
            return
        try:
            self.update(identifier, schema, previous=None)
        except CatalogError as error:
            # The update is not part of the requested change.
            _log.warning("The metastore's copy of '%s' is older than its schema %d: %s", identifier, schema.id, error)

    def update(self, identifier: Identifier, schema: TableSchema, *, previous: TableSchema | None) -> None:
        """Update the metastore's copy to the schema; retry when a commit without a lock moves the pointer meanwhile."""
        properties = {"DO_NOT_UPDATE_STATS": str(self._options.skip_update_stats).lower()}
        if self._options.alter_table_cascade:
            properties["CASCADE"] = "true"
        for attempt in range(1, _TRIES + 1):
            entry = self._entries.table(identifier)
            pointer = (entry.parameters or {}).get(CURRENT_SNAPSHOT)
            changes = None if previous is None else column_changes(entry, previous, schema)
            entry = with_schema(entry, schema, previous=previous, sync_properties=self._options.sync_all_properties)
            try:
                self._client.alter_table(
                    identifier.database,
                    identifier.table,
                    entry,
                    properties=properties if changes is None else {**properties, COLUMN_CHANGES: changes},
                    expected_parameter=None if pointer is None else (CURRENT_SNAPSHOT, pointer),
                )
            except (TableModifiedError, CallStateUnknownError):
                # Retried on the current entry; the update is idempotent.
                if attempt == _TRIES:
                    raise
            else:
                return


def _check_change(before: TableSchema, after: TableSchema) -> None:
    check_columns(after)
    if is_partitioned_in_metastore(before) != is_partitioned_in_metastore(after):
        raise InvalidOptionError(
            f"Option '{PARTITIONED_IN_METASTORE}' can't be changed: a metastore does not let a table's partition keys "
            "change. Create another table with it."
        )


def _committed_note(schema: TableSchema, identifier: Identifier) -> str:
    return (
        f"The schema {schema.id} of '{identifier}' is committed; only the metastore's copy of it may be old. "
        f"`interbed catalog repair {identifier}` brings it up to date."
    )


def _checked_against(existing: TableSchema, wanted: TableSchema, location: str) -> TableSchema:
    """Return the schema of an existing table to register; InvalidOptionError if the wanted one contradicts it."""
    columns = {f.name: f.type.with_nullable(True) for f in existing.fields}
    differing = [f.name for f in wanted.fields if columns.get(f.name) != f.type.with_nullable(True)]
    keys_differ = wanted.primary_keys != existing.primary_keys or wanted.partition_keys != existing.partition_keys
    if differing or len(wanted.fields) != len(existing.fields) or keys_differ:
        raise InvalidOptionError(
            f"{location} holds a table with the columns {', '.join(existing.names)}, primary key "
            f"({', '.join(existing.primary_keys)}) and partition key ({', '.join(existing.partition_keys)}), which is "
            "not the requested schema; register it with its own schema."
        )
    return existing
