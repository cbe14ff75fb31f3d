"""Directories that callers choose: not those of objects that they may not change.

Places are compared by their canonical texts, with symbolic links resolved, as the guard of deletions does. A place is
that of another object if this is registered in it, at it or below it, or if the place lies in a table or in the
directory of a database other than that of the warehouse. Errors do not name these objects, since the caller may not
see them.

Authorizers are asked before the transaction. Other callers may register objects in between, so that the transaction
looks again at the end (`check_again`). All changes of objects append events, one transaction after the other: the later
one of two that register objects in each other's directories sees the first.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace

from interbed.catalog.server.service.access.guard import AccessGuard, AnyOf, Rights, denied
from interbed.catalog.server.service.access.objects import (
    SERVER,
    Privilege,
    SecuredObject,
    database_object,
    table_object,
)
from interbed.catalog.server.service.directories.guard import DeletionGuard, directory_at
from interbed.catalog.server.service.directories.locations import is_at_or_below, place_text
from interbed.catalog.server.service.errors import AccessDeniedError, InvalidObjectError
from interbed.catalog.server.service.model import ICEBERG_METADATA, MetastoreTable, StorageDescriptor
from interbed.catalog.server.service.repository import Repository, Transaction

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
