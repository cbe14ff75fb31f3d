"""The calls about catalogs, databases (plain, and with a request) and user-defined functions, and the identity of the
metastore.
"""

import dataclasses
from typing import Any

from interbed.catalog.server.service.errors import InvalidObjectError, InvalidOperationError, MetastoreError
from interbed.catalog.server.service.model import Function, MetastoreDatabase
from interbed.catalog.server.service.names import normalized, required
from interbed.catalog.server.service.service import Metastore
from interbed.catalog.server.session import current_catalog
from interbed.catalog.server.thrift.structs import convert
from interbed.catalog.server.thrift.structs.convert import split_catalog
from interbed.thrift_idl.hive_metastore import ttypes

_NAME = "name of a database"

_DATABASE = "name of a database"
_FUNCTION = "name of a function"


class CatalogHandler:
    """The calls about catalogs."""

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


class DatabaseHandler:
    """The calls about databases."""

    def __init__(self, metastore: Metastore) -> None:
        self._databases = metastore.databases

    def create_database(self, database: Any) -> None:
        self._create(convert.database_from_thrift(database))

    def create_database_req(self, createDatabaseRequest: Any) -> None:
        self._create(convert.database_from_request(createDatabaseRequest))

    def _create(self, database: MetastoreDatabase) -> None:
        # The server sets the time and ignores the client's.
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
        return self._databases.names(current_catalog.get())

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


class FunctionHandler:
    """The calls about user-defined functions."""

    def __init__(self, metastore: Metastore) -> None:
        self._functions = metastore.functions

    def create_function(self, func: Any) -> None:
        self._functions.create(_complete(func))

    def alter_function(self, dbName: str, funcName: str, newFunc: Any) -> None:
        catalog, database = split_catalog(dbName)
        if newFunc is None:
            raise MetastoreError("the request has no function")
        self._functions.alter(catalog, normalized(database), funcName, _complete(newFunc))

    def drop_function(self, dbName: str, funcName: str) -> None:
        catalog, database = split_catalog(dbName)
        self._functions.drop(catalog, required(database, _DATABASE), required(funcName, _FUNCTION))

    def get_function(self, dbName: str, funcName: str) -> Any:
        catalog, database = split_catalog(dbName)
        found = self._functions.get(catalog, required(database, _DATABASE), required(funcName, _FUNCTION))
        return convert.function_to_thrift(found)

    def get_functions(self, dbName: str, pattern: str) -> list[str]:
        catalog, database = split_catalog(dbName)
        return self._functions.names(catalog, required(database, _DATABASE), pattern)

    def get_functions_req(self, request: Any) -> Any:
        catalog, database = split_catalog(request.dbName, request.catalogName)
        names = self._functions.names(catalog, required(database, _DATABASE), request.pattern)
        if request.returnNames is not False:
            return ttypes.GetFunctionsResponse(function_names=names)
        chosen = set(names)
        functions = self._functions.select(catalog, normalized(database))
        return ttypes.GetFunctionsResponse(
            functions=[convert.function_to_thrift(function) for function in functions if function.name in chosen]
        )

    def get_all_functions(self) -> Any:
        functions = self._functions.select(current_catalog.get())
        return ttypes.GetAllFunctionsResponse(functions=[convert.function_to_thrift(each) for each in functions])


def _complete(function: Any) -> Function:
    """Return the function of a request; MetastoreError if it lacks a field that Hive 4's metastore requires: names,
    owner's type, kind. Functions that older metastores stored may lack them.
    """
    for field in ("dbName", "functionName", "ownerType", "functionType"):
        if getattr(function, field) is None:
            raise MetastoreError(f"the function has no {field}")
    return convert.function_from_thrift(function)
