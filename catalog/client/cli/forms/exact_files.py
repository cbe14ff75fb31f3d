"""Files of a query, as datasets for DuckDB with types that hold all their values.

DuckDB takes days of the hybrid calendar for days of the Gregorian one, so Parquet files that it reads itself are
checked. storage/files/format/hybrid_calendar.py explains the calendars, and the keys by which a file names its own.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as ds

from interbed.catalog.client.cli.forms.file_batch import BadLine, BadLines, shortened
from interbed.catalog.client.cli.forms.file_rows import FileRows
from interbed.storage.base.errors import InterbedError, InvalidInputError, NotSupportedError
from interbed.storage.base.types.arrow import FieldIds, fields_from_arrow
from interbed.storage.base.types.column_names import check_apart_without_case
from interbed.storage.base.types.nested import leaves_of
from interbed.storage.files.format.hybrid_calendar import hybrid_calendar
from interbed.storage.files.format.int96 import open_foreign

if TYPE_CHECKING:
    import duckdb


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
