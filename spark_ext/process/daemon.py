"""The process that forks interbed's Python workers: pyspark.daemon, made to run interbed.spark_ext.process.worker.

Spark starts it with `python -m interbed.spark_ext.process.daemon interbed.spark_ext.process.worker`. PySpark's daemon
takes a worker module from its arguments only if its name begins with "pyspark", and silently runs its own otherwise; so
the module goes by such a name here.

What planners and workers need is imported here, once, so that every process forked is ready at once. That is safe as
long as no import starts a thread that does work: Arrow's and OpenBLAS's pools begin with their first task.
"""

import os
import sys
from contextlib import suppress
from importlib.abc import MetaPathFinder

from interbed.spark_ext.process import worker

ALIAS = "pyspark._interbed_worker"


class _WithoutPandas(MetaPathFinder):
    """Hides pandas, which PyArrow imports where it is there: that takes longer than all the rest, and none needs it."""

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError("pandas is hidden while interbed's workers load", name=fullname)


def preload() -> None:
    """Import what planners and workers need, without pandas."""
    # Tasks run side by side; none may take all cores for itself.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    hiding = _WithoutPandas()
    sys.meta_path.insert(0, hiding)
    try:
        # An import that fails shall fail in a worker, which can report it.
        with suppress(ImportError):
            import interbed.spark_ext.process.planner
            import interbed.spark_ext.read.reader
            import interbed.spark_ext.write.writer  # noqa: F401
    finally:
        sys.meta_path.remove(hiding)


def run() -> None:
    """Fork workers until Spark ends the process."""
    preload()
    sys.modules[ALIAS] = worker
    sys.argv = [sys.argv[0], ALIAS]
    # Imported now, because the module reads its arguments while it is imported.
    from pyspark import daemon

    daemon.manager()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    run()
