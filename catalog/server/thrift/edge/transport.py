"""Bytes in, messages out: how Thrift's messages are packed on a socket, and the connections that carry them.

Buffered: messages follow one another, and where one ends shows only in its values (scan.py). Framed: each has its
length before it. HTTP is in http.py. Most messages arrive whole in one piece, and `whole` takes them as they are; all
others are gathered as IncomingBytes, from which `next` takes a message when it has come. What a client may cost is
bounded: bytes of a message, elements of a list, seconds for the rest of a message once it has begun and for taking a
reply. An idle connection may stay for ever.
"""

import errno
import socket
import ssl
import struct
from collections import deque
from typing import Protocol

from thrift.Thrift import TException

from interbed.catalog.server.thrift.edge.budgets import MESSAGE_BYTES_MAX
from interbed.catalog.server.thrift.edge.call import ClientSession
from interbed.catalog.server.thrift.edge.codec import Codec, IncompleteMessageError
from interbed.catalog.server.thrift.edge.pool import ClientShare
from interbed.catalog.server.thrift.edge.scan import Scanner, too_long

READ_BYTES = 64 * 1024

GOODBYE_SECONDS_MAX = 2.0
"""How long the server waits for a client to read why it hangs up: a socket that is closed with bytes unread takes what
was sent away from the client.
"""

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
"""TCP keepalive: a client whose machine has lost its power is noticed after 15 s."""

NOT_YET = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
"""What a socket that does not block raises when it can't go on."""

_BACKLOG = 512
_FRAME_HEAD = struct.Struct("!I")


class IncomingBytes:
    """What a client has sent and the server has not served yet; begins with a message."""

    __slots__ = ("data", "gathered", "needed", "scanner", "weight")

    def __init__(self) -> None:
        self.data = bytearray()
        self.gathered = 0
        """How many bytes of the message were cut out of `data` already."""
        self.needed = 0
        """How many bytes there have to be before `Framing.next` can find the message."""
        self.weight = 0
        """The weight of the message that was taken last, 0 if it was not weighed."""
        self.scanner: Scanner | None = None

    def take(self, begin: int, end: int) -> bytes:
        """Cut a message out of the front; the next one begins at `end`."""
        with memoryview(self.data) as view:
            message = bytes(view[begin:end])
        del self.data[:end]
        self.needed = self.gathered = 0
        self.scanner = None
        return message


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

    @property
    def is_delimited(self) -> bool:
        """Whether a message's length is known without a look at its values."""
        ...

    def whole(self, data: bytes) -> bytes | None:
        """The message if these bytes are one, or may be one; None if they surely are not just that."""
        ...

    def next(self, incoming: IncomingBytes, codec: Codec) -> bytes | None:
        """Take the first message out of the bytes; None if more have to come. Raises one of BAD_INPUT."""
        ...

    def interim(self) -> bytes:
        """What the client waits for before it sends the rest of the message; mostly nothing. Said once."""
        ...

    def head(self, length: int) -> bytes:
        """What is sent before a reply of this length."""
        ...

    def refusal(self, error: Exception) -> bytes:
        """What to say before hanging up on bad input; mostly nothing."""
        ...


class BufferedFraming:
    """Messages without anything around them."""

    is_last = False
    user = None
    is_delimited = False

    def __init__(self, bytes_max: int = MESSAGE_BYTES_MAX) -> None:
        self._bytes_max = bytes_max

    def whole(self, data: bytes) -> bytes | None:
        """Known only after decoding."""
        return data

    def next(self, incoming: IncomingBytes, codec: Codec) -> bytes | None:
        """What the scanner finds the end of."""
        if incoming.scanner is None:
            incoming.scanner = codec.scanner(self._bytes_max)
        scanner = incoming.scanner
        end = scanner.scan(incoming.data)
        if end is None:
            incoming.needed = max(scanner.position, len(incoming.data) + 1)
            return None
        incoming.weight = scanner.weight
        return incoming.take(0, end)

    def interim(self) -> bytes:
        """Nothing."""
        return b""

    def head(self, length: int) -> bytes:
        """Nothing."""
        return b""

    def refusal(self, error: Exception) -> bytes:
        """Nothing."""
        return b""


class FramedFraming:
    """Four bytes of length before each message."""

    is_last = False
    user = None
    is_delimited = True

    def __init__(self, bytes_max: int = MESSAGE_BYTES_MAX) -> None:
        self._bytes_max = bytes_max

    def whole(self, data: bytes) -> bytes | None:
        """The frame's content if the frame is what there is."""
        if len(data) > _FRAME_HEAD.size and _FRAME_HEAD.unpack_from(data)[0] == len(data) - _FRAME_HEAD.size:
            return data[_FRAME_HEAD.size :]
        return None

    def next(self, incoming: IncomingBytes, codec: Codec) -> bytes | None:
        """The content of a frame."""
        incoming.weight = 0
        incoming.needed = _FRAME_HEAD.size
        if len(incoming.data) < incoming.needed:
            return None
        (length,) = _FRAME_HEAD.unpack_from(incoming.data)
        if length > self._bytes_max:
            raise too_long(self._bytes_max)
        incoming.needed = _FRAME_HEAD.size + length
        if len(incoming.data) < incoming.needed:
            return None
        return incoming.take(_FRAME_HEAD.size, incoming.needed)

    def interim(self) -> bytes:
        """Nothing."""
        return b""

    def head(self, length: int) -> bytes:
        """A frame's head; nothing for no reply."""
        return _FRAME_HEAD.pack(length) if length else b""

    def refusal(self, error: Exception) -> bytes:
        """Nothing."""
        return b""


class ClientConnection:
    """A client's connection and what the server knows of it. The loop's thread or one of the pool has it at a time."""

    __slots__ = (
        "busy",
        "codec",
        "deadline",
        "framing",
        "incoming",
        "is_ending",
        "is_registered",
        "is_shaking_hands",
        "link",
        "loop_seconds",
        "loop_window",
        "outgoing",
        "partial_bytes",
        "progress_at",
        "reply_bytes",
        "reply_until",
        "session",
        "share",
        "too_late",
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
        """Whether a request is being served: the server waits for it before it ends."""
        self.watched = False
        """Whether the loop waits for it, rather than some thread having it."""
        self.is_registered = False
        """Whether the loop's selector names it when something comes, also while a thread has it."""
        self.is_shaking_hands = False
        """Whether the TLS handshake is under way."""
        self.is_ending = False
        """Whether the connection ends when its last reply is sent and the client has closed it."""
        self.deadline: float | None = None
        """The time on the monotonic clock when what is under way has to be done; None if nothing is."""
        self.too_late = ""
        """What to say of a client that misses the deadline."""
        self.incoming = IncomingBytes()
        self.partial_bytes = 0
        """How much of `incoming` the process's budget knows of."""
        self.outgoing: deque[memoryview] = deque()
        """What is left of a reply."""
        self.unsent_bytes = 0
        """How much of `outgoing` the process's budget knows of."""
        self.progress_at = 0.0
        """When the client took something of its reply last."""
        self.reply_until = 0.0
        """When it has to have taken all of it."""
        self.reply_bytes = 0
        """The length of the reply before."""
        self.loop_seconds, self.loop_window = 0.0, 0
        """What the loop did for it in the second of this number."""

    @property
    def has_pending_bytes(self) -> bool:
        """Whether TLS has taken bytes off the socket that nobody has read."""
        return type(self.link) is ssl.SSLSocket and self.link.pending() > 0


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


def receive_some(connected: socket.socket) -> bytes | None:
    """Receive what has come; None if nothing has, no bytes if the client sends no more. OSError."""
    try:
        data = connected.recv(READ_BYTES)
        if type(connected) is ssl.SSLSocket:
            # What TLS has taken off the socket shows in no selector.
            while pending := connected.pending():
                data += connected.recv(pending)
    except NOT_YET:
        return None
    return data


def send_some(connected: socket.socket, data: bytes) -> memoryview | None:
    """Send what the socket takes without waiting, and return the rest, None if there is none."""
    view = memoryview(data)
    while view:
        try:
            view = view[connected.send(view) :]
        except NOT_YET:
            return view
    return None
