"""The order in which a loop serves the sockets that are ready: those that it has done least for come first."""

import selectors
import time
from collections.abc import Callable, Iterator

from interbed.catalog.server.thrift.edge.transport import ClientConnection

CROWD = 16
"""The number of ready sockets from which on they are ordered, and served for a limited time."""

TURN_SECONDS_MAX = 0.01
"""How long a crowd is served before the loop looks again for ready sockets."""


def in_turn(events: list[tuple[selectors.SelectorKey, int]]) -> "Iterator[ClientConnection | Callable[[], None]]":
    """Yield the data of the ready sockets, each when it is to be served. Some of a crowd are left for the next turn."""
    if len(events) <= CROWD:
        for key, _ in events:
            yield key.data
        return
    started = before = time.monotonic()
    window = int(started)
    for data in sorted((key.data for key, _ in events), key=lambda data: _had(data, window)):
        yield data
        now = time.monotonic()
        if type(data) is ClientConnection:
            data.loop_seconds = now - before + (data.loop_seconds if data.loop_window == window else 0.0)
            data.loop_window = window
        if now - started > TURN_SECONDS_MAX:
            return
        before = now


def _had(data: object, window: int) -> float:
    """What the loop did for a connection in this second; everything else comes first."""
    if type(data) is not ClientConnection:
        return -1.0
    return data.loop_seconds if data.loop_window == window else 0.0
