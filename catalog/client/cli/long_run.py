"""Display and metrics of commands that run for long."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector
from rich.console import Console
from rich.live import Live
from rich.text import Text

from interbed.storage.base.shown_text import escaped
from interbed.storage.io.cached.blocks import COUNTER
from interbed.storage.io.stores.requests import requests_so_far

REFRESH_PER_SECOND = 2


class StoreMetrics:
    """Prometheus collector of the requests of this process to object stores, and of the hits of its local cache.

    See docs/stores.md.
    """

    def collect(self) -> Iterator[Metric]:
        """Yield the current values of the metrics."""
        kinds = requests_so_far().kinds
        for name, attribute, meaning in (
            ("requests", "requests", "Requests to object stores, by kind."),
            ("failed_requests", "failed", "Those that ended with an error."),
            ("read_bytes", "read_bytes", "Bytes of files that came from object stores."),
            ("written_bytes", "written_bytes", "Bytes of files that went to object stores."),
            ("wait_seconds", "wait_seconds", "Time that requests took, added up."),
        ):
            family = CounterMetricFamily(f"interbed_store_{name}", meaning, labels=["kind"])
            for kind, counts in sorted(kinds.items()):
                family.add_metric([kind], getattr(counts, attribute))
            yield family
        cached = COUNTER.counts
        for name, meaning in (
            ("hits", "Blocks of files that the local cache had."),
            ("misses", "Blocks of files that the local cache did not have."),
            ("hit_bytes", "Bytes of the blocks that the local cache had."),
            ("missed_bytes", "Bytes of the blocks that the local cache did not have."),
            ("damaged", "Files of the local cache that were thrown away because they were damaged."),
            ("evicted", "Files of the local cache that made room for others."),
        ):
            yield CounterMetricFamily(f"interbed_local_cache_{name}", meaning, value=getattr(cached, name))


@contextmanager
def shown_line(line: Callable[[], str], *, thread_name: str) -> Iterator[None]:
    """Show a line on standard error while the block runs, and update it; show nothing without a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    done = threading.Event()
    with Live(Text(escaped(line())), console=console, auto_refresh=False, transient=True) as live:

        def renew() -> None:
            while not done.wait(1 / REFRESH_PER_SECOND):
                live.update(Text(escaped(line())), refresh=True)

        thread = threading.Thread(target=renew, name=thread_name, daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()


@contextmanager
def served_metrics(metrics: Collector, host: str, port: int) -> Iterator[int]:
    """Serve the metrics, and those of object stores, while the block runs; yield the port, a free one for port 0."""
    registry = CollectorRegistry()
    registry.register(metrics)
    registry.register(StoreMetrics())
    server, thread = start_http_server(port, host, registry)
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
