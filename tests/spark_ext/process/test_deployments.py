"""Deployments of Spark: executors in other processes, the SQL shell, Python on another host or missing."""

import contextlib
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyspark
import pytest

from interbed import load_catalog
from interbed.spark_ext import spark_settings
from tests.support.peers.process import PeerError
from tests.support.peers.spark import SparkPeer
from tests.support.spark.spark_process import QUICK_JVM, driver_jvm
from tests.support.waits import at_most

TIMEOUT_SECONDS = at_most(300)


def _catalog(warehouse: Path) -> dict[str, str]:
    return {
        **spark_settings(),
        "spark.sql.catalog.lake": "interbed.spark.SparkCatalog",
        "spark.sql.catalog.lake.warehouse": str(warehouse),
        "spark.sql.warehouse.dir": str(warehouse / "spark"),
    }


@pytest.mark.long
def test_executors_in_other_processes_read_and_write(tmp_path: Path) -> None:
    settings = {
        **_catalog(tmp_path),
        "spark.master": "local-cluster[2,1,1024]",
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": QUICK_JVM,
    }
    with SparkPeer(settings) as spark:
        spark.run("CREATE DATABASE lake.db")
        spark.run(
            "CREATE TABLE lake.db.t (id BIGINT NOT NULL, v STRING) TBLPROPERTIES ('primary-key'='id', 'bucket'='2')"
        )
        spark.run("INSERT INTO lake.db.t SELECT id, 'old' FROM range(100)")
        spark.run("INSERT INTO lake.db.t SELECT id, 'new' FROM range(50)")

        assert spark.run("SELECT v, count(*) FROM lake.db.t GROUP BY v ORDER BY v") == [["new", "50"], ["old", "50"]]


@pytest.mark.long
def test_the_sql_shell_accepts_the_printed_arguments(tmp_path: Path) -> None:
    printed = subprocess.run(
        [sys.executable, "-m", "interbed.cli", "spark", "settings", "-c", "lake", "-o", f"warehouse={tmp_path}"],
        capture_output=True,
        text=True,
        check=True,
        timeout=TIMEOUT_SECONDS,
    )
    statements = "CREATE DATABASE lake.db; CREATE TABLE lake.db.t AS SELECT 7 AS id; SELECT id + 1 FROM lake.db.t;"
    shell = subprocess.run(
        [
            Path(pyspark.__path__[0]) / "bin" / "spark-sql",
            "--master=local[1]",
            f"--driver-java-options={driver_jvm()}",
            "--conf=spark.ui.enabled=false",
            f"--conf=spark.sql.warehouse.dir={tmp_path}/spark",
            "--conf=spark.sql.catalogImplementation=in-memory",
            *shlex.split(printed.stdout),
            "-e",
            statements,
        ],
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )

    assert shell.returncode == 0, shell.stderr[-3000:]
    assert shell.stdout.split() == ["8"]


@contextlib.contextmanager
def _planner() -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Start a planner's process, and yield its address."""
    command = [sys.executable, "-m", "interbed.cli", "spark", "planner", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip(), process
        finally:
            process.terminate()


LACKING = r"has no interbed.*no module interbed.*spark\.interbed\.python.*venv-pack"


@pytest.fixture
def bare_python(tmp_path: Path) -> Path:
    """An interpreter without any package."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True, timeout=at_most(60))
    return tmp_path / "bare" / "bin" / "python"


@pytest.mark.long
def test_a_remote_planner_serves_a_driver_without_python(
    tmp_path: Path, bare_python: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with load_catalog(warehouse=str(tmp_path / "lake")) as catalog:
        catalog.create_database("db")
        schema = pa.schema([("id", pa.int64())])
        log = catalog.create_table("db.log", schema)
        keyed = catalog.create_table("db.keyed", schema, primary_keys=["id"], options={"bucket": "1"})
        for table in (log, keyed):
            table.append(pa.table({"id": [1, 2]}))
            table.append(pa.table({"id": [2, 3]}))
    with _planner() as (endpoint, process):
        # The bare interpreter must find no package of interbed on its path.
        monkeypatch.delenv("PYTHONPATH", raising=False)
        settings = {**_catalog(tmp_path / "lake"), "spark.interbed.planner": endpoint}
        settings["spark.interbed.python"] = str(bare_python)
        with SparkPeer(settings) as spark:
            assert spark.run("SHOW TABLES IN lake.db") == [["db", "keyed", "False"], ["db", "log", "False"]]
            # Spark's own reader reads the files of append tables.
            assert spark.run("SELECT sum(id), count(*) FROM lake.db.log") == [["8", "4"]]
            with pytest.raises(PeerError, match=LACKING) as caught:
                spark.run("SELECT count(*) FROM lake.db.keyed WHERE id > 0")
            # Spark adds its own report of the job to the task's exception; the task itself contributes this one line.
            assert "PythonWorkerChannel" not in str(caught.value)
            with pytest.raises(PeerError, match=LACKING) as caught:
                spark.run("CALL lake.sys.compact(table => 'db.keyed', compact_strategy => 'full')")
            assert len(str(caught.value).splitlines()) == 1
            process.terminate()
            process.wait(TIMEOUT_SECONDS)
            with pytest.raises(PeerError, match=r"planner at thrift://127\.0\.0\.1:\d+ .* does not answer"):
                spark.run("SHOW TABLES IN lake.db")


# The test before covers a driver without interbed, too.
@pytest.mark.long
@pytest.mark.parametrize(
    ("python", "reason"), [("bare", LACKING), ("missing", r"There is no Python \S+ on this node.*venv-pack")]
)
def test_a_driver_whose_python_lacks_interbed_reports_it_in_one_line(
    python: str, reason: str, tmp_path: Path, bare_python: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    executable = bare_python if python == "bare" else tmp_path / "missing" / "python"
    with (
        SparkPeer({**_catalog(tmp_path / "lake"), "spark.interbed.python": str(executable)}) as spark,
        pytest.raises(PeerError, match=reason) as caught,
    ):
        spark.run("SHOW DATABASES IN lake")
    assert len(str(caught.value).splitlines()) == 1
