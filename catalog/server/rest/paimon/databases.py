"""The configuration of clients, and databases: list, create, get, alter, drop.

A client that drops a database without `cascade` looks for tables itself, and asks for the same as one with it. It sees
neither tables of other formats nor views and functions. So a database with tables of other formats is not dropped, and
one with views or functions only if it has tables as well: then the client has asked for all of them.
"""

from urllib.parse import unquote_plus

from interbed.catalog.server.rest.interface import (
    ObjectKind,
    RestRequest,
    RestResponse,
    RestRoute,
    json_response,
)
from interbed.catalog.server.rest.paimon.access import CatalogAccess
from interbed.catalog.server.rest.paimon.messages import (
    AlterDatabaseRequest,
    AlterDatabaseResponse,
    ConfigResponse,
    CreateDatabaseRequest,
    DatabaseResponse,
    name_filter,
    page,
)
from interbed.catalog.server.rest.paimon.refusals import paimon_route
from interbed.catalog.server.service.access.objects import Privilege
from interbed.catalog.server.service.databases import FunctionService

DATABASES = "v1/{prefix}/databases"
DATABASE = f"{DATABASES}/{{database}}"

_COMMENT, _OWNER = "comment", "owner"


class DatabaseRoutes:
    """The routes of databases."""

    def __init__(self, access: CatalogAccess, functions: FunctionService) -> None:
        self._access = access
        self._functions = functions

    def routes(self) -> list[RestRoute]:
        """Return the routes of databases."""
        usage, catalog, database = Privilege.USAGE, ObjectKind.CATALOG, ObjectKind.DATABASE
        create, alter, drop = Privilege.CREATE, Privilege.ALTER, Privilege.DROP
        return [
            paimon_route("GET", "v1/config", "getConfig", usage, ObjectKind.SERVER, self._config),
            paimon_route("GET", DATABASES, "listDatabases", usage, catalog, self._list),
            paimon_route("POST", DATABASES, "createDatabase", create, catalog, self._create),
            paimon_route("GET", DATABASE, "getDatabase", usage, database, self._get),
            paimon_route("POST", DATABASE, "alterDatabase", alter, database, self._alter),
            paimon_route("DELETE", DATABASE, "dropDatabase", drop, database, self._drop),
        ]

    def _config(self, request: RestRequest) -> RestResponse:
        # Paimon's clients encode the value, and encode it again with the query.
        warehouse = unquote_plus(request.query.get("warehouse", ""), errors="replace")
        return json_response(ConfigResponse(defaults={}, overrides={"prefix": self._access.prefix(warehouse)}))

    def _list(self, request: RestRequest) -> RestResponse:
        is_meant = name_filter(request, "databaseNamePattern")
        names = [name for name in self._access.catalog(request).list_databases() if is_meant(name)]
        found, token = page(request, names, str)
        return json_response({"databases": found, "nextPageToken": token})

    def _create(self, request: RestRequest) -> RestResponse:
        given = request.json(CreateDatabaseRequest)
        with self._access.changing(request) as catalog:
            catalog.create_database(given.name, properties=given.options or {})
        return RestResponse()

    def _get(self, request: RestRequest) -> RestResponse:
        catalog, name = self._access.catalog(request), request.parts["database"]
        found, origin = catalog.get_database(name), catalog.database_origin(name)
        options = {key: value for key, value in found.properties.items() if key != _OWNER}
        if found.comment is not None:
            options[_COMMENT] = found.comment
        answer = DatabaseResponse(
            id=origin.id,
            name=name,
            location=found.location,
            options=options,
            owner=origin.owner,
            created_at=origin.created_millis,
            created_by=origin.owner,
            updated_at=origin.created_millis,
            updated_by=origin.owner,
        )
        return json_response(answer)

    def _alter(self, request: RestRequest) -> RestResponse:
        given, name = request.json(AlterDatabaseRequest), request.parts["database"]
        removals, updates = given.removals or [], given.updates or {}
        with self._access.changing(request) as catalog:
            before = catalog.get_database(name)
            known = {*before.properties, *(() if before.comment is None else (_COMMENT,))}
            removed = [key for key in removals if key in known]
            catalog.alter_database(name, updates, removed)
        missing = [key for key in removals if key not in known]
        return json_response(AlterDatabaseResponse(removed=removed, updated=list(updates), missing=missing))

    def _drop(self, request: RestRequest) -> RestResponse:
        name = request.parts["database"]
        with self._access.changing(request) as catalog:
            home = self._access.metastore_catalog(request)
            catalog.check_droppable(name, [] if home is None else self._functions.names(home, name))
            catalog.drop_database(name, cascade=True)
        return RestResponse()
