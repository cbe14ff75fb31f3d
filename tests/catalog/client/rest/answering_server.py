"""HTTP server whose answers a test chooses: a status, headers and a body, or a connection that is closed."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.support.waits import at_most

CLOSE = "close"
"""ChosenAnswer that closes the connection after the request was read."""


@dataclass(frozen=True, slots=True)
class ReceivedRequest:
    """Request that the server got."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class ChosenAnswer:
    """ChosenAnswer to a request."""

    status: int = 200
    body: bytes = b"{}"
    headers: Mapping[str, str] = field(default_factory=dict)


ChosenAnswers = Callable[[ReceivedRequest], "ChosenAnswer | str"]


@contextmanager
def answering_server(answers: ChosenAnswers) -> Iterator[tuple[str, list[ReceivedRequest]]]:
    """Run a server on a free port; yield its address and the requests so far."""
    asked: list[ReceivedRequest] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            request = ReceivedRequest(self.command, self.path, dict(self.headers.items()), body)
            asked.append(request)
            answer = answers(request)
            if isinstance(answer, str):
                self.close_connection = True
                return
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)

        do_GET = do_POST = do_DELETE = answer  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Log nothing, unlike the handler of the library."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join(at_most(10.0))
