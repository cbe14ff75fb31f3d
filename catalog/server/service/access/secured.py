"""Declarations of what the methods of services need. A test fails for a public method without one.

`secured` asks before the method runs. Objects that the caller does not see are missing while it runs (hiding.py).
`secured_inside` and `filtered` say what a method checks by itself: because it depends on stored values, or because the
answer is a list.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from interbed.catalog.server.service.access.guard import OPEN_ACCESS, AccessGuard, AnyOf, Requirement
from interbed.catalog.server.service.access.hiding import hidden_objects
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
from interbed.catalog.server.service.names import normalized

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
