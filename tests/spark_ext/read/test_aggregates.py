"""COUNT, MIN and MAX from metadata equal those of Spark, without reading a file."""

from collections.abc import Callable
from datetime import date
from decimal import Decimal

import pyarrow as pa
import pytest

from interbed import load_catalog
from interbed.storage.table.table import Table
from tests.spark_ext.conftest import SparkLake

SCHEMA = pa.schema(
    (
        pa.field("id", pa.int64(), nullable=False),
        pa.field("p", pa.string()),
        pa.field("n", pa.int32()),
        pa.field("d", pa.decimal128(20, 2)),
        pa.field("day", pa.date32()),
        pa.field("x", pa.float64()),
        pa.field("s", pa.string()),
    )
)
ROWS = pa.table(
    {
        "id": [1, 2, 3, 4],
        "p": ["a", "b", "b", None],
        "n": [5, None, -7, 1],
        "d": [Decimal("1.50"), None, None, Decimal("-2.25")],
        "day": [date(1900, 1, 1), date(2024, 2, 29), None, None],
        "x": [1.0, float("nan"), -0.0, None],
        "s": ["x", None, "y" * 40, "z"],
    },
    schema=SCHEMA,
)
FROM_METADATA = "LocalTableScan"


@pytest.fixture
def create(lake: SparkLake) -> Callable[..., Table]:
    """Factory of tables with SCHEMA in `db`."""
    catalog = load_catalog(warehouse=str(lake.warehouse))
    return lambda name, **arguments: catalog.create_table(f"db.{name}", SCHEMA, **arguments)


def test_aggregates_equal_those_of_the_rows(lake: SparkLake, create: Callable[..., Table]) -> None:
    create("t", partition_keys=["p"]).append(ROWS)
    asked = "count(*), count(n), min(n), max(n), min(d), max(d), min(day), max(day), count(s), min(p), max(p)"
    statement = f"SELECT {asked} FROM {{lake}}.db.t"

    assert FROM_METADATA in lake.plan(statement)
    read = lake.frame("SELECT * FROM {lake}.db.t").localCheckpoint().selectExpr(*asked.split(", ")).collect()
    assert lake.tuples(statement) == [tuple(row) for row in read]
    by_partition = "SELECT p, count(*), max(n) FROM {lake}.db.t WHERE p > 'a' OR p IS NULL GROUP BY p"
    assert FROM_METADATA in lake.plan(by_partition)
    assert sorted(lake.tuples(by_partition), key=str) == [("b", 2, -7), (None, 1, 1)]


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT count(*) FROM {lake}.db.t WHERE n > 0",
        "SELECT max(x) FROM {lake}.db.t",
        "SELECT max(s) FROM {lake}.db.t",
        "SELECT count(DISTINCT n) FROM {lake}.db.t",
        "SELECT n, count(*) FROM {lake}.db.t GROUP BY n",
        "SELECT sum(n) FROM {lake}.db.t",
    ],
)
def test_aggregates_without_metadata_are_read_from_files(
    lake: SparkLake, create: Callable[..., Table], statement: str
) -> None:
    create("t", partition_keys=["p"]).append(ROWS)

    assert FROM_METADATA not in lake.plan(statement)


def test_a_compacted_primary_key_table_is_counted_by_metadata(lake: SparkLake, create: Callable[..., Table]) -> None:
    table = create("t", primary_keys=["id"], options={"bucket": "1", "write-only": "true"})
    table.upsert(ROWS)
    table.upsert(ROWS)
    statement = "SELECT count(*), max(id) FROM {lake}.db.t"
    assert FROM_METADATA not in lake.plan(statement)
    assert lake.tuples(statement) == [(4, 4)]

    table.compact(full=True)

    assert FROM_METADATA in lake.plan(statement)
    assert lake.tuples(statement) == [(4, 4)]
    assert lake.tuples("SELECT count(*) FROM {lake}.db.t VERSION AS OF 1") == [(4,)]


def test_a_few_upserted_rows_are_counted_without_a_job(lake: SparkLake, create: Callable[..., Table]) -> None:
    table = create("t", primary_keys=["id"], options={"bucket": "2", "write-only": "true"})
    table.upsert(ROWS)
    table.upsert(ROWS.slice(0, 2))
    table.delete("id = 2")

    assert FROM_METADATA in lake.plan("SELECT count(*) FROM {lake}.db.t")
    assert lake.tuples("SELECT count(*), count(*) + 1 FROM {lake}.db.t") == [(3, 4)]
    assert lake.tuples("SELECT count(*) FROM {lake}.db.t VERSION AS OF 2") == [(4,)]
    assert lake.tuples("SELECT count(*) FROM {lake}.db.t WHERE n IS NULL") == [(0,)]
    assert lake.tuples("SELECT count(*) FROM (SELECT * FROM {lake}.db.t LIMIT 2)") == [(2,)]


@pytest.mark.parametrize("option", [{"merge-engine": "partial-update"}, {"sequence.field": "n"}])
def test_rows_of_other_merge_engines_and_sort_orders_are_counted_by_a_job(
    lake: SparkLake, create: Callable[..., Table], option: dict[str, str]
) -> None:
    table = create("t", primary_keys=["id"], options={"bucket": "1", "write-only": "true", **option})
    table.upsert(ROWS)
    table.upsert(ROWS)
    statement = "SELECT count(*) FROM {lake}.db.t"

    assert FROM_METADATA not in lake.plan(statement)
    assert lake.tuples(statement) == [(4,)]
