"""Joins that use the layout of tables: without a shuffle, and with files pruned at run time."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
import pytest

from interbed import load_catalog
from tests.spark_ext.conftest import SparkLake

SCHEMA = pa.schema((pa.field("id", pa.int64(), nullable=False), pa.field("p", pa.int32()), pa.field("v", pa.string())))
ROWS = pa.table(
    {"id": range(200), "p": [i % 5 for i in range(200)], "v": [f"v{i % 7}" for i in range(200)]}, schema=SCHEMA
)


@contextmanager
def _settings(lake: SparkLake, **values: str) -> Iterator[None]:
    names = {name.replace("__", "."): value for name, value in values.items()}
    for name, value in names.items():
        lake.spark.conf.set(name, value)
    try:
        yield
    finally:
        for name in names:
            lake.spark.conf.unset(name)


NO_BROADCAST = {"spark__sql__autoBroadcastJoinThreshold": "-1", "spark__sql__adaptive__enabled": "false"}


@pytest.fixture
def two_tables(lake: SparkLake) -> SparkLake:
    """The tables a and b with four buckets of their key, and the tables c and d with partitions and buckets."""
    catalog = load_catalog(warehouse=str(lake.warehouse))
    for name in ("a", "b"):
        table = catalog.create_table(f"db.{name}", SCHEMA, primary_keys=["id"], options={"bucket": "4"})
        table.upsert(ROWS)
        table.upsert(ROWS.slice(50, 20 if name == "a" else 100))
    for name in ("c", "d"):
        table = catalog.create_table(
            f"db.{name}", SCHEMA, primary_keys=["p", "id"], partition_keys=["p"], options={"bucket": "2"}
        )
        table.upsert(ROWS if name == "c" else ROWS.slice(0, 150))
    return lake


def test_tables_with_the_same_buckets_are_joined_without_a_shuffle(two_tables: SparkLake) -> None:
    lake = two_tables
    joined = "SELECT x.id, y.v FROM {lake}.db.a x JOIN {lake}.db.b y ON x.id = y.id"
    with _settings(lake, **NO_BROADCAST):
        assert "Exchange" not in lake.plan(joined)
        assert sorted(lake.tuples(joined)) == [(i, f"v{i % 7}") for i in range(200)]
        with _settings(lake, spark__sql__sources__v2__bucketing__enabled="false"):
            assert "Exchange" in lake.plan(joined)


def test_partitions_and_buckets_together_are_joined_without_a_shuffle(two_tables: SparkLake) -> None:
    lake = two_tables
    joined = "SELECT x.id FROM {lake}.db.c x {how} JOIN {lake}.db.d y ON x.p = y.p AND x.id = y.id"
    expected = {"": list(range(150)), "LEFT": list(range(200))}
    with _settings(lake, **NO_BROADCAST):
        for how, ids in expected.items():
            assert "Exchange" not in lake.plan(joined.replace("{how}", how))
            assert sorted(row[0] for row in lake.tuples(joined.replace("{how}", how))) == ids
        with _settings(lake, spark__sql__sources__v2__bucketing__partiallyClusteredDistribution__enabled="true"):
            assert sorted(row[0] for row in lake.tuples(joined.replace("{how}", "LEFT"))) == expected["LEFT"]


def test_partitions_excluded_by_a_join_are_not_read(two_tables: SparkLake) -> None:
    lake = two_tables
    lake.sql("CREATE TABLE {lake}.db.few (k INT, name STRING)")
    lake.sql("INSERT INTO {lake}.db.few VALUES (3, 'three'), (4, 'four')")
    joined = "SELECT c.id FROM {lake}.db.c c JOIN {lake}.db.few f ON c.p = f.k WHERE f.name = 'three'"
    with _settings(lake, spark__sql__optimizer__dynamicPartitionPruning__reuseBroadcastOnly="false"):
        assert re.search(r"RuntimeFilters: \[dynamicpruning", lake.plan(joined))
        frame = lake.frame(joined)
        assert sorted(row[0] for row in frame.collect()) == list(range(3, 200, 5))
        scans = frame._jdf.queryExecution().executedPlan().toString()
        assert "db.c" in scans


@pytest.mark.parametrize(("rows", "filters"), [(40_000, 1), (10, 0)])
def test_runtime_filters_of_a_join_prune_files_of_large_scans(lake: SparkLake, rows: int, filters: int) -> None:
    catalog = load_catalog(warehouse=str(lake.warehouse))
    fields = (pa.field("a", pa.int64(), False), pa.field("b", pa.int64(), False), pa.field("v", pa.binary()))
    schema = pa.schema(fields)
    options = {"bucket": "2", "file.compression": "none", "parquet.enable.dictionary": "false"}
    table = catalog.create_table("db.keyed", schema, primary_keys=["a", "b"], options=options)
    table.upsert(pa.table({"a": range(rows), "b": range(rows), "v": [bytes(1_000)] * rows}, schema=schema))
    catalog.create_table_as("db.few", pa.table({"k": [7], "l": [7], "name": ["x"]}))
    joined = "SELECT t.b FROM {lake}.db.keyed t JOIN {lake}.db.few f ON t.a = f.k AND t.b = f.l WHERE f.name = 'x'"
    with _settings(lake, spark__sql__optimizer__dynamicPartitionPruning__reuseBroadcastOnly="false"):
        found = re.search(r"keyed.*RuntimeFilters: \[(.*?)\]", lake.plan(joined))
        assert found is not None
        assert found.group(1).count("dynamicpruningexpression") == filters
        assert lake.tuples(joined) == [(7,)]


def test_windows_are_right_where_spark_takes_some_of_the_keys_for_all(lake: SparkLake) -> None:
    lake.sql(
        "CREATE TABLE {lake}.db.w (id INT, p INT) PARTITIONED BY (p) "
        "TBLPROPERTIES ('bucket' = '3', 'bucket-key' = 'id')"
    )
    lake.sql("INSERT INTO {lake}.db.w SELECT id, id % 2 FROM range(20)")
    setting = "spark.sql.sources.v2.bucketing.allowJoinKeysSubsetOfPartitionKeys.enabled"
    for value in ("true", "false"):
        lake.spark.conf.set(setting, value)
        found = lake.tuples("SELECT DISTINCT p, count(*) OVER (PARTITION BY p) FROM {lake}.db.w")
        lake.spark.conf.unset(setting)
        assert sorted(found) == [(0, 10), (1, 10)]
