"""Names of namespaces and tables, and tokens of pages.

A namespace is a database of the catalog that the prefix names. Hive's databases have one level, so that a namespace of
several levels does not exist. Names are stored in lower case, as everywhere in the metastore. Other characters than
Hive's are allowed: directories have them escaped.
"""

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus

import msgspec

from interbed.catalog.server.rest.iceberg.errors import bad_request, no_namespace
from interbed.catalog.server.rest.interface import RestError, RestRequest
from interbed.catalog.server.service.names import (
    NAME_LENGTH_MAX,
    TABLE_NAME_LENGTH_MAX,
    is_valid_name,
    normalized,
    shortened,
)
from interbed.catalog.server.thrift.edge.cache import Scope, database_scope, tables_scope

SEPARATOR = "\x1f"
"""The character between the levels of a namespace in a path."""


class IcebergIdentifier(msgspec.Struct, frozen=True):
    """A name of a table or view in JSON."""

    namespace: list[str]
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergName:
    """The name of a table or view in a request: `levels` are those of its namespace, as the client writes them."""

    catalog: str
    levels: tuple[str, ...]
    name: str

    @property
    def namespace(self) -> str:
        """The namespace as text for messages."""
        return ".".join(self.levels)

    @property
    def has_database(self) -> bool:
        """Whether a database may have this namespace."""
        return len(self.levels) == 1

    @property
    def database(self) -> str:
        """The name of the database, as it is stored."""
        return normalized(self.levels[0]) if self.has_database else ""

    @property
    def table(self) -> str:
        """The name of the table, as it is stored."""
        return normalized(self.name)

    def __str__(self) -> str:
        return shortened(f"{self.namespace}.{self.name}")

    def json(self) -> dict[str, object]:
        """Return the identifier in JSON."""
        return {"namespace": list(self.levels), "name": self.name}


def levels_of(text: str) -> tuple[str, ...]:
    """Return the levels of a namespace in a path or a parameter."""
    return tuple(text.split(SEPARATOR))


def table_of(request: RestRequest, part: str = "table") -> IcebergName:
    """Return the table, or the view, that the path names."""
    parts = request.parts
    return IcebergName(catalog=catalog_of(request), levels=levels_of(parts["namespace"]), name=parts[part])


def table_scope(request: RestRequest) -> Scope:
    """Return the scope of the answers about one table."""
    name = table_of(request)
    return (name.catalog, name.database, name.table)


def view_scope(request: RestRequest) -> Scope:
    """Return the scope of the answers about one view."""
    name = table_of(request, "view")
    return (name.catalog, name.database, name.table)


def list_scope(request: RestRequest) -> Scope:
    """Return the scope of the lists of a namespace's tables and views."""
    return tables_scope(catalog_of(request), database_of(levels_of(request.parts["namespace"])))


def namespace_scope(request: RestRequest) -> Scope:
    """Return the scope of the answers about a namespace itself."""
    return database_scope(catalog_of(request), database_of(levels_of(request.parts["namespace"])))


def identified(request: RestRequest, identifier: IcebergIdentifier) -> IcebergName:
    """Return the table that an identifier in the body names."""
    return IcebergName(catalog=catalog_of(request), levels=tuple(identifier.namespace), name=identifier.name)


def catalog_of(request: RestRequest) -> str:
    """Return the name of the catalog that the path names."""
    return normalized(request.parts["prefix"])


def database_of(levels: Sequence[str]) -> str:
    """Return the stored name of a namespace's database. RestError with status 404 for several levels."""
    if len(levels) != 1 or not normalized(levels[0]):
        raise no_namespace(".".join(levels))
    return normalized(levels[0])


def check_new_namespace(levels: Sequence[str]) -> str:
    """Return the name of the database of a new namespace. RestError with status 400 for a name that none may have."""
    shown = shortened(".".join(levels))
    if len(levels) != 1:
        raise RestError(
            HTTPStatus.BAD_REQUEST,
            "IllegalArgumentException",
            f"Cannot support multi part namespace in Hive Metastore: {shown}; a namespace has one level",
        )
    name = levels[0]
    # Thrift's clients write `@catalog#database` for a database of another catalog.
    is_of_catalog = name.startswith("@") and "#" in name
    if is_of_catalog or (not is_valid_name(name) and not _is_storable(name, NAME_LENGTH_MAX)):
        raise bad_request(f"{shown!r} is not a valid name of a namespace")
    return normalized(name)


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
