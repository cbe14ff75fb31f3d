"""Catalogs: spaces of databases, each with a root directory of its own."""

import dataclasses
import time
from collections.abc import Callable

from interbed.catalog.server.service import events
from interbed.catalog.server.service import warehouse as files
from interbed.catalog.server.service.access.objects import SERVER, Privilege, catalog_object, database_object
from interbed.catalog.server.service.access.places import check_not_of_others
from interbed.catalog.server.service.access.secured import (
    SecuredService,
    filtered,
    needs,
    secured,
    the_catalog,
    the_server,
)
from interbed.catalog.server.service.directories.deletions import GuardedDeletions
from interbed.catalog.server.service.directories.guard import DeletionClaim
from interbed.catalog.server.service.directories.locations import made_places
from interbed.catalog.server.service.errors import (
    AlreadyExistsError,
    InvalidObjectError,
    InvalidOperationError,
    MetastoreError,
    NoSuchObjectError,
    OutcomeUnknownError,
)
from interbed.catalog.server.service.model import DEFAULT_CATALOG, DEFAULT_DATABASE, MetastoreCatalog, MetastoreDatabase
from interbed.catalog.server.service.names import is_valid_name, normalized, shortened
from interbed.catalog.server.service.repository import Repository, Transaction
from interbed.catalog.server.service.warehouse import Warehouse


class CatalogService(SecuredService):
    """The calls about catalogs."""

    def __init__(
        self,
        store: Repository,
        warehouse: Warehouse,
        deletions: GuardedDeletions,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._warehouse = warehouse
        self._deletions = deletions
        self._clock = clock

    @filtered("catalogs that the caller sees")
    def names(self) -> list[str]:
        """Return the names of all catalogs, in order."""
        found = self._store.read(lambda transaction: transaction.catalogs.names())
        return self._access.visible(found, catalog_object, SERVER)

    @secured(needs(None, the_catalog))
    def get(self, name: str | None) -> MetastoreCatalog:
        """Return the catalog; NoSuchObjectError if there is none of that name."""
        found = self._store.read(lambda transaction: transaction.catalogs.find(normalized(name)))
        if found is None:
            raise catalog_not_found(name)
        return found

    @secured(needs(Privilege.CREATE, the_server), needs(Privilege.LOCATION, the_server))
    def create(self, catalog: MetastoreCatalog) -> None:
        """Create a catalog, its directory, and the database `default` in it. Its location is kept as it was given.

        InvalidObjectError for a bad name or without a location, AlreadyExistsError, MetastoreError if the directory
        cannot be made.
        """
        if not is_valid_name(catalog.name):
            raise InvalidObjectError(f"{shortened(catalog.name)} is not a valid catalog name")
        if not catalog.location:
            raise InvalidObjectError("You must specify a path for the catalog")
        now = int(self._clock())
        complete = dataclasses.replace(catalog, location=catalog.location, create_time=catalog.create_time or now)
        place = self._warehouse.qualified(catalog.location)
        chosen = None
        if self._access.is_on:
            own = [database_object(complete.name, DEFAULT_DATABASE)]
            chosen = check_not_of_others(self._access, self._store, self._deletions.guard, place, own)
        home = MetastoreDatabase(
            catalog=complete.name,
            name=DEFAULT_DATABASE,
            description=f"Default database for catalog {complete.name}",
            location=place,
            create_time=now,
        )
        if self._store.read(lambda transaction: transaction.catalogs.find(complete.name)) is not None:
            raise AlreadyExistsError(f"Catalog {complete.name} already exists")
        try:
            made = files.make_directory(place)
        except MetastoreError as error:
            raise MetastoreError(
                f"Unable to create catalog path {place}, failed to create catalog {complete.name}: {error}"
            ) from error

        owning = dataclasses.replace(home, made=made_places([place] if made else []))

        def work(transaction: Transaction) -> None:
            if not transaction.catalogs.add(complete):
                raise AlreadyExistsError(f"Catalog {complete.name} already exists")
            transaction.databases.add(owning)
            transaction.events.append(events.create_catalog(complete), events.create_database(home))
            if chosen is not None:
                chosen.check_again(transaction)

        try:
            self._store.write(work)
        except OutcomeUnknownError:
            raise
        except MetastoreError:
            if made:
                files.remove_empty_directory(place)
            raise

    @secured(needs(Privilege.ALTER, the_catalog))
    def alter(self, name: str | None, changed: MetastoreCatalog) -> None:
        """Store a new description and location where they are given; databases stay where they are.

        NoSuchObjectError, InvalidOperationError for another name.
        """
        key = normalized(name)
        if changed.name and changed.name != key:
            raise InvalidOperationError(f"Catalog {key} cannot be renamed to {shortened(changed.name)}")
        rights = self._access.rights(catalog_object(key))

        def work(transaction: Transaction) -> None:
            old = transaction.catalogs.find(key, for_update=True)
            if old is None:
                raise catalog_not_found(name)
            if changed.location and changed.location != old.location:
                self._warehouse.qualified(changed.location)
                rights.require(Privilege.LOCATION)
            new = dataclasses.replace(
                old,
                description=changed.description or old.description,
                location=changed.location or old.location,
                parameters=changed.parameters or old.parameters,
            )
            transaction.catalogs.replace(new)
            transaction.events.append(events.alter_catalog(old, new))

        self._store.write(work)

    @secured(needs(Privilege.DROP, the_catalog))
    def drop(self, name: str | None, *, if_exists: bool = False) -> None:
        """Drop a catalog that holds nothing but an empty database `default`. The directories of both are deleted if
        they are empty.

        NoSuchObjectError unless `if_exists`, InvalidOperationError if the catalog is not empty, MetastoreError for the
        default catalog.
        """
        key = normalized(name)
        if key == DEFAULT_CATALOG:
            raise MetastoreError(f"Can not drop {DEFAULT_CATALOG} catalog")

        def work(transaction: Transaction) -> tuple[list[str], tuple[str, ...]]:
            catalog = transaction.catalogs.find(key, for_update=True)
            if catalog is None:
                if if_exists:
                    return [], ()
                raise catalog_not_found(name)
            written = []
            databases = transaction.databases.names(key)
            if databases not in ([], [DEFAULT_DATABASE]):
                raise InvalidOperationError(
                    f"There are non-default databases in the catalog {key} so it cannot be dropped."
                )
            home = transaction.databases.find(key, DEFAULT_DATABASE, for_update=True)
            if home is not None:
                if transaction.tables.names(key, DEFAULT_DATABASE) or transaction.functions.select(key):
                    raise InvalidOperationError(f"There are still objects in the default database for catalog {key}")
                transaction.databases.remove(home.id)
                written.append(events.drop_database(home.value))
            transaction.catalogs.remove(key)
            transaction.events.append(*written, events.drop_catalog(catalog))
            places = [catalog.location, home.value.location if home is not None else None]
            made = home.value.made if home is not None else ()
            return list(dict.fromkeys(each for each in places if each)), made

        left, made = self._store.write(work)
        for place in left:
            self._deletions.remove_empty(place, DeletionClaim(made=made, is_home=True))


def catalog_not_found(name: str | None) -> NoSuchObjectError:
    """Return the error for a missing catalog, with Hive's text."""
    return NoSuchObjectError(f"No catalog {shortened(name)}")
