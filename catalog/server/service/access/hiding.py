"""A repository in which the objects that the caller may not see are missing.

The secured methods of services (secured.py) name these objects for the length of a call. Services find no row of
them, and answer as for objects that do not exist, whatever their errors for these are.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, TypeVar, cast

from interbed.catalog.server.service.access.guard import AccessGuard
from interbed.catalog.server.service.access.objects import (
    SecuredObject,
    catalog_object,
    database_object,
    function_object,
    table_object,
)
from interbed.catalog.server.service.model import Constraint
from interbed.catalog.server.service.repository import DatabasePlaces, Repository, Transaction

T = TypeVar("T")

_IN_USE = "another object is registered there, in it or around it"

hidden_objects: ContextVar[frozenset[SecuredObject]] = ContextVar("hidden_objects", default=frozenset())
"""The objects that do not exist for the caller of the present call, as far as the call names them."""


@contextmanager
def unhidden() -> Iterator[None]:
    """Find hidden objects, too, for an answer that does not show whether they exist."""
    token = hidden_objects.set(frozenset())
    try:
        yield
    finally:
        hidden_objects.reset(token)


class HidingRepository:
    """Repository without the hidden objects of the present call. A client without a principal is refused."""

    def __init__(self, store: Repository, access: AccessGuard) -> None:
        self._store = store
        self._access = access

    @property
    def files(self) -> Sequence[str]:
        """Paths of the local files of the database."""
        return self._store.files

    def read(self, work: Callable[[Transaction], T]) -> T:
        """Run the function on one consistent state."""
        return self._store.read(self._hiding(work))

    def write(self, work: Callable[[Transaction], T]) -> T:
        """Run the function serialized with other writers."""
        return self._store.write(self._hiding(work))

    def close(self) -> None:
        """Close the repository behind it."""
        self._store.close()

    def _hiding(self, work: Callable[[Transaction], T]) -> Callable[[Transaction], T]:
        if self._access.caller() is None:
            return work
        hidden = hidden_objects.get()
        return lambda transaction: work(cast("Transaction", _HidingTransaction(transaction, hidden)))


class _HidingPart:
    """The methods of a part of a transaction, some of them without the hidden objects."""

    def __init__(self, whole: Any, hidden: frozenset[SecuredObject]) -> None:
        self._whole = whole
        self._hidden = hidden

    def __getattr__(self, name: str) -> Any:
        return getattr(self._whole, name)

    def _hides(self, on: SecuredObject) -> bool:
        # Mostly nothing is hidden, and lists are long.
        return bool(self._hidden) and (on in self._hidden or any(each in self._hidden for each in on.containers))


class _HidingTransaction(_HidingPart):
    @property
    def catalogs(self) -> "_HidingCatalogs":
        return _HidingCatalogs(self._whole.catalogs, self._hidden)

    @property
    def databases(self) -> "_HidingDatabases":
        return _HidingDatabases(self._whole.databases, self._hidden)

    @property
    def tables(self) -> "_HidingTables":
        return _HidingTables(self._whole.tables, self._hidden)

    @property
    def functions(self) -> "_HidingFunctions":
        return _HidingFunctions(self._whole.functions, self._hidden)

    @property
    def constraints(self) -> "_HidingConstraints":
        return _HidingConstraints(self._whole.constraints, self._hidden)

    @property
    def places(self) -> "_NamelessPlaces":
        return _NamelessPlaces(self._whole.places, self._hidden)


class _NamelessPlaces(_HidingPart):
    """Places whose objects are not named: errors about a directory must not show what is registered in it."""

    def conflict(self, *arguments: Any, **options: Any) -> str | None:
        return None if self._whole.conflict(*arguments, **options) is None else _IN_USE

    def databases(self, outside: str | None = None) -> list[DatabasePlaces]:
        return [replace(each, what="another database") for each in self._whole.databases(outside)]


class _HidingCatalogs(_HidingPart):
    def find(self, name: str, **options: bool) -> Any:
        return None if self._hides(catalog_object(name)) else self._whole.find(name, **options)

    def names(self) -> list[str]:
        return [name for name in self._whole.names() if not self._hides(catalog_object(name))]


class _HidingDatabases(_HidingPart):
    def find(self, catalog: str, name: str, **options: bool) -> Any:
        return None if self._hides(database_object(catalog, name)) else self._whole.find(catalog, name, **options)

    def names(self, catalog: str) -> list[str]:
        return [name for name in self._whole.names(catalog) if not self._hides(database_object(catalog, name))]


class _HidingTables(_HidingPart):
    def find(self, catalog: str, database: str, name: str, **options: bool) -> Any:
        if self._hides(table_object(catalog, database, name)):
            return None
        return self._whole.find(catalog, database, name, **options)

    def select(self, catalog: str, database: str, names: Sequence[str] | None = None) -> list[Any]:
        found = self._whole.select(catalog, database, names)
        return [each for each in found if not self._hides(table_object(catalog, database, each.name))]

    def names(self, catalog: str, database: str, table_type: str | None = None) -> list[str]:
        return self._shown(catalog, database, self._whole.names(catalog, database, table_type))

    def names_of_kinds(self, catalog: str, database: str, kinds: Collection[Any], *rest: Any) -> list[str]:
        return self._shown(catalog, database, self._whole.names_of_kinds(catalog, database, kinds, *rest))

    def numbered(self, catalog: str, number: int) -> list[tuple[str, str]]:
        found = self._whole.numbered(catalog, number)
        return [each for each in found if not self._hides(table_object(catalog, *each))]

    def metas(self, catalog: str) -> list[Any]:
        found = self._whole.metas(catalog)
        return [each for each in found if not self._hides(table_object(catalog, each.database, each.name))]

    def _shown(self, catalog: str, database: str, names: list[str]) -> list[str]:
        """Return the names of a database's tables that are not hidden."""
        if not self._hidden:
            return names
        return [name for name in names if not self._hides(table_object(catalog, database, name))]


class _HidingFunctions(_HidingPart):
    def find(self, catalog: str, database: str, name: str, **options: bool) -> Any:
        if self._hides(function_object(catalog, database, name)):
            return None
        return self._whole.find(catalog, database, name, **options)

    def select(self, catalog: str, database: str | None = None) -> list[Any]:
        found = self._whole.select(catalog, database)
        return [each for each in found if not self._hides(function_object(catalog, each.database, each.name))]


class _HidingConstraints(_HidingPart):
    def select(self, *arguments: Any, **options: Any) -> list[Constraint]:
        found: list[Constraint] = self._whole.select(*arguments, **options)
        return [each for each in found if not any(map(self._hides, tables_of(each)))]


def tables_of(constraint: Constraint) -> list[SecuredObject]:
    """Return the tables that a constraint is about: its own, and the one that a foreign key refers to."""
    found = [table_object(constraint.catalog, constraint.database, constraint.table)]
    if constraint.parent is not None:
        parent = constraint.parent
        found.append(table_object(parent.catalog, parent.database, parent.table))
    return found
