"""A run of ingestion as a command: progress, metrics for Prometheus, and an orderly end on signals."""

import json
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import click
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from interbed.catalog.client.cli.long_run import served_metrics, shown_line
from interbed.ingest.job import Ingestion
from interbed.storage.base.shown_text import escaped
from interbed.storage.base.terminal import print_line


def run(job: Ingestion, given: Mapping[str, Any]) -> None:
    """Run the job, with progress, metrics and JSON output as the options say."""
    with ExitStack() as stack:
        stopped = stack.enter_context(_stop_signals())
        if given["metrics_port"] is not None:
            stack.enter_context(serve_metrics(job, given["metrics_host"], given["metrics_port"]))
        stack.enter_context(shown_progress(job))

        def committed() -> None:
            if given["as_json"]:
                click.echo(json.dumps({"event": "commit", **job.result.to_dict()}))

        job.run(stopped, committed)
    result = job.result
    if given["as_json"]:
        click.echo(json.dumps({"event": "end", **result.to_dict()}))
        return
    rows = sum(result.rows.values())
    bad = f", {result.bad} of them bad" if result.bad else ""
    print_line(
        f"read {result.messages} messages{bad}; committed {rows} rows of {len(result.rows)} tables in "
        f"{result.commits} commits"
    )


class IngestMetrics:
    """Prometheus collector of one run; see docs/metrics.md."""

    def __init__(self, job: Ingestion) -> None:
        self._job = job

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of this moment."""
        result = self._job.result
        yield CounterMetricFamily("interbed_ingest_messages", "Messages read.", value=result.messages)
        yield CounterMetricFamily("interbed_ingest_bad_messages", "Messages that could not be taken.", value=result.bad)
        yield CounterMetricFamily("interbed_ingest_commits", "Commits made.", value=result.commits)
        rows = CounterMetricFamily("interbed_ingest_rows", "Rows committed.", labels=["table"])
        for name, count in sorted(result.rows.items()):
            rows.add_metric([escaped(name)], count)
        yield rows
        # The name ends with the unit, by the convention of Prometheus. A metric has one unit for all its labels.
        unit = result.lag_unit.value
        yield GaugeMetricFamily(f"interbed_ingest_lag_{unit}", f"Not yet read, in {unit}.", value=result.lag, unit=unit)


@contextmanager
def serve_metrics(job: Ingestion, host: str, port: int) -> Iterator[int]:
    """Serve the metrics of a run while the block runs, on a free port if `port` is 0. Yields the port."""
    with served_metrics(IngestMetrics(job), host, port) as taken:
        yield taken


@contextmanager
def shown_progress(job: Ingestion) -> Iterator[None]:
    """Show the progress of a run on standard error while the block runs, if that is a terminal."""
    with shown_line(lambda: _line(job), thread_name="ingest-progress"):
        yield


def _line(job: Ingestion) -> str:
    result = job.result
    rows = sum(result.rows.values())
    bad = f", {result.bad:,} bad" if result.bad else ""
    return (
        f"{result.messages:,} messages{bad} · {rows:,} rows in {result.commits:,} commits · "
        f"{result.messages_per_second:,.0f} messages/s · lag {result.lag:,} {result.lag_unit}"
    )


@contextmanager
def _stop_signals() -> Iterator[Callable[[], bool]]:
    """Yield a function that returns whether SIGTERM or SIGINT came while the block runs.

    A second signal has its usual effect and ends the process.
    """
    came = threading.Event()
    before: dict[int, Any] = {}

    def note(number: int, _: object) -> None:
        came.set()
        signal.signal(number, before[number])

    for number in (signal.SIGTERM, signal.SIGINT):
        before[number] = signal.signal(number, note)
    try:
        yield came.is_set
    finally:
        for taken, handler in before.items():
            signal.signal(taken, handler)
