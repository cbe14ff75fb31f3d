"""Views in Spark SQL, which are stored in a metastore."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark_ext.conftest import SparkLake
from tests.support.pages import Page
from tests.support.servers.metastore import metastore
from tests.support.sql_script import run_script

_SCRIPT = """
CREATE TABLE {lake}.db.t (id INT, name STRING);
INSERT INTO {lake}.db.t VALUES (1, 'a'), (2, 'b'), (3, 'c');
CREATE TABLE {lake}.other.t AS SELECT 9 AS id, 'other' AS name;

CREATE VIEW {lake}.db.v (key COMMENT 'the key', word) COMMENT 'some' TBLPROPERTIES ('a' = 'b')
  AS SELECT id, name FROM t WHERE id > 1;
SELECT * FROM {lake}.db.v ORDER BY key;
-- 2, b
-- 3, c
SELECT v.word, t.id FROM {lake}.db.v JOIN {lake}.db.v AS w ON v.key = w.key JOIN {lake}.other.t ORDER BY word;
-- b, 9
-- c, 9
CREATE VIEW {lake}.db.v AS SELECT 1 AS one;
-- ! already
CREATE VIEW {lake}.db.t AS SELECT 1 AS one;
-- ! already
CREATE VIEW IF NOT EXISTS {lake}.db.v AS SELECT 1 AS one;
CREATE VIEW {lake}.other.nested AS
  WITH t AS (SELECT 7 AS id) SELECT count(*) AS n, max((SELECT id FROM t)) AS m FROM db.v;
SELECT * FROM {lake}.other.nested;
-- 2, 7
WITH v AS (SELECT 5 AS five) SELECT * FROM v, {lake}.other.nested;
-- 5, 2, 7
CREATE OR REPLACE VIEW {lake}.db.v AS SELECT * FROM {lake}.other.nested;
-- ! made of itself
CREATE VIEW {lake}.db.wrong AS SELECT * FROM nowhere;
-- ! cannot be found

DESCRIBE {lake}.db.v;
-- key, int, the key
-- word, string, null
DESCRIBE EXTENDED {lake}.db.v;
SHOW CREATE TABLE {lake}.db.v;
-- CREATE VIEW ...COMMENT 'the key'...COMMENT 'some'...'a' = 'b'...AS SELECT id, name FROM t WHERE id > 1...
SHOW VIEWS IN {lake}.db;
-- db, v, false
SHOW VIEWS IN {lake}.other LIKE 'nes*';
-- other, nested, false
SHOW TABLES IN {lake}.db;
-- db, t, false

ALTER VIEW {lake}.db.v SET TBLPROPERTIES ('c' = 'd');
ALTER VIEW {lake}.db.v UNSET TBLPROPERTIES ('a');
ALTER VIEW {lake}.db.v AS SELECT * FROM t;
SELECT * FROM {lake}.db.v WHERE id = 1;
-- 1, a
ALTER TABLE {lake}.db.t ADD COLUMN more INT;
SELECT * FROM {lake}.db.v WHERE id = 1;
-- 1, a
CALL {lake}.sys.alter_view_dialect('db.v', 'update', 'spark', 'SELECT id, upper(name) AS name FROM t');
-- true
SELECT name FROM {lake}.db.v WHERE id = 1;
-- A
CALL {lake}.sys.alter_view_dialect(view => 'db.v', action => 'add', query => 'SELECT 1');
-- ! 'update' replaces it
CALL {lake}.sys.alter_view_dialect('db.v', 'update', 'flink', 'SELECT 1');
-- ! no place for one of 'flink'
CALL {lake}.sys.alter_view_dialect('db.t', 'update', 'spark', 'SELECT 1');
-- ! no view
ALTER VIEW {lake}.db.v RENAME TO {lake}.db.w;
SELECT count(*) FROM {lake}.db.w;
-- 3
SELECT count(*) FROM {lake}.db.v;
-- ! cannot be found
CREATE OR REPLACE VIEW {lake}.db.w AS SELECT id FROM t VERSION AS OF 1 ORDER BY 1 DESC LIMIT 1;
SELECT * FROM {lake}.db.w;
-- 3
INSERT INTO {lake}.db.w VALUES (1);
-- ! cannot be found
DROP VIEW {lake}.db.w;
DROP VIEW IF EXISTS {lake}.db.w;
DROP VIEW {lake}.db.w;
-- ! no view
ANALYZE TABLE {lake}.db.t COMPUTE STATISTICS;
SELECT mergedRecordCount, colstat FROM {lake}.db.`t$statistics`;
-- 3, {}
ANALYZE TABLE {lake}.db.t COMPUTE STATISTICS FOR COLUMNS ID, name;
SELECT get_json_object(colstat, '$.id.max'), get_json_object(colstat, '$.more') FROM {lake}.db.`t$statistics`;
-- 3, null
ANALYZE TABLE {lake}.db.t COMPUTE STATISTICS FOR COLUMNS nowhere;
-- ! no column 'nowhere'
ANALYZE TABLE {lake}.db.t COMPUTE STATISTICS FOR ALL COLUMNS;
SELECT get_json_object(colstat, '$.more.nullCount') FROM {lake}.db.`t$statistics`;
-- 3
DESCRIBE {lake}.db.t;
-- id, int, null
-- name, string, null
-- more, int, null
SHOW CATALOGS LIKE 'interbed_system';
-- (nothing)
"""


@pytest.fixture(scope="module")
def uri() -> Iterator[str]:
    """Address of a metastore."""
    with metastore() as running:
        yield running


@pytest.fixture
def hive_lake(spark: SparkSession, uri: str, tmp_path: Path) -> Iterator[SparkLake]:
    """A catalog over the metastore, with the databases `db` and `other`, which are empty."""
    lake = SparkLake(spark, "lake", tmp_path / "lake")
    lake.sql(
        "CREATE CATALOG {lake} WITH ('type' = 'interbed', 'metastore' = 'hive', "
        f"'uri' = '{uri}', 'warehouse' = 'file:{lake.warehouse}')"
    )
    lake.sql("CREATE DATABASE {lake}.db")
    lake.sql("CREATE DATABASE {lake}.other")
    yield lake
    spark.sql("USE spark_catalog")
    for database in lake.tuples("SHOW DATABASES IN {lake}"):
        if database != ("default",):
            lake.sql(f"DROP DATABASE {{lake}}.`{database[0]}` CASCADE")
    spark.sql("DROP CATALOG lake")


def test_views_are_created_used_altered_and_dropped(hive_lake: SparkLake) -> None:
    assert run_script(_SCRIPT, hive_lake.sql) > 20
    hive_lake.sql("USE {lake}.db")
    hive_lake.sql("CREATE VIEW here AS SELECT max(id) AS id FROM t")
    assert [tuple(row) for row in hive_lake.spark.table("here").collect()] == [(3,)]


@pytest.mark.long
def test_the_page_on_tables_from_queries_and_views_runs_as_written(hive_lake: SparkLake) -> None:
    assert Page("spark-views.md").run_sql(hive_lake.sql) > 10


def test_a_file_system_catalog_has_no_views(lake: SparkLake) -> None:
    with pytest.raises(Exception, match="has no views"):
        lake.sql("CREATE VIEW {lake}.db.v AS SELECT 1 AS one")
    assert lake.sql("SHOW VIEWS IN {lake}.db") == []


_TEMPORARY = """
CREATE TABLE {lake}.db.t (id INT);
INSERT INTO {lake}.db.t VALUES (1);
USE {lake}.db;
CREATE VIEW v AS SELECT * FROM t;
CREATE TEMPORARY VIEW t AS SELECT 100 AS id;
CREATE GLOBAL TEMPORARY VIEW g AS SELECT 100 AS id;
CREATE VIEW w AS SELECT * FROM t;
-- ! `lake`.`db`.`w` of the type VIEW because it references to the temporary object `t` of the type VIEW
CREATE VIEW w AS SELECT * FROM v WHERE id IN (SELECT id FROM t);
-- ! INVALID_TEMP_OBJ_REFERENCE
CREATE VIEW w AS WITH x AS (SELECT * FROM t) SELECT * FROM x;
-- ! INVALID_TEMP_OBJ_REFERENCE
CREATE VIEW w AS SELECT * FROM global_temp.g;
-- ! INVALID_TEMP_OBJ_REFERENCE
CREATE OR REPLACE VIEW v AS SELECT * FROM t;
-- ! INVALID_TEMP_OBJ_REFERENCE
ALTER VIEW v AS SELECT * FROM t;
-- ! INVALID_TEMP_OBJ_REFERENCE
CREATE VIEW w AS SELECT temporary_function('a') AS a;
-- ! `temporary_function` of the type FUNCTION
CREATE VIEW w AS WITH t AS (SELECT 7 AS id) SELECT * FROM t;
SELECT * FROM w;
-- 7
CREATE VIEW u AS SELECT * FROM {lake}.db.t;
SELECT * FROM u;
-- 1
SELECT * FROM v;
-- 1
DROP VIEW t;
DROP VIEW global_temp.g;
"""


def test_a_view_over_temporary_objects_is_refused_as_in_spark(hive_lake: SparkLake) -> None:
    hive_lake.spark.udf.register("temporary_function", lambda text: text)
    try:
        run_script(_TEMPORARY, hive_lake.sql)
    finally:
        hive_lake.sql("DROP TEMPORARY FUNCTION IF EXISTS temporary_function")


@pytest.mark.parametrize(
    ("setting", "made", "read", "query"),
    [
        ("spark.sql.ansi.enabled", "false", "true", "SELECT CAST('x' AS INT) AS a"),
        (
            "spark.sql.session.timeZone",
            "Asia/Tokyo",
            "UTC",
            "SELECT CAST(TIMESTAMP '2020-01-01 00:00:00' AS LONG) AS a",
        ),
        ("spark.sql.ansi.doubleQuotedIdentifiers", "true", "false", 'SELECT "n" AS a FROM (SELECT 1 AS n)'),
        ("spark.sql.parser.escapedStringLiterals", "true", "false", r"SELECT '1' RLIKE '\d' AS a"),
        ("spark.sql.timestampType", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ", "SELECT typeof(to_timestamp('2020-01-01')) AS a"),
    ],
)
def test_a_view_keeps_the_settings_of_the_session_that_made_it(
    hive_lake: SparkLake, setting: str, made: str, read: str, query: str
) -> None:
    conf = hive_lake.spark.conf
    before = str(conf.get(setting))
    try:
        conf.set(setting, made)
        expected = hive_lake.tuples(query)
        hive_lake.sql(f"CREATE VIEW {{lake}}.db.v AS {query}")
        hive_lake.sql("CREATE VIEW {lake}.db.changed AS SELECT 0 AS a")
        hive_lake.sql(f"ALTER VIEW {{lake}}.db.changed AS {query}")
        conf.set(setting, read)
        assert hive_lake.tuples("SELECT * FROM {lake}.db.v") == expected
        assert hive_lake.tuples("SELECT * FROM {lake}.db.changed") == expected
        assert "sqlConfig" not in str(hive_lake.tuples("SHOW CREATE TABLE {lake}.db.v"))
    finally:
        conf.set(setting, before)


_EVOLVED = """
CREATE TABLE {lake}.db.t (a INT, b INT);
INSERT INTO {lake}.db.t VALUES (1, 2);
CREATE VIEW {lake}.db.v TBLPROPERTIES ('p' = 'q') AS SELECT * FROM t;
CREATE VIEW {lake}.db.swapped (b, a) AS SELECT * FROM t;
CREATE VIEW {lake}.db.twice (x, y, z) AS SELECT t.a, t.*  FROM t;
CREATE VIEW {lake}.db.nested AS SELECT v.*, a + 10 * b AS s FROM v;
ALTER TABLE {lake}.db.t ADD COLUMN more INT FIRST;
SELECT a, b FROM {lake}.db.v;
-- 1, 2
SELECT * FROM {lake}.db.v;
-- 1, 2
SELECT * FROM {lake}.db.twice;
-- 1, 1, 2
ALTER TABLE {lake}.db.t ALTER COLUMN b FIRST;
SELECT * FROM {lake}.db.v;
-- 1, 2
SELECT b, a FROM {lake}.db.swapped;
-- 1, 2
SELECT * FROM {lake}.db.nested;
-- 1, 2, 21
ALTER VIEW {lake}.db.v SET TBLPROPERTIES ('r' = 's');
SELECT * FROM {lake}.db.v;
-- 1, 2
SHOW CREATE TABLE {lake}.db.v;
-- CREATE VIEW ...'p' = 'q',...'r' = 's')...
ALTER VIEW {lake}.db.v SET TBLPROPERTIES ('interbed.view.query-columns' = '[]');
-- ! interbed's own
CREATE VIEW {lake}.db.evolving WITH SCHEMA EVOLUTION AS SELECT * FROM t;
-- ! WITH SCHEMA EVOLUTION is not supported
ALTER VIEW {lake}.db.v AS SELECT * FROM t;
SELECT * FROM {lake}.db.v;
-- 2, null, 1
CREATE OR REPLACE VIEW {lake}.db.v AS SELECT a, b FROM t;
ALTER TABLE {lake}.db.t RENAME COLUMN a TO q;
SELECT * FROM {lake}.db.swapped;
-- ! The column b of the view lake.db.swapped is the column a of its query, which returns none of that name by now
ALTER TABLE {lake}.db.t RENAME COLUMN q TO A;
SELECT * FROM {lake}.db.swapped;
-- 1, 2
CALL {lake}.sys.alter_view_dialect('db.v', 'update', 'spark', 'SELECT b, a FROM t');
SELECT * FROM {lake}.db.v;
-- 2, 1
"""


def test_columns_of_a_view_stay_the_ones_of_its_query_when_a_table_changes(hive_lake: SparkLake) -> None:
    run_script(_EVOLVED, hive_lake.sql)


_RETYPED = """
CREATE TABLE {lake}.db.t (id INT, price DECIMAL(5, 2), word STRING, at TIMESTAMP_NTZ, pair STRUCT<x: INT>);
INSERT INTO {lake}.db.t VALUES (1, 1.50, '7', TIMESTAMP_NTZ '2026-01-01 00:00:00', named_struct('x', 1));
CREATE VIEW {lake}.db.v AS SELECT id, price, word, at, pair FROM t;
ALTER TABLE {lake}.db.t ALTER COLUMN id TYPE BIGINT;
ALTER TABLE {lake}.db.t ALTER COLUMN price TYPE DECIMAL(10, 2);
ALTER TABLE {lake}.db.t ADD COLUMN pair.y INT;
SELECT typeof(id), typeof(price), typeof(word), typeof(at) FROM {lake}.db.v;
-- int, decimal(5,2), string, timestamp_ntz
SELECT id, price, word, pair.y FROM {lake}.db.v;
-- 1, 1.50, 7, null
INSERT INTO {lake}.db.t (id, price) VALUES (5000000000, 2);
SELECT id FROM {lake}.db.v;
-- ! overflow
SELECT word FROM {lake}.db.v WHERE price = 1.5;
-- 7
DROP TABLE {lake}.db.t;
CREATE TABLE {lake}.db.t (id STRING, price BOOLEAN, word INT, at DATE, pair INT);
SELECT id FROM {lake}.db.v;
DROP TABLE {lake}.db.t;
CREATE TABLE {lake}.db.t (id DATE, price INT, word INT, at DATE, pair INT);
SELECT id FROM {lake}.db.v;
-- ! returns DATE by now; ALTER VIEW
"""


def test_columns_of_a_view_keep_their_types_when_a_table_changes(hive_lake: SparkLake) -> None:
    run_script(_RETYPED, hive_lake.sql)


def test_columns_of_a_view_keep_the_case_of_their_names(hive_lake: SparkLake) -> None:
    hive_lake.sql("USE {lake}.db")
    hive_lake.sql("CREATE TABLE t (Id INT, Name STRING)")
    hive_lake.sql("CREATE VIEW v (Key COMMENT 'the Key', WORD) AS SELECT Id, Name FROM t")
    hive_lake.sql("CREATE VIEW w AS SELECT * FROM v")

    assert hive_lake.frame("SELECT * FROM v").columns == ["Key", "WORD"]
    assert hive_lake.frame("SELECT * FROM w").columns == ["Key", "WORD"]
    hive_lake.sql("ALTER VIEW v SET TBLPROPERTIES ('a' = 'b')")
    hive_lake.sql("ALTER VIEW v RENAME TO x")
    assert [row[0] for row in hive_lake.tuples("DESCRIBE x")] == ["Key", "WORD"]
    hive_lake.sql("ALTER VIEW x AS SELECT Name, Id AS ID FROM t")
    assert hive_lake.frame("SELECT * FROM x").columns == ["Name", "ID"]


def test_a_default_collation_of_a_view_is_refused(hive_lake: SparkLake) -> None:
    with pytest.raises(Exception, match=r"db\.v would compare texts by their bytes: DEFAULT COLLATION UTF8_LCASE"):
        hive_lake.sql("CREATE VIEW {lake}.db.v DEFAULT COLLATION UTF8_LCASE AS SELECT 'a' = 'A' AS same")
    hive_lake.sql("CREATE VIEW {lake}.db.v DEFAULT COLLATION UTF8_BINARY AS SELECT 'a' = 'A' AS same")
    assert hive_lake.tuples("SELECT * FROM {lake}.db.v") == [(False,)]


_LISTED = """
CREATE TABLE {lake}.db.t (id INT);
CREATE VIEW {lake}.db.v (id COMMENT 'the key') COMMENT 'some' AS SELECT id FROM t;
SHOW COLUMNS IN {lake}.db.v;
-- id
SHOW COLUMNS IN v IN {lake}.db;
-- id
SHOW COLUMNS IN {lake}.db.t;
-- id
SHOW COLUMNS IN {lake}.db.nowhere;
-- ! cannot be found
SHOW TABLE EXTENDED IN {lake}.db LIKE 'v|nothing';
-- db, v, false, ...Type: VIEW...View Text: SELECT id FROM t...|-- id: integer...
SHOW TABLE EXTENDED IN {lake}.db LIKE 't';
-- db, t, false, ...Type: MANAGED...
SHOW TABLES IN {lake}.db;
-- db, t, false
"""


# Spark decodes the rows of its catalog's lists by compiled code only.
@pytest.mark.usefixtures("usual_queries")
def test_views_are_listed_beside_tables(hive_lake: SparkLake) -> None:
    run_script(_LISTED, hive_lake.sql)
    extended = hive_lake.sql("SHOW TABLE EXTENDED IN {lake}.db LIKE '*'")
    # Temporary views of the session are shown, too.
    assert [r.tableName for r in extended if not r.isTemporary] == ["t", "v"]
    catalog = hive_lake.spark.catalog
    for listed in (catalog.listTables("lake.db"), catalog.listTables("lake.db", "v*")):
        assert [(t.name, t.tableType, t.description) for t in listed][-1] == ("v", "VIEW", "some")
    assert [t.name for t in catalog.listTables("lake.db") if not t.isTemporary] == ["t", "v"]
    hive_lake.sql("USE {lake}.db")
    assert catalog.tableExists("v")
    assert catalog.getTable("v").catalog == "lake"
    assert [(c.name, c.dataType, c.description) for c in catalog.listColumns("v")] == [("id", "int", "the key")]
