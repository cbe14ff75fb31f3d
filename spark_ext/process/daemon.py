"""The process that forks interbed's Python workers: pyspark.daemon with interbed.spark_ext.process.worker.

Spark starts it with `python -m interbed.spark_ext.process.daemon interbed.spark_ext.process.worker`. PySpark's daemon
takes a worker module from its arguments only if its name begins with "pyspark", and silently runs its own otherwise.
The module has such an alias here.

The modules of planners and workers are imported here once, so that every forked process is ready at once. That is safe
as long as no import starts a thread that works: the pools of Arrow and OpenBLAS begin with their first task.
"""

import os
import sys
from contextlib import suppress
from importlib import import_module

from interbed.spark_ext.process import worker

ALIAS = "pyspark._interbed_worker"


BY_USE = (
    "interbed.storage.base.incoming",
    "interbed.storage.base.types.casting.cast",
    "interbed.storage.base.types.exact_cast",
    "interbed.storage.files.file_index.spec",
    "interbed.storage.files.format.avro",
    "interbed.storage.files.format.orc",
    "interbed.storage.files.format.parquet",
    "interbed.storage.lsm.merge_function.aggregate",
    "interbed.storage.read.change_read",
    "interbed.storage.upkeep.changed_rows",
    "interbed.storage.version.maintenance",
    "numpy.ma",
    "numpy.random",
)
"""Modules that are imported by use, and that tasks use."""


def preload() -> None:
    """Import the modules of planners and workers. None imports pandas, which takes longer than all of them."""
    # Tasks run in parallel; none may take all cores.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # An import that fails here fails again in a worker, which can report it.
    with suppress(ImportError):
        import interbed.spark_ext.process.planner
        import interbed.spark_ext.read.reader
        import interbed.spark_ext.write.writer  # noqa: F401

        for name in BY_USE:
            import_module(name)


def run() -> None:
    """Fork workers until Spark ends the process."""
    preload()
    sys.modules[ALIAS] = worker
    sys.argv = [sys.argv[0], ALIAS]
    # Imported late: the module reads its arguments while it is imported.
    from pyspark import daemon

    daemon.manager()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    run()
