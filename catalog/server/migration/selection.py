"""Which databases and tables are copied, compared or exported.

Patterns are `database`, `database.table` or `catalog.database.table`; each part is a name pattern of Hive's, where `*`
stands for any characters and `|` separates alternatives. Upper and lower case are the same. Foreign keys to tables that
are not selected are not, either.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from interbed.catalog.server.migration.record import FOREIGN_KEYS
from interbed.catalog.server.service.model import DEFAULT_CATALOG
from interbed.catalog.server.service.names import pattern_matcher
from interbed.storage.base.errors import InvalidOptionError


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pattern:
    catalog: re.Pattern[str]
    database: re.Pattern[str]
    table: re.Pattern[str] | None
    """None for a pattern that names no table: it means the whole database, its functions too."""

    def has_database(self, catalog: str, database: str) -> bool:
        return bool(self.catalog.fullmatch(catalog) and self.database.fullmatch(database))

    def has_table(self, catalog: str, database: str, table: str) -> bool:
        return self.has_database(catalog, database) and (self.table is None or bool(self.table.fullmatch(table)))


class ObjectSelection:
    """What `include` selects (everything if it is empty) but not what `exclude` does. InvalidOptionError for a pattern
    of more than three parts.
    """

    def __init__(self, include: Sequence[str] = (), exclude: Sequence[str] = ()) -> None:
        self._include = [_parsed(text) for text in include]
        self._whole = not include
        self._exclude = [_parsed(text) for text in exclude]

    def catalog(self, catalog: str) -> bool:
        """Whether something in the catalog may be selected."""
        return self._whole or any(pattern.catalog.fullmatch(catalog) for pattern in self._include)

    def database(self, catalog: str, database: str) -> bool:
        """Whether the database is selected, be it for one table."""
        if not self._whole and not any(pattern.has_database(catalog, database) for pattern in self._include):
            return False
        return not any(pattern.table is None and pattern.has_database(catalog, database) for pattern in self._exclude)

    def functions(self, catalog: str, database: str) -> bool:
        """Whether the functions of a selected database are: where the whole database is."""
        return self._whole or any(
            pattern.has_database(catalog, database) and (pattern.table is None or pattern.table.pattern == _ANY)
            for pattern in self._include
        )

    def table(self, catalog: str, database: str, table: str) -> bool:
        """Whether the table is selected."""
        name = table.lower()
        if not self._whole and not any(pattern.has_table(catalog, database, name) for pattern in self._include):
            return False
        return not any(pattern.has_table(catalog, database, name) for pattern in self._exclude)

    def constraints(self, catalog: str, constraints: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
        """The selected ones of a selected table's constraints: a foreign key needs the table that it refers to."""
        return {
            name: columns
            for name, columns in constraints.items()
            if not name.startswith(FOREIGN_KEYS) or self.table(catalog, columns[0].pktable_db, columns[0].pktable_name)
        }


_ANY = pattern_matcher("*").pattern


def _parsed(text: str) -> _Pattern:
    parts = text.strip().split(".")
    if not 1 <= len(parts) <= 3 or not all(parts):
        raise InvalidOptionError(
            f"{text!r} is no pattern for tables: database, database.table or catalog.database.table"
        )
    catalog = parts[0] if len(parts) == 3 else DEFAULT_CATALOG
    database, table = (parts[-2], parts[-1]) if len(parts) > 1 else (parts[0], None)
    return _Pattern(
        catalog=pattern_matcher(catalog),
        database=pattern_matcher(database),
        table=None if table is None else pattern_matcher(table),
    )
