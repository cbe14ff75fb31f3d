"""A Spark Connect client that uses interbed like other clients; run in a separate process by test_connect.py.

python connect_program.py everything|statements URL WAREHOUSE

With an address the process has no JVM, and knows only the address. Raises if a result is wrong.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col

from interbed import spark_ext

TABLE = "lake.db.orders"


def main(what: str, url: str, warehouse: str) -> None:
    """Run everything, or only statements; `url` is a server's address, or `local[n]` for a server in this process."""
    spark = connected(url)
    try:
        changes_rows(spark, warehouse)
        if what == "everything":
            writes_frames(spark, warehouse)
            streams(spark, Path(warehouse))
            streams_batches(spark, Path(warehouse))
            keeps_sessions_apart(url, spark)
    finally:
        spark.stop()


def connected(url: str) -> SparkSession:
    """Yield a new session."""
    if url.startswith("sc://"):
        session: SparkSession = SparkSession.builder.remote(url).create()
        return session
    builder = SparkSession.builder.remote(url).config("spark.ui.enabled", "false")
    return spark_ext.configure(builder).getOrCreate()


def changes_rows(spark: SparkSession, warehouse: str) -> None:
    """Run statements, from the creation of the catalog to time travel."""
    spark.sql(f"CREATE CATALOG lake WITH ('type' = 'interbed', 'warehouse' = '{warehouse}/lake')")
    assert "lake" in column(spark.sql("SHOW CATALOGS"))
    spark.sql("CREATE DATABASE lake.db")
    spark.sql(
        f"CREATE TABLE {TABLE} (id INT NOT NULL, v STRING, n INT) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '2')"
    )
    spark.sql(f"INSERT INTO {TABLE} VALUES (1, 'a', 10), (2, 'b', 20), (3, 'c', 30)")
    spark.sql(f"UPDATE {TABLE} SET n = n + 1 WHERE id = :id", {"id": 3})
    spark.sql(f"DELETE FROM {TABLE} WHERE id = 2")
    spark.createDataFrame([(1, "A", 11), (4, "d", 40)], ["id", "v", "n"]).createOrReplaceTempView("changes")
    spark.sql(
        f"MERGE INTO {TABLE} t USING changes s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    assert rows(spark.table(TABLE)) == [(1, "A", 11), (3, "c", 31), (4, "d", 40)]

    assert [tuple(r) for r in spark.sql(f"CALL lake.sys.create_tag('{TABLE[5:]}', 'now')").collect()] == [(True,)]
    spark.sql("CALL lake.sys.compact(table => 'db.orders', compact_strategy => 'full')").collect()
    assert rows(spark.sql(f"SELECT * FROM {TABLE} VERSION AS OF 1")) == [(1, "a", 10), (2, "b", 20), (3, "c", 30)]
    assert rows(spark.sql(f"SELECT * FROM {TABLE} VERSION AS OF 'now'")) == rows(spark.table(TABLE))
    assert column(spark.sql(f"SELECT tag_name FROM lake.db.`{TABLE[8:]}$tags`")) == ["now"]
    assert spark.sql("SELECT * FROM paimon_incremental_query('lake.db.orders', '3', '4')").count() == 2

    for key, pinned in (("spark.interbed.scan.snapshot-id", "1"), ("spark.paimon.lake.db.orders.scan.tag-name", "now")):
        spark.conf.set(key, pinned)
        assert spark.table(TABLE).count() == 3
        spark.conf.unset(key)
    spark.sql("SET spark.interbed.scan.snapshot-id=1")
    assert rows(spark.table(TABLE).where("id = 2")) == [(2, "b", 20)]
    spark.sql("RESET spark.interbed.scan.snapshot-id")
    refused("primary key column 'id' can't be updated", lambda: spark.sql(f"UPDATE {TABLE} SET id = 9"))
    refused("no tag 'missing'", lambda: spark.sql(f"SELECT * FROM {TABLE} VERSION AS OF 'missing'").collect())


def writes_frames(spark: SparkSession, warehouse: str) -> None:
    """Write DataFrames by name and by path, and MERGE without SQL."""
    frame = spark.range(5).select(col("id").cast("int").alias("id"), (col("id") % 2).cast("string").alias("dt"))
    frame.writeTo("lake.db.made").partitionedBy(col("dt")).tableProperty("file.format", "orc").create()
    frame.writeTo("lake.db.made").append()
    frame.where("dt = '1'").writeTo("lake.db.made").overwritePartitions()
    assert spark.table("lake.db.made").groupBy("dt").count().orderBy("dt").collect() == [("0", 6), ("1", 2)]
    frame.limit(1).write.mode("overwrite").partitionBy("dt").saveAsTable("lake.db.made")
    assert spark.table("lake.db.made").count() == 1

    path = f"{warehouse}/lake/db.db/orders"
    spark.createDataFrame([(7, "g", 70)], "id INT, v STRING, n INT").write.format("interbed").mode("append").save(path)
    assert rows(spark.read.format("interbed").load(path).where("id = 7")) == [(7, "g", 70)]
    assert spark.read.format("interbed").option("scan.snapshot-id", 1).load(path).count() == 3

    changes = spark.createDataFrame([(7, "G", 71), (8, "h", 80)], "id INT, v STRING, n INT")
    (
        changes.mergeInto(TABLE, col("orders.id") == changes["id"])
        .whenMatched()
        .updateAll()
        .whenNotMatched()
        .insertAll()
        .merge()
    )
    assert rows(spark.table(TABLE).where("id > 6")) == [(7, "G", 71), (8, "h", 80)]


def streams(spark: SparkSession, home: Path) -> None:
    """Stream a table into a table, twice with one checkpoint."""
    spark.sql("CREATE TABLE lake.db.copy (id INT, v STRING, n INT)")

    def run() -> None:
        query = (
            spark.readStream.table(TABLE)
            .writeStream.option("checkpointLocation", str(home / "checkpoint"))
            .trigger(availableNow=True)
            .toTable("lake.db.copy")
        )
        assert query.awaitTermination(120)

    run()
    spark.sql(f"INSERT INTO {TABLE} VALUES (9, 'i', 90)")
    run()
    assert rows(spark.table("lake.db.copy")) == rows(spark.table(TABLE))


def streams_batches(spark: SparkSession, home: Path) -> None:
    """Change rows of a table with the batches of a stream, which the server passes to a function of the client."""
    spark.sql("CREATE TABLE lake.db.latest (id INT NOT NULL, v STRING, n INT) TBLPROPERTIES ('primary-key' = 'id')")

    def merge(batch: DataFrame, _: int) -> None:
        batch.createOrReplaceTempView("changes")
        batch.sparkSession.sql(
            "MERGE INTO lake.db.latest t USING changes s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET n = t.n + s.n WHEN NOT MATCHED THEN INSERT *"
        )

    writer = spark.readStream.table(TABLE).writeStream.foreachBatch(merge).trigger(availableNow=True)
    for _ in range(2):
        query = started(writer.option("checkpointLocation", str(home / "batches")))
        assert query.awaitTermination(120)
        assert query.exception() is None
    # The second run had nothing to add.
    assert rows(spark.table("lake.db.latest")) == rows(spark.table(TABLE))


def started(writer: Any) -> Any:
    """Start a query, with retries: Spark gives the function's process ten seconds to begin, which a busy machine may
    exceed.
    """
    for _ in range(5):
        try:
            return writer.start()
        except PySparkException as error:
            if "Timed out while waiting for the Python worker" not in str(error):
                raise
    return writer.start()


def keeps_sessions_apart(url: str, spark: SparkSession) -> None:
    """Check that a session's catalog is its own; another session creates one of the same name."""
    other: Any = connected(url)
    try:
        refused("lake", lambda: other.table(TABLE).collect())
        assert spark.table(TABLE).count() > 0
    finally:
        other.client.close()


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    """Return a frame's rows in the order of their first column."""
    return sorted(tuple(row) for row in frame.collect())


def column(frame: DataFrame) -> list[Any]:
    """Return a frame's first column."""
    return [row[0] for row in frame.collect()]


def refused(message: str, action: Callable[[], Any]) -> None:
    """Assert that the action fails with this in its message."""
    try:
        action()
    except PySparkException as error:
        error_text = str(error)
    else:
        error_text = "(no error)"
    assert message in error_text, error_text


if __name__ == "__main__":
    main(*sys.argv[1:])
