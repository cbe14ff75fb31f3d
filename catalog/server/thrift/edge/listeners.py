"""The listening sockets of a loop, which accept connections up to a limit, and the TLS of accepted connections.

TLS covers the server's certificate, clients' certificates, and a handshake in non-blocking steps.
"""

import logging
import selectors
import socket
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from interbed.catalog.server.auth.principals import ClientCertificate
from interbed.catalog.server.thrift.edge.codec import Codec
from interbed.catalog.server.thrift.edge.transport import Framing

HANDSHAKE_SECONDS_MAX = 10.0
"""Time that a client has for the handshake."""

# The usual notation of subjects (RFC 4514).
_SHORT = {
    "commonName": "CN",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "countryName": "C",
    "stateOrProvinceName": "ST",
    "localityName": "L",
}

logger = logging.getLogger(__name__)


def server_context(
    certificate: Path, key: Path | None, client_ca: Path | None, *, is_optional: bool = False
) -> ssl.SSLContext:
    """Return a context for servers; with `client_ca` clients must present a certificate signed by it, or may
    present one if that is optional.

    OSError if a file cannot be used.
    """
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(certificate, key)
        if client_ca is not None:
            context.load_verify_locations(client_ca)
            context.verify_mode = ssl.CERT_OPTIONAL if is_optional else ssl.CERT_REQUIRED
    except ssl.SSLError as error:
        raise OSError(f"the TLS certificate {certificate}, its key or the clients' authorities: {error}") from error
    return context


def handshake_step(link: Any) -> bool:
    """Continue the handshake; return whether it is complete. If not, the client has to send more first. OSError."""
    try:
        link.do_handshake()
    except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
        # The server's part of a handshake fits into the socket's buffer.
        return False
    return True


def client_certificate(link: Any) -> ClientCertificate | None:
    """Return the verified certificate of the client; None without one.

    The subject is `CN=…,O=…` with the most significant part last.
    """
    found = link.getpeercert()
    if not found:
        return None
    parts = [each for part in found.get("subject", ()) for each in part]
    reversed_parts = [each for part in reversed(found.get("subject", ())) for each in part]
    return ClientCertificate(
        subject=",".join(f"{_SHORT.get(name, name)}={value}" for name, value in reversed_parts),
        common_names=tuple(value for name, value in parts if name == "commonName"),
        ends_at=float(ssl.cert_time_to_seconds(found["notAfter"])),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """Protocol and transport of a port's connections. An internal one serves the optimizer beside the server alone."""

    codec: Codec
    framing: Callable[[], Framing]
    tls: ssl.SSLContext | None = None
    is_internal: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpService:
    """A port whose connections the process's HTTP server serves; `make_server` makes that of the cached answers and
    other parts that a loop shares with it, its function for connections that have ended, and the threads that die.
    """

    make_server: "Callable[..., OtherServer]"


AnyService = Service | HttpService


class OtherServer(Protocol):
    """A server of another protocol in the process, with a thread of its own."""

    @property
    def connection_count(self) -> int:
        """Number of open connections."""
        ...

    @property
    def reply_bytes(self) -> int:
        """Bytes of replies that clients have not read."""
        ...

    @property
    def silent_seconds(self) -> float:
        """Time by which the turn that is due every second is late."""
        ...

    @property
    def dropped(self) -> int:
        """Clients dropped since the start."""
        ...

    @property
    def refused(self) -> int:
        """Requests refused for their size since the start."""
        ...

    def start(self) -> None:
        """Start the thread that serves."""
        ...

    def adopt(self, connected: socket.socket, peer: str) -> None:
        """Serve a new connection; from any thread."""
        ...

    def end_soon(self) -> None:
        """Close idle connections, and each other one after its reply; from any thread, and more than once."""
        ...

    def stop(self) -> None:
        """Close all connections and end."""
        ...


class ListeningSockets:
    """Accepts connections and passes them to `add`, as long as `count` is below `connections_max`. For one thread."""

    def __init__(
        self,
        selector: selectors.BaseSelector,
        listeners: Sequence[tuple[socket.socket, AnyService]],
        *,
        connections_max: int,
        count: Callable[[], int],
        add: Callable[[socket.socket, AnyService], None],
    ) -> None:
        self._selector = selector
        self._listeners = list(listeners)
        self._connections_max = connections_max
        self._count = count
        self._add = add
        self.is_full = False
        """Whether the limit of connections is reached."""

    def watch(self) -> None:
        """Start to accept connections."""
        for listener, service in self._listeners:
            self._selector.register(listener, selectors.EVENT_READ, partial(self._accept, listener, service))

    def look_again(self) -> None:
        """Accept connections again if the limit allows it."""
        if self.is_full and self._count() < self._connections_max:
            self.is_full = False
            self.watch()

    def close(self) -> None:
        """Close the sockets; connections in their queues are refused."""
        if not self.is_full:
            self._unwatch()
        for listener, _ in self._listeners:
            listener.close()

    def _unwatch(self) -> None:
        for listener, _ in self._listeners:
            self._selector.unregister(listener)

    def _accept(self, listener: socket.socket, service: AnyService) -> None:
        while not self.is_full:
            if self._count() >= self._connections_max:
                logger.warning("all %d connections are in use, further clients wait", self._connections_max)
                self.is_full = True
                self._unwatch()
                return
            try:
                connected, _ = listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                # Most likely the process has no more descriptors: tried again when a connection has ended, or after a
                # while.
                logger.warning("could not accept a connection: %s", error)
                self.is_full = True
                self._unwatch()
                return
            self._add(connected, service)
