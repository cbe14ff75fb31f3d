"""Changes of a table: its columns, parameters and location, its name, and its data (truncate)."""

import dataclasses
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any, Protocol

from interbed.catalog.server.service import events
from interbed.catalog.server.service import warehouse as files
from interbed.catalog.server.service.access.guard import CHANGE
from interbed.catalog.server.service.access.objects import Privilege, SecuredObject, database_object
from interbed.catalog.server.service.access.places import TablePlaceRules
from interbed.catalog.server.service.access.policies import check_policies_after
from interbed.catalog.server.service.access.secured import Arguments, SecuredService, needs, secured, the_table
from interbed.catalog.server.service.column_statistics import (
    emptied,
    statistics_to_keep,
    with_only_accurate_columns,
    without_stale_columns,
)
from interbed.catalog.server.service.constraints import forget_columns
from interbed.catalog.server.service.directories.deletions import GuardedDeletions
from interbed.catalog.server.service.directories.guard import DeletionClaim
from interbed.catalog.server.service.errors import InvalidObjectError, InvalidOperationError, MetastoreError
from interbed.catalog.server.service.model import (
    CREATION_METADATA,
    MATERIALIZED_VIEW,
    PARAMETER_DDL_TIME,
    MetastoreColumn,
    MetastoreDatabase,
    MetastoreTable,
    StorageDescriptor,
)
from interbed.catalog.server.service.moves import DirectoryMover, carry_out
from interbed.catalog.server.service.names import is_valid_table_name, normalized, partition_name, shortened
from interbed.catalog.server.service.repository import Repository, StoredRow, Transaction
from interbed.catalog.server.service.tables.placing import NewTableRules
from interbed.catalog.server.service.tables.rules import (
    CASCADE,
    KEEP_STATISTICS,
    check_columns,
    check_expected_parameter,
    check_may_empty,
    check_without_transactions,
    names_after,
    same_keys,
    skips_trash,
    stored_type,
    table_not_found,
)
from interbed.catalog.server.service.warehouse import Warehouse

_PARTITIONS_AT_ONCE = 1000


class SoftTableDrops(Protocol):
    """Drops of tables that are kept for a time (undrop/drops.py)."""

    def drop_table(
        self, key: tuple[str, str, str], *, delete_data: bool, with_directory: bool = False
    ) -> MetastoreTable | None:
        """Drop a table, keep its entry, and return it; None if nothing was changed, because it cannot be kept, or
        `with_directory` because its directory is not moved aside.
        """
        ...


def _the_database_of_the_new_name(arguments: Arguments) -> tuple[SecuredObject, ...]:
    changed, names = arguments["changed"], (normalized(arguments["database"]), normalized(arguments["name"]))
    return () if (changed.database, changed.name) == names else (database_object(changed.catalog, changed.database),)


class TableAlterations(SecuredService):
    """Alter, rename and truncate."""

    def __init__(
        self,
        store: Repository,
        warehouse: Warehouse,
        deletions: GuardedDeletions,
        *,
        clock: Callable[[], float] = time.time,
        keeps_transactional: bool = False,
        soft_drops: SoftTableDrops | None = None,
    ) -> None:
        self._store = store
        self._warehouse = warehouse
        self._deletions = deletions
        self._places = TablePlaceRules(store, warehouse, deletions.guard)
        self._clock = clock
        self._keeps_transactional = keeps_transactional
        self._soft_drops = soft_drops
        self._new = NewTableRules(warehouse, deletions.guard, clock)

    @secured(needs(CHANGE, the_table), needs(Privilege.CREATE, _the_database_of_the_new_name))
    def alter(
        self, catalog: str, database: str, name: str, changed: MetastoreTable, context: Mapping[str, str] | None = None
    ) -> None:
        """Store the changed table. With another name or database it is renamed, together with the default directory of
        a managed table. Changed columns are copied to its partitions if the context says CASCADE.

        If the context has `expected_parameter_key` and `expected_parameter_value`, the table changes only if its
        parameter has that value: MetastoreError otherwise, with Hive's text. InvalidOperationError for a change that is
        not allowed.
        """
        if changed.catalog != catalog:
            raise InvalidOperationError(
                f"Tables cannot be moved between catalogs, old catalog {shortened(catalog)}, "
                f"new catalog {shortened(changed.catalog)}"
            )
        key = (catalog, normalized(database), normalized(name))
        properties = context or {}
        allowed = self._places.changed(self._access, key, changed)

        def work(transaction: Transaction, mover: DirectoryMover) -> None:
            stored = transaction.tables.find(*key, for_update=True)
            if stored is None:
                raise InvalidOperationError(table_not_found(database, name).args[0])
            asked = allowed.check(stored.value, changed)
            # Errors are checked in Hive's order; clients expect the first.
            _check(changed, stored.value)
            if changed.storage is None and not changed.is_view:
                raise MetastoreError(f"Table {changed.name} has no storage descriptor")
            if not self._keeps_transactional:
                check_without_transactions(changed, stored.value)
            renamed = (stored.value.database, stored.value.name) != (changed.database, changed.name)
            if renamed and transaction.tables.find(changed.catalog, changed.database, changed.name) is not None:
                raise _taken(changed)
            check_expected_parameter(stored.value, changed, properties)
            accurate = without_stale_columns(asked.parameters, stored.value.storage, asked.storage)
            new = self._replace(transaction, stored, dataclasses.replace(asked, parameters=accurate), mover)
            if (
                new.location
                and not changed.location
                and not new.is_view
                and properties.get(KEEP_STATISTICS, "").lower() != "true"
            ):
                # Hive reads the directory for its statistics, unless the context forbids it.
                raise MetastoreError(f"Table {changed.name} has no location in its storage descriptor")
            forget_columns(transaction, stored.id, stored.value, new)
            names = names_after(stored.value, new, properties)
            check_policies_after(transaction.policies, stored.value, new, names)
            if names is not None:
                transaction.tables.follow_columns(stored.id, names)
            keep = statistics_to_keep(stored.value.storage, new.storage)
            if keep is not None:
                transaction.statistics.keep_table_columns(stored.id, keep)
            if properties.get(CASCADE, "").upper() == "TRUE" and _columns(new) != _columns(stored.value):
                if keep is not None:
                    _mark_stale(transaction, stored.value, stored.id, keep)
                    transaction.statistics.keep_columns_of_partitions(stored.id, keep)
                transaction.partitions.replace_columns(stored.id, _columns(new))
            transaction.events.append(events.alter_table(stored.value, new))
            allowed.chosen.check_again(transaction)

        carry_out(self._store, work, self._deletions.guard)

    @secured(needs(CHANGE, the_table))
    def remake(self, catalog: str, database: str, name: str, made_of: Mapping[str, Any]) -> None:
        """Store what a materialized view is made of now. NoSuchObjectError, MetastoreError for another kind
        of table.
        """
        key = (catalog, normalized(database), normalized(name))

        def work(transaction: Transaction) -> None:
            stored = transaction.tables.find(*key, for_update=True)
            if stored is None:
                raise table_not_found(database, name)
            old = stored.value
            if old.table_type != MATERIALIZED_VIEW:
                raise MetastoreError(f"{old.database}.{old.name} is no materialized view")
            new = dataclasses.replace(old, extra={**old.extra, CREATION_METADATA: dict(made_of)})
            transaction.tables.replace(stored.id, None, new, old)
            # Hive's notification log has no event for it.
            transaction.history.record(events.alter_table(old, new))

        self._store.write(work)

    @secured(needs(Privilege.DELETE, the_table))
    def truncate(self, catalog: str, database: str, name: str, *, delete_data: bool = True) -> None:
        """Delete the data of a table that owns it, not the table. MetastoreError for others, and for a table with
        snapshots. Without `delete_data` only record that it is empty: the client has removed the rows.
        """
        key = (catalog, normalized(database), normalized(name))
        found = self._store.read(lambda transaction: transaction.tables.find(*key))
        if found is None:
            raise table_not_found(database, name)
        if delete_data:
            check_may_empty(found.value)
        # Files are deleted before the event is visible: a reader that reacts to it earlier would still see them.
        # Deleting may take long, and no other request has to wait for it.
        location = found.value.location if delete_data else None
        if location is not None:
            self._deletions.empty(location, DeletionClaim(table_id=found.id), purge=skips_trash(found.value))

        def work(transaction: Transaction) -> None:
            stored = transaction.tables.find(*key, for_update=True)
            if stored is None:
                raise table_not_found(database, name)
            old = stored.value
            new = dataclasses.replace(old, parameters=emptied(old.parameters, int(self._clock())))
            transaction.tables.replace(stored.id, None, new, old)
            transaction.events.append(events.alter_table(old, new, truncated=True))

        self._store.write(work)

    def _replace(
        self,
        transaction: Transaction,
        stored: StoredRow[MetastoreTable],
        changed: MetastoreTable,
        mover: DirectoryMover,
    ) -> MetastoreTable:
        old = stored.value
        renamed = (old.database, old.name) != (changed.database, changed.name)
        new = self._completed(old, changed)
        if not old.is_view and not same_keys(old.partition_keys, changed.partition_keys):
            raise InvalidOperationError("partition keys can not be changed.")
        old_database = transaction.databases.find(old.catalog, old.database, for_child=True)
        new_database = (
            old_database
            if changed.database == old.database
            else transaction.databases.find(changed.catalog, changed.database, for_child=True)
        )
        if old_database is None or new_database is None:
            raise InvalidOperationError(f"The database {shortened(changed.database)} does not exist")
        if renamed and old.location is not None and not files.renames_directories(old.location):
            # A directory in an object store would be copied file by file; a table's location need not follow its name.
            if old_database.id != new_database.id and _goes_with(old_database.value, old):
                raise InvalidOperationError(
                    f"the files of {old.database}.{old.name} stay in {old.location}, because an object store does not "
                    f"rename directories, and would go with the database {old.database}; write them to a new table"
                )
        elif renamed and self._moves_with_name(old, new, old_database.value):
            assert old.location is not None
            if self._deletions.may_move(transaction, old.location, DeletionClaim(table_id=stored.id)):
                new = self._moved(transaction, stored, new, new_database.value, mover)
        if not transaction.tables.replace(stored.id, new_database.id, new, old):
            raise _taken(new)
        if new.location != old.location:
            transaction.places.link(stored.id, "", self._warehouse.linked(new.location))
        if [key.type for key in old.partition_keys] != [key.type for key in new.partition_keys]:
            transaction.partitions.retype_keys(stored.id, new.partition_keys)
        return new

    def _completed(self, old: MetastoreTable, changed: MetastoreTable) -> MetastoreTable:
        storage = changed.storage if changed.storage is not None else old.storage
        if storage is not None:
            location = None if changed.is_view else old.location
            if storage.location:
                location = self._warehouse.qualified(storage.location, old.location)
            self._warehouse.check_skew(storage, old.storage)
            storage = dataclasses.replace(storage, location=location)
        parameters = dict(changed.parameters)
        if PARAMETER_DDL_TIME not in parameters:
            parameters[PARAMETER_DDL_TIME] = str(int(self._clock()))
        # What a view was made of is changed by a call of its own.
        made_of = {key: value for key, value in old.extra.items() if key == CREATION_METADATA}
        return dataclasses.replace(
            changed,
            storage=storage,
            parameters=parameters,
            table_type=stored_type(changed.table_type, parameters),
            create_time=old.create_time,
            extra={**made_of, **changed.extra},
            number=old.number,
        )

    def _moves_with_name(self, old: MetastoreTable, new: MetastoreTable, database: MetastoreDatabase) -> bool:
        return (
            not old.is_view
            and not old.is_external
            and files.same_location(old.location, new.location)
            and files.same_location(old.location, self._warehouse.table_location(database, old))
        )

    def _moved(
        self,
        transaction: Transaction,
        stored: StoredRow[MetastoreTable],
        new: MetastoreTable,
        database: MetastoreDatabase,
        mover: DirectoryMover,
    ) -> MetastoreTable:
        assert stored.value.location is not None
        assert new.storage is not None
        old_location = stored.value.location
        new_location = self._warehouse.table_location(database, new)
        mover.move(transaction, stored.id, old_location, new_location)
        transaction.partitions.move_location(stored.id, old_location, new_location)
        return dataclasses.replace(new, storage=dataclasses.replace(new.storage, location=new_location))


def _goes_with(database: MetastoreDatabase, table: MetastoreTable) -> bool:
    """Return whether a managed table's files lie in the directory of a database, which is deleted with it."""
    if table.is_view or table.is_external:
        return False
    homes = (database.location, database.managed_location)
    return any(files.contains(home, table.location) for home in homes if home)


def _taken(new: MetastoreTable) -> InvalidOperationError:
    return InvalidOperationError(f"new table {new.database}.{new.name} already exists")


def _check(changed: MetastoreTable, before: MetastoreTable) -> None:
    if not is_valid_table_name(changed.name):
        raise InvalidOperationError(f"{shortened(changed.name)} is not a valid object name")
    try:
        check_columns(changed, before)
    except InvalidObjectError as error:
        raise InvalidOperationError(str(error)) from error


def _columns(table: MetastoreTable) -> tuple[MetastoreColumn, ...]:
    return (table.storage or StorageDescriptor()).columns


def _mark_stale(transaction: Transaction, table: MetastoreTable, table_id: int, keep: Collection[str]) -> None:
    """Remove other columns than these from COLUMN_STATS_ACCURATE of each partition."""
    last = ""
    while names := transaction.partitions.names_after(table_id, last, _PARTITIONS_AT_ONCE):
        changed = {}
        for partition in transaction.partitions.select(table_id, names):
            parameters = with_only_accurate_columns(partition.parameters, keep)
            if parameters != partition.parameters:
                name = partition_name(table.partition_keys, partition.values)
                changed[name] = dataclasses.replace(partition, parameters=parameters)
        ids = transaction.partitions.ids(table_id, changed)
        transaction.partitions.replace_all(table_id, [(ids[name], name, each) for name, each in changed.items()])
        last = names[-1]
