"""The scheduler's port: thrift_idl/optimizing.thrift over TCP, binary protocol, unframed; a thread for each connection.

It asks nobody who they are: whoever reaches the port may register as a worker, and say what came of tasks. Bind it to a
network that is closed to others. What a client may cost is bounded: bytes of a message, seconds for a message once it
has begun and for silence before the first and between two, connections at once.
"""

import logging
import selectors
import socket
import threading
import time
from typing import Any

from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
from thrift.transport.TTransport import TMemoryBuffer

from interbed.catalog.server.thrift.edge.codec import BinaryCodec
from interbed.catalog.server.thrift.edge.transport import BAD_INPUT, listen, prepare, shut_down
from interbed.optimizer.service.calls import SchedulerCalls
from interbed.optimizer.service.socket_source import SocketSource
from interbed.thrift_idl.optimizing import Optimizer

_log = logging.getLogger(__name__)

CONNECTIONS_MAX = 1000
FIRST_SECONDS_MAX = 10.0
"""How long a client may be silent before its first message."""

IDLE_SECONDS_MAX = 300.0
"""How long between two messages; workers connect again by themselves."""

MESSAGE_SECONDS_MAX = 60.0
_JOIN_SECONDS_MAX = 10.0
_REFUSED_SECONDS = 0.1
_TICK_SECONDS = 60.0


class WorkerPort:
    """Answers from its making until `close`; `port` 0 takes a free one. OSError if the address can't be had."""

    def __init__(self, host: str, port: int, calls: SchedulerCalls) -> None:
        self._host = host
        self._processor = Optimizer.Processor(calls)
        self._codec = BinaryCodec()
        self._guard = threading.Lock()
        self._open: dict[socket.socket, threading.Thread] = {}
        self._listener = listen(host, port)
        self._wake_reader, self._wake_writer = socket.socketpair()
        self._accepting = threading.Thread(target=self._accept_all, name="optimizer-port", daemon=True)
        self._accepting.start()

    @property
    def uri(self) -> str:
        """Where workers find it, `thrift://host:port`."""
        host, port = self._listener.getsockname()[:2]
        return f"thrift://[{host}]:{port}" if ":" in host else f"thrift://{host}:{port}"

    def close(self) -> None:
        """Take no more connections, end those that there are, and wait for the calls that run."""
        self._wake_writer.send(b"x")
        self._accepting.join(_JOIN_SECONDS_MAX)
        for each in (self._listener, self._wake_reader, self._wake_writer):
            each.close()
        with self._guard:
            left = dict(self._open)
            for connected in left:
                shut_down(connected)
        for thread in left.values():
            thread.join(_JOIN_SECONDS_MAX)

    def _accept_all(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._listener, selectors.EVENT_READ)
            selector.register(self._wake_reader, selectors.EVENT_READ)
            while True:
                ready = [key.fileobj for key, _ in selector.select(_TICK_SECONDS)]
                if self._wake_reader in ready:
                    return
                if self._listener in ready:
                    self._accept()

    def _accept(self) -> None:
        try:
            connected, _ = self._listener.accept()
        except OSError as error:
            # The client has gone again, or there are no descriptors left, which takes a while to be better.
            _log.warning("a connection could not be accepted: %s", error)
            time.sleep(_REFUSED_SECONDS)
            return
        try:
            peer = prepare(connected)
        except OSError:
            connected.close()
            return
        with self._guard:
            if len(self._open) >= CONNECTIONS_MAX:
                _log.warning("%s is sent away: there are %d connections", peer, CONNECTIONS_MAX)
                connected.close()
                return
            thread = threading.Thread(
                target=self._serve, args=(connected, peer), name=f"optimizer-port {peer}", daemon=True
            )
            self._open[connected] = thread
            thread.start()

    def _serve(self, connected: socket.socket, peer: str) -> None:
        source = SocketSource(connected, MESSAGE_SECONDS_MAX)
        try:
            connected.settimeout(FIRST_SECONDS_MAX)
            while source.begin():
                connected.settimeout(MESSAGE_SECONDS_MAX)
                source.send(self._answer(source))
                connected.settimeout(IDLE_SECONDS_MAX)
        except BAD_INPUT as error:
            _log.debug("the connection of %s ends: %s", peer, error or type(error).__name__)
        finally:
            with self._guard:
                del self._open[connected]
                connected.close()

    def _answer(self, source: SocketSource) -> bytes:
        reply: Any = TMemoryBuffer()
        self._processor.process(self._codec.reader(source), TBinaryProtocolAccelerated(reply))
        answer: bytes = reply.getvalue()
        return answer
