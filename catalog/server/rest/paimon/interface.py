"""Paimon's REST interface as the server mounts it: all routes, and its tables in the form of Iceberg's interface.

Routes of Paimon's document that are refused by name have status 501. For Iceberg's interface (rest/iceberg/entries.py),
a table is opened by the catalog of the request, as for Paimon's clients; interbed.iceberg makes its metadata.
"""

import threading
from http import HTTPStatus
from typing import TYPE_CHECKING

from interbed.catalog.client.errors import CatalogUnavailableError, DatabaseNotFoundError, TableNotFoundError
from interbed.catalog.client.hive.registration import INPUT_FORMAT, OUTPUT_FORMAT
from interbed.catalog.client.identifier import Identifier
from interbed.catalog.server.credentials.issued import TableCredentials
from interbed.catalog.server.rest.iceberg.entries import OwnMetadata
from interbed.catalog.server.rest.iceberg.names import IcebergName, no_table
from interbed.catalog.server.rest.interface import (
    Handler,
    ObjectKind,
    RestError,
    RestInterface,
    RestRequest,
    RestResponse,
    RestRoute,
    route,
)
from interbed.catalog.server.rest.paimon.access import CatalogAccess
from interbed.catalog.server.rest.paimon.databases import DatabaseRoutes, FunctionRoutes
from interbed.catalog.server.rest.paimon.refusals import error_body, no_route, translated, unsupported
from interbed.catalog.server.rest.paimon.snapshots import SnapshotRoutes
from interbed.catalog.server.rest.paimon.tables import TABLE, PartitionRoutes, TableRoutes, TokenRoutes
from interbed.catalog.server.rest.paimon.versions import VersionRoutes
from interbed.catalog.server.rest.paimon.views import ViewRoutes
from interbed.catalog.server.service.access.objects import Privilege
from interbed.catalog.server.service.databases import FunctionService
from interbed.storage.base.errors import (
    InvalidInputError,
    NotSupportedError,
    SnapshotNotFoundError,
)
from interbed.storage.meta.file_store import FileStore

if TYPE_CHECKING:
    from interbed.iceberg.publish.on_request import MetadataOnRequest

PATH = "/paimon"

_NO_TOKENS = (
    "The server issues no tokens for the files of tables. Set 'data-token.enabled' to false, and give the keys of the "
    "file system to the client; or set credentials_s3_role, credentials_google or "
    "credentials_azure for the server."
)


def paimon_interface(
    access: CatalogAccess, functions: FunctionService, credentials: TableCredentials | None = None
) -> RestInterface:
    """Return Paimon's REST interface of a server over the catalogs of its requests, and over its functions. With
    `credentials` it issues tokens for the files of tables.
    """
    nouns = (
        DatabaseRoutes(access, functions),
        TableRoutes(access),
        SnapshotRoutes(access),
        PartitionRoutes(access),
        VersionRoutes(access),
        ViewRoutes(access),
        FunctionRoutes(access, functions),
    )
    tokens = refused_routes() if credentials is None else TokenRoutes(access, credentials).routes()
    return RestInterface(
        name="paimon",
        path=PATH,
        routes=[each for noun in nouns for each in noun.routes()] + tokens,
        error_body=error_body,
        translated=translated,
        missing=no_route,
    )


def refused_routes() -> list[RestRoute]:
    """Return the route of tokens, which is refused."""
    return [route("GET", f"{TABLE}/token", "getTableToken", Privilege.USAGE, ObjectKind.TABLE, _refusing(_NO_TOKENS))]


class PaimonAsIceberg:
    """Iceberg metadata of the tables of a metastore (OwnTables). Safe for many threads.

    `root` is the location below which the server writes metadata, None for the directories of the tables.
    """

    formats = (INPUT_FORMAT, OUTPUT_FORMAT)

    def __init__(self, access: CatalogAccess, root: str | None = None) -> None:
        self._access = access
        self._root = root
        self._guard = threading.Lock()
        self._made: MetadataOnRequest | None = None

    def load(self, request: RestRequest, name: IcebergName, table_uuid: str) -> OwnMetadata:
        """Return the metadata of a table. RestError with status 404 for a table without files, 400 for one that Iceberg
        cannot represent, 403 if the server may not write its metadata, 503 if it makes too many others.
        """
        catalog = self._access.catalog(request)
        try:
            store = catalog.get_table(Identifier(database=name.database, table=name.table)).store
        except (TableNotFoundError, DatabaseNotFoundError) as error:
            raise no_table(name) from error
        except NotSupportedError as error:
            raise _refused(name, error) from error
        except CatalogUnavailableError as error:
            raise _busy(str(error)) from error
        return self._metadata(name, store, table_uuid)

    def _metadata(self, name: IcebergName, store: FileStore, table_uuid: str) -> OwnMetadata:
        # Imported by use: pyiceberg loads slowly.
        from interbed.iceberg.publish.on_request import MetadataBusyError, MetadataNotMadeError, MetadataOnRequest

        with self._guard:
            self._made = self._made or MetadataOnRequest(self._root)
        try:
            found = self._made.of(store, table_uuid)
        except MetadataBusyError as error:
            raise _busy(str(error)) from error
        except MetadataNotMadeError as error:
            raise RestError(HTTPStatus.FORBIDDEN, "ForbiddenException", str(error)) from error
        except SnapshotNotFoundError as error:
            raise no_table(name) from error
        except (NotSupportedError, InvalidInputError) as error:
            raise _refused(name, error) from error
        return OwnMetadata(location=found.location, content=found.content)


def _refusing(reason: str) -> Handler:
    def refuse(_request: RestRequest) -> RestResponse:
        raise unsupported(reason)

    return refuse


def _busy(message: str) -> RestError:
    return RestError(HTTPStatus.SERVICE_UNAVAILABLE, "ServiceUnavailableException", message)


def _refused(name: IcebergName, error: Exception) -> RestError:
    return RestError(
        HTTPStatus.BAD_REQUEST,
        "BadRequestException",
        f"The table {name} cannot be read as an Iceberg table; read it as one of Paimon's: {error}",
    )
