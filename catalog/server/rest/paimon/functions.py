"""Functions: there are none. A metastore has Hive's functions, which are classes of Java without definitions in Paimon's
languages.

Flink looks in its catalog for every function of a statement, for `=` and `sum` too, before it takes its own. So lists are
empty, and a function that is asked for is missing. Only the creation of one is refused.
"""

from interbed.catalog.server.rest.interface import (
    AccessPrivilege,
    ObjectKind,
    RestRequest,
    RestResponse,
    RestRoute,
    json_response,
)
from interbed.catalog.server.rest.paimon.access import CatalogAccess
from interbed.catalog.server.rest.paimon.databases import DATABASE
from interbed.catalog.server.rest.paimon.refusals import ResourceType, missing, paimon_route, unsupported

FUNCTIONS = f"{DATABASE}/functions"
FUNCTION = f"{FUNCTIONS}/{{function}}"


class FunctionRoutes:
    """The routes of functions."""

    def __init__(self, access: CatalogAccess) -> None:
        self._access = access

    def routes(self) -> list[RestRoute]:
        """Return the routes of functions."""
        usage, create, alter = AccessPrivilege.USAGE, AccessPrivilege.CREATE, AccessPrivilege.ALTER
        catalog, database, function = ObjectKind.CATALOG, ObjectKind.DATABASE, ObjectKind.FUNCTION
        details = f"{DATABASE}/function-details"
        return [
            paimon_route("GET", FUNCTIONS, "listFunctions", usage, database, self._list),
            paimon_route("POST", FUNCTIONS, "createFunction", create, database, self._create),
            paimon_route("GET", details, "listFunctionDetails", usage, database, self._list_details),
            paimon_route("GET", "v1/{prefix}/functions", "listFunctionsGlobally", usage, catalog, self._list_globally),
            paimon_route("GET", FUNCTION, "getFunction", usage, function, self._missing),
            paimon_route("POST", FUNCTION, "alterFunction", alter, function, self._missing),
            paimon_route("DELETE", FUNCTION, "dropFunction", AccessPrivilege.DROP, function, self._missing),
        ]

    def _list(self, request: RestRequest) -> RestResponse:
        self._check_database(request)
        return json_response({"functions": [], "nextPageToken": None})

    def _list_details(self, request: RestRequest) -> RestResponse:
        self._check_database(request)
        return json_response({"functionDetails": [], "nextPageToken": None})

    def _list_globally(self, request: RestRequest) -> RestResponse:
        self._access.catalog(request)
        return json_response({"functions": [], "nextPageToken": None})

    def _create(self, request: RestRequest) -> RestResponse:
        self._check_database(request)
        raise unsupported("Functions are not supported: a Hive metastore keeps no definitions of them.")

    def _missing(self, request: RestRequest) -> RestResponse:
        self._access.catalog(request)
        database, name = request.parts["database"], request.parts["function"]
        raise missing(ResourceType.FUNCTION, name, f"Function {database}.{name} does not exist.")

    def _check_database(self, request: RestRequest) -> None:
        self._access.catalog(request).get_database(request.parts["database"])
