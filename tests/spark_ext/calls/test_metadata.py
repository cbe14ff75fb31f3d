"""Metadata of the catalog in SQL: system tables, descriptions, statistics, properties of databases."""

import re
from collections.abc import Callable

from pyspark.sql import SparkSession

from tests.spark_ext.conftest import SparkLake
from tests.support.pages import Page
from tests.support.sql_script import run_script

_SYSTEM_TABLES = """
CREATE TABLE {lake}.db.t (id INT, p STRING) PARTITIONED BY (p);
INSERT INTO {lake}.db.t VALUES (1, 'a'), (2, 'b'), (3, 'b');
USE {lake}.sys;
SHOW TABLES LIKE 't*';
-- sys, table_health, false
-- sys, tables, false
SELECT table_name FROM tables WHERE record_count = 3 AND NOT primary_key;
-- t
SELECT count(*), max(record_count), min(partition_name) FROM {lake}.sys.partitions;
-- 2, 2, p=a
SELECT o.key FROM {lake}.sys.all_table_options o JOIN {lake}.sys.tables t USING (table_name) WHERE t.partitioned;
-- path
SELECT score, reasons, read_amplification, runs_max, files, small_files, delete_ratio, vector_files, snapshot_id,
       last_full_compaction FROM table_health WHERE table_name = 't';
-- 100, , 1.0, 1, 2, 2, 0.0, 0, 1, null
DESCRIBE {lake}.sys.catalog_options;
-- key, string, null
-- value, string, null
SELECT * FROM {lake}.sys.nothing;
-- ! cannot be found
DROP TABLE {lake}.sys.tables;
-- ! read only
CREATE TABLE {lake}.sys.mine (id INT);
-- ! read only
ALTER TABLE {lake}.sys.tables ADD COLUMN c INT;
-- ! read only
INSERT INTO {lake}.sys.tables SELECT * FROM {lake}.sys.tables;
-- ! read only
CREATE DATABASE {lake}.sys;
-- ! already exists
DROP DATABASE {lake}.sys CASCADE;
-- ! can't be created, changed or dropped
"""

_NAMESPACES = """
CREATE DATABASE {lake}.shop COMMENT 'what we sell' WITH DBPROPERTIES (team = 'sales', floor = '1');
ALTER DATABASE {lake}.shop SET DBPROPERTIES (team = 'marketing');
ALTER NAMESPACE {lake}.shop UNSET PROPERTIES (floor);
DESCRIBE NAMESPACE EXTENDED {lake}.shop;
-- Catalog Name, ...
-- Namespace Name, shop
-- Comment, what we sell
-- Location, ...shop.db
-- Properties, ((team,marketing))
COMMENT ON NAMESPACE {lake}.shop IS 'what we sold';
ALTER DATABASE {lake}.shop SET LOCATION '/elsewhere';
-- ! can't be changed
CREATE TABLE {lake}.shop.t (id INT, s STRUCT<a: INT>) COMMENT 'a table';
COMMENT ON TABLE {lake}.shop.t IS 'of things';
ALTER TABLE {lake}.shop.t ALTER COLUMN id COMMENT 'the id';
ALTER TABLE {lake}.shop.t ALTER COLUMN s.a COMMENT 'the part';
SHOW CREATE TABLE {lake}.shop.t;
-- CREATE TABLE ...COMMENT 'the id'...COMMENT 'the part'...COMMENT 'of things'...
DESCRIBE {lake}.shop.t id;
-- col_name, id
-- data_type, int
-- comment, the id
SHOW COLUMNS IN {lake}.shop.t;
-- id
-- s
COMMENT ON TABLE {lake}.shop.t IS NULL;
DESCRIBE NAMESPACE {lake}.shop;
-- Catalog Name, ...
-- Namespace Name, shop
-- Comment, what we sold
-- Location, ...shop.db
"""


def test_namespaces_and_tables_have_comments_and_properties(new_lake: Callable[[], SparkLake]) -> None:
    assert run_script(_NAMESPACES, new_lake().sql) > 10


def test_system_tables_of_the_catalog_are_read_only(lake: SparkLake) -> None:
    assert run_script(_SYSTEM_TABLES, lake.sql) > 10


def test_the_page_on_metadata_runs_as_written(new_lake: Callable[[], SparkLake], spark: SparkSession) -> None:
    lake = new_lake()
    spark.sql(f"CREATE DATABASE {lake.name}.shop")
    assert Page("spark-metadata.md").run_sql(lambda sql: lake.sql(sql.replace("lake.", f"{lake.name}."))) > 5


def _cost(lake: SparkLake, query: str) -> str:
    """Return the optimized plan with the estimates of each operator."""
    return str(lake.sql(f"EXPLAIN COST {query}")[0][0]).partition("== Physical Plan ==")[0]


def test_statistics_of_analyze_reach_the_optimizer(lake: SparkLake) -> None:
    lake.sql("CREATE TABLE {lake}.db.big (id BIGINT, k INT, d DOUBLE, t TIMESTAMP, name STRING)")
    lake.sql(
        "INSERT INTO {lake}.db.big "
        "SELECT id, int(id % 10), id / 4, timestamp_seconds(id), repeat('x', 100) FROM range(2000)"
    )
    lake.sql("CREATE TABLE {lake}.db.small AS SELECT int(id) AS k, string(id) AS word FROM range(10)")
    joined = "SELECT b.name FROM {lake}.db.big b JOIN {lake}.db.small s ON b.k = s.k WHERE b.id < 20"
    lake.spark.conf.set("spark.sql.cbo.enabled", "true")
    lake.spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "5000")
    try:
        # Bounds of the files suffice for filters that compare.
        assert re.search(r"Filter.* Statistics\(sizeInBytes=.*rowCount=2[012]\)", _cost(lake, joined))
        for table in ("big", "small"):
            lake.sql(f"ANALYZE TABLE {{lake}}.db.{table} COMPUTE STATISTICS FOR ALL COLUMNS")
        cost = _cost(lake, "SELECT k, count(*) FROM {lake}.db.big GROUP BY k")
        assert re.search(r"Aggregate.* Statistics\(.*rowCount=(9|10|11)\)", cost)
        assert re.search(r"Join.* Statistics\(.*rowCount=(1\d|2\d)\)", _cost(lake, joined))
        assert "sizeInBytes=31.3 KiB, rowCount=2.00E+3" in _cost(lake, "SELECT id FROM {lake}.db.big")
        # The whole large table is too large for a broadcast, twenty rows of it are not.
        narrow = "SELECT * FROM {lake}.db.big a JOIN {lake}.db.big b ON a.id = b.k"
        assert "BroadcastHashJoin" not in lake.plan(narrow)
        assert "BroadcastHashJoin" in lake.plan(f"{narrow} WHERE b.d < 5")
    finally:
        lake.spark.conf.unset("spark.sql.cbo.enabled")
        lake.spark.conf.unset("spark.sql.autoBroadcastJoinThreshold")
