"""Requests served by the threads of a pool: read, weighed, called, answered. No step waits for a client.

The pool owns a connection from `hand_over` or `advance` on, until it is returned to the loop.
"""

import logging
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from interbed.catalog.server.database.session import GenerationReader
from interbed.catalog.server.threads import AnswerLaterError, ClientLink
from interbed.catalog.server.thrift.edge.authenticating import await_authentication
from interbed.catalog.server.thrift.edge.buffers import PartialMessages
from interbed.catalog.server.thrift.edge.cache import AnswerCache, CacheHit
from interbed.catalog.server.thrift.edge.call import ClientSession
from interbed.catalog.server.thrift.edge.codec import IncompleteMessageError, MemorySource
from interbed.catalog.server.thrift.edge.dispatch import Dispatcher
from interbed.catalog.server.thrift.edge.pool import (
    HEAVY_BYTES_MIN,
    LIGHT_BYTES_MAX,
    ClientShare,
    EdgeLimits,
    ThreadPool,
    WeightBudget,
)
from interbed.catalog.server.thrift.edge.sockets import (
    HANDSHAKE_SECONDS_MAX,
    Service,
    client_certificate,
    handshake_step,
)
from interbed.catalog.server.thrift.edge.transport import BAD_INPUT, ClientConnection, send_some

logger = logging.getLogger(__name__)

QUEUED_SECONDS = 0.1
"""A request that has waited for longer is begun only if its client is still connected."""


class ConnectionOwner(Protocol):
    """The loop, to which the pool returns connections."""

    def call_soon(self, task: Callable[[], None]) -> None:
        """Run a function on the loop's thread; from any thread."""
        ...

    def reclaim(self, connection: ClientConnection) -> None:
        """Send the rest of a reply, and wait for the next request; on the loop's thread."""
        ...

    def give_back(self, connection: ClientConnection) -> None:
        """Wait for the next request of a client that has its reply; from any thread."""
        ...

    def wait_for_more(self, connection: ClientConnection) -> None:
        """Wait for the rest of a message; on the loop's thread."""
        ...

    def watch_handshake(self, connection: ClientConnection) -> None:
        """Wait for the client's next step of the TLS handshake; on the loop's thread."""
        ...

    def serve_later(self, connection: ClientConnection, later: AnswerLaterError, serve: Callable[[], None]) -> None:
        """Wait until the request is due to be served again by `serve`; from any thread."""
        ...

    def closed(self, connection: ClientConnection) -> None:
        """Close a connection; from any thread."""
        ...


@dataclass(slots=True, kw_only=True)
class SharedEdge:
    """The parts that the loop of a process shares with a server of another protocol: calls, threads, budgets, answers.

    `generations` opens a connection for the queries of a cache's lookup.
    """

    dispatcher: Dispatcher
    pool: ThreadPool
    limits: EdgeLimits
    partials: PartialMessages
    decoded: WeightBudget
    cache: AnswerCache | None
    generations: Callable[[], GenerationReader] | None
    reply_bytes: Callable[[], int]
    """Return the bytes of the loop's unsent replies."""
    admit: Callable[[ClientSession], ClientSession]
    """Return the session of a connection that is complete, with its principal or the reason of its refusal."""
    abandons_waiting: bool = False
    """Whether waiting requests are abandoned, because the server stops."""
    refused: int = 0
    """Requests refused for their size, since the start."""

    def is_abandoned(self, *, has_gone: bool, queued_at: float) -> bool:
        """Return whether a request is not begun: the server stops, or the client has gone while the request waited."""
        return self.abandons_waiting or (has_gone and time.monotonic() - queued_at > QUEUED_SECONDS)

    def count_refused(self) -> None:
        """Count a request that is refused for its size."""
        self.refused += 1


class RequestServer:
    """Serves the requests of a loop's connections."""

    def __init__(
        self,
        loop: ConnectionOwner,
        edge: SharedEdge,
    ) -> None:
        self._loop = loop
        self._edge = edge
        self._dispatcher = edge.dispatcher
        self._pool = edge.pool
        self._limits = edge.limits
        self._partials = edge.partials
        self._cache = edge.cache
        self._decoded = edge.decoded

    def look_for_message(self, connection: ClientConnection) -> None:
        """Have the pool serve the message at the beginning of the connection's bytes, if it is whole."""
        job = partial(self.advance, connection, time.monotonic())
        self._pool.submit(job, connection.share, is_heavy=_is_heavy(connection, 0))

    def start_handshake(self, connection: ClientConnection) -> None:
        """Have the pool do the next step of a TLS handshake."""
        self._pool.submit(partial(self.shake_hands, connection), connection.share)

    def hand_over(self, connection: ClientConnection, data: bytes | None, message: bytes, key: bytes | None) -> None:
        """Have the pool serve what is probably one whole message; `data` are the received bytes, None if it surely is
        one.
        """
        connection.busy = True
        job = partial(self._serve_message, connection, data, message, key, time.monotonic())
        self._pool.submit(job, connection.share, is_heavy=_is_heavy(connection, len(message)))

    def advance(self, connection: ClientConnection, queued_at: float) -> None:
        """Serve the message at the beginning of the bytes, if it is whole; a job of the pool."""
        try:
            message = (
                None
                if self._has_gone(connection, queued_at)
                else connection.framing.next(connection.incoming, connection.codec)
            )
        except BAD_INPUT as error:
            self.hang_up(connection, error)
        except Exception:
            logger.exception("connection from %s ended by an error of the server", connection.session.peer)
            self._loop.closed(connection)
        else:
            if message is None:
                self._loop.call_soon(partial(self._loop.wait_for_more, connection))
            else:
                connection.busy = True
                connection.deadline = None
                self._partials.count(connection)
                self._weigh(connection, None, message, None, connection.incoming.weight)

    def hang_up(self, connection: ClientConnection, error: Exception) -> None:
        """End a connection because of an invalid or missing message; from any thread that owns it."""
        logger.info("connection from %s ended: %s", connection.session.peer, str(error) or type(error).__name__)
        connection.busy = False
        connection.deadline = None
        self._loop.closed(connection)

    def shake_hands(self, connection: ClientConnection) -> None:
        """Do one step of a TLS handshake; a job of the pool."""
        try:
            is_done = handshake_step(connection.link)
            if is_done:
                connection.session = self._edge.admit(
                    replace(connection.session, certificate=client_certificate(connection.link))
                )
                await_authentication(connection)
        except (OSError, ValueError) as error:
            logger.info("connection from %s ended: no TLS handshake: %s", connection.session.peer, error)
            self._loop.closed(connection)
        else:
            self._loop.call_soon(partial(self._loop.reclaim if is_done else self._loop.watch_handshake, connection))

    def _serve_message(
        self, connection: ClientConnection, data: bytes | None, message: bytes, key: bytes | None, queued_at: float
    ) -> None:
        """Serve what is probably one whole message; a job of the pool."""
        if self._edge.abandons_waiting or self._has_gone(connection, queued_at):
            logger.info("connection from %s ended before its request was begun", connection.session.peer)
            self._loop.closed(connection)
        elif len(message) < LIGHT_BYTES_MAX:
            self._serve(connection, data, message, key)
        else:
            self._weigh(connection, data, message, key, 0)

    def _weigh(
        self, connection: ClientConnection, data: bytes | None, message: bytes, key: bytes | None, weight: int
    ) -> None:
        """Serve a message if its memory is available, or later. `data` are the bytes that it may be the
        beginning of.
        """
        limits = self._limits
        if not weight and len(message) >= LIGHT_BYTES_MAX:
            scanner = connection.codec.scanner(limits.message_bytes_max)
            try:
                end = scanner.scan(message)
                if end is None and connection.framing.is_delimited:
                    raise EOFError("a message is longer than the frame that it is in")
            except BAD_INPUT as error:
                self.hang_up(connection, error)
                return
            if data is not None and end != len(message) and not connection.framing.is_delimited:
                self._keep_for_later(connection, data)
                return
            weight = scanner.weight
        if weight > limits.request_weight_max:
            self._refuse(connection, message, weight)
        elif not weight or len(message) < LIGHT_BYTES_MAX:
            self._serve(connection, data, message, key)
        else:
            serve = partial(self._serve_weighed, connection, data, message, key, weight)
            if self._decoded.take(weight, partial(self._pool.submit, serve, connection.share, is_heavy=True)):
                serve()

    def _serve_weighed(
        self, connection: ClientConnection, data: bytes | None, message: bytes, key: bytes | None, weight: int
    ) -> None:
        try:
            self._serve(connection, data, message, key)
        finally:
            self._decoded.release(weight)

    def _refuse(self, connection: ClientConnection, message: bytes, weight: int) -> None:
        """Answer a request that exceeds the memory for one request."""
        self._edge.count_refused()
        reason = too_heavy(weight, self._limits)
        logger.info("a request from %s was refused: %s", connection.session.peer, reason)
        try:
            self._reply(connection, self._dispatcher.refusal(connection.codec, message, reason))
        except BAD_INPUT as error:
            self.hang_up(connection, error)

    def _keep_for_later(self, connection: ClientConnection, data: bytes) -> None:
        """Gather the bytes that turned out not to be one whole message."""
        connection.busy = False
        connection.incoming.data[:0] = data
        self.advance(connection, time.monotonic())

    def _serve(self, connection: ClientConnection, data: bytes | None, message: bytes, key: bytes | None) -> None:
        cache = self._cache
        generation = -1 if cache is None else cache.generation
        try:
            source = MemorySource(message)
            try:
                request = self._dispatcher.read(connection.codec, source)
            except IncompleteMessageError:
                if data is None or connection.framing.is_delimited:
                    raise
                self._keep_for_later(connection, data)
                return
            rest = b"" if connection.framing.is_delimited else source.rest()
            may_wait = not rest and not connection.incoming.data
            answer = self._dispatcher.call(request, connection.session, may_wait=may_wait)
            connection.session = answer.session
            if cache is not None and key is not None and not rest:
                cache.keep(key, answer, generation)
            if rest:
                connection.incoming.data[:0] = rest
            self._reply(connection, answer.reply)
        except AnswerLaterError as later:
            self._loop.serve_later(connection, later, partial(self.hand_over, connection, data, message, key))
        except BAD_INPUT as error:
            self.hang_up(connection, error)
        except Exception:
            logger.exception("connection from %s ended by an error of the server", connection.session.peer)
            self._loop.closed(connection)

    def _reply(self, connection: ClientConnection, reply: bytes) -> None:
        """Send a reply, and leave the part that the socket does not accept to the loop; from any thread. OSError."""
        packed = b"".join(connection.framing.pack(reply))
        connection.reply_bytes = len(packed)
        unsent = send_some(connection.link, packed)
        if unsent is not None:
            # A view would keep the whole reply in memory, of which most may have been sent.
            connection.outgoing.append(unsent if len(unsent) > len(packed) // 2 else memoryview(bytes(unsent)))
        if connection.outgoing:
            self._loop.call_soon(partial(self._loop.reclaim, connection))
        else:
            self._loop.give_back(connection)

    def _has_gone(self, connection: ClientConnection, queued_at: float) -> bool:
        """Return whether the client of a request that has waited has closed the connection."""
        if time.monotonic() - queued_at < QUEUED_SECONDS:
            return False
        try:
            # Not the method of TLS sockets, which cannot peek.
            return len(socket.socket.recv(connection.link, 1, socket.MSG_PEEK)) == 0
        except BlockingIOError:
            return False
        except OSError:
            return True


def too_heavy(weight: int, limits: EdgeLimits) -> str:
    """Return the reason to refuse a request that exceeds the memory for one."""
    return (
        f"the request would take {weight >> 20} MiB of memory when it is decoded, allowed are "
        f"{limits.request_weight_max >> 20} (half of the setting decoded_bytes_max); send it in parts"
    )


def _is_heavy(connection: ClientConnection, message_bytes: int) -> bool:
    return max(message_bytes, len(connection.incoming.data), connection.reply_bytes) >= HEAVY_BYTES_MIN


def accepted(
    connected: socket.socket,
    peer: str,
    service: Service,
    share: ClientShare,
    admit: Callable[[ClientSession], ClientSession],
) -> ClientConnection:
    """Return a new connection of a service's port. With TLS it begins with the handshake. Raises OSError."""
    session = ClientSession(peer=peer, link=ClientLink())
    if service.is_internal:
        session = replace(session, refusal="This port is for the optimizer beside the server alone")
        connection = ClientConnection(connected, service.framing(), service.codec, session, share)
        connection.is_internal = True
        await_authentication(connection)
        return connection
    if service.tls is None:
        connection = ClientConnection(connected, service.framing(), service.codec, admit(session), share)
        await_authentication(connection)
        return connection
    link = service.tls.wrap_socket(connected, server_side=True, do_handshake_on_connect=False)
    connection = ClientConnection(link, service.framing(), service.codec, session, share)
    connection.is_shaking_hands = True
    connection.deadline = time.monotonic() + HANDSHAKE_SECONDS_MAX
    connection.too_late = "the TLS handshake took too long"
    return connection


def send_answer(hit: "CacheHit[ClientConnection]") -> Sequence[memoryview]:
    """Send as much of an answer from the cache as the socket accepts, and return the rest. Raises OSError."""
    connection, entry = hit.connection, hit.entry
    size = len(entry.before) + len(hit.sequence) + len(entry.after)
    connection.reply_bytes = size
    packed = connection.framing.pack(entry.before, hit.sequence, entry.after)
    if size >= HEAVY_BYTES_MIN:
        # It is not copied, and waits for the budget with others of its size.
        return (memoryview(b"".join(packed[:-1])), memoryview(packed[-1]))
    unsent = send_some(connection.link, b"".join(packed))
    return () if unsent is None else (unsent,)
