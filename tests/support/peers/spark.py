"""Spark SQL in separate processes: with a Hive client of a given version, and with Iceberg's catalog."""

import contextlib
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Self

from tests.support.peers.cache import built_once, fingerprint, run
from tests.support.peers.process import PeerProcess
from tests.support.spark.spark_process import driver_jvm

PEERS = Path(__file__).resolve().parents[2] / "peers"
PROGRAM = Path(__file__).resolve().parents[1] / "spark" / "spark_program.py"

BUNDLED_CLIENT = "2.3.10"
HIVE_3_CLIENT = "3.1.3"
HIVE_4_CLIENT = "4.0.1"

HADOOP_OF_AWS = "3.4.2"
"""Version of Hadoop in Spark 4.1."""

Rows = list[list[str | None]]


class SparkProcess:
    """Spark session in a process that runs a program; close it (or leave its `with` block) to end it."""

    def __init__(
        self,
        program: Path,
        settings: Mapping[str, str],
        timeout_seconds: float = 300,
        variables: Mapping[str, str] | None = None,
        jvm: str | None = None,
    ) -> None:
        """Start the process; `jvm` are options of a JVM that the archive of Spark's classes does not fit."""
        self._directory = tempfile.TemporaryDirectory(prefix="interbed-spark-", ignore_cleanup_errors=True)
        home = Path(self._directory.name)
        values = {
            "spark.master": "local[2]",
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": "1",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.extraJavaOptions": f"{jvm or driver_jvm()} -Dderby.system.home={home}",
            "spark.local.dir": str(home),
            "spark.sql.session.timeZone": "UTC",
            **settings,
        }
        environment = {
            **os.environ,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
            **(variables or {}),
        }
        command = [sys.executable, str(program), json.dumps(values)]
        self._log = home / "stderr.log"
        self._process = PeerProcess(command, self._log, timeout_seconds, environment)

    def version(self) -> str:
        """Return Spark's version; the answer comes when the session has started."""
        version: str = self._process.call("version")
        return version

    def log(self) -> str:
        """Return the output of the process without its answers."""
        return self._log.read_text(errors="replace")

    def close(self) -> None:
        """End the process of the session."""
        with contextlib.closing(self._process):
            pass
        self._directory.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class SparkPeer(SparkProcess):
    """Spark session that runs SQL statements."""

    def __init__(
        self,
        settings: Mapping[str, str],
        timeout_seconds: float = 300,
        variables: Mapping[str, str] | None = None,
        jvm: str | None = None,
    ) -> None:
        super().__init__(PROGRAM, settings, timeout_seconds, variables, jvm)

    def run(self, statement: str) -> Rows:
        """Return the result of one statement, each value as text or None. Raises PeerError when Spark refuses it."""
        answer: Rows = self._process.call("run", sql=statement)
        return answer

    def web(self) -> tuple[str, str]:
        """Return the address of the session's web UI, which shows all work so far, and the application id."""
        address, application = self._process.call("web")
        return address, application

    def hive_token(self) -> str:
        """Return the delegation token that Spark's provider gets of Hive's metastore, as Hadoop's text."""
        text: str = self._process.call("hive token")
        return text

    def stream(self, source: str, columns: Sequence[str], target: str, checkpoint: Path) -> None:
        """Stream expressions of the columns of one table into another, until all present rows are processed."""
        self._process.call(
            "stream", source=source, columns=list(columns), target=target, checkpoint=f"file:{checkpoint}"
        )

    def together(self, scripts: Sequence[Sequence[str]]) -> list[list[str]]:
        """Run the scripts at the same time, each in its own session and thread; return the errors of each script."""
        refusals: list[list[str]] = self._process.call("together", scripts=[list(script) for script in scripts])
        return refusals


def hive_settings(uri: str, warehouse: Path, client: str = BUNDLED_CLIENT) -> dict[str, str]:
    """Return the settings of a session with Hive support over this metastore, with Hive's client of this version."""
    settings = {
        "spark.sql.catalogImplementation": "hive",
        "spark.hadoop.hive.metastore.uris": uri,
        "spark.hadoop.hive.exec.dynamic.partition.mode": "nonstrict",
        "spark.sql.warehouse.dir": f"file:{warehouse}",
    }
    if client != BUNDLED_CLIENT:
        settings |= {
            "spark.sql.hive.metastore.version": client,
            "spark.sql.hive.metastore.jars": "path",
            "spark.sql.hive.metastore.jars.path": f"file://{hive_jars(client)}/*",
        }
    return settings


def iceberg_settings(uri: str, warehouse: Path, catalog: str = "ice") -> dict[str, str]:
    """Return the settings of a session with Iceberg's Hive catalog of this name over this metastore."""
    jars = maven_jars("iceberg", "iceberg-spark-1.12.0")
    return {
        "spark.jars": ",".join(str(jar) for jar in sorted(jars.glob("*.jar"))),
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        f"spark.sql.catalog.{catalog}": "org.apache.iceberg.spark.SparkCatalog",
        f"spark.sql.catalog.{catalog}.type": "hive",
        f"spark.sql.catalog.{catalog}.uri": uri,
        f"spark.sql.catalog.{catalog}.warehouse": f"file:{warehouse}",
        f"spark.sql.catalog.{catalog}.cache-enabled": "false",
    }


def hive_jars(version: str) -> Path:
    """Return a directory with the jars that Spark loads as Hive's client of this version."""
    return maven_jars("spark_hive", f"spark-hive-{version}", f"-Dhive.version={version}")


def hadoop_aws_jars() -> list[Path]:
    """Return the jars of Hadoop's S3 client of version HADOOP_OF_AWS, without their dependencies in Hadoop itself."""
    return sorted(maven_jars("hadoop_aws", f"hadoop-aws-{HADOOP_OF_AWS}").glob("*.jar"))


def maven_jars(peer: str, name: str, *more: str) -> Path:
    """Return a directory with the jars that the pom.xml of this peer lists; `more` are arguments for Maven."""
    pom = PEERS / peer / "pom.xml"

    def build(directory: Path) -> None:
        run("mvn", "-q", "-B", *more, "-f", pom, "dependency:copy-dependencies", f"-DoutputDirectory={directory}")

    return built_once(f"{name}-{fingerprint(pom)}", build)


@contextlib.contextmanager
def peers_at_once(*settings: Mapping[str, str]) -> Iterator[list[SparkPeer]]:
    """Start several sessions at the same time, and yield them when all have started."""
    with contextlib.ExitStack() as stack:
        # The processes start concurrently; only the request for the version waits for each of them.
        peers = [stack.enter_context(SparkPeer(one)) for one in settings]
        for peer in peers:
            peer.version()
        yield peers
