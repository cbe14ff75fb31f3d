"""Names of tables: `database.table`."""

import re
from dataclasses import dataclass

from interbed.storage.base.errors import InvalidInputError, NotSupportedError
from interbed.storage.meta.paths import MAIN_BRANCH

DEFAULT_DATABASE = "default"
DB_SUFFIX = ".db"
SYSTEM_DATABASE = "sys"
"""Holds the system tables of the catalog as a whole; it is in every catalog, and in no list of databases."""
SEPARATOR = "$"
"""What comes after it in a table's name is a branch or a system table."""
BRANCH_PREFIX = "branch_"

_FORBIDDEN = re.compile(r"[/\\\x00-\x1f]")


@dataclass(frozen=True, slots=True)
class Identifier:
    """The name of a table."""

    database: str
    table: str

    @staticmethod
    def parse(name: "str | Identifier | tuple[str, str]") -> "Identifier":
        """The identifier of `database.table`, of a pair, or of an identifier; raises InvalidInputError."""
        if isinstance(name, Identifier):
            return name
        if isinstance(name, tuple):
            database, table = name
        else:
            database, dot, table = name.partition(".")
            if not dot:
                raise InvalidInputError(f"The table name {name!r} lacks its database; write 'database.table'.")
        check_name("database", database)
        check_name("table", table)
        return Identifier(database, table)

    def __str__(self) -> str:
        return f"{self.database}.{self.table}"


@dataclass(frozen=True, slots=True)
class TableName:
    """What a caller may name: a table, a branch of it (`t$branch_b`), or a system table (`t$audit_log`) of either."""

    identifier: Identifier
    branch: str | None = None
    system: str | None = None

    @staticmethod
    def parse(name: "str | Identifier | tuple[str, str]") -> "TableName":
        """The parts of a name; raises InvalidInputError for one that is none."""
        if isinstance(name, Identifier):
            return TableName(name)
        if isinstance(name, tuple):
            name = f"{name[0]}.{name[1]}"
        table, *parts = name.split(SEPARATOR)
        identifier = Identifier.parse(table)
        branch = parts.pop(0)[len(BRANCH_PREFIX) :] if parts and parts[0].startswith(BRANCH_PREFIX) else None
        if branch == "" or len(parts) > 1 or "" in parts:
            raise InvalidInputError(
                f"Not a table name: {name!r}. A branch is named 'table{SEPARATOR}{BRANCH_PREFIX}name', a system table "
                f"'table{SEPARATOR}name'."
            )
        return TableName(identifier, branch, parts[0] if parts else None)

    @property
    def of_table(self) -> str:
        """The name without a system table: that of the table or of its branch."""
        return (
            str(self.identifier) if self.branch is None else f"{self.identifier}{SEPARATOR}{BRANCH_PREFIX}{self.branch}"
        )


def check_name(what: str, name: str) -> None:
    """Raise InvalidInputError unless the name can be a directory's name on every file system."""
    if not name or name in (".", "..") or name.strip() != name or _FORBIDDEN.search(name) or len(name.encode()) > 200:
        raise InvalidInputError(f"Not a {what} name: {name!r}. A name is 1 to 200 bytes without slashes or controls.")
    if what == "table" and ("." in name or "$" in name):
        raise InvalidInputError(f"Not a table name: {name!r}. A table's name has no dot and no '$'.")


def check_database_name(name: str) -> str:
    """The name; raises InvalidInputError unless it can name a database."""
    check_name("database", name)
    return name


def parse_table_name(identifier: "str | Identifier") -> Identifier:
    """The identifier of a table itself; raises NotSupportedError for system tables and branches, InvalidInputError for
    no name at all.
    """
    name = TableName.parse(identifier)
    if name.identifier.database == SYSTEM_DATABASE:
        raise NotSupportedError(f"'{identifier}' is a system table of the catalog, which is read only.")
    if name.branch is not None or name.system is not None:
        raise NotSupportedError(f"A branch or a system table is not a table of its own: {identifier!r}.")
    return name.identifier


def branch_to_alter(identifier: "str | Identifier") -> str | None:
    """The name of the branch that is meant, which has a schema of its own; None for a table itself.

    Raises NotSupportedError for system tables, InvalidInputError for no name at all.
    """
    name = TableName.parse(identifier)
    if name.system is not None or name.branch in (None, MAIN_BRANCH):
        return None
    return name.of_table


def check_not_system_database(name: str) -> None:
    """Raise NotSupportedError for the database of system tables, which nobody makes or changes."""
    if name == SYSTEM_DATABASE:
        raise NotSupportedError(
            f"The database '{SYSTEM_DATABASE}' holds the catalog's system tables and can't be created, changed or "
            "dropped; take another name."
        )
