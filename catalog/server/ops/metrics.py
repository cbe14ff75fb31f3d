"""Metrics of the server, in Prometheus' format.

With one process they are kept in memory. With several each writes its own into files of a directory
(prometheus_client's multiprocess mode), and the process that serves /metrics adds them up; counters of a process that
has died stay in the sum. `ServerMetrics` has to be made before the processes are forked.

Figures of the database (locks, events) are queried on collection, once for all servers on it.
"""

import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
    values,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from prometheus_client.process_collector import ProcessCollector

import interbed
from interbed.catalog.server.ops.logs import shortened
from interbed.catalog.server.service.directories.remote_files import RemoteFigures
from interbed.catalog.server.threads import SupervisedThread, ThreadDeaths
from interbed.catalog.server.thrift.edge.call import Call, CallOutcome
from interbed.catalog.server.thrift.edge.pool import EdgeFigures, RowFigures
from interbed.storage.base.shown_text import escaped

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

UNKNOWN_METHODS_MAX = 100
"""Clients choose the names of methods: further ones are counted as `other`."""

SAMPLE_SECONDS = 5.0
"""Interval at which a process of several writes the figures of its connections, its pool and its cache."""

_LATENCY_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolFigures:
    """Database connections of one process."""

    in_use: int
    idle: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheFigures:
    """Hits, misses and size of a process's cache since its start."""

    hits: int
    misses: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseFigures:
    """Figures of the database. `locks_stale` have run out and are not removed yet."""

    locks_acquired: int
    locks_waiting: int
    locks_stale: int
    locks_expired_total: int
    event_id: int


class ServerMetrics:
    """The counters of a server's processes. An observer of calls; safe for many threads.

    `directory` is for several processes: an empty directory, deleted after the server.
    """

    def __init__(self, directory: Path | None = None) -> None:
        self._directory = directory
        # Disables a second series beside each counter, with the time of its creation.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        if directory is not None:
            # The library chooses at its import how values are kept; no metric has been created before.
            os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(directory)
            values.ValueClass = values.MultiProcessValue()  # type: ignore[no-untyped-call]
        self._registry = CollectorRegistry()
        calls = ("method",)
        self._calls = self._counter("interbed_calls", "Calls answered, by method.", calls)
        self._errors = self._counter(
            "interbed_call_errors",
            "Calls answered with an exception, by method: refused (of the interface) or failed (internal).",
            ("method", "outcome"),
        )
        self._unknown = self._counter("interbed_unknown_method_calls", "Calls of methods that are not served.", calls)
        self._seconds = Histogram(
            "interbed_call_seconds",
            "Time from the decoded request to the encoded reply, by method.",
            calls,
            buckets=_LATENCY_BUCKETS,
            registry=self._registry,
        )
        self._connections = self._gauge("interbed_connections", "Clients that are connected.")
        self._pool = self._gauge(
            "interbed_database_connections", "Connections to the database: in_use, idle.", ("state",)
        )
        self._hits = self._counter("interbed_cache_hits", "Answers taken from the cache.")
        self._misses = self._counter("interbed_cache_misses", "Answers that the cache did not have.")
        self._cache_bytes = self._gauge("interbed_cache_bytes", "What the caches hold.")
        self._edge_bytes = self._gauge(
            "interbed_edge_bytes",
            "Memory for clients: partial (messages that have come in part), decoded (large requests that are served), "
            "reply (replies that were not taken yet).",
            ("kind",),
        )
        self._requests_waiting = self._gauge("interbed_requests_waiting", "Requests that wait for a thread.")
        self._clients_dropped = self._counter(
            "interbed_clients_dropped", "Clients dropped because they did not take a reply or send a message in time."
        )
        self._requests_refused = self._counter("interbed_requests_refused", "Requests refused by a limit of memory.")
        self._stores = self._gauge(
            "interbed_store_operations",
            "Operations on remote file systems: waiting (a request waits for it), given_up (it still runs).",
            ("state",),
        )
        self._store_timeouts = self._counter(
            "interbed_store_timeouts", "Operations on remote file systems that did not end within store_seconds."
        )
        self._store_refusals = self._counter(
            "interbed_store_refusals", "Operations on remote file systems that were refused, for these did not answer."
        )
        self._row_streams = self._gauge("interbed_row_streams", "Streams of rows that are open.")
        self._row_memory = self._gauge("interbed_row_bytes", "Memory for rows that streams have read and not sent yet.")
        self._rows_sent = self._counter("interbed_rows_sent", "Rows that were sent by streams.")
        self._row_bytes_sent = self._counter("interbed_row_bytes_sent", "Bytes of rows that were sent by streams.")
        self._row_streams_refused = self._counter(
            "interbed_row_streams_refused", "Streams of rows that were refused, because too many were open."
        )
        # Counters of each method: looking them up by label takes longer than counting.
        self._of_method: dict[str, tuple[Any, Any]] = {}
        self._unknown_names: set[str] = set()
        self._sampling = threading.Lock()
        self._count_connections: Callable[[], int] | None = None
        self._look_at_pool: Callable[[], PoolFigures] | None = None
        self._look_at_cache: Callable[[], CacheFigures] | None = None
        self._cache_before = (0, 0)
        self._look_at_edge: Callable[[], EdgeFigures] | None = None
        self._look_at_stores: Callable[[], RemoteFigures] | None = None
        self._edge_before, self._stores_before = (0, 0), (0, 0)
        self._look_at_rows: Callable[[], RowFigures] | None = None
        self._rows_before = (0, 0, 0)

    def observed(self, call: Call) -> None:
        """Count a call that has ended."""
        if call.outcome is CallOutcome.UNKNOWN:
            self._unknown.labels(self._bounded(call.method)).inc()
            return
        counters = self._of_method.get(call.method)
        if counters is None:
            counters = (self._calls.labels(call.method), self._seconds.labels(call.method))
            self._of_method[call.method] = counters
        counters[0].inc()
        counters[1].observe(call.seconds)
        if call.outcome is not CallOutcome.OK:
            self._errors.labels(call.method, str(call.outcome)).inc()

    def watch(
        self,
        *,
        connections: Callable[[], int] | None = None,
        pool: Callable[[], PoolFigures] | None = None,
        cache: Callable[[], CacheFigures] | None = None,
        edge: Callable[[], EdgeFigures] | None = None,
        stores: Callable[[], RemoteFigures] | None = None,
        rows: Callable[[], RowFigures] | None = None,
        deaths: ThreadDeaths | None = None,
    ) -> None:
        """Sample the figures of this process periodically; in a forked process to be called there. `deaths` records the
        end of the sampling thread.
        """
        self._count_connections = connections
        self._look_at_pool, self._look_at_cache, self._cache_before = pool, cache, (0, 0)
        self._look_at_edge, self._look_at_stores = edge, stores
        self._edge_before = self._stores_before = (0, 0)
        self._look_at_rows, self._rows_before = rows, (0, 0, 0)
        if self._directory is not None:
            SupervisedThread(self._sample_for_ever, name="metrics", deaths=deaths or ThreadDeaths()).start()

    def process_died(self, process_id: int) -> None:
        """Remove the gauges of a process that has ended; its counters stay."""
        if self._directory is not None:
            mark_process_dead(process_id, str(self._directory))  # type: ignore[no-untyped-call]

    def registry(self) -> CollectorRegistry:
        """Return a registry of the counters of all processes."""
        if self._directory is None:
            self._sample()
            return self._registry
        registry = CollectorRegistry()
        MultiProcessCollector(registry, str(self._directory))  # type: ignore[no-untyped-call]
        return registry

    def _sample_for_ever(self) -> None:
        wake = threading.Event()
        while True:
            self._sample()
            wake.wait(SAMPLE_SECONDS)

    def _sample(self) -> None:
        with self._sampling:
            if self._count_connections is not None:
                self._connections.set(self._count_connections())
            if self._look_at_pool is not None:
                pool = self._look_at_pool()
                self._pool.labels("in_use").set(pool.in_use)
                self._pool.labels("idle").set(pool.idle)
            if self._look_at_cache is not None:
                cache = self._look_at_cache()
                hits, misses = self._cache_before
                self._hits.inc(max(0, cache.hits - hits))
                self._misses.inc(max(0, cache.misses - misses))
                self._cache_bytes.set(cache.size_bytes)
                self._cache_before = (cache.hits, cache.misses)

            self._sample_limits()

    def _sample_limits(self) -> None:
        if self._look_at_edge is not None:
            edge = self._look_at_edge()
            sizes = {"partial": edge.partial_bytes, "decoded": edge.decoded_bytes, "reply": edge.reply_bytes}
            for kind, size in sizes.items():
                self._edge_bytes.labels(kind).set(size)
            self._requests_waiting.set(edge.waiting)
            dropped, refused = self._edge_before
            self._clients_dropped.inc(max(0, edge.dropped_total - dropped))
            self._requests_refused.inc(max(0, edge.refused_total - refused))
            self._edge_before = (edge.dropped_total, edge.refused_total)
        if self._look_at_stores is not None:
            stores = self._look_at_stores()
            self._stores.labels("waiting").set(stores.waiting)
            self._stores.labels("given_up").set(stores.given_up)
            timeouts, refusals = self._stores_before
            self._store_timeouts.inc(max(0, stores.timeouts_total - timeouts))
            self._store_refusals.inc(max(0, stores.refused_total - refusals))
            self._stores_before = (stores.timeouts_total, stores.refused_total)
        if self._look_at_rows is not None:
            found = self._look_at_rows()
            self._row_streams.set(found.open)
            self._row_memory.set(found.memory_bytes)
            totals = (found.rows_total, found.bytes_total, found.refused_total)
            counters = (self._rows_sent, self._row_bytes_sent, self._row_streams_refused)
            for counter, total, before in zip(counters, totals, self._rows_before, strict=True):
                counter.inc(max(0, total - before))
            self._rows_before = totals

    def _bounded(self, method: str) -> str:
        # A text with a character that UTF-8 lacks would fail the whole page.
        name = escaped(shortened(method))
        if name not in self._unknown_names:
            if len(self._unknown_names) >= UNKNOWN_METHODS_MAX:
                return "other"
            self._unknown_names.add(name)
        return name

    def _counter(self, name: str, text: str, labels: tuple[str, ...] = ()) -> Counter:
        return Counter(name, text, labels, registry=self._registry)

    def _gauge(self, name: str, text: str, labels: tuple[str, ...] = ()) -> Gauge:
        return Gauge(name, text, labels, registry=self._registry, multiprocess_mode="livesum")


class MetricsPage:
    """The text of /metrics. `figures` must raise nothing and returns None where the database does not answer; `workers`
    counts the processes that serve.
    """

    def __init__(
        self,
        metrics: ServerMetrics,
        figures: Callable[[], DatabaseFigures | None],
        workers: Callable[[], int],
    ) -> None:
        self._metrics = metrics
        self._others = CollectorRegistry()
        self._others.register(_OtherFigures(figures, workers))
        ProcessCollector(registry=self._others)

    def render(self) -> bytes:
        """Return the text of the page."""
        return generate_latest(self._metrics.registry()) + generate_latest(self._others)


class _OtherFigures:
    """Figures that are queried on collection."""

    def __init__(self, figures: Callable[[], DatabaseFigures | None], workers: Callable[[], int]) -> None:
        self._figures = figures
        self._workers = workers

    def describe(self) -> list[Metric]:
        """Return nothing: the library would otherwise query the database at registration."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield the present figures."""
        yield InfoMetricFamily("interbed_build", "This server.", value={"version": interbed.__version__})
        yield GaugeMetricFamily("interbed_workers", "Processes that serve.", value=self._workers())
        figures = self._figures()
        yield GaugeMetricFamily(
            "interbed_database_up", "Whether the database answered just now.", value=int(figures is not None)
        )
        if figures is None:
            return
        locks = GaugeMetricFamily(
            "interbed_locks", "Locks: acquired, waiting, stale (run out, not removed yet).", labels=["state"]
        )
        locks.add_metric(["acquired"], figures.locks_acquired)
        locks.add_metric(["waiting"], figures.locks_waiting)
        locks.add_metric(["stale"], figures.locks_stale)
        yield locks
        yield CounterMetricFamily(
            "interbed_locks_expired", "Locks removed because their lease ran out.", value=figures.locks_expired_total
        )
        yield GaugeMetricFamily(
            "interbed_notification_event_id", "Id of the last notification event.", value=figures.event_id
        )
