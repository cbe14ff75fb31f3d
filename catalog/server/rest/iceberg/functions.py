"""Functions: a namespace has none.

Iceberg's functions are SQL with a metadata format of their own, and this interface has no operation that creates one.
Hive's functions name classes of Java, so that they are none of them. Source: Iceberg's REST specification,
listFunctions and loadFunction.
"""

from http import HTTPStatus

from interbed.catalog.server.rest.iceberg.names import catalog_of, levels_of, page_of
from interbed.catalog.server.rest.iceberg.store import TableStore
from interbed.catalog.server.rest.interface import RestError, RestRequest, RestResponse, json_response
from interbed.catalog.server.service.names import shortened


class IcebergFunctionHandler:
    """The operations about functions."""

    def __init__(self, store: TableStore) -> None:
        self._store = store

    def list(self, request: RestRequest) -> RestResponse:
        """Answer listFunctions. RestError with status 404 for a missing namespace."""
        page_of(request.query)
        self._store.present(catalog_of(request), levels_of(request.parts["namespace"]))
        return json_response({"identifiers": [], "next-page-token": None})

    def load(self, request: RestRequest) -> RestResponse:
        """Answer loadFunction: RestError with status 404 for every function, and for a missing namespace."""
        levels = levels_of(request.parts["namespace"])
        self._store.present(catalog_of(request), levels)
        name = shortened(f"{'.'.join(levels)}.{request.parts['function']}")
        raise RestError(HTTPStatus.NOT_FOUND, "NoSuchFunctionException", f"Function does not exist: {name}")
