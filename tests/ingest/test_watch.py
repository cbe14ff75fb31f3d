"""A run as Prometheus sees it."""

import urllib.request
from pathlib import Path

from interbed.ingest.job import BadMessages
from interbed.ingest.watch import serve_metrics
from tests.ingest.memory_source import MemorySource
from tests.ingest.shop import event, job, lake


def test_a_run_serves_what_it_has_done(tmp_path: Path) -> None:
    events = [event("c", None, {"id": 1}), event("c", None, {"id": 2}), (None, b"[")]
    run = job(lake(tmp_path), MemorySource({"t": [events]}), bad_messages=BadMessages.SKIP)
    with serve_metrics(run, "127.0.0.1", 0) as port:
        run.run()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            lines = answer.read().decode().splitlines()
    assert {line for line in lines if not line.startswith("#")} == {
        "interbed_ingest_messages_total 3.0",
        "interbed_ingest_bad_messages_total 1.0",
        "interbed_ingest_commits_total 1.0",
        'interbed_ingest_rows_total{table="shop.orders"} 2.0',
        "interbed_ingest_lag_messages 0.0",
    }
