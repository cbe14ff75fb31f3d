"""Names of namespaces and tables, tokens of pages, and the errors of the interface.

A namespace is a database of the catalog that the prefix names. Hive's databases have one level: a namespace of several
levels is the database whose name has the levels with a separator between them, `sales$eu` for `sales.eu`. Each name of
a database is that of one namespace, and no level of a new namespace has the separator in it. Names are stored in lower
case, as everywhere in the metastore. Other characters than Hive's are allowed: directories have them escaped.

Errors have the JSON and the types of Iceberg's REST specification (`IcebergErrorResponse` and the responses of each
operation), and Iceberg's texts, which clients compare.
"""

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus

import msgspec

from interbed.catalog.server.rest.iceberg.metadata.parts import OutdatedSnapshotError
from interbed.catalog.server.rest.iceberg.metadata.schemas import InvalidMetadataError
from interbed.catalog.server.rest.iceberg.metadata.updates import RequirementFailedError
from interbed.catalog.server.rest.interface import RestError, RestRequest
from interbed.catalog.server.service.directories.locations import InvalidLocationError
from interbed.catalog.server.service.directories.remote_files import StoreUnavailableError
from interbed.catalog.server.service.errors import (
    AccessDeniedError,
    AccessUnavailableError,
    AlreadyExistsError,
    InvalidObjectError,
    InvalidOperationError,
    MetastoreError,
    NoSuchObjectError,
    OutcomeUnknownError,
    StoreAccessError,
    UnknownDatabaseError,
    UnstorableTextError,
    is_of_a_store,
)
from interbed.catalog.server.service.names import (
    NAME_LENGTH_MAX,
    TABLE_NAME_LENGTH_MAX,
    is_valid_name,
    normalized,
    shortened,
)
from interbed.catalog.server.service.tables.pointers import PointerMovedError, TableLockedError
from interbed.catalog.server.thrift.edge.call import Scope, database_scope, tables_scope

_KINDS: dict[type[Exception], tuple[HTTPStatus, str]] = {
    AccessDeniedError: (HTTPStatus.FORBIDDEN, "ForbiddenException"),
    AccessUnavailableError: (HTTPStatus.SERVICE_UNAVAILABLE, "ServiceUnavailableException"),
    InvalidMetadataError: (HTTPStatus.BAD_REQUEST, "IllegalArgumentException"),
    RequirementFailedError: (HTTPStatus.CONFLICT, "CommitFailedException"),
    PointerMovedError: (HTTPStatus.CONFLICT, "CommitFailedException"),
    TableLockedError: (HTTPStatus.CONFLICT, "CommitFailedException"),
    OutcomeUnknownError: (HTTPStatus.INTERNAL_SERVER_ERROR, "CommitStateUnknownException"),
    StoreUnavailableError: (HTTPStatus.SERVICE_UNAVAILABLE, "ServiceUnavailableException"),
    StoreAccessError: (HTTPStatus.SERVICE_UNAVAILABLE, "ServiceUnavailableException"),
    InvalidLocationError: (HTTPStatus.BAD_REQUEST, "BadRequestException"),
    InvalidObjectError: (HTTPStatus.BAD_REQUEST, "BadRequestException"),
    InvalidOperationError: (HTTPStatus.BAD_REQUEST, "BadRequestException"),
    UnstorableTextError: (HTTPStatus.BAD_REQUEST, "BadRequestException"),
    AlreadyExistsError: (HTTPStatus.CONFLICT, "AlreadyExistsException"),
    NoSuchObjectError: (HTTPStatus.NOT_FOUND, "NoSuchTableException"),
    UnknownDatabaseError: (HTTPStatus.NOT_FOUND, "NoSuchNamespaceException"),
}


REFUSALS: tuple[type[Exception], ...] = (RestError, OutdatedSnapshotError, *_KINDS, MetastoreError, OSError)
"""Exceptions of handlers that may be a refusal."""


def error_body(error: RestError) -> object:
    """Return the JSON of an error."""
    return {"error": {"message": str(error), "type": error.kind, "code": int(error.status), **error.fields}}


def translated(error: Exception) -> RestError | None:
    """Return the error for an exception of a handler, None for an internal error."""
    if isinstance(error, OutdatedSnapshotError):
        return RestError(HTTPStatus.CONFLICT, "CommitFailedException", f"Validation failed, please retry: {error}")
    if isinstance(error, RecursionError):
        return bad_request("The request, or the metadata of the table, are nested too deeply")
    for kind in type(error).__mro__:
        if kind in _KINDS:
            status, name = _KINDS[kind]
            return RestError(status, name, str(error))
    return unavailable(str(error)) if is_of_a_store(error) else None


def bad_request(message: str) -> RestError:
    """Return the error for a malformed request."""
    return RestError(HTTPStatus.BAD_REQUEST, "BadRequestException", message)


def unavailable(message: str) -> RestError:
    """Return the error for a request that the server cannot carry out at present, and that has changed nothing."""
    return RestError(HTTPStatus.SERVICE_UNAVAILABLE, "ServiceUnavailableException", message)


def no_namespace(name: str) -> RestError:
    """Return the error for a missing namespace."""
    return RestError(HTTPStatus.NOT_FOUND, "NoSuchNamespaceException", f"Namespace does not exist: {name}")


def no_table(name: object) -> RestError:
    """Return the error for a missing table."""
    return RestError(HTTPStatus.NOT_FOUND, "NoSuchTableException", f"Table does not exist: {name}")


def no_view(name: object) -> RestError:
    """Return the error for a missing view."""
    return RestError(HTTPStatus.NOT_FOUND, "NoSuchViewException", f"View does not exist: {name}")


def exists(message: str) -> RestError:
    """Return the error for a name that is taken."""
    return RestError(HTTPStatus.CONFLICT, "AlreadyExistsException", message)


def read_only(name: object, reason: str) -> RestError:
    """Return the error for a change of a table that this interface only reads."""
    return RestError(HTTPStatus.FORBIDDEN, "ForbiddenException", f"The table {name} cannot be changed here: {reason}")


SEPARATOR = "\x1f"
"""The character between the levels of a namespace in a path."""

DATABASE_SEPARATOR = "$"
"""What is between the levels of a namespace in the name of its database, which no name of Hive has."""


class IcebergIdentifier(msgspec.Struct, frozen=True):
    """A name of a table or view in JSON."""

    namespace: list[str]
    name: str


@dataclass(frozen=True, slots=True)
class NamespaceMapping:
    """The names of the databases of namespaces; with an empty separator all namespaces have one level."""

    separator: str = DATABASE_SEPARATOR

    def database(self, levels: Sequence[str]) -> str | None:
        """Return the stored name of a namespace's database, None for a namespace that no database has."""
        parts = _normalized(levels)
        name = self.separator.join(parts)
        return name if name and self.levels(name) == parts else None

    def levels(self, database: str) -> tuple[str, ...]:
        """Return the levels of a database's namespace. A name with an empty level in it is one level."""
        parts = tuple(database.split(self.separator)) if self.separator else (database,)
        return parts if all(parts) and _normalized(parts) == parts else (database,)

    def below(self, databases: Iterable[str], levels: Sequence[str]) -> list[tuple[str, ...]]:
        """Return the namespaces one level below a namespace, or those of one level below none, in order.

        One that has only namespaces below it, and no database, is among them.
        """
        parts, depth = _normalized(levels), len(levels)
        found = (self.levels(name) for name in databases)
        return sorted({each[: depth + 1] for each in found if len(each) > depth and each[:depth] == parts})

    def check_new(self, levels: Sequence[str]) -> str:
        """Return the name of the database of a new namespace. RestError with status 400 for one that none may have."""
        shown = shortened(".".join(levels))
        if len(levels) != 1 and not self.separator:
            raise RestError(
                HTTPStatus.BAD_REQUEST,
                "IllegalArgumentException",
                f"Cannot support multi part namespace in Hive Metastore: {shown}; a namespace has one level, because "
                "the server's setting iceberg_namespace_separator is empty",
            )
        if self.separator and any(self.separator in level for level in levels):
            raise bad_request(
                f"{shown!r} is not a valid name of a namespace: a level has {self.separator!r} in it, which separates "
                "levels in the names of databases"
            )
        name = self.separator.join(levels)
        # Thrift's clients write `@catalog#database` for a database of another catalog.
        is_of_catalog = name.startswith("@") and "#" in name
        is_storable = len(name) <= NAME_LENGTH_MAX and all(_is_storable(each, NAME_LENGTH_MAX) for each in levels)
        if is_of_catalog or not (is_valid_name(name) or is_storable) or self.database(levels) is None:
            raise bad_request(f"{shown!r} is not a valid name of a namespace")
        return self.separator.join(_normalized(levels))

    def named(self, request: RestRequest, name: str) -> "IcebergName":
        """Return the name of a table or view in the namespace of the path."""
        levels = levels_of(request.parts["namespace"])
        return IcebergName(catalog=catalog_of(request), levels=levels, name=name, mapping=self)

    def table_of(self, request: RestRequest, part: str = "table") -> "IcebergName":
        """Return the table, or the view, that the path names."""
        return self.named(request, request.parts[part])

    def identified(self, request: RestRequest, identifier: IcebergIdentifier) -> "IcebergName":
        """Return the table that an identifier in the body names."""
        levels = tuple(identifier.namespace)
        return IcebergName(catalog=catalog_of(request), levels=levels, name=identifier.name, mapping=self)

    def table_scope(self, request: RestRequest) -> Scope:
        """Return the scope of the answers about one table."""
        name = self.table_of(request)
        return (name.catalog, name.database, name.table)

    def view_scope(self, request: RestRequest) -> Scope:
        """Return the scope of the answers about one view."""
        name = self.table_of(request, "view")
        return (name.catalog, name.database, name.table)

    def list_scope(self, request: RestRequest) -> Scope:
        """Return the scope of the lists of a namespace's tables and views."""
        return tables_scope(*self._database_of(request))

    def namespace_scope(self, request: RestRequest) -> Scope:
        """Return the scope of the answers about a namespace that has a database."""
        return database_scope(*self._database_of(request))

    def _database_of(self, request: RestRequest) -> tuple[str, str]:
        return catalog_of(request), self.database(levels_of(request.parts["namespace"])) or ""


def _normalized(levels: Sequence[str]) -> tuple[str, ...]:
    return tuple(normalized(each) for each in levels)


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergName:
    """The name of a table or view in a request: `levels` are those of its namespace, as the client writes them."""

    catalog: str
    levels: tuple[str, ...]
    name: str
    mapping: NamespaceMapping = field(default_factory=NamespaceMapping)
    _stored: str | None = field(init=False, compare=False, repr=False)
    table: str = field(init=False, compare=False, repr=False)
    """The name of the table, as it is stored."""

    def __post_init__(self) -> None:
        """Compute the stored names, which each step of a request uses."""
        object.__setattr__(self, "_stored", self.mapping.database(self.levels))
        object.__setattr__(self, "table", normalized(self.name))

    @property
    def namespace(self) -> str:
        """The namespace as text for messages."""
        return ".".join(self.levels)

    @property
    def has_database(self) -> bool:
        """Whether a database may have this namespace."""
        return self._stored is not None

    @property
    def database(self) -> str:
        """The name of the database, as it is stored."""
        return self._stored or ""

    def __str__(self) -> str:
        return shortened(f"{self.namespace}.{self.name}")

    def json(self) -> dict[str, object]:
        """Return the identifier in JSON."""
        return {"namespace": list(self.levels), "name": self.name}


def levels_of(text: str) -> tuple[str, ...]:
    """Return the levels of a namespace in a path or a parameter."""
    return tuple(text.split(SEPARATOR))


def catalog_of(request: RestRequest) -> str:
    """Return the name of the catalog that the path names."""
    return normalized(request.parts["prefix"])


def check_new_table(name: IcebergName) -> None:
    """Raise RestError with status 400 for a name that no table may have."""
    if not _is_storable(name.name, TABLE_NAME_LENGTH_MAX):
        raise bad_request(f"{shortened(name.name)!r} is not a valid name of a table or view")


def _is_storable(name: str, length_max: int) -> bool:
    has_control = any(unicodedata.category(char) in ("Cc", "Cs") for char in name)
    return 0 < len(name) <= length_max and name.strip() == name and not has_control and name not in (".", "..")


def page_of(query: Mapping[str, str]) -> tuple[str | None, int | None]:
    """Return the last name of the previous page and the size of the page, None without them.

    RestError with status 400 for a size that is no positive number.
    """
    text = query.get("pageSize")
    if not text:
        return query.get("pageToken") or None, None
    if not text.isascii() or not text.isdecimal() or int(text[:9]) < 1:
        raise bad_request(f"The pageSize is {shortened(text)!r}, which is no positive number")
    return query.get("pageToken") or None, int(text[:9])
