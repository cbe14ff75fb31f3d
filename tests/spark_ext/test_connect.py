"""Spark Connect: a client without a JVM uses a server that was started with interbed's settings."""

import sys
from pathlib import Path

import pytest

from interbed.spark_ext import spark_settings
from tests.support.spark.spark_connect import connect_server
from tests.support.spark.spark_process import run_program
from tests.support.waits import at_most

PROGRAM = Path(__file__).with_name("connect_program.py")
TIMEOUT_SECONDS = at_most(600)


def _client(*arguments: str, **variables: str) -> None:
    run_program(str(PROGRAM), *arguments, variables=variables, timeout_seconds=TIMEOUT_SECONDS)


@pytest.mark.long
def test_a_connect_client_uses_interbed_like_other_clients(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    settings = {**spark_settings(), "spark.sql.warehouse.dir": str(tmp_path / "spark")}
    # Spark runs a function of foreachBatch in this interpreter; interbed's own workers follow the settings.
    with connect_server(settings, tmp_path, {"PYSPARK_DRIVER_PYTHON": sys.executable}) as url:
        _client("everything", url, str(tmp_path))


@pytest.mark.long
def test_a_server_in_the_clients_own_process_is_configured_like_a_session(tmp_path: Path) -> None:
    # With SPARK_TESTING the server takes a free port.
    _client("statements", "local[2]", str(tmp_path), SPARK_TESTING="1", SPARK_LOCAL_IP="127.0.0.1")
