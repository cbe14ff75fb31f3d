"""Program of tests/spark_ext/ingestion/test_kills.py: ingests a topic to its end, into tables of `lake.shop`.

    python ingest_program.py WAREHOUSE PIDS SERVERS TOPIC

A killed program must be started again.
"""

import sys

from interbed.spark_ext import ingest
from tests.support.spark.stream_program import small_session

TIMEOUT_SECONDS = 300


def main(warehouse: str, pids: str, servers: str, topic: str) -> None:
    """Ingest in batches of a few messages, so that there are several commits."""
    spark = small_session(warehouse, pids, "local[2]")
    query = ingest(
        spark,
        catalog="lake",
        bootstrap_servers=servers,
        topics=[topic],
        database="shop",
        table_options={"bucket": "2"},
        commit_rows=40,
        until_end=True,
    )
    assert query.awaitTermination(TIMEOUT_SECONDS)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
