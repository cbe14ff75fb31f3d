"""A Spark Connect client that ingests; run in a separate process by test_connect.py.

python connect_program.py URL WAREHOUSE SERVERS TOPIC
"""

import sys
from typing import Any

from pyspark.sql import SparkSession

from interbed.spark_ext import ingest
from tests.spark_ext.connect_program import started

TIMEOUT_SECONDS = 120


class _StartableQuery:
    """A query for `started`, which starts it."""

    def __init__(self, spark: SparkSession, **arguments: Any) -> None:
        self._spark = spark
        self._arguments = arguments

    def start(self) -> Any:
        """Start the query and return it."""
        return ingest(self._spark, **self._arguments)


def main(url: str, warehouse: str, servers: str, topic: str) -> None:
    """Ingest by a query. A statement after it finds nothing left to read."""
    spark: Any = SparkSession.builder.remote(url).create()
    try:
        spark.sql(f"CREATE CATALOG lake WITH ('type' = 'interbed', 'warehouse' = '{warehouse}')")
        arguments = {"catalog": "lake", "bootstrap_servers": servers, "topics": [topic], "table": "shop.orders"}
        query = started(_StartableQuery(spark, **arguments, until_end=True, table_options={"bucket": "2"}))
        assert query.awaitTermination(TIMEOUT_SECONDS)
        assert query.exception() is None, query.exception()
        assert [row["id"] for row in spark.table("lake.shop.orders").orderBy("id").collect()] == list(range(10))
        (row,) = spark.sql(
            f"CALL lake.sys.ingest_kafka(bootstrap_servers => '{servers}', topic => '{topic}', table => 'shop.orders')"
        ).collect()
        assert row["messages"] == 0
    finally:
        spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
