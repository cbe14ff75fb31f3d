"""Names of tables: `database.table`."""

import re
from dataclasses import dataclass

from interbed.storage.errors import InvalidInputError

DEFAULT_DATABASE = "default"
DB_SUFFIX = ".db"

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


def check_name(what: str, name: str) -> None:
    """Raise InvalidInputError unless the name can be a directory's name on every file system."""
    if not name or name in (".", "..") or name.strip() != name or _FORBIDDEN.search(name) or len(name.encode()) > 200:
        raise InvalidInputError(f"Not a {what} name: {name!r}. A name is 1 to 200 bytes without slashes or controls.")
    if what == "table" and ("." in name or "$" in name):
        raise InvalidInputError(f"Not a table name: {name!r}. A table's name has no dot and no '$'.")
