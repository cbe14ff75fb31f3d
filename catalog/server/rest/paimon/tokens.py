"""Tokens for the files of tables: storage credentials as options of Paimon's file systems.

Source: Paimon's REST specification, getTableToken; the names of the options from pypaimon, and from Paimon's S3FileIO,
which hands on those of Hadoop's client.
"""

from collections.abc import Mapping
from http import HTTPStatus

from interbed.catalog.server.credentials.issued import (
    AzureCredentials,
    CredentialsError,
    CredentialsUnavailableError,
    GoogleCredentials,
    S3Credentials,
    StorageCredentials,
)
from interbed.catalog.server.credentials.table_credentials import TableCredentials
from interbed.catalog.server.rest.interface import (
    ObjectKind,
    RestError,
    RestRequest,
    RestResponse,
    RestRoute,
    json_response,
)
from interbed.catalog.server.rest.paimon.access import CatalogAccess, table_name
from interbed.catalog.server.rest.paimon.refusals import invalid, paimon_route
from interbed.catalog.server.rest.paimon.tables import TABLE
from interbed.catalog.server.service.access.objects import Privilege
from interbed.catalog.server.service.names import normalized


class TokenRoutes:
    """The route of tokens."""

    def __init__(self, access: CatalogAccess, credentials: TableCredentials) -> None:
        self._access = access
        self._credentials = credentials

    def routes(self) -> list[RestRoute]:
        """Return the route of tokens."""
        path = f"{TABLE}/token"
        return [paimon_route("GET", path, "getTableToken", Privilege.SELECT, ObjectKind.TABLE, self._token)]

    def _token(self, request: RestRequest) -> RestResponse:
        name = table_name(request)
        catalog = self._access.metastore_catalog(request)
        if catalog is None:
            raise invalid("The server issues tokens for tables of its metastore, not for those of paimon_warehouses.")
        # It raises the error for a table that does not exist.
        self._access.catalog(request).get_table(name.of_table)
        table = name.identifier
        principal = request.session.principal
        if principal is None:
            raise invalid("The client is not authenticated.")
        try:
            issued = self._credentials.of_table(
                catalog, normalized(table.database), normalized(table.table), principal.name
            )
        except CredentialsUnavailableError as error:
            raise RestError(HTTPStatus.SERVICE_UNAVAILABLE, "", str(error)) from error
        except CredentialsError as error:
            advice = "Set 'data-token.enabled' to false, and give the client keys of the store."
            raise invalid(f"{error}. {advice}") from error
        answer = {"token": token_options(issued), "expiresAtMillis": issued.expires_millis}
        return json_response(answer, headers={"cache-control": "no-store"})


def token_options(issued: StorageCredentials) -> Mapping[str, str]:
    """Return the options of credentials: those of S3 and Azure by the names of Hadoop's client, and of pypaimon, those
    of Google's store by our own, because Hadoop's connector gets its tokens from classes of Java.
    """
    if isinstance(issued, GoogleCredentials):
        return {
            "fs.gs.auth.access.token": issued.token,
            "fs.gs.auth.access.token.expires-at": str(issued.expires_millis),
            **({} if issued.endpoint is None else {"fs.gs.storage.root.url": issued.endpoint}),
        }
    if isinstance(issued, AzureCredentials):
        return {
            "fs.azure.sas.fixed.token": issued.signature,
            f"fs.azure.account.auth.type.{issued.host}": "SAS",
            f"fs.azure.sas.fixed.token.{issued.host}": issued.signature,
            **({} if issued.endpoint is None else {"fs.azure.endpoint": issued.endpoint}),
        }
    assert isinstance(issued, S3Credentials)
    options = {
        "fs.s3a.access.key": issued.access_key,
        "fs.s3a.secret.key": issued.secret_key,
        "fs.s3a.session.token": issued.session_token,
        "fs.s3.accessKeyId": issued.access_key,
        "fs.s3.accessKeySecret": issued.secret_key,
        "fs.s3.securityToken": issued.session_token,
    }
    if issued.region is not None:
        options |= {"fs.s3a.endpoint.region": issued.region, "fs.s3.region": issued.region}
    if issued.endpoint is not None:
        # Stores that are no service of AWS have no names of hosts for buckets.
        options |= {
            "fs.s3a.endpoint": issued.endpoint,
            "fs.s3.endpoint": issued.endpoint,
            "fs.s3a.path.style.access": "true",
        }
    return options
