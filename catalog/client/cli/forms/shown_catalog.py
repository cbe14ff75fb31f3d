"""SHOW and DESCRIBE as DuckDB parses them, answered from the catalog; DuckDB's own catalog has none of the tables."""

import re
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from interbed.catalog.client.api import Catalog
from interbed.catalog.client.cli.near_names import suggesting
from interbed.storage.base.errors import InvalidInputError, NotSupportedError

_ALL_TABLES = ("tables", "__show_tables_expanded")
_OWN_SCHEMAS = frozenset({"information_schema", "pg_catalog", "temp"})
_OWN_VIEW = re.compile(r"(duckdb|sqlite|pragma|pg)_\w+")
_OWN_FUNCTION = re.compile(
    r"duckdb_(approx_database_count|columns|constraints|databases|dependencies|indexes|schemas|sequences|table_sample|"
    r"tables|triggers|views)|(pragma_)?(database_list|database_size|metadata_info|show|storage_info|table_info)|"
    r"show_(databases|tables|tables_expanded)"
)


def shown_catalog(catalog: Catalog, parsed: dict[str, Any]) -> pa.Table | None:
    """The answer to a SHOW or DESCRIBE of the catalog, `parsed` by DuckDB; None for other statements.

    Raises NotSupportedError for what DuckDB would answer from its own catalog, InvalidInputError for a name without
    its database, and what the catalog raises.
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
            return _columns(catalog, *table)
        case "SHOW":
            raise InvalidInputError(f"The table '{node['table_name']}' lacks its database; write DATABASE.TABLE.")
    return None


def check_not_own(nodes: Iterable[dict[str, Any]], subqueries: Iterable[str]) -> None:
    """Raise NotSupportedError where the nodes of a query name parts of DuckDB's own catalog."""
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
        return _table({"database_name": catalog.list_databases()})
    if what not in _ALL_TABLES:
        raise _own(f"SHOW {what.upper()}")
    found = [(database, name) for database in catalog.list_databases() for name in catalog.list_tables(database)]
    return _table({"database": [database for database, _ in found], "name": [name for _, name in found]})


def _tables_from(catalog: Catalog, node: dict[str, Any]) -> pa.Table:
    database = node["schema_name"]
    if node["catalog_name"]:
        raise InvalidInputError(f"The catalog is named by --catalog {node['catalog_name']}; write FROM {database}.")
    with suggesting(catalog, database):
        return _table({"name": catalog.list_tables(database)})


def _described(query: Any) -> tuple[str, str] | None:
    """The table of `SELECT * FROM table`, which a DESCRIBE of a table is."""
    if not isinstance(query, dict) or query.get("type") != "SELECT_NODE":
        return None
    source, [first, *more] = query["from_table"], query["select_list"]
    is_plain = not more and first["type"] == "STAR" and not (first["exclude_list"] or first["replace_list"])
    if not is_plain or source["type"] != "BASE_TABLE" or source["column_name_alias"] or query["cte_map"]["map"]:
        return None
    return source["schema_name"], source["table_name"]


def _columns(catalog: Catalog, database: str, table: str) -> pa.Table | None:
    """The columns with types, nullability and keys of the table itself, under the heads of DuckDB's DESCRIBE."""
    if not database or database.lower() in _OWN_SCHEMAS:
        return None
    with suggesting(catalog, f"{database}.{table}"):
        found: Any = catalog.get_table(f"{database}.{table}")
    fields = found.fields
    keys = getattr(found, "primary_keys", ())
    return _table(
        {
            "column_name": [field.name for field in fields],
            "column_type": [str(field.type.with_nullable(True)) for field in fields],
            "null": ["YES" if field.type.nullable else "NO" for field in fields],
            "key": ["PRI" if field.name in keys else None for field in fields],
            "default": [field.default_value for field in fields],
            "extra": [field.description for field in fields],
        }
    )


def _table(columns: dict[str, Any]) -> pa.Table:
    return pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})
