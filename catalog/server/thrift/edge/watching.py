"""The connections that a loop waits for, lends to a thread, or parks, and the order in which it serves ready sockets.

A connection that is lent stays registered with the selector, because most clients wait for their reply: the thread
gives it back without waking the loop. If the client sends more, or disconnects, the loop is woken in vain; it
unregisters the connection, and the thread has to return it through the loop.

A call parks its request by AnswerLaterError: the request is served again later, and occupies no thread until then.
Meanwhile the loop watches the connection for its end only, so that a client that disconnects is noticed at once. Bytes
that it sends before it has its answer stay in the socket's buffer.

Of many ready sockets those that have used the least time of the loop are served first.
"""

import logging
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial

from interbed.catalog.server.session import AnswerLaterError
from interbed.catalog.server.thrift.edge.transport import ClientConnection

logger = logging.getLogger(__name__)

CROWD = 16
"""Number of ready sockets from which on they are ordered, and served for a limited time."""

TURN_SECONDS_MAX = 0.01
"""Time that a crowd is served before the loop selects ready sockets again."""


class LoopTasks:
    """Functions that any thread passes to the loop's thread. A socket wakes the loop."""

    def __init__(self) -> None:
        self._tasks: deque[Callable[[], None]] = deque()
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)

    def watch(self, selector: selectors.BaseSelector) -> None:
        """Run the functions whenever the selector reports the socket."""
        selector.register(self._reader, selectors.EVENT_READ, self._run)

    def add(self, task: Callable[[], None]) -> None:
        """Run a function on the loop's thread; safe from any thread."""
        self._tasks.append(task)
        self.wake()

    def wake(self) -> None:
        """Wake the loop; safe in handlers of signals."""
        try:
            self._writer.send(b"x")
        except BlockingIOError:
            # The pipe is full of wake-ups.
            pass
        except OSError:
            logger.debug("the server has ended already")

    def close(self) -> None:
        """Close the socket that wakes the loop."""
        self._reader.close()
        self._writer.close()

    def _run(self) -> None:
        self._reader.recv(4096)
        while self._tasks:
            self._tasks.popleft()()


class ConnectionWatcher:
    """The connections of a loop in its selector. `lend`, `has_event` and registering methods are for the
    loop's thread.
    """

    def __init__(self, selector: selectors.BaseSelector) -> None:
        self._selector = selector
        self._guard = threading.Lock()

    def watch(self, connection: ClientConnection, events: int = selectors.EVENT_READ, data: object = None) -> None:
        """Wait for a connection, with `data` for its events, by default itself."""
        self._unregister(connection)
        self._selector.register(connection.link, events, connection if data is None else data)
        connection.is_registered = connection.watched = True

    def unwatch(self, connection: ClientConnection) -> None:
        """Stop waiting for a connection, if it is watched."""
        self._unregister(connection)
        connection.watched = False

    def lend(self, connection: ClientConnection) -> None:
        """Lend a watched connection to a thread."""
        if type(connection.link) is socket.socket:
            connection.watched = False
        else:
            # No selector reports the bytes that TLS has buffered, so that the loop has to check.
            self.unwatch(connection)

    def give_back(self, connection: ClientConnection) -> bool:
        """Watch a connection again that was lent; False if the loop has to do that on its thread; from any thread."""
        with self._guard:
            connection.watched = connection.is_registered
        return connection.watched

    def has_event(self, connection: ClientConnection) -> bool:
        """Return whether a connection with an event is watched. One that is lent is unregistered."""
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


class ParkedRequests:
    """The parked requests of an event loop.

    `call_soon` runs a function on the loop's thread. `close` is called with a connection that has ended and is not
    registered any more.
    """

    def __init__(
        self,
        watcher: ConnectionWatcher,
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


def in_turn(events: list[tuple[selectors.SelectorKey, int]]) -> "Iterator[ClientConnection | Callable[[], None]]":
    """Yield the data of the ready sockets, each when it is to be served. Some of a crowd are left for the next turn."""
    if len(events) <= CROWD:
        for key, _ in events:
            yield key.data
        return
    started = before = time.monotonic()
    window = int(started)
    for data in sorted((key.data for key, _ in events), key=lambda data: _used_seconds(data, window)):
        yield data
        now = time.monotonic()
        if type(data) is ClientConnection:
            data.loop_seconds = now - before + (data.loop_seconds if data.loop_window == window else 0.0)
            data.loop_window = window
        if now - started > TURN_SECONDS_MAX:
            return
        before = now


def _used_seconds(data: object, window: int) -> float:
    """Return the loop's time for a connection in this second; 0 for everything else, which comes first."""
    if type(data) is not ClientConnection:
        return -1.0
    return data.loop_seconds if data.loop_window == window else 0.0
