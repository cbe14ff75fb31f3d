"""The second port: GET /health/live, /health/ready, /metrics.

It is the standard library's HTTP server with a thread for each connection: three small pages for a probe every few
seconds and a scraper every few more, for which a framework would be one more dependency to keep secure. It listens on
loopback by default, answers at most REQUESTS_MAX clients at once, and no client holds a thread for longer than
CLIENT_SECONDS_MAX.

Live: the process answers. Ready: the database and the warehouse answer within PROBE_SECONDS_MAX, at least one process
serves, and the server is not stopping; otherwise 503 with the reasons. Both as JSON.
"""

import json
import logging
import socket
import socketserver
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Generic, TypeVar

from interbed.catalog.server.ops.vital_signs import HandleReserve
from interbed.catalog.server.threads import SupervisedThread, ThreadDeaths

logger = logging.getLogger(__name__)

T = TypeVar("T")

REQUESTS_MAX = 16
CLIENT_SECONDS_MAX = 10.0
PROBE_SECONDS_MAX = 3.0

Check = Callable[[], str | None]
"""Check of something that the server needs: returns None if it works, otherwise the problem."""


class Probe(Generic[T]):
    """Work that may hang, run with a time limit: a caller stops waiting at the limit, and the next one waits for the
    same run.

    `work` must raise nothing: an error ends its thread, which is recorded in `deaths`.
    """

    def __init__(
        self,
        work: Callable[[], T],
        seconds_max: float = PROBE_SECONDS_MAX,
        *,
        name: str = "probe",
        deaths: ThreadDeaths | None = None,
    ) -> None:
        self._work = work
        self._name = name
        self._deaths = deaths if deaths is not None else ThreadDeaths()
        self._seconds_max = seconds_max
        self._guard = threading.Lock()
        self._running: Future[T] | None = None

    def __call__(self) -> T:
        """Return the work's result. TimeoutError if it exceeds the limit."""
        with self._guard:
            running = self._running
            if running is None or running.done():
                running = self._running = Future()
                SupervisedThread(partial(self._run, running), name=self._name, deaths=self._deaths).start()
        return running.result(timeout=self._seconds_max)

    def _run(self, running: "Future[T]") -> None:
        try:
            running.set_result(self._work())
        finally:
            if not running.done():
                running.set_exception(TimeoutError("the check failed"))


class HealthServer:
    """Serves the second port on a thread of its own. OSError if the address is not available; port 0 takes
    a free one.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        checks: Mapping[str, Check],
        metrics: Callable[[], bytes],
        metrics_content_type: str,
        deaths: ThreadDeaths | None = None,
    ) -> None:
        deaths = deaths if deaths is not None else ThreadDeaths()
        self._checks = {name: Probe(check, name=f"probe of {name}", deaths=deaths) for name, check in checks.items()}
        self._metrics = metrics
        self._metrics_content_type = metrics_content_type
        self._ending = threading.Event()
        self._http = _HttpServer(host, port, self)
        self._thread = SupervisedThread(self._http.serve_forever, name="health", deaths=deaths)

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the health pages."""
        host, port = self._http.server_address[:2]
        return str(host), int(port)

    def start(self) -> None:
        """Start the thread that serves."""
        self._thread.start()

    def end_soon(self) -> None:
        """Report the server as not ready from now on: balancers send no more clients. Safe in a signal handler."""
        self._ending.set()

    def stop(self) -> None:
        """Stop serving and close the port."""
        self._ending.set()
        if self._thread.is_alive():
            self._http.shutdown()
            self._thread.join(timeout=CLIENT_SECONDS_MAX)
        self._http.server_close()

    def answer(self, path: str) -> tuple[HTTPStatus, str, bytes]:
        """Return status, content type and body for a path."""
        if path == "/metrics":
            return HTTPStatus.OK, self._metrics_content_type, self._metrics()
        if path == "/health/live":
            return _json(HTTPStatus.OK, {"status": "live"})
        if path == "/health/ready":
            reasons = self.reasons()
            if reasons:
                return _json(HTTPStatus.SERVICE_UNAVAILABLE, {"status": "not ready", "reasons": reasons})
            return _json(HTTPStatus.OK, {"status": "ready", "reasons": []})
        known = ["/health/live", "/health/ready", "/metrics"]
        return _json(HTTPStatus.NOT_FOUND, {"error": "no such page", "pages": known})

    def reasons(self) -> list[str]:
        """Return the reasons why the server is not ready; none if it is."""
        reasons = ["the server is ending"] if self._ending.is_set() else []
        for name, check in self._checks.items():
            try:
                problem = check()
            except TimeoutError:
                problem = f"no answer within {PROBE_SECONDS_MAX:.0f} s"
            if problem is not None:
                reasons.append(f"{name}: {problem}")
        return reasons


class _HttpServer(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, host: str, port: int, health: HealthServer) -> None:
        info = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        self.address_family = info[0]
        self.health = health
        self._slots = threading.BoundedSemaphore(REQUESTS_MAX)
        self._reserve = HandleReserve()
        try:
            super().__init__((host, port), _Handler)
        except OSError:
            self._reserve.close()
            raise

    def get_request(self) -> tuple[socket.socket, Any]:
        # Clients may have taken all descriptors of the process; the probe must still get an answer.
        return self._reserve.use(super().get_request)

    def shutdown_request(self, request: Any) -> None:
        super().shutdown_request(request)
        self._reserve.refill()

    def server_close(self) -> None:
        super().server_close()
        self._reserve.close()

    def server_bind(self) -> None:
        # The library's method resolves this host's name, which may take arbitrarily long.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        # Further clients wait in the kernel's queue.
        if not self._slots.acquire(timeout=CLIENT_SECONDS_MAX):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._slots.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        logger.debug("a request to the health port ended early", exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    timeout = CLIENT_SECONDS_MAX
    server_version = "interbed"
    sys_version = ""

    def do_GET(self) -> None:
        """Answer a GET request for a page."""
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        """Answer a HEAD request for a page."""
        self._answer(with_body=False)

    def _answer(self, *, with_body: bool) -> None:
        assert isinstance(self.server, _HttpServer)
        status, content_type, body = self.server.health.answer(self.path.partition("?")[0])
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if with_body:
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is the library's.
        """Log at debug level: probes come every few seconds."""
        logger.debug(format, *args)


def _json(status: HTTPStatus, content: Mapping[str, Any]) -> tuple[HTTPStatus, str, bytes]:
    return status, "application/json", json.dumps(content).encode() + b"\n"
