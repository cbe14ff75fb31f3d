"""Repeated rewrites of an Iceberg table by one engine, in this process; run by tests/benchmarks/iceberg_rewrites.py.

    python -m tests.benchmarks.iceberg_jobs --stage interbed|Spark TABLE DIRECTORY WAREHOUSE JOB

The table is restored after each rewrite: new versions and their files are deleted. interbed also measures a read of the
table before and after the last rewrite.
"""

import argparse
import json
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import interbed
from tests.benchmarks.iceberg_scans import interbed_read, spark_session
from tests.benchmarks.spark_figures import Figures, least, timed

REPEATS = 3
WARM_UPS = {"interbed": 1, "Spark": 3}

Job = Callable[[], object]

SQL = {
    "keys": "CALL ice.system.rewrite_data_files(table => '{table}', options => map('delete-file-threshold', '1'))",
    "rewrite": "CALL ice.system.rewrite_data_files(table => '{table}', options => map('rewrite-all', 'true'))",
    "positions": "CALL ice.system.rewrite_position_delete_files(table => '{table}', options => "
    "map('rewrite-all', 'true'))",
}
"""Iceberg's procedure for each job."""
MODES = {"keys": "minor", "rewrite": "full", "positions": "minor"}
"""Compaction mode of interbed for each job."""


class RestoredTable:
    """Table of a directory that can be restored to its initial state."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._hint = directory / "metadata" / "version-hint.text"
        self._version = self._hint.read_text()
        self._files = {path for path in directory.rglob("*") if path.is_file()}

    def restore(self) -> None:
        """Delete new files, and restore the version hint."""
        for path in [path for path in self._directory.rglob("*") if path.is_file() and path not in self._files]:
            path.unlink()
        self._hint.write_text(self._version)


def interbed_job(directory: Path, job: str) -> Job:
    """Return a job of interbed, which opens the table each time."""
    return lambda: interbed.load_iceberg_table(f"file:{directory}").compact(mode=MODES[job])


def spark_job(table: str, warehouse: Path, scratch: Path, job: str) -> Job:
    """Return a job of Iceberg's procedure, in a session on two threads."""
    spark = spark_session(warehouse, scratch)
    # The catalog would continue with a cached table that no longer exists.
    spark.conf.set("spark.sql.catalog.ice.cache-enabled", "false")
    return lambda: spark.sql(SQL[job].format(table=table)).collect()


def measured(engine: str, job: Job, table: RestoredTable) -> Figures:
    """Return the minimal figures of the job."""
    runs = []
    for number in range(WARM_UPS[engine] + REPEATS):
        table.restore()
        run = timed(job)
        if number >= WARM_UPS[engine]:
            runs.append(run)
    return least(runs)


def main() -> None:
    """Parse the command line, run the job, and print the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stage", choices=sorted(WARM_UPS), required=True)
    parser.add_argument("table")
    parser.add_argument("directory", type=Path)
    parser.add_argument("warehouse", type=Path)
    parser.add_argument("job", choices=sorted(SQL))
    given = parser.parse_args()
    table = RestoredTable(given.directory)
    with tempfile.TemporaryDirectory(prefix="interbed-bench-", ignore_cleanup_errors=True) as scratch:
        if given.stage == "Spark":
            job = spark_job(given.table, given.warehouse, Path(scratch), given.job)
        else:
            job = interbed_job(given.directory, given.job)
        try:
            found = measured(given.stage, job, table)
            metadata = interbed.load_iceberg_table(f"file:{given.directory}").metadata.metadata_location
            read = interbed_read(metadata)
            rows = read(None)
            reading = least([timed(partial(read, None)) for _ in range(REPEATS)])
        finally:
            table.restore()
        print(json.dumps({**found, "rows": rows, "read_cpu_s": reading["cpu_s"], "read_wall_s": reading["wall_s"]}))


if __name__ == "__main__":
    main()
