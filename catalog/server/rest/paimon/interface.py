"""All routes of Paimon's REST interface, and those of its document that are refused by name, with status 501."""

from interbed.catalog.server.rest.interface import (
    AccessPrivilege,
    Handler,
    ObjectKind,
    RestInterface,
    RestRequest,
    RestResponse,
    RestRoute,
    route,
)
from interbed.catalog.server.rest.paimon.access import CatalogAccess
from interbed.catalog.server.rest.paimon.databases import DatabaseRoutes
from interbed.catalog.server.rest.paimon.functions import FunctionRoutes
from interbed.catalog.server.rest.paimon.partitions import PartitionRoutes
from interbed.catalog.server.rest.paimon.refusals import error_body, no_route, translated, unsupported
from interbed.catalog.server.rest.paimon.snapshots import SnapshotRoutes
from interbed.catalog.server.rest.paimon.tables import TABLE, TableRoutes
from interbed.catalog.server.rest.paimon.versions import VersionRoutes
from interbed.catalog.server.rest.paimon.views import ViewRoutes
from interbed.catalog.server.service.databases import FunctionService

PATH = "/paimon"

_REFUSED = (
    (
        "GET",
        f"{TABLE}/token",
        "getTableToken",
        "Tokens for the data of tables need identities of clients, which this server does not have; set "
        "'data-token.enabled' to false, and give the credentials of the file system to the client.",
    ),
)
"""Method, path, operation and reason of requests about tables that are refused."""


def paimon_interface(access: CatalogAccess, functions: FunctionService) -> RestInterface:
    """Return Paimon's REST interface of a server over the catalogs of its requests, and over its functions."""
    nouns = (
        DatabaseRoutes(access, functions),
        TableRoutes(access),
        SnapshotRoutes(access),
        PartitionRoutes(access),
        VersionRoutes(access),
        ViewRoutes(access),
        FunctionRoutes(access, functions),
    )
    return RestInterface(
        name="paimon",
        path=PATH,
        routes=[*(each for noun in nouns for each in noun.routes()), *refused_routes()],
        error_body=error_body,
        translated=translated,
        missing=no_route,
    )


def refused_routes() -> list[RestRoute]:
    """Return the routes that are refused."""
    return [
        route(method, template, operation, AccessPrivilege.USAGE, ObjectKind.TABLE, _refusing(reason))
        for method, template, operation, reason in _REFUSED
    ]


def _refusing(reason: str) -> Handler:
    def refuse(_request: RestRequest) -> RestResponse:
        raise unsupported(reason)

    return refuse
