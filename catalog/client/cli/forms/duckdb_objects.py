"""Functions and files of a query that DuckDB runs, in forms that lose nothing.

A function of the catalog becomes a macro of its definition in SQL: the one named `duckdb` is taken, or the one named
`sql`. It is an expression over the parameters, without subqueries, and DuckDB puts it in the place of the call.
Arguments get the types of the parameters without loss, and the result gets the declared type. A definition may call
other functions of the catalog.

A file becomes a dataset with types that hold all its values. DuckDB takes days of the hybrid calendar for days of the
Gregorian one, so Parquet files that it reads itself are checked. storage/files/format/hybrid_calendar.py explains the
calendars, and the keys by which a file names its own.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as ds

from interbed.catalog.client.api import Catalog
from interbed.catalog.client.cli.forms.file_rows import FileRows
from interbed.catalog.client.cli.forms.row_formats import BadLine, BadLines, shortened
from interbed.catalog.client.errors import DatabaseNotFoundError, FunctionNotFoundError
from interbed.catalog.client.functions import CatalogFunction, FunctionName
from interbed.storage.base.errors import InterbedError, InvalidInputError, NotSupportedError
from interbed.storage.base.types.arrow import FieldIds, fields_from_arrow, type_to_arrow
from interbed.storage.base.types.column_names import check_apart_without_case
from interbed.storage.base.types.data_type import DataType
from interbed.storage.base.types.nested import leaves_of
from interbed.storage.files.format.hybrid_calendar import hybrid_calendar, open_foreign

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


class ExactFile(ds.Dataset):
    """A JSON or Parquet file as a dataset for DuckDB, with types that hold all its values."""

    def __init__(self, path: Path, failures: list[InterbedError]) -> None:
        # The base class is only an interface here, without data of its own.
        self._rows = FileRows.of(path)
        self._schema = self._rows.inferred_schema()
        check_apart_without_case(self._schema, f"the file '{path}'")
        self._failures = failures

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of all columns."""
        return self._schema

    def scanner(self, columns: list[str] | None = None, filter: Any = None, *_: Any, **__: Any) -> ds.Scanner:  # noqa: A002
        """Return the rows with some columns that match the filter."""
        reader = pa.RecordBatchReader.from_batches(self._schema, noting(self._batches(), self._failures))
        return ds.Scanner.from_batches(reader, columns=columns, filter=filter)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        fields = fields_from_arrow(list(self._schema), FieldIds())
        for each in self._rows.batches(str(self._rows.path), fields, self._schema, _FirstBadLine(skip=False)):
            yield each.batch


class _FirstBadLine(BadLines):
    """Raises an error for the first bad line; a statement leaves no line out."""

    def add(self, found: Iterable[BadLine]) -> None:
        for line in sorted(found, key=lambda each: each.number):
            raise InvalidInputError(f"{line}. The {line.unit}: {shortened(line.text)}.")


def noting(batches: Iterable[pa.RecordBatch], failures: list[InterbedError]) -> Iterator[pa.RecordBatch]:
    """Yield the batches; record an error that ends them in `failures`."""
    try:
        yield from batches
    except InterbedError as error:
        failures.append(error)
        raise


_HYBRID_KEYS = """
    key IN ('org.apache.spark.legacyDateTime', 'org.apache.spark.legacyINT96')
    OR key = 'org.apache.spark.version' AND regexp_matches(decode(value), '^([0-2]\\.|3\\.0)')
    OR key = 'writer.date.proleptic' AND lower(decode(value)) = 'false'
"""
"""Condition on the key-value metadata of a Parquet file of which parts may count by the hybrid calendar."""

_FUNCTIONS = frozenset({"read_parquet", "parquet_scan"})


def hybrid_files(connection: "duckdb.DuckDBPyConnection", files: str) -> list[str]:
    """Return those of the files, given by an SQL expression, of which parts may count by the hybrid calendar.

    The list is empty for files that are not readable as Parquet.
    """
    import duckdb

    query = f"SELECT DISTINCT file_name FROM parquet_kv_metadata({files}) WHERE {_HYBRID_KEYS} ORDER BY ALL"
    try:
        return [name for (name,) in connection.execute(query).fetchall()]
    except duckdb.Error:
        # The statement itself fails for a file that can't be read, with an error that has its text.
        return []


def check_query(connection: "duckdb.DuckDBPyConnection", nodes: Iterable[Mapping[str, Any]]) -> None:
    """Check the files that a query names; `nodes` is its syntax tree from DuckDB. Raises as check_days does."""
    for name in sorted(set(_files_of(nodes))):
        for file in hybrid_files(connection, "'" + name.replace("'", "''") + "'"):
            check_days(file)


def check_days(file: str) -> None:
    """Raise NotSupportedError if the file has a day or time that DuckDB reads as another one."""
    if not Path(file).is_file():
        raise NotSupportedError(
            f"The writer of the file {file} counted days by the hybrid calendar of Spark 2 and Hive, and DuckDB reads "
            "old ones as other days. Copy the file to a local disk: there it is refused only if it has such days."
        )
    with open_foreign(file) as parquet:
        calendar = hybrid_calendar(parquet)
        columns = [field.name for field in parquet.schema_arrow if _has_times(field)]
        if calendar is None or not columns:
            return
        for batch in parquet.iter_batches(columns=columns):
            calendar.check(batch, file)


def _has_times(field: "pa.Field[Any]") -> bool:
    empty: Any = pa.array([], field.type)
    return any(pa.types.is_temporal(values.type) for _, values in leaves_of(field.name, empty))


def _files_of(nodes: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for node in nodes:
        if node.get("type") == "BASE_TABLE" and not node["schema_name"] and Path(node["table_name"]).suffix:
            yield node["table_name"]
        elif node.get("function_name") in _FUNCTIONS:
            yield from _texts(node)


def _texts(value: Any) -> Iterator[str]:
    """Yield the texts that a part of a syntax tree has as literals."""
    for node in objects(value):
        literal, plain = node.get("literal"), node.get("value")
        if isinstance(literal, dict) and literal.get("kind") == "STRING":
            yield str(literal["text"])
        elif isinstance(plain, str):
            # The form of DuckDB 1.
            yield plain
