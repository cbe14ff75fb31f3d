"""CREATE TABLE … AS SELECT, REPLACE TABLE and CREATE OR REPLACE TABLE are atomic."""

import pytest

from tests.spark_ext.conftest import SparkLake
from tests.support.sql_script import run_script

_SCRIPT = """
CREATE TABLE {lake}.db.src (id INT, name STRING, dt STRING);
INSERT INTO {lake}.db.src VALUES (1, 'a', 'x'), (2, 'b', 'y'), (3, 'c', 'y');

CREATE TABLE {lake}.db.t TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '2') COMMENT 'made' AS
  SELECT id, name FROM {lake}.db.src WHERE id < 3;
SELECT * FROM {lake}.db.t ORDER BY id;
-- 1, a
-- 2, b
CREATE TABLE {lake}.db.t AS SELECT 1 AS one;
-- ! already exists
CREATE TABLE IF NOT EXISTS {lake}.db.t AS SELECT 1 AS one;
SELECT count(*) FROM {lake}.db.t;
-- 2

REPLACE TABLE {lake}.db.t TBLPROPERTIES ('bucket' = '-1') AS SELECT name, id * 10L AS id FROM {lake}.db.t;
SELECT * FROM {lake}.db.t ORDER BY id;
-- a, 10
-- b, 20
SELECT * FROM {lake}.db.t VERSION AS OF 1 ORDER BY id;
-- 1, a
-- 2, b
INSERT INTO {lake}.db.t VALUES ('c', 30);
SELECT count(*) FROM {lake}.db.t;
-- 3
CREATE OR REPLACE TABLE {lake}.db.t (only DOUBLE);
SELECT * FROM {lake}.db.t;
-- (nothing)
CREATE OR REPLACE TABLE {lake}.db.fresh PARTITIONED BY (dt) AS SELECT * FROM {lake}.db.src;
SELECT id, dt FROM {lake}.db.fresh ORDER BY id;
-- 1, x
-- 2, y
-- 3, y
CREATE OR REPLACE TABLE {lake}.db.fresh PARTITIONED BY (dt) AS SELECT * FROM {lake}.db.src WHERE dt = 'x';
SELECT id, dt FROM {lake}.db.fresh ORDER BY id;
-- 1, x
REPLACE TABLE {lake}.db.fresh AS SELECT 1 AS one;
-- ! keeps the partition columns (dt)
REPLACE TABLE {lake}.db.missing AS SELECT 1 AS one;
-- ! cannot be found
CREATE TABLE {lake}.db.empty AS SELECT id FROM {lake}.db.src WHERE id > 5;
SELECT * FROM {lake}.db.empty;
-- (nothing)

CREATE TABLE {lake}.db.failed AS SELECT CAST(raise_error('halfway') AS INT) AS x FROM {lake}.db.src;
-- ! halfway
SELECT * FROM {lake}.db.failed;
-- ! cannot be found
REPLACE TABLE {lake}.db.fresh PARTITIONED BY (dt) AS
  SELECT CAST(raise_error('halfway') AS INT) AS x, dt FROM {lake}.db.src;
-- ! halfway
SELECT id, dt FROM {lake}.db.fresh ORDER BY id;
-- 1, x

DROP TABLE {lake}.db.empty PURGE;
DROP TABLE IF EXISTS {lake}.db.empty;
DROP TABLE {lake}.db.empty;
-- ! cannot be found
SHOW TABLES IN {lake}.db;
-- db, fresh, false
-- db, src, false
-- db, t, false
"""


def test_tables_are_created_and_replaced_with_their_rows(lake: SparkLake) -> None:
    assert run_script(_SCRIPT, lake.sql) > 20
    assert not (lake.warehouse / "db.db" / "failed").exists()


def test_data_frames_create_and_replace(lake: SparkLake) -> None:
    rows = lake.spark.range(3)

    rows.writeTo(f"{lake.name}.db.t").tableProperty("file.format", "orc").create()
    rows.selectExpr("id AS n", "'x' AS s").writeTo(f"{lake.name}.db.t").createOrReplace()

    assert lake.tuples("SELECT * FROM {lake}.db.t ORDER BY n") == [(0, "x"), (1, "x"), (2, "x")]
    rows.write.mode("overwrite").saveAsTable(f"{lake.name}.db.t")
    assert lake.tuples("SELECT sum(id) FROM {lake}.db.t") == [(3,)]
    with pytest.raises(Exception, match="already exists"):
        rows.writeTo(f"{lake.name}.db.t").create()
