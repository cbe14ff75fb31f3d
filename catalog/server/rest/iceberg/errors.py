"""Errors of the interface: their JSON, their types by the specification, and Iceberg's texts, which clients compare.

Source: Iceberg's REST specification, `IcebergErrorResponse` and the responses of each operation.
"""

from http import HTTPStatus

from interbed.catalog.server.rest.iceberg.metadata.base import InvalidMetadataError
from interbed.catalog.server.rest.iceberg.metadata.snapshots import OutdatedSnapshotError
from interbed.catalog.server.rest.iceberg.metadata.updates import RequirementFailedError
from interbed.catalog.server.rest.interface import RestError
from interbed.catalog.server.service.directories.locations import InvalidLocationError
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
    UnknownDatabaseError,
    UnstorableTextError,
)
from interbed.catalog.server.service.tables.pointers import PointerMovedError, TableLockedError

_KINDS: dict[type[Exception], tuple[HTTPStatus, str]] = {
    AccessDeniedError: (HTTPStatus.FORBIDDEN, "ForbiddenException"),
    AccessUnavailableError: (HTTPStatus.SERVICE_UNAVAILABLE, "ServiceUnavailableException"),
    InvalidMetadataError: (HTTPStatus.BAD_REQUEST, "IllegalArgumentException"),
    RequirementFailedError: (HTTPStatus.CONFLICT, "CommitFailedException"),
    PointerMovedError: (HTTPStatus.CONFLICT, "CommitFailedException"),
    TableLockedError: (HTTPStatus.CONFLICT, "CommitFailedException"),
    OutcomeUnknownError: (HTTPStatus.INTERNAL_SERVER_ERROR, "CommitStateUnknownException"),
    StoreUnavailableError: (HTTPStatus.SERVICE_UNAVAILABLE, "ServiceUnavailableException"),
    InvalidLocationError: (HTTPStatus.BAD_REQUEST, "BadRequestException"),
    InvalidObjectError: (HTTPStatus.BAD_REQUEST, "BadRequestException"),
    InvalidOperationError: (HTTPStatus.BAD_REQUEST, "BadRequestException"),
    UnstorableTextError: (HTTPStatus.BAD_REQUEST, "BadRequestException"),
    AlreadyExistsError: (HTTPStatus.CONFLICT, "AlreadyExistsException"),
    NoSuchObjectError: (HTTPStatus.NOT_FOUND, "NoSuchTableException"),
    UnknownDatabaseError: (HTTPStatus.NOT_FOUND, "NoSuchNamespaceException"),
}


REFUSALS: tuple[type[Exception], ...] = (RestError, OutdatedSnapshotError, *_KINDS, MetastoreError)
"""Exceptions of handlers that may be a refusal."""


def error_body(error: RestError) -> object:
    """Return the JSON of an error."""
    return {"error": {"message": str(error), "type": error.kind, "code": int(error.status), **error.fields}}


def translated(error: Exception) -> RestError | None:
    """Return the error for an exception of a handler, None for an internal error."""
    if isinstance(error, OutdatedSnapshotError):
        return RestError(HTTPStatus.CONFLICT, "CommitFailedException", f"Validation failed, please retry: {error}")
    if isinstance(error, RecursionError):
        return bad_request("The request, or the metadata of the table, are nested too deeply")
    for kind in type(error).__mro__:
        if kind in _KINDS:
            status, name = _KINDS[kind]
            return RestError(status, name, str(error))
    return None


def bad_request(message: str) -> RestError:
    """Return the error for a malformed request."""
    return RestError(HTTPStatus.BAD_REQUEST, "BadRequestException", message)


def no_namespace(name: str) -> RestError:
    """Return the error for a missing namespace."""
    return RestError(HTTPStatus.NOT_FOUND, "NoSuchNamespaceException", f"Namespace does not exist: {name}")


def no_table(name: object) -> RestError:
    """Return the error for a missing table."""
    return RestError(HTTPStatus.NOT_FOUND, "NoSuchTableException", f"Table does not exist: {name}")


def no_view(name: object) -> RestError:
    """Return the error for a missing view."""
    return RestError(HTTPStatus.NOT_FOUND, "NoSuchViewException", f"View does not exist: {name}")


def exists(message: str) -> RestError:
    """Return the error for a name that is taken."""
    return RestError(HTTPStatus.CONFLICT, "AlreadyExistsException", message)


def read_only(name: object, reason: str) -> RestError:
    """Return the error for a change of a table that this interface only reads."""
    return RestError(HTTPStatus.FORBIDDEN, "ForbiddenException", f"The table {name} cannot be changed here: {reason}")
