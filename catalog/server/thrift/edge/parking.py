"""Parked requests: they are served again later, and occupy no thread until then.

A call parks its request by AnswerLaterError. Meanwhile the event loop watches the connection for its end only, so that
a client that disconnects is noticed at once. What it sends before it has its answer stays in the socket's buffer.
"""

import socket
from collections.abc import Callable
from functools import partial

from interbed.catalog.server.session import AnswerLaterError
from interbed.catalog.server.thrift.edge.transport import ClientConnection
from interbed.catalog.server.thrift.edge.watching import Watcher


class ParkedRequests:
    """The parked requests of an event loop.

    `call_soon` runs a function on the loop's thread. `close` is called with a connection that has ended and is not
    registered any more.
    """

    def __init__(
        self,
        watcher: Watcher,
        call_soon: Callable[[Callable[[], None]], None],
        close: Callable[[ClientConnection], None],
    ) -> None:
        self._watcher = watcher
        self._call_soon = call_soon
        self._close = close

    def park(self, connection: ClientConnection, later: AnswerLaterError, serve: Callable[[], None]) -> None:
        """Watch the connection until the request is due, then run `serve` on the loop's thread. Thread-safe."""
        self._call_soon(partial(self._begin, connection, later, serve))

    def _begin(self, connection: ClientConnection, later: AnswerLaterError, serve: Callable[[], None]) -> None:
        connection.busy = False
        self._watcher.watch(connection, data=partial(self._readable, connection))
        later.start(lambda: self._call_soon(partial(self._resume, connection, serve)))

    def _resume(self, connection: ClientConnection, serve: Callable[[], None]) -> None:
        if connection.session.link.is_closed:
            return
        self._watcher.unwatch(connection)
        connection.busy = True
        serve()

    def _readable(self, connection: ClientConnection) -> None:
        if not connection.watched:
            # It was dropped, or its request is served again, in this turn.
            return
        try:
            # Not the method of TLS sockets, which can't peek.
            has_ended = not socket.socket.recv(connection.link, 1, socket.MSG_PEEK)
        except BlockingIOError:
            return
        except OSError:
            has_ended = True
        self._watcher.unwatch(connection)
        if has_ended:
            self._close(connection)
