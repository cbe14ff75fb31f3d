"""Privileges, the objects that they are on, and the protocol of authorizers, which decide what a caller may do.

An object lies in its containers: server, catalog, database, then table, view or function, and columns in their table. A
privilege on a container holds for everything in it. Names of privileges are those of Hive (SQL standard based
authorization). On columns only SELECT is granted, as in Hive.

The setting `access_authorizer` chooses an authorizer. One of one's own is a class with a constructor without arguments,
by its name `package.module:Class`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol


class Privilege(StrEnum):
    """Privileges. ALL contains each of the others."""

    USAGE = "USAGE"
    """Use a catalog or a database: see that it exists, with its properties."""
    SELECT = "SELECT"
    """Read rows, and see the metadata, of tables and views."""
    INSERT = "INSERT"
    UPDATE = "UPDATE"
    DELETE = "DELETE"
    CREATE = "CREATE"
    """Create objects in a container."""
    ALTER = "ALTER"
    DROP = "DROP"
    LOCATION = "LOCATION"
    """Choose directories: create objects at a given location, or move them."""
    ALL = "ALL"


class SecuredKind(StrEnum):
    """Kinds of objects that privileges are on. A view is of the kind of tables."""

    SERVER = "server"
    CATALOG = "catalog"
    DATABASE = "database"
    TABLE = "table"
    FUNCTION = "function"
    COLUMN = "column"


@dataclass(frozen=True, slots=True)
class SecuredObject:
    """An object by its names, in lower case; those that its kind lacks are None. A column without a name is any
    column of its table, in questions and queries.
    """

    kind: SecuredKind
    catalog: str | None = None
    database: str | None = None
    name: str | None = None
    column: str | None = None

    @property
    def container(self) -> "SecuredObject | None":
        """The object that this one lies in; None for the server."""
        match self.kind:
            case SecuredKind.SERVER:
                return None
            case SecuredKind.CATALOG:
                return SERVER
            case SecuredKind.DATABASE:
                return SecuredObject(SecuredKind.CATALOG, self.catalog)
            case SecuredKind.COLUMN:
                return SecuredObject(SecuredKind.TABLE, self.catalog, self.database, self.name)
            case _:
                return SecuredObject(SecuredKind.DATABASE, self.catalog, self.database)

    @property
    def containers(self) -> "tuple[SecuredObject, ...]":
        """All objects that this one lies in, the innermost first."""
        container = self.container
        return () if container is None else (container, *container.containers)

    def __str__(self) -> str:
        if self.kind is SecuredKind.COLUMN:
            column = "columns" if self.column is None else f"column {self.column}"
            return f"{column} of the {self.container}"
        names = [name for name in (self.catalog, self.database, self.name) if name is not None]
        return f"{self.kind} {'.'.join(names)}".rstrip()


SERVER = SecuredObject(SecuredKind.SERVER)


def catalog_object(catalog: str) -> SecuredObject:
    """Return a catalog as an object of privileges."""
    return SecuredObject(SecuredKind.CATALOG, catalog)


def database_object(catalog: str, database: str) -> SecuredObject:
    """Return a database as an object of privileges."""
    return SecuredObject(SecuredKind.DATABASE, catalog, database)


def table_object(catalog: str, database: str, table: str) -> SecuredObject:
    """Return a table or a view as an object of privileges."""
    return SecuredObject(SecuredKind.TABLE, catalog, database, table)


def function_object(catalog: str, database: str, function: str) -> SecuredObject:
    """Return a function as an object of privileges."""
    return SecuredObject(SecuredKind.FUNCTION, catalog, database, function)


def column_object(table: SecuredObject, column: str | None) -> SecuredObject:
    """Return a column of a table as an object of privileges; None for any of its columns."""
    return SecuredObject(SecuredKind.COLUMN, table.catalog, table.database, table.name, column)


COLUMN_PRIVILEGES = frozenset((Privilege.SELECT,))
"""Privileges that are granted on columns. Others permit nothing there, because commits do not name columns."""


@dataclass(frozen=True, slots=True)
class Access:
    """A question to an authorizer: may the caller use this privilege on this object?

    `privilege` None asks whether the caller may see the object at all.
    """

    privilege: Privilege | None
    on: SecuredObject


@dataclass(frozen=True, slots=True)
class Caller:
    """The authenticated principal that a call is made for: its name, and the groups that its credentials have."""

    name: str
    groups: frozenset[str] = field(default_factory=frozenset)


class Authorizer(Protocol):
    """Decides what callers may do. Safe for many threads. It is asked on the thread of the call, outside of
    transactions: an answer should come from memory, or from one short query.
    """

    def decide(self, caller: Caller, questions: Sequence[Access]) -> Sequence[bool]:
        """Return an answer to each question, in their order. May raise AuthorizerUnavailableError: the call is refused
        then, whatever it asks for.

        A privilege on an object holds for everything in it. The owner of an object has all privileges on it and on
        everything in it. A caller sees an object on which, or in which, or on whose container it has a privilege;
        USAGE and CREATE on a container show only the container.
        """
        ...


class AuthorizerUnavailableError(Exception):
    """The authorizer cannot decide at present."""
