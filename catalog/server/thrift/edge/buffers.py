"""Buffers of a loop for its clients, within budgets: partial messages, and replies that clients have not read.

A client that reads its reply slowly occupies its own connection and nothing more: no thread waits for it, and its next
request is not read before. The loop writes the rest when the socket accepts more. A client that reads nothing for a
while is dropped. When all unsent replies together exceed the budget, the client that has read nothing for the longest
time is dropped; when all partial messages do, clients with more than an equal part of it are, oldest message first.
"""

import threading
import time
from collections.abc import Callable, Collection
from typing import Protocol, TypeVar

from thrift.transport.TTransport import TTransportException

from interbed.catalog.server.thrift.edge.transport import NOT_YET, ClientConnection

TURN_BYTES_MAX = 256 * 1024
"""Bytes sent to one client in one turn of the loop."""

STALLED_SECONDS = 0.5
"""A client that read something within this time is not slow."""

BYTES_PER_EXTRA_TIME = 1024 * 1024
"""Bytes of a reply for which its client has once more the time to read it."""


class PartialSender(Protocol):
    """A client with a partial message."""

    partial_bytes: int
    deadline: float | None

    @property
    def watched(self) -> bool:
        """Whether it may be dropped now."""
        ...


class PartialMessages:
    """The connections of a process with a partial message. Safe for many threads."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._guard = threading.Lock()
        self._connections: set[PartialSender] = set()
        self._bytes = 0

    @property
    def size(self) -> int:
        """Bytes buffered for all connections."""
        return self._bytes

    def count(self, connection: ClientConnection) -> None:
        """Update the number of bytes of a connection."""
        self.count_bytes(connection, len(connection.incoming.data))

    def count_bytes(self, connection: PartialSender, size: int) -> None:
        """Set the number of bytes of a connection."""
        with self._guard:
            self._bytes += size - connection.partial_bytes
            connection.partial_bytes = size
            if size:
                self._connections.add(connection)
            else:
                self._connections.discard(connection)

    def forget(self, connection: PartialSender) -> None:
        """Forget a connection that is closed or whose message is served."""
        if connection.partial_bytes:
            with self._guard:
                self._bytes -= connection.partial_bytes
                connection.partial_bytes = 0
                self._connections.discard(connection)

    def too_many(self) -> Collection[PartialSender]:
        """Return the clients to be dropped so that the others are within the budget: of those with more than an equal
        part of it, the ones with the oldest messages.
        """
        if self._bytes <= self._bytes_max:
            return ()
        with self._guard:
            connections = list(self._connections)
        part = self._bytes_max / len(connections)
        large = [each for each in connections if each.partial_bytes >= part and each.watched]
        dropped = []
        left = self._bytes
        for connection in sorted(large, key=lambda each: each.deadline or 0.0):
            if left <= self._bytes_max:
                break
            dropped.append(connection)
            left -= connection.partial_bytes
        return dropped

    def exceeded(self) -> TTransportException:
        """Return the error for a client that is dropped."""
        return TTransportException(
            TTransportException.SIZE_LIMIT,
            f"messages that have come in part are more than {self._bytes_max} bytes (the setting "
            "partial_bytes_max), and this one is of the largest",
        )


class ReplyReader(Protocol):
    """A client that has not read all of its reply."""

    progress_at: float
    unsent_bytes: int


R = TypeVar("R", bound=ReplyReader)


class UnsentReplies:
    """The unsent replies of a loop; for its thread, except `forget`.

    A client may read nothing for `seconds_max`; the whole of a reply may take as long for each MiB of it.
    """

    def __init__(self, bytes_max: int, seconds_max: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._bytes_max = bytes_max
        self._seconds_max = seconds_max
        self._clock = clock
        self._guard = threading.Lock()
        self._connections: set[ClientConnection] = set()
        self._bytes = 0

    @property
    def size(self) -> int:
        """Bytes buffered for all connections."""
        return self._bytes

    def write(self, connection: ClientConnection) -> bool:
        """Send as much as the socket accepts, up to the limit of a turn; return whether nothing is left. OSError."""
        now = self._clock()
        outgoing = connection.outgoing
        if connection not in self._connections:
            size = sum(map(len, outgoing))
            connection.progress_at = now
            connection.reply_until = now + self._seconds_max * (1 + size / BYTES_PER_EXTRA_TIME)
            self._add(connection, size)
        sent = _send(connection)
        if not outgoing:
            self.forget(connection)
            return True
        if sent:
            self._count(connection, -sent)
            connection.progress_at = now
        connection.deadline = min(connection.progress_at + self._seconds_max, connection.reply_until)
        connection.too_late = "taking its reply timed out"
        return False

    def forget(self, connection: ClientConnection) -> None:
        """Forget a connection that has its reply or is closed; from any thread."""
        if connection in self._connections:
            with self._guard:
                self._connections.discard(connection)
                self._bytes -= connection.unsent_bytes
                connection.unsent_bytes = 0

    def slowest(self) -> Collection[ClientConnection]:
        """Return the clients to be dropped so that the others are within the budget."""
        return slowest(self._connections, self._bytes, self._bytes_max, self._clock())

    def stalled(self) -> Collection[ClientConnection]:
        """Return the clients that have read nothing for a while; a server that stops does not wait for them."""
        before = self._clock() - STALLED_SECONDS
        return [each for each in self._connections if each.progress_at < before]

    def _add(self, connection: ClientConnection, size: int) -> None:
        with self._guard:
            self._connections.add(connection)
            connection.unsent_bytes = size
            self._bytes += size

    def _count(self, connection: ClientConnection, change: int) -> None:
        with self._guard:
            connection.unsent_bytes += change
            self._bytes += change


def slowest(clients: Collection[R], unsent: int, bytes_max: int, now: float) -> list[R]:
    """Return the clients to be dropped so that the unsent bytes of the others are within the budget."""
    dropped: list[R] = []
    for client in sorted(clients, key=lambda each: each.progress_at):
        is_slow = now - client.progress_at > STALLED_SECONDS
        # Far beyond the budget no client is waited for; but a single reply may have any size.
        if unsent <= bytes_max or not (is_slow or unsent > 2 * bytes_max):
            break
        if len(dropped) + 1 == len(clients):
            break
        dropped.append(client)
        unsent -= client.unsent_bytes
    return dropped


def _send(connection: ClientConnection) -> int:
    """Send up to a turn's bytes and return how many were sent."""
    outgoing = connection.outgoing
    sent = 0
    while outgoing and sent < TURN_BYTES_MAX:
        view = outgoing[0]
        try:
            count = connection.link.send(view[:TURN_BYTES_MAX])
        except NOT_YET:
            break
        sent += count
        if count == len(view):
            outgoing.popleft()
        else:
            outgoing[0] = view[count:]
    return sent
