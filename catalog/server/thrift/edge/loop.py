"""The event loop of a server process: it waits for all connections at once and passes their requests to threads.

A connection occupies a thread only while a request of it is served. The loop itself answers requests from the cache,
after one query of the metadata's generation for all of them. All others go to a pool, which schedules clients fairly.
The loop gathers messages that arrive in pieces, and writes replies that their clients read in pieces: no thread waits
for a client.
"""

import logging
import selectors
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial

from thrift.transport.TTransport import TTransportException

from interbed.catalog.server.database.session import GenerationReader
from interbed.catalog.server.threads import AnswerLaterError, ClientLink, ThreadDeaths
from interbed.catalog.server.thrift.edge.authenticating import ConnectionAuthenticator, PortAuthentication
from interbed.catalog.server.thrift.edge.buffers import PartialMessages, UnsentReplies
from interbed.catalog.server.thrift.edge.cache import AnswerCache, CacheHit, CacheLookup
from interbed.catalog.server.thrift.edge.call import ClientSession
from interbed.catalog.server.thrift.edge.dispatch import Dispatcher
from interbed.catalog.server.thrift.edge.pool import HEAVY_BYTES_MIN, EdgeFigures, EdgeLimits, ThreadPool, WeightBudget
from interbed.catalog.server.thrift.edge.serving import RequestServer, SharedEdge, accepted, send_answer
from interbed.catalog.server.thrift.edge.sockets import (
    AnyService,
    ConnectionWatcher,
    HttpService,
    ListeningSockets,
    LoopTasks,
    OtherServer,
    ParkedRequests,
    in_turn,
)
from interbed.catalog.server.thrift.edge.transport import BAD_INPUT, ClientConnection, prepare, receive_some, shut_down

logger = logging.getLogger(__name__)

SHUTDOWN_SECONDS_MAX = 10.0
"""Time for running requests after a request to stop the server."""

_TICK_SECONDS = 1.0
_THREAD_STACK_BYTES = 1024 * 1024


class EventLoop:
    """Serves connections until it is stopped.

    They come from listening sockets, each with its service, or are passed to `add`. `generations` opens the connection
    for the cache's queries, on a thread of its own; without a cache it is never called. `deaths` records the threads
    that die. `on_disconnect` gets each connection that has ended, unless the server ends it by stopping. `on_tick` is
    called every second, with the time that requests have waited without one being begun.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        *,
        connections_max: int,
        limits: EdgeLimits | None = None,
        listeners: Sequence[tuple[socket.socket, AnyService]] = (),
        cache: AnswerCache | None = None,
        generations: Callable[[], GenerationReader] | None = None,
        on_closed: Callable[[], None] = lambda: None,
        on_disconnect: Callable[[ClientLink], None] = lambda link: None,
        admit: Callable[[ClientSession], ClientSession] = lambda session: session,
        authentication: PortAuthentication | None = None,
        on_tick: Callable[[float], None] = lambda wait_seconds: None,
        deaths: ThreadDeaths | None = None,
    ) -> None:
        self._deaths = deaths if deaths is not None else ThreadDeaths()
        self._dispatcher = dispatcher
        self._limits = limits = limits if limits is not None else EdgeLimits()
        self._on_closed = on_closed
        self._on_disconnect = on_disconnect
        self._on_tick = on_tick
        self._pool = ThreadPool(deaths=self._deaths)
        self._selector = selectors.DefaultSelector()
        self._listeners = ListeningSockets(
            self._selector,
            listeners,
            connections_max=connections_max,
            count=lambda: self.connection_count,
            add=self.add,
        )
        self._stopping = threading.Event()
        self._guard = threading.Lock()
        self._connections: set[ClientConnection] = set()
        self._partials = PartialMessages(limits.partial_bytes_max)
        self._replies = UnsentReplies(limits.reply_bytes_max, limits.message_seconds)
        self._http: OtherServer | None = None
        self._edge = SharedEdge(
            dispatcher=dispatcher,
            pool=self._pool,
            limits=limits,
            partials=self._partials,
            decoded=WeightBudget(limits.decoded_bytes_max),
            cache=cache if generations is not None else None,
            generations=generations,
            reply_bytes=lambda: self._replies.size,
            admit=admit,
        )
        self._dropped = 0
        self._tasks = LoopTasks()
        self._watcher = ConnectionWatcher(self._selector)
        self._parked = ParkedRequests(self._watcher, self.call_soon, self.closed)
        self._requests = RequestServer(self, self._edge)
        self._authenticator = ConnectionAuthenticator(self, self._watcher, authentication, limits.message_bytes_max)
        self._lookup: CacheLookup[ClientConnection] | None = None
        if cache is not None and generations is not None:
            self._lookup = CacheLookup(
                cache,
                generations,
                selector=self._selector,
                deaths=self._deaths,
                call_soon=self.call_soon,
                give_back=self._give_answer,
                park=self._watcher.unwatch,
            )

    @property
    def connection_count(self) -> int:
        """Number of open connections, those over HTTP included."""
        return len(self._connections) + (0 if self._http is None else self._http.connection_count)

    @property
    def shared(self) -> SharedEdge:
        """The parts that a server of another protocol uses, too."""
        return self._edge

    @property
    def figures(self) -> EdgeFigures:
        """Return the present resources of the clients."""
        return EdgeFigures(
            partial_bytes=self._partials.size,
            decoded_bytes=self._edge.decoded.taken,
            reply_bytes=self._replies.size + (0 if self._http is None else self._http.reply_bytes),
            waiting=self._pool.waiting,
            dropped_total=self._dropped + (0 if self._http is None else self._http.dropped),
            refused_total=self._edge.refused + (0 if self._http is None else self._http.refused),
        )

    def serve_http(self, http: OtherServer) -> None:
        """Pass the connections of HTTP's port to this server, which starts and ends with the loop. Before `serve`."""
        self._http = http

    def waiting_outside(self) -> AbstractContextManager[None]:
        """Return a context for a request that waits for something outside of the server, while another is served."""
        return self._pool.blocked()

    def call_soon(self, task: Callable[[], None]) -> None:
        """Run a function on the loop's thread; safe from any thread."""
        self._tasks.add(task)

    def watch(self, watched: socket.socket, on_readable: Callable[[], None]) -> None:
        """Call a function, on the loop's thread, whenever a socket is readable."""
        self._selector.register(watched, selectors.EVENT_READ, on_readable)

    def unwatch(self, watched: socket.socket) -> None:
        """Stop watching a socket."""
        self._selector.unregister(watched)

    def serve(self) -> None:
        """Serve until stopped, then let running requests finish for at most SHUTDOWN_SECONDS_MAX."""
        previous_stack = threading.stack_size(_THREAD_STACK_BYTES)
        try:
            self._tasks.watch(self._selector)
            if self._http is not None:
                self._http.start()
            self._listeners.watch()
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
        self._tasks.wake()

    def add(self, connected: socket.socket, service: AnyService) -> None:
        """Add a new connection; on the loop's thread."""
        try:
            peer = prepare(connected)
            if isinstance(service, HttpService):
                assert self._http is not None
                self._http.adopt(connected, peer)
                return
            share = self._pool.client(peer.rpartition(":")[0])
            connection = accepted(connected, peer, service, share, self._edge.admit)
        except OSError as error:
            logger.info("a client went away before it was served: %s", error)
            connected.close()
            self._on_closed()
            return
        with self._guard:
            self._connections.add(connection)
        self._watcher.watch(connection)

    def _turn(self, timeout: float) -> None:
        for data in in_turn(self._selector.select(timeout)):
            connection = data if isinstance(data, ClientConnection) else None
            if connection is not None and not self._watcher.has_event(connection):
                # It was dropped in this turn, or a thread owns it.
                continue
            try:
                if not isinstance(data, ClientConnection):
                    data()
                elif data.outgoing:
                    self._write(data)
                else:
                    self._readable(data)
            except Exception:
                # An error of one connection must not affect the others.
                logger.exception("an error of the server")
                if connection is not None:
                    self._drop(connection)
        if self._lookup is not None:
            self._lookup.ask()

    def _sweep(self) -> None:
        now = time.monotonic()
        with self._guard:
            overdue = [each for each in self._connections if each.deadline is not None and each.deadline < now]
        for connection in overdue:
            if connection.watched:
                self._dropped += 1
                self._watcher.unwatch(connection)
                self._requests.hang_up(
                    connection, TTransportException(TTransportException.TIMED_OUT, connection.overdue)
                )
            elif connection.is_shaking_hands:
                # The next step of the handshake finds the error, on whichever thread it runs.
                shut_down(connection.link)
        self._drop_largest()
        self._drop_slowest()
        self._pool.look_again()
        silent_seconds = 0.0 if self._http is None else self._http.silent_seconds
        self._on_tick(max(self._pool.stalled_seconds, silent_seconds))
        if self._lookup is not None:
            self._lookup.on_tick()
        self._listeners.look_again()

    def _drop_largest(self) -> None:
        """Drop partial messages that exceed their budget; those over HTTP are dropped by its server."""
        for each in self._partials.too_many():
            if isinstance(each, ClientConnection):
                self._edge.count_refused()
                self._watcher.unwatch(each)
                self._requests.hang_up(each, self._partials.exceeded())

    def _drop_slowest(self) -> None:
        for connection in self._replies.slowest():
            self._dropped += 1
            logger.info(
                "connection from %s ended: replies that were not taken are more than %d bytes (the setting "
                "reply_bytes_max), and it is the slowest",
                connection.session.peer,
                self._limits.reply_bytes_max,
            )
            self._drop(connection)

    def closed(self, connection: ClientConnection) -> None:
        """Close and forget a connection that is not watched; from any thread."""
        if connection.is_registered:
            # The selector must unregister it first, on the loop's thread.
            self.call_soon(partial(self._drop, connection))
            return
        connection.link.close()
        connection.session.link.is_closed = True
        self._partials.forget(connection)
        self._replies.forget(connection)
        with self._guard:
            self._connections.discard(connection)
        self.ended(connection.session.link)

    def ended(self, link: ClientLink | None) -> None:
        """Make room for another connection after one was closed, with its `link` if it was served; from any thread."""
        if link is not None and not self._stopping.is_set():
            self._on_disconnect(link)
        self._on_closed()
        if self._listeners.is_full:
            self.call_soon(self._look_for_room)

    def _look_for_room(self) -> None:
        if not self._stopping.is_set():
            self._listeners.look_again()

    def serve_later(self, connection: ClientConnection, later: AnswerLaterError, serve: Callable[[], None]) -> None:
        """Serve a request of the pool again when it is due and its client is still authenticated; from any thread."""
        self._parked.park(connection, later, partial(self._authenticator.serve, connection, serve))

    # Requests

    def _readable(self, connection: ClientConnection) -> None:
        if connection.is_shaking_hands:
            self._watcher.unwatch(connection)
            self._requests.start_handshake(connection)
            return
        try:
            data = receive_some(connection.link)
        except OSError as error:
            logger.info("connection from %s ended: %s", connection.session.peer, error)
            data = b""
        if data is None:
            return
        if not data:
            if connection.incoming.data:
                logger.info("connection from %s ended within a message", connection.session.peer)
            self._drop(connection)
            return
        if connection.negotiation is not None:
            begun = self._authenticator.feed(connection, data)
            if begun is None:
                return
            data = begun
        self._authenticator.serve(connection, partial(self._received, connection, data))

    def _received(self, connection: ClientConnection, data: bytes) -> None:
        """Serve bytes of a client that is authenticated or need not be."""
        if connection.incoming.data:
            self._gather(connection, data)
            return
        try:
            message = connection.framing.whole(data)
        except BAD_INPUT as error:
            self._watcher.unwatch(connection)
            self._requests.hang_up(connection, error)
            return
        if message is None:
            self._gather(connection, data)
            return
        key = None
        if self._lookup is not None and connection.session.refusal is None:
            key, is_found = self._lookup.find(connection, connection.codec, message, connection.session)
            if is_found:
                connection.busy = True
                return
        self._hand_over(connection, data, message, key)

    def _hand_over(self, connection: ClientConnection, data: bytes, message: bytes, key: bytes | None) -> None:
        """Have the pool serve what is probably one whole message; `data` are the received bytes."""
        self._watcher.lend(connection)
        self._requests.hand_over(connection, data, message, key)

    def _gather(self, connection: ClientConnection, data: bytes) -> None:
        """Keep a piece of a message, and scan for its end if that may have arrived."""
        connection.incoming.data += data
        if len(connection.incoming.data) < connection.incoming.needed:
            self.wait_for_more(connection)
        else:
            self._look_for_message(connection)

    def _look_for_message(self, connection: ClientConnection) -> None:
        self._watcher.unwatch(connection)
        self._partials.count(connection)
        self._requests.look_for_message(connection)

    def wait_for_more(self, connection: ClientConnection) -> None:
        """Wait for the rest of a message."""
        if self._stopping.is_set():
            self._watcher.unwatch(connection)
            self.closed(connection)
            return
        if connection.deadline in (None, connection.unauthenticated_until):
            message_until = time.monotonic() + self._limits.message_seconds
            if connection.deadline is None or message_until < connection.deadline:
                connection.deadline = message_until
                connection.too_late = "a message took too long to arrive: timed out"
        self._partials.count(connection)
        if not connection.watched:
            self._watcher.watch(connection)
        self._drop_largest()
        if connection.watched and connection.has_pending_bytes:
            self._readable(connection)

    def give_back(self, connection: ClientConnection) -> None:
        """Wait for the next request of a client that has its reply; from any thread."""
        if connection.incoming.data or self._stopping.is_set():
            self.call_soon(partial(self.reclaim, connection))
            return
        connection.busy = False
        connection.deadline = connection.unauthenticated_until
        if not self._watcher.give_back(connection):
            self.call_soon(partial(self.reclaim, connection))

    def reclaim(self, connection: ClientConnection) -> None:
        if connection.outgoing:
            self._write(connection)
            return
        connection.busy = connection.is_shaking_hands = False
        connection.deadline = connection.unauthenticated_until
        if self._stopping.is_set():
            self._watcher.unwatch(connection)
            self.closed(connection)
        elif connection.incoming.data:
            # A client may send many requests at once, which take longer than its credentials are valid.
            self._authenticator.serve(connection, partial(self._look_for_message, connection))
        else:
            self._watcher.watch(connection)
            if connection.has_pending_bytes:
                self._readable(connection)

    def _write(self, connection: ClientConnection) -> None:
        """Send more of a reply."""
        try:
            is_sent = self._replies.write(connection)
        except OSError as error:
            logger.info("connection from %s ended: %s", connection.session.peer, error)
            self._drop(connection)
            return
        if is_sent:
            self._watcher.unwatch(connection)
            self.reclaim(connection)
            return
        if not connection.watched:
            self._watcher.watch(connection, selectors.EVENT_WRITE)
            self._drop_slowest()

    def watch_handshake(self, connection: ClientConnection) -> None:
        if self._stopping.is_set():
            self.closed(connection)
        else:
            self._watcher.watch(connection)

    def _give_answer(self, hit: CacheHit[ClientConnection]) -> None:
        """Send an answer from the cache if it is still valid, or run the request in full."""
        connection, entry = hit.connection, hit.entry
        # A long reply is not protected on this thread.
        if not entry.valid or (connection.framing.is_protected and len(entry.after) >= HEAVY_BYTES_MIN):
            self._hand_over(connection, hit.message, hit.message, entry.key)
            return
        session = connection.session
        try:
            unsent = send_answer(hit)
        except OSError as error:
            logger.info("connection from %s ended: %s", session.peer, error)
            self._drop(connection)
            return
        if self._lookup is not None:
            self._lookup.cache.hits += 1
        self._dispatcher.notify_ended(entry.method, session, hit.started, entry.outcome)
        connection.outgoing.extend(unsent)
        if connection.outgoing or not connection.watched or self._stopping.is_set():
            self._watcher.unwatch(connection)
            self.reclaim(connection)
        else:
            connection.busy = False

    def _drop(self, connection: ClientConnection) -> None:
        self._watcher.unwatch(connection)
        self.closed(connection)

    # The end

    def _close(self) -> None:
        self._listeners.close()
        swept_at = time.monotonic()
        deadline = swept_at + SHUTDOWN_SECONDS_MAX
        if self._http is not None:
            self._http.end_soon()
        while True:
            with self._guard:
                idle = [connection for connection in self._connections if not connection.busy]
                count = self.connection_count
            if not count:
                break
            if time.monotonic() > deadline:
                logger.warning("%d requests were still running after %.0f s", count, SHUTDOWN_SECONDS_MAX)
                break
            for connection in idle:
                if connection.watched:
                    self._drop(connection)
            if time.monotonic() - swept_at > _TICK_SECONDS:
                for connection in self._replies.stalled():
                    self._drop(connection)
                if self._http is not None:
                    self._http.end_soon()
                self._edge.abandons_waiting = time.monotonic() > deadline - SHUTDOWN_SECONDS_MAX / 2
                swept_at = time.monotonic()
            self._turn(0.01)
        if self._http is not None:
            self._http.stop()
        if self._lookup is not None:
            self._lookup.close()
        self._pool.close()
        self._authenticator.close()
        self._selector.close()
        self._tasks.close()
