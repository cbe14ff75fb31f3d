"""The process that forks interbed's Python workers: pyspark.daemon, told to run interbed.spark_ext.worker.

Spark starts it with `python -m interbed.spark_ext.daemon interbed.spark_ext.worker`. PySpark's daemon takes a worker
module from its arguments only if its name begins with "pyspark", and silently runs its own otherwise; so the module
goes by such a name here.
"""

import sys

from interbed.spark_ext import worker

ALIAS = "pyspark._interbed_worker"


def run() -> None:
    """Fork workers until Spark ends the process."""
    sys.modules[ALIAS] = worker
    sys.argv = [sys.argv[0], ALIAS]
    # Imported now, because the module reads its arguments while it is imported.
    from pyspark import daemon

    daemon.manager()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    run()
