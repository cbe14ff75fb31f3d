"""Program of tests/spark_ext/write/test_stream_kills.py: streams one table into others, until all present rows are
processed.

    python stream_program.py WAREHOUSE CHECKPOINTS PIDS

A killed program must be started again. Each file of the source is a batch, so that there are several batches.
"""

import os
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from interbed.spark_ext import configure
from tests.support.spark.spark_process import QUICK_JVM, driver_jvm


def main(warehouse: str, checkpoints: str, pids: str) -> None:
    """Stream `db.s` into `db.log` (append), `db.sums` (a primary key) and `db.counts` (complete)."""
    spark = small_session(warehouse, pids)
    source = (
        spark.readStream.option("read.stream.maxFilesPerTrigger", "1")
        .option("consumer-id", "program")
        .option("consumer.ignore-progress", "true")
        .table("lake.db.s")
    )
    run(source, checkpoints, "log", "append")
    run(source.selectExpr("id", "1L AS n"), checkpoints, "sums", "append")
    run(source.groupBy("p").count().toDF("p", "n"), checkpoints, "counts", "complete")
    spark.stop()


def small_session(warehouse: str, pids: str, master: str = "local[1]") -> SparkSession:
    """Return a session with the catalog `lake`; it writes the ids of its processes to the file `pids`."""
    builder = (
        SparkSession.builder.master(master)
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "512m")
        .config("spark.driver.extraJavaOptions", driver_jvm())
        .config("spark.executor.extraJavaOptions", QUICK_JVM)
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.log.level", "OFF")
        .config("spark.sql.catalog.lake", "interbed.spark.SparkCatalog")
        .config("spark.sql.catalog.lake.warehouse", warehouse)
    )
    spark = configure(builder).getOrCreate()
    jvm = spark._jvm
    assert jvm is not None
    Path(pids).write_text(f"{jvm.java.lang.ProcessHandle.current().pid()} {os.getpid()}", encoding="utf-8")
    return spark


def run(frame: DataFrame, checkpoints: str, table: str, mode: str) -> None:
    """Stream into one table with one output mode."""
    writer = frame.writeStream.outputMode(mode).option("checkpointLocation", f"{checkpoints}/{table}")
    writer.trigger(availableNow=True).toTable(f"lake.db.{table}").awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
