"""The same ingestion by plain Spark: Structured Streaming from Kafka, and a MERGE INTO an Iceberg table per
micro-batch.

    python -m tests.benchmarks.ingest.spark_job BOOTSTRAP_SERVERS TOPIC WARM_UP_TOPIC WAREHOUSE MESSAGES_OF_A_BATCH

It prints figures and the checksum of the table as JSON. The code is that of Spark's users: `from_json` with the schema
of the messages, the newest change of each key of the micro-batch, and MERGE with a deletion, an update and an
insertion. The table has the options of the other benchmarks with Iceberg: format version 3, merge-on-read, as many
buckets of the key as interbed's, Parquet with zstd. A first stream, into a separate table, warms the session up and is
not counted.
"""

import json
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from tests.benchmarks.ingest.interbed_job import BUCKETS
from tests.benchmarks.ingest.orders import TableChecksum
from tests.benchmarks.spark_engines import IcebergEngine
from tests.benchmarks.spark_figures import cpu_by_process, cpu_seconds_between, timed
from tests.support.peers.spark import maven_jars

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = (
    "id BIGINT, customer BIGINT, state STRING, cents BIGINT, weight DOUBLE, express BOOLEAN, code STRING, "
    "email STRING, street STRING, city STRING, created BIGINT, updated BIGINT, note STRING"
)
_EVENT = f"before STRUCT<{COLUMNS}>, after STRUCT<{COLUMNS}>, op STRING"
_NAMES = [column.split()[0] for column in COLUMNS.split(", ")]


def session(warehouse: Path) -> "SparkSession":
    """Return a session with Kafka's source and Iceberg, on two threads."""
    from pyspark.sql import SparkSession

    jars = [
        *maven_jars("iceberg", "iceberg-spark-1.12.0").glob("*.jar"),
        *maven_jars("spark_kafka", "spark-kafka-4.1.1").glob("*.jar"),
    ]
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "4g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": str(BUCKETS),
        "spark.sql.session.timeZone": "UTC",
        "spark.local.dir": str(warehouse / "scratch"),
        "spark.jars": ",".join(map(str, sorted(jars))),
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        **IcebergEngine.settings(warehouse),
    }
    builder = SparkSession.builder.appName("interbed bench").master("local[2]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def stream(spark: "SparkSession", servers: str, topic: str, table: str, most: int, warehouse: Path) -> int:
    """Stream the topic into a new table, in micro-batches of at most `most` messages, and return the number of
    messages.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    spark.sql(
        f"CREATE TABLE {table} ({COLUMNS}) USING iceberg PARTITIONED BY (bucket({BUCKETS}, id)) TBLPROPERTIES "
        "('format-version' = '3', 'write.delete.mode' = 'merge-on-read', 'write.update.mode' = 'merge-on-read', "
        "'write.merge.mode' = 'merge-on-read', 'write.parquet.compression-codec' = 'zstd')"
    )
    newest = Window.partitionBy("id").orderBy(f.desc("offset"))
    columns, values = ", ".join(_NAMES), ", ".join(f"s.{name}" for name in _NAMES)
    batches = []

    def merge(batch: "DataFrame", number: int) -> None:
        changes = batch.withColumn("place", f.row_number().over(newest)).where("place = 1").drop("place", "offset")
        changes.createOrReplaceTempView("changes")
        batch.sparkSession.sql(
            f"MERGE INTO {table} t USING changes s ON t.id = s.id "
            "WHEN MATCHED AND s.op = 'd' THEN DELETE "
            f"WHEN MATCHED THEN UPDATE SET {', '.join(f'{name} = s.{name}' for name in _NAMES)} "
            f"WHEN NOT MATCHED AND s.op <> 'd' THEN INSERT ({columns}) VALUES ({values})"
        )
        batches.append(number)

    source = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", topic)
    source = source.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", most)
    events = source.load().select("offset", f.from_json(f.col("value").cast("string"), _EVENT).alias("event"))
    key = f.coalesce("event.after.id", "event.before.id").alias("id")
    rows = events.select("offset", "event.op", key, *(f"event.after.{name}" for name in _NAMES[1:]))
    place = warehouse / f"checkpoint-{topic}"
    query = rows.writeStream.foreachBatch(merge).option("checkpointLocation", str(place)).trigger(availableNow=True)
    query.start().awaitTermination()
    return len(batches)


def checksum(spark: "SparkSession", table: str) -> TableChecksum:
    """Return the checksum of the filled table."""
    [row] = spark.sql(f"SELECT count(*), sum(id), sum(cents), sum(length(note)) FROM {table}").collect()
    return TableChecksum(rows=row[0], ids=row[1], cents=row[2], letters=row[3])


def main() -> None:
    """Parse the command line, ingest, and print the figures."""
    servers, topic, warm_up, place, most = sys.argv[1:]
    warehouse = Path(place)
    begun, before = time.perf_counter(), cpu_by_process()
    spark = session(warehouse)
    spark.sql("CREATE DATABASE IF NOT EXISTS ice.shop")
    stream(spark, servers, warm_up, "ice.shop.warm", int(most), warehouse)
    start = {"start_wall_s": time.perf_counter() - begun, "start_cpu_s": cpu_seconds_between(before, cpu_by_process())}
    table = "ice.shop.orders"
    commits = 0

    def work() -> None:
        nonlocal commits
        commits = stream(spark, servers, topic, table, int(most), warehouse)

    figures = timed(work)
    peak = max(_peak_mb(pid) for pid, _ in cpu_by_process())
    found = {**figures, **start, "commits": commits, "peak_mb": peak, "checksum": asdict(checksum(spark, table))}
    print(json.dumps(found))
    spark.stop()


def _peak_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    # A zombie process has no peak.
    return next((int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:")), 0) / 1024


if __name__ == "__main__":
    main()
