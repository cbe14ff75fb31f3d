"""The configuration of clients, and databases: list, create, get, alter, drop.

A client that drops a database without `cascade` looks for tables itself, and asks for the same as one with it. It sees
neither tables of other formats nor views and functions. So a database with tables of other formats is not dropped, and
one with views or functions only if it has tables as well: then the client has asked for all of them.
"""

import uuid
from collections.abc import Sequence
from typing import Any
from urllib.parse import unquote_plus

from interbed.catalog.client.hive.catalog import HiveCatalog
from interbed.catalog.client.hive.registration import is_ours, is_view
from interbed.catalog.client.identifier import DEFAULT_DATABASE
from interbed.catalog.server.rest.interface import (
    AccessPrivilege,
    ObjectKind,
    RestRequest,
    RestResponse,
    RestRoute,
    json_response,
)
from interbed.catalog.server.rest.paimon.access import CatalogAccess, catalog_name, entries
from interbed.catalog.server.rest.paimon.messages import (
    AlterDatabaseRequest,
    AlterDatabaseResponse,
    ConfigResponse,
    CreateDatabaseRequest,
    DatabaseResponse,
)
from interbed.catalog.server.rest.paimon.paging import name_filter, page
from interbed.catalog.server.rest.paimon.refusals import invalid, paimon_route
from interbed.catalog.server.service.databases import FunctionService
from interbed.catalog.server.service.model import DEFAULT_CATALOG

DATABASES = "v1/{prefix}/databases"
DATABASE = f"{DATABASES}/{{database}}"

_COMMENT, _OWNER = "comment", "owner"

_IDS = uuid.UUID("5f0b0c3e-7d5b-5a39-9f0e-4b1f8a2c6d10")
"""Namespace of the ids of databases and views, which a metastore knows by their names."""


def derived_id(*parts: object) -> str:
    """Return an id that the same parts always have."""
    return str(uuid.uuid5(_IDS, "\n".join(map(str, parts))))


class DatabaseRoutes:
    """The routes of databases."""

    def __init__(self, access: CatalogAccess, functions: FunctionService) -> None:
        self._access = access
        self._functions = functions

    def routes(self) -> list[RestRoute]:
        """Return the routes of databases."""
        usage, catalog, database = AccessPrivilege.USAGE, ObjectKind.CATALOG, ObjectKind.DATABASE
        create, alter, drop = AccessPrivilege.CREATE, AccessPrivilege.ALTER, AccessPrivilege.DROP
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
        warehouse = unquote_plus(request.query.get("warehouse", DEFAULT_CATALOG), errors="replace")
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
        found = catalog.get_database(name)
        entry: Any = catalog.client.get_database(name)
        options = {key: value for key, value in found.properties.items() if key != _OWNER}
        if found.comment is not None:
            options[_COMMENT] = found.comment
        created = (entry.createTime or 0) * 1000
        answer = DatabaseResponse(
            id=derived_id("database", catalog.name, name, created),
            name=name,
            location=found.location,
            options=options,
            owner=entry.ownerName,
            created_at=created,
            created_by=entry.ownerName,
            updated_at=created,
            updated_by=entry.ownerName,
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
            _check_droppable(catalog, name, self._functions.names(catalog_name(request), name))
            catalog.drop_database(name, cascade=True)
        return RestResponse()


def _check_droppable(catalog: HiveCatalog, database: str, functions: Sequence[str]) -> None:
    """Raise RestError with status 400 for the database `default`, and for one with objects that its client may not have
    seen.
    """
    if database.lower() == DEFAULT_DATABASE:
        raise invalid(f"The database {DEFAULT_DATABASE!r} of a metastore cannot be dropped.")
    catalog.get_database(database)
    names = catalog.client.get_all_tables(database)
    tables, views, others = 0, [], []
    for entry in entries(catalog, database, names):
        if is_view(entry):
            views.append(entry.tableName)
        elif is_ours(entry):
            tables += 1
        else:
            others.append(entry.tableName)
    if others:
        raise invalid(
            f"The database '{database}' holds tables of other formats, such as '{others[0]}', which are not dropped by "
            "Paimon's REST interface; drop them first."
        )
    if views and not tables:
        raise invalid(f"The database '{database}' holds views, such as '{views[0]}'; drop them first.")
    if functions and not tables:
        raise invalid(f"The database '{database}' holds functions, such as '{functions[0]}'; drop them first.")
