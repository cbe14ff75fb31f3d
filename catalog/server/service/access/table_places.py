"""The owner, the directories and the changes that a caller may choose for a table and its partitions."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from interbed.catalog.server.service.access.guard import WRITE, AccessGuard
from interbed.catalog.server.service.access.objects import Privilege, SecuredObject, database_object, table_object
from interbed.catalog.server.service.access.places import (
    CheckedPlace,
    ChosenPlaces,
    check_not_of_others,
    choose,
    further_locations,
    is_default,
    is_inside,
    skew_locations,
)
from interbed.catalog.server.service.column_statistics import BASIC_STATISTICS, COLUMN_STATS_ACCURATE
from interbed.catalog.server.service.directories.guard import DeletionGuard
from interbed.catalog.server.service.model import (
    DEFAULT_DATABASE,
    PARAMETER_DDL_TIME,
    MetastorePartition,
    MetastoreTable,
)
from interbed.catalog.server.service.repository import Repository
from interbed.catalog.server.service.warehouse import Warehouse

_OF_WRITERS = frozenset((*BASIC_STATISTICS, COLUMN_STATS_ACCURATE, PARAMETER_DDL_TIME, "interbed.current-snapshot-id"))
"""Parameters that writers of rows change: statistics, and the pointer of interbed's commits."""


@dataclass(frozen=True, slots=True)
class AllowedChange:
    """Rights of a caller to change a table."""

    chosen: ChosenPlaces

    def check(self, old: MetastoreTable, new: MetastoreTable) -> MetastoreTable:
        """Return the changed entry as it may be stored: with its owner, if the caller has sent none.

        AccessDeniedError for a change that the caller may not make.
        """
        rights = self.chosen.rights
        if rights.granted is None:
            return new
        new = dataclasses.replace(new, owner=new.owner or old.owner)
        if not (is_of_writer(old, new) and rights.has(*WRITE)):
            rights.require(Privilege.ALTER)
        owners = [(each.owner, each.extra.get("ownerType")) for each in (old, new)]
        if owners[0][0] != owners[1][0] or (owners[1][1] is not None and owners[0][1] not in (None, owners[1][1])):
            rights.require(Privilege.ALL)
        if new.database != old.database:
            rights.require(Privilege.DROP)
        if new.location:
            self.chosen.check(new.location, old.location)
        for each in further_locations(new, new.location or old.location, old):
            self.chosen.check(each)
        return new


def is_of_writer(old: MetastoreTable, new: MetastoreTable) -> bool:
    """Return whether a change of a table is one that every writer of rows makes: of statistics and of the pointer."""
    known, changed = (
        {key: value for key, value in each.parameters.items() if key not in _OF_WRITERS} for each in (old, new)
    )
    if known != changed or (old.database, old.name, old.owner) != (new.database, new.name, new.owner):
        return False
    same = (old.storage, old.partition_keys, old.view_expanded_text, old.view_original_text, old.retention)
    return same == (
        new.storage,
        new.partition_keys,
        new.view_expanded_text,
        new.view_original_text,
        new.retention,
    )


class TablePlaceRules:
    """Rules for what callers may choose, over a repository and a warehouse."""

    def __init__(self, store: Repository, warehouse: Warehouse, guard: DeletionGuard) -> None:
        self._store = store
        self._warehouse = warehouse
        self._guard = guard

    def new(self, access: AccessGuard, table: MetastoreTable) -> tuple[MetastoreTable, Sequence[CheckedPlace]]:
        """Return a new table with its owner, and its places, which the transaction checks again. AccessDeniedError if
        the caller may not choose its directory.
        """
        if access.caller() is None:
            return table, ()
        found = self._store.read(lambda transaction: transaction.databases.find(table.catalog, table.database))
        if found is None:
            return table, ()
        default = self._warehouse.table_location(found.value, table)
        given = None if not table.location else self._warehouse.qualified(table.location)
        further = [each for each in further_locations(table, given or default) if not is_inside(each, default)]
        chosen = [*([] if given is None or is_default(given, default) else [given]), *further]
        own = _own(table.catalog, table.database, table.name)
        rights = access.rights(database_object(table.catalog, table.database))
        allowed = choose(access, self._store, self._guard, rights, chosen, own)
        for each in chosen:
            allowed.check(each)
        checked = list(allowed.checked)
        if not table.is_view and (given is None or is_default(given, default)):
            checked.append(check_not_of_others(access, self._store, self._guard, given or default, own))
        return dataclasses.replace(table, owner=access.owner(table.owner)), checked

    def changed(self, access: AccessGuard, key: tuple[str, str, str], table: MetastoreTable) -> AllowedChange:
        """Return what the caller may change of the table of a key; names in lower case."""
        rights = access.rights(table_object(*key))
        if rights.granted is None:
            return AllowedChange(ChosenPlaces(rights))
        found = self._store.read(lambda transaction: transaction.tables.find(*key))
        given: list[str] = []
        if found is not None:
            old = found.value
            if table.location and table.location != old.location:
                given.append(self._warehouse.qualified(table.location, old.location))
            given.extend(further_locations(table, table.location or old.location, old))
        own = {*_own(*key), *_own(table.catalog, table.database, table.name)}
        return AllowedChange(choose(access, self._store, self._guard, rights, given, own))

    def moved(self, access: AccessGuard, key: tuple[str, str, str], locations: Sequence[str]) -> Sequence[CheckedPlace]:
        """Raise AccessDeniedError if the caller may not choose new directories for the table of a key. Return the
        places, which the transaction checks again.
        """
        rights = access.rights(table_object(*key))
        given = [self._warehouse.qualified(each) for each in locations] if rights.granted is not None else []
        allowed = choose(access, self._store, self._guard, rights, given, _own(*key))
        for each in given:
            allowed.check(each)
        return allowed.checked

    def file(self, access: AccessGuard, catalog: str, database: str, location: str) -> None:
        """Raise AccessDeniedError if the caller may not register a file in a database, or have the server read it."""
        if access.caller() is None:
            return
        rights = access.rights(database_object(catalog, database))
        own = [database_object(catalog, database), database_object(catalog, DEFAULT_DATABASE)]
        choose(access, self._store, self._guard, rights, [location], own).check(location)

    def partitions(
        self, access: AccessGuard, table: MetastoreTable, partitions: Sequence[MetastorePartition]
    ) -> Sequence[CheckedPlace]:
        """Raise AccessDeniedError if the caller may not choose a directory of new or changed partitions: one outside of
        the table's. Return the places, which the transaction checks again.
        """
        if access.caller() is None:
            return ()
        given = [
            location
            for each in partitions
            for location in ((each.storage.location if each.storage else None), *skew_locations(each.storage))
            if location and not is_inside(location, table.location)
        ]
        if not given:
            return ()
        qualified = [self._warehouse.qualified(each) for each in given]
        own = _own(table.catalog, table.database, table.name)
        rights = access.rights(table_object(table.catalog, table.database, table.name))
        allowed = choose(access, self._store, self._guard, rights, qualified, own)
        for each in qualified:
            allowed.check(each)
        return allowed.checked


def _own(catalog: str, database: str, name: str) -> list[SecuredObject]:
    """Return the objects whose directory may hold that of a table, and the table."""
    return [
        table_object(catalog, database, name),
        database_object(catalog, database),
        database_object(catalog, DEFAULT_DATABASE),
    ]
