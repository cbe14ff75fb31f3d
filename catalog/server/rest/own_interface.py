"""The REST interface of this server's own, beside the specifications of Iceberg and Paimon: dropped objects, the
history of metadata, rows of tables, roles, grants and policies.

Dropped objects, history and rows (rows/routes.py) are below `/interbed/v1/{prefix}`, where `prefix` is the name of a
catalog of the metastore. Roles, grants and policies are below `/interbed/v1/access` (access/routes.py).

Dropped objects:

    GET  /interbed/v1/{prefix}/dropped
    POST /interbed/v1/{prefix}/databases/{database}/undrop
    POST /interbed/v1/{prefix}/databases/{database}/purge
    POST /interbed/v1/{prefix}/databases/{database}/tables/{table}/undrop
    POST /interbed/v1/{prefix}/databases/{database}/tables/{table}/purge

`prefix` is the name of a catalog. The body of a POST may have `id`, the entry of `dropped`, and for the undrop of a
table `as`, another name. The response of an undrop has the name and the location of the object. That of a purge says
whether all is deleted: what could not be deleted is in the server's log, and the reaper tries again.

The history: changes, entries at a time, and tables put back to an older entry.

    GET  /interbed/v1/{prefix}/databases/{database}/history
    GET  /interbed/v1/{prefix}/databases/{database}/tables/{table}/history
    GET  /interbed/v1/{prefix}/databases/{database}/tables/{table}/entry?at=TIME
    POST /interbed/v1/{prefix}/databases/{database}/tables/{table}/restore

Times are those of `interbed metastore history`. A query may have `limit`, the number of the latest changes, `before`,
the id of the change that the page ends before, and for a table `id`, the number of one of several tables that had the
name. The body of a restore has `at`, and perhaps `dry-run`.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import wraps
from http import HTTPStatus

import msgspec

from interbed.catalog.server.rest.access.routes import AccessRoutes
from interbed.catalog.server.rest.interface import (
    ObjectKind,
    RestError,
    RestInterface,
    RestRequest,
    RestResponse,
    RestRoute,
    json_response,
    route,
)
from interbed.catalog.server.rest.rows.routes import RowRoutes
from interbed.catalog.server.service.access.administration import AccessAdministration
from interbed.catalog.server.service.access.objects import Privilege
from interbed.catalog.server.service.access.policies import PolicyAdministration
from interbed.catalog.server.service.directories.remote_files import StoreUnavailableError
from interbed.catalog.server.service.errors import (
    AccessDeniedError,
    AccessUnavailableError,
    AlreadyExistsError,
    InvalidObjectError,
    InvalidOperationError,
    MetastoreError,
    NoSuchObjectError,
    OutcomeUnknownError,
    StoreAccessError,
)
from interbed.catalog.server.service.history.shown import entry_json, moment_of, moment_text, value_json
from interbed.catalog.server.service.model import DroppedObject
from interbed.catalog.server.service.names import shortened
from interbed.catalog.server.service.service import Metastore
from interbed.catalog.server.service.tables.pointers import PointerMovedError, TableLockedError

_CATALOG = "v1/{prefix}"
_DROPPED_DATABASE = f"{_CATALOG}/databases/{{database}}"


class UndropRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The body of an undrop."""

    id: int | None = None
    new_name: str | None = msgspec.field(default=None, name="as")


class PurgeRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The body of a purge."""

    id: int | None = None


class DroppedRoutes:
    """The routes about dropped objects of a metastore."""

    def __init__(self, metastore: Metastore) -> None:
        self._dropped = metastore.dropped

    def routes(self) -> Sequence[RestRoute]:
        """Return the routes with the privilege that each needs."""
        create, drop, table = Privilege.CREATE, Privilege.DROP, f"{_DROPPED_DATABASE}/tables/{{table}}"
        return [
            route("GET", f"{_CATALOG}/dropped", "listDropped", Privilege.USAGE, ObjectKind.CATALOG, self.list),
            route("POST", f"{_DROPPED_DATABASE}/undrop", "undropDatabase", create, ObjectKind.CATALOG, self.undrop),
            route("POST", f"{_DROPPED_DATABASE}/purge", "purgeDatabase", drop, ObjectKind.CATALOG, self.purge),
            route("POST", f"{table}/undrop", "undropTable", create, ObjectKind.DATABASE, self.undrop),
            route("POST", f"{table}/purge", "purgeTable", drop, ObjectKind.DATABASE, self.purge),
        ]

    def list(self, request: RestRequest) -> RestResponse:
        """Return the dropped objects of a catalog, of one database if the query has `database`."""
        entries = self._dropped.select(request.parts["prefix"], request.query.get("database"))
        return json_response({"dropped": [entry.to_json() for entry in entries]})

    def undrop(self, request: RestRequest) -> RestResponse:
        """Put an object back."""
        given = request.json(UndropRequest) if request.body else UndropRequest()
        entry = self._entry(request, given.id)
        value = self._dropped.undrop(entry, new_name=given.new_name)
        return json_response(
            {"kind": str(entry.kind), "database": entry.database, "name": value.name, "location": value.location}
        )

    def purge(self, request: RestRequest) -> RestResponse:
        """Delete a dropped object for good."""
        given = request.json(PurgeRequest) if request.body else PurgeRequest()
        entry = self._entry(request, given.id)
        purged = self._dropped.purge(entry)
        return json_response(
            {"kind": str(entry.kind), "database": entry.database, "name": entry.name, "purged": purged}
        )

    def _entry(self, request: RestRequest, entry_id: int | None) -> DroppedObject:
        parts = request.parts
        return self._dropped.find(parts["prefix"], parts["database"], parts.get("table"), entry_id)


CHANGES_MAX = 100
"""Changes of one response: each has two entries of a table, which may have thousands of columns."""

_DATABASE = "v1/{prefix}/databases/{database}"
_TABLE = f"{_DATABASE}/tables/{{table}}"
_NUMBER_MAX = (1 << 63) - 1


class RestoreRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """The body of a restore."""

    at: str | float
    dry_run: bool = False


class HistoryRoutes:
    """The routes about the history of a metastore."""

    def __init__(self, metastore: Metastore) -> None:
        self._history = metastore.history

    def routes(self) -> Sequence[RestRoute]:
        """Return the routes with the privilege that each needs."""
        usage, select, alter = Privilege.USAGE, Privilege.SELECT, Privilege.ALTER
        table = ObjectKind.TABLE
        return [
            route("GET", f"{_DATABASE}/history", "databaseHistory", usage, ObjectKind.DATABASE, self.of_database),
            route("GET", f"{_TABLE}/history", "tableHistory", select, table, self.of_table),
            route("GET", f"{_TABLE}/entry", "tableEntry", select, table, self.entry),
            route("POST", f"{_TABLE}/restore", "restoreTable", alter, table, self.restore),
        ]

    def of_database(self, request: RestRequest) -> RestResponse:
        """Return the changes of a database and of all in it."""
        parts = request.parts
        found = self._history.of_database(
            parts["prefix"], parts["database"], limit=_limit(request), before_id=_number(request, "before")
        )
        return json_response({"changes": [entry_json(each) for each in found]})

    def of_table(self, request: RestRequest) -> RestResponse:
        """Return the changes of a table under all of its names."""
        found = self._history.of_table(
            *_named(request),
            object_id=_number(request, "id"),
            limit=_limit(request),
            before_id=_number(request, "before"),
        )
        changes = [entry_json(each) for each in found.entries]
        return json_response({"changes": changes, "id": found.object_id, "others": found.others})

    def entry(self, request: RestRequest) -> RestResponse:
        """Return the entry of a table at a time."""
        moment = _moment(request.query.get("at", ""))
        found = self._history.table_at(*_named(request), moment, object_id=_number(request, "id"))
        if found is None:
            _, database, name = _named(request)
            raise NoSuchObjectError(f"{shortened(f'{database}.{name}')} did not exist at {moment_text(moment)}")
        return json_response({"table": value_json(found)})

    def restore(self, request: RestRequest) -> RestResponse:
        """Put a table back to its entry of a time."""
        given = request.json(RestoreRequest)
        plan = self._history.restore(
            *_named(request), _moment(str(given.at)), user=request.session.user or "", dry_run=given.dry_run
        )
        return json_response({"table": value_json(plan.table), "kept": plan.kept, "missing": plan.missing})


def _named(request: RestRequest) -> tuple[str, str, str]:
    return request.parts["prefix"], request.parts["database"], request.parts["table"]


def _moment(text: str) -> int:
    try:
        return moment_of(text)
    except ValueError as error:
        raise _invalid(f"{shortened(text)!r} is no time such as 2026-11-29T12:00:00Z or 1795953600") from error


def _limit(request: RestRequest) -> int:
    return min(_number(request, "limit") or CHANGES_MAX, CHANGES_MAX)


def _number(request: RestRequest, name: str) -> int | None:
    text = request.query.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) < 20 and 0 < int(text) <= _NUMBER_MAX):
        raise _invalid(f"{name} is a number above 0, not {shortened(text)!r}")
    return int(text)


def _invalid(message: str) -> RestError:
    return RestError(HTTPStatus.BAD_REQUEST, "BadRequest", message)


PATH = "/interbed"

_KINDS: tuple[tuple[type[MetastoreError], HTTPStatus, str], ...] = (
    (AccessDeniedError, HTTPStatus.FORBIDDEN, "Forbidden"),
    (AccessUnavailableError, HTTPStatus.SERVICE_UNAVAILABLE, "ServiceUnavailable"),
    (StoreUnavailableError, HTTPStatus.SERVICE_UNAVAILABLE, "StorageAccess"),
    (StoreAccessError, HTTPStatus.SERVICE_UNAVAILABLE, "StorageAccess"),
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
    rows: RowRoutes | None = None,
) -> RestInterface:
    """Return the interface over the dropped objects and the history of a metastore, over the rows of its tables, and
    over its roles, grants and policies; `administration`, `policies` and `rows` are None where there are none.
    """
    routes = [*DroppedRoutes(metastore).routes(), *HistoryRoutes(metastore).routes()]
    if rows is not None:
        routes += rows.routes()
    return RestInterface(
        name="interbed",
        path=PATH,
        routes=[
            *(_of_a_catalog(metastore, each) for each in routes),
            *AccessRoutes(metastore, administration, policies).routes(),
        ],
        error_body=_error_body,
        translated=translated,
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


def translated(error: Exception) -> RestError | None:
    for kind, status, name in _KINDS:
        if isinstance(error, kind):
            return RestError(status, name, str(error))
    return None
