"""Messages that have come in part: how many bytes a process keeps of them, and which clients it drops beyond."""

import threading
from collections.abc import Collection

from interbed.catalog.server.thrift.edge.transport import ClientConnection


class PartialMessages:
    """The connections of a loop that have begun a message. Safe for many threads."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self._guard = threading.Lock()
        self._connections: set[ClientConnection] = set()
        self._bytes = 0

    @property
    def size(self) -> int:
        """The bytes of all of them."""
        return self._bytes

    def count(self, connection: ClientConnection) -> None:
        """Count what the connection has now."""
        size = len(connection.incoming.data) + connection.incoming.gathered
        with self._guard:
            self._bytes += size - connection.partial_bytes
            connection.partial_bytes = size
            if size:
                self._connections.add(connection)
            else:
                self._connections.discard(connection)

    def forget(self, connection: ClientConnection) -> None:
        """Forget a connection that is closed or whose message is served."""
        if connection.partial_bytes:
            with self._guard:
                self._bytes -= connection.partial_bytes
                connection.partial_bytes = 0
                self._connections.discard(connection)

    def too_many(self) -> Collection[ClientConnection]:
        """The clients to be dropped so that the others are within the budget: of those with more than an equal part of
        it the ones that began their message first.
        """
        if self._bytes <= self.bytes_max:
            return ()
        with self._guard:
            connections = list(self._connections)
        part = self.bytes_max / len(connections)
        large = [each for each in connections if each.partial_bytes >= part and each.watched]
        dropped = []
        left = self._bytes
        for connection in sorted(large, key=lambda each: each.deadline or 0.0):
            if left <= self.bytes_max:
                break
            dropped.append(connection)
            left -= connection.partial_bytes
        return dropped
