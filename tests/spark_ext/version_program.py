"""What every supported PySpark must do with the one jar; run in a process of its own by test_versions.py.

python version_program.py WAREHOUSE VERSION
"""

import sys
from typing import Any

import psutil
import pyspark
from pyspark.sql import SparkSession

from interbed import load_catalog, spark_ext


def main(warehouse: str, version: str) -> None:
    """Create a catalog, write and upsert, read now and then; raises where an answer is wrong."""
    assert pyspark.__version__.startswith(version), pyspark.__version__
    builder = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
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
        spark.sql("DROP TABLE lake.db.t")
        spark.sql("DROP CATALOG lake")
    finally:
        spark.stop()


def check_that_a_planner_starts(spark: SparkSession) -> None:
    """Where the settings name a catalog, its planner starts before the first statement; raises where it does not."""
    # Py4J makes up its attributes as they are asked for.
    jvm: Any = spark._jvm
    for thread in jvm.java.lang.Thread.getAllStackTraces().keySet():
        if thread.getName() == "interbed-planner-start":
            thread.join(120_000)
    commands = [" ".join(child.cmdline()) for child in psutil.Process().children(recursive=True)]
    assert any("interbed.spark_ext.daemon" in command for command in commands), commands


if __name__ == "__main__":
    main(*sys.argv[1:])
