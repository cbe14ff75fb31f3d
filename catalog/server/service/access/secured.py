"""Declarations of what the methods of services need, and a repository in which the objects that the caller may not see
are missing. A test fails for a public method without a declaration.

`secured` asks before the method runs. `secured_inside` and `filtered` say what a method checks by itself: because it
depends on stored values, or because the answer is a list.

The secured methods name the objects that the caller does not see for the length of a call. Services find no row of
them, and answer as for objects that do not exist, whatever their errors for these are.
"""

import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from interbed.catalog.server.service.access.guard import OPEN_ACCESS, AccessGuard, AnyOf, Requirement
from interbed.catalog.server.service.access.objects import (
    SERVER,
    Privilege,
    SecuredObject,
    catalog_object,
    column_object,
    database_object,
    function_object,
    table_object,
)
from interbed.catalog.server.service.model import Constraint
from interbed.catalog.server.service.names import normalized
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

    def page(self, catalog: str, database: str, *rest: Any) -> list[Any]:
        found = self._whole.page(catalog, database, *rest)
        return [each for each in found if not self._hides(table_object(catalog, database, each.name))]

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


P = ParamSpec("P")
R = TypeVar("R")

Arguments = Mapping[str, Any]
ObjectsOf = Callable[[Arguments], Iterable[SecuredObject]]

_DECLARED: dict[tuple[str, str], str] = {}


class SecuredService:
    """A service whose methods ask a guard."""

    _access: AccessGuard = OPEN_ACCESS

    def secure(self, access: AccessGuard) -> None:
        """Have the methods ask this guard."""
        self._access = access


S = TypeVar("S", bound=SecuredService)


@dataclass(frozen=True, slots=True)
class DeclaredNeed:
    """One of some privileges on the objects of a call; without any, the caller has to see them."""

    any_of: AnyOf
    what: str
    objects: ObjectsOf

    def __str__(self) -> str:
        return f"{' or '.join(self.any_of) or 'sees'}: {self.what}"


def needs(any_of: Privilege | AnyOf | None, objects: ObjectsOf) -> DeclaredNeed:
    """Return what a method needs."""
    privileges = () if any_of is None else (any_of,) if isinstance(any_of, Privilege) else any_of
    return DeclaredNeed(privileges, objects.__name__.replace("_", " "), objects)


def secured(*required: DeclaredNeed) -> Callable[[Callable[Concatenate[S, P], R]], Callable[Concatenate[S, P], R]]:
    """Declare what a method needs, and ask for it before the method runs."""

    def decorate(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
        parameters = list(inspect.signature(method).parameters.values())[1:]
        names = [each.name for each in parameters]
        defaults = {each.name: each.default for each in parameters if each.default is not inspect.Parameter.empty}

        @wraps(method)
        def checked(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
            access = self._access
            if access.authorizer is None:
                return method(self, *args, **kwargs)
            arguments = {**defaults, **dict(zip(names, args, strict=False)), **kwargs}
            asked = [Requirement(each.any_of, on) for each in required for on in each.objects(arguments)]
            unseen = access.admit(asked)
            if not unseen:
                return method(self, *args, **kwargs)
            token = hidden_objects.set(hidden_objects.get() | unseen)
            try:
                return method(self, *args, **kwargs)
            finally:
                hidden_objects.reset(token)

        _declare(method, "; ".join(map(str, required)))
        return checked

    return decorate


def secured_inside(text: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Declare what a method requires by its own statements."""
    return _declaring(text)


def filtered(text: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Declare how a method filters its answer."""
    return _declaring(f"filtered: {text}")


def unsecured(reason: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Declare that a method needs nothing, and why."""
    return _declaring(f"nothing: {reason}")


def declaration_of(method: Callable[..., object]) -> str | None:
    """Return what a method is declared to need; None if it has no declaration."""
    return _DECLARED.get((method.__module__, method.__qualname__))


def _declaring(text: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    def decorate(method: Callable[P, R]) -> Callable[P, R]:
        _declare(method, text)
        return method

    return decorate


def _declare(method: Callable[..., object], text: str) -> None:
    _DECLARED[method.__module__, method.__qualname__] = text


# The objects of a call, by the names of the method's parameters.


def the_server(_arguments: Arguments) -> Iterable[SecuredObject]:
    """Return the server as the object."""
    return (SERVER,)


def the_catalog(arguments: Arguments) -> Iterable[SecuredObject]:
    """Return the catalog `name`."""
    return (catalog_object(normalized(arguments["name"])),)


def the_database(arguments: Arguments) -> Iterable[SecuredObject]:
    """Return the database `name` of a catalog."""
    return (database_object(arguments["catalog"], normalized(arguments["name"])),)


def the_table(arguments: Arguments) -> Iterable[SecuredObject]:
    """Return the table `name`, or `table`, of a database."""
    name = arguments["name"] if "table" not in arguments else arguments["table"]
    return (table_object(arguments["catalog"], normalized(arguments["database"]), normalized(name)),)


def a_column_of_the_table(arguments: Arguments) -> Iterable[SecuredObject]:
    """Return any column of the table `name`, or `table`, of a database."""
    return [column_object(each, None) for each in the_table(arguments)]


def a_column_of_the_table_of_the_key(arguments: Arguments) -> Iterable[SecuredObject]:
    """Return any column of the table of a key."""
    return [column_object(each, None) for each in the_table_of_the_key(arguments)]


def the_table_of_the_key(arguments: Arguments) -> Iterable[SecuredObject]:
    """Return the table of a key."""
    return (table_of(arguments["key"]),)


def the_function(arguments: Arguments) -> Iterable[SecuredObject]:
    """Return the function `name` of a database."""
    return (function_object(arguments["catalog"], normalized(arguments["database"]), normalized(arguments["name"])),)


def table_of(key: tuple[str, str, str]) -> SecuredObject:
    """Return the table of a key."""
    catalog, database, name = key
    return table_object(catalog, normalized(database), normalized(name))
