"""The routes of the interface, by the operations of Iceberg's REST specification, and the header `Idempotency-Key`: a
change that a client repeats under one key is carried out once.

`UNSUPPORTED` are the operations that are refused by name, with status 406. A test compares both with the specification.

A namespace has no functions. Iceberg's functions are SQL with a metadata format of their own, and this interface has no
operation that creates one. Hive's functions name classes of Java, so that they are none of them. Source: Iceberg's REST
specification, listFunctions and loadFunction.

A repeated request gets the stored answer: success, or a refusal with a status of 4xx that another try would get as
well. Answers of 5xx, and refusals because of other clients at work, are not stored. After a kill between a change and
its answer, the answer is made again from the present state, as the specification allows. Source: Iceberg's REST
specification, parameter `idempotency-key`; draft-ietf-httpapi-idempotency-key-header for a key that is used again.
"""

import dataclasses
import hashlib
import uuid
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

import msgspec

from interbed.catalog.server.credentials.issued import TableCredentials
from interbed.catalog.server.credentials.s3_requests import TableSigning
from interbed.catalog.server.rest.iceberg.delegated import HEADER as DELEGATION
from interbed.catalog.server.rest.iceberg.delegated import DelegatedRoutes
from interbed.catalog.server.rest.iceberg.entries import OwnTables
from interbed.catalog.server.rest.iceberg.names import (
    REFUSALS,
    SEPARATOR,
    NamespaceMapping,
    bad_request,
    catalog_of,
    error_body,
    levels_of,
    page_of,
    translated,
)
from interbed.catalog.server.rest.iceberg.namespaces import NamespaceHandler
from interbed.catalog.server.rest.iceberg.scan_plans import PLANNING_NEEDS, ScanPlanHandler
from interbed.catalog.server.rest.iceberg.store import TableStore
from interbed.catalog.server.rest.iceberg.tables import UNREGISTER, IcebergTableHandler, ViewHandler
from interbed.catalog.server.rest.interface import (
    NO_CONTENT,
    Handler,
    ObjectKind,
    RestError,
    RestInterface,
    RestRequest,
    RestResponse,
    RestRoute,
    RouteTable,
    json_response,
    route,
)
from interbed.catalog.server.service.access.objects import Privilege
from interbed.catalog.server.service.errors import AccessDeniedError, AccessUnavailableError
from interbed.catalog.server.service.idempotency import (
    LIFETIME_SECONDS,
    IdempotencyService,
    KeyRecord,
    KeyTakenError,
)
from interbed.catalog.server.service.model import DEFAULT_CATALOG
from interbed.catalog.server.service.names import normalized, shortened
from interbed.catalog.server.service.service import CatalogService, Metastore
from interbed.catalog.server.service.tables.pointers import PointerMovedError, TableLockedError
from interbed.catalog.server.service.warehouse import same_location
from interbed.storage.base.errors import is_installed

HEADER = "idempotency-key"

LIFETIME = f"PT{LIFETIME_SECONDS // 60}M"
"""The time for which a key may be used, for the configuration of clients."""

ANSWER_BYTES_MAX = 256 << 10
"""Bytes of a stored answer; a longer one is made again from the present state."""

_UUID_VERSION = 7
_UUID_CHARACTERS = 36
_TRANSIENT = (PointerMovedError, TableLockedError)
"""Refusals with 409 because of other clients: another try may succeed."""

_NOT_FINAL = frozenset(
    {HTTPStatus.UNAUTHORIZED, HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS}
)


class _StoredAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """An answer as it is stored: `kind`, `message` and `fields` are those of a refusal."""

    status: int
    body: str = ""
    headers: dict[str, str] = {}
    kind: str | None = None
    message: str = ""
    fields: dict[str, Any] = {}


class RepeatableRoutes:
    """The routes of an interface, whose changes take keys. `loads` are the handlers that answer a change again, by its
    operation; the answer to any other change has no content.
    """

    def __init__(self, keys: IdempotencyService, loads: Mapping[str, Handler]) -> None:
        self._keys = keys
        self._loads = loads

    def repeatable(self, route: RestRoute) -> RestRoute:
        """Return a route with keys if it may change metadata."""
        if not route.is_change:
            return route

        def answer(request: RestRequest) -> RestResponse:
            given = request.headers.get(HEADER)
            if given is None:
                return route.handler(request)
            return self._answer(route, request, _of_caller(checked_key(given), request))

        return dataclasses.replace(route, handler=answer)

    def _answer(self, route: RestRoute, request: RestRequest, key: str) -> RestResponse:
        digest = _digest(route.operation, request)
        known = self._keys.find(key)
        if known is None:
            try:
                return self._carried_out(route, request, key, digest)
            except KeyTakenError as error:
                known = self._keys.find(key)
                if known is None:
                    # The reaper has removed it since.
                    raise _key_error(key, "has just expired: use a new one") from error
        return self._again(route.operation, request, known, digest)

    def _carried_out(self, route: RestRoute, request: RestRequest, key: str, digest: str) -> RestResponse:
        refusal: RestError | None = None
        answered = NO_CONTENT
        with self._keys.claiming(key, digest) as claim:
            try:
                answered = route.handler(request)
            except REFUSALS as error:
                refusal = _final(error)
                if refusal is None:
                    raise
        stored = _answer_of(answered) if refusal is None else _refusal_of(refusal)
        content = msgspec.json.encode(stored)
        if len(content) <= ANSWER_BYTES_MAX:
            self._keys.finish(claim, content)
        if refusal is not None:
            raise refusal
        return answered

    def _again(self, operation: str, request: RestRequest, known: KeyRecord, digest: str) -> RestResponse:
        if known.digest != digest:
            raise _key_error(known.key, "was used for another request: use a new one for each change")
        if known.answer is None:
            load = self._loads.get(operation)
            return NO_CONTENT if load is None else load(request)
        stored = msgspec.json.decode(known.answer, type=_StoredAnswer)
        status = HTTPStatus(stored.status)
        if stored.kind is not None:
            raise RestError(status, stored.kind, stored.message, **stored.fields)
        return RestResponse(status=status, body=stored.body.encode(), headers=dict(stored.headers))


def checked_key(given: str) -> str:
    """Return a key as it is stored. RestError with status 400 if it is no UUID of version 7."""
    try:
        found = uuid.UUID(given)
    except ValueError:
        found = None
    if found is None or len(given) != _UUID_CHARACTERS or found.version != _UUID_VERSION:
        raise bad_request(f"The Idempotency-Key {shortened(given)!r} is no UUID of version 7")
    return str(found)


def _of_caller(key: str, request: RestRequest) -> str:
    """Return a key as it is stored: two principals may use one key for their own requests."""
    principal = request.session.principal
    return key if principal is None else str(uuid.uuid5(uuid.UUID(key), principal.name))


def _digest(operation: str, request: RestRequest) -> str:
    content = hashlib.sha256(
        msgspec.json.encode([operation, sorted(request.parts.items()), sorted(request.query.items())])
    )
    content.update(request.body)
    return content.hexdigest()


def _final(error: Exception) -> RestError | None:
    """Return the refusal of an error if another try would get it as well."""
    if isinstance(error, (KeyTakenError, AccessDeniedError, AccessUnavailableError, *_TRANSIENT)):
        return None
    found = error if isinstance(error, RestError) else translated(error)
    if found is None or found.status >= HTTPStatus.INTERNAL_SERVER_ERROR or found.status in _NOT_FINAL:
        return None
    return found


def _key_error(key: str, reason: str) -> RestError:
    return RestError(
        HTTPStatus.UNPROCESSABLE_ENTITY, "UnprocessableEntityException", f"The Idempotency-Key {key} {reason}"
    )


def _answer_of(answered: RestResponse) -> _StoredAnswer:
    return _StoredAnswer(status=int(answered.status), body=answered.body.decode(), headers={**answered.headers})


def _refusal_of(error: RestError) -> _StoredAnswer:
    return _StoredAnswer(status=int(error.status), kind=error.kind, message=str(error), fields={**error.fields})


def loading(load: Handler, part: str) -> Handler:
    """Return a handler that answers by loading what a request has created: the name in its body is that `part` of the
    path.
    """
    return _on(load, lambda request: {**request.parts, part: str(_body(request).get("name"))})


def loading_namespace(load: Handler) -> Handler:
    """Return a handler that answers by loading the namespace that a request has created."""
    return _on(load, lambda request: {**request.parts, "namespace": SEPARATOR.join(_body(request)["namespace"])})


def loading_path(load: Handler) -> Handler:
    """Return a handler that answers by loading what the path names."""
    return _on(load, lambda request: request.parts)


def changed_properties(request: RestRequest) -> RestResponse:
    """Answer updateProperties for a change whose answer was not stored. It is not known which removed properties were
    missing before.
    """
    body = _body(request)
    return json_response({"updated": sorted(body.get("updates") or ()), "removed": body.get("removals") or []})


def _on(load: Handler, parts: Callable[[RestRequest], Mapping[str, str]]) -> Handler:
    return lambda request: load(dataclasses.replace(request, parts=parts(request), query={}, headers={}))


def _body(request: RestRequest) -> dict[str, Any]:
    return request.json(dict[str, Any])


class ConfigurationHandler:
    """The configuration for clients. `endpoints` returns them as `GET /v1/{prefix}/namespaces`."""

    def __init__(self, catalogs: CatalogService, endpoints: Callable[[], Sequence[str]]) -> None:
        self._catalogs = catalogs
        self._endpoints = endpoints

    def get(self, request: RestRequest) -> RestResponse:
        """Answer getConfig. RestError with status 404 for a warehouse that is no catalog."""
        prefix = self._prefix(request.query.get("warehouse", ""))
        return json_response(
            {
                "defaults": {},
                "overrides": {"prefix": prefix},
                "endpoints": list(self._endpoints()),
                "idempotency-key-lifetime": LIFETIME,
            }
        )

    def _prefix(self, warehouse: str) -> str:
        """Return the name of the catalog that a warehouse names: by its name or its location, or the default one."""
        if not warehouse:
            return DEFAULT_CATALOG
        names = self._catalogs.names()
        if normalized(warehouse) in names:
            return normalized(warehouse)
        for name in names:
            if same_location(self._catalogs.get(name).location, warehouse):
                return name
        raise RestError(
            HTTPStatus.NOT_FOUND,
            "NoSuchWarehouseException",
            f"Warehouse does not exist: {shortened(warehouse)}. Give the name of a catalog, or none for "
            f"'{DEFAULT_CATALOG}'",
        )


class IcebergFunctionHandler:
    """The operations about functions."""

    def __init__(self, store: TableStore) -> None:
        self._store = store

    def list(self, request: RestRequest) -> RestResponse:
        """Answer listFunctions. RestError with status 404 for a missing namespace."""
        page_of(request.query)
        self._store.present(catalog_of(request), levels_of(request.parts["namespace"]))
        return json_response({"identifiers": [], "next-page-token": None})

    def load(self, request: RestRequest) -> RestResponse:
        """Answer loadFunction: RestError with status 404 for every function, and for a missing namespace."""
        levels = levels_of(request.parts["namespace"])
        self._store.present(catalog_of(request), levels)
        name = shortened(f"{'.'.join(levels)}.{request.parts['function']}")
        raise RestError(HTTPStatus.NOT_FOUND, "NoSuchFunctionException", f"Function does not exist: {name}")


PATH = "/iceberg"

_CATALOG = "v1/{prefix}"
_NAMESPACES = f"{_CATALOG}/namespaces"
_NAMESPACE = f"{_NAMESPACES}/{{namespace}}"
_TABLES = f"{_NAMESPACE}/tables"
_TABLE = f"{_TABLES}/{{table}}"
_VIEWS = f"{_NAMESPACE}/views"
_VIEW = f"{_VIEWS}/{{view}}"

_SIGN = ("POST", f"{_TABLE}/sign", "signRequest")

UNSUPPORTED: Sequence[tuple[str, str, str]] = (
    ("POST", "v1/oauth/tokens", "getToken"),
    _SIGN,
)
"""Method, path and operation of what is refused, signatures where the server makes none."""

_PLANNING = (
    ("POST", f"{_TABLE}/plan", "planTableScan"),
    ("GET", f"{_TABLE}/plan/{{plan-id}}", "fetchPlanningResult"),
    ("DELETE", f"{_TABLE}/plan/{{plan-id}}", "cancelPlanning"),
    ("POST", f"{_TABLE}/tasks", "fetchScanTasks"),
)
"""Method, path and operation of planned scans, which are refused where the extra for planning is not installed."""


def interface(
    metastore: Metastore,
    own: OwnTables | None = None,
    mapping: NamespaceMapping | None = None,
    credentials: TableCredentials | None = None,
    signing: TableSigning | None = None,
) -> RestInterface:
    """Return the interface over the tables of a metastore, with its own ones if they are given. With `credentials` it
    issues storage credentials, with `signing` it signs requests of its clients.
    """
    store = TableStore(metastore, own, mapping)
    made: list[RestRoute] = []

    def endpoints() -> list[str]:
        return [f"{each.method} /{each.template}" for each in made if each.operation != "getConfig"]

    repeatable = RepeatableRoutes(metastore.idempotency, _loads(store)).repeatable
    made.extend(map(repeatable, _routes(store, ConfigurationHandler(metastore.catalogs, endpoints))))
    is_delegating = credentials is not None or signing is not None
    routes = made
    if is_delegating:
        delegated = DelegatedRoutes(credentials, signing, store.mapping)
        if signing is not None:
            sign = delegated.signing(IcebergTableHandler(store).exists)
            made.append(route(*_SIGN, Privilege.SELECT, ObjectKind.TABLE, sign))
        routes = list(map(delegated.delegating, made))
    return RestInterface(
        name="iceberg",
        path=PATH,
        routes=routes,
        error_body=error_body,
        translated=translated,
        missing=_missing,
        uncached_with=DELEGATION if is_delegating else None,
    )


def _routes(store: TableStore, configuration: ConfigurationHandler) -> list[RestRoute]:
    plans = _plan_routes(ScanPlanHandler(store)) if is_installed(PLANNING_NEEDS) else []
    further = [
        *_view_routes(ViewHandler(store), store.mapping),
        *_function_routes(IcebergFunctionHandler(store)),
        *plans,
    ]
    return [*_table_routes(store, configuration), *further]


def _loads(store: TableStore) -> dict[str, Handler]:
    """Return the handlers that answer a change whose answer was not stored, by its operation."""
    namespaces, tables, views = NamespaceHandler(store), IcebergTableHandler(store), ViewHandler(store)
    return {
        "createNamespace": loading_namespace(namespaces.load),
        "updateProperties": changed_properties,
        "createTable": loading(tables.load, "table"),
        "registerTable": loading(tables.load, "table"),
        UNREGISTER: tables.unregistered,
        "updateTable": loading_path(tables.load),
        "createView": loading(views.load, "view"),
        "registerView": loading(views.load, "view"),
        "replaceView": loading_path(views.load),
    }


def _table_routes(store: TableStore, configuration: ConfigurationHandler) -> list[RestRoute]:
    namespaces, tables, mapping = NamespaceHandler(store), IcebergTableHandler(store), store.mapping
    usage, create = Privilege.USAGE, Privilege.CREATE
    select, alter, drop = Privilege.SELECT, Privilege.ALTER, Privilege.DROP
    server, catalog = ObjectKind.SERVER, ObjectKind.CATALOG
    database, table = ObjectKind.DATABASE, ObjectKind.TABLE
    return [
        route("GET", "v1/config", "getConfig", usage, server, configuration.get),
        route("GET", _NAMESPACES, "listNamespaces", usage, catalog, namespaces.list),
        route("POST", _NAMESPACES, "createNamespace", create, catalog, namespaces.create),
        route("GET", _NAMESPACE, "loadNamespaceMetadata", usage, database, namespaces.load, mapping.namespace_scope),
        route("HEAD", _NAMESPACE, "namespaceExists", usage, database, namespaces.exists, mapping.namespace_scope),
        route("DELETE", _NAMESPACE, "dropNamespace", drop, database, namespaces.drop),
        route("POST", f"{_NAMESPACE}/properties", "updateProperties", alter, database, namespaces.update),
        route("GET", _TABLES, "listTables", usage, database, tables.list, mapping.list_scope),
        route("POST", _TABLES, "createTable", create, database, tables.create),
        route("POST", f"{_NAMESPACE}/register", "registerTable", create, database, tables.register),
        route("GET", _TABLE, "loadTable", select, table, tables.load, mapping.table_scope),
        route("HEAD", _TABLE, "tableExists", select, table, tables.exists, mapping.table_scope),
        route("POST", _TABLE, "updateTable", alter, table, tables.commit),
        route("DELETE", _TABLE, "dropTable", drop, table, tables.drop),
        route("POST", f"{_TABLE}/unregister", UNREGISTER, drop, table, tables.unregister),
        route("GET", f"{_TABLE}/credentials", "loadCredentials", select, table, tables.credentials),
        route("POST", f"{_TABLE}/metrics", "reportMetrics", select, table, tables.report),
        route("POST", f"{_CATALOG}/tables/rename", "renameTable", alter, table, tables.rename),
        route("POST", f"{_CATALOG}/transactions/commit", "commitTransaction", alter, table, tables.commit_all),
    ]


def _view_routes(views: ViewHandler, mapping: NamespaceMapping) -> list[RestRoute]:
    database, view = ObjectKind.DATABASE, ObjectKind.VIEW
    select, alter = Privilege.SELECT, Privilege.ALTER
    return [
        route("GET", _VIEWS, "listViews", Privilege.USAGE, database, views.list, mapping.list_scope),
        route("POST", _VIEWS, "createView", Privilege.CREATE, database, views.create),
        route("POST", f"{_NAMESPACE}/register-view", "registerView", Privilege.CREATE, database, views.register),
        route("GET", _VIEW, "loadView", select, view, views.load, mapping.view_scope),
        route("HEAD", _VIEW, "viewExists", select, view, views.exists, mapping.view_scope),
        route("POST", _VIEW, "replaceView", alter, view, views.replace),
        route("DELETE", _VIEW, "dropView", Privilege.DROP, view, views.drop),
        route("POST", f"{_CATALOG}/views/rename", "renameView", alter, view, views.rename),
    ]


def _function_routes(functions: IcebergFunctionHandler) -> list[RestRoute]:
    path, usage = f"{_NAMESPACE}/functions", Privilege.USAGE
    return [
        route("GET", path, "listFunctions", usage, ObjectKind.DATABASE, functions.list),
        route("GET", f"{path}/{{function}}", "loadFunction", usage, ObjectKind.FUNCTION, functions.load),
    ]


def _plan_routes(plans: ScanPlanHandler) -> list[RestRoute]:
    handlers = (plans.plan, plans.result, plans.cancel, plans.tasks)
    return [
        route(method, template, operation, Privilege.SELECT, ObjectKind.TABLE, handler)
        for (method, template, operation), handler in zip(_PLANNING, handlers, strict=True)
    ]


def _refused(request: RestRequest) -> RestResponse:
    raise AssertionError("a refused operation has no handler")


_REFUSED = RouteTable(
    [
        route(method, template, operation, Privilege.USAGE, ObjectKind.SERVER, _refused)
        for method, template, operation in (*UNSUPPORTED, *_PLANNING)
    ]
)


def _missing(method: str, path: str) -> RestError:
    try:
        found = _REFUSED.find(method, path)
    except ValueError:
        found = None
    if found is None:
        return RestError(HTTPStatus.NOT_FOUND, "NotFoundException", f"There is no route for {method} {path[:200]}")
    message = f"The operation {found[0].operation} is not supported by this server"
    if any(found[0].operation == operation for _, _, operation in _PLANNING):
        message += ": install interbed[iceberg] there, or plan scans in the client"
    elif found[0].operation == _SIGN[2]:
        message += ": set credentials_s3_signing there, or give clients keys of the store"
    return RestError(HTTPStatus.NOT_ACCEPTABLE, "UnsupportedOperationException", message)
