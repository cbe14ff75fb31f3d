"""Storage credentials for Iceberg's clients that ask for them (`X-Iceberg-Access-Delegation: vended-credentials`).

They are added to the answers of loadTable, createTable and registerTable, after these were stored under an idempotency
key: no secret gets into the database or into a cache. A table without credentials is answered without them, because
clients may have their own. Source: Iceberg's REST specification, `LoadTableResult` and `StorageCredential`; names of
properties from S3FileIOProperties and AwsClientProperties.
"""

import dataclasses
import logging
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import msgspec

from interbed.catalog.server.credentials.issued import (
    CredentialsError,
    CredentialsUnavailableError,
    StorageCredentials,
)
from interbed.catalog.server.credentials.table_credentials import TableCredentials
from interbed.catalog.server.rest.iceberg.errors import bad_request
from interbed.catalog.server.rest.iceberg.names import IcebergName, NamespaceMapping, catalog_of
from interbed.catalog.server.rest.interface import RestError, RestRequest, RestResponse, RestRoute, json_response

logger = logging.getLogger(__name__)

HEADER = "x-iceberg-access-delegation"

_MECHANISM = "vended-credentials"

_NAMED_IN_BODY = frozenset(("createTable", "registerTable"))
_DELEGATING = frozenset(("loadTable", *_NAMED_IN_BODY))


class _NamedBody(msgspec.Struct, frozen=True):
    """The part of a body that names the new table."""

    name: str
    stage_create: bool = msgspec.field(default=False, name="stage-create")


class DelegatedRoutes:
    """Routes whose answers have credentials for clients that ask for them."""

    def __init__(self, credentials: TableCredentials, mapping: NamespaceMapping) -> None:
        self._credentials = credentials
        self._mapping = mapping

    def delegating(self, route: RestRoute) -> RestRoute:
        """Return a route with credentials in its answer if it is one of those that load a table."""
        if route.operation == "loadCredentials":
            return dataclasses.replace(route, handler=lambda request: self._listed(route, request))
        if route.operation not in _DELEGATING:
            return route

        def answer(request: RestRequest) -> RestResponse:
            if not _asks(request):
                return route.handler(request)
            # A client with this metadata needs new credentials all the same.
            headers = {name: value for name, value in request.headers.items() if name != "if-none-match"}
            answered = route.handler(dataclasses.replace(request, headers=headers))
            name = self._name(route, request)
            return answered if name is None else self._with_credentials(request, name, answered)

        return dataclasses.replace(route, handler=answer)

    def _name(self, route: RestRoute, request: RestRequest) -> IcebergName | None:
        if route.operation not in _NAMED_IN_BODY:
            return self._mapping.table_of(request)
        body = msgspec.json.decode(request.body, type=_NamedBody)
        # A staged table has no entry in the metastore yet, and so no directory of its own.
        return None if body.stage_create else self._mapping.named(request, body.name)

    def _with_credentials(self, request: RestRequest, name: IcebergName, answered: RestResponse) -> RestResponse:
        try:
            issued = self._issued(request, name)
        except CredentialsUnavailableError as error:
            raise _unavailable(error) from error
        except CredentialsError as error:
            logger.info("no credentials for %s: %s", name, error)
            return answered
        content = msgspec.json.decode(answered.body, type=dict[str, msgspec.Raw])
        config = msgspec.json.decode(content["config"], type=dict[str, str]) if "config" in content else {}
        properties = {**_properties(issued), "client.refresh-credentials-endpoint": _renewal_path(name)}
        changed: dict[str, Any] = {
            **content,
            "config": {**config, **properties},
            "storage-credentials": [{"prefix": issued.location, "config": properties}],
        }
        headers = {key: value for key, value in answered.headers.items() if key.lower() != "etag"}
        return json_response(changed, status=answered.status, headers={**headers, "cache-control": "no-store"})

    def _listed(self, route: RestRoute, request: RestRequest) -> RestResponse:
        # The route's handler checks that there is such a table.
        route.handler(request)
        try:
            issued = self._issued(request, self._mapping.table_of(request))
        except CredentialsUnavailableError as error:
            raise _unavailable(error) from error
        except CredentialsError as error:
            raise bad_request(str(error)) from error
        found = [{"prefix": issued.location, "config": _properties(issued)}]
        return json_response({"storage-credentials": found}, headers={"cache-control": "no-store"})

    def _issued(self, request: RestRequest, name: IcebergName) -> StorageCredentials:
        principal = request.session.principal
        if principal is None:
            raise CredentialsError("The client is not authenticated")
        return self._credentials.of_table(catalog_of(request), name.database, name.table, principal.name)


def _asks(request: RestRequest) -> bool:
    return _MECHANISM in [each.strip().lower() for each in request.headers.get(HEADER, "").split(",")]


def _unavailable(error: CredentialsUnavailableError) -> RestError:
    return RestError(HTTPStatus.SERVICE_UNAVAILABLE, "ServiceUnavailableException", str(error))


def _properties(issued: StorageCredentials) -> dict[str, str]:
    known = {"client.region": issued.region, "s3.endpoint": issued.endpoint}
    return {
        "s3.access-key-id": issued.access_key,
        "s3.secret-access-key": issued.secret_key,
        "s3.session-token": issued.session_token,
        "s3.session-token-expires-at-ms": str(issued.expires_millis),
        # Stores that are no service of AWS have no names of hosts for buckets.
        **({} if issued.endpoint is None else {"s3.path-style-access": "true"}),
        **{name: value for name, value in known.items() if value is not None},
    }


def _renewal_path(name: IcebergName) -> str:
    """Return the path where a client renews its credentials, below the address of the catalog."""
    levels = quote("\x1f".join(name.levels), safe="")
    return f"v1/{quote(name.catalog, safe='')}/namespaces/{levels}/tables/{quote(name.name, safe='')}/credentials"
