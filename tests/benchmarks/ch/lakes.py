"""Targets of PostgreSQL's changes: tables of interbed or of Iceberg, each with its ingestion."""

import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import interbed
from interbed.storage.upkeep.health import table_health
from tests.benchmarks.ch.children import ChildProcess
from tests.benchmarks.ch.iceberg_job import BUCKETS, NAMESPACE, iceberg_settings
from tests.benchmarks.ch.tpcc.schema import CHANGING

START_SECONDS_MAX = 1_800.0
REWRITE_SECONDS = 120.0
"""Interval of the maintenance by Iceberg's procedures, if it is on."""
WRITE_ONLY = {"write-only": "true"}
OPTIMIZED = {**WRITE_ONLY, "self-optimizing.max-read-amplification": "4"}
_INTERBED = (sys.executable, "-m", "interbed.cli")
_DATABASE = "ch"


class LakeTables(Protocol):
    """Tables of a format. The caller owns the directories."""

    namespace: str
    """Database with the tables, in Spark."""
    is_interbed: bool

    def reader_settings(self) -> dict[str, str]:
        """Return the settings of a Spark session that reads the tables."""
        ...

    def ingest(self, url: str) -> ChildProcess:
        """Start to ingest the rows of the database, and the changes after them."""
        ...

    def finish(self, ingestion: ChildProcess, url: str) -> None:
        """Ingest all rows that are now in the database, and end the ingestion."""
        ...

    def optimizer(self) -> ChildProcess | None:
        """Start the process that maintains the tables; return None if there is none."""
        ...


class InterbedLake:
    """interbed's tables with primary keys, merged when they are read; buckets for two cores."""

    namespace = f"lake.{_DATABASE}"
    is_interbed = True

    def __init__(
        self, directory: Path, options: Mapping[str, str], *, commit_seconds: float, is_optimized: bool
    ) -> None:
        self._directory = directory
        self._warehouse = f"warehouse=file:{directory}/lake"
        self._options = {"bucket": str(BUCKETS), "file.compression": "zstd", **options}
        self._every = commit_seconds
        self._is_optimized = is_optimized

    def reader_settings(self) -> dict[str, str]:
        return {
            "spark.sql.catalog.lake": "interbed.spark.SparkCatalog",
            "spark.sql.catalog.lake.warehouse": f"file:{self._directory}/lake",
        }

    def ingest(self, url: str) -> ChildProcess:
        return ChildProcess("ingestion", self._command(url), self._directory)

    def finish(self, ingestion: ChildProcess, url: str) -> None:
        ingestion.stop()
        with ChildProcess("catching-up", [*self._command(url), "--until-end"], self._directory) as rest:
            rest.wait()

    def optimizer(self) -> ChildProcess | None:
        if not self._is_optimized:
            return None
        journal = f"sqlite:///{self._directory}/optimizer.db"
        command = [*_INTERBED, "optimizer", "run", "-o", self._warehouse, "--db", journal, "--json"]
        return ChildProcess("optimizer", command, self._directory)

    def shape(self) -> dict[str, dict[str, float]]:
        """Return, for each table that changes, the runs and files that reads must merge, from its metadata."""
        catalog = interbed.load_catalog("ch", warehouse=f"file:{self._directory}/lake")
        found = {}
        for table in CHANGING:
            health = table_health(catalog.get_table(f"{_DATABASE}.{table}").store)
            found[table] = {
                "runs": health.runs_max,
                "read_amplification": health.read_amplification,
                "files": health.files,
                "vectors": health.vector_files,
                "rows": health.rows,
            }
        return found

    def _command(self, url: str) -> list[str]:
        command = [*_INTERBED, "ingest", "postgres", "-o", self._warehouse, "--url", url, "--database", _DATABASE]
        command += ["--slot", "ch", "--publication", "ch", "--json"]
        command += ["--commit-interval", f"{self._every * 1000:.0f} ms"]
        for key, value in self._options.items():
            command += ["--table-option", f"{key}={value}"]
        return command


class IcebergLake:
    """Iceberg's tables, merge-on-read, with as many buckets; see iceberg_job.py."""

    namespace = NAMESPACE
    is_interbed = False

    def __init__(self, directory: Path, version: int, *, commit_seconds: float, rewrite_seconds: float) -> None:
        self._directory = directory
        self._version = version
        self._every = commit_seconds
        self._rewrite_seconds = rewrite_seconds

    def reader_settings(self) -> dict[str, str]:
        return iceberg_settings(self._directory)

    def ingest(self, url: str) -> ChildProcess:
        numbers = [str(self._version), str(self._every), str(self._rewrite_seconds)]
        command = [sys.executable, "-m", "tests.benchmarks.ch.iceberg_job", url, str(self._directory), *numbers]
        return ChildProcess("ingestion", command, self._directory)

    def finish(self, ingestion: ChildProcess, url: str) -> None:
        """Stop the job: after the signal it reads to the end."""
        ingestion.stop()

    def optimizer(self) -> ChildProcess | None:
        """Return None: the ingestion itself maintains the tables."""
        return None


def has_optimizer() -> bool:
    """Return whether the command `interbed optimizer run` exists."""
    return importlib.util.find_spec("interbed.optimizer.cli.run") is not None


CONTENDERS = (
    "on",
    "off",
    "writer",
    "iceberg-v2",
    "iceberg-v3",
    "iceberg-v2-rewrites",
    "iceberg-v3-rewrites",
)
"""interbed with the optimizer, without compaction, and with a writer that compacts; Iceberg without rewrites, and with
its procedures.
"""


def lake_of(contender: str, directory: Path, *, commit_seconds: float, options: Mapping[str, Any]) -> LakeTables:
    """Return the tables of one of CONTENDERS; `options` are added to those of interbed's tables."""
    if contender.startswith("iceberg-v"):
        rewrite_seconds = REWRITE_SECONDS if contender.endswith("-rewrites") else 0.0
        version = int(contender[len("iceberg-v")])
        return IcebergLake(directory, version, commit_seconds=commit_seconds, rewrite_seconds=rewrite_seconds)
    of_contender = {"on": OPTIMIZED, "off": WRITE_ONLY, "writer": {}}[contender]
    return InterbedLake(
        directory, {**of_contender, **options}, commit_seconds=commit_seconds, is_optimized=contender == "on"
    )
