"""What is common to requests: required parts, the environment context, and privileges.

Java's decoder refuses a structure without the fields that Hive's interface definition calls required. The decoder used
here, in C, leaves None in their place. `parts_of` finds missing ones in the whole request, before anything of it is
converted. An environment context holds properties beside the arguments, such as `ifPurge`.

Engines send privileges of the owner with each table that they create (Trino always, Hive by
`hive.security.authorization.createtable.owner.grants`). The owner of a table may do everything, as every client may,
so these change nothing. Privileges of others are refused, because they are not kept.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from thrift.protocol.TProtocol import TProtocolException
from thrift.Thrift import TType

from interbed.catalog.server.service.errors import MetastoreError

_UNSET = "Required field "

# Hive 2's clients send the field under another number, which a newer Hive gave to an optional one.
_RENUMBERED = {"InsertEventRequestData": {"filesAdded"}}

_Values = Callable[[Any], Iterable[Any]]


class IncompleteRequestError(Exception):
    """A structure lacks a part."""


class RequiredParts:
    """The required fields of a class of Thrift structures, and of what it may hold."""

    __slots__ = ("_inner", "_names")

    def __init__(self, structure: Any, known: "dict[Any, RequiredParts]") -> None:
        # First of all: a table may hold another one.
        known[structure] = self
        renumbered = _RENUMBERED.get(structure.__name__, set())
        self._names = tuple(name for name in _required_names(structure) if name not in renumbered)
        self._inner: list[tuple[str, RequiredParts, _Values]] = []
        for field in structure.thrift_spec or ():
            if field:
                for held, values in _structures(field[1], field[3]):
                    parts = known.get(held) or RequiredParts(held, known)
                    self._inner.append((field[2], parts, values))

    def prune(self) -> bool:
        """Forget parts in which nothing is required; whether there were any."""
        kept = [each for each in self._inner if each[1]._names or each[1]._inner]
        has_changed = len(kept) < len(self._inner)
        self._inner = kept
        return has_changed

    def check(self, structure: Any) -> None:
        """IncompleteRequestError names the first part that a structure lacks, with dots."""
        for name in self._names:
            if getattr(structure, name) is None:
                raise IncompleteRequestError(name)
        for name, parts, values in self._inner:
            held = getattr(structure, name)
            if held is None:
                continue
            try:
                # The decoder lets structures be nested 64 times.
                for each in values(held):
                    parts.check(each)
            except IncompleteRequestError as error:
                raise IncompleteRequestError(f"{name}.{error}") from None


_known: dict[Any, RequiredParts] = {}
_guard = threading.Lock()


def parts_of(structure: Any) -> RequiredParts:
    """The required parts of a class of structures."""
    with _guard:
        if structure not in _known:
            RequiredParts(structure, _known)
            while any(each.prune() for each in _known.values()):
                # A structure may hold one that has become empty.
                pass
        return _known[structure]


def _required_names(structure: Any) -> tuple[str, ...]:
    """The generated code keeps them in `validate` alone, which names one at a time."""
    probe = structure()
    for field in structure.thrift_spec or ():
        if field:
            setattr(probe, field[2], None)
    names: list[str] = []
    while True:
        try:
            probe.validate()
        except TProtocolException as error:
            name = str(error.args[0]).removeprefix(_UNSET).partition(" ")[0]
            names.append(name)
            setattr(probe, name, "")
        else:
            return tuple(names)


def _structures(kind: int, spec: Any) -> Iterator[tuple[Any, _Values]]:
    """The classes of structures that a field of a kind holds, each with how to find them in its value."""
    if kind == TType.STRUCT:
        yield spec[0], lambda value: (value,)
    elif kind in (TType.LIST, TType.SET):
        for held, inner in _structures(spec[0], spec[1]):
            yield held, _flattened(inner)
    elif kind == TType.MAP:
        for held, inner in _structures(spec[2], spec[3]):
            yield held, _of_values(_flattened(inner))


def _flattened(inner: _Values) -> _Values:
    return lambda values: (each for value in values for each in inner(value))


def _of_values(inner: _Values) -> _Values:
    return lambda mapping: inner(mapping.values())


_PURGE = "ifPurge"


def context_properties(context: Any) -> dict[str, str]:
    """The properties of an EnvironmentContext structure, none if it is absent."""
    return dict(getattr(context, "properties", None) or {})


def is_purge(context: Any) -> bool:
    """Whether files are to be deleted rather than moved to the trash (DROP ... PURGE)."""
    return context_properties(context).get(_PURGE, "").lower() == "true"


NO_PRIVILEGES = "privileges are not kept: everybody may do everything, access is limited by who may connect"


def check_only_the_owners(table: Any) -> None:
    """Raise MetastoreError for a Table structure with privileges for others than its owner."""
    given = table.privileges
    if given is None:
        return
    others = [
        *(f"the user {name}" for name, held in (given.userPrivileges or {}).items() if held and name != table.owner),
        *(f"the group {name}" for name, held in (given.groupPrivileges or {}).items() if held),
        *(f"the role {name}" for name, held in (given.rolePrivileges or {}).items() if held),
    ]
    if others:
        raise MetastoreError(f"{table.dbName}.{table.tableName} comes with privileges of {others[0]}: {NO_PRIVILEGES}")
