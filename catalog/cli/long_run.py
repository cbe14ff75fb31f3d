"""A command that runs on and on, as people and Prometheus see it while it does."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.registry import Collector
from rich.console import Console
from rich.live import Live
from rich.text import Text

REFRESH_PER_SECOND = 2


@contextmanager
def shown_line(line: Callable[[], str], *, thread_name: str) -> Iterator[None]:
    """Shows a line on standard error while the block runs, which is renewed; nothing where nobody looks."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    done = threading.Event()
    with Live(Text(line()), console=console, auto_refresh=False, transient=True) as live:

        def renew() -> None:
            while not done.wait(1 / REFRESH_PER_SECOND):
                live.update(Text(line()), refresh=True)

        thread = threading.Thread(target=renew, name=thread_name, daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()


@contextmanager
def served_metrics(metrics: Collector, host: str, port: int) -> Iterator[int]:
    """Serve the metrics while the block runs, on a free port where it is 0; yields the port."""
    registry = CollectorRegistry()
    registry.register(metrics)
    server, thread = start_http_server(port, host, registry)
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
