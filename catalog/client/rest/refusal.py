"""Error responses of a Paimon REST server and the errors of catalogs that they become.

An error is `{"message", "resourceType", "resourceName", "code"}`; the status and the type of the resource decide. In
interbed's own interface it is `{"error": {"message", "type", "code"}}`, whose type stands for that of the resource.
Source: paimon-api's ErrorResponse and DefaultErrorHandler, version 1.4.
"""

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote_plus

from interbed.catalog.client.errors import (
    CatalogAccessError,
    CatalogError,
    DatabaseExistsError,
    DatabaseNotFoundError,
    FunctionExistsError,
    FunctionNotFoundError,
    PartitionExistsError,
    TableExistsError,
    TableNotFoundError,
    ViewNotFoundError,
)
from interbed.storage.base.errors import (
    BranchNotFoundError,
    InterbedError,
    InvalidInputError,
    NotSupportedError,
    SnapshotNotFoundError,
    TagNotFoundError,
)

BAD_REQUEST, UNAUTHORIZED, FORBIDDEN, NOT_FOUND, CONFLICT = 400, 401, 403, 404, 409
TOO_MANY_REQUESTS, NOT_IMPLEMENTED, BAD_GATEWAY, UNAVAILABLE, GATEWAY_TIMEOUT = 429, 501, 502, 503, 504

_MISSING: Mapping[str, Callable[[str], InterbedError]] = {
    "DATABASE": DatabaseNotFoundError,
    "TABLE": TableNotFoundError,
    "VIEW": ViewNotFoundError,
    "FUNCTION": FunctionNotFoundError,
    "TAG": TagNotFoundError,
    "BRANCH": BranchNotFoundError,
    "SNAPSHOT": SnapshotNotFoundError,
}
_EXISTING: Mapping[str, Callable[[str], InterbedError]] = {
    "DATABASE": DatabaseExistsError,
    "TABLE": TableExistsError,
    "VIEW": TableExistsError,
    "FUNCTION": FunctionExistsError,
    "PARTITION": PartitionExistsError,
}
_BY_STATUS: Mapping[int, Callable[[str], InterbedError]] = {
    BAD_REQUEST: InvalidInputError,
    UNAUTHORIZED: CatalogAccessError,
    FORBIDDEN: CatalogAccessError,
    NOT_FOUND: InvalidInputError,
    CONFLICT: InvalidInputError,
    NOT_IMPLEMENTED: NotSupportedError,
}


def encoded(part: str) -> str:
    """Return a part of a path, encoded as Java's URLEncoder does."""
    return quote_plus(part, safe="")


class RestRefusedError(CatalogError):
    """Error response of a REST server: its status, and the type and the name of the resource, if it has any."""

    def __init__(self, message: str, *, status: int, resource_type: str = "", resource_name: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.resource_type = resource_type
        self.resource_name = resource_name

    def is_missing(self, *types: str) -> bool:
        """Return whether a resource of one of these types does not exist."""
        return self.status == NOT_FOUND and self.resource_type in types

    @property
    def settles(self) -> bool:
        """Whether the request has certainly changed nothing; a server that failed may have carried it out."""
        return self.status in _BY_STATUS or self.status == TOO_MANY_REQUESTS


def refusal_of(status: int, body: Any, text: str) -> RestRefusedError:
    """Return the error of a response; `body` is its decoded JSON, or None, `text` begins the message."""
    members: Mapping[str, Any] = body if isinstance(body, Mapping) else {}
    if isinstance(members.get("error"), Mapping):
        members = {"resourceType": members["error"].get("type"), "code": members["error"].get("code")}
    code = members.get("code")
    return RestRefusedError(
        text,
        # The code in the body counts: some servers send another status.
        status=code if isinstance(code, int) and not isinstance(code, bool) else status,
        resource_type=str(members.get("resourceType") or "").upper(),
        resource_name=str(members.get("resourceName") or ""),
    )


def catalog_error(refusal: RestRefusedError) -> InterbedError:
    """Return the error of catalogs for an error response; the response itself where no other error says more."""
    known: Callable[[str], InterbedError] | None
    if refusal.status == NOT_FOUND:
        known = _MISSING.get(refusal.resource_type)
    elif refusal.status == CONFLICT:
        known = _EXISTING.get(refusal.resource_type)
    else:
        known = None
    if known is None:
        known = _BY_STATUS.get(refusal.status)
    return refusal if known is None else known(str(refusal))
