"""Class-data archive of Spark's JVM: a driver that maps it needs half of the processor time to start.

The archive is a dynamic one of the JDK (`-XX:ArchiveClassesAtExit`, JDK 13 and newer). It fits one class path, so that
there is one for each installation of Spark and each JDK. A JVM whose class path is another one ignores it.

    python -m tests.support.spark.class_archive ARCHIVE    writes it, by statements that load Spark's usual classes
"""

import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pyspark
from pyspark.sql import SparkSession

from tests.support.peers.cache import built_once, fingerprint
from tests.support.spark.spark_process import QUICK_JVM, clean_environment
from tests.support.waits import at_most

ROOT = Path(__file__).resolve().parents[3]

QUIET = "-Xshare:auto -Xlog:cds=off -Xlog:cds+dynamic=off -Xlog:class+path=off"
"""A JVM does not print that the archive fits another class path."""

_STATEMENTS = (
    "CREATE TABLE t (id BIGINT, name STRING, at TIMESTAMP, p DATE) USING parquet PARTITIONED BY (p)",
    "INSERT INTO t VALUES (1, 'a', TIMESTAMP '2024-01-01 00:00:00', DATE '2024-01-01'), (2, NULL, NULL, NULL)",
    "SELECT name, count(*), max(at) OVER (ORDER BY name) FROM t WHERE id > 0 GROUP BY name, at ORDER BY 1 LIMIT 5",
    "SELECT a.id, b.struct.x FROM t a JOIN (SELECT id, named_struct('x', array(id)) struct FROM t) b ON a.id = b.id",
    "EXPLAIN SELECT * FROM t WHERE p IN (SELECT p FROM t)",
    "SHOW TABLES",
    "DESCRIBE TABLE EXTENDED t",
)


@cache
def archive_options() -> str:
    """Return the JVM options that map the archive of the installed Spark; it is built when there is none."""
    java = os.path.join(os.environ["JAVA_HOME"], "bin", "java") if "JAVA_HOME" in os.environ else "java"
    version = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=at_most(60), check=True).stderr
    installed = Path(pyspark.__file__).parent
    jars = "\n".join(f"{jar} {jar.stat().st_mtime_ns}" for jar in sorted(installed.glob("jars/*.jar")))
    name = f"spark-classes-{fingerprint(Path(__file__), text=version + jars)}"

    def build(directory: Path) -> None:
        subprocess.run(
            [sys.executable, "-m", "tests.support.spark.class_archive", str(directory / "spark.jsa")],
            cwd=ROOT,
            env=clean_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=at_most(600),
            check=True,
        )

    return f"-XX:SharedArchiveFile={built_once(name, build) / 'spark.jsa'} {QUIET}"


def _write(archive: str) -> None:
    with TemporaryDirectory() as directory:
        builder = (
            SparkSession.builder.master("local[2]")
            .config("spark.ui.enabled", "false")
            .config("spark.driver.memory", "1g")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.sql.shuffle.partitions", "1")
            .config("spark.sql.warehouse.dir", directory)
            .config("spark.log.level", "OFF")
            .config(
                "spark.driver.extraJavaOptions",
                f"{QUICK_JVM} -XX:ArchiveClassesAtExit={archive} {QUIET}",
            )
        )
        session = builder.getOrCreate()
        for statement in _STATEMENTS:
            session.sql(statement).collect()
        gateway = session.sparkContext._gateway
        assert gateway is not None
        jvm = gateway.proc
        session.stop()
        # The JVM ends when its standard input does, and writes the archive then.
        jvm.stdin.close()
        jvm.wait(timeout=at_most(300))


if __name__ == "__main__":
    _write(sys.argv[1])
