"""The page of a table's versions: its snapshots, tags and branches, as its files have them.

Only tables of interbed have one. What the server cannot read, such as a table in a store that it has no keys of, is
left out, and the page says why.
"""

import threading
from collections.abc import Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING

from interbed.catalog.server.console.catalog_pages import TABLE, crumbs_of, number_given
from interbed.catalog.server.console.rendering import PageTemplates, address
from interbed.catalog.server.rest.interface import (
    ObjectKind,
    RestError,
    RestRequest,
    RestResponse,
    RestRoute,
    route,
)
from interbed.catalog.server.service.access.objects import Privilege
from interbed.catalog.server.service.model import PAIMON_KINDS
from interbed.catalog.server.service.names import normalized
from interbed.catalog.server.service.service import Metastore
from interbed.catalog.server.thrift.edge.dispatch import Dispatcher

if TYPE_CHECKING:
    from interbed.catalog.server.console.table_files import VersionReader

_NO_SNAPSHOT = "The address has no id of a snapshot after `before`."


class VersionPages:
    """The pages of the versions of a metastore's tables."""

    def __init__(self, metastore: Metastore, dispatcher: Dispatcher, templates: PageTemplates) -> None:
        self._metastore = metastore
        self._dispatcher = dispatcher
        self._templates = templates
        self._guard = threading.Lock()
        self._reader: VersionReader | None = None

    def routes(self) -> Sequence[RestRoute]:
        """Return the routes with the privilege that each needs."""
        return [
            route("GET", f"{TABLE}/versions", "versions", Privilege.SELECT, ObjectKind.TABLE, self.versions),
        ]

    def versions(self, request: RestRequest) -> RestResponse:
        """Show the snapshots, tags and branches of a table."""
        parts = request.parts
        catalog = normalized(parts["prefix"])
        table = self._metastore.tables.get(catalog, parts["database"], parts["table"])
        if table.kind not in PAIMON_KINDS:
            raise RestError(HTTPStatus.NOT_FOUND, "NoSuchPage", "Only tables of interbed have a page of versions.")
        found = self._files().read(request, _before(request))
        here = ("catalogs", catalog, "databases", table.database, "tables", table.name)
        crumbs = crumbs_of(catalog, table.database, table.name)
        crumbs[-1] = (table.name, address(*here))
        return self._templates.page(
            request,
            "versions.html",
            f"Versions of {table.name}",
            [*crumbs, ("Versions", None)],
            found=found,
            first=address(*here, "versions"),
            is_first=_before(request) is None,
            following=None if found.before is None else address(*here, "versions", before=str(found.before)),
        )

    def _files(self) -> "VersionReader":
        with self._guard:
            if self._reader is None:
                # Loads Arrow.
                from interbed.catalog.server.console.table_files import VersionReader

                self._reader = VersionReader(self._metastore, self._dispatcher)
            return self._reader


def _before(request: RestRequest) -> int | None:
    """Return the id of the snapshot that a page ends before, None for the newest ones. RestError."""
    text = request.query.get("before")
    return None if text is None else number_given(text, _NO_SNAPSHOT, least=1)
