"""Databases, and the user-defined functions in them: create, read, alter, drop. Every change appends its events.

Names of functions are kept in lower case (Hive 2.3 keeps the case and so stores duplicates).
"""

import dataclasses
import time
import uuid
from collections.abc import Callable, Sequence

from interbed.catalog.server.service import events
from interbed.catalog.server.service import warehouse as files
from interbed.catalog.server.service.access.objects import (
    Privilege,
    SecuredObject,
    catalog_object,
    database_object,
    function_object,
)
from interbed.catalog.server.service.access.places import DatabasePlaceRules
from interbed.catalog.server.service.access.secured import (
    Arguments,
    SecuredService,
    filtered,
    needs,
    secured,
    the_database,
    the_function,
    unsecured,
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
from interbed.catalog.server.service.model import (
    DEFAULT_CATALOG,
    DEFAULT_DATABASE,
    Function,
    MetastoreCatalog,
    MetastoreDatabase,
    MetastoreTable,
)
from interbed.catalog.server.service.moves import settle_all, settle_drops
from interbed.catalog.server.service.names import (
    is_valid_name,
    is_valid_paimon_function_name,
    matching,
    normalized,
    shortened,
)
from interbed.catalog.server.service.repository import Repository, Transaction
from interbed.catalog.server.service.tables.rules import data_locations, skips_trash
from interbed.catalog.server.service.undrop.drops import DatabaseContents, SoftDrops
from interbed.catalog.server.service.warehouse import Warehouse

IDENTITY_PROPERTY = "metastore.uuid"


def _the_catalog_of_the_database(arguments: Arguments) -> tuple[SecuredObject, ...]:
    return (catalog_object(arguments["database"].catalog),)


class DatabaseService(SecuredService):
    """The calls about databases."""

    def __init__(
        self,
        store: Repository,
        warehouse: Warehouse,
        deletions: GuardedDeletions,
        *,
        clock: Callable[[], float] = time.time,
        soft_drops: SoftDrops | None = None,
    ) -> None:
        self._store = store
        self._warehouse = warehouse
        self._deletions = deletions
        self._places = DatabasePlaceRules(store, warehouse, deletions.guard)
        self._clock = clock
        self._soft_drops = soft_drops

    @unsecured("the server calls it at its start")
    def bootstrap(self) -> None:
        """Make the warehouse, the catalog `hive` and the database `default` where they do not exist yet, and complete
        the changes that a crash interrupted.

        Several servers may do it at once. MetastoreError if the warehouse's directory cannot be made.
        """
        now = int(self._clock())
        files.make_directory(self._warehouse.root)

        def work(transaction: Transaction) -> None:
            # No client reads before these two exist, so that they need no event.
            if transaction.catalogs.find(DEFAULT_CATALOG) is None:
                transaction.catalogs.add(
                    MetastoreCatalog(
                        name=DEFAULT_CATALOG,
                        description="Default catalog for Hive",
                        location=self._warehouse.root,
                        create_time=now,
                    )
                )
            if transaction.databases.find(DEFAULT_CATALOG, DEFAULT_DATABASE) is None:
                transaction.databases.add(
                    MetastoreDatabase(
                        name=DEFAULT_DATABASE,
                        description="Default Hive database",
                        location=self._warehouse.root,
                        owner_name="public",
                        owner_type=2,
                        create_time=now,
                    )
                )
            transaction.properties.keep(IDENTITY_PROPERTY, str(uuid.uuid4()))

        self._store.write(work)
        settle_all(self._store, self._deletions.guard)
        settle_drops(self._store, self._deletions.guard)

    @unsecured("the UUID of the metastore names no object")
    def identity(self) -> str:
        """Return the UUID that identifies this metastore. MetastoreError before `bootstrap`."""
        found = self._store.read(lambda transaction: transaction.properties.get(IDENTITY_PROPERTY))
        if found is None:
            raise MetastoreError("the metastore has no identity yet: it was never started")
        return found

    @secured(needs(Privilege.CREATE, _the_catalog_of_the_database))
    def create(self, database: MetastoreDatabase, *, has_any_name: bool = False) -> None:
        """Create a database and its directory. With `has_any_name` the caller has checked the name by other rules than
        Hive's.

        InvalidObjectError for a bad name or catalog, AlreadyExistsError, MetastoreError if the directory cannot be
        made.
        """
        database, chosen = self._places.new(self._access, database)
        # Checked before the directory is made; checked again when the row is stored, which decides.
        location = self._store.read(lambda transaction: self._location_for(transaction, database, has_any_name))
        managed = database.managed_location
        complete = dataclasses.replace(
            database,
            location=location,
            managed_location=None if managed is None else self._warehouse.qualified(managed),
            create_time=database.create_time or int(self._clock()),
        )
        made: list[str] = []
        try:
            homes = [location] if complete.managed_location is None else [location, complete.managed_location]
            files.make_directories(homes, made)
        except MetastoreError as error:
            self._remove_made(made)
            raise MetastoreError(
                f"Unable to create database path {location}, failed to create database {database.name}: {error}"
            ) from error
        owning = dataclasses.replace(complete, made=made_places(made))

        def work(transaction: Transaction) -> None:
            self._add(transaction, owning)
            for place in chosen:
                place.check_again(transaction)

        try:
            self._store.write(work)
        except OutcomeUnknownError:
            raise
        except MetastoreError:
            self._remove_made(made)
            raise

    @secured(needs(None, the_database))
    def get(self, catalog: str, name: str) -> MetastoreDatabase:
        """Return the database. NoSuchObjectError whose text is the name alone, as in Hive."""
        found = self._store.read(lambda transaction: transaction.databases.find(catalog, normalized(name)))
        if found is None:
            raise NoSuchObjectError(shortened(name))
        return found.value

    @filtered("databases that the caller sees")
    def names(self, catalog: str, pattern: str | None = None) -> list[str]:
        """Return the names that match a pattern, in order."""
        found = matching(self._store.read(lambda transaction: transaction.databases.names(catalog)), pattern)
        return self._access.visible(found, lambda name: database_object(catalog, name), catalog_object(catalog))

    @filtered("databases that the caller sees")
    def select(self, catalog: str, pattern: str | None = None) -> list[MetastoreDatabase]:
        """Return the databases that match a pattern, ordered by name."""

        def work(transaction: Transaction) -> list[MetastoreDatabase]:
            names = matching(transaction.databases.names(catalog), pattern)
            found = (transaction.databases.find(catalog, name) for name in names)
            return [stored.value for stored in found if stored is not None]

        return self._access.visible(
            self._store.read(work), lambda each: database_object(catalog, each.name), catalog_object(catalog)
        )

    @secured(needs(Privilege.ALTER, the_database))
    def alter(self, catalog: str, name: str, changed: MetastoreDatabase) -> None:
        """Store new parameters and a new owner, and a new description and location where they are given.

        NoSuchObjectError. A database cannot be renamed; as in Hive, its name in `changed` is ignored.
        """

        def change(old: MetastoreDatabase) -> MetastoreDatabase:
            return dataclasses.replace(
                old,
                parameters=changed.parameters,
                description=old.description if changed.description is None else changed.description,
                location=changed.location or old.location,
                managed_location=changed.managed_location or old.managed_location,
                owner_name=changed.owner_name,
                owner_type=changed.owner_type or old.owner_type,
            )

        self.change(catalog, name, change)

    @secured(needs(Privilege.ALTER, the_database))
    def change(self, catalog: str, name: str, change: Callable[[MetastoreDatabase], MetastoreDatabase]) -> None:
        """Store what `change` returns for the database, in one transaction. It must have no effect, since a transaction
        may run more than once. NoSuchObjectError, InvalidLocationError for a new location that is refused.
        """
        key = normalized(name)
        allowed = self._places.changed(self._access, catalog, key, change)

        def work(transaction: Transaction) -> None:
            stored = transaction.databases.find(catalog, key, for_update=True)
            if stored is None:
                raise NoSuchObjectError(shortened(name))
            old = stored.value
            asked = change(old)
            if (asked.owner_name, asked.owner_type) != (old.owner_name, old.owner_type):
                allowed.rights.require(Privilege.ALL)
            new = dataclasses.replace(
                asked,
                location=self._warehouse.qualified(asked.location, old.location) if asked.location else old.location,
                managed_location=self._warehouse.qualified(asked.managed_location, old.managed_location)
                if asked.managed_location
                else old.managed_location,
            )
            allowed.check(new.location, old.location)
            allowed.check(new.managed_location, old.managed_location)
            transaction.databases.replace(stored.id, new)
            transaction.events.append(events.alter_database(old, new))
            allowed.check_again(transaction)

        self._store.write(work)

    @secured(needs(Privilege.DROP, the_database))
    def drop(self, catalog: str, name: str, *, delete_data: bool, cascade: bool, if_exists: bool = False) -> None:
        """Drop a database, with everything in it if `cascade`, with its directory if `delete_data`. With soft drops its
        entry and those of its tables are kept.

        NoSuchObjectError unless `if_exists`, InvalidOperationError if it is not empty, MetastoreError for the default
        database.
        """
        key = normalized(name)
        if catalog == DEFAULT_CATALOG and key == DEFAULT_DATABASE:
            raise MetastoreError("Can not drop default database")

        def read(transaction: Transaction) -> DatabaseContents | None:
            stored = transaction.databases.find(catalog, key, for_update=True)
            if stored is None:
                if if_exists:
                    return None
                raise NoSuchObjectError(shortened(name))
            tables = transaction.tables.select(catalog, key)
            functions = transaction.functions.select(catalog, key)
            if tables and not cascade:
                raise InvalidOperationError(f"Database {key} is not empty. One or more tables exist.")
            if functions and not cascade:
                raise InvalidOperationError(f"Database {key} is not empty. One or more functions exist.")
            return DatabaseContents(stored=stored, tables=tables, functions=functions)

        if self._soft_drops is not None:
            kept = self._soft_drops.drop_database(read, delete_data=delete_data)
            if kept is not None:
                for location in kept.purged:
                    self._deletions.discard(location, purge=True)
                self._delete_directories(kept.database, kept.tables, kept.homes)
            return

        def work(transaction: Transaction) -> DatabaseContents | None:
            contents = read(transaction)
            if contents is None:
                return None
            stored, tables, functions = contents.stored, contents.tables, contents.functions
            # Functions are dropped first, in the order of Hive's notification log.
            for function in functions:
                found = transaction.functions.find(catalog, key, function.name)
                if found is not None:
                    transaction.functions.remove(found.id)
            for table in tables:
                row = transaction.tables.find(catalog, key, table.name, for_update=True)
                if row is not None:
                    transaction.tables.remove(row.id)
            transaction.databases.remove(stored.id)
            transaction.events.append(
                *(events.drop_function(function) for function in functions),
                *(events.drop_table(table) for table in tables),
                events.drop_database(stored.value),
            )
            return contents

        dropped = self._store.write(work)
        if dropped is not None and delete_data:
            self._delete_directories(dropped.stored.value, dropped.tables, dropped.homes)

    def _delete_directories(
        self, database: MetastoreDatabase, tables: Sequence[MetastoreTable], homes: Sequence[str]
    ) -> None:
        """Delete the directories of a dropped database and of its tables, as far as the tables own them."""
        # Data is deleted after the commit: a crash in between leaves orphan files, never metadata without files.
        claim = DeletionClaim(made=database.made)
        left = []
        for table in tables:
            purge = skips_trash(table)
            for location in data_locations(table, ()):
                # Directories inside the database's directory are moved to the trash with it.
                if purge or not any(files.contains(home, location) for home in homes):
                    self._deletions.discard(location, claim, purge=purge)
                else:
                    left.append(location)
        home_claim = dataclasses.replace(claim, is_home=True)
        gone = [home for home in homes if self._deletions.discard(home, home_claim, purge=False)]
        for location in left:
            # The database's directory is kept if it holds other objects; the directories of its tables are deleted.
            if not any(files.contains(home, location) for home in gone):
                self._deletions.discard(location, claim, purge=False)

    def _location_for(self, transaction: Transaction, database: MetastoreDatabase, has_any_name: bool) -> str:
        catalog = transaction.catalogs.find(database.catalog)
        if catalog is None:
            raise InvalidObjectError(f"No such catalog {shortened(database.catalog)}")
        # As in Hive a name is looked up before it is validated: an invalid name, such as one with spaces around it, may
        # exist.
        if transaction.databases.find(database.catalog, normalized(database.name)) is not None:
            raise AlreadyExistsError(f"Database {shortened(database.name)} already exists")
        if not has_any_name and not is_valid_name(database.name):
            raise InvalidObjectError(f"{shortened(database.name)} is not a valid database name")
        if database.location:
            return self._warehouse.qualified(database.location)
        root = None if catalog.name == DEFAULT_CATALOG else self._warehouse.qualified(catalog.location)
        return self._warehouse.database_location(database.name, root)

    def _add(self, transaction: Transaction, database: MetastoreDatabase) -> None:
        if transaction.catalogs.find(database.catalog, for_child=True) is None:
            raise InvalidObjectError(f"No such catalog {shortened(database.catalog)}")
        if transaction.databases.add(database) is None:
            raise AlreadyExistsError(f"Database {database.name} already exists")
        transaction.events.append(events.create_database(database))

    def _remove_made(self, made: Sequence[str]) -> None:
        for location in made:
            files.remove_empty_directory(location)


def _the_database_of_the_function(arguments: Arguments) -> tuple[SecuredObject, ...]:
    return (database_object(arguments["function"].catalog, arguments["function"].database),)


class FunctionService(SecuredService):
    """The calls about functions."""

    def __init__(self, store: Repository, *, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock

    @secured(needs(Privilege.CREATE, _the_database_of_the_function))
    def create(self, function: Function) -> None:
        """Create a function. InvalidObjectError for a bad name or without a class, NoSuchObjectError for the database,
        AlreadyExistsError.
        """
        _check(function)
        owner = self._access.owner(function.owner_name)
        complete = dataclasses.replace(function, owner_name=owner, create_time=int(self._clock()))

        def work(transaction: Transaction) -> None:
            database = transaction.databases.find(function.catalog, function.database, for_child=True)
            if database is None:
                raise NoSuchObjectError(f"The database {shortened(function.database)} does not exist")
            if transaction.functions.add(database.id, complete) is None:
                raise AlreadyExistsError(f"Function {function.name} already exists")
            transaction.events.append(events.create_function(complete))

        self._store.write(work)

    @secured(needs(None, the_function))
    def get(self, catalog: str, database: str, name: str) -> Function:
        """Return the function; NoSuchObjectError if there is none of that name."""
        key = (catalog, normalized(database), normalized(name))
        found = self._store.read(lambda transaction: transaction.functions.find(*key))
        if found is None:
            raise NoSuchObjectError(f"Function {shortened(database)}.{shortened(name)} does not exist")
        return found.value

    @filtered("functions that the caller sees")
    def names(self, catalog: str, database: str, pattern: str | None = None) -> list[str]:
        """Return the names that match a pattern, in order; none if there is no such database."""
        functions = self.select(catalog, normalized(database))
        return matching([function.name for function in functions], pattern)

    @filtered("functions that the caller sees")
    def select(self, catalog: str, database: str | None = None) -> list[Function]:
        """Return the functions of a database, or of all."""
        found = self._store.read(lambda transaction: transaction.functions.select(catalog, database))
        within = catalog_object(catalog) if database is None else database_object(catalog, normalized(database))
        return self._access.visible(found, lambda each: function_object(catalog, each.database, each.name), within)

    @secured(needs(Privilege.ALTER, the_function))
    def alter(self, catalog: str, database: str, name: str, changed: Function) -> None:
        """Replace the function, perhaps under another name. MetastoreError if there is none, or for what cannot be:
        other errors than those of `create`, as with Hive.
        """
        try:
            self.change(catalog, database, name, lambda before: changed)
        except (NoSuchObjectError, InvalidObjectError) as error:
            raise MetastoreError(str(error)) from error

    @secured(needs(Privilege.ALTER, the_function))
    def change(self, catalog: str, database: str, name: str, change: Callable[[Function], Function]) -> None:
        """Replace the function by what `change` makes of it, which must have no effect: it may run more than once.

        NoSuchObjectError if there is none, InvalidObjectError for a function that cannot be, MetastoreError.
        """
        key = (catalog, normalized(database), normalized(name))
        rights = self._access.rights(function_object(*key))
        found = self._store.read(lambda transaction: transaction.functions.find(*key)) if self._access.is_on else None
        target = None if found is None else database_object(found.value.catalog, change(found.value).database)
        if target is not None and target.database != key[1] and not self._access.may((Privilege.CREATE,), target):
            raise MetastoreError(f"The database {shortened(target.database)} does not exist")

        def work(transaction: Transaction) -> None:
            stored = transaction.functions.find(*key, for_update=True)
            if stored is None:
                raise NoSuchObjectError(f"function {shortened(name)} doesn't exist")
            changed = change(stored.value)
            _check(changed)
            old = stored.value
            if (changed.owner_name, changed.owner_type) != (old.owner_name, old.owner_type):
                rights.require(Privilege.ALL)
            if target is not None and target.database != changed.database:
                raise MetastoreError(f"function {shortened(name)} was changed meanwhile, try again")
            home = transaction.databases.find(changed.catalog, changed.database, for_child=True)
            if home is None:
                raise MetastoreError(f"The database {shortened(changed.database)} does not exist")
            complete = dataclasses.replace(changed, create_time=stored.value.create_time)
            if not transaction.functions.replace(stored.id, home.id, complete):
                raise MetastoreError(f"Function {changed.name} already exists")
            transaction.events.append(events.drop_function(stored.value), events.create_function(complete))

        self._store.write(work)

    @secured(needs(Privilege.DROP, the_function))
    def drop(self, catalog: str, database: str, name: str) -> None:
        """Drop a function; NoSuchObjectError if there is none of that name."""
        key = (catalog, normalized(database), normalized(name))

        def work(transaction: Transaction) -> None:
            stored = transaction.functions.find(*key, for_update=True)
            if stored is None:
                raise NoSuchObjectError(f"Function {shortened(name)} does not exist")
            transaction.functions.remove(stored.id)
            transaction.events.append(events.drop_function(stored.value))

        self._store.write(work)


def _check(function: Function) -> None:
    """Raise InvalidObjectError for an invalid name, or for a function without a class."""
    has_name_of_paimon = function.paimon_definition is not None and is_valid_paimon_function_name(function.name)
    if not (has_name_of_paimon or is_valid_name(function.name)):
        raise InvalidObjectError(f"{shortened(function.name)} is not a valid object name")
    if function.class_name is None:
        raise InvalidObjectError(f"Function {function.name} has no class")
