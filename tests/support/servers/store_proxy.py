"""A proxy before an HTTP object store: it counts requests, adds network latency, and injects faults.

    with running_s3("lake") as options, StoreProxy.before(options) as proxy:
        lake = interbed.load_catalog("lake", warehouse="s3://lake/warehouse", **proxy.options)
        with proxy.watched() as seen:
            lake.get_table("shop.orders").count()
        assert len(seen.requests) <= 3

`latency_seconds` is the minimal time of a request, `bytes_per_second` the pace of the body of an answer.
`fault(request)` returns the fault of a request, or None.
"""

import contextlib
import http.client
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal, Self
from urllib.parse import urlsplit

from tests.support.waits import at_most

CHUNK_BYTES = 1 << 20
UPSTREAM_SECONDS_MAX = at_most(60.0)
STOP_SECONDS_MAX = at_most(60.0)

_OF_A_CONNECTION = frozenset({"connection", "keep-alive", "transfer-encoding", "proxy-connection"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Request and, once it has ended, its result. Times are those of `time.monotonic`."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    sent_bytes: int
    started: float
    ended: float = 0.0
    status: int = 0
    received_bytes: int = 0

    @property
    def name(self) -> str:
        """Return the method and the path below the bucket, for messages."""
        return f"{self.method} {self.path}{f'?{self.query}' if self.query else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Fault that is injected into one request.

    `kind`: "answer" answers with `status` and `body`, and the store does not get the request; "refuse" hangs up
    before the store gets it; "lose" hangs up after the store has carried it out; "cut" hangs up after `after_bytes`
    of the answer's body; "twice" carries it out two times, as a repeated packet does, and returns the second answer;
    "stall" waits for `seconds` before the store gets it.
    """

    kind: Literal["answer", "refuse", "lose", "cut", "twice", "stall"]
    status: int = 503
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytes = b""
    after_bytes: int = 0
    seconds: float = 0.0


@dataclass(slots=True)
class SeenRequests:
    """Requests of an interval, in the order in which they ended."""

    requests: list[Request] = field(default_factory=list[Request])

    @property
    def names(self) -> list[str]:
        """Names of the requests."""
        return [request.name for request in self.requests]

    @property
    def received_bytes(self) -> int:
        """Bytes of the bodies of all answers."""
        return sum(request.received_bytes for request in self.requests)

    @property
    def rounds(self) -> int:
        """Number of sequential round trips: the length of the longest chain of requests that do not overlap."""
        count, until = 0, float("-inf")
        for request in sorted(self.requests, key=lambda request: request.ended):
            if request.started >= until:
                count, until = count + 1, request.ended
        return count


class StoreProxy:
    """Proxy of the store; use it in a `with` block. Settings may be changed while it runs."""

    def __init__(
        self,
        port: int,
        options: Mapping[str, str],
        *,
        latency_seconds: float = 0.0,
        bytes_per_second: float | None = None,
    ) -> None:
        self._target = port
        self.options: dict[str, str] = dict(options)
        """Options of the store with the address of the proxy."""
        self.latency_seconds = latency_seconds
        self.bytes_per_second = bytes_per_second
        self.fault: Callable[[Request], Fault | None] | None = None
        self._watching: list[SeenRequests] = []
        self._under_way = 0
        self._changed = threading.Condition()
        self._server = _Server(self)
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, name="store-proxy")

    @classmethod
    def before(
        cls, options: Mapping[str, str], *, latency_seconds: float = 0.0, bytes_per_second: float | None = None
    ) -> Self:
        """Return a proxy before the store of these options, which have interbed's, Hadoop's or Azure's name of the
        address.
        """
        name = next(name for name in options if name.endswith("endpoint"))
        address = urlsplit(options[name])
        assert address.port is not None
        proxy = cls(address.port, options, latency_seconds=latency_seconds, bytes_per_second=bytes_per_second)
        proxy.options[name] = f"http://127.0.0.1:{proxy.port}{address.path}"
        return proxy

    @contextlib.contextmanager
    def watched(self) -> Iterator[SeenRequests]:
        """Record the requests of the block; the end of the block waits until the proxy has finished all of them."""
        seen = SeenRequests()
        with self._changed:
            self._changed.wait_for(lambda: not self._under_way, timeout=UPSTREAM_SECONDS_MAX)
            self._watching.append(seen)
        try:
            yield seen
        finally:
            with self._changed:
                # A client gets its answer a moment before the proxy records the request.
                self._changed.wait_for(lambda: not self._under_way, timeout=UPSTREAM_SECONDS_MAX)
                self._watching.remove(seen)

    def wait_until_idle(self) -> None:
        """Wait for abandoned requests, whose clients have hung up: they may still change objects in the store."""
        with self._changed:
            assert self._changed.wait_for(lambda: not self._under_way, timeout=UPSTREAM_SECONDS_MAX), "a request hangs"

    def begin(self) -> None:
        """Count a request that has arrived."""
        with self._changed:
            self._under_way += 1

    def note(self, request: Request) -> None:
        """Record a request that has ended."""
        with self._changed:
            self._under_way -= 1
            for seen in self._watching:
                seen.requests.append(request)
            self._changed.notify_all()

    def asked_path(self, path: str) -> str:
        """Return the path and the query of a request as the store gets them."""
        return path

    def asked_headers(self, headers: Iterable[tuple[str, str]]) -> Iterable[tuple[str, str]]:
        """Return the headers of a request as the store gets them."""
        return headers

    def answered_headers(self, headers: Iterable[tuple[str, str]]) -> Iterable[tuple[str, str]]:
        """Return the headers of an answer as the client gets them."""
        return headers

    def connected(self) -> http.client.HTTPConnection:
        """Return a new connection to the store."""
        return http.client.HTTPConnection("127.0.0.1", self._target, timeout=UPSTREAM_SECONDS_MAX)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.hang_up()
        self._server.server_close()
        self._thread.join(timeout=STOP_SECONDS_MAX)


class _Server(ThreadingHTTPServer):
    """Server whose threads end with their connections; `hang_up` closes these."""

    daemon_threads = False
    request_queue_size = 128

    def __init__(self, proxy: StoreProxy) -> None:
        self.proxy = proxy
        self._open: set[Any] = set()
        self._open_lock = threading.Lock()
        super().__init__(("127.0.0.1", 0), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._open_lock:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._open_lock:
            self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log nothing: clients may hang up at any time."""

    def hang_up(self) -> None:
        """Close every open connection."""
        with self._open_lock:
            for connection in self._open:
                with contextlib.suppress(OSError):
                    connection.shutdown(2)


class _HangUpError(Exception):
    """Signal that the client gets no answer, or no more of it."""


class _Handler(BaseHTTPRequestHandler):
    """Connection of one client, with its own connection to the store."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server
    _upstream: http.client.HTTPConnection | None = None
    _answered_at = 0.0
    """Time just before the last piece of the answer was sent: the next request of the client comes later."""

    def log_message(self, *_: Any, **__: Any) -> None:
        """Log nothing: the proxy records the requests."""

    def _hand_on(self) -> None:
        proxy = self.server.proxy
        proxy.begin()
        self._answered_at = 0.0
        started, body, status, received = time.monotonic(), b"", 0, 0
        try:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            asked = self._request(body, started)
            fault = None if proxy.fault is None else proxy.fault(asked)
            if proxy.latency_seconds:
                time.sleep(proxy.latency_seconds)
            status, received = self._answered(body, fault)
        except (_HangUpError, OSError, http.client.HTTPException):
            self.close_connection = True
        finally:
            ended = self._answered_at or time.monotonic()
            proxy.note(replace(self._request(body, started), ended=ended, status=status, received_bytes=received))

    def _request(self, body: bytes, started: float) -> Request:
        address = urlsplit(self.path)
        return Request(
            method=self.command,
            path=address.path,
            query=address.query,
            headers={name.lower(): value for name, value in self.headers.items()},
            sent_bytes=len(body),
            started=started,
        )

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = do_PATCH = _hand_on  # noqa: N815

    def _answered(self, body: bytes, fault: Fault | None) -> tuple[int, int]:
        kind = None if fault is None else fault.kind
        if fault is not None and kind == "stall":
            time.sleep(fault.seconds)
        if fault is not None and kind == "answer":
            self.send_response(fault.status)
            for name, value in {"Content-Length": str(len(fault.body)), **fault.headers}.items():
                self.send_header(name, value)
            self._answered_at = time.monotonic()
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(fault.body)
            return fault.status, len(fault.body)
        if kind == "refuse":
            raise _HangUpError
        if kind == "twice":
            self._asked(body).read()
        answer = self._asked(body)
        if kind == "lose":
            answer.read()
            raise _HangUpError
        return answer.status, self._handed_back(answer, fault.after_bytes if fault and kind == "cut" else None)

    def _asked(self, body: bytes) -> http.client.HTTPResponse:
        fresh, proxy = self._upstream is None, self.server.proxy
        upstream = self._upstream or proxy.connected()
        self._upstream = upstream
        try:
            upstream.putrequest(self.command, proxy.asked_path(self.path), skip_host=True, skip_accept_encoding=True)
            for name, value in proxy.asked_headers(self.headers.items()):
                if name.lower() not in _OF_A_CONNECTION | {"expect"}:
                    upstream.putheader(name, value)
            upstream.endheaders(body or None)
            return upstream.getresponse()
        except (http.client.HTTPException, ConnectionError):
            upstream.close()
            self._upstream = None
            # A store may close an idle connection; it has then received nothing of this request.
            if fresh:
                raise
            return self._asked(body)

    def _handed_back(self, answer: http.client.HTTPResponse, cut_after: int | None) -> int:
        proxy = self.server.proxy
        length = answer.getheader("Content-Length")
        held = None
        if length is None and self.command != "HEAD":
            held = answer.read()
        # send_response would add its own Date and Server headers.
        self.send_response_only(answer.status, answer.reason)
        for name, value in proxy.answered_headers(answer.getheaders()):
            if name.lower() not in _OF_A_CONNECTION:
                self.send_header(name, value)
        if held is not None:
            self.send_header("Content-Length", str(len(held)))
        self._answered_at = time.monotonic()
        self.end_headers()
        if self.command == "HEAD":
            answer.read()
            return 0
        sent = 0
        # The pace is that of the stream: a delay is not made up for by sending the rest faster.
        while chunk := (held if held is not None else answer.read(CHUNK_BYTES)):
            held = b"" if held is not None else None
            if cut_after is not None and sent + len(chunk) > cut_after:
                self.wfile.write(chunk[: cut_after - sent])
                raise _HangUpError
            if proxy.bytes_per_second:
                time.sleep(len(chunk) / proxy.bytes_per_second)
            self._answered_at = time.monotonic()
            self.wfile.write(chunk)
            sent += len(chunk)
        return sent

    def finish(self) -> None:
        if self._upstream is not None:
            self._upstream.close()
        with contextlib.suppress(OSError):
            super().finish()
