"""The calls about catalogs, and the identity of the metastore that they are in."""

from typing import Any

from interbed.catalog.server.service.errors import InvalidObjectError, InvalidOperationError
from interbed.catalog.server.service.service import Metastore
from interbed.catalog.server.thrift.structs import convert
from interbed.thrift_idl.hive_metastore import ttypes


class CatalogHandler:
    """Catalogs."""

    def __init__(self, metastore: Metastore) -> None:
        self._catalogs = metastore.catalogs
        self._databases = metastore.databases

    def get_metastore_db_uuid(self) -> str:
        return self._databases.identity()

    def get_catalogs(self) -> Any:
        return ttypes.GetCatalogsResponse(names=self._catalogs.names())

    def get_catalog(self, catName: Any) -> Any:
        return ttypes.GetCatalogResponse(catalog=convert.catalog_to_thrift(self._catalogs.get(catName.name)))

    def create_catalog(self, catalog: Any) -> None:
        if catalog.catalog is None:
            raise InvalidObjectError("the request has no catalog")
        self._catalogs.create(convert.catalog_from_thrift(catalog.catalog))

    def alter_catalog(self, rqst: Any) -> None:
        if rqst.newCat is None:
            raise InvalidOperationError("the request has no catalog")
        self._catalogs.alter(rqst.name, convert.catalog_from_thrift(rqst.newCat))

    def drop_catalog(self, catName: Any) -> None:
        self._catalogs.drop(catName.name, if_exists=bool(catName.ifExists))
