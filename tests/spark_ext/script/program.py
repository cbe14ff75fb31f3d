"""Run the scripts of this directory in one Spark session, on one or more catalogs, in a separate process.

    python program.py '{"settings": {…}, "catalogs": {"lake": "CREATE CATALOG …"}, "scripts": {"lake": ["types", …]}}'

Each script has an empty database of its own name and catalog. Prints a line of JSON for each statement whose answer
differs from the script, `{"catalog": …, "script": …, "difference": …}`, and at the end the number of statements.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

SCRIPTS = Path(__file__).resolve().parent
sys.path.insert(0, str(SCRIPTS.parents[2]))

from tests.support.spark.spark_process import MODEST_SETTINGS  # noqa: E402 - found by the line before.
from tests.support.sql_script import check, statements_of  # noqa: E402 - found by the line before.

SETTINGS = {**MODEST_SETTINGS, "spark.log.level": "OFF"}


def run_scripts(spark: SparkSession, catalog: str, names: list[str], say: Any) -> int:
    """Run the scripts on the catalog and report each difference. Return the number of statements."""
    count = 0
    for name in names:
        database = Path(name).name
        spark.sql(f"USE {catalog}")
        spark.sql(f"CREATE DATABASE {database}")
        spark.sql(f"USE {database}")
        begun = time.process_time(), time.monotonic()
        for statement in statements_of((SCRIPTS / f"{name}.sql").read_text(encoding="utf-8")):
            count += 1
            try:
                check(statement, lambda sql: list(spark.sql(sql).collect()))
            except AssertionError as difference:
                say({"catalog": catalog, "script": name, "difference": str(difference)})
        spark.sql("USE spark_catalog")
        spark.sql(f"DROP DATABASE {catalog}.{database} CASCADE")
        print(f"{catalog} {name}: {time.monotonic() - begun[1]:.1f} s", file=sys.stderr)
    return count


def main(request: dict[str, Any]) -> None:
    """Run the requested scripts; differences and the count go to standard output."""
    # The JVM writes to standard output as well: it gets the log's file descriptor from here on.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    builder = SparkSession.builder
    for key, value in {**SETTINGS, **request["settings"]}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()

    def say(message: dict[str, Any]) -> None:
        print(json.dumps(message), file=answers, flush=True)

    try:
        for catalog, statement in request["catalogs"].items():
            if statement:
                spark.sql(statement)
            say({"catalog": catalog, "statements": run_scripts(spark, catalog, request["scripts"][catalog], say)})
    finally:
        spark.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
