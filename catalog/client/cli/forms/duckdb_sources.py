"""Sources of a query that DuckDB runs: tables of a catalog, and files with types that lose nothing.

Each table that a query names becomes a view, which reads the columns and rows that DuckDB requests, and each function
of the catalog a macro (duckdb_objects.py). SHOW and DESCRIBE, as DuckDB parses them, are answered from the catalog,
because DuckDB's own catalog has none of the tables.

DuckDB guesses DOUBLE for any number with a fraction. So a CSV file is read by DuckDB, which detects its dialect, but
columns that it guesses to be DOUBLE, dates or times are read as texts first. Numbers of which a DOUBLE would lose
digits become a DECIMAL. Texts stay texts if neither type fits, or if a date is not in ISO form. JSON files are read by
interbed, because DuckDB reads every number in them as a DOUBLE, and so are Parquet files with types of which DuckDB
loses digits: INT96, whose nanoseconds it cuts off, and decimals of more than 38 digits, which it reads as DOUBLE.
"""

import json
import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import sqlglot
from sqlglot import expressions as exp

from interbed.catalog.client.api import Catalog
from interbed.catalog.client.cli.forms.duckdb_objects import CatalogMacros, ExactFile, check_query, noting, objects
from interbed.catalog.client.cli.forms.text_values import GuessedColumn
from interbed.catalog.client.cli.group import suggesting
from interbed.storage.base.errors import InterbedError, InvalidInputError, NotSupportedError
from interbed.storage.base.types.column_names import check_apart_without_case
from interbed.storage.table.table import Table

if TYPE_CHECKING:
    import duckdb


_ALL_TABLES = ("tables", "__show_tables_expanded")

_OWN_SCHEMAS = frozenset({"information_schema", "pg_catalog", "temp"})

_OWN_VIEW = re.compile(r"(duckdb|sqlite|pragma|pg)_\w+")

_OWN_FUNCTION = re.compile(
    r"duckdb_(approx_database_count|columns|constraints|databases|dependencies|indexes|schemas|sequences|table_sample|"
    r"tables|triggers|views)|(pragma_)?(database_list|database_size|metadata_info|show|storage_info|table_info)|"
    r"show_(databases|tables|tables_expanded)"
)

_DIALECT = "duckdb"

_CSV = frozenset({".csv", ".tsv"})

_JSON = frozenset({".json", ".jsonl", ".ndjson"})

_COMPRESSED = frozenset({".gz", ".zst"})

_PARQUET = frozenset({".parquet"})

_PARQUET_FUNCTIONS = frozenset({"read_parquet", "parquet_scan"})

_CSV_FUNCTIONS = frozenset({"read_csv", "read_csv_auto"})

_JSON_FUNCTIONS = frozenset(
    f"read_{form}{end}" for form in ("json", "ndjson") for end in ("", "_auto", "_objects", "_objects_auto")
)

_TYPES_GIVEN = frozenset({"columns", "types", "dtypes", "column_types", "all_varchar", "auto_type_candidates"})

_EVERY_LINE = {
    "allow_quoted_nulls": "false",
    "sample_size": "-1",
    "skip": "0",
    "comment": "''",
    "null_padding": "false",
    "strict_mode": "true",
    "quote": "'\"'",
    "escape": "'\"'",
}
"""Settings that DuckDB would detect from a sample of the lines: later ones would be rounded or left out."""

_ISO_DAY = r"\d{4}-\d{2}-\d{2}"

_ISO_TIME = r"\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?"

_ISO = {
    "DATE": f"^{_ISO_DAY}$",
    "TIME": f"^{_ISO_TIME}$",
    "TIMESTAMP": f"^{_ISO_DAY}([ T]{_ISO_TIME})?$",
    "TIMESTAMP WITH TIME ZONE": rf"^{_ISO_DAY}[ T]{_ISO_TIME} ?(Z|[+-]\d{{2}}(:?\d{{2}})?)$",
}
"""Patterns of texts of a type that DuckDB reads exactly: it has microseconds."""


def shown_catalog(catalog: Catalog, parsed: dict[str, Any]) -> pa.Table | None:
    """Return the answer to a SHOW or DESCRIBE of the catalog, `parsed` by DuckDB; None for other statements.

    Raises NotSupportedError for statements about DuckDB's own catalog, InvalidInputError for a name without its
    database, and the errors of the catalog.
    """
    node = parsed["statements"][0]["node"].get("from_table") or {}
    if node.get("type") != "SHOW_REF":
        return None
    match node["show_type"]:
        case "SHOW_SPECIAL":
            return _special(catalog, node["table_name"].strip('"'))
        case "SHOW_FROM":
            return _tables_from(catalog, node)
        case "DESCRIBE" | "SHOW" if (table := _described(node.get("query"))) is not None:
            return _described_columns(catalog, *table)
        case "SHOW":
            raise InvalidInputError(f"The table '{node['table_name']}' lacks its database; write DATABASE.TABLE.")
    return None


def check_not_own(nodes: Iterable[dict[str, Any]], subqueries: Iterable[str]) -> None:
    """Raise NotSupportedError if a query names parts of DuckDB's own catalog."""
    known = set(subqueries)
    for node in nodes:
        match node.get("type"):
            case "SHOW_REF" if node["show_type"] in ("SHOW_SPECIAL", "SHOW_FROM"):
                raise _own("SHOW within a query")
            case "TABLE_FUNCTION":
                name = str(node["function"].get("function_name", "")).lower()
                if _OWN_FUNCTION.fullmatch(name):
                    raise _own(f"{name}()")
            case "BASE_TABLE":
                schema, name = str(node["schema_name"]).lower(), str(node["table_name"])
                if schema in _OWN_SCHEMAS:
                    raise _own(f"{schema}.{name}")
                if not schema and name not in known and _OWN_VIEW.fullmatch(name.lower()):
                    raise _own(name)


def _own(what: str) -> NotSupportedError:
    return NotSupportedError(
        f"`interbed sql` does not carry out {what}, which reads DuckDB's own catalog; tables are listed by SHOW TABLES "
        "[FROM database] and `interbed table list`, described by DESCRIBE database.table and `interbed table describe`."
    )


def _special(catalog: Catalog, what: str) -> pa.Table:
    if what in ("databases", "schemas"):
        return _text_table({"database_name": catalog.list_databases()})
    if what not in _ALL_TABLES:
        raise _own(f"SHOW {what.upper()}")
    found = [(database, name) for database in catalog.list_databases() for name in catalog.list_tables(database)]
    return _text_table({"database": [database for database, _ in found], "name": [name for _, name in found]})


def _tables_from(catalog: Catalog, node: dict[str, Any]) -> pa.Table:
    database = node["schema_name"]
    if node["catalog_name"]:
        raise InvalidInputError(f"The catalog is named by --catalog {node['catalog_name']}; write FROM {database}.")
    with suggesting(catalog, database):
        return _text_table({"name": catalog.list_tables(database)})


def _described(query: Any) -> tuple[str, str] | None:
    """Return the table of `SELECT * FROM table`, which is the parsed form of DESCRIBE table."""
    if not isinstance(query, dict) or query.get("type") != "SELECT_NODE":
        return None
    source, [first, *more] = query["from_table"], query["select_list"]
    is_plain = not more and first["type"] == "STAR" and not (first["exclude_list"] or first["replace_list"])
    if not is_plain or source["type"] != "BASE_TABLE" or source["column_name_alias"] or query["cte_map"]["map"]:
        return None
    return source["schema_name"], source["table_name"]


def _described_columns(catalog: Catalog, database: str, table: str) -> pa.Table | None:
    """Return the columns of the table with types, nullability and keys, under the headings of DuckDB's DESCRIBE."""
    if not database or database.lower() in _OWN_SCHEMAS:
        return None
    with suggesting(catalog, f"{database}.{table}"):
        found: Any = catalog.get_table(f"{database}.{table}")
    fields = found.fields
    keys = getattr(found, "primary_keys", ())
    return _text_table(
        {
            "column_name": [field.name for field in fields],
            "column_type": [str(field.type.with_nullable(True)) for field in fields],
            "null": ["YES" if field.type.nullable else "NO" for field in fields],
            "key": ["PRI" if field.name in keys else None for field in fields],
            "default": [field.default_value for field in fields],
            "extra": [field.description for field in fields],
        }
    )


def _text_table(columns: dict[str, Any]) -> pa.Table:
    return pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})


class CatalogTables:
    """The tables of a catalog on one connection of DuckDB.

    `failures` are the errors of reading tables and files; DuckDB replaces them by its own.
    """

    def __init__(self, catalog: Catalog, connection: "duckdb.DuckDBPyConnection") -> None:
        self.catalog = catalog
        self.connection = connection
        self.failures: list[InterbedError] = []
        self._macros = CatalogMacros(catalog, connection)
        # Filters, values and output are in UTC, too, independent of the zone of the machine.
        connection.execute("SET TimeZone = 'UTC'")

    def define(self, query: str, *, hold: bool = False) -> None:
        """Make a view of each table that the query names, or with `hold` a table in memory, which does not change, and
        a macro of each function of the catalog.

        Raises InvalidInputError unless the query is one SELECT, NotSupportedError for tables that DuckDB would confuse,
        for files whose days it would change and for its own catalog, and the errors of Catalog.get_table.
        """
        parsed = self.parsed(query)
        if len(parsed["statements"]) != 1:
            raise InvalidInputError(f"`interbed sql` takes one SELECT, not {len(parsed['statements'])} statements.")
        nodes = list(objects(parsed))
        subqueries = {node["key"] for node in nodes if "key" in node}
        tables = {(node["schema_name"], node["table_name"]) for node in nodes if node.get("type") == "BASE_TABLE"}
        check_not_own(nodes, subqueries)
        check_query(self.connection, nodes)
        _check_tables_apart(sorted(tables))
        self._macros.define(nodes)
        for number, (database, table) in enumerate(sorted(tables)):
            if database:
                self._define(database, table, f"interbed_{number}", "TABLE" if hold else "VIEW")
            elif not database and table not in subqueries and re.fullmatch(r"\w+", table):
                raise InvalidInputError(f"The table '{table}' lacks its database; write DATABASE.{table}.")

    def parsed(self, query: str) -> dict[str, Any]:
        """Return the syntax tree of a query from DuckDB; raise InvalidInputError for an invalid query."""
        [(answer,)] = self.connection.execute("SELECT json_serialize_sql(?)", [query]).fetchall()
        parsed: dict[str, Any] = json.loads(answer)
        if not parsed.get("error"):
            return parsed
        raise InvalidInputError(f"The query is no SQL: {parsed['error_message']}.")

    def _define(self, database: str, table: str, alias: str, kind: str) -> None:
        name = f"{database}.{table}"
        with suggesting(self.catalog, name):
            found = self.catalog.get_table(name)
        check_apart_without_case(found.arrow_schema, f"the table '{name}'")
        self.connection.register(alias, TableDataset(found, self.failures))
        self.connection.execute(f"CREATE SCHEMA IF NOT EXISTS {quoted(database)}")
        self.connection.execute(f"CREATE OR REPLACE {kind} {quoted(database)}.{quoted(table)} AS FROM {alias}")


def _check_tables_apart(tables: Iterable[tuple[str, str]]) -> None:
    """Raise NotSupportedError if two tables of a query differ only by the case of their names."""
    seen: dict[str, str] = {}
    for database, table in tables:
        name = f"{database}.{table}"
        other = seen.setdefault(name.lower(), name)
        if database and other != name:
            raise NotSupportedError(
                f"DuckDB ignores the case of names, and the query names both '{other}' and '{name}'; rename one of the "
                "tables (`interbed table rename`), or read them one by one."
            )


class TableDataset(ds.Dataset):
    """A table as a dataset for DuckDB, which asks for columns and a filter each time that the query reads it."""

    def __init__(self, table: Table, failures: list[InterbedError]) -> None:
        # The base class is only an interface here, without data of its own.
        self._table = table
        self._failures = failures

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of all columns."""
        return self._table.arrow_schema

    def scanner(self, columns: list[str] | None = None, filter: Any = None, *_: Any, **__: Any) -> ds.Scanner:  # noqa: A002
        """Return the rows with some columns that match the filter; only what is needed of the table is read."""
        known = self._table.arrow_schema.names
        wanted = known if columns is None else columns
        if filter is not None:
            # An expression has no list of its columns; the columns whose names occur in its text are enough.
            text = str(filter)
            wanted = [name for name in known if name in wanted or name in text]
        reader = self._table.scan(columns=wanted).to_arrow_batch_reader()
        noted = pa.RecordBatchReader.from_batches(reader.schema, noting(reader, self._failures))
        return ds.Scanner.from_batches(noted, columns=columns, filter=filter)


def quoted(name: str) -> str:
    """Return the name in double quotes, as in SQL."""
    return '"' + name.replace('"', '""') + '"'


class SourceFiles:
    """Files that statements name, read without loss on one connection of DuckDB."""

    def __init__(self, tables: CatalogTables) -> None:
        self._tables = tables
        self._connection = tables.connection

    def prepare(self, statement: exp.Expr) -> None:
        """Change how the statement reads its files. Raises NotSupportedError for functions that lose digits."""
        for table in list(statement.find_all(exp.Table)):
            source = table.this
            if isinstance(source, exp.Identifier) and not table.db:
                self._prepare_file(table, source.name)
                continue
            name = _function_of(source)
            if name in _CSV_FUNCTIONS:
                table.set("this", self._exact_csv(source))
            elif name in _JSON_FUNCTIONS:
                raise NotSupportedError(
                    f"{name} reads numbers of JSON as DOUBLE, which loses digits; name the file as a table: "
                    "FROM 'orders.jsonl'."
                )
            elif name in _PARQUET_FUNCTIONS and source.expressions:
                self._check_parquet(_sql(source.expressions[0]))

    def _prepare_file(self, table: Any, name: str) -> None:
        suffixes = [s.lower() for s in Path(name).suffixes if s.lower() not in _COMPRESSED]
        suffix = suffixes[-1] if suffixes else ""
        if suffix in _CSV:
            [call] = _tables(f"SELECT * FROM read_csv({_text(name)})")
            if not table.alias:
                # The alias that DuckDB gives a file.
                table.set("alias", exp.TableAlias(this=exp.to_identifier(Path(name).name.split(".")[0], quoted=True)))
            table.set("this", self._exact_csv(call.this))
        elif suffix in _JSON:
            self._connection.register(name, ExactFile(Path(name), self._tables.failures))
        elif suffix in _PARQUET:
            inexact = {kind for _, _, kind in self._inexact_parquet(_text(name))}
            if Path(name).is_file() and inexact == {"INT96"}:
                self._connection.register(name, ExactFile(Path(name), self._tables.failures))
            else:
                self._check_parquet(_text(name))

    def _check_parquet(self, files: str) -> None:
        """Raise NotSupportedError if one of the Parquet files has a column of which DuckDB loses digits."""
        for file, column, kind in self._inexact_parquet(files):
            alone = f"name the file alone as a table, FROM {_text(file)}, or " if kind == "INT96" else ""
            raise NotSupportedError(
                f"The column {column!r} of the file {file} is {kind}, of which DuckDB loses digits; {alone}"
                "write the file into a table by `interbed table import`."
            )

    def _inexact_parquet(self, files: str) -> list[tuple[str, str, str]]:
        """Return files, columns and types of Parquet of which DuckDB loses digits."""
        import duckdb

        kind = "CASE WHEN type = 'INT96' THEN 'INT96' ELSE format('DECIMAL({}, {})', precision, scale) END"
        lossy = "type = 'INT96' OR precision > 38"
        query = f"SELECT DISTINCT file_name, name, {kind} FROM parquet_schema({files}) WHERE {lossy} ORDER BY ALL"
        try:
            return self._connection.execute(query).fetchall()
        except duckdb.Error:
            # The statement itself fails for a file that can't be read, with an error that has its text.
            return []

    def _exact_csv(self, call: Any) -> Any:
        """Return the call that reads a CSV file, with types for the columns of which DuckDB would lose something.

        Every line is a row, and empty texts in quotes are not null.
        """
        given = _named_arguments(call)
        for name, value in _EVERY_LINE.items():
            if name not in given and not (name == "escape" and "quote" in given):
                call = _with_argument(call, f"{name} = {value}")
        if not _TYPES_GIVEN.isdisjoint(given):
            return call
        relation = self._connection.sql(f"SELECT * FROM {_sql(call)}")
        kinds = {n: str(kind) for n, kind in zip(relation.columns, relation.types, strict=True)}
        guessed = {"DOUBLE"} if _says_form(given) else {"DOUBLE", *_ISO}
        doubtful = {name: kind for name, kind in kinds.items() if kind in guessed}
        if not doubtful:
            return call
        as_texts = _sql(_with_types(call, dict.fromkeys(doubtful, "VARCHAR")))
        texts = self._connection.sql(f"SELECT {', '.join(map(quoted, doubtful))} FROM {as_texts}")
        exact = _exact_types(pa.RecordBatchReader.from_stream(texts), doubtful, given.get("decimal_separator", "."))
        return _with_types(call, exact) if exact else call


def _exact_types(batches: Iterable[pa.RecordBatch], kinds: Mapping[str, str], separator: str) -> dict[str, str]:
    """Return the types, by DuckDB's names, of columns whose guessed types would lose something."""
    numbers = {name: GuessedColumn() for name, kind in kinds.items() if kind == "DOUBLE"}
    are_iso = {name: True for name in kinds if name not in numbers}
    for batch in batches:
        for name, column in numbers.items():
            texts: Any = batch.column(name)
            column.add(texts if separator == "." else pc.replace_substring(texts, separator, "."), pa.null())
        for name, is_iso in are_iso.items():
            matches: Any = pc.match_substring_regex(batch.column(name), _ISO[kinds[name]])
            are_iso[name] = is_iso and bool(pc.all(matches, min_count=0).as_py())
    exact = {name: "VARCHAR" for name, is_iso in are_iso.items() if not is_iso}
    for name, column in numbers.items():
        kind = column.type
        if pa.types.is_decimal(kind):
            exact[name] = f"DECIMAL({kind.precision}, {kind.scale})"
        elif pa.types.is_string(kind):
            exact[name] = "VARCHAR"
    return exact


def _function_of(source: Any) -> str | None:
    if isinstance(source, exp.ReadCSV):
        return "read_csv"
    if isinstance(source, exp.ReadParquet):
        return "read_parquet"
    return str(source.name).lower() if isinstance(source, exp.Anonymous) else None


def _named_arguments(call: Any) -> dict[str, str]:
    """Return the text of each argument that is given by name."""
    named = (each for each in call.expressions if isinstance(each, exp.EQ | exp.PropertyEQ))
    return {each.this.name.lower(): each.expression.name for each in named}


def _says_form(given: Collection[str]) -> bool:
    return not {"dateformat", "timestampformat"}.isdisjoint(given)


def _with_types(call: Any, types: Mapping[str, str]) -> Any:
    pairs = ", ".join(f"{_text(name)}: {_text(kind)}" for name, kind in types.items())
    return _with_argument(call, f"types = {{{pairs}}}")


def _with_argument(call: Any, argument: str) -> Any:
    [table] = _tables(f"SELECT * FROM {_sql(call)[:-1]}, {argument})")
    return table.this


def _tables(query: str) -> list[Any]:
    return list(sqlglot.parse_one(query, dialect=_DIALECT).find_all(exp.Table))


def _sql(expression: Any) -> str:
    return str(expression.sql(dialect=_DIALECT))


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
