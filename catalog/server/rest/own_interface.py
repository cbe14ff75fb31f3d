"""The REST interface of this server's own, beside the specifications of Iceberg and Paimon: dropped objects, the
history of metadata, roles, grants and policies.

Dropped objects and history are below `/interbed/v1/{prefix}`, where `prefix` is the name of a catalog of the metastore;
dropped.py and history.py have the routes. Roles, grants and policies are below `/interbed/v1/access`
(access/routes.py).
"""

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from http import HTTPStatus

from interbed.catalog.server.rest.access.routes import AccessRoutes
from interbed.catalog.server.rest.dropped import DroppedRoutes
from interbed.catalog.server.rest.history import HistoryRoutes
from interbed.catalog.server.rest.interface import RestError, RestInterface, RestRequest, RestResponse, RestRoute
from interbed.catalog.server.service.access.administration import AccessAdministration
from interbed.catalog.server.service.access.policy_administration import PolicyAdministration
from interbed.catalog.server.service.errors import (
    AccessDeniedError,
    AccessUnavailableError,
    AlreadyExistsError,
    InvalidObjectError,
    InvalidOperationError,
    MetastoreError,
    NoSuchObjectError,
    OutcomeUnknownError,
)
from interbed.catalog.server.service.service import Metastore
from interbed.catalog.server.service.tables.pointers import PointerMovedError, TableLockedError

PATH = "/interbed"

_KINDS: tuple[tuple[type[MetastoreError], HTTPStatus, str], ...] = (
    (AccessDeniedError, HTTPStatus.FORBIDDEN, "Forbidden"),
    (AccessUnavailableError, HTTPStatus.SERVICE_UNAVAILABLE, "ServiceUnavailable"),
    (OutcomeUnknownError, HTTPStatus.INTERNAL_SERVER_ERROR, "OutcomeUnknown"),
    (NoSuchObjectError, HTTPStatus.NOT_FOUND, "NoSuchObject"),
    (AlreadyExistsError, HTTPStatus.CONFLICT, "AlreadyExists"),
    (InvalidOperationError, HTTPStatus.CONFLICT, "InvalidOperation"),
    (PointerMovedError, HTTPStatus.CONFLICT, "ChangedMeanwhile"),
    (TableLockedError, HTTPStatus.CONFLICT, "TableLocked"),
    (InvalidObjectError, HTTPStatus.BAD_REQUEST, "InvalidObject"),
)


def own_interface(
    metastore: Metastore,
    administration: AccessAdministration | None = None,
    policies: PolicyAdministration | None = None,
) -> RestInterface:
    """Return the interface over the dropped objects and the history of a metastore, and over its roles, grants and
    policies; `administration` and `policies` are None where there are none.
    """
    routes = [*DroppedRoutes(metastore).routes(), *HistoryRoutes(metastore).routes()]
    return RestInterface(
        name="interbed",
        path=PATH,
        routes=[
            *(_of_a_catalog(metastore, each) for each in routes),
            *AccessRoutes(metastore, administration, policies).routes(),
        ],
        error_body=_error_body,
        translated=_translated,
        missing=lambda method, path: RestError(HTTPStatus.NOT_FOUND, "NoSuchRoute", f"No route for {method} {path}"),
    )


def _of_a_catalog(metastore: Metastore, route: RestRoute) -> RestRoute:
    """Return the route with the name of its catalog as it is stored; NoSuchObjectError if there is none."""
    handler: Callable[[RestRequest], RestResponse] = route.handler

    @wraps(handler)
    def answer(request: RestRequest) -> RestResponse:
        name = metastore.catalogs.get(request.parts["prefix"]).name
        return handler(replace(request, parts={**request.parts, "prefix": name}))

    return replace(route, handler=answer)


def _error_body(error: RestError) -> object:
    return {"error": {"message": str(error), "type": error.kind, "code": int(error.status)}}


def _translated(error: Exception) -> RestError | None:
    for kind, status, name in _KINDS:
        if isinstance(error, kind):
            return RestError(status, name, str(error))
    return None
