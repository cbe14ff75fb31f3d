"""Format tables without a catalog, for tests."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from interbed.storage.base.types.data_type import DataField
from interbed.storage.io.api import FileIO
from interbed.storage.io.local import LocalFileIO
from interbed.storage.meta.schema.table_schema import Schema
from interbed.storage.table.format_table.definition import FormatDefinition, check_format_table
from interbed.storage.table.format_table.format_table import FormatTable

FORMATS = ("csv", "json", "text", "parquet", "orc", "avro")


def arrow_schema(columns: Sequence[tuple[str, Any]]) -> pa.Schema:
    """Return the schema of columns by name and type."""
    return pa.schema([pa.field(name, of) for name, of in columns])


def format_table(
    location: Path,
    fields: Sequence[DataField] | pa.Schema,
    file_format: str,
    *,
    partition_keys: Sequence[str] = (),
    options: Mapping[str, str] | None = None,
    file_io: FileIO | None = None,
) -> FormatTable:
    """Return a new table `d.t` at a location, after the checks of a catalog."""
    given = {"type": "format-table", "file.format": file_format, **(options or {})}
    keys: dict[str, Any] = {"partition_keys": tuple(partition_keys), "options": given}
    if isinstance(fields, pa.Schema):
        schema = Schema.from_pyarrow_schema(fields, **keys).to_table_schema()
    else:
        schema = Schema(fields=tuple(fields), **keys).to_table_schema()
    check_format_table(schema)
    return FormatTable("d.t", str(location), file_io or LocalFileIO(), FormatDefinition.of(schema))


def rows_of(table: FormatTable, **arguments: Any) -> list[tuple[Any, ...]]:
    """Return the rows of a scan, sorted by their text."""
    found = table.scan(**arguments).to_arrow()
    return sorted(zip(*(column.to_pylist() for column in found.columns), strict=True), key=repr)


def data_files(table: FormatTable) -> list[str]:
    """Return the paths of the files of a table, hidden ones included, relative to it and sorted."""
    root = Path(table.location)
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())
