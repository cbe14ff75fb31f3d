"""Views: list, create, get, alter, rename, drop. view_schema.py says how a metastore keeps them."""

from typing import Any

from interbed.catalog.client.errors import DatabaseNotFoundError, TableExistsError, ViewNotFoundError
from interbed.catalog.client.hive.catalog import HiveCatalog
from interbed.catalog.client.identifier import Identifier
from interbed.catalog.server.rest.interface import (
    AccessPrivilege,
    ObjectKind,
    RequiredAccess,
    RestRequest,
    RestResponse,
    RestRoute,
    json_response,
)
from interbed.catalog.server.rest.paimon.access import CatalogAccess, object_name
from interbed.catalog.server.rest.paimon.databases import DATABASE, derived_id
from interbed.catalog.server.rest.paimon.messages import (
    AlterViewRequest,
    Name,
    NewViewRequest,
    RenamedTableRequest,
    ViewResponse,
)
from interbed.catalog.server.rest.paimon.paging import name_filter, page
from interbed.catalog.server.rest.paimon.refusals import ResourceType, existing, invalid, missing, refusing
from interbed.catalog.server.rest.paimon.view_schema import changed_view, given_view, shown_view

VIEWS = f"{DATABASE}/views"
VIEW = f"{VIEWS}/{{view}}"


class ViewRoutes:
    """The routes of views."""

    def __init__(self, access: CatalogAccess) -> None:
        self._access = access

    def routes(self) -> list[RestRoute]:
        """Return the routes of views."""
        lists = RequiredAccess(AccessPrivilege.USAGE, ObjectKind.DATABASE)
        alters = RequiredAccess(AccessPrivilege.ALTER, ObjectKind.VIEW)
        listed = RequiredAccess(AccessPrivilege.USAGE, ObjectKind.CATALOG)
        renames = RequiredAccess(AccessPrivilege.ALTER, ObjectKind.CATALOG)
        creates = RequiredAccess(AccessPrivilege.CREATE, ObjectKind.DATABASE)
        rows = (
            ("GET", VIEWS, "listViews", lists, self._list, False),
            ("POST", VIEWS, "createView", creates, self._create, True),
            ("GET", f"{DATABASE}/view-details", "listViewDetails", lists, self._list_details, False),
            ("GET", "v1/{prefix}/views", "listViewsGlobally", listed, self._list_globally, False),
            ("POST", "v1/{prefix}/views/rename", "renameView", renames, self._rename, True),
            ("GET", VIEW, "getView", RequiredAccess(AccessPrivilege.SELECT, ObjectKind.VIEW), self._get, False),
            ("POST", VIEW, "alterView", alters, self._alter, True),
            ("DELETE", VIEW, "dropView", RequiredAccess(AccessPrivilege.DROP, ObjectKind.VIEW), self._drop, True),
        )
        return [
            RestRoute(
                method=method,
                template=template,
                operation=operation,
                needs=needs,
                handler=refusing(handler),
                is_change=is_change,
            )
            for method, template, operation, needs, handler, is_change in rows
        ]

    def _list(self, request: RestRequest) -> RestResponse:
        found, token = page(request, _names(self._access.catalog(request), request), str)
        return json_response({"views": found, "nextPageToken": token})

    def _list_details(self, request: RestRequest) -> RestResponse:
        catalog = self._access.catalog(request)
        found, token = page(request, _names(catalog, request), str)
        details = []
        for name in found:
            try:
                details.append(_shown(catalog, Identifier.parse((request.parts["database"], name))))
            except ViewNotFoundError:
                # It was dropped since it was listed.
                continue
        return json_response({"viewDetails": details, "nextPageToken": token})

    def _list_globally(self, request: RestRequest) -> RestResponse:
        catalog = self._access.catalog(request)
        is_database = name_filter(request, "databaseNamePattern")
        is_view = name_filter(request, "viewNamePattern")
        names: list[Name] = []
        for database in filter(is_database, catalog.list_databases()):
            try:
                names += [Name(database, view) for view in filter(is_view, catalog.list_views(database))]
            except DatabaseNotFoundError:
                continue
        found, token = page(request, names, lambda name: f"{name.database}.{name.object}")
        return json_response({"views": found, "nextPageToken": token})

    def _create(self, request: RestRequest) -> RestResponse:
        given = request.json(NewViewRequest)
        if given.identifier.database != request.parts["database"]:
            raise invalid(f"The path names another database than the view, {given.identifier.database!r}.")
        name = Identifier.parse((given.identifier.database, given.identifier.object))
        with self._access.changing(request) as catalog:
            try:
                catalog.create_view(name, given_view(given.schema))
            except TableExistsError as error:
                raise existing(ResourceType.VIEW, name.table, str(error)) from error
        return RestResponse()

    def _get(self, request: RestRequest) -> RestResponse:
        return json_response(_shown(self._access.catalog(request), object_name(request, "view")))

    def _alter(self, request: RestRequest) -> RestResponse:
        changes, name = request.json(AlterViewRequest).changes, object_name(request, "view")
        with self._access.changing(request) as catalog:
            # The last of two concurrent changes wins, as with Hive's clients.
            catalog.create_view(name, changed_view(catalog.get_view(name), str(name), changes), replace=True)
        return RestResponse()

    def _rename(self, request: RestRequest) -> RestResponse:
        given = request.json(RenamedTableRequest)
        old, new = (Identifier.parse((name.database, name.object)) for name in (given.source, given.destination))
        with self._access.changing(request) as catalog:
            try:
                catalog.rename_view(old, new)
            except ViewNotFoundError as error:
                raise missing(ResourceType.VIEW, old.table, str(error)) from error
            except TableExistsError as error:
                raise existing(ResourceType.VIEW, new.table, str(error)) from error
        return RestResponse()

    def _drop(self, request: RestRequest) -> RestResponse:
        with self._access.changing(request) as catalog:
            catalog.drop_view(object_name(request, "view"))
        return RestResponse()


def _names(catalog: HiveCatalog, request: RestRequest) -> list[str]:
    is_meant = name_filter(request, "viewNamePattern")
    return [name for name in catalog.list_views(request.parts["database"]) if is_meant(name)]


def _shown(catalog: HiveCatalog, name: Identifier) -> ViewResponse:
    view = catalog.get_view(name)
    entry: Any = catalog.client.get_table(name.database, name.table)
    created = (entry.createTime or 0) * 1000
    return ViewResponse(
        id=derived_id("view", entry.id),
        name=name.table,
        schema=shown_view(view),
        owner=entry.owner,
        created_at=created,
        created_by=entry.owner,
        updated_at=created,
        updated_by=entry.owner,
    )
