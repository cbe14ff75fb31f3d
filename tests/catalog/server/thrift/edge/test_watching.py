"""Connections that are lent to threads: nothing they send is missed, and the loop does not turn for them meanwhile."""

import selectors
import socket
from collections.abc import Iterator

import pytest

from interbed.catalog.server.thrift.edge.call import ClientSession
from interbed.catalog.server.thrift.edge.codec import BinaryCodec
from interbed.catalog.server.thrift.edge.transport import BufferedFraming, ClientConnection
from interbed.catalog.server.thrift.edge.watching import ConnectionWatcher


class Watched:
    """A watcher with one connection, and its client."""

    def __init__(self) -> None:
        self.selector = selectors.DefaultSelector()
        self.watcher = ConnectionWatcher(self.selector)
        self.client, connected = socket.socketpair()
        connected.setblocking(False)
        self.connection = ClientConnection(connected, BufferedFraming(), BinaryCodec(), ClientSession(peer="a:1"))
        self.watcher.watch(self.connection)

    def has_events(self) -> bool:
        """Whether the selector names the connection now."""
        return bool(self.selector.select(0))

    def close(self) -> None:
        """Close both ends."""
        self.client.close()
        self.connection.link.close()
        self.selector.close()


@pytest.fixture
def watched() -> Iterator[Watched]:
    one = Watched()
    try:
        yield one
    finally:
        one.close()


def test_a_client_that_waits_for_its_reply_is_given_back_without_the_loop(watched: Watched) -> None:
    watched.watcher.lend(watched.connection)
    assert not watched.connection.watched
    assert not watched.has_events()
    assert watched.watcher.give_back(watched.connection)
    watched.client.send(b"x")
    assert watched.has_events()
    assert watched.watcher.has_event(watched.connection)


def test_what_comes_meanwhile_wakes_the_loop_once_and_is_seen_later(watched: Watched) -> None:
    watched.watcher.lend(watched.connection)
    watched.client.send(b"x")
    assert watched.has_events()
    assert not watched.watcher.has_event(watched.connection)
    assert not watched.has_events()
    assert not watched.watcher.give_back(watched.connection)
    watched.watcher.watch(watched.connection)
    assert watched.has_events()


def test_an_event_from_before_it_was_given_back_is_an_event(watched: Watched) -> None:
    watched.watcher.lend(watched.connection)
    watched.client.close()
    assert watched.has_events()
    assert watched.watcher.give_back(watched.connection)
    assert watched.watcher.has_event(watched.connection)


def test_one_that_is_no_longer_registered_has_no_events(watched: Watched) -> None:
    watched.watcher.lend(watched.connection)
    watched.watcher.unwatch(watched.connection)
    assert not watched.watcher.has_event(watched.connection)
    assert not watched.watcher.give_back(watched.connection)
    watched.watcher.unwatch(watched.connection)
    assert not watched.connection.is_registered
