"""All routes of Paimon's REST interface, and those of its document that are refused by name, with status 501."""

from interbed.catalog.server.credentials.issued import TableCredentials
from interbed.catalog.server.rest.interface import (
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
from interbed.catalog.server.rest.paimon.refusals import error_body, no_route, translated, unsupported
from interbed.catalog.server.rest.paimon.snapshots import SnapshotRoutes
from interbed.catalog.server.rest.paimon.tables import TABLE, PartitionRoutes, TableRoutes, TokenRoutes
from interbed.catalog.server.rest.paimon.versions import VersionRoutes
from interbed.catalog.server.rest.paimon.views import ViewRoutes
from interbed.catalog.server.service.access.objects import Privilege
from interbed.catalog.server.service.databases import FunctionService

PATH = "/paimon"

_NO_TOKENS = (
    "The server issues no tokens for the files of tables. Set 'data-token.enabled' to false, and give the keys of the "
    "file system to the client; or set credentials_s3_role, credentials_google or "
    "credentials_azure for the server."
)


def paimon_interface(
    access: CatalogAccess, functions: FunctionService, credentials: TableCredentials | None = None
) -> RestInterface:
    """Return Paimon's REST interface of a server over the catalogs of its requests, and over its functions. With
    `credentials` it issues tokens for the files of tables.
    """
    nouns = (
        DatabaseRoutes(access, functions),
        TableRoutes(access),
        SnapshotRoutes(access),
        PartitionRoutes(access),
        VersionRoutes(access),
        ViewRoutes(access),
        FunctionRoutes(access, functions),
    )
    tokens = refused_routes() if credentials is None else TokenRoutes(access, credentials).routes()
    return RestInterface(
        name="paimon",
        path=PATH,
        routes=[each for noun in nouns for each in noun.routes()] + tokens,
        error_body=error_body,
        translated=translated,
        missing=no_route,
    )


def refused_routes() -> list[RestRoute]:
    """Return the route of tokens, which is refused."""
    return [route("GET", f"{TABLE}/token", "getTableToken", Privilege.USAGE, ObjectKind.TABLE, _refusing(_NO_TOKENS))]


def _refusing(reason: str) -> Handler:
    def refuse(_request: RestRequest) -> RestResponse:
        raise unsupported(reason)

    return refuse
