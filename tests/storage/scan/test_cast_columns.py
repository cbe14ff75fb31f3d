"""Filters on columns whose type has changed: statistics and indexes of old files never exclude matching rows."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from interbed import SchemaChange, load_catalog


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
@pytest.mark.parametrize(
    ("old", "values", "new", "chosen", "expected"),
    [
        # Texts have another order than numbers.
        (pa.int32(), [5, 10, 100], "STRING", "c = '10'", ["10"]),
        (pa.string(), ["9", "10", "100"], "INT", "c > 50", [100]),
        # Casts to narrow types wrap around.
        (pa.int32(), [1, 300], "TINYINT", "c = 44", [44]),
        # Values that overflow become null, and the file has no nulls.
        (pa.int32(), [1, 300], "DECIMAL(2, 0)", "c IS NULL", [None]),
        (pa.float64(), [0.25, 0.75], "INT", "c = 0", [0, 0]),
        (pa.int32(), [1, 2], "BOOLEAN", "c = true", [True, True]),
        # A type that holds all values still allows pruning.
        (pa.int32(), [1, 2], "BIGINT", "c = 2", [2]),
    ],
)
def test_rows_are_found_by_the_present_type_of_a_column(
    tmp_path: Path, file_format: str, old: pa.DataType, values: list[Any], new: str, chosen: str, expected: list[Any]
) -> None:
    with load_catalog(warehouse=str(tmp_path)) as catalog:
        catalog.create_database("db")
        options = {"file.format": file_format}
        if new in ("STRING", "INT", "TINYINT", "BIGINT") and old != pa.float64():
            options["file-index.bloom-filter.columns"] = "c"
        table = catalog.create_table("db.t", pa.schema([("c", old)]), options=options)
        table.append(pa.table({"c": pa.array(values, old)}))
        catalog.alter_table("db.t", SchemaChange.update_column_type("c", new))
        table = catalog.get_table("db.t")
        assert table.scan(filter=chosen).to_arrow().column("c").to_pylist() == expected
