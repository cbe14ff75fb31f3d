"""A socket as Thrift's decoder in C wants to read it: a thread waits for each message."""

import socket
import time
from io import BytesIO

from thrift.transport.TTransport import CReadableTransport, TTransportBase, TTransportException

BYTES_MAX = 100 * 1024 * 1024
"""The longest message."""

_READ_BYTES = 64 * 1024


class SocketSource(TTransportBase, CReadableTransport):  # type: ignore[misc]
    """A socket as Thrift's decoder in C wants to read it, with a limit on the bytes of a message.

    The socket has a timeout. Reading more than the limit raises TTransportException before any memory is set aside
    for it.
    """

    def __init__(self, connection: socket.socket, message_seconds: float) -> None:
        self._socket = connection
        self._buffer = BytesIO()
        self._bytes_left = BYTES_MAX
        self._message_seconds = message_seconds
        self._deadline = time.monotonic() + message_seconds

    def begin(self) -> bool:
        """Begin a message, waiting for its first byte; False if the client has gone."""
        pending = self._buffer.read()
        self._bytes_left = BYTES_MAX - len(pending)
        self._deadline = time.monotonic() + self._message_seconds
        if not pending:
            pending = self._socket.recv(_READ_BYTES)
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

    def _receive(self, least: int) -> bytes:
        if least > self._bytes_left:
            raise TTransportException(TTransportException.SIZE_LIMIT, f"a message of more than {BYTES_MAX} bytes")
        received = bytearray()
        while len(received) < least:
            chunk = self._socket.recv(max(_READ_BYTES, min(least - len(received), 1024 * 1024)))
            if not chunk:
                raise EOFError("the client went away within a message")
            received += chunk
            if time.monotonic() > self._deadline:
                raise TTransportException(TTransportException.TIMED_OUT, "a message took too long to arrive")
        self._bytes_left -= len(received)
        return bytes(received)
