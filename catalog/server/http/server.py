"""A server of one application over HTTP, on a thread of its own with an asyncio loop.

The loop that accepts connections passes them to it by `adopt`, or it accepts them itself after `listen`.
Every second it drops clients that miss a deadline, and the slowest readers when unsent responses exceed their budget.
"""

import asyncio
import logging
import socket
import ssl
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from typing import Any

import uvloop
from starlette.types import ASGIApp
from thrift.transport.TTransport import TTransportException
from uvicorn.config import Config
from uvicorn.server import ServerState

from interbed.catalog.server.http.connection import HttpClient, HttpConnection
from interbed.catalog.server.threads import ClientLink, SupervisedThread, ThreadDeaths
from interbed.catalog.server.thrift.edge.buffers import BYTES_PER_EXTRA_TIME, STALLED_SECONDS, PartialMessages, slowest
from interbed.catalog.server.thrift.edge.pool import EdgeLimits, ThreadPool
from interbed.catalog.server.thrift.edge.sockets import HANDSHAKE_SECONDS_MAX
from interbed.catalog.server.thrift.edge.transport import prepare

logger = logging.getLogger(__name__)

_TICK_SECONDS = 1.0
_STOP_SECONDS_MAX = 5.0


class HttpServer:
    """Serves an application from `start` until `stop`.

    `lifespan` is entered on the thread before the first request. `pool` gives each client its share. `partials` counts
    incomplete requests, those of other servers of the process included; `other_reply_bytes` returns the unsent bytes of
    other servers. `on_ended` gets each connection that has ended. `idle_seconds` limits the time of a connection
    without a request.
    """

    def __init__(
        self,
        application: ASGIApp,
        *,
        name: str,
        limits: EdgeLimits | None = None,
        lifespan: Callable[[], AbstractAsyncContextManager[None]] = nullcontext,
        tls: ssl.SSLContext | None = None,
        pool: ThreadPool | None = None,
        partials: PartialMessages | None = None,
        other_reply_bytes: Callable[[], int] = lambda: 0,
        idle_seconds: float | None = None,
        on_ended: Callable[[ClientLink | None], None] = lambda link: None,
        deaths: ThreadDeaths | None = None,
    ) -> None:
        self._lifespan = lifespan
        self._name = name
        self._limits = limits if limits is not None else EdgeLimits()
        self._tls = tls
        self._pool = pool
        self._partials = partials if partials is not None else PartialMessages(self._limits.partial_bytes_max)
        self._other_reply_bytes = other_reply_bytes
        self.message_seconds = self._limits.message_seconds
        self.idle_seconds = idle_seconds
        self._on_ended = on_ended
        self._connections: set[HttpConnection] = set()
        # Each is counted by one thread.
        self._adopted = 0
        self._ended_count = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_ending = False
        self._reply_bytes = 0
        self._turned_at: float | None = None
        self.dropped = 0
        """Clients dropped since the start."""
        self.refused = 0
        """Requests refused for their size since the start."""
        self._listener: _ListeningPort | None = None
        self._config = Config(
            application,
            http=HttpConnection,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,
        )
        self._config.load()
        self._state = ServerState()
        self._loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
        self._stopping = asyncio.Event()
        self._thread = SupervisedThread(self._run, name=name, deaths=deaths if deaths is not None else ThreadDeaths())

    @property
    def connection_count(self) -> int:
        """Number of open connections."""
        return self._adopted - self._ended_count

    @property
    def reply_bytes(self) -> int:
        """Bytes of responses that clients have not read, as of the last second."""
        return self._reply_bytes

    @property
    def silent_seconds(self) -> float:
        """Time by which the turn that is due every second is late."""
        turned_at = self._turned_at
        return 0.0 if turned_at is None else max(0.0, time.monotonic() - turned_at - _TICK_SECONDS)

    def start(self) -> None:
        """Start the thread that serves."""
        self._thread.start()

    def adopt(self, connected: socket.socket, peer: str) -> None:
        """Serve a new connection, which is non-blocking; from any thread. Raises OSError if the server has ended."""
        self._adopted += 1
        try:
            self._loop.call_soon_threadsafe(self._begin, connected, peer)
        except RuntimeError as error:
            self._adopted -= 1
            raise OSError("the HTTP server has ended") from error

    def listen(
        self,
        listener: socket.socket,
        *,
        clients_max: int,
        accept: Callable[[], tuple[socket.socket, Any]],
        on_closed: Callable[[], None],
    ) -> None:
        """Accept connections by `accept`, at most `clients_max` at once; before `start`. `on_closed` is called when the
        descriptor of a connection is free.
        """
        self._listener = _ListeningPort(self, listener, clients_max, accept, on_closed)

    def end_soon(self) -> None:
        """Close idle connections, and each other one after its response; from any thread, and more than once."""
        # The thread may end, and close the loop, at any time.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._end_idle)

    def stop(self) -> None:
        """Close all connections and end the thread."""
        if self._thread.is_alive():
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join(timeout=_STOP_SECONDS_MAX)
        elif not self._loop.is_closed():
            self._loop.close()
        if self._listener is not None:
            self._listener.close()

    # The owner of the connections

    def opened(self, connection: HttpConnection) -> None:
        """Record a new connection."""
        self._connections.add(connection)
        client = connection.client_state
        if self._pool is not None:
            client.share = self._pool.client(client.session.peer.rpartition(":")[0])
        if self._is_ending:
            connection.shutdown()

    def received_part(self, connection: HttpConnection, size: int) -> None:
        """Count the bytes of an incomplete request; drop the largest if there are too many."""
        self._partials.count_bytes(connection.client_state, size)
        if size:
            self._drop_largest()

    def closed(self, connection: HttpConnection) -> None:
        """Forget a connection that has ended."""
        self._connections.discard(connection)
        self._partials.forget(connection.client_state)
        # The transport closes the descriptor after this.
        self._loop.call_soon(self._ended, connection.client_state.session.link)

    def _ended(self, link: ClientLink | None) -> None:
        self._ended_count += 1
        self._on_ended(link)
        if self._listener is not None:
            self._listener.look_again()

    # The loop's thread

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        async with self._lifespan():
            if self._listener is not None:
                self._listener.watch()
            while not self._stopping.is_set():
                try:
                    await asyncio.wait_for(self._stopping.wait(), _TICK_SECONDS)
                except TimeoutError:
                    self._sweep()
            if self._listener is not None:
                self._listener.close()
            for connection in list(self._connections):
                connection.abort()
            pending = [*self._tasks, *self._state.tasks]
            for task in pending:
                task.cancel()
            await asyncio.gather(*pending, return_exceptions=True)

    def _begin(self, connected: socket.socket, peer: str) -> None:
        task = self._loop.create_task(self._connect(connected, peer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connect(self, connected: socket.socket, peer: str) -> None:
        try:
            await self._loop.connect_accepted_socket(
                lambda: HttpConnection(self, self._config, self._state, peer),
                connected,
                ssl=self._tls,
                ssl_handshake_timeout=None if self._tls is None else HANDSHAKE_SECONDS_MAX,
            )
        except OSError as error:
            logger.info("connection from %s ended: no TLS handshake: %s", peer, error)
            connected.close()
            self._ended(None)

    def _end_idle(self) -> None:
        self._is_ending = True
        if self._listener is not None:
            self._listener.close()
        now = time.monotonic()
        for connection in list(self._connections):
            client = connection.client_state
            if connection.unsent_bytes:
                if client.unsent_bytes and now - client.progress_at > STALLED_SECONDS:
                    connection.abort()
            elif connection.is_receiving or not client.is_served:
                connection.abort()
            else:
                connection.shutdown()

    def _sweep(self) -> None:
        now = self._turned_at = time.monotonic()
        for connection in list(self._connections):
            client = connection.client_state
            if client.deadline is not None and client.deadline < now:
                self.dropped += 1
                if connection.is_receiving:
                    reason = "a message took too long to arrive: timed out"
                    connection.hang_up(TTransportException(TTransportException.TIMED_OUT, reason))
                else:
                    connection.end()
        self._drop_largest()
        self._drop_slow(now)

    def _drop_largest(self) -> None:
        for each in self._partials.too_many():
            if isinstance(each, HttpClient):
                self.refused += 1
                self._partials.forget(each)
                each.hang_up(self._partials.exceeded())

    def _drop_slow(self, now: float) -> None:
        """Drop clients that do not read their responses."""
        unread: list[HttpClient] = []
        for connection in self._connections:
            size, client = connection.unsent_bytes, connection.client_state
            if size and not client.unsent_bytes:
                extra = size / BYTES_PER_EXTRA_TIME
                client.reply_until = now + self.message_seconds * (1 + extra)
                client.progress_at = now
            elif size < client.unsent_bytes:
                client.progress_at = now
            client.unsent_bytes = size
            if size:
                unread.append(client)
        self._reply_bytes = sum(client.unsent_bytes for client in unread)
        for client in unread:
            if min(client.progress_at + self.message_seconds, client.reply_until) < now:
                self._drop(client, "taking its reply timed out")
        unsent = self._reply_bytes + self._other_reply_bytes()
        for client in slowest(unread, unsent, self._limits.reply_bytes_max, now):
            self._drop(
                client,
                f"replies that were not taken are more than {self._limits.reply_bytes_max} bytes (the setting "
                "reply_bytes_max), and it is the slowest",
            )

    def _drop(self, client: HttpClient, reason: str) -> None:
        self.dropped += 1
        logger.info("connection from %s ended: %s", client.session.peer, reason)
        client.drop()


class _ListeningPort:
    """Accepts connections of a server on its loop, as long as there are fewer than the limit."""

    def __init__(
        self,
        server: HttpServer,
        listener: socket.socket,
        clients_max: int,
        accept: Callable[[], tuple[socket.socket, Any]],
        on_closed: Callable[[], None],
    ) -> None:
        self._server = server
        self._listener = listener
        self._clients_max = clients_max
        self._accept_one = accept
        self._on_closed = on_closed
        self._is_watched = False
        self._loop: asyncio.AbstractEventLoop | None = None

    def watch(self) -> None:
        """Start to accept connections; on the loop's thread."""
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._listener, self._accept)
        self._is_watched = True

    def look_again(self) -> None:
        """Accept connections again after one has ended."""
        self._on_closed()
        if not self._is_watched and self._loop is not None and self._listener.fileno() >= 0:
            self.watch()

    def close(self) -> None:
        """Close the listening socket."""
        self._pause()
        self._loop = None
        self._listener.close()

    def _accept(self) -> None:
        while self._server.connection_count < self._clients_max:
            try:
                connected, _ = self._accept_one()
            except BlockingIOError:
                return
            except OSError as error:
                # Tried again when a connection has ended, or after a while.
                logger.warning("could not accept a connection: %s", error)
                self._pause()
                asyncio.get_running_loop().call_later(_TICK_SECONDS, self.look_again)
                return
            try:
                peer = prepare(connected)
            except OSError as error:
                logger.info("a client went away before it was served: %s", error)
                connected.close()
                self._on_closed()
                continue
            self._server.adopt(connected, peer)
        # Further clients wait in the kernel's queue.
        self._pause()

    def _pause(self) -> None:
        if self._is_watched and self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._listener)
        self._is_watched = False
