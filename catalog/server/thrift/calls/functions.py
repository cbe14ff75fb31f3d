"""The calls about user-defined functions."""

from typing import Any

from interbed.catalog.server.service.errors import MetastoreError
from interbed.catalog.server.service.model import DEFAULT_CATALOG, Function
from interbed.catalog.server.service.names import normalized, required
from interbed.catalog.server.service.service import Metastore
from interbed.catalog.server.thrift.structs import convert
from interbed.catalog.server.thrift.structs.convert import split_catalog
from interbed.thrift_idl.hive_metastore import ttypes

_DATABASE = "name of a database"
_FUNCTION = "name of a function"


class FunctionHandler:
    """User-defined functions."""

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
        functions = self._functions.select(DEFAULT_CATALOG)
        return ttypes.GetAllFunctionsResponse(functions=[convert.function_to_thrift(each) for each in functions])


def _complete(function: Any) -> Function:
    """The function of a request; MetastoreError if it lacks what Hive 4's metastore does not do without: names, owner's
    type, kind. Those that older metastores keep may lack them.
    """
    for field in ("dbName", "functionName", "ownerType", "functionType"):
        if getattr(function, field) is None:
            raise MetastoreError(f"the function has no {field}")
    return convert.function_from_thrift(function)
