"""A thread of the server that ends by an error is named in the log and makes the server unready."""

import logging
import selectors
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from interbed.catalog.server.database.session import SqlRepository
from interbed.catalog.server.ops.health import Probe
from interbed.catalog.server.ops.metrics import ServerMetrics
from interbed.catalog.server.ops.observers import ServerOperations, metrics_for
from interbed.catalog.server.ops.reaper import Reaper
from interbed.catalog.server.ops.vital_signs import WorkerPlace
from interbed.catalog.server.process.workers import Supervisor
from interbed.catalog.server.service.locks import LockService
from interbed.catalog.server.settings import ServerSettings
from interbed.catalog.server.threads import SupervisedThread, ThreadDeaths
from interbed.catalog.server.thrift.edge.cache import AnswerCache, CacheLookup
from interbed.catalog.server.thrift.edge.codec import codec_named
from interbed.catalog.server.thrift.edge.dispatch import Dispatcher
from interbed.catalog.server.thrift.edge.loop import EventLoop
from interbed.catalog.server.thrift.edge.pool import ThreadPool
from interbed.catalog.server.thrift.edge.sockets import Service
from interbed.catalog.server.thrift.edge.transport import BufferedFraming, listen
from tests.support.databases import open_migrated
from tests.support.waits import at_most, wait_until

pytestmark = pytest.mark.integration

SECONDS_MAX = at_most(60)


class FaultError(Exception):
    """Unexpected error of a thread."""


def fail(*_: Any, **__: Any) -> Any:
    """Raise FaultError in place of a dependency of the thread."""
    raise FaultError


class DeathWatch:
    """Deaths of a process' threads; `wait` returns when a thread has died."""

    def __init__(self) -> None:
        self._died = threading.Event()
        self.deaths = ThreadDeaths(lambda problem: self._died.set())

    def wait(self) -> str:
        """Return the problem that is reported for the dead threads."""
        assert self._died.wait(SECONDS_MAX)
        problem = self.deaths.problem()
        assert problem is not None
        return problem


@pytest.fixture
def watched() -> DeathWatch:
    """Return the deaths of this test's threads."""
    return DeathWatch()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqlRepository]:
    """Open a database with its tables."""
    opened = open_migrated(f"sqlite:///{tmp_path / 'metastore.db'}")
    yield opened
    opened.close()


def start_reaper(watched: DeathWatch, tmp_path: Path) -> Callable[[], None]:
    store: Any = type("Broken", (), {"write": fail, "read": fail})()
    reaper = Reaper(store, LockService(store), every_seconds=0.001, events_ttl_seconds=1, deaths=watched.deaths)
    reaper.start()
    return reaper.stop


def start_metrics_sampler(watched: DeathWatch, tmp_path: Path) -> Callable[[], None]:
    metrics = ServerMetrics(tmp_path)
    metrics.watch(connections=fail, deaths=watched.deaths)
    return lambda: None


def start_probe(watched: DeathWatch, tmp_path: Path) -> Callable[[], None]:
    with pytest.raises(TimeoutError):
        Probe(fail, name="probe of a disk", deaths=watched.deaths)()
    return lambda: None


def start_pool_thread(watched: DeathWatch, tmp_path: Path) -> Callable[[], None]:
    pool = ThreadPool(1, deaths=watched.deaths)
    pool.submit(fail)
    watched.wait()
    # Its only thread has ended; the next job starts a new one.
    served = threading.Event()
    pool.submit(served.set)
    assert served.wait(SECONDS_MAX)
    return pool.close


def start_cache(watched: DeathWatch, tmp_path: Path) -> Callable[[], None]:
    recall = CacheLookup(
        AnswerCache(1000),
        fail,
        selector=selectors.DefaultSelector(),
        deaths=watched.deaths,
        call_soon=fail,
        give_back=fail,
        park=fail,
    )
    recall.on_tick()
    return recall.close


THREADS = {
    "reaper": start_reaper,
    "metrics": start_metrics_sampler,
    "probe of a disk": start_probe,
    "requests 1": start_pool_thread,
    "cache": start_cache,
}


@pytest.mark.parametrize("name", THREADS)
def test_a_dead_thread_is_named_and_makes_the_server_unready(
    name: str, watched: DeathWatch, store: SqlRepository, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        stop = THREADS[name](watched, tmp_path)
        assert f"ended by an error: {name} (" in watched.wait()
        stop()
    assert f"the thread {name} has ended by an error: the server is not ready any more" in caplog.text
    # The server of the thread is unready, and gives the reason.
    settings = ServerSettings(health_port=0)
    metrics = metrics_for(settings, None)
    operating = ServerOperations(
        settings, store, LockService(store), metrics, warehouse=f"file:{tmp_path}", deaths=watched.deaths
    )
    assert operating.health_address is not None
    [reason] = operating.not_ready_because()
    assert reason.startswith(f"threads: ended by an error: {name} (")
    operating.stop()


def test_a_server_with_a_failed_cache_serves_and_is_not_ready(watched: DeathWatch) -> None:
    listener = listen("127.0.0.1", 0)
    service = Service(codec=codec_named("binary"), framing=BufferedFraming)
    loop = EventLoop(
        Dispatcher([]),
        connections_max=2,
        listeners=[(listener, service)],
        cache=AnswerCache(1000),
        generations=fail,
        deaths=watched.deaths,
    )
    serving = SupervisedThread(loop.serve, name="loop", deaths=watched.deaths)
    serving.start()
    assert watched.wait() == "ended by an error: cache (FaultError); the log says more, restart the server"
    loop.stop()
    serving.join(timeout=SECONDS_MAX)
    assert not serving.is_alive()


def test_a_dead_thread_of_a_worker_is_reported_by_the_companion_process(tmp_path: Path) -> None:
    said = tmp_path / "said"

    def worker(link: socket.socket, report: WorkerPlace) -> None:
        deaths = ThreadDeaths(report)
        thread = SupervisedThread(fail, name="cache", deaths=deaths)
        thread.start()
        thread.join(SECONDS_MAX)
        link.send(b"r")
        link.recv(1)

    def companion(link: socket.socket, board: Any) -> None:
        link.send(b"r")
        wait_until(lambda: (board.problem() or "").count("worker") >= 2, board.problem, SECONDS_MAX)
        said.write_text(str(board.problem()))
        link.recv(1)

    supervisor = Supervisor([listen("127.0.0.1", 0)], worker, count=2, connections_max=1, companion=companion)
    supervisor.start()
    supervisor.stop()
    supervisor.serve()
    cache = "ended by an error: cache (FaultError); the log says more, restart the server"
    assert said.read_text() == f"worker 1: {cache}; worker 2: {cache}"


def test_only_supervised_threads_run_in_the_server() -> None:
    server = Path(__file__).resolve().parents[4] / "catalog" / "server"
    with_threads = [path.name for path in sorted(server.rglob("*.py")) if "threading.Thread" in path.read_text("utf-8")]
    # A thread of remote_files.py runs one operation of one call, whose caller gets its error.
    assert with_threads == ["remote_files.py", "threads.py"]
