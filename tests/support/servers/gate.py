"""A reverse proxy before an HTTP server: it requires TLS or credentials, or answers by itself."""

import http.client
import ssl
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.support.waits import at_most

REQUEST_SECONDS_MAX = at_most(10.0)


@dataclass(slots=True)
class HttpGate:
    """Proxy of a server at 127.0.0.1. It first gives the `answers`, one per request: a status and its headers."""

    target: int
    authorization: str | None = None
    answers: list[tuple[int, dict[str, str]]] = field(default_factory=list)
    seen: list[str] = field(default_factory=list)
    """Authorization header of each request, empty where it had none."""
    port: int = 0

    def handle(self, request: BaseHTTPRequestHandler) -> tuple[int, dict[str, str], bytes]:
        """Return the answer to a request."""
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
    """Serve the gate at its `port`. `tls`, a certificate and its key, turns TLS on. With an `authority` clients need a
    certificate of that authority.
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
            # Failed handshakes are expected by the tests.
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
