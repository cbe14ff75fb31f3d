"""The calls about databases: plain, and with a request."""

import dataclasses
from typing import Any

from interbed.catalog.server.service.model import DEFAULT_CATALOG, MetastoreDatabase
from interbed.catalog.server.service.names import required
from interbed.catalog.server.service.service import Metastore
from interbed.catalog.server.thrift.structs import convert
from interbed.catalog.server.thrift.structs.convert import split_catalog
from interbed.thrift_idl.hive_metastore import ttypes

_NAME = "name of a database"


class DatabaseHandler:
    """Databases."""

    def __init__(self, metastore: Metastore) -> None:
        self._databases = metastore.databases

    def create_database(self, database: Any) -> None:
        self._create(convert.database_from_thrift(database))

    def create_database_req(self, createDatabaseRequest: Any) -> None:
        self._create(convert.database_from_request(createDatabaseRequest))

    def _create(self, database: MetastoreDatabase) -> None:
        # The time is the server's, whatever a client has put there.
        self._databases.create(dataclasses.replace(database, create_time=0))

    def get_database(self, name: str) -> Any:
        catalog, database = split_catalog(name)
        return convert.database_to_thrift(self._databases.get(catalog, required(database, _NAME)))

    def get_database_req(self, request: Any) -> Any:
        catalog, database = split_catalog(request.name, request.catalogName)
        return convert.database_to_thrift(self._databases.get(catalog, required(database, _NAME)))

    def get_databases(self, pattern: str) -> list[str]:
        catalog, name = split_catalog(pattern)
        return self._databases.names(catalog, name)

    def get_databases_req(self, request: Any) -> Any:
        catalog, pattern = split_catalog(request.pattern, request.catalogName)
        databases = self._databases.select(catalog, pattern)
        return ttypes.GetDatabaseObjectsResponse(databases=[convert.database_to_thrift(each) for each in databases])

    def get_all_databases(self) -> list[str]:
        return self._databases.names(DEFAULT_CATALOG)

    def alter_database(self, dbname: str, db: Any) -> None:
        catalog, name = split_catalog(dbname)
        self._databases.alter(catalog, name or "", convert.database_from_thrift(db))

    def alter_database_req(self, alterDbReq: Any) -> None:
        catalog, name = split_catalog(alterDbReq.oldDbName)
        self._databases.alter(catalog, name or "", convert.database_from_thrift(alterDbReq.newDb))

    def drop_database(self, name: str, deleteData: bool, cascade: bool) -> None:
        catalog, database = split_catalog(name)
        self._databases.drop(catalog, required(database, _NAME), delete_data=bool(deleteData), cascade=bool(cascade))

    def drop_database_req(self, req: Any) -> None:
        catalog, database = split_catalog(req.name, req.catalogName)
        self._databases.drop(
            catalog,
            required(database, _NAME),
            delete_data=bool(req.deleteData),
            cascade=bool(req.cascade),
            if_exists=bool(req.ignoreUnknownDb),
        )
