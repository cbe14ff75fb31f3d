"""The owner and the directories that a caller may choose for a database."""

import dataclasses
from collections.abc import Callable, Sequence

from interbed.catalog.server.service.access.guard import AccessGuard
from interbed.catalog.server.service.access.objects import catalog_object, database_object
from interbed.catalog.server.service.access.places import (
    CheckedPlace,
    ChosenPlaces,
    check_not_of_others,
    choose,
    is_default,
)
from interbed.catalog.server.service.directories.guard import DeletionGuard
from interbed.catalog.server.service.model import DEFAULT_CATALOG, DEFAULT_DATABASE, MetastoreDatabase
from interbed.catalog.server.service.names import escaped
from interbed.catalog.server.service.repository import Repository
from interbed.catalog.server.service.warehouse import Warehouse


class DatabasePlaceRules:
    """Rules for what callers may choose, over a repository and a warehouse."""

    def __init__(self, store: Repository, warehouse: Warehouse, guard: DeletionGuard) -> None:
        self._store = store
        self._warehouse = warehouse
        self._guard = guard

    def new(self, access: AccessGuard, database: MetastoreDatabase) -> tuple[MetastoreDatabase, Sequence[CheckedPlace]]:
        """Return a new database with its owner, and its places, which the transaction checks again. AccessDeniedError
        if the caller may not choose its directories.
        """
        if not access.is_on:
            return database, ()
        found = self._store.read(lambda transaction: transaction.catalogs.find(database.catalog))
        if found is None:
            return database, ()
        root = None if found.name == DEFAULT_CATALOG else self._warehouse.qualified(found.location)
        default = self._warehouse.database_location(escaped(database.name), root)
        given = [self._warehouse.qualified(each) for each in (database.location, database.managed_location) if each]
        chosen = [each for each in given if not is_default(each, default)]
        rights = access.rights(catalog_object(database.catalog))
        own = database_object(database.catalog, database.name)
        allowed = choose(access, self._store, self._guard, rights, chosen, [own])
        for each in chosen:
            allowed.check(each)
        home = database_object(database.catalog, DEFAULT_DATABASE)
        found_at_default = check_not_of_others(access, self._store, self._guard, default, [home, own])
        return (
            dataclasses.replace(database, owner_name=access.owner(database.owner_name)),
            [*allowed.checked, found_at_default],
        )

    def changed(
        self, access: AccessGuard, catalog: str, name: str, change: Callable[[MetastoreDatabase], MetastoreDatabase]
    ) -> ChosenPlaces:
        """Return the new directories of a database that the caller may choose, with its rights on the database."""
        own = database_object(catalog, name)
        rights = access.rights(own)
        if rights.granted is None:
            return ChosenPlaces(rights)
        found = self._store.read(lambda transaction: transaction.databases.find(catalog, name))
        given: list[str] = []
        if found is not None:
            old, new = found.value, change(found.value)
            pairs = ((new.location, old.location), (new.managed_location, old.managed_location))
            given = [self._warehouse.qualified(each, before) for each, before in pairs if each and each != before]
        return choose(
            access, self._store, self._guard, rights, given, [own, database_object(catalog, DEFAULT_DATABASE)]
        )
