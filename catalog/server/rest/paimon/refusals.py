"""Refusals in Paimon's form: a status, the type and the name of the object, a message.

Clients choose their exception by the code and the type of the object: `SNAPSHOT` says that a table has no snapshot yet,
`COLUMN` that a change of a schema names no column. Source: paimon-api's ErrorResponse and DefaultErrorHandler.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import wraps
from http import HTTPStatus

from interbed.catalog.client.errors import (
    CatalogError,
    CatalogUnavailableError,
    DatabaseExistsError,
    DatabaseNotEmptyError,
    DatabaseNotFoundError,
    LockError,
    NotAnInterbedTableError,
    PartitionExistsError,
    TableExistsError,
    TableNotFoundError,
    ViewNotFoundError,
)
from interbed.catalog.server.rest.interface import (
    Handler,
    ObjectKind,
    RestError,
    RestRequest,
    RestResponse,
    RestRoute,
    route,
)
from interbed.catalog.server.service.access.objects import Privilege
from interbed.catalog.server.service.errors import AccessDeniedError, AccessUnavailableError, is_of_a_store
from interbed.storage.base.errors import (
    BranchNotFoundError,
    CommitConflictError,
    InterbedError,
    InvalidInputError,
    NotSupportedError,
    SnapshotNotFoundError,
    TagNotFoundError,
)
from interbed.thrift_idl.hive_metastore import ttypes


class ResourceType(StrEnum):
    """The types of objects in errors."""

    DATABASE = "DATABASE"
    TABLE = "TABLE"
    COLUMN = "COLUMN"
    SNAPSHOT = "SNAPSHOT"
    BRANCH = "BRANCH"
    TAG = "TAG"
    VIEW = "VIEW"
    DIALECT = "DIALECT"
    FUNCTION = "FUNCTION"
    DEFINITION = "DEFINITION"


_RESOURCES = frozenset(map(str, ResourceType))


def missing(resource: ResourceType | None, name: str | None, message: str) -> RestError:
    """Return the error for an object that does not exist."""
    return RestError(HTTPStatus.NOT_FOUND, resource or "", message, name=name)


def existing(resource: ResourceType, name: str, message: str) -> RestError:
    """Return the error for a name that is taken."""
    return RestError(HTTPStatus.CONFLICT, resource, message, name=name)


def invalid(message: str) -> RestError:
    """Return the error for a request that is wrong."""
    return RestError(HTTPStatus.BAD_REQUEST, "", message)


def text_of(value: object, what: str) -> str:
    """Return a text of a request. RestError with status 400 for JSON of another type."""
    if not isinstance(value, str):
        raise invalid(f"{what} is text, not {value!r}.")
    return value


def unsupported(message: str) -> RestError:
    """Return the error for a request that this server does not carry out."""
    return RestError(HTTPStatus.NOT_IMPLEMENTED, "", message)


def error_body(error: RestError) -> Mapping[str, object]:
    """Return the JSON of an error."""
    resource = error.kind if error.kind in _RESOURCES else None
    message = str(error)
    if error.status in (HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_IMPLEMENTED):
        # Java's client takes these messages for formats, and fails on any other '%'.
        message = message.replace("%", "%%")
    return {
        "message": message,
        "resourceType": resource,
        "resourceName": error.fields.get("name"),
        "code": int(error.status),
    }


def no_route(method: str, path: str) -> RestError:
    """Return the error for a path without a route."""
    return missing(None, None, f"Paimon's REST interface has no {method} {path}.")


_MISSING: tuple[tuple[type[Exception], ResourceType, str], ...] = (
    (DatabaseNotFoundError, ResourceType.DATABASE, "database"),
    (TableNotFoundError, ResourceType.TABLE, "table"),
    (NotAnInterbedTableError, ResourceType.TABLE, "table"),
    (ViewNotFoundError, ResourceType.VIEW, "view"),
    (SnapshotNotFoundError, ResourceType.SNAPSHOT, "version"),
    (TagNotFoundError, ResourceType.TAG, "tag"),
    (BranchNotFoundError, ResourceType.BRANCH, "branch"),
)


_INVALID = (ttypes.InvalidObjectException, ttypes.InvalidOperationException)
"""Answers of the metastore to a request that is wrong, such as a name that Hive does not allow."""


def refusal(error: Exception, parts: Mapping[str, str]) -> RestError | None:
    """Return the refusal of an error of the catalog; None for an error of the server. `parts` are those of the path."""
    if isinstance(error, TableExistsError):
        return existing(ResourceType.TABLE, parts.get("table", ""), str(error))
    for kind, resource, part in _MISSING:
        if isinstance(error, kind):
            return missing(resource, parts.get(part), str(error))
    match error:
        case AccessDeniedError():
            return RestError(HTTPStatus.FORBIDDEN, "", str(error))
        case AccessUnavailableError():
            return RestError(HTTPStatus.SERVICE_UNAVAILABLE, "", str(error))
        case DatabaseExistsError():
            return existing(ResourceType.DATABASE, parts.get("database", ""), str(error))
        case PartitionExistsError():
            return RestError(HTTPStatus.CONFLICT, "", str(error))
        case DatabaseNotEmptyError() | InvalidInputError():
            return invalid(str(error))
        case NotSupportedError():
            return unsupported(str(error))
        case CatalogError() if isinstance(error.__cause__, _INVALID):
            return invalid(str(error))
        case LockError() | CommitConflictError() | CatalogUnavailableError():
            return RestError(HTTPStatus.SERVICE_UNAVAILABLE, "", f"{error} Repeat the request.")
        case _ if is_of_a_store(error):
            return RestError(HTTPStatus.SERVICE_UNAVAILABLE, "", str(error))
        case _:
            return None


def refusing(handler: Callable[[RestRequest], RestResponse]) -> Handler:
    """Return a handler that raises the errors of the catalog as refusals, with the names of its path."""

    @wraps(handler)
    def answer(request: RestRequest) -> RestResponse:
        try:
            return handler(request)
        except (InterbedError, AccessDeniedError, AccessUnavailableError, OSError) as error:
            refused = refusal(error, request.parts)
            if refused is None:
                raise
            raise refused from error

    return answer


def paimon_route(
    method: str,
    template: str,
    operation: str,
    privilege: Privilege,
    kind: ObjectKind,
    handler: Callable[[RestRequest], RestResponse],
) -> RestRoute:
    """Return a route whose handler may raise the errors of the catalog."""
    return route(method, template, operation, privilege, kind, refusing(handler))


def translated(error: Exception) -> RestError | None:
    """Return the refusal of an error whose request is not known; None for an error of the server."""
    return refusal(error, {})
