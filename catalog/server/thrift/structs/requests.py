"""Checks of all requests: required parts, projections, the environment context, and privileges; and the exceptions of
refused ones.

Java's decoder refuses a structure without the fields that Hive's interface definition calls required. The decoder used
here, in C, leaves None in their place. `parts_of` finds missing ones in the whole request, before any of it is
converted.

A projection lists the fields of an object that a client requests, by dotted names (`sd.serdeInfo.name`), and patterns
of its parameters. Patterns are SQL's: `%` matches any text and `_` one character. Without a list of fields everything
is sent. A projection of tables is answered as by Hive: without patterns of parameters unless there are fields, as whole
tables if a field with many values is among those requested, and with the times in any case.

An environment context holds additional properties, such as `ifPurge`.

Engines send privileges of the owner with each table that they create (Trino always, Hive by
`hive.security.authorization.createtable.owner.grants`). The owner of a table may do everything, as every client may,
so these change nothing. Privileges of others are refused, because they are not stored.

An error of the rules becomes an exception that the called method declares. A client decodes only the exceptions that
its interface definition lists for the method, and treats any other as a broken reply. So each error has a list of
exceptions, best first; the first that the method declares is sent. In a few places Hive raises an exception that the
method does not declare (`UndeclaredError`): clients see an internal error (TApplicationException), and Hive's own
expect it.
"""

import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from thrift.protocol.TProtocol import TProtocolException
from thrift.Thrift import TType

from interbed.catalog.server.service.errors import (
    AccessDeniedError,
    AlreadyExistsError,
    ConfigValueError,
    InvalidArgumentError,
    InvalidObjectError,
    InvalidOperationError,
    InvalidPartitionError,
    MetastoreError,
    NoSuchLockError,
    NoSuchObjectError,
    NoSuchTransactionError,
    UnknownDatabaseError,
)
from interbed.catalog.server.service.names import LISTED_MAX, check_number, check_pattern_length, shortened
from interbed.storage.base.shown_text import without_credentials
from interbed.thrift_idl.hive_metastore import ttypes

_UNSET = "Required field "

# Hive 2's clients send the field under another number, which a newer Hive gave to an optional one.
_RENUMBERED = {"InsertEventRequestData": {"filesAdded"}}

_Values = Callable[[Any], Iterable[Any]]

_guard = threading.Lock()

_PURGE = "ifPurge"
_SKIP_DATA = "truncateSkipDataDeletion"

NO_PRIVILEGES = "privileges are not kept: every client may do everything, access is limited by connection"

_Tree = dict[str, "_Tree"]

FIELD_CHARACTERS_MAX = 256
"""Characters in a dotted name of a field; Hive's structures have names of 50."""

_MANY_VALUED = frozenset(
    (
        "values",
        "parameters",
        "partitionKeys",
        "sd.bucketCols",
        "sd.cols",
        "sd.parameters",
        "sd.serdeInfo.parameters",
        "sd.skewedInfo",
        "sd.sortCols",
    )
)
"""Fields of a table that are lists or maps; their inner fields count, too."""

_ALWAYS_SENT = ("createTime", "lastAccessTime", "retention")


class IncompleteRequestError(Exception):
    """A structure lacks a required part."""


class RequiredParts:
    """The required fields of a class of Thrift structures, and of nested structures."""

    __slots__ = ("_inner", "_names")

    def __init__(self, structure: Any, known: "dict[Any, RequiredParts]") -> None:
        # Set first: a table may hold another one.
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
        """Remove parts in which nothing is required; return whether there were any."""
        kept = [each for each in self._inner if each[1]._names or each[1]._inner]
        has_changed = len(kept) < len(self._inner)
        self._inner = kept
        return has_changed

    def check(self, structure: Any) -> None:
        """Raise IncompleteRequestError with the dotted name of the first missing part."""
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


def parts_of(structure: Any) -> RequiredParts:
    """Return the required parts of a class of structures."""
    with _guard:
        if structure not in _known:
            RequiredParts(structure, _known)
            while any(each.prune() for each in _known.values()):
                # A structure may hold one that has become empty.
                pass
        return _known[structure]


def _required_names(structure: Any) -> tuple[str, ...]:
    """Return the required fields; the generated code has them in `validate` alone, which names one at a time."""
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
    """Yield the classes of structures in a field of a kind, each with a function that finds them in its value."""
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


def context_properties(context: Any) -> dict[str, str]:
    """Return the properties of an EnvironmentContext structure, none if it is absent."""
    return dict(getattr(context, "properties", None) or {})


def is_purge(context: Any) -> bool:
    """Return whether files are to be deleted rather than moved to the trash (DROP ... PURGE)."""
    return context_properties(context).get(_PURGE, "").lower() == "true"


def skips_data(context: Any) -> bool:
    """Return whether a table is truncated without its files: the client has removed the rows, as Hive 4 does for tables
    of Iceberg.
    """
    return context_properties(context).get(_SKIP_DATA, "").lower() == "true"


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


class Projection:
    """A GetProjectionsSpec structure, compiled for many objects; None selects everything.

    MetastoreError for an unknown field, when the first object is projected.
    """

    def __init__(self, spec: Any) -> None:
        self._tree = _tree(() if spec is None else spec.fieldList or ())
        self._included = None if spec is None else _matcher(spec.includeParamKeyPattern)
        self._excluded = None if spec is None else _matcher(spec.excludeParamKeyPattern)

    def of(self, structure: Any) -> Any:
        """Reduce the structure in place to the selected fields and return it."""
        if self._tree:
            structure = _projected(structure, self._tree)
        parameters = structure.parameters
        if parameters is not None and (self._included is not None or self._excluded is not None):
            structure.parameters = {key: value for key, value in parameters.items() if self._wants(key)}
        return structure

    def _wants(self, key: str) -> bool:
        if self._included is not None and self._included.fullmatch(key) is None:
            return False
        return self._excluded is None or self._excluded.fullmatch(key) is None


def table_projection(spec: Any) -> Projection:
    """Return a projection of tables. InvalidOperationError for patterns without fields; MetastoreError as
    Projection.
    """
    if spec is None:
        return Projection(None)
    if spec.fieldList is None and (spec.includeParamKeyPattern is not None or spec.excludeParamKeyPattern is not None):
        raise InvalidOperationError("Include and Exclude Param key are not supported.")
    fields = list(spec.fieldList or ())
    # Checked also where the whole table is sent.
    check_fields(ttypes.Table, fields)
    if any(field in _MANY_VALUED or field.rpartition(".")[0] in _MANY_VALUED for field in fields):
        fields = []
    wanted = [*fields, *_ALWAYS_SENT] if fields else []
    return Projection(
        ttypes.GetProjectionsSpec(
            fieldList=wanted,
            includeParamKeyPattern=spec.includeParamKeyPattern,
            excludeParamKeyPattern=spec.excludeParamKeyPattern,
        )
    )


def _tree(fields: Sequence[str]) -> _Tree:
    check_number("fields", len(fields), LISTED_MAX)
    tree: _Tree = {}
    for field in fields:
        if len(field) > FIELD_CHARACTERS_MAX:
            raise MetastoreError(f"Invalid field name: {shortened(field)}")
        node = tree
        for part in field.split("."):
            node = node.setdefault(part, {})
    return tree


def check_fields(structure: Any, fields: Sequence[str]) -> None:
    """Raise MetastoreError if a structure, or a nested one, has no field of one of the names."""
    _check(structure, _tree(fields))


def _check(structure: Any, tree: _Tree) -> None:
    known = {field[2]: field for field in structure.thrift_spec if field is not None}
    for name, inner in tree.items():
        if name not in known:
            raise MetastoreError(f"Invalid field name: {shortened(name)}")
        field = known[name]
        if inner and field[1] == TType.STRUCT:
            _check(field[3][0], inner)
        elif inner and field[1] == TType.LIST and field[3][0] == TType.STRUCT:
            _check(field[3][1][0], inner)


def _projected(structure: Any, tree: _Tree) -> Any:
    known = {field[2]: field for field in structure.thrift_spec if field is not None}
    for name in tree:
        if name not in known:
            raise MetastoreError(f"Invalid field name: {shortened(name)}")
    chosen = type(structure)()
    for name, field in known.items():
        value = getattr(structure, name) if name in tree else None
        inner = tree.get(name)
        if inner and value is not None:
            if field[1] == TType.STRUCT:
                value = _projected(value, inner)
            elif field[1] == TType.LIST and field[3][0] == TType.STRUCT:
                value = [_projected(each, inner) for each in value]
        setattr(chosen, name, value)
    return chosen


def _matcher(pattern: str | None) -> re.Pattern[str] | None:
    if not pattern:
        return None
    check_pattern_length(pattern)
    # Each part between two stars is an atomic group, so that no pattern takes more than quadratic time.
    parts = ["".join("." if char == "_" else re.escape(char) for char in part) for part in pattern.split("%")]
    if len(parts) == 1:
        return re.compile(parts[0], re.DOTALL)
    middle = "".join(f"(?>.*?{part})" for part in parts[1:-1])
    return re.compile(f"{parts[0]}{middle}.*{parts[-1]}", re.DOTALL)


class UndeclaredError(MetastoreError):
    """A request is refused where Hive's clients expect an internal error; nothing has failed in the server."""


def shown_message(error: Exception) -> str:
    """Return the text of an error for a client: a location in it has no credentials."""
    return without_credentials(str(error))


_PREFERENCES: dict[type[MetastoreError], tuple[Any, ...]] = {
    AccessDeniedError: (
        ttypes.MetaException,
        ttypes.InvalidOperationException,
        ttypes.InvalidObjectException,
        ttypes.NoSuchObjectException,
    ),
    NoSuchObjectError: (
        ttypes.NoSuchObjectException,
        ttypes.UnknownTableException,
        ttypes.InvalidOperationException,
        ttypes.InvalidObjectException,
    ),
    UnknownDatabaseError: (ttypes.UnknownDBException, ttypes.NoSuchObjectException),
    AlreadyExistsError: (ttypes.AlreadyExistsException, ttypes.InvalidOperationException),
    InvalidObjectError: (ttypes.InvalidObjectException, ttypes.InvalidOperationException),
    InvalidOperationError: (ttypes.InvalidOperationException,),
    InvalidArgumentError: (ttypes.InvalidInputException,),
    InvalidPartitionError: (ttypes.InvalidPartitionException,),
    NoSuchLockError: (ttypes.NoSuchLockException,),
    NoSuchTransactionError: (ttypes.NoSuchTxnException,),
    ConfigValueError: (ttypes.ConfigValSecurityException,),
}


def declared_exception(error: MetastoreError, declared: dict[Any, str]) -> tuple[str, Any] | None:
    """Return the field of the method's result and the exception for it; None if the method declares none that fits.

    `declared` maps the exception classes of the method to the names of their fields.
    """
    if isinstance(error, UndeclaredError):
        return None
    for kind in type(error).__mro__:
        for exception in _PREFERENCES.get(kind, ()):
            if exception in declared:
                return declared[exception], exception(message=shown_message(error))
    if ttypes.MetaException in declared:
        return declared[ttypes.MetaException], ttypes.MetaException(message=shown_message(error))
    return None
