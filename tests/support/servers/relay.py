"""A relay before a metastore that loses replies: the server carries out the call, but the caller gets no reply.

It also answers calls itself, which the server does not get then.
"""

import contextlib
import socket
import struct
import threading
from collections.abc import Callable
from typing import Any, Self

from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TApplicationException, TMessageType
from thrift.transport.TTransport import TMemoryBuffer

from tests.support.waits import at_most

DEADLINE_SECONDS = at_most(60)


class Relay:
    """Copies bytes to a server on 127.0.0.1 at `port`, from its own port `self.port`; used in a `with` block."""

    def __init__(self, port: int) -> None:
        self._target = port
        self.port = 0
        self._listener: socket.socket | None = None
        self._acceptor: threading.Thread | None = None
        self._lose: tuple[str, bool] | None = None
        self._before: tuple[str, Callable[[], object]] | None = None
        self._overtaken: str | None = None
        self._answer: tuple[str, bytes, Any] | None = None
        self._held: bytes | None = None
        self.lost: list[str] = []
        """The methods whose replies were lost."""

    @property
    def uri(self) -> str:
        """Thrift address for clients."""
        return f"thrift://127.0.0.1:{self.port}"

    def lose_reply_of(self, method: str = "", *, every: bool = False) -> None:
        """Cut the connection instead of the next reply to this method, or to any; `every` does so each time."""
        self._lose = (method, every)

    def before(self, method: str, action: Callable[[], object]) -> None:
        """Run the action before the next call of the method is forwarded."""
        self._before = (method, action)

    def answer(self, method: str, result: Any, *, to: str = "") -> None:
        """Answer the next call of the method that has the text `to` in its arguments with this result structure, or
        this TApplicationException.
        """
        self._answer = (method, to.encode(), result)

    @property
    def is_waiting(self) -> bool:
        """Whether the call to be answered has not come yet."""
        return self._answer is not None

    def overtake(self, method: str) -> None:
        """Cut the connection at the next call of the method, and forward that call just before the call after it."""
        self._overtaken = method

    def start(self) -> None:
        """Listen on the previous port, or on a free port at the first start."""
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self.port = self._listener.getsockname()[1]
        self._acceptor = threading.Thread(target=self._accept, args=(self._listener,))
        self._acceptor.start()

    def stop(self) -> None:
        """Refuse connections, and close the open ones."""
        if self._listener is None or self._acceptor is None:
            return
        # Closing alone does not wake up the thread that waits in accept().
        self._listener.shutdown(socket.SHUT_RDWR)
        self._acceptor.join(timeout=DEADLINE_SECONDS)
        self._listener.close()
        self._listener = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _accept(self, listener: socket.socket) -> None:
        serving: list[threading.Thread] = []
        connections: list[socket.socket] = []
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                break
            connections.append(connection)
            thread = threading.Thread(target=self._serve, args=(connection,))
            thread.start()
            serving.append(thread)
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in serving:
            thread.join(timeout=DEADLINE_SECONDS)

    def _serve(self, connection: socket.socket) -> None:
        with connection, self._connected() as server:
            try:
                # Calls and replies are small here: each arrives in one piece.
                while data := connection.recv(65536):
                    method = _method(data)
                    if self._before is not None and self._before[0] == method:
                        (_, action), self._before = self._before, None
                        action()
                    if self._answer is not None and self._answer[0] == method and self._answer[1] in data:
                        (*_, result), self._answer = self._answer, None
                        connection.sendall(_reply(data, method, result))
                        continue
                    if self._overtaken == method:
                        self._overtaken, self._held = None, data
                        self.lost.append(method)
                        return
                    if self._held is not None and _method(self._held) == method:
                        with self._connected() as late:
                            late.sendall(self._held)
                            late.recv(65536)
                        self._held = None
                    server.sendall(data)
                    reply = server.recv(65536)
                    if self._lose is not None and self._lose[0] in ("", method):
                        if not self._lose[1]:
                            self._lose = None
                        self.lost.append(method)
                        return
                    connection.sendall(reply)
            except OSError:
                # One of the two sides has hung up.
                return

    def _connected(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self._target), timeout=DEADLINE_SECONDS)


def _method(call: bytes) -> str:
    """Return the name of the method that a message of the binary protocol calls; no name for other short messages."""
    if len(call) < 8:
        return ""
    _, length = struct.unpack_from(">ii", call)
    return call[8 : 8 + length].decode(errors="replace")


def _reply(call: bytes, method: str, result: Any) -> bytes:
    """Return the message of the binary protocol that answers a call."""
    buffer = TMemoryBuffer()
    protocol = TBinaryProtocol(buffer)
    kind = TMessageType.EXCEPTION if isinstance(result, TApplicationException) else TMessageType.REPLY
    (sequence,) = struct.unpack_from(">i", call, 8 + len(method.encode()))
    protocol.writeMessageBegin(method, kind, sequence)
    result.write(protocol)
    protocol.writeMessageEnd()
    return bytes(buffer.getvalue())
