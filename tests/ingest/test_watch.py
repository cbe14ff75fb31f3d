"""A run as Prometheus sees it."""

import urllib.request
from pathlib import Path

import pytest

from interbed.ingest.job import Ingestion
from interbed.ingest.run_settings import BadMessages
from interbed.ingest.sources.source import LagUnit
from interbed.ingest.watch import serve_metrics
from tests.ingest.memory_source import MemorySource
from tests.ingest.shop import event, job, lake

pytestmark = pytest.mark.integration


class Bytes(MemorySource):
    """A source whose positions are places in a log."""

    lag_unit = LagUnit.BYTES


def test_a_run_serves_what_it_has_done(tmp_path: Path) -> None:
    events = [event("c", None, {"id": 1}), event("c", None, {"id": 2}), (None, b"[")]
    run = job(lake(tmp_path), MemorySource({"t": [events]}), bad_messages=BadMessages.SKIP)
    assert served(run) == {
        "interbed_ingest_messages_total 3.0",
        "interbed_ingest_bad_messages_total 1.0",
        "interbed_ingest_commits_total 1.0",
        'interbed_ingest_rows_total{table="shop.orders"} 2.0',
        "interbed_ingest_lag_messages 0.0",
    }


def test_a_lag_that_is_in_bytes_has_a_name_of_its_own(tmp_path: Path) -> None:
    run = job(lake(tmp_path), Bytes({"t": [[event("c", None, {"id": 1})]]}))
    assert {line for line in served(run) if "lag" in line} == {"interbed_ingest_lag_bytes 0.0"}


def served(run: Ingestion) -> set[str]:
    """The values of a run that are served when it has come to its end; those of stores are the whole process's."""
    with serve_metrics(run, "127.0.0.1", 0) as port:
        run.run()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            lines = answer.read().decode().splitlines()
    return {line for line in lines if line.startswith("interbed_ingest_")}
