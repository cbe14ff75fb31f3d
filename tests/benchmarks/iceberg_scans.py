"""Repeated reads of an Iceberg table by one engine, in this process; run by tests/benchmarks/iceberg.py.

    python -m tests.benchmarks.iceberg_scans --stage interbed|pyiceberg|Spark TABLE WAREHOUSE

TABLE is the name of the table in Spark's catalog of the warehouse; for the other engines it is the metadata file.
"""

import argparse
import json
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tests.benchmarks.spark_figures import Figures, least, timed
from tests.support.peers.iceberg import CATALOG
from tests.support.peers.spark import iceberg_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERIES: dict[str, Sequence[str] | None] = {"full scan": None, "two columns": ("amount", "price")}
"""Columns of each query; None for all."""
REPEATS = 4
WARM_UPS = {"interbed": 1, "pyiceberg": 1, "Spark": 8}

Read = Callable[[Sequence[str] | None], int]
"""Function that reads the columns, drops the batches, and returns the number of rows."""


def interbed_read(metadata: str) -> Read:
    """Return a read by interbed, which opens the table for each read."""
    import interbed

    def read(columns: Sequence[str] | None) -> int:
        scan = interbed.load_iceberg_table(metadata).scan(columns)
        return sum(batch.num_rows for batch in scan.to_arrow_batch_reader())

    return read


def pyiceberg_read(metadata: str) -> Read:
    """Return a read by pyiceberg, which opens the table for each read."""
    from pyiceberg.table import StaticTable

    def read(columns: Sequence[str] | None) -> int:
        scan = StaticTable.from_metadata(metadata).scan(selected_fields=("*",) if columns is None else tuple(columns))
        return sum(batch.num_rows for batch in scan.to_arrow_batch_reader())

    return read


def spark_read(table: str, warehouse: Path, scratch: Path) -> Read:
    """Return a read by Iceberg's code in a session on two threads, whose catalog loads the table for each read."""
    spark = spark_session(warehouse, scratch)
    counted = spark.table(table).selectExpr("count(id)").collect()[0][0]

    def read(columns: Sequence[str] | None) -> int:
        frame = spark.table(table)
        (frame if columns is None else frame.select(*columns)).write.format("noop").mode("overwrite").save()
        return int(counted)

    return read


def spark_session(warehouse: Path, scratch: Path) -> "SparkSession":
    """Return a session on two threads with Iceberg's catalog of the warehouse."""
    from pyspark.sql import SparkSession

    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "4g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.log.level": "ERROR",
        "spark.local.dir": str(scratch),
        **iceberg_settings("", warehouse, CATALOG),
        f"spark.sql.catalog.{CATALOG}.type": "hadoop",
    }
    del settings[f"spark.sql.catalog.{CATALOG}.uri"]
    builder = SparkSession.builder.appName("interbed bench").master("local[2]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def measured(engine: str, read: Read) -> dict[str, Figures]:
    """Return the minimal figures of each query, and its number of rows."""
    found = {}
    for query, columns in QUERIES.items():
        rows = read(columns)
        for _ in range(WARM_UPS[engine]):
            read(columns)
        found[query] = {**least([timed(partial(read, columns)) for _ in range(REPEATS)]), "rows": rows}
    return found


def main() -> None:
    """Parse the command line, read, and print the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stage", choices=sorted(WARM_UPS), required=True)
    parser.add_argument("table")
    parser.add_argument("warehouse", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="interbed-bench-", ignore_cleanup_errors=True) as scratch:
        if given.stage == "Spark":
            read = spark_read(given.table, given.warehouse, Path(scratch))
        else:
            read = (interbed_read if given.stage == "interbed" else pyiceberg_read)(given.table)
        print(json.dumps(measured(given.stage, read)))


if __name__ == "__main__":
    main()
