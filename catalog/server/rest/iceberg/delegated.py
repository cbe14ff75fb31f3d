"""Access to files for Iceberg's clients that ask for it by `X-Iceberg-Access-Delegation`: `vended-credentials` are
credentials of the store, `remote-signing` is a signature of the server for each request. Where a client asks for both,
it gets credentials, which spare the requests for signatures.

Credentials are added to the answers of loadTable, createTable and registerTable, after these were stored under an
idempotency key: no secret gets into the database or into a cache. A table without credentials is answered without them,
because clients may have their own. Source: Iceberg's REST specification, `LoadTableResult`, `StorageCredential` and
`RemoteSignRequest`; names of properties from S3FileIOProperties, AwsClientProperties, GCPProperties,
AzureProperties and pyiceberg.
"""

import dataclasses
import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import msgspec

from interbed.catalog.server.credentials.issued import (
    AzureCredentials,
    CredentialsError,
    CredentialsUnavailableError,
    GoogleCredentials,
    S3Credentials,
    StorageCredentials,
    TableCredentials,
)
from interbed.catalog.server.credentials.s3_requests import S3Request, TableSigning
from interbed.catalog.server.rest.iceberg.names import IcebergName, NamespaceMapping, bad_request, catalog_of
from interbed.catalog.server.rest.interface import (
    Handler,
    RestError,
    RestRequest,
    RestResponse,
    RestRoute,
    json_response,
)
from interbed.catalog.server.service.names import shortened

logger = logging.getLogger(__name__)

HEADER = "x-iceberg-access-delegation"

_CREDENTIALS = "vended-credentials"
_SIGNING = "remote-signing"

_NAMED_IN_BODY = frozenset(("createTable", "registerTable"))
_DELEGATING = frozenset(("loadTable", *_NAMED_IN_BODY))


_TO_REPEAT: Mapping[str, Mapping[str, str]] = {"properties": {}, "headers": {}}
"""What requests for signatures have to repeat: nothing. Source: `RemoteSigningConfig` in Iceberg's specification."""


class _NamedBody(msgspec.Struct, frozen=True):
    """The part of a body that names the new table."""

    name: str
    stage_create: bool = msgspec.field(default=False, name="stage-create")


class SignRequestBody(msgspec.Struct, frozen=True):
    """Body of the operation signRequest. `properties` are those of the client, which the signature does not need."""

    region: str
    uri: str
    method: str
    headers: dict[str, list[str]]
    properties: dict[str, str] | None = None
    body: str | None = None
    provider: str | None = None


class DelegatedRoutes:
    """Routes whose answers have credentials, or the address of the signer, for clients that ask for them."""

    def __init__(
        self, credentials: TableCredentials | None, signing: TableSigning | None, mapping: NamespaceMapping
    ) -> None:
        self._credentials = credentials
        self._signing = signing
        self._mapping = mapping

    def delegating(self, route: RestRoute) -> RestRoute:
        """Return a route with what clients need for the files in its answer if it is one of those that load a table."""
        if route.operation == "loadCredentials" and self._credentials is not None:
            return dataclasses.replace(route, handler=lambda request: self._listed(route, request))
        if route.operation not in _DELEGATING:
            return route

        def answer(request: RestRequest) -> RestResponse:
            mechanism = self._mechanism(request)
            if mechanism is None:
                return route.handler(request)
            # A client with this metadata needs new credentials all the same.
            headers = {name: value for name, value in request.headers.items() if name != "if-none-match"}
            answered = route.handler(dataclasses.replace(request, headers=headers))
            name = self._name(route, request)
            return answered if name is None else self._with_access(mechanism, request, name, answered)

        return dataclasses.replace(route, handler=answer)

    def signing(self, present: Handler) -> Handler:
        """Return the handler of signRequest; `present` answers for a table that is missing. RestError with status 403
        and the reason for a request that is not signed.
        """

        def answer(request: RestRequest) -> RestResponse:
            present(request)
            return self._signed(request)

        return answer

    def _signed(self, request: RestRequest) -> RestResponse:
        body = request.json(SignRequestBody)
        name = self._mapping.table_of(request)
        if body.provider not in (None, "s3"):
            raise bad_request(f"The provider is {shortened(body.provider)!r}; the server signs requests of s3")
        asked = S3Request(method=body.method, uri=body.uri, region=body.region, headers=body.headers, body=body.body)
        try:
            signed = self._signer(request).sign(catalog_of(request), name.database, name.table, asked)
        except CredentialsUnavailableError as error:
            raise _unavailable(error) from error
        except CredentialsError as error:
            logger.info("no signature for a request on %s: %s", name, error)
            raise RestError(HTTPStatus.FORBIDDEN, "ForbiddenException", f"Not signed for {name}: {error}") from error
        found = {"uri": signed.uri, "headers": {key: [value] for key, value in signed.headers.items()}}
        # Java's client sends a signature of a read again within 30 s if it may.
        return json_response(found, headers={"cache-control": "private" if signed.is_read else "no-cache"})

    def _mechanism(self, request: RestRequest) -> str | None:
        asked = [each.strip().lower() for each in request.headers.get(HEADER, "").split(",")]
        if _CREDENTIALS in asked and self._credentials is not None:
            return _CREDENTIALS
        return _SIGNING if _SIGNING in asked and self._signing is not None else None

    def _name(self, route: RestRoute, request: RestRequest) -> IcebergName | None:
        if route.operation not in _NAMED_IN_BODY:
            return self._mapping.table_of(request)
        body = msgspec.json.decode(request.body, type=_NamedBody)
        # A staged table has no entry in the metastore yet, and so no directory of its own.
        return None if body.stage_create else self._mapping.named(request, body.name)

    def _with_access(
        self, mechanism: str, request: RestRequest, name: IcebergName, answered: RestResponse
    ) -> RestResponse:
        try:
            if mechanism == _SIGNING:
                self._signer(request).check(catalog_of(request), name.database, name.table)
                return _with_config(answered, self._signing_properties(name), {"remote-signing-config": _TO_REPEAT})
            issued = self._issued(request, name)
        except CredentialsUnavailableError as error:
            raise _unavailable(error) from error
        except CredentialsError as error:
            logger.info("no %s for %s: %s", mechanism, name, error)
            return answered
        properties = {**_properties(issued), _RENEWAL[type(issued)]: _table_path(name, "credentials")}
        listed = [{"prefix": issued.location, "config": properties}]
        return _with_config(answered, properties, {"storage-credentials": listed})

    def _signing_properties(self, name: IcebergName) -> dict[str, str]:
        assert self._signing is not None
        path, address = _table_path(name, "sign"), self._signing.address
        return {
            "s3.remote-signing-enabled": "true",
            # The older name of the address, for clients before Iceberg 1.11.
            "signer.endpoint": path,
            "s3.signer.endpoint": path,
            # pyiceberg signs by one of its implementations of FileIO.
            "s3.signer": "S3V4RestSigner",
            "py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO",
            "client.region": address.region,
            **_endpoint_properties(address.endpoint),
        }

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

    def _signer(self, request: RestRequest) -> TableSigning:
        assert self._signing is not None
        _principal(request)
        return self._signing

    def _issued(self, request: RestRequest, name: IcebergName) -> StorageCredentials:
        assert self._credentials is not None
        return self._credentials.of_table(catalog_of(request), name.database, name.table, _principal(request))


def _principal(request: RestRequest) -> str:
    principal = request.session.principal
    if principal is None:
        raise CredentialsError("The client is not authenticated")
    return principal.name


def _with_config(answered: RestResponse, properties: Mapping[str, str], further: Mapping[str, Any]) -> RestResponse:
    """Return the answer of a loaded table with further properties of its configuration, and further fields."""
    content = msgspec.json.decode(answered.body, type=dict[str, msgspec.Raw])
    config = msgspec.json.decode(content["config"], type=dict[str, str]) if "config" in content else {}
    changed: dict[str, Any] = {**content, "config": {**config, **properties}, **further}
    headers = {key: value for key, value in answered.headers.items() if key.lower() != "etag"}
    return json_response(changed, status=answered.status, headers={**headers, "cache-control": "no-store"})


def _unavailable(error: CredentialsUnavailableError) -> RestError:
    return RestError(HTTPStatus.SERVICE_UNAVAILABLE, "ServiceUnavailableException", str(error))


def _properties(issued: StorageCredentials) -> dict[str, str]:
    if isinstance(issued, GoogleCredentials):
        return {
            "gcs.oauth2.token": issued.token,
            "gcs.oauth2.token-expires-at": str(issued.expires_millis),
            **({} if issued.endpoint is None else {"gcs.service.host": issued.endpoint}),
        }
    if isinstance(issued, AzureCredentials):
        return {
            f"adls.sas-token.{issued.host}": issued.signature,
            f"adls.sas-token-expires-at-ms.{issued.host}": str(issued.expires_millis),
        }
    assert isinstance(issued, S3Credentials)
    return {
        "s3.access-key-id": issued.access_key,
        "s3.secret-access-key": issued.secret_key,
        "s3.session-token": issued.session_token,
        "s3.session-token-expires-at-ms": str(issued.expires_millis),
        **({} if issued.region is None else {"client.region": issued.region}),
        **_endpoint_properties(issued.endpoint),
    }


_RENEWAL = {
    S3Credentials: "client.refresh-credentials-endpoint",
    GoogleCredentials: "gcs.oauth2.refresh-credentials-endpoint",
    AzureCredentials: "adls.refresh-credentials-endpoint",
}


def _endpoint_properties(endpoint: str | None) -> dict[str, str]:
    # Stores that are no service of AWS have no names of hosts for buckets.
    return {} if endpoint is None else {"s3.endpoint": endpoint, "s3.path-style-access": "true"}


def _table_path(name: IcebergName, operation: str) -> str:
    """Return the path of an operation of a table, below the address of the catalog."""
    levels = quote("\x1f".join(name.levels), safe="")
    return f"v1/{quote(name.catalog, safe='')}/namespaces/{levels}/tables/{quote(name.name, safe='')}/{operation}"
