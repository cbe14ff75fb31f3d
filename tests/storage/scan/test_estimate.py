"""Estimates of scans for query optimizers."""

from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest

from interbed import load_catalog
from interbed.storage.base.predicate.expr import Comparison, Op, Predicate
from interbed.storage.scan.summary.estimate import ColumnEstimate, ScanEstimate, estimate_scan, read_statistics
from interbed.storage.table.table import Table

ROWS = pa.table(
    {
        "id": pa.array(range(1000), pa.int64()),
        "day": [date(2026, 1, 1 + i % 10) for i in range(1000)],
        "text": [None if i % 4 == 0 else "abcdef" for i in range(1000)],
        "p": ["x" if i < 250 else "y" for i in range(1000)],
    }
)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """An append table with ROWS, partitioned by `p`."""
    catalog = load_catalog(warehouse=str(tmp_path))
    catalog.create_database("db")
    made = catalog.create_table("db.t", ROWS.schema, partition_keys=["p"])
    made.append(ROWS)
    return made


def estimate(table: Table, columns: list[str], where: Predicate | None = None, **more: bool) -> ScanEstimate:
    snapshot = table.latest_snapshot()
    assert snapshot is not None
    return estimate_scan(
        table.store,
        table.new_scan(predicate=where).plan(),
        [f for f in table.fields if f.name in columns],
        snapshot=snapshot,
        statistics=read_statistics(table.store, snapshot),
        **more,
    )


def test_fewer_columns_mean_fewer_bytes(table: Table) -> None:
    whole, narrow = estimate(table, table.field_names), estimate(table, ["id"])

    assert whole.row_count == narrow.row_count == 1000
    assert narrow.byte_size == 1000 * 16
    assert whole.byte_size > 2 * narrow.byte_size


def test_statistics_of_partition_columns_follow_from_the_plan(table: Table) -> None:
    assert estimate(table, ["p"]).columns["p"] == ColumnEstimate(distinct=2, nulls=0)
    assert estimate(table, ["p"], Comparison(Op.EQ, "p", "x")).row_count == 250


def test_bounds_and_null_counts_are_read_from_files_on_request(table: Table) -> None:
    found = estimate(table, ["id", "text"], files_too=True).columns

    assert found["id"] == ColumnEstimate(distinct=1000, nulls=0, least=0, greatest=999)
    assert found["text"] == ColumnEstimate(nulls=250)
    assert estimate(table, ["id"]).columns == {}


def test_analyze_adds_distinct_counts_and_lengths_which_pruning_scales(table: Table) -> None:
    table.maintenance.analyze()
    found = estimate(table, ["day", "text"])

    assert found.columns["day"] == ColumnEstimate(
        distinct=10, nulls=0, least=date(2026, 1, 1), greatest=date(2026, 1, 10), average_length=4, maximal_length=4
    )
    assert (found.columns["text"].nulls, found.columns["text"].average_length) == (250, 6)
    half = estimate(table, ["id", "day", "text"], Comparison(Op.LT, "id", 20), files_too=True)
    assert half.row_count == 250
    assert (half.columns["id"].distinct, half.columns["id"].greatest) == (250, 249)
    assert half.columns["day"].distinct == 10
    assert half.columns["text"].nulls == 62


def test_updated_keys_are_counted_once_after_analyze(tmp_path: Path) -> None:
    catalog = load_catalog(warehouse=str(tmp_path))
    catalog.create_database("db")
    table = catalog.create_table("db.t", ROWS.schema, primary_keys=["id"], options={"bucket": 1, "write-only": True})
    for _ in range(2):
        table.upsert(ROWS)
    assert estimate(table, ["id"]).row_count == 2000
    table.maintenance.analyze(["id"])
    assert estimate(table, ["id"]).row_count == 1000
