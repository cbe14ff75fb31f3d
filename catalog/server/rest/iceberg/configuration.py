"""`GET v1/config`: the prefix of a warehouse, and the endpoints that are carried out."""

from collections.abc import Callable, Sequence
from http import HTTPStatus

from interbed.catalog.server.rest.iceberg.idempotency import LIFETIME
from interbed.catalog.server.rest.interface import RestError, RestRequest, RestResponse, json_response
from interbed.catalog.server.service.catalogs import CatalogService
from interbed.catalog.server.service.model import DEFAULT_CATALOG
from interbed.catalog.server.service.names import normalized, shortened
from interbed.catalog.server.service.warehouse import same_location


class ConfigurationHandler:
    """The configuration for clients. `endpoints` returns them as `GET /v1/{prefix}/namespaces`."""

    def __init__(self, catalogs: CatalogService, endpoints: Callable[[], Sequence[str]]) -> None:
        self._catalogs = catalogs
        self._endpoints = endpoints

    def get(self, request: RestRequest) -> RestResponse:
        """Answer getConfig. RestError with status 404 for a warehouse that is no catalog."""
        prefix = self._prefix(request.query.get("warehouse", ""))
        return json_response(
            {
                "defaults": {},
                "overrides": {"prefix": prefix},
                "endpoints": list(self._endpoints()),
                "idempotency-key-lifetime": LIFETIME,
            }
        )

    def _prefix(self, warehouse: str) -> str:
        """Return the name of the catalog that a warehouse names: by its name or its location, or the default one."""
        if not warehouse:
            return DEFAULT_CATALOG
        names = self._catalogs.names()
        if normalized(warehouse) in names:
            return normalized(warehouse)
        for name in names:
            if same_location(self._catalogs.get(name).location, warehouse):
                return name
        raise RestError(
            HTTPStatus.NOT_FOUND,
            "NoSuchWarehouseException",
            f"Warehouse does not exist: {shortened(warehouse)}. Give the name of a catalog, or none for "
            f"'{DEFAULT_CATALOG}'",
        )
