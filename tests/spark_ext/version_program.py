"""Checks of a supported PySpark with the one jar; run in a separate process by test_versions.py.

python version_program.py WAREHOUSE VERSION
"""

import sys
from contextlib import suppress
from typing import Any

import psutil
import pyspark
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from interbed import load_catalog, spark_ext
from interbed.testing import metastore


def main(warehouse: str, version: str) -> None:
    """Create a catalog, write, upsert and read; raise if a result is wrong."""
    assert pyspark.__version__.startswith(version), pyspark.__version__
    numbers = tuple(int(part) for part in version.split("."))
    builder = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        # The value of spark_process.QUICK_JVM, which this program's path does not include.
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", f"{warehouse}/spark")
        .config("spark.sql.catalog.ahead", "interbed.spark.SparkCatalog")
        .config("spark.sql.catalog.ahead.warehouse", warehouse)
    )
    spark = spark_ext.configure(builder).getOrCreate()
    try:
        check_that_a_planner_starts(spark)
        spark.sql(f"CREATE CATALOG lake WITH ('type' = 'interbed', 'warehouse' = '{warehouse}')")
        assert "lake" in [r[0] for r in spark.sql("SHOW CATALOGS").collect()]
        spark.sql("CREATE NAMESPACE lake.db")
        spark.sql(
            "CREATE TABLE lake.db.t (id BIGINT NOT NULL, name STRING) "
            "TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '2')"
        )
        spark.sql("INSERT INTO lake.db.t VALUES (1, 'a'), (2, 'b')")
        spark.sql("INSERT INTO lake.db.t VALUES (2, 'B'), (3, 'c')")
        now = [tuple(r) for r in spark.sql("SELECT id, name FROM lake.db.t WHERE id > 1 ORDER BY id").collect()]
        assert now == [(2, "B"), (3, "c")], now
        then = [tuple(r) for r in spark.sql("SELECT id, name FROM lake.db.t VERSION AS OF 1 ORDER BY id").collect()]
        assert then == [(1, "a"), (2, "b")], then
        load_catalog(warehouse=warehouse).get_table("db.t").compact(full=True)
        spark.catalog.clearCache()
        assert spark.table("lake.db.t").count() == 3
        check_that_rows_change(spark)
        check_that_values_are_subqueries(spark)
        check_that_views_are_listed(spark, warehouse, numbers)
        check_that_schemas_grow(spark, numbers)
        spark.sql("DROP TABLE lake.db.t")
        spark.sql("DROP CATALOG lake")
    finally:
        spark.stop()


def error_of(spark: SparkSession, statement: str) -> str:
    """Return the error's text, or an empty text if the statement succeeds."""
    try:
        spark.sql(statement)
    except (PySparkException, Py4JError) as error:
        return str(error)
    return ""


def check_that_values_are_subqueries(spark: SparkSession) -> None:
    """Check correlated subqueries as values, and an update that the table would drop."""
    spark.sql("CREATE TABLE lake.db.v (id INT, n INT)")
    spark.sql("INSERT INTO lake.db.v VALUES (1, 0), (2, 0)")
    spark.sql("UPDATE lake.db.v x SET n = (SELECT max(y.id) FROM VALUES (1), (2) AS y(id) WHERE y.id = x.id)")
    assert [tuple(r) for r in spark.sql("SELECT * FROM lake.db.v ORDER BY id").collect()] == [(1, 1), (2, 2)]
    spark.sql(
        "CREATE TABLE lake.db.s (id INT, n INT) "
        "TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1', 'sequence.field' = 'n')"
    )
    spark.sql("INSERT INTO lake.db.s VALUES (1, 5)")
    assert "can't go from 5 to 3" in error_of(spark, "UPDATE lake.db.s SET n = 3")
    spark.sql("DROP TABLE lake.db.v")
    spark.sql("DROP TABLE lake.db.s")


def check_that_views_are_listed(spark: SparkSession, warehouse: str, version: tuple[int, ...]) -> None:
    """Check views among tables, and the refusal of views over temporary ones."""
    with metastore() as uri:
        spark.sql(
            "CREATE CATALOG hive WITH ('type' = 'interbed', 'metastore' = 'hive', "
            f"'uri' = '{uri}', 'warehouse' = 'file:{warehouse}/hive')"
        )
        spark.sql("CREATE DATABASE hive.db")
        spark.sql("CREATE TABLE hive.db.t (id INT)")
        spark.sql("CREATE VIEW hive.db.v AS SELECT id FROM t")
        listed = [t.name for t in spark.catalog.listTables("hive.db")]
        # From Spark 4.2 on its catalog functions support views of other kinds only.
        assert listed == (["t"] if version >= (4, 2) else ["t", "v"]), listed
        assert [r[0] for r in spark.sql("SHOW COLUMNS IN hive.db.v").collect()] == ["id"]
        assert [r[1] for r in spark.sql("SHOW TABLE EXTENDED IN hive.db LIKE '*'").collect()] == ["t", "v"]
        spark.sql("CREATE TEMPORARY VIEW x AS SELECT 1 AS id")
        assert "INVALID_TEMP_OBJ_REFERENCE" in error_of(spark, "CREATE VIEW hive.db.w AS SELECT * FROM x")
        spark.sql("DROP VIEW x")
        spark.sql("DROP CATALOG hive")


def check_that_rows_change(spark: SparkSession) -> None:
    """Check UPDATE, DELETE and MERGE, reads through deletion vectors, and a CALL."""
    spark.sql(
        "CREATE TABLE lake.db.changed (id BIGINT NOT NULL, name STRING) "
        "TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1', 'deletion-vectors.enabled' = 'true')"
    )
    spark.sql("INSERT INTO lake.db.changed VALUES (1, 'a'), (2, 'B'), (3, 'c')")
    spark.sql("UPDATE lake.db.changed SET name = 'bb' WHERE id = 2")
    spark.sql("DELETE FROM lake.db.changed WHERE id = 3")
    spark.sql(
        "MERGE INTO lake.db.changed t USING (SELECT 1L AS id, 'aa' AS name UNION ALL SELECT 4L, 'd') s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    expected = [(1, "aa"), (2, "bb"), (4, "d")]
    for compact in (False, True):
        if compact:
            spark.sql("CALL lake.sys.compact(table => 'db.changed')").collect()
        found = [tuple(row) for row in spark.sql("SELECT id, name FROM lake.db.changed ORDER BY id").collect()]
        assert found == expected, found


def check_that_schemas_grow(spark: SparkSession, version: tuple[int, ...]) -> None:
    """Check columns that are added by rows: by the option on every version, by the statements where Spark has them."""
    grown = spark.sql("SELECT 5L AS id, 'e' AS name, 1 AS a")
    grown.writeTo("lake.db.t").option("write.merge-schema", "true").append()
    columns = ["id", "name", "a"]
    if version >= (4, 1):
        spark.sql(
            "MERGE WITH SCHEMA EVOLUTION INTO lake.db.t t USING (SELECT 6L AS id, 'f' AS name, 2 AS a, 3 AS b) s "
            "ON t.id = s.id WHEN NOT MATCHED THEN INSERT *"
        )
        columns.append("b")
    if version >= (4, 2):
        spark.sql("INSERT WITH SCHEMA EVOLUTION INTO lake.db.t BY NAME SELECT 7L AS id, 'g' AS name, 9L AS c")
        columns.append("c")
    found = spark.sql("SELECT * FROM lake.db.t WHERE id > 4 ORDER BY id")
    assert found.columns == columns, found.columns
    expected = [(5, "e", 1, None, None), (6, "f", 2, 3, None), (7, "g", None, None, 9)]
    assert [tuple(row) for row in found.collect()] == [row[: len(columns)] for row in expected[: len(columns) - 2]]


def check_that_a_planner_starts(spark: SparkSession) -> None:
    """Check that the planner of a catalog in the settings starts before the first statement."""
    # Py4J creates its attributes when they are requested.
    jvm: Any = spark._jvm
    for thread in jvm.java.lang.Thread.getAllStackTraces().keySet():
        if thread.getName() == "interbed-planner-start":
            thread.join(120_000)
    commands = []
    for child in psutil.Process().children(recursive=True):
        # Scripts that started the JVM end here.
        with suppress(psutil.NoSuchProcess):
            commands.append(" ".join(child.cmdline()))
    assert any("interbed.spark_ext.process.daemon" in command for command in commands), commands


if __name__ == "__main__":
    main(*sys.argv[1:])
