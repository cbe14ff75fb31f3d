"""Ingestion by a Spark Connect client, which has no JVM."""

import sys
from pathlib import Path

import pytest

from interbed.spark_ext import spark_settings
from tests.ingest.shop import event
from tests.ingest.test_kafka_to_tables import make_topic, produce
from tests.support.servers.kafka import KafkaServer
from tests.support.spark.spark_connect import connect_server
from tests.support.spark.spark_process import run_program
from tests.support.waits import at_most

PROGRAM = Path(__file__).with_name("connect_program.py")
ROOT = Path(__file__).parents[3]
TIMEOUT_SECONDS = at_most(300)


@pytest.mark.long
def test_a_client_ingests_by_connect(kafka: KafkaServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    make_topic(kafka, "connect")
    produce(kafka, "connect", [event("c", None, {"id": i}) for i in range(10)])
    settings = {**spark_settings(), "spark.sql.warehouse.dir": str(tmp_path / "spark")}
    with connect_server(settings, tmp_path, {"PYSPARK_DRIVER_PYTHON": sys.executable}) as url:
        arguments = (url, str(tmp_path / "lake"), kafka.bootstrap_servers, "connect")
        run_program(str(PROGRAM), *arguments, variables={"PYTHONPATH": str(ROOT)}, timeout_seconds=TIMEOUT_SECONDS)
