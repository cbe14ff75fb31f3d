"""Views: list, create, get, alter, rename, drop. view_schema.py says how a metastore keeps them."""

from interbed.catalog.client.errors import TableExistsError, ViewNotFoundError
from interbed.catalog.client.identifier import Identifier, parse_table_name
from interbed.catalog.server.rest.interface import (
    ObjectKind,
    RestRequest,
    RestResponse,
    RestRoute,
    json_response,
)
from interbed.catalog.server.rest.paimon.access import CatalogAccess, named_in_path, object_name
from interbed.catalog.server.rest.paimon.catalogs.served import ServedCatalog
from interbed.catalog.server.rest.paimon.databases import DATABASE
from interbed.catalog.server.rest.paimon.messages import (
    AlterViewRequest,
    NewViewRequest,
    RenamedTableRequest,
    ViewResponse,
)
from interbed.catalog.server.rest.paimon.paging import global_page, names_of_page, page, prefix_of
from interbed.catalog.server.rest.paimon.refusals import ResourceType, existing, missing, paimon_route
from interbed.catalog.server.rest.paimon.view_schema import changed_view, given_view, shown_view
from interbed.catalog.server.service.access.objects import Privilege
from interbed.storage.base.errors import InvalidInputError, NotSupportedError

VIEWS = f"{DATABASE}/views"
VIEW = f"{VIEWS}/{{view}}"


class ViewRoutes:
    """The routes of views."""

    def __init__(self, access: CatalogAccess) -> None:
        self._access = access

    def routes(self) -> list[RestRoute]:
        """Return the routes of views."""
        usage, create, alter = Privilege.USAGE, Privilege.CREATE, Privilege.ALTER
        catalog, database, view = ObjectKind.CATALOG, ObjectKind.DATABASE, ObjectKind.VIEW
        every = "v1/{prefix}/views"
        return [
            paimon_route("GET", VIEWS, "listViews", usage, database, self._list),
            paimon_route("POST", VIEWS, "createView", create, database, self._create),
            paimon_route("GET", f"{DATABASE}/view-details", "listViewDetails", usage, database, self._list_details),
            paimon_route("GET", every, "listViewsGlobally", usage, catalog, self._list_globally),
            paimon_route("POST", f"{every}/rename", "renameView", alter, catalog, self._rename),
            paimon_route("GET", VIEW, "getView", Privilege.SELECT, view, self._get),
            paimon_route("POST", VIEW, "alterView", alter, view, self._alter),
            paimon_route("DELETE", VIEW, "dropView", Privilege.DROP, view, self._drop),
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
        prefix = prefix_of(request.query.get("viewNamePattern"))
        found, token = global_page(
            request, catalog, "viewNamePattern", lambda database: catalog.views_after(database, "", prefix=prefix)
        )
        return json_response({"views": found, "nextPageToken": token})

    def _create(self, request: RestRequest) -> RestResponse:
        given = request.json(NewViewRequest)
        name = named_in_path(given.identifier, request)
        with self._access.changing(request) as catalog:
            try:
                catalog.create_view(name, given_view(given.schema))
            except TableExistsError as error:
                raise existing(ResourceType.VIEW, name.table, str(error)) from error
        return RestResponse()

    def _get(self, request: RestRequest) -> RestResponse:
        return json_response(_shown(self._access.catalog(request), _view_name(request)))

    def _alter(self, request: RestRequest) -> RestResponse:
        changes, name = request.json(AlterViewRequest).changes, _view_name(request)
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
            catalog.drop_view(_view_name(request))
        return RestResponse()


def _view_name(request: RestRequest) -> Identifier:
    """Return the view that the path of a request names. RestError with status 404 for a name that no view can have.

    Clients ask for a view when they find no table, also by the name of a system table.
    """
    try:
        return parse_table_name(object_name(request, "view"))
    except (NotSupportedError, InvalidInputError) as error:
        database, view = request.parts["database"], request.parts["view"]
        raise missing(ResourceType.VIEW, view, f"View {database}.{view} does not exist.") from error


def _names(catalog: ServedCatalog, request: RestRequest) -> list[str]:
    return names_of_page(request, request.parts["database"], "viewNamePattern", catalog.views_after)


def _shown(catalog: ServedCatalog, name: Identifier) -> ViewResponse:
    view = catalog.get_view(name)
    origin = catalog.view_origin(name)
    return ViewResponse(
        id=origin.id,
        name=name.table,
        schema=shown_view(view),
        owner=origin.owner,
        created_at=origin.created_millis,
        created_by=origin.owner,
        updated_at=origin.created_millis,
        updated_by=origin.owner,
    )
