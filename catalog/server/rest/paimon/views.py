"""Views: list, create, get, alter, rename, drop.

Views of Paimon's REST catalog have columns of Paimon's types, and queries in several dialects. A metastore has one
query and columns of Hive's types. The rest is in parameters of the entry: the columns as JSON, and a query for each
dialect. Where another client has changed the columns since, those of the metastore are shown.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from interbed.catalog.client.api import View, ViewColumn
from interbed.catalog.client.errors import TableExistsError, ViewNotFoundError
from interbed.catalog.client.hive.registration import hive_type_name
from interbed.catalog.client.identifier import Identifier, parse_table_name
from interbed.catalog.server.rest.interface import (
    ObjectKind,
    RestRequest,
    RestResponse,
    RestRoute,
    json_response,
)
from interbed.catalog.server.rest.paimon.access import CatalogAccess, named_in_path, object_name
from interbed.catalog.server.rest.paimon.catalogs import ServedCatalog
from interbed.catalog.server.rest.paimon.databases import DATABASE
from interbed.catalog.server.rest.paimon.messages import (
    AlterViewRequest,
    NewViewRequest,
    RenamedTableRequest,
    ViewResponse,
    ViewSchemaJson,
    after_changes,
    global_page,
    names_of_page,
    page,
)
from interbed.catalog.server.rest.paimon.refusals import (
    ResourceType,
    existing,
    invalid,
    missing,
    paimon_route,
    text_of,
    unsupported,
)
from interbed.catalog.server.rest.paimon.schema_json import given_fields
from interbed.catalog.server.service.access.objects import Privilege
from interbed.catalog.server.service.access.policies import paimon_type
from interbed.catalog.server.service.errors import InvalidObjectError
from interbed.storage.base.errors import CorruptFileError, InvalidInputError, NotSupportedError
from interbed.storage.base.types.data_type import (
    DataField,
    DataType,
    field_from_json,
    field_to_json,
)

FIELDS = "interbed.view.fields"
DIALECT = "interbed.view.dialect."


def given_view(given: ViewSchemaJson) -> View:
    """Return the view of a request. RestError with status 400 for an invalid one."""
    fields = given_fields(given.fields)
    options = {key: value for key, value in (given.options or {}).items() if not _is_own(key)}
    options[FIELDS] = json.dumps([field_to_json(field) for field in fields], ensure_ascii=False)
    options.update({f"{DIALECT}{name}": query for name, query in (given.dialects or {}).items()})
    return View(query=given.query, columns=_columns(fields), comment=given.comment, options=options)


def shown_view(view: View) -> ViewSchemaJson:
    """Return the JSON of a view."""
    return ViewSchemaJson(
        fields=[field_to_json(field) for field in _fields(view)],
        query=view.query,
        dialects=_dialects(view),
        comment=view.comment,
        options={key: value for key, value in view.options.items() if not _is_own(key)},
    )


def changed_view(view: View, name: str, changes: Sequence[Mapping[str, Any]]) -> View:
    """Return the view after changes.

    RestError: status 400 for invalid ones, 404 and 409 for dialects, 501 for an action that is not supported.
    """
    return after_changes("view", view, changes, lambda before, change: _changed(before, name, change))


def _changed(view: View, name: str, change: Mapping[str, Any]) -> View:
    options = dict(view.options)
    match change.get("action"):
        case "setOption":
            options[_option(change)] = text_of(change["value"], "The value of an option")
        case "removeOption":
            options.pop(_option(change), None)
        case "updateComment":
            comment = change.get("comment")
            return replace(view, comment=None if comment is None else text_of(comment, "The comment"))
        case "addDialect":
            dialect = _dialect(change)
            if dialect in _dialects(view):
                raise existing(ResourceType.DIALECT, dialect, f"The view {name} has {dialect} already.")
            options[f"{DIALECT}{dialect}"] = text_of(change["query"], "The query")
        case "updateDialect":
            dialect = _known_dialect(view, name, change)
            options[f"{DIALECT}{dialect}"] = text_of(change["query"], "The query")
        case "dropDialect":
            del options[f"{DIALECT}{_known_dialect(view, name, change)}"]
        case other:
            raise unsupported(f"Changes of a view by {other!r} are not supported.")
    return replace(view, options=options)


def _option(change: Mapping[str, Any]) -> str:
    key = text_of(change["key"], "The name of an option")
    if _is_own(key):
        raise invalid(f"The option {key!r} of a view is the server's own.")
    return key


def _dialect(change: Mapping[str, Any]) -> str:
    return text_of(change["dialect"], "The name of a dialect")


def _known_dialect(view: View, name: str, change: Mapping[str, Any]) -> str:
    dialect = _dialect(change)
    if dialect not in _dialects(view):
        raise missing(ResourceType.DIALECT, dialect, f"The view {name} has no query of the dialect {dialect}.")
    return dialect


def _is_own(key: str) -> bool:
    return key == FIELDS or key.startswith(DIALECT)


def _dialects(view: View) -> dict[str, str]:
    return {key.removeprefix(DIALECT): query for key, query in view.options.items() if key.startswith(DIALECT)}


def _columns(fields: Sequence[DataField]) -> tuple[ViewColumn, ...]:
    return tuple(ViewColumn(field.name, hive_type_name(field.type), field.description) for field in fields)


def _fields(view: View) -> list[DataField]:
    try:
        known = [field_from_json(field) for field in json.loads(view.options.get(FIELDS, "[]"))]
    except (CorruptFileError, ValueError, KeyError, TypeError, AttributeError):
        known = []
    if [(c.name.lower(), c.type) for c in _columns(known)] == [(c.name.lower(), c.type) for c in view.columns]:
        return known
    return [
        DataField(id=index, name=column.name, type=_type(column.type), description=column.comment)
        for index, column in enumerate(view.columns)
    ]


def _type(hive_type: str) -> DataType:
    try:
        return paimon_type(hive_type)
    except InvalidObjectError as error:
        raise unsupported(str(error)) from error


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
        found, token = global_page(request, catalog, "viewNamePattern", catalog.views_after)
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
