"""Which connections the loop waits for, and which are lent to a thread.

A connection that is lent stays registered with the selector, because most clients wait for their reply: the thread
gives it back without waking the loop. If the client sends more, or goes away, the loop is woken for nothing; it takes
the connection out of the selector, and the thread has to return it through the loop.
"""

import selectors
import socket
import threading

from interbed.catalog.server.thrift.edge.transport import ClientConnection


class Watcher:
    """The connections of a loop in its selector. `lend`, `has_event` and what registers are for the loop's thread."""

    def __init__(self, selector: selectors.BaseSelector) -> None:
        self._selector = selector
        self._guard = threading.Lock()

    def watch(self, connection: ClientConnection, events: int = selectors.EVENT_READ, data: object = None) -> None:
        """Wait for a connection, with `data` for its events, by default itself."""
        self._unregister(connection)
        self._selector.register(connection.link, events, connection if data is None else data)
        connection.is_registered = connection.watched = True

    def unwatch(self, connection: ClientConnection) -> None:
        """Wait for it no more; nothing if nobody does."""
        self._unregister(connection)
        connection.watched = False

    def lend(self, connection: ClientConnection) -> None:
        """Let a thread have a connection that is watched for what it sends."""
        if type(connection.link) is socket.socket:
            connection.watched = False
        else:
            # What TLS has taken off the socket shows in no selector, so that the loop has to look.
            self.unwatch(connection)

    def give_back(self, connection: ClientConnection) -> bool:
        """Have the loop wait for a connection that was lent; False if the loop has to take it back; from any thread."""
        with self._guard:
            connection.watched = connection.is_registered
        return connection.watched

    def has_event(self, connection: ClientConnection) -> bool:
        """Whether a connection that the selector names is watched. One that is lent is taken out of the selector."""
        if connection.watched:
            return True
        with self._guard:
            # A thread may have given it back just now.
            if connection.watched or not connection.is_registered:
                return connection.watched
            self._selector.unregister(connection.link)
            connection.is_registered = False
        return False

    def _unregister(self, connection: ClientConnection) -> None:
        if connection.is_registered:
            self._selector.unregister(connection.link)
            connection.is_registered = False
