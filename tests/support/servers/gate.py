"""A gate before an HTTP server: TLS, and those alone who give the right credentials; or an answer of its own."""

import http.client
import ssl
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

REQUEST_SECONDS_MAX = 10.0


@dataclass(slots=True)
class HttpGate:
    """Hands requests on to a server at 127.0.0.1. `answers` are given before, one to each: a status and its headers."""

    target: int
    authorization: str | None = None
    answers: list[tuple[int, dict[str, str]]] = field(default_factory=list)
    seen: list[str] = field(default_factory=list)
    """The Authorization header of each request, empty where it had none."""
    port: int = 0

    def handle(self, request: BaseHTTPRequestHandler) -> tuple[int, dict[str, str], bytes]:
        """The answer to a request."""
        given = request.headers.get("Authorization", "")
        self.seen.append(given)
        if self.answers:
            return (*self.answers.pop(0), b"{}")
        if self.authorization is not None and given != self.authorization:
            return http.client.UNAUTHORIZED, {}, b"Unauthorized"
        connection = http.client.HTTPConnection("127.0.0.1", self.target, timeout=REQUEST_SECONDS_MAX)
        try:
            connection.request("GET", request.path)
            response = connection.getresponse()
            return response.status, {}, response.read()
        finally:
            connection.close()


@contextmanager
def running_gate(gate: HttpGate, *, tls: Sequence[str] = (), authority: str | None = None) -> Iterator[HttpGate]:
    """The gate, open at its `port`; with `tls`, a certificate and its key, by TLS, and with an `authority` only for
    clients with a certificate of it.
    """

    class Handler(BaseHTTPRequestHandler):
        timeout = REQUEST_SECONDS_MAX

        def do_GET(self) -> None:
            status, headers, content = gate.handle(self)
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_: object) -> None:
            # Handshakes that fail are what tests are about.
            pass

    with Server(("127.0.0.1", 0), Handler) as server:
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*tls)
            if authority is not None:
                context.load_verify_locations(authority)
                context.verify_mode = ssl.CERT_REQUIRED
            server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        gate.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield gate
        finally:
            server.shutdown()
            thread.join()
