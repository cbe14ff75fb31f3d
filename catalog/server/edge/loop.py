"""The loop that a server process runs: it waits for all connections at once and hands their requests to threads.

A connection costs a thread only while a request of it is served. What is in the cache is answered by the loop itself,
after one look for all of these requests at the generation of metadata. Everything else goes to a pool; a message that
does not come in one piece, or a reply that its client does not take, goes to a thread of its own, which may wait.
"""

import logging
import selectors
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from interbed.catalog.repository.generation import Generations
from interbed.catalog.server.edge.cache import AnswerCache
from interbed.catalog.server.edge.call import ClientSession
from interbed.catalog.server.edge.codec import Codec, IncompleteMessageError, MemorySource
from interbed.catalog.server.edge.dispatch import Dispatcher
from interbed.catalog.server.edge.parking import ParkedRequests
from interbed.catalog.server.edge.pool import ThreadPool
from interbed.catalog.server.edge.recall import Hit, Recall
from interbed.catalog.server.edge.tls import HANDSHAKE_SECONDS_MAX, client_subject, step
from interbed.catalog.server.edge.transport import (
    BAD_INPUT,
    MESSAGE_SECONDS_MAX,
    READ_BYTES,
    ClientConnection,
    Framing,
    SocketSource,
    prepare,
    say_goodbye,
    send_some,
    shut_down,
)
from interbed.catalog.server.session import AnswerLaterError, ClientLink
from interbed.catalog.server.threads import SupervisedThread, ThreadDeaths

logger = logging.getLogger(__name__)

SHUTDOWN_SECONDS_MAX = 10.0
"""How long running requests may take after the server was asked to stop."""

_TICK_SECONDS = 1.0
_THREAD_STACK_BYTES = 1024 * 1024
_NOT_YET = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """How the connections of a port are spoken to; see ClientLink for `speaks_for_client`."""

    codec: Codec
    framing: Callable[[], Framing]
    tls: ssl.SSLContext | None = None
    speaks_for_client: bool = True


class Loop:
    """Serves connections until stopped.

    They come from listening sockets, each with its service, or are handed in by `add`. `generations` opens the
    connection that the cache asks, on a thread of its own; without a cache it is never called. `deaths` notes the
    threads that die. `on_disconnect` gets each connection that has ended, unless the server ends it by stopping.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        *,
        connections_max: int,
        message_seconds: float = MESSAGE_SECONDS_MAX,
        listeners: Sequence[tuple[socket.socket, Service]] = (),
        cache: AnswerCache | None = None,
        generations: Callable[[], Generations] | None = None,
        on_closed: Callable[[], None] = lambda: None,
        on_disconnect: Callable[[ClientLink], None] = lambda link: None,
        deaths: ThreadDeaths | None = None,
    ) -> None:
        self._deaths = deaths if deaths is not None else ThreadDeaths()
        self._dispatcher = dispatcher
        self._connections_max = connections_max
        self._message_seconds = message_seconds
        self._listeners = list(listeners)
        self._on_closed = on_closed
        self._on_disconnect = on_disconnect
        self._pool = ThreadPool(deaths=self._deaths)
        self._selector = selectors.DefaultSelector()
        self._stopping = threading.Event()
        self._guard = threading.Lock()
        self._connections: set[ClientConnection] = set()
        self._is_full = False
        self._tasks: deque[Callable[[], None]] = deque()
        # Written to, so that the loop wakes up at once.
        self._wake_reader, self._wake_writer = socket.socketpair()
        self._wake_reader.setblocking(False)
        self._wake_writer.setblocking(False)
        self._parked = ParkedRequests(self._selector, self.call_soon, self._closed)
        self._recall: Recall | None = None
        if cache is not None and generations is not None:
            self._recall = Recall(
                cache,
                generations,
                selector=self._selector,
                deaths=self._deaths,
                call_soon=self.call_soon,
                give_back=self._give_answer,
                park=self._park,
            )

    @property
    def connection_count(self) -> int:
        """Connections that are open."""
        return len(self._connections)

    def call_soon(self, task: Callable[[], None]) -> None:
        """Run a function on the loop's thread; safe from any."""
        self._tasks.append(task)
        self._wake()

    def watch(self, watched: socket.socket, on_readable: Callable[[], None]) -> None:
        """Call a function, on the loop's thread, whenever a socket can be read from."""
        self._selector.register(watched, selectors.EVENT_READ, on_readable)

    def unwatch(self, watched: socket.socket) -> None:
        """No longer."""
        self._selector.unregister(watched)

    def serve(self) -> None:
        """Serve until stopped, then let running requests finish for at most SHUTDOWN_SECONDS_MAX."""
        previous_stack = threading.stack_size(_THREAD_STACK_BYTES)
        try:
            self._selector.register(self._wake_reader, selectors.EVENT_READ, self._woken)
            self._watch_listeners()
            self._sweep()
            swept_at = time.monotonic()
            while not self._stopping.is_set():
                self._turn(_TICK_SECONDS)
                if time.monotonic() - swept_at >= _TICK_SECONDS:
                    self._sweep()
                    swept_at = time.monotonic()
        finally:
            threading.stack_size(previous_stack)
            self._close()

    def stop(self) -> None:
        """End `serve` soon. Safe to call from a signal handler, and more than once."""
        self._stopping.set()
        self._wake()

    def add(self, connected: socket.socket, service: Service) -> None:
        """Take a new connection; on the loop's thread."""
        try:
            peer = prepare(connected)
            if service.tls is not None:
                connected = service.tls.wrap_socket(connected, server_side=True, do_handshake_on_connect=False)
        except OSError as error:
            logger.info("a client went away before it was served: %s", error)
            connected.close()
            self._on_closed()
            return
        session = ClientSession(peer=peer, link=ClientLink(speaks_for_client=service.speaks_for_client))
        connection = ClientConnection(connected, service.framing(), service.codec, session)
        if service.tls is not None:
            connection.handshake_until = time.monotonic() + HANDSHAKE_SECONDS_MAX
        with self._guard:
            self._connections.add(connection)
        self._watch(connection)

    def _turn(self, timeout: float) -> None:
        for key, _ in self._selector.select(timeout):
            try:
                if type(key.data) is ClientConnection:
                    self._readable(key.data)
                else:
                    key.data()
            except Exception:
                # One connection's trouble must not be all others'.
                logger.exception("an error of the server")
                if type(key.data) is ClientConnection:
                    self._drop(key.data)
        if self._recall is not None:
            self._recall.ask()

    def _wake(self) -> None:
        try:
            self._wake_writer.send(b"x")
        except BlockingIOError:
            # It is full of wakes.
            pass
        except OSError:
            logger.debug("the server has ended already")

    def _woken(self) -> None:
        self._wake_reader.recv(4096)
        while self._tasks:
            self._tasks.popleft()()

    def _sweep(self) -> None:
        now = time.monotonic()
        with self._guard:
            late = [each for each in self._connections if each.handshake_until is not None]
        for connection in late:
            if connection.handshake_until is not None and connection.handshake_until < now:
                # The next step of the handshake finds it out, whichever thread has it.
                shut_down(connection.link)
        if self._recall is not None:
            self._recall.look_after()
        self._accept_again()

    # New connections

    def _watch_listeners(self) -> None:
        for listener, service in self._listeners:
            self._selector.register(listener, selectors.EVENT_READ, partial(self._accept, listener, service))

    def _unwatch_listeners(self) -> None:
        for listener, _ in self._listeners:
            self._selector.unregister(listener)

    def _accept(self, listener: socket.socket, service: Service) -> None:
        while not self._is_full:
            if len(self._connections) >= self._connections_max:
                logger.warning("all %d connections are in use, further clients wait", self._connections_max)
                self._is_full = True
                self._unwatch_listeners()
                return
            try:
                connected, _ = listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                # Out of descriptors, most likely: tried again when a connection has ended, or after a while.
                logger.warning("could not accept a connection: %s", error)
                self._is_full = True
                self._unwatch_listeners()
                return
            self.add(connected, service)

    def _closed(self, connection: ClientConnection) -> None:
        """Forget a connection that is not watched; from any thread."""
        connection.link.close()
        connection.session.link.is_closed = True
        if not self._stopping.is_set():
            self._on_disconnect(connection.session.link)
        with self._guard:
            self._connections.discard(connection)
        self._on_closed()
        if self._is_full:
            self.call_soon(self._accept_again)

    def _accept_again(self) -> None:
        if self._is_full and len(self._connections) < self._connections_max and not self._stopping.is_set():
            self._is_full = False
            self._watch_listeners()

    # Requests

    def _watch(self, connection: ClientConnection) -> None:
        self._selector.register(connection.link, selectors.EVENT_READ, connection)
        connection.watched = True

    def _unwatch(self, connection: ClientConnection) -> None:
        self._selector.unregister(connection.link)
        connection.watched = False

    def _readable(self, connection: ClientConnection) -> None:
        if connection.handshake_until is not None:
            self._unwatch(connection)
            self._pool.submit(partial(self._shake_hands, connection))
            return
        try:
            data = connection.link.recv(READ_BYTES)
            if type(connection.link) is ssl.SSLSocket:
                # What TLS has taken off the socket shows in no selector.
                while pending := connection.link.pending():
                    data += connection.link.recv(pending)
        except _NOT_YET:
            return
        except OSError as error:
            logger.info("connection from %s ended: %s", connection.session.peer, error)
            data = b""
        if not data:
            self._unwatch(connection)
            self._closed(connection)
            return
        message = connection.framing.whole(data)
        if message is None:
            self._unwatch(connection)
            self._start_conversation(connection, b"", data)
            return
        key = None
        if self._recall is not None:
            key, is_found = self._recall.find(connection, message)
            if is_found:
                connection.busy = True
                return
        self._hand_over(connection, data, message, key)

    def _hand_over(self, connection: ClientConnection, data: bytes, message: bytes, key: bytes | None) -> None:
        if connection.watched:
            self._unwatch(connection)
        connection.busy = True
        self._pool.submit(partial(self._serve_message, connection, data, message, key))

    def _give_back(self, connection: ClientConnection) -> None:
        """Let the loop wait for the connection's next request; from any thread."""
        connection.busy = False
        self.call_soon(partial(self._take_back, connection))

    def _take_back(self, connection: ClientConnection) -> None:
        if self._stopping.is_set():
            self._closed(connection)
            return
        self._watch(connection)
        if type(connection.link) is ssl.SSLSocket and connection.link.pending():
            self._readable(connection)

    def _serve_message(self, connection: ClientConnection, data: bytes, message: bytes, key: bytes | None) -> None:
        """Serve what is probably one whole message; a job of the pool."""
        cache = None if self._recall is None else self._recall.cache
        generation = -1 if cache is None else cache.generation
        try:
            source = MemorySource(message)
            try:
                request = self._dispatcher.read(connection.codec, source)
            except IncompleteMessageError:
                connection.busy = False
                self._start_conversation(connection, b"", data)
                return
            rest = source.rest()
            answer = self._dispatcher.call(request, _session_of(connection), may_wait=not rest)
            connection.session = answer.session
            if cache is not None and key is not None and not rest:
                cache.keep(key, answer, generation)
            unsent = send_some(connection.link, connection.framing.pack(answer.reply))
        except AnswerLaterError as later:
            self._parked.park(connection, later, partial(self._hand_over, connection, data, message, key))
        except BAD_INPUT as error:
            self._hang_up(connection, error)
        except Exception:
            logger.exception("connection from %s ended by an error of the server", connection.session.peer)
            self._closed(connection)
        else:
            if unsent or rest or connection.framing.is_last:
                self._start_conversation(connection, unsent, b"" if connection.framing.is_last else rest)
            else:
                self._give_back(connection)

    def _start_conversation(self, connection: ClientConnection, unsent: bytes, data: bytes) -> None:
        SupervisedThread(
            partial(self._converse, connection, unsent, data),
            name=f"client {connection.session.peer}",
            deaths=self._deaths,
        ).start()

    def _converse(self, connection: ClientConnection, unsent: bytes, data: bytes) -> None:
        """Serve a connection by waiting for it, until nothing of it is under way; on a thread of its own."""
        try:
            connection.link.settimeout(self._message_seconds)
            if unsent:
                connection.link.sendall(unsent)
            while data:
                connection.busy = False
                reader = SocketSource(connection.link, data, self._message_seconds)
                reader.begin()
                request = self._dispatcher.read(connection.codec, connection.framing.next(reader))
                connection.busy = True
                answer = self._dispatcher.call(request, _session_of(connection))
                connection.session = answer.session
                connection.link.sendall(connection.framing.pack(answer.reply))
                data = b"" if connection.framing.is_last else reader.rest()
            connection.link.setblocking(False)
        except BAD_INPUT as error:
            self._hang_up(connection, error)
        except Exception:
            logger.exception("connection from %s ended by an error of the server", connection.session.peer)
            self._closed(connection)
        else:
            if connection.framing.is_last:
                self._closed(connection)
            else:
                self._give_back(connection)

    def _hang_up(self, connection: ClientConnection, error: Exception) -> None:
        logger.info("connection from %s ended: %s", connection.session.peer, str(error) or type(error).__name__)
        connection.busy = False
        last_words = connection.framing.refusal(error)
        if last_words:
            say_goodbye(connection.link, last_words)
        self._closed(connection)

    def _shake_hands(self, connection: ClientConnection) -> None:
        """One step of a TLS handshake; a job of the pool."""
        try:
            is_done = step(connection.link)
            if is_done:
                connection.session = replace(connection.session, certificate=client_subject(connection.link))
        except (OSError, ValueError) as error:
            logger.info("connection from %s ended: no TLS handshake: %s", connection.session.peer, error)
            self._closed(connection)
        else:
            if is_done:
                connection.handshake_until = None
            self._give_back(connection)

    def _give_answer(self, hit: Hit) -> None:
        """Send an answer from the cache if it is still true, or serve the request as if nothing had been kept."""
        connection, entry = hit.connection, hit.entry
        if not entry.valid:
            self._hand_over(connection, hit.message, hit.message, entry.key)
            return
        session = _session_of(connection)
        try:
            unsent = send_some(connection.link, connection.framing.pack(entry.before + hit.sequence + entry.after))
        except OSError as error:
            logger.info("connection from %s ended: %s", session.peer, error)
            self._drop(connection)
            return
        if self._recall is not None:
            self._recall.cache.hits += 1
        self._dispatcher.notify_ended(entry.method, session, hit.started, entry.outcome)
        if unsent or connection.framing.is_last:
            if connection.watched:
                self._unwatch(connection)
            self._start_conversation(connection, unsent, b"")
            return
        connection.busy = False
        if not connection.watched:
            self._take_back(connection)

    def _park(self, connection: ClientConnection) -> None:
        if connection.watched:
            self._unwatch(connection)

    def _drop(self, connection: ClientConnection) -> None:
        self._park(connection)
        self._closed(connection)

    # The end

    def _close(self) -> None:
        if not self._is_full:
            self._unwatch_listeners()
        for listener, _ in self._listeners:
            listener.close()
        deadline = time.monotonic() + SHUTDOWN_SECONDS_MAX
        while True:
            with self._guard:
                idle = [connection for connection in self._connections if not connection.busy]
                count = len(self._connections)
            if not count:
                break
            if time.monotonic() > deadline:
                logger.warning("%d requests were still running after %.0f s", count, SHUTDOWN_SECONDS_MAX)
                break
            for connection in idle:
                if connection.watched:
                    self._drop(connection)
                else:
                    # A thread waits for the rest of a message, which has not been acknowledged.
                    shut_down(connection.link)
            self._turn(0.01)
        if self._recall is not None:
            self._recall.close()
        self._pool.close()
        self._selector.close()
        self._wake_reader.close()
        self._wake_writer.close()


def _session_of(connection: ClientConnection) -> ClientSession:
    """The connection's session, with the user that came with the message, if that carries one."""
    user = connection.framing.user
    if user is not None and user != connection.session.user:
        connection.session = replace(connection.session, user=user)
    return connection.session
