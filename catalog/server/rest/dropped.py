"""Dropped objects by REST: an interface of this server beside the specifications of Iceberg and Paimon.

    GET  /interbed/v1/{prefix}/dropped
    POST /interbed/v1/{prefix}/databases/{database}/undrop
    POST /interbed/v1/{prefix}/databases/{database}/purge
    POST /interbed/v1/{prefix}/databases/{database}/tables/{table}/undrop
    POST /interbed/v1/{prefix}/databases/{database}/tables/{table}/purge

`prefix` is the name of a catalog. The body of a POST may have `id`, the entry of `dropped`, and for the undrop of a
table `as`, another name. The response of an undrop has the name and the location of the object. That of a purge says
whether all is deleted: what could not be deleted is in the server's log, and the reaper tries again.
"""

from collections.abc import Sequence

import msgspec

from interbed.catalog.server.rest.interface import (
    ObjectKind,
    RestRequest,
    RestResponse,
    RestRoute,
    json_response,
    route,
)
from interbed.catalog.server.service.access.objects import Privilege
from interbed.catalog.server.service.dropped import DroppedObject
from interbed.catalog.server.service.service import Metastore

_CATALOG = "v1/{prefix}"
_DATABASE = f"{_CATALOG}/databases/{{database}}"


class UndropRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The body of an undrop."""

    id: int | None = None
    new_name: str | None = msgspec.field(default=None, name="as")


class PurgeRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The body of a purge."""

    id: int | None = None


class DroppedRoutes:
    """The routes about dropped objects of a metastore."""

    def __init__(self, metastore: Metastore) -> None:
        self._dropped = metastore.dropped

    def routes(self) -> Sequence[RestRoute]:
        """Return the routes with the privilege that each needs."""
        create, drop, table = Privilege.CREATE, Privilege.DROP, f"{_DATABASE}/tables/{{table}}"
        return [
            route("GET", f"{_CATALOG}/dropped", "listDropped", Privilege.USAGE, ObjectKind.CATALOG, self.list),
            route("POST", f"{_DATABASE}/undrop", "undropDatabase", create, ObjectKind.CATALOG, self.undrop),
            route("POST", f"{_DATABASE}/purge", "purgeDatabase", drop, ObjectKind.CATALOG, self.purge),
            route("POST", f"{table}/undrop", "undropTable", create, ObjectKind.DATABASE, self.undrop),
            route("POST", f"{table}/purge", "purgeTable", drop, ObjectKind.DATABASE, self.purge),
        ]

    def list(self, request: RestRequest) -> RestResponse:
        """Return the dropped objects of a catalog, of one database if the query has `database`."""
        entries = self._dropped.select(request.parts["prefix"], request.query.get("database"))
        return json_response({"dropped": [entry.to_json() for entry in entries]})

    def undrop(self, request: RestRequest) -> RestResponse:
        """Put an object back."""
        given = request.json(UndropRequest) if request.body else UndropRequest()
        entry = self._entry(request, given.id)
        value = self._dropped.undrop(entry, new_name=given.new_name)
        return json_response(
            {"kind": str(entry.kind), "database": entry.database, "name": value.name, "location": value.location}
        )

    def purge(self, request: RestRequest) -> RestResponse:
        """Delete a dropped object for good."""
        given = request.json(PurgeRequest) if request.body else PurgeRequest()
        entry = self._entry(request, given.id)
        purged = self._dropped.purge(entry)
        return json_response(
            {"kind": str(entry.kind), "database": entry.database, "name": entry.name, "purged": purged}
        )

    def _entry(self, request: RestRequest, entry_id: int | None) -> DroppedObject:
        parts = request.parts
        return self._dropped.find(parts["prefix"], parts["database"], parts.get("table"), entry_id)
