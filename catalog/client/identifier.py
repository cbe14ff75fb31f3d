"""Names of tables: `database.table`."""

import re
from dataclasses import dataclass
from typing import Any

from interbed.storage.base.errors import InvalidInputError, NotSupportedError, plain_errors
from interbed.storage.base.path_name import path_name
from interbed.storage.meta.paths import MAIN_BRANCH

DEFAULT_DATABASE = "default"
DB_SUFFIX = ".db"
SYSTEM_DATABASE = "sys"
"""The database with the system tables of the catalog; every catalog has it, and no list of databases names it."""
SEPARATOR = "$"
"""Separator in the name of a table before a branch or a system table."""
BRANCH_PREFIX = "branch_"

UNKNOWN_DATABASE = "unknown"
"""pypaimon's database of tables without one."""

_QUOTED_NAME = re.compile(r"(?:`([^`]+)`|([^`.]+))\.(?:`([^`]+)`|([^`]+))")


@plain_errors
@dataclass(frozen=True, slots=True, init=False)
class Identifier:
    """The name of a table: `Identifier("shop", "orders")`.

    `table` is the part after the database. As in pypaimon it may contain a branch and a system table, which may also be
    given separately: `Identifier("shop", "orders", branch="b", system_table="files")` is `shop.orders$branch_b$files`.
    The branch `main` is the table itself, and left out.

    Every part is one component of a path: none leads out of the directory of its database or table. As in pypaimon the
    name of a table may have dots here; catalogs have no such tables.
    """

    database: str
    table: str

    def __init__(self, database: str, table: str, branch: str | None = None, system_table: str | None = None) -> None:
        """Raise InvalidInputError for a part that is not one component of a path."""
        # A part that is given separately must not contain others.
        parts = _checked_table(table)
        if branch is not None and _part("branch", branch).lower() != MAIN_BRANCH:
            parts = f"{parts}{SEPARATOR}{BRANCH_PREFIX}{branch}"
        if system_table is not None:
            parts = f"{parts}{SEPARATOR}{_part('system table', system_table)}"
        object.__setattr__(self, "database", check_database_name(database))
        object.__setattr__(self, "table", parts)

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy or a pickle is made by the constructor, which checks the parts.
        return type(self), (self.database, self.table)

    @staticmethod
    def parse(name: "str | Identifier | tuple[str, str]") -> "Identifier":
        """Return the identifier of `database.table`, of a pair, or of an identifier; raise InvalidInputError."""
        if isinstance(name, Identifier):
            return name
        database, table = _pair(name)
        return Identifier(database, check_table_name(table))

    def __str__(self) -> str:
        return f"{self.database}.{self.table}"

    # -- names of pypaimon -----------------------------------------------------------------------------------------

    @staticmethod
    def create(database: str, table: str, branch: str | None = None, system_table: str | None = None) -> "Identifier":
        """Create an identifier, as the constructor does."""
        return Identifier(database, table, branch, system_table)

    @staticmethod
    def from_string(full_name: str) -> "Identifier":
        """Return the identifier of `database.table`; names with dots are in backquotes. Raises InvalidInputError."""
        parts = _QUOTED_NAME.fullmatch(full_name)
        if parts is None:
            raise InvalidInputError(f"Not a table name: {full_name!r}; write 'database.table'.")
        return Identifier(*(quoted or plain for quoted, plain in (parts.group(1, 2), parts.group(3, 4))))

    @property
    def object(self) -> str:
        """The name of the table with its branch and its system table."""
        return self.table

    @property
    def branch(self) -> str | None:
        """The name of the branch; None for the table itself."""
        return self.get_branch_name()

    def get_full_name(self) -> str:
        """Return the whole name, without the database if that is `unknown`."""
        return self.table if self.database == UNKNOWN_DATABASE else str(self)

    def get_database_name(self) -> str:
        """Return the name of the database."""
        return self.database

    def get_object_name(self) -> str:
        """Return the name of the table with its branch and its system table."""
        return self.table

    def get_table_name(self) -> str:
        """Return the name of the table alone; raise InvalidInputError for a name with too many parts, as the methods
        below.
        """
        return self._parts()[0]

    def get_branch_name(self) -> str | None:
        """Return the branch; None for the table itself."""
        return self._parts()[1]

    def get_branch_name_or_default(self) -> str:
        """Return the branch, `main` for the table itself."""
        return self.get_branch_name() or MAIN_BRANCH

    def get_system_table_name(self) -> str | None:
        """Return the system table; None for the table itself."""
        return self._parts()[2]

    def is_system_table(self) -> bool:
        """Return whether the name is that of a system table."""
        return self.get_system_table_name() is not None

    def _parts(self) -> tuple[str, str | None, str | None]:
        return split_table_name(self.table)


@dataclass(frozen=True, slots=True)
class TableName:
    """The name of a table, a branch of it (`t$branch_b`), or a system table (`t$audit_log`) of either."""

    identifier: Identifier
    branch: str | None = None
    system: str | None = None

    def __post_init__(self) -> None:
        check_table_name(self.identifier.table)
        for what, part in (("branch", self.branch), ("system table", self.system)):
            if part is not None:
                _part(what, part)

    @staticmethod
    def parse(name: "str | Identifier | tuple[str, str]") -> "TableName":
        """Return the parts of a name; raise InvalidInputError for an invalid one."""
        database, text = _pair(name)
        if SEPARATOR not in path_name("table", text):
            return TableName(Identifier(database, text))
        table, branch, system = split_table_name(text)
        return TableName(Identifier(database, table), branch, system)

    @property
    def of_table(self) -> str:
        """The name without a system table: that of the table or of its branch."""
        return (
            str(self.identifier) if self.branch is None else f"{self.identifier}{SEPARATOR}{BRANCH_PREFIX}{self.branch}"
        )


def split_table_name(name: str) -> tuple[str, str | None, str | None]:
    """Return the table, the branch and the system table of `table$branch_b$files`; raise InvalidInputError."""
    table, *parts = name.split(SEPARATOR)
    branch = parts.pop(0)[len(BRANCH_PREFIX) :] if parts and parts[0].startswith(BRANCH_PREFIX) else None
    if branch == "" or len(parts) > 1 or "" in parts:
        raise InvalidInputError(
            f"Not a table name: {name!r}. A branch is named 'table{SEPARATOR}{BRANCH_PREFIX}name', a system table "
            f"'table{SEPARATOR}name'."
        )
    return table, branch, parts[0] if parts else None


def _pair(name: object) -> tuple[str, str]:
    """Return the database and the table of a name in any form, unchecked; raise InvalidInputError for other values."""
    match name:
        case Identifier(database=database, table=table) | (str(database), str(table)):
            return database, table
        case str():
            database, dot, table = name.partition(".")
            if dot:
                return database, table
            raise InvalidInputError(f"The table name {name!r} lacks its database; write 'database.table'.")
        case _:
            raise InvalidInputError(f"Not a table name: {name!r}. Give an Identifier, or text: 'database.table'.")


def _checked_table(table: object) -> str:
    """Return the name of a table with its branch and its system table; raise InvalidInputError for an invalid part."""
    # A name with too many parts is refused when its parts are read.
    if isinstance(table, str) and SEPARATOR in table:
        return SEPARATOR.join(path_name("table", part) for part in table.split(SEPARATOR))
    return path_name("table", table)


def _part(what: str, name: str) -> str:
    if SEPARATOR in path_name(what, name):
        raise InvalidInputError(f"Not a {what} name: {name!r}. It has no '{SEPARATOR}'.")
    return name


def check_table_name(name: str) -> str:
    """Return the name; raise InvalidInputError unless a table can have it, without a branch or a system table."""
    plain = path_name("table", name)
    if "." in plain or SEPARATOR in plain:
        raise InvalidInputError(f"Not a table name: {plain!r}. A table's name has no dot and no '{SEPARATOR}'.")
    return plain


def check_database_name(name: str) -> str:
    """Return the name; raise InvalidInputError unless a database can have it."""
    checked = path_name("database", name)
    if checked.startswith("@") and "#" in checked:
        raise InvalidInputError(
            f"Not a database name: {checked!r}. A metastore would read it as a database of another catalog."
        )
    return checked


def parse_table_name(identifier: "str | Identifier") -> Identifier:
    """Return the identifier of a table itself.

    Raises NotSupportedError for system tables and branches, InvalidInputError for an invalid name.
    """
    name = TableName.parse(identifier)
    if name.identifier.database == SYSTEM_DATABASE:
        raise NotSupportedError(f"'{identifier}' is a system table of the catalog, which is read only.")
    if name.branch is not None or name.system is not None:
        raise NotSupportedError(f"A branch or a system table is not a table of its own: {identifier!r}.")
    return name.identifier


def branch_to_alter(identifier: "str | Identifier") -> str | None:
    """Return the name of a branch, which has a schema of its own; None for a table itself.

    Raises NotSupportedError for system tables, InvalidInputError for an invalid name.
    """
    name = TableName.parse(identifier)
    if name.system is not None or name.branch in (None, MAIN_BRANCH):
        return None
    return name.of_table


def check_not_system_database(name: str) -> None:
    """Raise NotSupportedError for the database of system tables, which can't be created or changed."""
    if name == SYSTEM_DATABASE:
        raise NotSupportedError(
            f"The database '{SYSTEM_DATABASE}' holds the catalog's system tables and can't be created, changed or "
            "dropped; take another name."
        )
