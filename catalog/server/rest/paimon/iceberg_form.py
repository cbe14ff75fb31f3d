"""The tables of this interface as Iceberg's interface serves them: rest/iceberg/entries.py.

A table is opened by the catalog of the request, as for Paimon's clients; interbed.iceberg makes its metadata.
"""

import threading
from http import HTTPStatus
from typing import TYPE_CHECKING

from interbed.catalog.client.errors import CatalogUnavailableError, DatabaseNotFoundError, TableNotFoundError
from interbed.catalog.client.hive.registration import INPUT_FORMAT, OUTPUT_FORMAT
from interbed.catalog.client.identifier import Identifier
from interbed.catalog.server.rest.iceberg.entries import OwnMetadata
from interbed.catalog.server.rest.iceberg.names import IcebergName, no_table
from interbed.catalog.server.rest.interface import RestError, RestRequest
from interbed.catalog.server.rest.paimon.access import CatalogAccess
from interbed.storage.base.errors import (
    InvalidInputError,
    NotSupportedError,
    SnapshotNotFoundError,
)
from interbed.storage.meta.file_store import FileStore

if TYPE_CHECKING:
    from interbed.iceberg.publish.on_request import MetadataOnRequest


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


def _busy(message: str) -> RestError:
    return RestError(HTTPStatus.SERVICE_UNAVAILABLE, "ServiceUnavailableException", message)


def _refused(name: IcebergName, error: Exception) -> RestError:
    return RestError(
        HTTPStatus.BAD_REQUEST,
        "BadRequestException",
        f"The table {name} cannot be read as an Iceberg table; read it as one of Paimon's: {error}",
    )
