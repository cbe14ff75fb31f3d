"""A run of ingestion as people and Prometheus see it: messages, rows, bad messages, commits, and the lag."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from rich.console import Console
from rich.live import Live
from rich.text import Text

from interbed.ingest.job import Ingestion

REFRESH_PER_SECOND = 2


class IngestMetrics:
    """A collector of Prometheus for one run; see docs/metrics.md."""

    def __init__(self, job: Ingestion) -> None:
        self._job = job

    def collect(self) -> Iterator[Metric]:
        """The figures at this time."""
        result = self._job.result
        yield CounterMetricFamily("interbed_ingest_messages", "Messages read.", value=result.messages)
        yield CounterMetricFamily("interbed_ingest_bad_messages", "Messages that could not be taken.", value=result.bad)
        yield CounterMetricFamily("interbed_ingest_commits", "Commits made.", value=result.commits)
        rows = CounterMetricFamily("interbed_ingest_rows", "Rows committed.", labels=["table"])
        for name, count in sorted(result.rows.items()):
            rows.add_metric([name], count)
        yield rows
        # Its name ends with the unit, as Prometheus wants it: a metric has one unit, whatever it is of.
        unit = result.lag_unit.value
        yield GaugeMetricFamily(f"interbed_ingest_lag_{unit}", f"Not yet read, in {unit}.", value=result.lag, unit=unit)


@contextmanager
def serve_metrics(job: Ingestion, host: str, port: int) -> Iterator[int]:
    """Serve the metrics of a run while the block runs, on a free port where it is 0; yields the port."""
    registry = CollectorRegistry()
    registry.register(IngestMetrics(job))
    server, thread = start_http_server(port, host, registry)
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def shown_progress(job: Ingestion) -> Iterator[None]:
    """Shows how a run goes on standard error while the block runs; nothing where nobody looks."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    done = threading.Event()
    with Live(_line(job), console=console, auto_refresh=False, transient=True) as live:

        def renew() -> None:
            while not done.wait(1 / REFRESH_PER_SECOND):
                live.update(_line(job), refresh=True)

        thread = threading.Thread(target=renew, name="ingest-progress", daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()


def _line(job: Ingestion) -> Text:
    result = job.result
    rows = sum(result.rows.values())
    bad = f", {result.bad:,} bad" if result.bad else ""
    return Text(
        f"{result.messages:,} messages{bad} · {rows:,} rows in {result.commits:,} commits · "
        f"{result.messages_per_second:,.0f} messages/s · lag {result.lag:,} {result.lag_unit}"
    )
