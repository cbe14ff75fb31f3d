"""The tables of the lake that changes of source tables go to."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from interbed.catalog.client.api import Catalog
from interbed.catalog.client.identifier import check_table_name
from interbed.ingest.flow.changes import RefusedTable, SourceTable
from interbed.storage.base.errors import InvalidInputError, NotSupportedError


def check_refused(tables: Iterable[RefusedTable], name_of: Callable[[SourceTable], str | None]) -> None:
    """Raise NotSupportedError for a refused table, unless it is skipped."""
    for table in tables:
        if name_of(table.source) is not None:
            raise NotSupportedError(
                f"{table.reason} It is of the table {table.source}; --excluding-tables leaves a table out, and the "
                "others are read then."
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class TableNames:
    """Names of tables of the lake. All changes go to `table`, or those of each source table to a table of their own in
    `database`, named `prefix` + its name + `suffix`.

    The patterns are regular expressions for whole names of source tables, with their database or without it (Paimon's
    `including_tables` and `excluding_tables`); changes of other tables are skipped. Raises InvalidInputError for an
    invalid pattern, and unless exactly one of `table` and `database` is given. If `databases` are given, changes of
    tables in other databases of the source are skipped as well. Tables that match `skipping` may be skipped if they
    cannot be tables of a lake. With `lower_case` the names of tables are written in lower case, for catalogs that
    ignore case.
    """

    table: str | None = None
    database: str | None = None
    prefix: str = ""
    suffix: str = ""
    including: str = ".*"
    excluding: str | None = None
    databases: frozenset[str] | None = None
    skipping: str | None = None
    lower_case: bool = False

    def __post_init__(self) -> None:
        if (self.table is None) == (self.database is None):
            raise InvalidInputError("Give either the one table that changes go to, or the database of many.")
        for pattern in (self.including, self.excluding or "", self.skipping or ""):
            try:
                re.compile(pattern)
            except re.error as error:
                raise InvalidInputError(f"{pattern!r} is no regular expression: {error}.") from error

    @property
    def are_chosen(self) -> bool:
        """Whether a pattern selects the wanted tables, instead of only excluding others."""
        return self.including != ".*"

    def in_catalog(self, catalog: Catalog) -> "TableNames":
        """Return the same names in the case of the catalog."""
        return self if catalog.is_case_sensitive else replace(self, lower_case=True)

    def of(self, source: SourceTable | None) -> str | None:
        """Return DATABASE.TABLE for a source table; None if it is skipped.

        Raises InvalidInputError if messages do not name their table, and for a name that no table can have.
        """
        if source is None:
            if self.table is None:
                raise InvalidInputError(
                    "Messages of this format do not say which table they are about. Give the one table that they go to."
                )
            return self.table
        if self.databases is not None and source.database not in self.databases:
            return None
        if not self._matches(self.including, source) or (self.excluding and self._matches(self.excluding, source)):
            return None
        if self.table is not None:
            return self.table
        # A name with a '$' would name a branch of another table.
        name = check_table_name(f"{self.prefix}{source.name}{self.suffix}")
        return f"{self.database}.{name.lower() if self.lower_case else name}"

    def own_tables_of(self, sources: Iterable[SourceTable]) -> set[str]:
        """Return the tables that have rows only of these source tables."""
        return {self.possible(source) or "" for source in sources if self.table is None}

    def possible(self, source: SourceTable) -> str | None:
        """Return the same as `of`, and None also for a name that no table of a lake can have."""
        try:
            return self.of(source)
        except InvalidInputError:
            return None

    def may_skip(self, source: SourceTable) -> bool:
        """Return whether a source table may be skipped if it cannot be a table of a lake."""
        return self.skipping is not None and self._matches(self.skipping, source)

    def present(self, catalog: Catalog) -> Sequence[str]:
        """Return the one table, whether it exists or not; or the tables of the database that have such a name."""
        if self.table is not None:
            return [self.table]
        database = self.database or ""
        if not catalog.database_exists(database):
            return []
        names = catalog.list_tables(database)
        prefix, suffix = (p.lower() if self.lower_case else p for p in (self.prefix, self.suffix))
        return [f"{database}.{n}" for n in names if n.startswith(prefix) and n.endswith(suffix)]

    def one_each(self, sources: Iterable[SourceTable]) -> dict[SourceTable, str]:
        """Return the names of those that are not skipped. Raises InvalidInputError if two of them go to one table."""
        found = {source: name for source in sources if (name := self.of(source)) is not None}
        of_name: dict[str, SourceTable] = {}
        for source, name in found.items():
            if (other := of_name.setdefault(name, source)) != source:
                raise InvalidInputError(
                    f"The tables {other} and {source} of the source would both go to '{name}'. Leave one of them out, "
                    "or read them by runs of their own."
                )
        return found

    @staticmethod
    def _matches(pattern: str, source: SourceTable) -> bool:
        return any(re.fullmatch(pattern, name) for name in (source.name, str(source)))
