"""The first query of a new Spark session, in a separate process; prints its figures as JSON.

    python -m tests.benchmarks.spark_first_query WAREHOUSE interbed|iceberg|delta|parquet

The session has started before the measurement, which covers the cost of the table format in the first query: the
classes of its jars, its catalog, its processes.
"""

import json
import sys
from pathlib import Path
from typing import Any

from tests.benchmarks.spark_engines import ENGINES, session
from tests.benchmarks.spark_figures import cpu_by_process, timed

PLAIN = "plain"


def main() -> None:
    """Parse the command line, run the query, and print the figures."""
    warehouse, name = Path(sys.argv[1]), sys.argv[2]
    tables = {engine.name: engine.table for engine in ENGINES}
    spark = session(warehouse, "1g")
    # The initial work of the session itself (its state, its code generator) belongs to no table format.
    spark.range(10).selectExpr("sum(id)").collect()
    cpu_by_process()

    def query() -> None:
        if name == "delta":
            # The tables are in the session's own catalog, which is not persistent.
            frame = spark.read.format("delta").load(str(warehouse / "delta" / "b.db" / "t"))
        else:
            frame = spark.read.parquet(str(warehouse / PLAIN)) if name == "parquet" else spark.table(tables[name])
        frame.selectExpr("count(id)", "sum(amount)", "max(price)").collect()

    figures: dict[str, Any] = timed(query)
    print(json.dumps(figures))
    spark.stop()


if __name__ == "__main__":
    main()
