"""Directories that callers choose: not those of objects that they may not change.

Places are compared by their canonical texts, with symbolic links resolved, as the guard of deletions does. A place is
that of another object if this is registered in it, at it or below it, or if the place lies in a table or in the
directory of a database other than that of the warehouse. Errors do not name these objects, since the caller may not
see them.

Authorizers are asked before the transaction. Other callers may register objects in between, so that the transaction
looks again at the end (`check_again`). All changes of objects append events, one transaction after the other: the later
one of two that register objects in each other's directories sees the first.

`DatabasePlaceRules` and `TablePlaceRules` have the owner, the directories and the changes that a caller may choose for
a database, and for a table and its partitions.
"""

import dataclasses
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from interbed.catalog.server.service.access.guard import WRITE, AccessGuard, AnyOf, Rights, denied
from interbed.catalog.server.service.access.objects import (
    SERVER,
    Privilege,
    SecuredObject,
    catalog_object,
    database_object,
    table_object,
)
from interbed.catalog.server.service.column_statistics import BASIC_STATISTICS, COLUMN_STATS_ACCURATE
from interbed.catalog.server.service.directories.guard import DeletionGuard, directory_at
from interbed.catalog.server.service.directories.locations import is_at_or_below, place_text
from interbed.catalog.server.service.errors import AccessDeniedError, InvalidObjectError
from interbed.catalog.server.service.model import (
    DEFAULT_CATALOG,
    DEFAULT_DATABASE,
    ICEBERG_METADATA,
    PARAMETER_DDL_TIME,
    MetastoreDatabase,
    MetastorePartition,
    MetastoreTable,
    StorageDescriptor,
)
from interbed.catalog.server.service.names import escaped
from interbed.catalog.server.service.repository import Repository, Transaction
from interbed.catalog.server.service.warehouse import Warehouse

HOLDERS_MAX = 100
"""Objects in one place that are asked about; a place with more of them is for administrators."""

_PLACE_PARAMETERS = (ICEBERG_METADATA, "paimon_location")
"""Parameters of tables with the location of a file or a directory."""

_SPARK_PATH = "path"
"""The parameter of a SerDe with the directory of a table of Spark's."""

_BY_SERVER = re.compile(r"-(?:[0-9]+|[0-9a-f]{32})")
"""The end by which the server makes the default place of a table unique."""


@dataclass(frozen=True, slots=True)
class CheckedPlace:
    """A place by its texts and those above it, with the objects there that the caller may alter, and its own."""

    texts: Collection[str]
    above: Collection[str]
    known: frozenset[SecuredObject]

    def beside(self, others: Iterable[SecuredObject]) -> "CheckedPlace":
        """Return the place with further objects that may be there: those of the same change."""
        return replace(self, known=self.known.union(others))

    def check_again(self, transaction: Transaction) -> None:
        """Raise AccessDeniedError for an object in, at or around the place that was registered since the check. The
        transaction has appended its events.
        """
        found = transaction.places.holders(self.texts, self.above, HOLDERS_MAX)
        is_known = SERVER in self.known or (
            len(found) <= HOLDERS_MAX and self.known.issuperset(_secured(each) for each in found)
        )
        if not is_known:
            raise AccessDeniedError(
                "another object was registered in the location, at it or around it meanwhile: repeat the call, or "
                "choose another location"
            )


@dataclass(frozen=True, slots=True)
class ChosenPlaces:
    """Places that a caller has been allowed to choose for one object; `places` is None for the system's calls, which
    may choose any. `checked` are the places as they were found.
    """

    rights: Rights
    places: frozenset[str] | None = None
    checked: tuple[CheckedPlace, ...] = ()

    def check(self, location: str | None, before: str | None = None) -> None:
        """Raise AccessDeniedError for a new location that the caller was not asked about."""
        if self.places is None or location is None or location == before:
            return
        if place_text(location) not in self.places:
            raise denied(self.rights.caller, (Privilege.LOCATION,), self.rights.on)

    def check_again(self, transaction: Transaction) -> None:
        """Raise AccessDeniedError for an object that was registered in one of the places since they were checked. The
        transaction has appended its events.
        """
        for each in self.checked:
            each.check_again(transaction)


def choose(
    access: AccessGuard,
    store: Repository,
    guard: DeletionGuard,
    rights: Rights,
    locations: Iterable[str],
    own: Collection[SecuredObject] = (),
) -> ChosenPlaces:
    """Return those of a caller's locations that it may choose: with the privilege LOCATION in `rights`, and where no
    other object than those of `own` is that the caller may not alter.
    """
    if rights.granted is None:
        return ChosenPlaces(rights)
    given = list(dict.fromkeys(locations))
    if not given or not rights.has(Privilege.LOCATION):
        return ChosenPlaces(rights, frozenset())
    checked = tuple(check_not_of_others(access, store, guard, each, own) for each in given)
    return ChosenPlaces(rights, frozenset(text for each in given if (text := place_text(each)) is not None), checked)


def check_not_of_others(
    access: AccessGuard,
    store: Repository,
    guard: DeletionGuard,
    location: str,
    own: Collection[SecuredObject] = (),
    *,
    any_of: AnyOf = (Privilege.ALTER,),
) -> CheckedPlace:
    """Raise AccessDeniedError for a location with an object, besides those of `own`, on which the caller has none of
    some privileges. Return what was found, for the transaction.
    """
    caller = getattr(access.caller(), "name", "")
    compared = guard.compared(location)
    if compared is None:
        raise InvalidObjectError("the location cannot be compared with those of other objects")
    texts, above = compared
    found = store.read(lambda transaction: transaction.places.holders(texts, above, HOLDERS_MAX))
    others = {_secured(each) for each in found}.difference(own)
    if len(found) > HOLDERS_MAX:
        others.add(SERVER)
    if others and not access.may(any_of, *sorted(others, key=str)):
        raise AccessDeniedError(
            f"the location is in the directory of another object, or holds one, on which {caller} lacks the privilege "
            f"{' or '.join(any_of)}; choose another location"
        )
    return CheckedPlace(texts, above, frozenset((*others, *own)))


def _secured(holder: tuple[str, str, str | None]) -> SecuredObject:
    catalog, database, table = holder
    return database_object(catalog, database) if table is None else table_object(catalog, database, table)


def is_default(location: str, default: str) -> bool:
    """Return whether a location is the default one of a new object, or one that the server made of it."""
    given, known = place_text(location) or location, place_text(default) or default
    return given == known or (given.startswith(known) and _BY_SERVER.fullmatch(given[len(known) :]) is not None)


def is_inside(location: str | None, directory: str | None) -> bool:
    """Return whether a location is a directory, or lies in it; links count as what they lead to."""
    if location is None or directory is None:
        return False
    inner, outer = directory_at(location), directory_at(directory)
    if inner is None or outer is None:
        return False
    return is_at_or_below(inner.place.text, outer.place.text) and is_at_or_below(inner.real.text, outer.real.text)


def skew_locations(storage: StorageDescriptor | None) -> Iterator[str]:
    """Yield the locations of frequent values."""
    if storage is not None and storage.skew is not None:
        for _, location in storage.skew.locations:
            yield location


def further_locations(table: MetastoreTable, location: str | None, before: MetastoreTable | None = None) -> list[str]:
    """Return the files and directories that an entry names beside its location and outside of it, and did not name
    before.
    """
    known = set() if before is None else set(_named(before))
    return [each for each in _named(table) if each not in known and not is_inside(each, location)]


def _named(table: MetastoreTable) -> Iterator[str]:
    yield from skew_locations(table.storage)
    for key in _PLACE_PARAMETERS:
        if table.parameters.get(key):
            yield table.parameters[key]
    serde = None if table.storage is None else table.storage.serde
    if serde is not None and serde.parameters and serde.parameters.get(_SPARK_PATH):
        yield serde.parameters[_SPARK_PATH]


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
