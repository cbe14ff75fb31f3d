"""Which table the changes of a source's table go to."""

import re
from dataclasses import dataclass

from interbed.ingest.flow.changes import SourceTable
from interbed.storage.base.errors import InvalidInputError


@dataclass(frozen=True, slots=True, kw_only=True)
class TableNames:
    """All changes go to `table`, or each source's table to its own in `database`, named `prefix` + its name + `suffix`.

    The patterns are regular expressions for whole names of the source's tables, with their database or without it
    (Paimon's `including_tables` and `excluding_tables`); changes of other tables are passed over. Raises
    InvalidInputError for a pattern that is none, and unless exactly one of `table` and `database` is given.
    """

    table: str | None = None
    database: str | None = None
    prefix: str = ""
    suffix: str = ""
    including: str = ".*"
    excluding: str | None = None

    def __post_init__(self) -> None:
        if (self.table is None) == (self.database is None):
            raise InvalidInputError("Give either the one table that changes go to, or the database of many.")
        for pattern in (self.including, self.excluding or ""):
            try:
                re.compile(pattern)
            except re.error as error:
                raise InvalidInputError(f"{pattern!r} is no regular expression: {error}.") from error

    def of(self, source: SourceTable | None) -> str | None:
        """DATABASE.TABLE, None for what is passed over; InvalidInputError where the source has no name to go by."""
        if source is None:
            if self.table is None:
                raise InvalidInputError(
                    "Messages of this format do not say which table they are about. Give the one table that they go to."
                )
            return self.table
        if not self._matches(self.including, source) or (self.excluding and self._matches(self.excluding, source)):
            return None
        return self.table or f"{self.database}.{self.prefix}{source.name}{self.suffix}"

    @staticmethod
    def _matches(pattern: str, source: SourceTable) -> bool:
        return any(re.fullmatch(pattern, name) for name in (source.name, str(source)))
