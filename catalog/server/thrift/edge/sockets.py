"""The sockets of a loop: listening ones with TLS, and the connections that it waits for, lends to a thread, or parks.

Listening sockets accept connections up to a limit. TLS covers the server's certificate, clients' certificates, and a
handshake in non-blocking steps.

A connection that is lent stays registered with the selector, because most clients wait for their reply: the thread
gives it back without waking the loop. If the client sends more, or disconnects, the loop is woken in vain; it
unregisters the connection, and the thread has to return it through the loop.

A call parks its request by AnswerLaterError: the request is served again later, and occupies no thread until then.
Meanwhile the loop watches the connection for its end only, so that a client that disconnects is noticed at once. Bytes
that it sends before it has its answer stay in the socket's buffer.

Of many ready sockets those that have used the least time of the loop are served first.
"""

import logging
import selectors
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from interbed.catalog.server.auth.principals import ClientCertificate
from interbed.catalog.server.threads import AnswerLaterError
from interbed.catalog.server.thrift.edge.codec import Codec
from interbed.catalog.server.thrift.edge.transport import ClientConnection, Framing

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

CROWD = 16
"""Number of ready sockets from which on they are ordered, and served for a limited time."""

TURN_SECONDS_MAX = 0.01
"""Time that a crowd is served before the loop selects ready sockets again."""


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


class LoopTasks:
    """Functions that any thread passes to the loop's thread. A socket wakes the loop."""

    def __init__(self) -> None:
        self._tasks: deque[Callable[[], None]] = deque()
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)

    def watch(self, selector: selectors.BaseSelector) -> None:
        """Run the functions whenever the selector reports the socket."""
        selector.register(self._reader, selectors.EVENT_READ, self._run)

    def add(self, task: Callable[[], None]) -> None:
        """Run a function on the loop's thread; safe from any thread."""
        self._tasks.append(task)
        self.wake()

    def wake(self) -> None:
        """Wake the loop; safe in handlers of signals."""
        try:
            self._writer.send(b"x")
        except BlockingIOError:
            # The pipe is full of wake-ups.
            pass
        except OSError:
            logger.debug("the server has ended already")

    def close(self) -> None:
        """Close the socket that wakes the loop."""
        self._reader.close()
        self._writer.close()

    def _run(self) -> None:
        self._reader.recv(4096)
        while self._tasks:
            self._tasks.popleft()()


class ConnectionWatcher:
    """The connections of a loop in its selector. `lend`, `has_event` and registering methods are for the
    loop's thread.
    """

    def __init__(self, selector: selectors.BaseSelector) -> None:
        self._selector = selector
        self._guard = threading.Lock()

    def watch(self, connection: ClientConnection, events: int = selectors.EVENT_READ, data: object = None) -> None:
        """Wait for a connection, with `data` for its events, by default itself."""
        self._unregister(connection)
        self._selector.register(connection.link, events, connection if data is None else data)
        connection.is_registered = connection.watched = True

    def unwatch(self, connection: ClientConnection) -> None:
        """Stop waiting for a connection, if it is watched."""
        self._unregister(connection)
        connection.watched = False

    def lend(self, connection: ClientConnection) -> None:
        """Lend a watched connection to a thread."""
        if type(connection.link) is socket.socket:
            connection.watched = False
        else:
            # No selector reports the bytes that TLS has buffered, so that the loop has to check.
            self.unwatch(connection)

    def give_back(self, connection: ClientConnection) -> bool:
        """Watch a connection again that was lent; False if the loop has to do that on its thread; from any thread."""
        with self._guard:
            connection.watched = connection.is_registered
        return connection.watched

    def has_event(self, connection: ClientConnection) -> bool:
        """Return whether a connection with an event is watched. One that is lent is unregistered."""
        if connection.watched:
            return True
        with self._guard:
            # A thread may have given it back just now.
            if connection.watched or not connection.is_registered:
                return connection.watched
            self._selector.unregister(connection.link)
            connection.is_registered = False
        return False

    def _unregister(self, connection: ClientConnection) -> None:
        if connection.is_registered:
            self._selector.unregister(connection.link)
            connection.is_registered = False


class ParkedRequests:
    """The parked requests of an event loop.

    `call_soon` runs a function on the loop's thread. `close` is called with a connection that has ended and is not
    registered any more.
    """

    def __init__(
        self,
        watcher: ConnectionWatcher,
        call_soon: Callable[[Callable[[], None]], None],
        close: Callable[[ClientConnection], None],
    ) -> None:
        self._watcher = watcher
        self._call_soon = call_soon
        self._close = close

    def park(self, connection: ClientConnection, later: AnswerLaterError, serve: Callable[[], None]) -> None:
        """Watch the connection until the request is due, then run `serve` on the loop's thread. Thread-safe."""
        self._call_soon(partial(self._begin, connection, later, serve))

    def _begin(self, connection: ClientConnection, later: AnswerLaterError, serve: Callable[[], None]) -> None:
        connection.busy = False
        self._watcher.watch(connection, data=partial(self._readable, connection))
        later.start(lambda: self._call_soon(partial(self._resume, connection, serve)))

    def _resume(self, connection: ClientConnection, serve: Callable[[], None]) -> None:
        if connection.session.link.is_closed:
            return
        self._watcher.unwatch(connection)
        connection.busy = True
        serve()

    def _readable(self, connection: ClientConnection) -> None:
        if not connection.watched:
            # It was dropped, or its request is served again, in this turn.
            return
        try:
            # Not the method of TLS sockets, which can't peek.
            has_ended = not socket.socket.recv(connection.link, 1, socket.MSG_PEEK)
        except BlockingIOError:
            return
        except OSError:
            has_ended = True
        self._watcher.unwatch(connection)
        if has_ended:
            self._close(connection)


def in_turn(events: list[tuple[selectors.SelectorKey, int]]) -> "Iterator[ClientConnection | Callable[[], None]]":
    """Yield the data of the ready sockets, each when it is to be served. Some of a crowd are left for the next turn."""
    if len(events) <= CROWD:
        for key, _ in events:
            yield key.data
        return
    started = before = time.monotonic()
    window = int(started)
    for data in sorted((key.data for key, _ in events), key=lambda data: _used_seconds(data, window)):
        yield data
        now = time.monotonic()
        if type(data) is ClientConnection:
            data.loop_seconds = now - before + (data.loop_seconds if data.loop_window == window else 0.0)
            data.loop_window = window
        if now - started > TURN_SECONDS_MAX:
            return
        before = now


def _used_seconds(data: object, window: int) -> float:
    """Return the loop's time for a connection in this second; 0 for everything else, which comes first."""
    if type(data) is not ClientConnection:
        return -1.0
    return data.loop_seconds if data.loop_window == window else 0.0
