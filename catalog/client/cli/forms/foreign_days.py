"""Check of Parquet files that DuckDB reads itself: it takes days of the hybrid calendar for days of the Gregorian one.

storage/files/format/hybrid_calendar.py explains the calendars, and the keys by which a file names its own.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from interbed.storage.base.errors import NotSupportedError
from interbed.storage.base.types.nested import leaves_of
from interbed.storage.files.format.hybrid_calendar import hybrid_calendar
from interbed.storage.files.format.int96 import open_foreign

if TYPE_CHECKING:
    import duckdb

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
    if isinstance(value, dict):
        literal, plain = value.get("literal"), value.get("value")
        if isinstance(literal, dict) and literal.get("kind") == "STRING":
            yield str(literal["text"])
        elif isinstance(plain, str):
            # The form of DuckDB 1.
            yield plain
        for inside in value.values():
            yield from _texts(inside)
    elif isinstance(value, list):
        for inside in value:
            yield from _texts(inside)
