"""Connections lent to threads: no data that they receive is missed, and the event loop does not spin meanwhile."""

import selectors
import socket
from collections.abc import Iterator

import pytest

from interbed.catalog.server.thrift.edge.call import ClientSession
from interbed.catalog.server.thrift.edge.codec import BinaryCodec
from interbed.catalog.server.thrift.edge.sockets import ConnectionWatcher
from interbed.catalog.server.thrift.edge.transport import BufferedFraming, ClientConnection


class WatchedConnection:
    """Watcher with one connection, and the client of the connection."""

    def __init__(self) -> None:
        self.selector = selectors.DefaultSelector()
        self.watcher = ConnectionWatcher(self.selector)
        self.client, connected = socket.socketpair()
        connected.setblocking(False)
        self.connection = ClientConnection(connected, BufferedFraming(), BinaryCodec(), ClientSession(peer="a:1"))
        self.watcher.watch(self.connection)

    def has_events(self) -> bool:
        """Return whether the selector reports the connection now."""
        return bool(self.selector.select(0))

    def close(self) -> None:
        """Close both ends of the connection."""
        self.client.close()
        self.connection.link.close()
        self.selector.close()


@pytest.fixture
def watched() -> Iterator[WatchedConnection]:
    one = WatchedConnection()
    try:
        yield one
    finally:
        one.close()


def test_a_connection_whose_client_waits_is_returned_without_the_event_loop(watched: WatchedConnection) -> None:
    watched.watcher.lend(watched.connection)
    assert not watched.connection.watched
    assert not watched.has_events()
    assert watched.watcher.give_back(watched.connection)
    watched.client.send(b"x")
    assert watched.has_events()
    assert watched.watcher.has_event(watched.connection)


def test_data_received_meanwhile_wakes_the_loop_once_and_is_seen_later(watched: WatchedConnection) -> None:
    watched.watcher.lend(watched.connection)
    watched.client.send(b"x")
    assert watched.has_events()
    assert not watched.watcher.has_event(watched.connection)
    assert not watched.has_events()
    assert not watched.watcher.give_back(watched.connection)
    watched.watcher.watch(watched.connection)
    assert watched.has_events()


def test_an_event_from_before_the_return_is_reported(watched: WatchedConnection) -> None:
    watched.watcher.lend(watched.connection)
    watched.client.close()
    assert watched.has_events()
    assert watched.watcher.give_back(watched.connection)
    assert watched.watcher.has_event(watched.connection)


def test_an_unregistered_connection_has_no_events(watched: WatchedConnection) -> None:
    watched.watcher.lend(watched.connection)
    watched.watcher.unwatch(watched.connection)
    assert not watched.watcher.has_event(watched.connection)
    assert not watched.watcher.give_back(watched.connection)
    watched.watcher.unwatch(watched.connection)
    assert not watched.connection.is_registered
