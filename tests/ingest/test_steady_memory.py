"""Memory of ingestion does not grow; `python -m tests.benchmarks.ingest --minutes 10` goes on for long."""

from pathlib import Path

from tests.benchmarks.ingest.memory import FLAT, watch
from tests.support.servers.kafka import KafkaServer


def test_a_run_without_end_keeps_to_its_memory_and_loses_nothing(kafka: KafkaServer, tmp_path: Path) -> None:
    """The rows are compared with the source's by what watches."""
    found = watch(kafka.bootstrap_servers, tmp_path / "lake", seconds=15, rate=1_500, base_rows=10_000)
    assert found["commits"] > 15
    assert found["growth"] < FLAT + 0.1
