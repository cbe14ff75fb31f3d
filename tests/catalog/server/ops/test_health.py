"""The health port over real HTTP, on a database of its own: liveness, readiness with reasons, and
Prometheus metrics.
"""

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from interbed.catalog.server.ops.health import HealthServer
from interbed.catalog.server.ops.metrics import UNKNOWN_METHODS_MAX, CacheFigures, PoolFigures
from interbed.catalog.server.ops.observers import ServerOperations, metrics_for, observers_for
from interbed.catalog.server.service.errors import MetastoreError
from interbed.catalog.server.service.lock_model import LockComponent, LockLevel, LockRequest, LockType
from interbed.catalog.server.service.locks import LockService
from interbed.catalog.server.settings import ServerSettings
from interbed.catalog.server.thrift.edge.call import Call, CallOutcome, ClientSession
from tests.support.databases import open_migrated
from tests.support.waits import at_most, wait_until

pytestmark = pytest.mark.integration

TABLE = LockComponent(type=LockType.EXCLUSIVE, level=LockLevel.TABLE, database="d", table="t")
REQUEST = LockRequest(components=(TABLE,), user="u", host="h")


def get(address: tuple[str, int], path: str, method: str = "GET") -> tuple[int, str, str]:
    """Return status, content type and body of a page."""
    connection = http.client.HTTPConnection(*address, timeout=at_most(60))
    try:
        connection.request(method, path)
        response = connection.getresponse()
        return response.status, response.headers["Content-Type"], response.read().decode()
    finally:
        connection.close()


def samples(text: str) -> dict[tuple[str, ...], float]:
    """Return the samples by name and by the values of labels, in the order of the labels' names."""
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def call(method: str, seconds: float = 0.003, outcome: CallOutcome = CallOutcome.OK) -> Call:
    """Return a call that has ended."""
    return Call(request_id="r", method=method, session=ClientSession(peer="p"), seconds=seconds, outcome=outcome)


class HealthPort:
    """Health port of a server without a Thrift port, on a database of its own."""

    def __init__(self, directory: Path) -> None:
        self.warehouse = directory / "warehouse"
        self.warehouse.mkdir()
        self.now = 1_000_000.0
        self.store = open_migrated(f"sqlite:///{directory / 'metastore.db'}")
        self.locks = LockService(self.store, lease_seconds=100, clock=lambda: self.now)
        settings = ServerSettings(health_port=0)
        metrics = metrics_for(settings, None)
        assert metrics is not None
        self.metrics = metrics
        self.observers = observers_for(settings, metrics)
        self.workers = 1
        self.operating = ServerOperations(
            settings,
            self.store,
            self.locks,
            metrics,
            warehouse=f"file:{self.warehouse}",
            workers=lambda: self.workers,
        )
        self.operating.start()

    @property
    def address(self) -> tuple[str, int]:
        """Address of the health port."""
        address = self.operating.health_address
        assert address is not None
        return address


@pytest.fixture
def running(tmp_path: Path) -> Iterator[HealthPort]:
    """Start the health port."""
    started = HealthPort(tmp_path)
    yield started
    started.operating.stop()
    started.store.close()


def test_a_healthy_server_is_live_and_ready(running: HealthPort) -> None:
    assert running.address[0] == "127.0.0.1"
    assert get(running.address, "/health/live") == (200, "application/json", '{"status": "live"}\n')
    status, _, body = get(running.address, "/health/ready?verbose=1")
    assert (status, json.loads(body)) == (200, {"status": "ready", "reasons": []})
    assert get(running.address, "/health/ready", "HEAD") == (200, "application/json", "")
    status, _, body = get(running.address, "/")
    assert (status, json.loads(body)["pages"]) == (404, ["/health/live", "/health/ready", "/metrics"])


def test_an_unready_server_reports_the_reason(running: HealthPort, tmp_path: Path) -> None:
    def reasons() -> list[str]:
        status, _, body = get(running.address, "/health/ready")
        assert status == 503
        assert json.loads(body)["status"] == "not ready"
        return list(json.loads(body)["reasons"])

    running.warehouse.rename(tmp_path / "elsewhere")
    assert reasons() == [f"warehouse: {running.warehouse} is no directory"]
    (tmp_path / "elsewhere").rename(running.warehouse)
    running.workers = 0
    assert reasons() == ["workers: no process serves"]
    running.workers = 1
    running.store.close()
    with running.store.engine.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE sequences RENAME TO gone")
    [reason] = reasons()
    assert reason.startswith("database: the metastore's database failed: no such table")
    assert samples(get(running.address, "/metrics")[2])["interbed_database_up",] == 0
    with running.store.engine.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE gone RENAME TO sequences")
    assert get(running.address, "/health/ready")[0] == 200
    running.operating.end_soon()
    assert reasons() == ["the server is ending"]
    assert get(running.address, "/health/live")[0] == 200


def test_calls_are_counted_in_the_format_of_prometheus(running: HealthPort) -> None:
    for observer in running.observers:
        for _ in range(3):
            observer.observed(call("get_table", 0.003))
        observer.observed(call("get_table", 2.0, CallOutcome.REFUSED))
        observer.observed(call("drop_table", 0.1, CallOutcome.FAILED))
        observer.observed(call("open_txns", outcome=CallOutcome.UNKNOWN))
    running.metrics.watch(
        connections=lambda: 2,
        pool=lambda: PoolFigures(in_use=2, idle=3),
        cache=lambda: CacheFigures(hits=10, misses=4, size_bytes=77),
    )
    status, content_type, text = get(running.address, "/metrics")
    assert (status, content_type) == (200, "text/plain; version=0.0.4; charset=utf-8")
    found = samples(text)
    expected = {
        ("interbed_calls_total", "get_table"): 4,
        ("interbed_calls_total", "drop_table"): 1,
        ("interbed_call_errors_total", "get_table", "refused"): 1,
        ("interbed_call_errors_total", "drop_table", "failed"): 1,
        ("interbed_unknown_method_calls_total", "open_txns"): 1,
        ("interbed_call_seconds_count", "get_table"): 4,
        ("interbed_call_seconds_bucket", "0.0025", "get_table"): 0,
        ("interbed_call_seconds_bucket", "0.005", "get_table"): 3,
        ("interbed_call_seconds_bucket", "+Inf", "get_table"): 4,
        ("interbed_connections",): 2,
        ("interbed_database_connections", "in_use"): 2,
        ("interbed_database_connections", "idle"): 3,
        ("interbed_cache_hits_total",): 10,
        ("interbed_cache_misses_total",): 4,
        ("interbed_cache_bytes",): 77,
        ("interbed_workers",): 1,
        ("interbed_database_up",): 1,
        ("interbed_notification_event_id",): 0,
    }
    assert {key: found.get(key) for key in expected} == expected
    assert found["process_start_time_seconds",] > 0
    # A call that was counted once is not counted again.
    assert samples(get(running.address, "/metrics")[2])["interbed_cache_hits_total",] == 10


def test_the_numbers_of_locks_are_those_of_the_database(running: HealthPort) -> None:
    held, waiting = running.locks.lock(REQUEST), running.locks.lock(REQUEST)
    found = samples(get(running.address, "/metrics")[2])
    assert [found["interbed_locks", state] for state in ("acquired", "waiting", "stale")] == [1, 1, 0]
    running.now += 60
    running.locks.heartbeat(waiting.id)
    running.now += 60
    found = samples(get(running.address, "/metrics")[2])
    assert [found["interbed_locks", state] for state in ("acquired", "waiting", "stale")] == [0, 1, 1]
    assert found["interbed_locks_expired_total",] == 0
    running.locks.check_lock(waiting.id)
    found = samples(get(running.address, "/metrics")[2])
    assert [found["interbed_locks", state] for state in ("acquired", "waiting", "stale")] == [1, 0, 0]
    assert found["interbed_locks_expired_total",] == 1
    assert held.id < waiting.id


def test_names_of_unknown_methods_use_bounded_memory(running: HealthPort) -> None:
    for number in range(UNKNOWN_METHODS_MAX + 50):
        running.metrics.observed(call(f"m{number}" + "x" * 1000, outcome=CallOutcome.UNKNOWN))
    found = samples(get(running.address, "/metrics")[2])
    names = [key for key in found if key[0] == "interbed_unknown_method_calls_total"]
    assert len(names) == UNKNOWN_METHODS_MAX + 1
    assert found["interbed_unknown_method_calls_total", "other"] == 50


def test_a_hanging_check_is_reported_within_seconds_and_runs_only_once() -> None:
    release, asked = threading.Event(), []

    def hangs() -> str | None:
        asked.append(1)
        release.wait(at_most(60))
        return None

    health = HealthServer(
        "127.0.0.1", 0, checks={"warehouse": hangs}, metrics=lambda: b"", metrics_content_type="text/plain"
    )
    health.start()
    try:
        for _ in range(2):
            status, _, body = get(health.address, "/health/ready")
            assert (status, json.loads(body)["reasons"]) == (503, ["warehouse: no answer within 3 s"])
        assert get(health.address, "/health/live")[0] == 200
        assert asked == [1]
    finally:
        release.set()
        health.stop()


def test_silent_clients_and_invalid_requests_do_not_delay_others(running: HealthPort) -> None:
    silent = [socket.create_connection(running.address, timeout=at_most(60)) for _ in range(5)]
    try:
        silent[0].sendall(b"GET /health")
        silent[1].sendall(b"\x00" * 100 + b"\r\n\r\n")
        silent[2].sendall(b"GET /" + b"x" * 100_000)
        assert get(running.address, "/health/live")[0] == 200
        assert get(running.address, "/health/live", "POST")[0] == 501
    finally:
        for each in silent:
            each.close()


def test_without_a_health_port_nothing_listens_and_nothing_is_counted(tmp_path: Path) -> None:
    settings = ServerSettings()
    assert metrics_for(settings, None) is None
    store = open_migrated(f"sqlite:///{tmp_path / 'metastore.db'}")
    operating = ServerOperations(settings, store, LockService(store), None, warehouse=f"file:{tmp_path}")
    operating.start()
    assert operating.health_address is None
    operating.stop()
    store.close()


def test_a_port_in_use_is_an_error_at_the_start(running: HealthPort, tmp_path: Path) -> None:
    settings = ServerSettings(health_port=running.address[1])
    with pytest.raises(MetastoreError, match=f"health port 127.0.0.1:{running.address[1]}: .* in use"):
        ServerOperations(settings, running.store, running.locks, running.metrics, warehouse=f"file:{tmp_path}")


def test_the_reaper_removes_expired_locks_and_events(running: HealthPort, tmp_path: Path) -> None:
    held = running.locks.lock(REQUEST)
    settings = ServerSettings(reaper_seconds=0.05)
    operating = ServerOperations(settings, running.store, running.locks, None, warehouse=f"file:{tmp_path}")
    second = ServerOperations(settings, running.store, running.locks, None, warehouse=f"file:{tmp_path}")
    for each in (operating, second):
        each.start()
    try:
        assert [lock.id for lock, _ in running.locks.show()] == [held.id]
        running.now += 101
        wait_until(lambda: running.locks.figures().stale == 0)
        figures = running.locks.figures()
        assert (figures.acquired, figures.expired_total) == (0, 1)
    finally:
        for each in (operating, second):
            each.stop()
