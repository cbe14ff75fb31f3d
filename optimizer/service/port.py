"""The scheduler's port: thrift_idl/optimizing.thrift over TCP, binary protocol, unframed; a thread for each connection.

There is no authentication: any client that reaches the port may register as a worker and report results of tasks. Bind
it to a network that is closed to others. The cost of a client is bounded: the bytes and the time of a message, the
silence before the first message and between two, and the number of connections.
"""

import logging
import selectors
import socket
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import Any

from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
from thrift.transport.TTransport import CReadableTransport, TMemoryBuffer, TTransportBase, TTransportException

from interbed.catalog.server.thrift.edge.codec import BinaryCodec
from interbed.catalog.server.thrift.edge.transport import BAD_INPUT, listen, prepare, shut_down
from interbed.optimizer.flow.process import NotOnDutyError, UnknownWorkerError
from interbed.optimizer.service.scheduler_client import (
    assignment_to_wire,
    outcome_of_wire,
    ref_of_wire,
    ref_to_wire,
    status_to_wire,
    storable,
)
from interbed.optimizer.service.service import Leadership
from interbed.storage.base.backoff import NO_JITTER, ExponentialBackoff
from interbed.storage.base.errors import InvalidInputError
from interbed.storage.base.shown_text import masked
from interbed.thrift_idl.optimizing import Optimizer, constants, ttypes

BYTES_MAX = 100 * 1024 * 1024
"""Bytes of a message, at most."""

_READ_BYTES = 64 * 1024


class SocketSource(TTransportBase, CReadableTransport):  # type: ignore[misc]
    """A socket with the interface of Thrift's decoder in C, and a limit on the bytes of a message.

    The socket has a timeout. Reading more than the limit raises TTransportException before memory is allocated for it.
    """

    def __init__(self, connection: socket.socket, message_seconds: float) -> None:
        self._socket = connection
        self._buffer = BytesIO()
        self._bytes_left = BYTES_MAX
        self._message_seconds = message_seconds
        self._deadline = time.monotonic() + message_seconds

    def begin(self) -> bool:
        """Begin a message, waiting for its first byte; return False if the client has disconnected."""
        pending = self._buffer.read()
        self._bytes_left = BYTES_MAX - len(pending)
        self._deadline = time.monotonic() + self._message_seconds
        if not pending:
            pending = self._socket.recv(_READ_BYTES)
            self._bytes_left -= len(pending)
        self._buffer = BytesIO(pending)
        return bool(pending)

    # Thrift's base class is untyped: type checkers infer None from its empty bodies.
    def read(self, sz: int) -> bytes:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Read up to `sz` bytes, at least one."""
        data = self._buffer.read(sz)
        if data or sz == 0:
            return data
        self._buffer = BytesIO(self._receive(1))
        return self._buffer.read(sz)

    @property
    def cstringio_buf(self) -> BytesIO:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The buffer, as the decoder reads it."""
        return self._buffer

    def cstringio_refill(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, partialread: bytes, reqlen: int
    ) -> BytesIO:
        """Return a buffer with the decoder's bytes first, and at least `reqlen` bytes in all."""
        missing = reqlen - len(partialread)
        self._buffer = BytesIO(partialread + self._receive(missing) if missing > 0 else partialread)
        return self._buffer

    def send(self, data: bytes) -> None:
        """Send all of the data."""
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


THREADS_MAX = 1024
_PLACE_MAX = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogForWorkers:
    """Name and options of the catalog for workers, without secrets."""

    name: str
    options: Mapping[str, str]

    @staticmethod
    def of(name: str, options: Mapping[str, str]) -> "CatalogForWorkers":
        """Return the catalog without the options that are masked when options are shown."""
        return CatalogForWorkers(name=name, options={k: v for k, v in options.items() if masked(k, v) == v})


class SchedulerCalls:
    """The calls of workers, for all connections. Every method raises NotScheduling without leadership."""

    def __init__(self, leadership: Leadership, catalog: CatalogForWorkers, lease_millis: int) -> None:
        self._leadership = leadership
        self._catalog = catalog
        self._lease_millis = lease_millis

    def enter(self, worker: Any) -> Any:
        """Register a worker. Raises Refused for another version of the interface, or an unknown group."""
        if worker.version != constants.VERSION:
            raise ttypes.Refused(
                f"The optimizer speaks version {constants.VERSION} of its interface, the worker at "
                f"{storable(worker.place, _PLACE_MAX)} version {worker.version}: install the same version of interbed "
                "for both."
            )
        if not 1 <= worker.threads <= THREADS_MAX or worker.memory < 1:
            raise ttypes.Refused(
                f"A worker has 1 to {THREADS_MAX} threads and at least a byte of memory, not {worker.threads} and "
                f"{worker.memory}."
            )
        place = storable(worker.place, _PLACE_MAX)
        try:
            known = self._leadership.ask(lambda s: s.register(worker.group, worker.threads, worker.memory, place))
        except NotOnDutyError as error:
            raise ttypes.NotScheduling(str(error)) from error
        except InvalidInputError as error:
            raise ttypes.Refused(str(error)) from error
        self._leadership.wake()
        return ttypes.Seat(
            workerId=known.id,
            leaseMillis=self._lease_millis,
            catalogName=self._catalog.name,
            catalogOptions=dict(self._catalog.options),
        )

    def poll(self, worker_id: str, free: int) -> list[Any]:
        """Assign attempts to a worker. Raises UnknownWorker."""
        try:
            given = self._leadership.ask(lambda s: s.poll(worker_id, min(free, THREADS_MAX)))
        except NotOnDutyError as error:
            raise ttypes.NotScheduling(str(error)) from error
        except UnknownWorkerError as error:
            raise ttypes.UnknownWorker(str(error)) from error
        if given:
            # More tables may be planned now.
            self._leadership.wake()
        return [assignment_to_wire(each) for each in given]

    def beat(self, worker_id: str, running: list[Any]) -> list[Any]:
        """Take a heartbeat; return the attempts that the worker is to give up. Raises UnknownWorker."""
        refs = [ref_of_wire(ref) for ref in running]
        try:
            return [ref_to_wire(ref) for ref in self._leadership.ask(lambda s: s.beat(worker_id, refs))]
        except NotOnDutyError as error:
            raise ttypes.NotScheduling(str(error)) from error
        except UnknownWorkerError as error:
            raise ttypes.UnknownWorker(str(error)) from error

    def complete(self, ref: Any, outcome: Any) -> int:
        """Take the result of an attempt, and return its status."""
        brought = outcome_of_wire(outcome)
        try:
            status = self._leadership.ask(lambda s: s.complete(ref_of_wire(ref), brought))
        except NotOnDutyError as error:
            raise ttypes.NotScheduling(str(error)) from error
        self._leadership.wake()
        return status_to_wire(status)

    def leave(self, worker_id: str) -> None:
        """Remove a worker that ends."""
        try:
            self._leadership.ask(lambda s: s.leave(worker_id))
        except NotOnDutyError as error:
            raise ttypes.NotScheduling(str(error)) from error
        self._leadership.wake()


_log = logging.getLogger(__name__)

CONNECTIONS_MAX = 1000
FIRST_SECONDS_MAX = 10.0
"""Timeout of the first message of a client."""

IDLE_SECONDS_MAX = 300.0
"""Timeout between two messages; workers reconnect by themselves."""

MESSAGE_SECONDS_MAX = 60.0
_JOIN_SECONDS_MAX = 10.0
_REFUSED = ExponentialBackoff(first_seconds=0.1, jitter=NO_JITTER)
_TICK_SECONDS = 60.0


class WorkerPort:
    """Server for workers, from its creation until `close`. `port` 0 takes a free one.

    Raises OSError if the address is not available.
    """

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
        """Address for workers, `thrift://host:port`."""
        host, port = self._listener.getsockname()[:2]
        return f"thrift://[{host}]:{port}" if ":" in host else f"thrift://{host}:{port}"

    def close(self) -> None:
        """Stop listening, close all connections, and wait for running calls."""
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
            # The client has disconnected, or there are no descriptors left, in which case a pause helps.
            _log.warning("a connection could not be accepted: %s", error)
            _REFUSED.start().pause()
            return
        try:
            peer = prepare(connected)
        except OSError:
            connected.close()
            return
        with self._guard:
            if len(self._open) >= CONNECTIONS_MAX:
                _log.warning("Refusing the connection of %s: there are %d connections already", peer, CONNECTIONS_MAX)
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
