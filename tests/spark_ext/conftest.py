"""One Spark session for all tests of the extension, and a separate catalog for each test."""

import gc
import itertools
import os
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hatch_build import INTERFACE, JAR_PATH, SOURCE_FOLDERS, build_jar
from pyspark.sql import DataFrame, Row, SparkSession

from interbed.spark_ext import configure
from tests.support.servers.kafka import KafkaServer, running_kafka
from tests.support.shares import LONG
from tests.support.spark.spark_process import QUICK_QUERIES, USUAL_QUERIES, driver_jvm

ROOT = Path(__file__).resolve().parents[2]
_NUMBERS = itertools.count()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Ignore the sockets that py4j leaves to the garbage collector, which is no fault of the tests."""
    here = f"{Path(__file__).parent}{os.sep}"
    for item in items:
        if str(item.path).startswith(here):
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))


@pytest.fixture(autouse=True, scope="module")
def collect_sockets() -> Iterator[None]:
    """Collect py4j's sockets here, so that the tests of another module do not report them."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture(name="kafka", scope="session")
def _kafka() -> Iterator[KafkaServer]:
    """A broker of these tests: topics of the documentation have the names of those of ingestion without Spark."""
    with running_kafka() as server:
        yield server


@dataclass(frozen=True)
class SparkLake:
    """A catalog in Spark; `{lake}` in a statement is replaced by its name."""

    spark: SparkSession
    name: str
    warehouse: Path

    def frame(self, statement: str) -> DataFrame:
        """Return the data frame of a statement."""
        return self.spark.sql(statement.replace("{lake}", self.name))

    def sql(self, statement: str) -> list[Row]:
        """Return the rows of a statement."""
        return self.frame(statement).collect()

    def tuples(self, statement: str) -> list[tuple[Any, ...]]:
        """Return the rows of a statement as plain tuples."""
        return [tuple(row) for row in self.sql(statement)]

    def plan(self, statement: str) -> str:
        """Return the output of EXPLAIN for a statement."""
        return str(self.sql(f"EXPLAIN {statement}")[0][0])

    def files(self, table: str) -> list[str]:
        """Return data files of a table `database.table`, committed or not, relative to its directory."""
        database, name = table.split(".")
        directory = self.warehouse / f"{database}.db" / name
        return sorted(
            str(file.relative_to(directory))
            for file in directory.rglob("*")
            if file.is_file() and any(part.startswith("bucket-") for part in file.relative_to(directory).parts)
        )


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A small session with the extension; the jar is compiled again when a source is newer."""
    jar = ROOT / JAR_PATH
    sources = [ROOT / INTERFACE, *(file for folder in SOURCE_FOLDERS for file in (ROOT / folder).rglob("*.java"))]
    if not jar.exists() or jar.stat().st_mtime < max(file.stat().st_mtime for file in sources):
        build_jar(ROOT)
    builder = (
        SparkSession.builder.master("local[2]")
        .appName("interbed tests")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.extraJavaOptions", driver_jvm())
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("spark-warehouse")))
        .config("spark.log.level", "OFF")
    )
    for name, value in ({} if LONG else QUICK_QUERIES).items():
        builder = builder.config(name, value)
    session = configure(builder).getOrCreate()
    yield session
    session.stop()


@pytest.fixture
def usual_queries(spark: SparkSession) -> Iterator[None]:
    """Run queries of the test as Spark does by default: compiled, and planned again while they run."""
    before = {name: str(spark.conf.get(name)) for name in USUAL_QUERIES}
    for name, value in USUAL_QUERIES.items():
        spark.conf.set(name, value)
    yield
    for name, value in before.items():
        spark.conf.set(name, value)


@pytest.fixture
def new_lake(spark: SparkSession, tmp_path: Path) -> Iterator[Callable[[], SparkLake]]:
    """Factory of catalogs over directories of the test."""
    made: list[SparkLake] = []

    def make() -> SparkLake:
        number = next(_NUMBERS)
        lake = SparkLake(spark, f"lake{number}", tmp_path / f"warehouse{number}")
        lake.sql(f"CREATE CATALOG {lake.name} WITH ('type' = 'interbed', 'warehouse' = '{lake.warehouse}')")
        made.append(lake)
        return lake

    yield make
    spark.sql("USE spark_catalog")
    for lake in made:
        spark.sql(f"DROP CATALOG IF EXISTS {lake.name}")


@pytest.fixture
def lake(new_lake: Callable[[], SparkLake]) -> SparkLake:
    """A catalog with the empty database `db`."""
    made = new_lake()
    made.sql("CREATE DATABASE {lake}.db")
    return made
