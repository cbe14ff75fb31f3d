"""Spark SQL on tables in HDFS, by the statements of Paimon's documentation: catalogs of the file system and of Hive."""

import uuid
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import interbed
from tests.support.pages import Page
from tests.support.servers.hdfs import HdfsServer
from tests.support.servers.metastore import metastore
from tests.support.waits import at_most

pytestmark = pytest.mark.long


@pytest.fixture(params=["filesystem", "hive"])
def options(request: pytest.FixtureRequest, hdfs: HdfsServer) -> Iterator[dict[str, str]]:
    """Options of a catalog over `hdfs://host:port/…/paimon/fs`, or `…/hive`."""
    home = f"{hdfs.uri}/{uuid.uuid4()}/paimon"
    if request.param == "filesystem":
        yield {"warehouse": f"{home}/fs"}
        return
    with metastore(warehouse=f"{home}/hive") as uri:
        yield {"metastore": "hive", "uri": uri, "warehouse": f"{home}/hive"}


@pytest.fixture
def catalog(spark: SparkSession, options: dict[str, str]) -> Iterator[str]:
    """A catalog in Spark, which is the current catalog during the test."""
    name = f"my_{uuid.uuid4().hex[:8]}"
    given = ", ".join(f"'{key}' = '{value}'" for key, value in options.items())
    spark.sql(f"CREATE CATALOG {name} WITH ('type' = 'paimon', {given})")
    spark.sql(f"USE {name}")
    yield name
    spark.sql("USE spark_catalog")
    spark.sql(f"DROP CATALOG {name}")


def test_the_statements_of_paimons_documentation_work_in_hdfs(
    spark: SparkSession, catalog: str, options: dict[str, str]
) -> None:
    def rows(statement: str) -> list[tuple[object, ...]]:
        return [tuple(row) for row in spark.sql(statement).collect()]

    spark.sql("CREATE DATABASE IF NOT EXISTS default")
    spark.sql("USE default")
    spark.sql(
        "CREATE TABLE my_table (k INT, v STRING, dt STRING) PARTITIONED BY (dt) "
        "TBLPROPERTIES ('primary-key' = 'k,dt', 'bucket' = '2')"
    )
    spark.sql("INSERT INTO my_table VALUES (1, 'Hi', 'a'), (2, 'Hello', 'b')")
    assert rows("SELECT k, v FROM my_table ORDER BY k") == [(1, "Hi"), (2, "Hello")]
    spark.sql("INSERT INTO my_table VALUES (1, 'Hi Again', 'a'), (3, 'Test', 'b')")
    assert rows("SELECT k, v FROM my_table ORDER BY k") == [(1, "Hi Again"), (2, "Hello"), (3, "Test")]
    spark.sql("UPDATE my_table SET v = 'x' WHERE k = 3")
    spark.sql("DELETE FROM my_table WHERE k = 2")
    spark.sql(
        "MERGE INTO my_table t USING (SELECT 1 AS k, 'm' AS v, 'a' AS dt UNION ALL SELECT 9, 'n', 'c') s "
        "ON t.k = s.k AND t.dt = s.dt WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *"
    )
    assert rows("SELECT k, v, dt FROM my_table ORDER BY k") == [(1, "m", "a"), (3, "x", "b"), (9, "n", "c")]
    spark.sql("CALL sys.compact(table => 'default.my_table')")
    # Compacted files contain the current rows.
    assert rows("SELECT k, v FROM my_table WHERE dt = 'b'") == [(3, "x")]
    assert rows("SELECT count(*), max(k) FROM my_table VERSION AS OF 1") == [(2, 2)]
    spark.sql("CALL sys.create_tag(table => 'default.my_table', tag => 'now')")
    spark.sql("ALTER TABLE my_table RENAME TO other_table")
    assert rows("SELECT count(*) FROM other_table") == [(3,)]

    # Python sees the same rows, and Spark the rows that Python writes.
    with interbed.CatalogFactory.create(options) as lake:
        table = lake.get_table("default.other_table")
        assert table.location.startswith("hdfs://")
        assert table.count() == 3
        assert table.scan(filter="k = 9").to_arrow()["v"].to_pylist() == ["n"]
        table.upsert([{"k": 11, "v": "py", "dt": "c"}])
    assert rows("SELECT v FROM other_table WHERE k = 11") == [("py",)]

    spark.sql("CREATE TABLE copy TBLPROPERTIES ('bucket' = '-1') AS SELECT * FROM other_table")
    assert rows("SELECT count(*) FROM copy") == [(4,)]
    spark.sql("DROP TABLE copy")
    spark.sql("DROP TABLE other_table")
    assert rows("SHOW TABLES") == []


def test_the_statements_of_the_page_run(spark: SparkSession, hdfs: HdfsServer) -> None:
    [script] = Page("hdfs.md").blocks("sql")
    assert "hdfs://namenode:8020/" in script
    try:
        for statement in script.replace("hdfs://namenode:8020/", f"{hdfs.uri}/{uuid.uuid4()}/").split(";"):
            if statement.strip():
                rows = [tuple(row) for row in spark.sql(statement).collect()]
        assert rows == [(1, "blue"), (2, "red")]
    finally:
        spark.sql("USE spark_catalog")
        spark.sql("DROP CATALOG IF EXISTS my_catalog")


def test_a_stream_copies_a_table_in_hdfs(spark: SparkSession, catalog: str, options: dict[str, str]) -> None:
    spark.sql("CREATE DATABASE IF NOT EXISTS default")
    for name in ("source", "target"):
        spark.sql(
            f"CREATE TABLE default.{name} (k INT, v STRING) TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '1', "
            "'changelog-producer' = 'input')"
        )
    spark.sql("INSERT INTO default.source VALUES (1, 'a'), (2, 'b')")
    query = (
        spark.readStream.table(f"{catalog}.default.source")
        .writeStream.option("checkpointLocation", f"{options['warehouse']}/checkpoint")
        .trigger(availableNow=True)
        .toTable(f"{catalog}.default.target")
    )
    assert query.awaitTermination(at_most(120))
    found = spark.sql("SELECT k, v FROM default.target ORDER BY k").collect()
    assert [tuple(row) for row in found] == [(1, "a"), (2, "b")]
