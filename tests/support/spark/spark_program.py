"""Program of tests/support/peers/spark.py, in a separate process: runs Spark SQL statements from JSON lines on standard
input.

    python spark_program.py '{"spark.master": "local[2]", …}'

It is a process because a JVM has one Hive client for its whole life, and because some tests need two independent
sessions.
"""

import json
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pyspark.sql import SparkSession


def rows(session: SparkSession, statement: str) -> list[list[str | None]]:
    """Return the result of the statement, each value as text or None."""
    found = session.sql(statement).collect()
    return [[None if value is None else str(value) for value in row] for row in found]


def script(session: SparkSession, statements: list[str]) -> list[str]:
    """Run all statements one after another, and return the errors of those that failed."""
    refusals = []
    for statement in statements:
        try:
            session.sql(statement).collect()
        except Exception as error:  # noqa: BLE001 - every error of Spark is an answer
            refusals.append(str(error))
    return refusals


def hive_token(spark: SparkSession) -> str:
    """Return the delegation token that Spark's own provider gets of Hive's metastore, as Hadoop's text of it."""
    jvm: Any = spark.sparkContext._jvm
    context = spark.sparkContext._jsc.sc()
    credentials = jvm.org.apache.hadoop.security.Credentials()
    provider = jvm.org.apache.spark.sql.hive.security.HiveDelegationTokenProvider()
    provider.obtainDelegationTokens(context.hadoopConfiguration(), context.conf(), credentials)
    return str(credentials.getAllTokens().iterator().next().encodeToUrlString())


def answer(spark: SparkSession, request: dict[str, Any]) -> Any:
    """Return the answer of one command."""
    match request["command"]:
        case "version":
            return spark.version
        case "run":
            return rows(spark, request["sql"])
        case "together":
            scripts = request["scripts"]
            with ThreadPoolExecutor(len(scripts)) as threads:
                running = [threads.submit(script, spark.newSession(), statements) for statements in scripts]
                return [one.result() for one in running]
        case "web":
            context = spark.sparkContext
            # The web UI shows only events that have reached it.
            context._jsc.sc().listenerBus().waitUntilEmpty()
            return [context.uiWebUrl, context.applicationId]
        case "hive token":
            return hive_token(spark)
        case "stream":
            source = spark.readStream.table(request["source"]).selectExpr(*request["columns"])
            writer = source.writeStream.option("checkpointLocation", request["checkpoint"])
            return writer.trigger(availableNow=True).toTable(request["target"]).awaitTermination()
        case other:
            raise ValueError(f"no such command: {other!r}")


def serve(answer: Callable[[SparkSession, dict[str, Any]], Any]) -> None:
    """Answer commands until standard input ends, in a session with the settings of the first argument."""
    # Only answers go to standard output; the output of the JVM goes to the log from here on.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    builder = SparkSession.builder
    for key, value in json.loads(sys.argv[1]).items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    for line in sys.stdin:
        try:
            said = {"ok": answer(spark, json.loads(line))}
        except Exception as error:  # noqa: BLE001 - every error of Spark is an answer
            said = {"error": {"class": type(error).__name__, "message": str(error)}}
        print(json.dumps(said), file=answers, flush=True)
    spark.stop()


if __name__ == "__main__":
    serve(answer)
