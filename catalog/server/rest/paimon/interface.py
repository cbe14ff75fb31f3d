"""All routes of Paimon's REST interface."""

from interbed.catalog.server.rest.interface import RestInterface
from interbed.catalog.server.rest.paimon.access import CatalogAccess
from interbed.catalog.server.rest.paimon.databases import DatabaseRoutes
from interbed.catalog.server.rest.paimon.functions import FunctionRoutes
from interbed.catalog.server.rest.paimon.partitions import PartitionRoutes
from interbed.catalog.server.rest.paimon.refusals import error_body, no_route, translated
from interbed.catalog.server.rest.paimon.snapshots import SnapshotRoutes
from interbed.catalog.server.rest.paimon.tables import TableRoutes
from interbed.catalog.server.rest.paimon.unsupported import UnsupportedRoutes
from interbed.catalog.server.rest.paimon.versions import VersionRoutes
from interbed.catalog.server.rest.paimon.views import ViewRoutes
from interbed.catalog.server.service.databases import FunctionService

PATH = "/paimon"


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
        UnsupportedRoutes(),
    )
    return RestInterface(
        name="paimon",
        path=PATH,
        routes=[route for noun in nouns for route in noun.routes()],
        error_body=error_body,
        translated=translated,
        missing=no_route,
    )
