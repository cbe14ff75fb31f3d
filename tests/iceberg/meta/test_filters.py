"""Filters that pyiceberg evaluates differently from the values of the rows."""

import math
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.memory import InMemoryCatalog

from interbed.iceberg.table import IcebergTable

VALUES = ([math.inf], [-math.inf], [math.inf, 1.0], [-math.inf, 1.0], [math.inf, math.nan], [None, -math.inf])
FILTERS: dict[str, Callable[[float], bool]] = {
    "c = 'Infinity'": lambda c: c == math.inf,
    "c = '-Infinity'": lambda c: c == -math.inf,
    "c <= '-Infinity'": lambda c: c == -math.inf,
    "c >= 'Infinity'": lambda c: c == math.inf or math.isnan(c),
    "c < 'Infinity'": lambda c: c < math.inf,
    "c > '-Infinity'": lambda c: c > -math.inf or math.isnan(c),
    "c IN ('Infinity', 5)": lambda c: c == math.inf,
    "c IN ('-Infinity', 5)": lambda c: c == -math.inf,
    "c <> 'Infinity'": lambda c: c != math.inf,
}


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()], ids=str)
@pytest.mark.parametrize("values", VALUES, ids=str)
def test_filters_find_infinite_values(tmp_path: Path, kind: pa.DataType, values: list[float | None]) -> None:
    catalog = InMemoryCatalog("ice", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("d")
    rows = pa.table({"c": pa.array(values, kind)})
    table = catalog.create_table("d.t", rows.schema)
    table.append(rows)
    for text, holds in FILTERS.items():
        found = IcebergTable("d.t", table).scan(filter=text).to_arrow()["c"].to_pylist()
        assert repr(found) == repr([value for value in values if value is not None and holds(value)]), text
