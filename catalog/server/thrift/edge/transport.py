"""Framing of Thrift's messages on a socket, and the connections that carry them.

Buffered: messages follow one another, and only their values show where one ends (codec.py). Framed: a length precedes
each message. HTTP is in the package `server/http`. Most messages arrive whole in one piece, and `whole` returns them
unchanged; all others are gathered as IncomingBytes, from which `next` takes a message when it is complete. The cost of
a client is bounded: bytes of a message, elements of a list, seconds for the rest of a partial message and for reading a
reply. An idle connection may stay for ever.

A connection may begin with SASL, in the messages of TSaslServerTransport of Java's thrift. A message of the negotiation
is a status of one byte, the length of its payload in four bytes, and the payload. The client sends START with the name
of a mechanism, then OK or COMPLETE with its response. The server answers OK with a challenge, to which the client sends
a further response, or COMPLETE at the end, or BAD or ERROR with a text. Frames with a length of four bytes follow; a
mechanism may have negotiated their protection. No message of Thrift begins as a negotiation does: with 1, and a length
of at most MECHANISM_BYTES_MAX. So clients of one port may negotiate or not.
"""

import errno
import socket
import ssl
import struct
from collections import deque
from dataclasses import dataclass
from typing import Protocol

from thrift.Thrift import TException

from interbed.catalog.server.auth.authentication import (
    ClientIdentity,
    FrameProtection,
    NegotiationError,
    ProtectionError,
    SaslExchange,
    SaslMechanism,
    SaslMechanisms,
    SaslStatus,
)
from interbed.catalog.server.thrift.edge.call import ClientSession
from interbed.catalog.server.thrift.edge.codec import Codec, IncompleteMessageError, Scanner, too_long
from interbed.catalog.server.thrift.edge.pool import MESSAGE_BYTES_MAX, ClientShare

MECHANISM_BYTES_MAX = 20
"""The longest name of a mechanism (RFC 4422)."""

_HEAD = struct.Struct("!BI")


def packed(status: SaslStatus, payload: bytes = b"") -> bytes:
    """Return the bytes of a message."""
    return _HEAD.pack(status, len(payload)) + payload


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslResponse:
    """A response of the client that is complete, and the exchange that evaluates it. `is_quick` is the mechanism's."""

    exchange: SaslExchange
    payload: bytes
    is_quick: bool


class Negotiation:
    """The messages of the client in a negotiation. Without I/O."""

    __slots__ = ("_data", "_exchange", "_mechanism")

    def __init__(self) -> None:
        self._data = b""
        self._mechanism: SaslMechanism | None = None
        self._exchange: SaslExchange | None = None

    def feed(self, data: bytes, offered: SaslMechanisms, peer: str) -> SaslResponse | bytes | None:
        """Take bytes of the client; return its next response, or None if more bytes are needed, or all bytes if they
        are not the beginning of a negotiation. NegotiationError.

        Until the server has answered a response, the client sends nothing more.
        """
        self._data += data
        if self._mechanism is None or self._exchange is None:
            if not _may_begin(self._data):
                return self._data
            start = self._message(MECHANISM_BYTES_MAX)
            if start is None:
                return None
            self._mechanism = _chosen(start, offered)
            self._exchange = self._mechanism.start(peer)
        if self._data and self._data[0] not in (SaslStatus.OK, SaslStatus.COMPLETE):
            raise NegotiationError(SaslStatus.ERROR, f"Expected the status OK or COMPLETE, received {self._data[0]}")
        response = self._message(self._mechanism.response_bytes_max)
        if response is None:
            return None
        if self._data:
            raise NegotiationError(SaslStatus.ERROR, "There are bytes after the response, before it was accepted")
        return SaslResponse(exchange=self._exchange, payload=response, is_quick=self._mechanism.is_quick)

    def _message(self, bytes_max: int) -> bytes | None:
        """Take the payload of the first message out of the bytes; None if it is incomplete."""
        if len(self._data) < _HEAD.size:
            return None
        length = _HEAD.unpack_from(self._data)[1]
        if length > bytes_max:
            raise NegotiationError(
                SaslStatus.ERROR, f"A message of {length} bytes is too long; allowed are {bytes_max} bytes"
            )
        end = _HEAD.size + length
        if len(self._data) < end:
            return None
        payload, self._data = self._data[_HEAD.size : end], self._data[end:]
        return payload


def _chosen(start: bytes, offered: SaslMechanisms) -> SaslMechanism:
    """Return the mechanism that the client has named. NegotiationError for one that is not offered."""
    name = start.decode("ascii", "replace")
    found = offered.get(name)
    if found is None:
        names = ", ".join(offered)
        raise NegotiationError(SaslStatus.BAD, f"The mechanism {name!a:.40} is not offered; offered is {names}")
    return found


def _may_begin(data: bytes) -> bool:
    if data[:1] != bytes((SaslStatus.START,)):
        return False
    return len(data) < _HEAD.size or 0 < _HEAD.unpack_from(data)[1] <= MECHANISM_BYTES_MAX


READ_BYTES = 64 * 1024

QUICK_BYTES_MAX = 8 * 1024
"""The longest protected frame that the loop itself reads."""

BAD_INPUT = (
    TException,
    IncompleteMessageError,
    ProtectionError,
    EOFError,
    OSError,
    UnicodeError,
    RecursionError,
    # The error of the decoder in C for a length beyond its limit.
    OverflowError,
    struct.error,
)
"""Exceptions for an invalid message and for a closed connection. No answer is possible."""

KEEPALIVE_IDLE_SECONDS, KEEPALIVE_PAUSE_SECONDS, KEEPALIVE_PROBES = 6, 3, 3
"""TCP keepalive: a client whose machine has lost its power is noticed after 15 s."""

NOT_YET = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
"""Exceptions of a non-blocking socket that is not ready."""

_BACKLOG = 512
_FRAME_HEAD = struct.Struct("!I")


class IncomingBytes:
    """Received bytes that are not served yet; they begin with a message."""

    __slots__ = ("data", "needed", "scanner", "weight")

    def __init__(self) -> None:
        self.data = bytearray()
        self.needed = 0
        """Bytes that are needed before `Framing.next` can find the message."""
        self.weight = 0
        """The weight of the last message, 0 if it was not weighed."""
        self.scanner: Scanner | None = None

    def take(self, begin: int, end: int) -> bytes:
        """Cut a message out of the front; the next one begins at `end`."""
        with memoryview(self.data) as view:
            message = bytes(view[begin:end])
        del self.data[:end]
        self.needed = 0
        self.scanner = None
        return message


class Framing(Protocol):
    """Framing of the messages of one connection."""

    bytes_max: int
    """The longest message."""

    @property
    def is_delimited(self) -> bool:
        """Whether a message's length is known without scanning its values."""
        ...

    @property
    def is_protected(self) -> bool:
        """Whether messages and replies are protected, which takes time by their length."""
        ...

    def whole(self, data: bytes) -> bytes | None:
        """Return the message if these bytes are one, or may be one; None if they surely are not just that.

        ProtectionError.
        """
        ...

    def next(self, incoming: IncomingBytes, codec: Codec) -> bytes | None:
        """Take the first message out of the bytes; None if it is incomplete. Raises one of BAD_INPUT."""
        ...

    def pack(self, *parts: bytes) -> tuple[bytes, ...]:
        """Return the bytes of a reply that has these parts."""
        ...


class BufferedFraming:
    """Framing of messages without a length."""

    is_delimited = False
    is_protected = False

    def __init__(self, bytes_max: int = MESSAGE_BYTES_MAX) -> None:
        self.bytes_max = bytes_max

    def whole(self, data: bytes) -> bytes | None:
        """Return the bytes: only decoding shows whether they are one message."""
        return data

    def next(self, incoming: IncomingBytes, codec: Codec) -> bytes | None:
        """Return the message whose end the scanner finds."""
        if incoming.scanner is None:
            incoming.scanner = codec.scanner(self.bytes_max)
        scanner = incoming.scanner
        end = scanner.scan(incoming.data)
        if end is None:
            incoming.needed = max(scanner.position, len(incoming.data) + 1)
            return None
        incoming.weight = scanner.weight
        return incoming.take(0, end)

    def pack(self, *parts: bytes) -> tuple[bytes, ...]:
        """Return the parts: this framing has no heads."""
        return parts


class FramedFraming:
    """Framing with four bytes of length before each message."""

    is_delimited = True
    is_protected = False

    def __init__(self, bytes_max: int = MESSAGE_BYTES_MAX) -> None:
        self.bytes_max = bytes_max

    def whole(self, data: bytes) -> bytes | None:
        """Return the frame's content if the bytes are one frame."""
        if len(data) > _FRAME_HEAD.size and _FRAME_HEAD.unpack_from(data)[0] == len(data) - _FRAME_HEAD.size:
            return data[_FRAME_HEAD.size :]
        return None

    def next(self, incoming: IncomingBytes, codec: Codec) -> bytes | None:
        """Return the content of a frame."""
        incoming.weight = 0
        incoming.needed = _FRAME_HEAD.size
        if len(incoming.data) < incoming.needed:
            return None
        (length,) = _FRAME_HEAD.unpack_from(incoming.data)
        if length > self.bytes_max:
            raise too_long(self.bytes_max)
        incoming.needed = _FRAME_HEAD.size + length
        if len(incoming.data) < incoming.needed:
            return None
        return incoming.take(_FRAME_HEAD.size, incoming.needed)

    def pack(self, *parts: bytes) -> tuple[bytes, ...]:
        """Return a frame's head and the parts; no bytes for no reply."""
        length = sum(map(len, parts))
        return (_FRAME_HEAD.pack(length), *parts) if length else ()


class ProtectedFraming(FramedFraming):
    """Framing by length, of frames whose content is protected by what a SASL mechanism has negotiated."""

    is_protected = True

    def __init__(self, bytes_max: int, protection: FrameProtection) -> None:
        super().__init__(bytes_max)
        self._protection = protection

    def whole(self, data: bytes) -> bytes | None:
        """Return the message of a short frame if the bytes are one. ProtectionError."""
        # Longer ones are left to the threads of the pool.
        frame = super().whole(data) if len(data) <= QUICK_BYTES_MAX else None
        return None if frame is None else self._protection.unwrap(frame)

    def next(self, incoming: IncomingBytes, codec: Codec) -> bytes | None:
        """Return the message of a frame. Raises one of BAD_INPUT."""
        frame = super().next(incoming, codec)
        return None if frame is None else self._protection.unwrap(frame)

    def pack(self, *parts: bytes) -> tuple[bytes, ...]:
        """Return a frame with the protected reply; no bytes for no reply."""
        message = b"".join(parts)
        return super().pack(self._protection.wrap(message)) if message else ()


class ClientConnection:
    """A client's connection and its state. At any time the loop's thread or one of the pool owns it."""

    __slots__ = (
        "busy",
        "checked_at",
        "codec",
        "deadline",
        "framing",
        "identity",
        "incoming",
        "is_internal",
        "is_registered",
        "is_shaking_hands",
        "link",
        "loop_seconds",
        "loop_window",
        "negotiation",
        "outgoing",
        "partial_bytes",
        "progress_at",
        "reply_bytes",
        "reply_until",
        "session",
        "share",
        "too_late",
        "unauthenticated_until",
        "unsent_bytes",
        "watched",
    )

    def __init__(
        self,
        connected: socket.socket,
        framing: Framing,
        codec: Codec,
        session: ClientSession,
        share: ClientShare | None = None,
    ) -> None:
        self.link = connected
        self.framing = framing
        self.codec = codec
        self.session = session
        self.share = share
        self.busy = False
        """Whether a request is being served: a server that stops waits for it."""
        self.watched = False
        """Whether the loop waits for it, and no thread owns it."""
        self.is_registered = False
        """Whether it is registered with the loop's selector, also while a thread owns it."""
        self.is_internal = False
        """Whether it is one of the port for the optimizer beside the server."""
        self.is_shaking_hands = False
        """Whether the TLS handshake is in progress."""
        self.negotiation: Negotiation | None = Negotiation()
        """What the client has sent of a SASL negotiation; None when it has sent something else, or is authenticated."""
        self.identity: ClientIdentity | None = None
        """The identity by which the client was authenticated; None without SASL."""
        self.checked_at = 0.0
        """The time on the monotonic clock when the identity was last verified."""
        self.unauthenticated_until: float | None = None
        """The time on the monotonic clock when the connection ends because its client is not authenticated, or not any
        more; None if it is without an end, or need not be.
        """
        self.deadline: float | None = None
        """The deadline of the present operation on the monotonic clock; None without one."""
        self.too_late = ""
        """The reason in the log for a client that misses the deadline."""
        self.incoming = IncomingBytes()
        self.partial_bytes = 0
        """The bytes of `incoming` that the process's budget has counted."""
        self.outgoing: deque[memoryview] = deque()
        """The rest of a reply."""
        self.unsent_bytes = 0
        """The bytes of `outgoing` that the process's budget has counted."""
        self.progress_at = 0.0
        """The time when the client last read something of its reply."""
        self.reply_until = 0.0
        """The deadline for reading all of it."""
        self.reply_bytes = 0
        """The length of the previous reply."""
        self.loop_seconds, self.loop_window = 0.0, 0
        """The loop's time for it in the second of this number."""

    @property
    def overdue(self) -> str:
        """The reason in the log for a client that has missed the deadline."""
        if self.identity is not None and self.deadline == self.unauthenticated_until:
            return "the authentication of its client has expired"
        return self.too_late

    @property
    def has_pending_bytes(self) -> bool:
        """Whether TLS has buffered bytes of the socket that are not read yet."""
        return type(self.link) is ssl.SSLSocket and self.link.pending() > 0


def listen(host: str, port: int) -> socket.socket:
    """Return a non-blocking listening socket; `port` 0 selects a free one. OSError if the address is not available."""
    infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, kind, protocol, _, address = infos[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener


def prepare(connected: socket.socket) -> str:
    """Set a new connection's options and return its peer, `host:port`. OSError if the client has
    disconnected already.
    """
    connected.setblocking(False)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        # Newer Pythons know macOS's name of the first one.
        ("TCP_KEEPIDLE" if hasattr(socket, "TCP_KEEPIDLE") else "TCP_KEEPALIVE", KEEPALIVE_IDLE_SECONDS),
        ("TCP_KEEPINTVL", KEEPALIVE_PAUSE_SECONDS),
        ("TCP_KEEPCNT", KEEPALIVE_PROBES),
    ):
        if hasattr(socket, name):
            connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    host, port = connected.getpeername()[:2]
    return f"{host}:{port}"


def shut_down(connected: socket.socket) -> None:
    """Wake the thread that reads from the connection."""
    try:
        # Not the method of TLS sockets, which removes the encryption under the reader.
        socket.socket.shutdown(connected, socket.SHUT_RD)
    except OSError as error:
        if error.errno not in (errno.ENOTCONN, errno.EBADF):
            raise


def receive_some(connected: socket.socket) -> bytes | None:
    """Receive the available bytes; None if there are none, no bytes if the client sends no more. OSError."""
    try:
        data = connected.recv(READ_BYTES)
        if type(connected) is ssl.SSLSocket:
            # No selector reports the bytes that TLS has buffered.
            while pending := connected.pending():
                data += connected.recv(pending)
    except NOT_YET:
        return None
    return data


def send_some(connected: socket.socket, data: bytes) -> memoryview | None:
    """Send as much as the socket accepts without waiting, and return the rest, None if there is none."""
    view = memoryview(data)
    while view:
        try:
            view = view[connected.send(view) :]
        except NOT_YET:
            return view
    return None
