"""Pages of a database's tables for people: names with kind, owner and comment, without the rest of their entries."""

from interbed.catalog.server.service.access.objects import SecuredKind, database_object
from interbed.catalog.server.service.access.secured import SecuredService, filtered
from interbed.catalog.server.service.model import ListedTable
from interbed.catalog.server.service.names import normalized
from interbed.catalog.server.service.repository import Repository

ROWS_MAX = 10_000
"""Rows of one statement for a caller that sees few tables of a database."""


class TablePages(SecuredService):
    """The pages of the tables of databases."""

    def __init__(self, store: Repository) -> None:
        self._store = store

    @filtered("tables that the caller sees")
    def page(
        self, catalog: str, database: str, *, after: str = "", limit: int = 100, prefix: str = ""
    ) -> list[ListedTable]:
        """Return up to `limit` tables and views whose names come after one and begin with a prefix, in order; none if
        there is no such database. It is one statement, unless the caller does not see all of these.
        """
        within = normalized(database)
        place = database_object(catalog, within)
        seen: list[ListedTable] = []
        count = limit
        while True:
            page = self._store.read(
                lambda transaction, last=after, rows=count: transaction.tables.page(  # type: ignore[misc]
                    catalog, within, last, rows, normalized(prefix)
                )
            )
            names = set(self._access.visible_names([each.name for each in page], SecuredKind.TABLE, place))
            seen += [each for each in page if each.name in names]
            if len(page) < count or len(seen) >= limit:
                return seen[:limit]
            after = page[-1].name
            # A caller may see few of many tables: the next statements read more at once.
            count = min(2 * count, ROWS_MAX)
