"""Prometheus metrics of a run."""

import urllib.request
from pathlib import Path

import pytest

from interbed.ingest.cli.options import serve_metrics
from interbed.ingest.job import Ingestion
from interbed.ingest.run_settings import BadMessages
from interbed.ingest.sources.source import LagUnit
from tests.ingest.memory_source import MemorySource
from tests.ingest.shop import event, job, lake
from tests.support.waits import at_most

pytestmark = pytest.mark.integration


class BytePositionSource(MemorySource):
    """A source whose positions are byte offsets in a log."""

    lag_unit = LagUnit.BYTES


def test_a_run_serves_its_metrics(tmp_path: Path) -> None:
    events = [event("c", None, {"id": 1}), event("c", None, {"id": 2}), (None, b"[")]
    run = job(lake(tmp_path), MemorySource({"t": [events]}), bad_messages=BadMessages.SKIP)
    assert served(run) == {
        "interbed_ingest_messages_total 3.0",
        "interbed_ingest_bad_messages_total 1.0",
        "interbed_ingest_commits_total 1.0",
        'interbed_ingest_rows_total{table="shop.orders"} 2.0',
        "interbed_ingest_lag_messages 0.0",
    }


def test_a_lag_in_bytes_has_its_own_metric(tmp_path: Path) -> None:
    run = job(lake(tmp_path), BytePositionSource({"t": [[event("c", None, {"id": 1})]]}))
    assert {line for line in served(run) if "lag" in line} == {"interbed_ingest_lag_bytes 0.0"}


def served(run: Ingestion) -> set[str]:
    """Return the metrics of a finished run, without those of the file stores, which belong to the whole process."""
    with serve_metrics(run, "127.0.0.1", 0) as port:
        run.run()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=at_most(10)) as answer:
            lines = answer.read().decode().splitlines()
    return {line for line in lines if line.startswith("interbed_ingest_")}
