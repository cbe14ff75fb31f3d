"""Workers of the optimizer on the executors of a Spark cluster:

    spark-submit $(interbed spark settings) workers.py --uri thrift://optimizer-host:9090

where workers.py calls `main` of this module.

Each worker is one task of a Spark job, and takes one of its cores. The workers start with the application, and end
after the idle time without tasks, or with the application. The executors have to reach the optimizer, the catalog and
the files of its tables. When an executor dies, other workers get its tasks.
"""

import argparse
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from interbed.catalog.client.cli.group import pairs
from interbed.catalog.client.options import options_of_files, secret_options
from interbed.optimizer.flow.tables import DEFAULT_GROUP
from interbed.optimizer.service.local_workers import place
from interbed.optimizer.service.scheduler_client import SchedulerClient
from interbed.optimizer.service.worker import OptimizerWorker, WorkerSettings, opened_with
from interbed.spark_ext.session import PYTHON
from interbed.storage.base.errors import InvalidOptionError
from interbed.storage.base.shown_text import parse_duration_millis, parse_memory

IDLE_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkWorkers:
    """Workers for the optimizer at `uri`, in the number `workers`, each with `memory` bytes.

    `options` are options of the catalog, such as keys of its files, on top of those that the optimizer sends.
    """

    uri: str
    workers: int
    group: str = DEFAULT_GROUP
    memory: int = 1 << 30
    idle_seconds: float = IDLE_SECONDS
    options: Mapping[str, str] = field(default_factory=dict)


def run_workers(spark: Any, wanted: SparkWorkers) -> None:
    """Run the workers until each has had no tasks for the idle time.

    Raises the error that ends a worker, as Spark's exception: WorkerRefusedError, or an error of opening the catalog.
    Raises InvalidOptionError for a secret of the catalog, which executors must not get.
    """
    secret = [key for key in secret_options(wanted.options) if key not in options_of_files(wanted.options)]
    if secret:
        raise InvalidOptionError(
            f"The option '{secret[0]}' is secret, and Spark would send it to the executors. Give the workers the "
            "option 'token.provider.path', a file with a token on each executor, or run `interbed optimizer worker`."
        )
    context = spark.sparkContext
    numbers = context.parallelize(range(wanted.workers), wanted.workers)
    with _python_of(context):
        numbers.foreachPartition(partial(_work, wanted))


@contextmanager
def _python_of(context: Any) -> Iterator[None]:
    """Have the executors use the Python of `spark.pyspark.python`, which PySpark reads in spark-submit alone."""
    before = context.pythonExec
    if "PYSPARK_PYTHON" not in os.environ:
        context.pythonExec = context.getConf().get(PYTHON, before)
    try:
        yield
    finally:
        context.pythonExec = before


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the Spark application, and return its exit code."""
    parser = argparse.ArgumentParser(prog="interbed.spark_ext.optimizer_workers", description=__doc__)
    parser.add_argument("--uri", required=True, help="address of the optimizer; several are separated by commas")
    parser.add_argument("--workers", type=int, help="number of workers; by default the number of Spark's cores")
    parser.add_argument("--group", default=DEFAULT_GROUP, help="group of the tables to work for")
    parser.add_argument("--memory", default="1 gb", help="memory of a worker")
    parser.add_argument("--idle-time", default="1 min", help="end after this time without tasks")
    parser.add_argument(
        "-o", "--option", action="append", default=[], metavar="KEY=VALUE", help="option of the catalog"
    )
    given = parser.parse_args(arguments)
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.getOrCreate()
    try:
        run_workers(
            spark,
            SparkWorkers(
                uri=given.uri,
                workers=given.workers or spark.sparkContext.defaultParallelism,
                group=given.group,
                memory=parse_memory("--memory", given.memory),
                idle_seconds=parse_duration_millis("--idle-time", given.idle_time) / 1000,
                options=pairs(given.option),
            ),
        )
    finally:
        spark.stop()
    return 0


def _work(wanted: SparkWorkers, _: Iterable[int]) -> None:
    settings = WorkerSettings(group=wanted.group, memory=wanted.memory, place=place(), idle_seconds=wanted.idle_seconds)
    client = SchedulerClient(wanted.uri)
    try:
        OptimizerWorker(client, opened_with(wanted.options), settings).run()
    finally:
        client.close()


if __name__ == "__main__":
    sys.exit(main())
