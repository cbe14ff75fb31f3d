"""Statistics of tables: computed, committed, shown and kept by later snapshots."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from interbed import load_catalog
from interbed.catalog.client.api import Catalog
from interbed.storage.base.errors import InvalidInputError, NotSupportedError

_ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3], pa.int64()),
        "s": ["aä", None, "long text"],
        "d": [date(2026, 1, 2), date(1969, 12, 31), None],
        "t": pa.array([datetime(2026, 1, 2, 3, 4, 5, 600000, UTC)] * 3, pa.timestamp("us", "UTC")),
        "n": [Decimal("1.50"), Decimal("-2.25"), Decimal("0.00")],
        "nested": [[1], [2], None],
    }
)


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    """A catalog with the database `db`."""
    made = load_catalog(warehouse=str(tmp_path))
    made.create_database("db")
    return made


def test_statistics_cover_rows_and_columns(catalog: Catalog) -> None:
    table = catalog.create_table_as("db.t", _ROWS, primary_keys=["id"], options={"bucket": 1})
    table.upsert(_ROWS)

    made = table.maintenance.analyze()

    assert made is not None
    assert (made.snapshot_id, made.row_count) == (2, 3)
    assert [s.commit_kind.value for s in table.snapshots()] == ["APPEND", "APPEND", "ANALYZE"]
    (shown,) = catalog.get_table("db.t$statistics").scan().to_arrow().to_pylist()
    assert (shown["snapshot_id"], shown["mergedRecordCount"]) == (2, 3)
    columns = json.loads(shown["colstat"])
    lengths = {"avgLen": 8, "maxLen": 8}
    assert columns["id"] == {"colId": 0, "distinctCount": 3, "min": "1", "max": "3", "nullCount": 0, **lengths}
    assert columns["s"] == {"colId": 1, "distinctCount": 2, "nullCount": 1, "avgLen": 6, "maxLen": 9}
    assert (columns["d"]["min"], columns["d"]["max"], columns["d"]["nullCount"]) == ("-1", "20455", 1)
    assert (columns["t"]["min"], columns["t"]["distinctCount"]) == ("2026-01-02 03:04:05.600000", 1)
    assert (columns["n"]["min"], columns["n"]["max"]) == ("-2.25", "1.50")
    assert "nested" not in columns
    table.upsert(_ROWS)
    assert catalog.get_table("db.t$statistics").scan().to_arrow().num_rows == 1


def test_nan_is_the_greatest_value(catalog: Catalog) -> None:
    rows = pa.table({"one": pa.array([float("nan"), 1.5, None], pa.float32()), "all": [float("nan")] * 3})
    table = catalog.create_table_as("db.t", rows)
    for _ in range(2):
        made = table.maintenance.analyze()
        assert made is not None
        one, every = made.columns["one"], made.columns["all"]
        assert (one.least, str(one.greatest), str(every.least), str(every.greatest)) == (1.5, "nan", "nan", "nan")
        table.append([{"one": 2.5}])
    (shown,) = catalog.get_table("db.t$statistics").scan().to_arrow().to_pylist()
    columns = json.loads(shown["colstat"])
    assert (columns["one"]["min"], columns["one"]["max"]) == ("1.5", "NaN")


def test_distinct_values_are_estimated(catalog: Catalog) -> None:
    rows = pa.table({"few": [i % 100 for i in range(50_000)], "many": range(50_000), "text": map(str, range(50_000))})

    made = catalog.create_table_as("db.t", rows).maintenance.analyze()

    assert made is not None
    assert made.columns["few"].distinct == pytest.approx(100, rel=0.03)
    assert made.columns["many"].distinct == pytest.approx(50_000, rel=0.03)
    assert made.columns["text"].distinct == pytest.approx(50_000, rel=0.03)


def test_only_the_requested_columns_are_analyzed(catalog: Catalog) -> None:
    table = catalog.create_table_as("db.t", _ROWS)

    counted = table.maintenance.analyze([])

    assert counted is not None
    assert (counted.row_count, counted.columns) == (3, {})
    with pytest.raises(InvalidInputError, match="no column 'x'"):
        table.maintenance.analyze(["x"])
    with pytest.raises(NotSupportedError, match="nested"):
        table.maintenance.analyze(["nested"])
    assert catalog.create_table("db.empty", _ROWS.schema).maintenance.analyze() is None
