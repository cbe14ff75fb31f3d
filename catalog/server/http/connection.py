"""A client's HTTP connection: uvicorn's protocol with the limits of the server.

uvicorn parses requests (with llhttp) and runs the application. This module bounds the cost of a client: bytes of a
request's head, seconds for the rest of a request and for reading a response, memory for both. An idle connection may
stay for ever where the server has no limit for it. A refused client may read the reason before the connection closes.
"""

import asyncio
import logging
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Protocol

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from interbed.catalog.server.auth.principals import Principal
from interbed.catalog.server.threads import ClientLink
from interbed.catalog.server.thrift.edge.call import ClientSession
from interbed.catalog.server.thrift.edge.pool import ClientShare
from interbed.catalog.server.thrift.edge.sockets import client_certificate

logger = logging.getLogger(__name__)

GOODBYE_SECONDS_MAX = 2.0
"""Time for a client to read the reason before the server closes: closing a socket with unread bytes discards the bytes
sent to the client.
"""

HEAD_BYTES_MAX = 32 * 1024
"""Bytes of the request line and headers, and of everything else in a request that is not its body."""

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_JOINED_BYTES_MAX = 64 * 1024
"""The longest body that is joined with its head, which copies it."""

CLIENT_EXTENSION = "interbed.client"
"""Key of the HttpClient among a scope's extensions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthenticatedHeader:
    """The header Authorization of a request, None without one, and the principal that it had. `until` is the time until
    which the principal may be kept. `verify` verifies the credentials again.
    """

    value: bytes | None
    principal: Principal
    until: float
    verify: Callable[[], Principal]


class HttpClient:
    """A client as applications know it: `scope["extensions"][CLIENT_EXTENSION]`.

    `share` is its share of the thread pool, None on a port that does not use the pool.
    """

    __slots__ = (
        "_connection",
        "authenticated",
        "deadline",
        "is_served",
        "partial_bytes",
        "progress_at",
        "reply_bytes",
        "reply_until",
        "session",
        "share",
        "unsent_bytes",
        "verify",
    )

    watched = True
    """Whether it may be dropped while a message of it is incomplete: always."""

    def __init__(self, connection: "HttpConnection", peer: str, tls: ssl.SSLObject | None) -> None:
        self._connection = connection
        self.session = ClientSession(
            peer=peer,
            certificate=None if tls is None else client_certificate(tls),
            link=ClientLink(speaks_for_client=False),
        )
        self.share: ClientShare | None = None
        self.verify: Callable[[], Principal | None] | None = None
        """Verifies the credentials of the present request again, on a thread that may wait, and returns the principal
        with the groups that it has by then; AuthenticationError. None where every client is served.
        """
        self.authenticated: AuthenticatedHeader | None = None
        """The header that the connection's previous request was authenticated by; None for another mechanism."""
        self.is_served = False
        """Whether a request of it is being served: a server that stops waits for it."""
        self.deadline: float | None = None
        """The deadline for the rest of a request on the monotonic clock; None without one."""
        self.partial_bytes = 0
        """The bytes of an incomplete request that the process's budget has counted."""
        self.reply_bytes = 0
        """The length of the previous response."""
        self.unsent_bytes = 0
        """The bytes of the response that the socket has not accepted."""
        self.progress_at = 0.0
        """The time when the client last read something of its response."""
        self.reply_until = 0.0
        """The deadline for reading all of it."""

    @property
    def has_gone(self) -> bool:
        """Whether the connection has ended."""
        return self.session.link.is_closed

    def drop(self) -> None:
        """Close the connection at once; from any thread."""
        self._connection.call_soon(self._connection.abort)

    def took_part(self) -> None:
        """Begin the time for reading the next part of a streamed response; on the loop's thread."""
        self.unsent_bytes = 0

    def cut(self) -> None:
        """Close the connection within a response, when all that was written is sent; on the loop's thread."""
        self._connection.end()

    def hang_up(self, error: Exception) -> None:
        """Refuse the request that has arrived in part, and close the connection; on the loop's thread."""
        self._connection.hang_up(error)


class ConnectionServer(Protocol):
    """The server of the connections."""

    @property
    def message_seconds(self) -> float:
        """Time for the rest of a request."""
        ...

    @property
    def idle_seconds(self) -> float | None:
        """Time that a connection may stay without a request; None for ever."""
        ...

    def opened(self, connection: "HttpConnection") -> None:
        """Record a new connection."""
        ...

    def received_part(self, connection: "HttpConnection", size: int) -> None:
        """Record the size of an incomplete request, 0 when it is complete."""
        ...

    def closed(self, connection: "HttpConnection") -> None:
        """Record the end of a connection."""
        ...


class HttpConnection(HttpToolsProtocol):
    """uvicorn's protocol of one connection, with limits. For the thread of the server's loop."""

    client_state: HttpClient

    def __init__(self, owner: ConnectionServer, config: Config, state: ServerState, peer: str) -> None:
        super().__init__(config, state, {}, asyncio.get_running_loop())
        self._owner = owner
        self._peer = peer
        self._raw: Any = None
        self._is_ending = False
        self._is_receiving = False
        self._has_eof = False
        # Bytes that were received since the last byte of a body: of heads, chunk lines, trailers.
        self._head_bytes = 0
        self._body_bytes = 0
        self._refusal: bytes | None = None
        # The head of a response, which is sent with the first bytes of its body.
        self._head = b""
        self._is_head_next = True

    # The interface of asyncio's protocols

    def connection_made(self, transport: Any) -> None:
        """Begin with a connection."""
        self._raw = transport
        tls: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
        self.client_state = HttpClient(self, self._peer, tls)
        self._extensions = {CLIENT_EXTENSION: self.client_state}
        super().connection_made(_ConnectionTransport(transport, self))  # type: ignore[arg-type]
        self._wait_for_request()
        self._owner.opened(self)

    def data_received(self, data: bytes) -> None:
        """Parse received bytes, within the limits."""
        if self._is_ending or self._refusal is not None:
            return
        parser = self.parser
        assert parser is not None
        try:
            while True:
                self._head_bytes += len(data)
                try:
                    parser.feed_data(data)
                    break
                except httptools.HttpParserUpgrade as upgrade:
                    # No other protocol is offered: the request is served as if it did not ask for one.
                    data = data[upgrade.args[0] :]
                    if not data or self.is_ending:
                        break
        except httptools.HttpParserError as error:
            # A coding of the body other than chunked, and a length beside a coding.
            is_coding = "transfer-encoding" in str(error).lower()
            status = HTTPStatus.NOT_IMPLEMENTED if is_coding else HTTPStatus.BAD_REQUEST
            self.refuse(status, f"this is not HTTP/1.1: {error}")
            return
        client = self.client_state
        if self.is_ending or not self._is_receiving:
            return
        if self._head_bytes > HEAD_BYTES_MAX:
            self._refuse_head()
            return
        if client.deadline is None or not client.partial_bytes:
            client.deadline = time.monotonic() + self._owner.message_seconds
        self._owner.received_part(self, self._head_bytes + self._body_bytes)

    def eof_received(self) -> bool | None:  # type: ignore[override]
        """Keep the connection open until a client that sends no more has its response."""
        self._has_eof = True
        if self._is_receiving and not self._is_ending:
            logger.info("connection from %s ended within a message", self._peer)
            # After the application, which may be about to refuse the request by its head.
            self.loop.call_soon(self._raw.close)
            return self.scheme == "http"
        is_answering = self.cycle is not None and not self.cycle.response_complete and not self._is_ending
        return True if is_answering and self.scheme == "http" else None

    def connection_lost(self, exc: Exception | None) -> None:
        """End with a connection."""
        self._is_ending = True
        self.client_state.deadline = None
        self.client_state.session.link.is_closed = True
        super().connection_lost(exc)
        self._owner.closed(self)

    # The callbacks of the parser

    def on_message_begin(self) -> None:
        """Begin to receive a request."""
        super().on_message_begin()
        self._is_receiving = True
        self._body_bytes = 0
        self.scope["extensions"] = self._extensions  # type: ignore[typeddict-item]

    def on_headers_complete(self) -> None:
        """Start the application, unless the head is too long."""
        # The bytes of a head may be followed by those of its body.
        if self._head_bytes > HEAD_BYTES_MAX and len(self.url) + sum(map(_length, self.headers)) > HEAD_BYTES_MAX:
            self._refuse_head()
        elif not self._is_ending and self._refusal is None:
            self.client_state.is_served = True
            super().on_headers_complete()
        # The parser reports the trailers of a chunked body as headers. The request must not have them: they may come
        # past a proxy that checks its headers.
        self.headers = []

    def on_body(self, body: bytes) -> None:
        """Keep a part of the body for the application."""
        if not self._is_ending and self._refusal is None:
            self._head_bytes = 0
            self._body_bytes += len(body)
            super().on_body(body)

    def on_message_complete(self) -> None:
        """Record that a request is complete."""
        if self._is_ending or self._refusal is not None:
            return
        self._is_receiving = False
        self._head_bytes = 0
        client = self.client_state
        client.deadline = None
        if client.partial_bytes:
            self._owner.received_part(self, 0)
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Go on with the next request, or end. In place of uvicorn's, which starts a timer for each response."""
        self._flush()
        # The time for reading a response begins with the next look at it.
        self.client_state.unsent_bytes = 0
        self._is_head_next = True
        self.server_state.total_requests += 1
        self.client_state.is_served = bool(self.pipeline)
        if self._is_ending:
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        elif self._refusal is not None:
            self._raw.write(self._refusal)
            self.end()
        elif self._has_eof:
            self.end()
        elif not self._is_receiving:
            self._wait_for_request()

    # Responses

    def write(self, data: bytes) -> None:
        """Send bytes of a response: its head with the first bytes of its body, for one packet and one system call."""
        if self._head:
            head, self._head = self._head, b""
            if len(data) > _JOINED_BYTES_MAX:
                self._raw.write(head)
            else:
                data = head + data
        elif self._is_head_next and data != _CONTINUE:
            self._is_head_next = False
            self._head = data
            return
        self._raw.write(data)

    def _flush(self) -> None:
        """Send the head of a response without a body."""
        if self._head:
            head, self._head = self._head, b""
            self._raw.write(head)

    # The end

    @property
    def is_ending(self) -> bool:
        """Whether the connection closes when everything is sent."""
        return self._is_ending

    @property
    def is_receiving(self) -> bool:
        """Whether a request has arrived in part."""
        return self._is_receiving

    @property
    def unsent_bytes(self) -> int:
        """Bytes that the socket has not accepted yet."""
        size: int = self._raw.get_write_buffer_size()
        return size

    def call_soon(self, task: Callable[[], None]) -> None:
        """Run a function on the loop's thread; from any thread."""
        self.loop.call_soon_threadsafe(task)

    def hang_up(self, error: Exception) -> None:
        """Refuse the request that has arrived in part, because of an error."""
        if self._is_ending:
            return
        logger.info("connection from %s ended: %s", self._peer, error)
        self.refuse(HTTPStatus.BAD_REQUEST, str(error))

    def refuse(self, status: HTTPStatus, reason: str) -> None:
        """Answer a request that is not served, and close the connection."""
        if self._is_ending:
            return
        body = f"{reason}\n".encode(errors="replace")
        self._refusal = (
            f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: text/plain; charset=utf-8\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        ).encode() + body
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is None or cycle.response_complete:
            self._raw.write(self._refusal)
        elif self.pipeline or not cycle.more_body:
            # The response to an earlier request comes first. The refused one, the newest, is not begun.
            if self.pipeline and cycle.more_body:
                self.pipeline.popleft()
            self.client_state.deadline = None
            return
        elif not cycle.response_started:
            self._raw.write(self._refusal)
            cycle.disconnected = True
            cycle.message_event.set()
        self.end()

    def end(self) -> None:
        """Close the connection when everything is sent; wait a little until a client that still sends has read it."""
        if self._is_ending:
            return
        self._flush()
        self._is_ending = True
        self.client_state.deadline = None
        if not self._is_receiving and self._refusal is None:
            self._raw.close()
            return
        # Closing a socket with unread bytes discards the bytes sent to the client.
        if self._raw.can_write_eof():
            self._raw.write_eof()
        self.flow.resume_reading()
        self.loop.call_later(GOODBYE_SECONDS_MAX, self._raw.close)

    def abort(self) -> None:
        """Close the connection at once."""
        self._is_ending = True
        self._raw.abort()

    def _refuse_head(self) -> None:
        self.refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"a head of more than {HEAD_BYTES_MAX} bytes")

    def _wait_for_request(self) -> None:
        idle = self._owner.idle_seconds
        if idle is not None:
            self.client_state.deadline = time.monotonic() + idle


class _ConnectionTransport:
    """A transport for uvicorn that writes and closes by way of the connection."""

    __slots__ = ("_connection", "close", "get_extra_info", "pause_reading", "resume_reading", "write")

    def __init__(self, transport: Any, connection: HttpConnection) -> None:
        self._connection = connection
        self.write = connection.write
        self.close = connection.end
        self.get_extra_info = transport.get_extra_info
        self.pause_reading = transport.pause_reading
        self.resume_reading = transport.resume_reading

    def is_closing(self) -> bool:
        """Return whether the connection is closing."""
        return self._connection.is_ending


def _length(header: tuple[bytes, bytes]) -> int:
    return len(header[0]) + len(header[1]) + len(b": \r\n")
