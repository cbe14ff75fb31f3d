"""What the catalog knows, in SQL: system tables, descriptions, statistics, properties of databases."""

from collections.abc import Callable

from pyspark.sql import SparkSession

from tests.spark_ext.conftest import Lake
from tests.support.pages import Page
from tests.support.sql_script import run_script

_SYSTEM_TABLES = """
CREATE TABLE {lake}.db.t (id INT, p STRING) PARTITIONED BY (p);
INSERT INTO {lake}.db.t VALUES (1, 'a'), (2, 'b'), (3, 'b');
USE {lake}.sys;
SHOW TABLES LIKE 't*';
-- sys, tables, false
SELECT table_name FROM tables WHERE record_count = 3 AND NOT primary_key;
-- t
SELECT count(*), max(record_count), min(partition_name) FROM {lake}.sys.partitions;
-- 2, 2, p=a
SELECT o.key FROM {lake}.sys.all_table_options o JOIN {lake}.sys.tables t USING (table_name) WHERE t.partitioned;
-- path
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
SHOW TBLPROPERTIES {lake}.shop.t (comment);
-- comment, of things
DESCRIBE {lake}.shop.t id;
-- col_name, id
-- data_type, int
-- comment, the id
SHOW COLUMNS IN {lake}.shop.t;
-- id
-- s
COMMENT ON TABLE {lake}.shop.t IS NULL;
SHOW TBLPROPERTIES {lake}.shop.t (comment);
-- ...
DESCRIBE NAMESPACE {lake}.shop;
-- Catalog Name, ...
-- Namespace Name, shop
-- Comment, what we sold
-- Location, ...shop.db
"""


def test_namespaces_and_tables_have_comments_and_properties(new_lake: Callable[[], Lake]) -> None:
    assert run_script(_NAMESPACES, new_lake().sql) > 15


def test_the_catalogs_system_tables_are_read_and_not_changed(lake: Lake) -> None:
    assert run_script(_SYSTEM_TABLES, lake.sql) > 10


def test_the_page_on_metadata_is_true(new_lake: Callable[[], Lake], spark: SparkSession) -> None:
    lake = new_lake()
    spark.sql(f"CREATE DATABASE {lake.name}.shop")
    assert Page("spark-metadata.md").run_sql(lambda sql: lake.sql(sql.replace("lake.", f"{lake.name}."))) > 5
