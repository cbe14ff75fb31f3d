"""Requests that are served again later: their connections are watched meanwhile, and no thread waits.

A call asks for that by AnswerLaterError. The loop watches the connection for its end alone: a client that goes away
is noticed at once, and what it sends before it has its answer waits in the kernel.
"""

import selectors
import socket
from collections.abc import Callable
from functools import partial

from interbed.catalog.server.edge.transport import ClientConnection
from interbed.catalog.server.session import AnswerLaterError


class ParkedRequests:
    """The parked requests of a loop. `call_soon` runs a function on the loop's thread; `close` gets a connection that
    has ended, not watched any more.
    """

    def __init__(
        self,
        selector: selectors.BaseSelector,
        call_soon: Callable[[Callable[[], None]], None],
        close: Callable[[ClientConnection], None],
    ) -> None:
        self._selector = selector
        self._call_soon = call_soon
        self._close = close

    def park(self, connection: ClientConnection, later: AnswerLaterError, serve: Callable[[], None]) -> None:
        """Watch the connection until `serve` is due, which then runs on the loop's thread; from any thread."""
        self._call_soon(partial(self._begin, connection, later, serve))

    def _begin(self, connection: ClientConnection, later: AnswerLaterError, serve: Callable[[], None]) -> None:
        connection.busy = False
        self._selector.register(connection.link, selectors.EVENT_READ, partial(self._stirred, connection))
        connection.watched = True
        later.start(lambda: self._call_soon(partial(self._resume, connection, serve)))

    def _resume(self, connection: ClientConnection, serve: Callable[[], None]) -> None:
        if connection.session.link.is_closed:
            return
        self._unwatch(connection)
        connection.busy = True
        serve()

    def _stirred(self, connection: ClientConnection) -> None:
        if not connection.watched:
            # It was dropped, or its request is served again, in this turn.
            return
        try:
            # Not the method of TLS sockets, which can't look without taking.
            has_ended = not socket.socket.recv(connection.link, 1, socket.MSG_PEEK)
        except BlockingIOError:
            return
        except OSError:
            has_ended = True
        self._unwatch(connection)
        if has_ended:
            self._close(connection)

    def _unwatch(self, connection: ClientConnection) -> None:
        if connection.watched:
            self._selector.unregister(connection.link)
            connection.watched = False
