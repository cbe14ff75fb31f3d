"""Processes that use Spark with their own settings, independent of the environment of the test process."""

import os
import subprocess
import sys
from collections.abc import Mapping

QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m -XX:MetaspaceSize=256m"
"""Options of a JVM that runs each of its plans once or twice: optimizing compilation would take longer than the runs.

A JVM without it reserves 48 MB for compiled code. When they are full, it compiles what it has dropped again. From 21 MB
of classes on it collects garbage to unload some.
"""


def driver_jvm() -> str:
    """Return the options of a driver of the installed Spark: QUICK_JVM, and the archive of Spark's classes."""
    from tests.support.spark.class_archive import archive_options

    return f"{QUICK_JVM} {archive_options()}"


QUICK_QUERIES = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""Settings of a session of small queries: interpreted, because compilation would take longer than they do."""

USUAL_QUERIES = {
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
}
"""Spark's own values of QUICK_QUERIES."""

MODEST_SETTINGS = {
    "spark.master": "local[2]",
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": QUICK_JVM,
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.session.timeZone": "UTC",
}
"""Settings of a driver that shares a small machine with other processes."""


def clean_environment() -> dict[str, str]:
    """Return the environment without Spark's variables, which name the installation and the Python of this process."""
    return {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_"))}


def run_program(*arguments: str, variables: Mapping[str, str], timeout_seconds: int) -> str:
    """Return the output of a Python process with these arguments. Raises RuntimeError with the end of its errors when
    it failed.
    """
    done = subprocess.run(
        [sys.executable, *arguments],
        env={**clean_environment(), **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_seconds,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{arguments[0]} ended with {done.returncode}:\n{done.stderr[-4000:]}")
    return done.stdout
