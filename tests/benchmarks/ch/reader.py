"""A warm Spark session that answers the queries, in a separate process; commands are JSON lines on standard input.

    python -m tests.benchmarks.ch.reader '{"spark.sql.catalog.lake": …}' lake.ch

    {"command": "query", "number": 5, "into": null}  ->  {"seconds": 0.4, "rows": 25}; the answer goes to a path
    {"command": "newest"}                            ->  {"lag_s": 3.2}: how old the newest order is that a query sees
    {"command": "files"}                             ->  {"data_files": 40, "delete_files": 8} of Iceberg's tables

A query has ended when the driver's Python has all rows of the answer, as Arrow.
"""

import json
import sys
import time
from datetime import UTC
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from interbed.spark_ext import spark_settings
from tests.benchmarks.ch.queries import NEWEST_ORDER, QUERIES
from tests.benchmarks.ch.tpcc.schema import KEYS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "2g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.log.level": "ERROR",
    "spark.sql.shuffle.partitions": "2",
    # The queries have more stages than Spark's default code cache: each round would compile them again.
    "spark.sql.codegen.cache.maxEntries": "2000",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
}


def session(settings: dict[str, str], *, with_interbed: bool) -> "SparkSession":
    """Return a session on two threads."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("interbed CH-benchmark").master("local[2]")
    wanted = {**SETTINGS, **settings}
    for key, value in {**wanted, **(spark_settings(wanted) if with_interbed else {})}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


class _Reader:
    def __init__(self, spark: "SparkSession", namespace: str) -> None:
        self._spark = spark
        self._namespace = namespace
        spark.sql(f"USE {namespace}")
        self._texts = {query.number: query.text for query in QUERIES}

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        match request["command"]:
            case "query":
                return self._query(request["number"], request["into"])
            case "newest":
                # The query reads the snapshot of its planning time, independent of its duration.
                began = time.time()
                [[newest]] = self._spark.sql(NEWEST_ORDER).collect()
                return {"lag_s": began - newest.replace(tzinfo=UTC).timestamp()}
            case "files":
                return self._files()
        raise ValueError(f"No command {request['command']!r}.")

    def _query(self, number: int, into: str | None) -> dict[str, Any]:
        began = time.perf_counter()
        found = self._spark.sql(self._texts[number]).toArrow()
        seconds = time.perf_counter() - began
        if into is not None:
            with pa.OSFile(into, "wb") as file, pa.ipc.new_file(file, found.schema) as writer:
                writer.write_table(found)
        return {"seconds": seconds, "rows": found.num_rows}

    def _files(self) -> dict[str, int]:
        each = " UNION ALL ".join(f"SELECT content FROM {self._namespace}.{table}.files" for table in KEYS)
        counts = {
            row[0]: row[1] for row in self._spark.sql(f"SELECT content, count(*) FROM ({each}) GROUP BY 1").collect()
        }
        return {"data_files": counts.get(0, 0), "delete_files": sum(counts.values()) - counts.get(0, 0)}


def main() -> None:
    """Answer commands until standard input ends."""
    settings, namespace = json.loads(sys.argv[1]), sys.argv[2]
    spark = session(settings, with_interbed="spark.sql.catalog.lake" in settings)
    reader = _Reader(spark, namespace)
    for line in sys.stdin:
        try:
            answer: dict[str, Any] = {"ok": reader.answer(json.loads(line))}
        except Exception as error:  # noqa: BLE001 - every error of Spark is an answer
            answer = {"error": {"class": type(error).__name__, "message": str(error)[:4000]}}
        print(json.dumps(answer), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
