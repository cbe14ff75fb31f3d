"""Functions of a catalog in a query that DuckDB runs: macros of their definitions in SQL.

The definition named `duckdb` is taken, or the one named `sql`. It is an expression over the parameters, without
subqueries, and DuckDB puts it in the place of the call. Arguments get the types of the parameters without loss, and the
result gets the declared type. A definition may call other functions of the catalog.
"""

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from interbed.catalog.client.api import Catalog
from interbed.catalog.client.errors import DatabaseNotFoundError, FunctionNotFoundError
from interbed.catalog.client.functions import CatalogFunction, FunctionName
from interbed.storage.base.errors import InvalidInputError, NotSupportedError
from interbed.storage.base.types.arrow import type_to_arrow
from interbed.storage.base.types.data_type import DataType

if TYPE_CHECKING:
    import duckdb

_ENGINE = "duckdb"

_OWN_SCHEMAS = frozenset({"", "main", "information_schema", "pg_catalog", "temp", "system"})

_INEXACT = frozenset({"FLOAT", "DOUBLE"})
"""Types that hold the nearest value of an argument, as everywhere in SQL."""

Node = dict[str, Any]


class CatalogMacros:
    """The functions of a catalog that queries call, as macros on one connection of DuckDB."""

    def __init__(self, catalog: Catalog, connection: "duckdb.DuckDBPyConnection") -> None:
        self._catalog = catalog
        self._connection = connection
        self._defined: dict[tuple[str, str], bool] = {}
        self._volatile: frozenset[str] | None = None

    def define(self, nodes: Iterable[Node], within: tuple[str, ...] = ()) -> None:
        """Make a macro of each function of the catalog that the nodes of a syntax tree call.

        `within` are the functions whose definitions the nodes are. Names that the catalog does not have are left to
        DuckDB, which has functions after a dot, too. Raises NotSupportedError for a function without a definition in
        SQL that can be run, InvalidInputError for one that is not valid.
        """
        for node in nodes:
            if node.get("class") != "FUNCTION" or str(node["schema"]).lower() in _OWN_SCHEMAS:
                continue
            database, function = str(node["schema"]), str(node["function_name"])
            if self._is_defined(database, function, within):
                # Before version 2 of DuckDB they are its children.
                self._check_arguments(f"{database}.{function}", node.get("arguments", node.get("children")))

    def _is_defined(self, database: str, function: str, within: tuple[str, ...]) -> bool:
        """Return whether the function is one of the catalog; make its macro the first time."""
        known = self._defined.get((database, function))
        if known is not None:
            return known
        try:
            name = FunctionName.of(f"{database}.{function}")
            found = self._catalog.get_function(name)
        except (FunctionNotFoundError, DatabaseNotFoundError, InvalidInputError, NotSupportedError):
            self._defined[database, function] = False
            return False
        if str(name) in within:
            raise InvalidInputError(
                f"The function '{name}' calls itself: {' -> '.join((*within, str(name)))}; change its definition."
            )
        self._make(name, found, within)
        self._defined[database, function] = True
        return True

    def _make(self, name: FunctionName, function: CatalogFunction, within: tuple[str, ...]) -> None:
        sql = function.sql_for(_ENGINE)
        if sql is None:
            raise NotSupportedError(function.no_sql_for(_ENGINE, name))
        returned = function.return_params or ()
        if len(returned) > 1:
            raise NotSupportedError(
                f"The function '{name}' returns {len(returned)} columns; only functions with one result are run."
            )
        params = function.input_params or ()
        nodes = self._checked_nodes(name, sql, [each.name for each in params])
        self.define(nodes, (*within, str(name)))
        # Callers can't write the name of the inner macro by accident: names of functions have no blanks.
        schema, inner = _quoted(name.database), _quoted(f"{name.function} inside")
        names = ", ".join(_quoted(each.name) for each in params)
        given = ", ".join(self._converted(name, each.name, each.type) for each in params)
        body = f"{schema}.{inner}({given})"
        if returned:
            body = f"CAST({body} AS {self._type(returned[0].type)})"
        self._connection.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
        self._connection.execute(f"CREATE OR REPLACE MACRO {schema}.{inner}({names}) AS ({sql}\n)")
        self._connection.execute(f"CREATE OR REPLACE MACRO {schema}.{_quoted(name.function)}({names}) AS ({body})")

    def _checked_nodes(self, name: FunctionName, sql: str, params: Sequence[str]) -> list[Node]:
        """Return the nodes of a definition; raise InvalidInputError unless it is an expression over the parameters."""
        [(answer,)] = self._connection.execute("SELECT json_serialize_sql(?)", [f"SELECT ({sql}\n)"]).fetchall()
        parsed = json.loads(answer)
        if parsed.get("error"):
            raise InvalidInputError(
                f"The definition of '{name}' is not valid in DuckDB: {parsed['error_message']}; it is {sql!r}."
            )
        nodes = list(objects(parsed))
        expressions = parsed["statements"][0]["node"]["select_list"]
        if len(parsed["statements"]) != 1 or len(expressions) != 1 or any(n.get("class") == "SUBQUERY" for n in nodes):
            raise NotSupportedError(
                f"The definition of '{name}' is no single expression without subqueries, and is not run: {sql!r}."
            )
        known = {each.lower() for each in (*params, *_names_of_lambdas(nodes))}
        for node in nodes:
            column = node.get("column_names") if node.get("class") == "COLUMN_REF" else None
            if column and str(column[0]).lower() not in known:
                raise InvalidInputError(
                    f"The definition of '{name}' names '{'.'.join(column)}', which is none of its parameters "
                    f"({', '.join(params) or 'it has none'}): {sql!r}."
                )
        return nodes

    def _converted(self, name: FunctionName, param: str, data_type: DataType) -> str:
        """Return the expression of an argument in the type of its parameter, which fails if a digit would be lost."""
        kind, argument = self._type(data_type), _quoted(param)
        cast = f"CAST({argument} AS {kind})"
        if kind in _INEXACT:
            return cast
        message = f"An argument of {name} loses digits as {param} {kind}; cast it explicitly."
        failure = f"CAST(error({_text(message)}) AS {kind})"
        return f"CASE WHEN {cast} IS NOT DISTINCT FROM {argument} THEN {cast} ELSE {failure} END"

    def _type(self, data_type: DataType) -> str:
        """Return the name of the type in DuckDB."""
        empty = pa.table({"x": pa.array([], type_to_arrow(data_type.with_nullable(True)))})
        return str(self._connection.from_arrow(empty).types[0])

    def _check_arguments(self, name: str, arguments: Any) -> None:
        """Raise NotSupportedError for an argument with another value each time that DuckDB computes it."""
        if self._volatile is None:
            found = self._connection.execute(
                "SELECT DISTINCT lower(function_name) FROM duckdb_functions() WHERE stability = 'VOLATILE'"
            ).fetchall()
            self._volatile = frozenset(each for (each,) in found)
        for node in objects(arguments):
            if node.get("class") == "FUNCTION" and str(node["function_name"]).lower() in self._volatile:
                raise NotSupportedError(
                    f"An argument of '{name}' calls {node['function_name']}, which has another value each time, and "
                    "DuckDB would compute it several times; compute it in a subquery first."
                )


def objects(value: Any) -> Iterable[Node]:
    """Yield all objects in a JSON value."""
    if isinstance(value, dict):
        yield value
        for inside in value.values():
            yield from objects(inside)
    elif isinstance(value, list):
        for inside in value:
            yield from objects(inside)


def _names_of_lambdas(nodes: Iterable[Node]) -> set[str]:
    """Return the names of the parameters of lambdas in a definition."""
    return {
        str(column["column_names"][0])
        for node in nodes
        if node.get("class") == "LAMBDA"
        for column in objects(node.get("lhs"))
        if column.get("column_names")
    }


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
