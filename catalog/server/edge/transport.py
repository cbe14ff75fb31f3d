"""Bytes in, messages out: how Thrift's messages are packed on a socket, and the connections that carry them.

Buffered: messages follow one another, and where one ends shows only in decoding it. Framed: each has its length before
it. HTTP is in http.py. Most messages arrive whole in one piece, and `whole` takes them as they are; for all others
`next` waits on the socket for the rest, on a thread of their own. What a client may cost is bounded: bytes of a
message, elements of a list, seconds for the rest of a message once it has begun and for taking a reply. An idle
connection may stay for ever.
"""

import errno
import socket
import ssl
import struct
import time
from io import BytesIO
from typing import Any, Protocol

from thrift.Thrift import TException
from thrift.transport.TTransport import CReadableTransport, TTransportBase, TTransportException

from interbed.catalog.server.edge.call import ClientSession
from interbed.catalog.server.edge.codec import MESSAGE_BYTES_MAX, Codec, IncompleteMessageError, MemorySource

CONNECTIONS_MAX = 2000
"""Connections at once. Further ones wait in the kernel's queue until one ends."""

MESSAGE_SECONDS_MAX = 60.0
"""How long the rest of a message that has begun may take, and how long a client may take to read a reply."""

READ_BYTES = 64 * 1024

GOODBYE_SECONDS_MAX = 2.0
"""How long the server waits for a client to read why it hangs up."""

BAD_INPUT = (
    TException,
    IncompleteMessageError,
    EOFError,
    OSError,
    UnicodeError,
    RecursionError,
    # What the decoder in C makes of a length that is beyond its limit.
    OverflowError,
    struct.error,
)
"""What reading a message raises when it is none, or when the client has gone. There is nothing to answer to."""

KEEPALIVE_IDLE_SECONDS, KEEPALIVE_PAUSE_SECONDS, KEEPALIVE_PROBES = 6, 3, 3
"""The kernel asks a silent client's machine after so many seconds, so often, whether it lives: one that has lost its
power is noticed after 15 s.
"""

_BACKLOG = 512
_FRAME_HEAD = struct.Struct("!I")


class SocketSource(TTransportBase, CReadableTransport):  # type: ignore[misc]
    """A socket as Thrift's decoder in C wants to read it, with a limit on the bytes of a message.

    The socket has a timeout. Reading more than the limit raises TTransportException before any memory is set aside
    for it.
    """

    def __init__(
        self, connection: socket.socket, begun: bytes = b"", message_seconds: float = MESSAGE_SECONDS_MAX
    ) -> None:
        self._socket = connection
        self._buffer = BytesIO(begun)
        self._bytes_left = MESSAGE_BYTES_MAX
        self._message_seconds = message_seconds
        self._deadline = time.monotonic() + message_seconds

    def begin(self) -> bool:
        """Begin a message, waiting for its first byte; False if the client has gone."""
        pending = self._buffer.read()
        self._bytes_left = MESSAGE_BYTES_MAX - len(pending)
        self._deadline = time.monotonic() + self._message_seconds
        if not pending:
            pending = self._socket.recv(READ_BYTES)
            self._bytes_left -= len(pending)
        self._buffer = BytesIO(pending)
        return bool(pending)

    # thrift's base class is untyped: what its empty bodies return is taken for None.
    def read(self, sz: int) -> bytes:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Up to `sz` bytes, at least one."""
        data = self._buffer.read(sz)
        if data or sz == 0:
            return data
        self._buffer = BytesIO(self._receive(1))
        return self._buffer.read(sz)

    def read_exactly(self, count: int) -> bytes:
        """So many bytes."""
        data = self._buffer.read(count)
        if len(data) < count:
            self._buffer = BytesIO(data + self._receive(count - len(data)))
            data = self._buffer.read(count)
        return data

    def read_until(self, end: bytes, most: int) -> bytes:
        """The bytes up to and with an end mark. TTransportException if it is not among so many bytes."""
        data = self._buffer.read()
        while (found := data.find(end)) < 0:
            if len(data) > most:
                raise TTransportException(TTransportException.SIZE_LIMIT, f"a head of more than {most} bytes")
            data += self._receive(1)
        self._buffer = BytesIO(data[found + len(end) :])
        return data[: found + len(end)]

    @property
    def cstringio_buf(self) -> BytesIO:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The decoder's view of what is buffered."""
        return self._buffer

    def cstringio_refill(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, partialread: bytes, reqlen: int
    ) -> BytesIO:
        """A buffer that starts with what the decoder has and holds at least `reqlen` bytes."""
        missing = reqlen - len(partialread)
        self._buffer = BytesIO(partialread + self._receive(missing) if missing > 0 else partialread)
        return self._buffer

    def send(self, data: bytes) -> None:
        """Send all of it."""
        self._socket.sendall(data)

    def rest(self) -> bytes:
        """What was received beyond the message that was read."""
        return self._buffer.read()

    def _receive(self, least: int) -> bytes:
        if least > self._bytes_left:
            raise TTransportException(
                TTransportException.SIZE_LIMIT, f"a message of more than {MESSAGE_BYTES_MAX} bytes"
            )
        received = bytearray()
        while len(received) < least:
            chunk = self._socket.recv(max(READ_BYTES, min(least - len(received), 1024 * 1024)))
            if not chunk:
                raise EOFError("the client went away within a message")
            received += chunk
            if time.monotonic() > self._deadline:
                raise TTransportException(TTransportException.TIMED_OUT, "a message took too long to arrive")
        self._bytes_left -= len(received)
        return bytes(received)


class Framing(Protocol):
    """How messages are packed, for one connection."""

    @property
    def is_last(self) -> bool:
        """Whether the connection ends with the reply to the message that was read last."""
        ...

    @property
    def user(self) -> str | None:
        """The user that came with the message itself."""
        ...

    def whole(self, data: bytes) -> bytes | None:
        """The message if these bytes are one, or may be one; None if they surely are not just that."""
        ...

    def next(self, reader: SocketSource) -> Any:
        """A source for the next message, of which at least one byte is there. Raises one of BAD_INPUT."""
        ...

    def pack(self, reply: bytes) -> bytes:
        """The bytes to send."""
        ...

    def refusal(self, error: Exception) -> bytes:
        """What to say before hanging up on bad input; mostly nothing."""
        ...


class BufferedFraming:
    """Messages without anything around them."""

    is_last = False
    user = None

    def whole(self, data: bytes) -> bytes | None:
        """Known only after decoding."""
        return data

    def next(self, reader: SocketSource) -> Any:
        """The socket itself."""
        return reader

    def pack(self, reply: bytes) -> bytes:
        """The reply."""
        return reply

    def refusal(self, error: Exception) -> bytes:
        """Nothing."""
        return b""


class FramedFraming:
    """Four bytes of length before each message."""

    is_last = False
    user = None

    def whole(self, data: bytes) -> bytes | None:
        """The frame's content if the frame is what there is."""
        if len(data) > _FRAME_HEAD.size and _FRAME_HEAD.unpack_from(data)[0] == len(data) - _FRAME_HEAD.size:
            return data[_FRAME_HEAD.size :]
        return None

    def next(self, reader: SocketSource) -> Any:
        """The content of a frame."""
        (length,) = _FRAME_HEAD.unpack(reader.read_exactly(_FRAME_HEAD.size))
        return MemorySource(reader.read_exactly(length))

    def pack(self, reply: bytes) -> bytes:
        """A frame; nothing for no reply."""
        return _FRAME_HEAD.pack(len(reply)) + reply if reply else b""

    def refusal(self, error: Exception) -> bytes:
        """Nothing."""
        return b""


class ClientConnection:
    """A client's connection and what the server knows of it."""

    __slots__ = ("busy", "codec", "framing", "handshake_until", "link", "session", "watched")

    def __init__(self, connected: socket.socket, framing: Framing, codec: Codec, session: ClientSession) -> None:
        self.link = connected
        self.framing = framing
        self.codec = codec
        self.session = session
        self.busy = False
        """Whether a request is being served: the server waits for it before it ends."""
        self.watched = False
        """Whether the loop waits for it, rather than some thread having it."""
        self.handshake_until: float | None = None
        """The time on the monotonic clock when the TLS handshake has to be done; None after it, and without TLS."""


def listen(host: str, port: int) -> socket.socket:
    """A listening socket that does not block; `port` 0 takes a free one. OSError if the address cannot be had."""
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
    """Set a new connection's options and return its peer, `host:port`. OSError if the client has gone already."""
    connected.setblocking(False)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        # What macOS calls the first one is known to newer Pythons.
        ("TCP_KEEPIDLE" if hasattr(socket, "TCP_KEEPIDLE") else "TCP_KEEPALIVE", KEEPALIVE_IDLE_SECONDS),
        ("TCP_KEEPINTVL", KEEPALIVE_PAUSE_SECONDS),
        ("TCP_KEEPCNT", KEEPALIVE_PROBES),
    ):
        if hasattr(socket, name):
            connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    host, port = connected.getpeername()[:2]
    return f"{host}:{port}"


def shut_down(connected: socket.socket) -> None:
    """Wake whoever reads from the connection."""
    try:
        # Not the method of TLS sockets, which takes the encryption away under the reader.
        socket.socket.shutdown(connected, socket.SHUT_RD)
    except OSError as error:
        if error.errno not in (errno.ENOTCONN, errno.EBADF):
            raise


def send_some(connected: socket.socket, data: bytes) -> bytes:
    """Send what the socket takes without waiting, and return the rest."""
    if not data:
        return data
    try:
        return data[connected.send(data) :]
    except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
        return data


def say_goodbye(connected: socket.socket, last_words: bytes) -> None:
    """Send something before the connection is closed, and wait a little until the client has ended it: a socket that
    is closed with bytes unread takes what was sent away from the client.
    """
    connected.settimeout(GOODBYE_SECONDS_MAX)
    deadline = time.monotonic() + GOODBYE_SECONDS_MAX
    try:
        connected.sendall(last_words)
        socket.socket.shutdown(connected, socket.SHUT_WR)
        while connected.recv(READ_BYTES) and time.monotonic() < deadline:
            pass
    except OSError:
        # It did not wait for them.
        return
