"""The second port: GET /health/live, /health/ready, /metrics.

It is an HTTP server with a thread of its own, so that probes are answered however busy the Thrift ports are. It
listens on loopback by default, answers at most REQUESTS_MAX clients at once, one request of each, and no client stays
for longer than CLIENT_SECONDS_MAX without a request.

Live: the process answers. Ready: the database and the warehouse answer within PROBE_SECONDS_MAX, at least one process
serves, and the server is not stopping; otherwise 503 with the reasons. Both as JSON.
"""

import json
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from http import HTTPStatus
from typing import Any, Generic, TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from interbed.catalog.server.http.application import pages
from interbed.catalog.server.http.server import HttpServer
from interbed.catalog.server.ops.vital_signs import HandleReserve
from interbed.catalog.server.threads import SupervisedThread, ThreadDeaths
from interbed.catalog.server.thrift.edge.pool import EdgeLimits
from interbed.catalog.server.thrift.edge.transport import listen

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


class HealthPages:
    """The pages, as routes of an application. `metrics` returns the body of /metrics."""

    def __init__(
        self,
        checks: Mapping[str, Check],
        metrics: Callable[[], bytes],
        metrics_content_type: str,
        deaths: ThreadDeaths,
    ) -> None:
        self._checks = {name: Probe(check, name=f"probe of {name}", deaths=deaths) for name, check in checks.items()}
        self._metrics = metrics
        self._metrics_content_type = metrics_content_type
        self._ending = threading.Event()

    @property
    def routes(self) -> list[BaseRoute]:
        """The routes of the pages."""
        # Starlette runs functions on a thread and coroutines on the loop: only those of the first kind may wait.
        return [
            Route("/health/live", self._live, methods=["GET"]),
            Route("/health/ready", self._ready, methods=["GET"]),
            Route("/metrics", self._figures, methods=["GET"]),
        ]

    def end_soon(self) -> None:
        """Report the server as not ready from now on: balancers send no more clients. Safe in a signal handler."""
        self._ending.set()

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

    async def _live(self, request: Request) -> Response:
        return _json(HTTPStatus.OK, {"status": "live"})

    def _ready(self, request: Request) -> Response:
        reasons = self.reasons()
        if reasons:
            return _json(HTTPStatus.SERVICE_UNAVAILABLE, {"status": "not ready", "reasons": reasons})
        return _json(HTTPStatus.OK, {"status": "ready", "reasons": []})

    def _figures(self, request: Request) -> Response:
        return _page(HTTPStatus.OK, self._metrics_content_type, self._metrics())


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
        self._pages = HealthPages(checks, metrics, metrics_content_type, deaths)
        self._known = [route.path for route in self._pages.routes if isinstance(route, Route)]
        listener = listen(host, port)
        self._address: tuple[str, int] = listener.getsockname()[:2]
        self._reserve = HandleReserve()
        self._server = HttpServer(
            pages(
                self._pages.routes,
                errors={HTTPStatus.NOT_FOUND: self._no_page, HTTPStatus.METHOD_NOT_ALLOWED: _no_method},
            ),
            name="health",
            limits=EdgeLimits(message_seconds=CLIENT_SECONDS_MAX),
            idle_seconds=CLIENT_SECONDS_MAX,
            deaths=deaths,
        )
        # Clients may have taken all descriptors of the process; the probe must still get an answer.
        self._server.listen(
            listener,
            clients_max=REQUESTS_MAX,
            accept=lambda: self._reserve.use(listener.accept),
            on_closed=self._reserve.refill,
        )

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the health pages."""
        return self._address

    def start(self) -> None:
        """Start the thread that serves."""
        self._server.start()

    def end_soon(self) -> None:
        """Report the server as not ready from now on. Safe in a signal handler."""
        self._pages.end_soon()

    def stop(self) -> None:
        """Stop serving and close the port."""
        self._pages.end_soon()
        self._server.stop()
        self._reserve.close()

    def reasons(self) -> list[str]:
        """Return the reasons why the server is not ready; none if it is."""
        return self._pages.reasons()

    async def _no_page(self, request: Request, error: Exception) -> Response:
        return _json(HTTPStatus.NOT_FOUND, {"error": "no such page", "pages": self._known})


async def _no_method(request: Request, error: Exception) -> Response:
    return _json(HTTPStatus.NOT_IMPLEMENTED, {"error": f"{request.method} is not supported"})


def _json(status: HTTPStatus, content: Mapping[str, Any]) -> Response:
    return _page(status, "application/json", json.dumps(content).encode() + b"\n")


def _page(status: HTTPStatus, content_type: str, body: bytes) -> Response:
    # Each client has one request, so that idle ones leave room for others.
    headers = {"Content-Type": content_type, "Cache-Control": "no-store", "Connection": "close"}
    return Response(body, status, headers)
